//! Which remote clusters there are to be, of all that names some.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::names::ClusterId;
use model::object::{ObjectKey, Origin};
use model::{Diagnostic, Severity};

use super::code;
use super::ingress::Said;

/// The longest id of a cluster, in bytes: that of a key of a Secret.
const LONGEST_ID: usize = 253;

/// A Secret or file that holds kubeconfigs.
#[derive(Clone)]
pub struct Holder {
    /// `namespace/name` of a Secret, or the path of a file.
    pub name: Arc<str>,
    /// The Secret.
    pub object: Option<ObjectKey>,
    /// Where it was read from.
    pub origin: Origin,
    /// Kubeconfigs by the ids of clusters.
    pub data: BTreeMap<Arc<str>, Arc<[u8]>>,
    /// Which Ingresses of its clusters are served.
    pub ingresses: Said,
    /// Why it cannot be read; the clusters it named before stay.
    pub fault: Option<Arc<str>>,
}

/// Every holder, by name.
pub type Holders = Arc<[Holder]>;

/// A cluster that is to be read.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) holder: Holder,
    pub(super) kubeconfig: Arc<[u8]>,
}

/// Secrets must not be shown.
impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.holder.name, self.kubeconfig.len())
    }
}

/// What there is to be, and what is left out of it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clusters: BTreeMap<ClusterId, Wanted>,
    pub(super) found: Vec<Diagnostic>,
}

/// Chooses: of several holders of one cluster the first by name; of too many clusters first those that are `known`, so that
/// nothing that is added takes away what is there.
pub(super) fn plan(
    holders: &[Holder],
    configured: &ClusterId,
    known: &BTreeSet<ClusterId>,
    limit: usize,
) -> Plan {
    let mut named: BTreeMap<ClusterId, Wanted> = BTreeMap::new();
    let mut found = Vec::new();
    for holder in holders {
        if let Some(fault) = &holder.fault {
            found.push(holder.finding(
                Severity::Error,
                code::REMOTE_REFUSED,
                "",
                fault.to_string(),
            ));
        }
        for (annotation, fault) in &holder.ingresses.faults {
            let (severity, code) = (Severity::Warning, code::REMOTE_INGRESS);
            let path = format!("metadata.annotations[{annotation:?}]");
            found.push(holder.finding(severity, code, &path, fault.clone()));
        }
        for (id, kubeconfig) in &holder.data {
            let mut unused = |message: String| {
                let path = holder.path(id);
                found.push(holder.finding(Severity::Warning, code::REMOTE_UNUSED, &path, message));
            };
            let id = ClusterId::from(&**id);
            if id == *configured {
                unused(format!(
                    "is not used: {id} is the cluster that configures the mesh"
                ));
            } else if id.as_str().is_empty() || id.as_str().len() > LONGEST_ID {
                unused("is not used: it is no id of a cluster".to_owned());
            } else if let Some(other) = named.get(&id) {
                let other = &other.holder.name;
                unused(format!(
                    "is not used: {other} has cluster {id} as well, and comes first"
                ));
            } else {
                let wanted = Wanted {
                    holder: holder.clone(),
                    kubeconfig: kubeconfig.clone(),
                };
                named.insert(id, wanted);
            }
        }
    }
    let mut order: Vec<&ClusterId> = named.keys().collect();
    order.sort_by_key(|id| (!known.contains(*id), *id));
    let surplus: Vec<ClusterId> = order.into_iter().skip(limit).cloned().collect();
    for id in surplus {
        if let Some(Wanted { holder, .. }) = named.remove(&id) {
            let message = format!(
                "cluster {id} is not read: there are more than {limit} remote clusters (--max-remote-clusters)"
            );
            let path = holder.path(id.as_str());
            found.push(holder.finding(Severity::Error, code::REMOTE_UNUSED, &path, message));
        }
    }
    Plan {
        clusters: named,
        found,
    }
}

impl Holder {
    /// A finding about it.
    pub(super) fn finding(
        &self,
        severity: Severity,
        code: &'static str,
        path: &str,
        message: impl Into<Arc<str>>,
    ) -> Diagnostic {
        let mut finding = Diagnostic::new(code, severity, message).at(path);
        finding.object = self.object.clone();
        finding.origin = Some(self.origin.clone());
        finding
    }

    /// The field of a cluster's kubeconfig.
    pub(super) fn path(&self, id: &str) -> String {
        match self.object {
            Some(_) => format!("data[\"{id}\"]"),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, ids: &[&str]) -> Holder {
        let data = ids.iter().map(|id| (Arc::from(*id), Arc::from(*b"x")));
        Holder {
            name: name.into(),
            object: None,
            origin: Origin::File {
                path: std::path::Path::new(name).into(),
                line: 1,
            },
            data: data.collect(),
            ingresses: Said::default(),
            fault: None,
        }
    }

    fn planned(holders: &[Holder], known: &[&str], limit: usize) -> (String, String) {
        let known = known.iter().map(|id| ClusterId::from(*id)).collect();
        let plan = plan(holders, &"own".into(), &known, limit);
        let clusters = plan.clusters.iter();
        let clusters: Vec<String> = clusters
            .map(|(id, w)| format!("{id}:{}", w.holder.name))
            .collect();
        let found: Vec<&str> = plan.found.iter().map(|f| &*f.message).collect();
        (clusters.join(" "), found.join("; "))
    }

    #[test]
    fn each_cluster_has_one_holder_and_the_configured_one_none() {
        let holders = [
            holder("a", &["east", "own"]),
            holder("b", &["east", "west"]),
        ];
        let (clusters, found) = planned(&holders, &[], 9);
        assert_eq!(clusters, "east:a west:b");
        assert_eq!(
            found,
            "is not used: own is the cluster that configures the mesh; \
             is not used: a has cluster east as well, and comes first"
        );
    }

    #[test]
    fn of_too_many_those_that_are_read_stay() {
        let holders = [holder("a", &["b", "c", "d"])];
        let (clusters, found) = planned(&holders, &["d"], 2);
        assert_eq!(clusters, "b:a d:a");
        assert!(found.contains("cluster c is not read"), "{found}");
    }

    #[test]
    fn kubeconfigs_do_not_show() {
        let holders = [holder("a", &["b"])];
        let plan = plan(&holders, &"own".into(), &BTreeSet::new(), 9);
        assert!(format!("{plan:?}").contains("a (1 bytes)"));
    }
}
