//! What policies are about, and which of them wins.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::gateway_api::{BackendTlsPolicy, PolicyTargetRef};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::{Kind, ObjectKey, ObjectName};
use store::index::{ObjectIndex, reference_value};

use super::is_ignored;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// A backend as policies see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Target {
    /// Its hosts, each once.
    pub hosts: Vec<Arc<str>>,
    /// The numbers of its ports by name.
    pub ports: BTreeMap<Arc<str>, u32>,
}

/// A Service or ServiceEntry as policies see it; `None` where there is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in super::super) struct TargetOf(pub ObjectKey);

impl Derive for TargetOf {
    type Stratum = Routes;
    type Value = Option<Target>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ObjectName {
            namespace, name, ..
        } = &self.0.name;
        match self.0.kind {
            Kind::Service => {
                let service = read.get::<Service>(&self.0.name)?;
                let domain = &read.settings().domain;
                let ports = service.spec.ports.iter().rev();
                Some(Target {
                    hosts: vec![format!("{name}.{namespace}.svc.{domain}").into()],
                    ports: ports
                        .filter_map(|port| Some((port.name.clone(), port.port.try_into().ok()?)))
                        .collect(),
                })
            }
            Kind::ServiceEntry => {
                let entry = read.get::<ServiceEntry>(&self.0.name)?;
                let ports = entry.spec.ports.iter().rev();
                let mut hosts: Vec<Arc<str>> =
                    entry.spec.hosts.iter().map(|h| h.as_str().into()).collect();
                hosts.sort();
                hosts.dedup();
                Some(Target {
                    hosts,
                    ports: ports
                        .map(|port| (port.name.as_str().into(), port.number))
                        .collect(),
                })
            }
            _ => None,
        }
    }
}

/// The part of a target that a policy is about: a port by name; `None` for all of it.
pub(in super::super) fn section(reference: &PolicyTargetRef) -> Option<&Arc<str>> {
    reference
        .section_name
        .as_ref()
        .filter(|name| !name.is_empty())
}

/// The BackendTLSPolicies of a backend that win, by the part that they are about.
///
/// Istio: btlsIsConflicted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in super::super) struct TlsPoliciesOf(pub ObjectKey);

impl Derive for TlsPoliciesOf {
    type Stratum = Routes;
    type Value = BTreeMap<Option<Arc<str>>, ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let value = reference_value(&self.0);
        let mut policies = read.list_by::<BackendTlsPolicy>(ObjectIndex::Target, &value);
        policies.retain(|policy| !is_ignored(&policy.meta.annotations));
        policies.sort_by(|a, b| {
            let by_age = a.meta.created.cmp(&b.meta.created);
            by_age.then_with(|| a.meta.name.cmp(&b.meta.name))
        });
        let mut winners = BTreeMap::new();
        for policy in policies {
            let refs = policy.spec.target_refs.iter();
            let ours = refs.filter(|to| {
                *to.name == *self.0.name.name
                    && Kind::find(&to.group, &to.kind) == Some(self.0.kind)
            });
            for to in ours {
                let winner = winners.entry(section(to).cloned());
                winner.or_insert_with(|| policy.meta.name.clone());
            }
        }
        winners
    }
}
