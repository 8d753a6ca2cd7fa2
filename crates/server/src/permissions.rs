//! What a server asks of a Kubernetes API, as rules of RBAC: each resource with the verbs that are used on it, no other.
//!
//! `pilothouse permissions` prints them, `create-remote-secret` grants them, and the chart's roles are generated from them.
//! `.ci/chart` runs a server with exactly these rights, and compares them with the audit log of a real API server.

use std::collections::BTreeMap;

use clap::ValueEnum;
use model::Kind;
use serde_json::{Value, json};

/// What of a server needs rights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Feature {
    /// Reading configuration, services and endpoints, without which there is nothing to serve.
    Reading,
    /// Reading the Ingresses of a remote cluster (pilothouse.io/ingress-class, `--remote-ingress-class`).
    Ingresses,
    /// Their status, in that cluster (pilothouse.io/ingress-status, `--remote-ingress-status`).
    IngressStatuses,
    /// Reviews of tokens, by which proxies prove who they are, and of who may read Secrets (`--review-secret-access`).
    Reviews,
    /// Roots of the mesh in each namespace (`--distribute-roots`).
    Roots,
    /// Roots in the ClusterTrustBundle of a cluster (`--cluster-trust-bundles`).
    TrustBundles,
    /// Roots in webhook configurations (`--injection-webhook`, `--validation-webhook`).
    Webhooks,
    /// Statuses, Events of Ingresses, and the addresses of ServiceEntries (`--write-status`).
    Statuses,
    /// Findings in the status of Istio's kinds (`--write-analysis`).
    Analysis,
    /// What is deployed for Gateways, and GatewayClasses (`--deploy-gateways`, `--create-gateway-classes`).
    Deployments,
    /// WorkloadEntries of workloads that connect (`--register-workloads`).
    Registration,
    /// The CA, in a Secret (`--enable-ca-server`).
    Ca,
    /// Certificates ordered by ACME, in Secrets (`--acme-host`, and the ConfigMap higress-https). In another namespace than that
    /// of the control plane, they need a role there.
    Acme,
    /// Certificates of the cluster's signers in place of the CA's (`--external-ca`).
    Signers,
}

/// Where rights hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

impl Rule {
    /// As an element of a role's `rules`.
    pub fn json(&self) -> Value {
        json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs})
    }
}

const STATUS: &str = "/status";
/// What a watch takes.
const READ: &[&str] = &["list", "watch"];
/// What a write of a status takes: the object as it is, and the new status.
const LOOK: &[&str] = &["get"];
const REPLACE: &[&str] = &["update"];

/// The rules for a feature, one for each group and set of verbs.
pub fn rules(reach: Reach, feature: Feature) -> Vec<Rule> {
    let all = || Kind::ALL.iter().copied();
    match (reach, feature) {
        (Reach::Cluster, Feature::Reading) => of_kinds(all(), "", READ),
        (Reach::Remote, Feature::Reading) => {
            of_kinds(all().filter(|k| k.is_read_remotely()), "", READ)
        }
        (Reach::Remote, Feature::Ingresses) => {
            of_kinds(all().filter(|k| k.is_read_remotely_on_request()), "", READ)
        }
        (Reach::Remote, Feature::IngressStatuses) => [
            statuses([Kind::Ingress]),
            leases(&["get", "create", "update"]),
        ]
        .concat(),
        (Reach::Cluster | Reach::Remote, Feature::Reviews) => vec![
            review("authentication.k8s.io", "tokenreviews"),
            review("authorization.k8s.io", "subjectaccessreviews"),
        ],
        (Reach::Cluster, Feature::Roots) => config_maps(),
        (Reach::Remote, Feature::Roots) => {
            [config_maps(), leases(&["get", "create", "update"])].concat()
        }
        (Reach::Cluster | Reach::Remote, Feature::TrustBundles) => trust_bundles(),
        (Reach::Cluster, Feature::Webhooks) => [
            webhooks(&[Kind::MutatingWebhook, Kind::ValidatingWebhook]),
            // A bad one is offered, and not made.
            of_kinds([Kind::Gateway].into_iter(), "", &["create"]),
        ]
        .concat(),
        (Reach::Remote, Feature::Webhooks) => webhooks(&[Kind::MutatingWebhook]),
        (Reach::Cluster, Feature::Statuses) => {
            let derived = convert::status::KINDS.into_iter();
            let events = Rule {
                group: "",
                resources: vec!["events".to_owned()],
                verbs: &["get", "create", "update"],
            };
            [statuses(derived.chain([Kind::ServiceEntry])), vec![events]].concat()
        }
        (Reach::Cluster, Feature::Analysis) => statuses(all().filter(|k| k.has_analysis_status())),
        (Reach::Cluster, Feature::Deployments) => deployments(),
        (Reach::Cluster, Feature::Registration) => {
            let entry = || [Kind::WorkloadEntry].into_iter();
            let written = of_kinds(entry(), "", &["get", "create", "update", "delete"]);
            [written, of_kinds(entry(), STATUS, REPLACE)].concat()
        }
        (Reach::Cluster, Feature::Signers) => signers(),
        (Reach::Namespace, Feature::Ca) => vec![Rule {
            group: "",
            resources: vec!["secrets".to_owned()],
            verbs: &["get", "create", "update"],
        }],
        (Reach::Namespace, Feature::Acme) => {
            let secrets = Rule {
                group: "",
                resources: vec!["secrets".to_owned()],
                verbs: &["get", "create", "update", "delete"],
            };
            [vec![secrets], leases(&["get", "create", "update"])].concat()
        }
        (
            Reach::Cluster,
            Feature::Ca | Feature::Acme | Feature::Ingresses | Feature::IngressStatuses,
        ) => Vec::new(),
        (
            Reach::Namespace,
            Feature::Statuses | Feature::Roots | Feature::TrustBundles | Feature::Deployments,
        ) => leases(&["get", "create", "update"]),
        (Reach::Namespace, Feature::Registration) => leases(&["get", "create", "update", "delete"]),
        (Reach::Namespace | Reach::Remote, _) => Vec::new(),
    }
}

