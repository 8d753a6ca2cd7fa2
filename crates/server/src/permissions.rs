//! What a server asks of a Kubernetes API, as rules of RBAC: each resource with the verbs that are used on it, no other.
//!
//! The chart's roles are generated from this table (`pilothouse permissions`).

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use model::Kind;

/// Where rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Reach {
    /// All of the cluster that is configured.
    Cluster,
    /// The namespace of the control plane in that cluster.
    Namespace,
    /// All of a remote cluster.
    Remote,
}

/// Verbs on resources of an API group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Empty for the core group.
    pub group: &'static str,
    /// As in paths, with `/status` for that part.
    pub resources: Vec<String>,
    /// As RBAC names them.
    pub verbs: &'static [&'static str],
}

/// Rules with what they are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Purpose {
    /// A sentence.
    pub words: &'static str,
    /// What it takes.
    pub rules: Vec<Rule>,
}

/// What a watch takes.
const READ: &[&str] = &["list", "watch"];

/// What objects of our own take.
const WRITE: &[&str] = &["create", "delete", "get", "update"];

/// What workloads that register themselves take, of one part of their entries.
fn registered(part: &str) -> Purpose {
    let entries = std::iter::once(Kind::WorkloadEntry);
    match part {
        "" => Purpose {
            words: "Entries of workloads that register themselves.",
            rules: kinds(entries, part, WRITE),
        },
        _ => Purpose {
            words: "Their health.",
            rules: kinds(entries, part, &["update"]),
        },
    }
}

/// Everything that is needed there.
pub fn purposes(reach: Reach) -> Vec<Purpose> {
    match reach {
        Reach::Cluster => vec![
            Purpose {
                words: "Configuration, services and endpoints.",
                rules: kinds(Kind::ALL.iter().copied(), "", READ),
            },
            registered(""),
            registered("/status"),
        ],
        Reach::Namespace => vec![Purpose {
            words: "Who leads, and which replicas there are that workloads registered through.",
            rules: vec![Rule {
                group: "coordination.k8s.io",
                resources: vec!["leases".to_owned()],
                verbs: WRITE,
            }],
        }],
        Reach::Remote => vec![Purpose {
            words: "Services, endpoints, and the credentials of gateways there.",
            rules: kinds(
                Kind::ALL.iter().copied().filter(|k| k.is_per_cluster()),
                "",
                READ,
            ),
        }],
    }
}

/// A rule for each group of these kinds.
fn kinds(
    kinds: impl Iterator<Item = Kind>,
    part: &str,
    verbs: &'static [&'static str],
) -> Vec<Rule> {
    let mut groups: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        let resource = format!("{}{part}", kind.plural());
        groups.entry(kind.group()).or_default().push(resource);
    }
    let rule = |(group, mut resources): (_, Vec<_>)| {
        resources.sort_unstable();
        Rule {
            group,
            resources,
            verbs,
        }
    };
    groups.into_iter().map(rule).collect()
}

/// As YAML: an element of `rules`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "- apiGroups: [{:?}]", self.group)?;
        writeln!(f, "  resources: [{}]", self.resources.join(", "))?;
        writeln!(f, "  verbs: [{}]", self.verbs.join(", "))
    }
}

/// As YAML: elements of `rules` below a comment.
impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.words)?;
        self.rules.iter().try_for_each(|rule| rule.fmt(f))
    }
}
