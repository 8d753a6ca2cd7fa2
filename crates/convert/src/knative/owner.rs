//! Whose a host is: that of the namespace of the oldest Ingress that names it.

use std::sync::Arc;

use model::kinds::knative::{Ingress, Visibility};
use model::{Diagnostic, Kind, ObjectKey, ObjectName};
use store::index::ObjectIndex;

use super::rules::{HostRules, RulesAbout};
use super::{Place, key, told};
use crate::edge::OldestOf;
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Ingresses whose rules a host has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct MembersOf(pub(super) Place);

/// The Ingresses whose rules a host has.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Members {
    /// The oldest first, all of one namespace.
    pub(super) ingresses: Vec<(ObjectName, Arc<HostRules>)>,
    /// What is said to the others.
    pub(super) findings: Vec<Diagnostic>,
}

impl Derive for MembersOf {
    type Stratum = Routes;
    type Value = Arc<Members>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = read.names_by::<Ingress>(ObjectIndex::Host, &self.0.host);
        let stated = names.into_iter().filter_map(|ingress| {
            let about = RulesAbout {
                ingress: ingress.clone(),
                place: self.0.clone(),
            };
            let rules = read.derived(about).as_ref().clone()?;
            Some((ingress, rules))
        });
        let mut all: Vec<(ObjectName, Arc<HostRules>)> = stated.collect();
        all.sort_by(|(a, of_a), (b, of_b)| {
            (of_a.created, &a.name, &a.namespace).cmp(&(of_b.created, &b.name, &b.namespace))
        });
        let Some((first, _)) = all.first().cloned() else {
            return Arc::default();
        };
        let edge = match self.0.visibility {
            Visibility::ExternalIp => read.derived(OldestOf(self.0.host.clone())),
            Visibility::ClusterLocal => Arc::default(),
        };
        let mut members = Members::default();
        for (name, rules) in all {
            let owner = match edge.as_ref() {
                Some(edge) => ObjectKey {
                    kind: Kind::Ingress,
                    name: edge.clone(),
                },
                None if name.namespace == first.namespace => {
                    members.ingresses.push((name, rules));
                    continue;
                }
                None => key(&first),
            };
            let of = match edge.is_some() {
                true => "Kubernetes' ",
                false => "",
            };
            let message = format!(
                "is not served: the host is that of {of}{owner}, whose namespace it belongs to"
            );
            let found = told(&name, code::NOT_USED, rules.at.clone(), message);
            members.findings.push(found);
        }
        Arc::new(members)
    }
}

/// The namespace whose Service a cluster-local host is the name of: `web.shop`, `web.shop.svc`, and with the domain.
pub(super) fn namespace<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    let without = host
        .strip_suffix(domain)
        .and_then(|rest| rest.strip_suffix('.'));
    let service = without.unwrap_or(host).strip_suffix(".svc");
    let (name, namespace) = service.unwrap_or(host).rsplit_once('.')?;
    (service.is_some() || !name.contains('.')).then_some(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_services_are_of_their_namespace() {
        let table = [
            ("web.shop", Some("shop")),
            ("web.shop.svc", Some("shop")),
            ("web.shop.svc.cluster.local", Some("shop")),
            ("next.web.shop.svc.cluster.local", Some("shop")),
            ("web.example.com", None),
            ("web", None),
            ("svc.cluster.local", None),
        ];
        for (host, wanted) in table {
            assert_eq!(namespace(host, "cluster.local"), wanted, "{host}");
        }
    }
}
