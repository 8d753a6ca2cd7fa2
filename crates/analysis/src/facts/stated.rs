//! What objects state that others may contradict, without what changes often: endpoints come and go, and nothing between
//! objects has to be looked at because of that.

use std::collections::BTreeSet;

use incr::{Cx, Query};
use model::kinds::istio::{DestinationRule, ServiceEntry};
use model::{Age, ObjectName};
use store::{Reads, Snapshot};

use super::hosts::{full_name, scopes};

/// What a ServiceEntry states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// As they are written.
    pub(crate) hosts: Vec<String>,
    /// Numbers and protocols.
    pub(crate) ports: Vec<(u32, String)>,
    /// `*`, or the namespaces that see it.
    pub(crate) scopes: BTreeSet<String>,
}

/// What the ServiceEntry of this name states.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct EntryOf(pub(crate) ObjectName);

impl Query<Snapshot> for EntryOf {
    type Value = Option<Entry>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let object = cx.get::<ServiceEntry>(&self.0)?;
        let spec = &object.spec;
        let ports = spec.ports.iter();
        Some(Entry {
            hosts: spec.hosts.clone(),
            ports: ports.map(|p| (p.number, p.protocol.clone())).collect(),
            scopes: scopes(object.namespace(), &spec.export_to),
        })
    }
}

/// What a DestinationRule states for all workloads of its namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DestinationRuleFacts {
    /// In full.
    pub(crate) host: String,
    /// Whether it has a traffic policy.
    pub(crate) policy: bool,
    /// The names of its subsets, in the order written.
    pub(crate) subsets: Vec<String>,
    /// When it was created.
    pub(crate) created: Age,
}

/// What the DestinationRule of this name states; `None` where it is for some workloads alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DestinationRuleOf(pub(crate) ObjectName);

impl Query<Snapshot> for DestinationRuleOf {
    type Value = Option<DestinationRuleFacts>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let object = cx.get::<DestinationRule>(&self.0)?;
        let spec = &object.spec;
        if spec.workload_selector.is_some() {
            return None;
        }
        Some(DestinationRuleFacts {
            host: full_name(object.namespace(), &spec.host, &cx.settings().domain),
            policy: spec.traffic_policy.is_some(),
            subsets: spec.subsets.iter().map(|s| s.name.clone()).collect(),
            created: object.meta.created,
        })
    }
}
