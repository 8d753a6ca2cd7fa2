//! The Ingresses of Knative that may say something about a host, and whose the hosts of Services are.

use std::sync::Arc;

use model::kinds::knative::{Ingress, Visibility};
use model::{Kind, ObjectName};
use store::index::ObjectIndex;

use super::Place;
use super::rules::{HostRules, RulesAbout};
use crate::edge::OldestOf;
use crate::owner::{Members, OwnerOf, oldest};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Ingresses that may say something about a host.
///
/// A host that everybody reaches has an owner among Ingresses of both kinds; a cluster-local one, which may be another's
/// outside, among those that name it as cluster-local.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct MembersOf(pub(super) Place);

impl Derive for MembersOf {
    type Stratum = Routes;
    type Value = Arc<Members<HostRules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let Place { visibility, host } = &self.0;
        let names = read.names_by::<Ingress>(ObjectIndex::Host, host);
        let stated = names.into_iter().filter_map(|ingress| {
            let about = RulesAbout {
                ingress: ingress.clone(),
                place: self.0.clone(),
            };
            let rules = read.derived(about).as_ref().clone()?;
            Some((ingress, rules))
        });
        let stated: Vec<(ObjectName, Arc<HostRules>)> = stated.collect();
        if stated.is_empty() {
            return Arc::default();
        }
        let about = (Kind::KnativeIngress, host);
        let owner = match visibility {
            Visibility::ExternalIp => read.derived(OwnerOf(host.clone())).as_ref().clone(),
            Visibility::ClusterLocal => oldest(about, &stated),
        };
        let mut members = Members::of(read, owner.as_ref(), about, stated);
        let edge = match visibility {
            Visibility::ExternalIp => read.derived(OldestOf(host.clone())),
            Visibility::ClusterLocal => Arc::default(),
        };
        if let Some(edge) = edge.as_ref() {
            let message = format!("is not served: Kubernetes' Ingress {edge} has the host");
            members.give_way(Kind::KnativeIngress, &message);
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