fn review(group: &'static str, resource: &str) -> Rule {
    Rule {
        group,
        resources: vec![resource.to_owned()],
        verbs: &["create"],
    }
}

fn leases(verbs: &'static [&'static str]) -> Vec<Rule> {
    vec![Rule {
        group: "coordination.k8s.io",
        resources: vec!["leases".to_owned()],
        verbs,
    }]
}

/// What it takes to write roots.
fn config_maps() -> Vec<Rule> {
    vec![Rule {
        group: "",
        resources: vec!["configmaps".to_owned()],
        verbs: &["get", "create", "update"],
    }]
}

fn of_certificates(resource: &str, verbs: &'static [&'static str]) -> Rule {
    Rule {
        group: "certificates.k8s.io",
        resources: vec![resource.to_owned()],
        verbs,
    }
}

/// What it takes to write a bundle that workloads get in a volume.
fn trust_bundles() -> Vec<Rule> {
    vec![
        of_certificates("clustertrustbundles", &["get", "create", "update"]),
        of_certificates("signers", &["attest"]),
    ]
}

/// What it takes to have requests signed, by any signer.
fn signers() -> Vec<Rule> {
    vec![
        of_certificates("certificatesigningrequests", &["get", "create", "delete"]),
        of_certificates("certificatesigningrequests/approval", REPLACE),
        of_certificates("signers", &["approve"]),
    ]
}

/// What it takes to change webhook configurations.
fn webhooks(kinds: &[Kind]) -> Vec<Rule> {
    of_kinds(kinds.iter().copied(), "", &["get", "update"])
}

/// What it takes to deploy Gateways: their objects, a mark on each Gateway, and classes.
fn deployments() -> Vec<Rule> {
    const KEEP: &[&str] = &["list", "watch", "get", "create", "patch"];
    const KEEP_ON_DEMAND: &[&str] = &["list", "watch", "get", "create", "patch", "delete"];
    let kept = inject::gateway::KINDS.iter().map(|kind| Rule {
        group: kind.group,
        resources: vec![kind.plural.to_owned()],
        verbs: match kind.group {
            "" | "apps" => KEEP,
            _ => KEEP_ON_DEMAND,
        },
    });
    let gateway = || [Kind::KubeGateway].into_iter();
    kept.chain(of_kinds(gateway(), "", LOOK))
        .chain(of_kinds(gateway(), STATUS, &["patch"]))
        .chain(of_kinds(
            [Kind::GatewayClass].into_iter(),
            "",
            &["get", "create"],
        ))
        .collect()
}

/// What it takes to write the statuses of these kinds.
fn statuses(kinds: impl IntoIterator<Item = Kind>) -> Vec<Rule> {
    let kinds: Vec<Kind> = kinds.into_iter().collect();
    let looked_at = of_kinds(kinds.iter().copied(), "", LOOK);
    [looked_at, of_kinds(kinds.into_iter(), STATUS, REPLACE)].concat()
}

/// A rule for each group of these kinds.
fn of_kinds(
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
