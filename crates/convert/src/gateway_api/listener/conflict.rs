//! Listeners of one Gateway that cannot be told apart: of each such pair the one that came later is refused.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/listener_conflict.go, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::kinds::gateway_api::{Gateway, Listener, ListenerSet};
use model::{Object, ObjectKey, ObjectName};
use store::index::{ObjectIndex, reference_value};

use super::owner::{controller_of, lets_in};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The reasons why listeners of one object are refused, by their names.
type Reasons = BTreeMap<Arc<str>, &'static str>;

/// The listeners of a Gateway and of what adds to it that conflict with others, by the objects that they are in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ConflictsOf(ObjectName);

impl Derive for ConflictsOf {
    type Stratum = Routes;
    type Value = BTreeMap<ObjectKey, Reasons>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let Some(gateway) = read.get::<Gateway>(&self.0) else {
            return BTreeMap::new();
        };
        let controller = controller_of(read, &gateway);
        if !controller.is_some_and(|controller| controller.takes_listener_sets()) {
            return BTreeMap::new();
        }
        let parent = reference_value(&gateway.key());
        let mut sets = read.list_by::<ListenerSet>(ObjectIndex::Parent, &parent);
        sets.retain(|set| {
            set.meta.name.cluster.is_none() && lets_in(read, &gateway, set.namespace())
        });
        conflicts(&gateway, sets)
    }
}

/// The listeners of a Gateway or ListenerSet that conflict with others of the same Gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ConflictsIn {
    /// The Gateway.
    pub(super) gateway: ObjectName,
    /// It, or the ListenerSet.
    pub(super) object: ObjectKey,
}

impl Derive for ConflictsIn {
    type Stratum = Routes;
    type Value = Reasons;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let all = read.derived(ConflictsOf(self.gateway.clone()));
        all.get(&self.object).cloned().unwrap_or_default()
    }
}

/// A Gateway's own listeners come first, then those of ListenerSets, the oldest first.
fn conflicts(
    gateway: &Object<Gateway>,
    mut sets: Vec<Arc<Object<ListenerSet>>>,
) -> BTreeMap<ObjectKey, Reasons> {
    sets.sort_by(|a, b| {
        let (older, newer) = (&a.meta, &b.meta);
        let names = || {
            older
                .name
                .namespace
                .cmp(&newer.name.namespace)
                .then_with(|| older.name.name.cmp(&newer.name.name))
        };
        older.created.cmp(&newer.created).then_with(names)
    });
    let own = gateway
        .spec
        .listeners
        .iter()
        .map(|listener| (gateway.key(), listener));
    let added = sets.iter().flat_map(|set| {
        let key = set.key();
        set.spec
            .listeners
            .iter()
            .map(move |listener| (key.clone(), listener))
    });
    let mut ports: BTreeMap<u16, Port<'_>> = BTreeMap::new();
    let mut conflicts: BTreeMap<ObjectKey, Reasons> = BTreeMap::new();
    for (owner, listener) in own.chain(added) {
        if let Err(reason) = ports.entry(listener.port).or_default().take(listener) {
            let reasons = conflicts.entry(owner).or_default();
            reasons.insert(listener.name.clone(), reason);
        }
    }
    conflicts
}

/// What listens on a port.
#[derive(Default)]
struct Port<'a> {
    /// Whether the first is for streams or datagrams, beside which there is no place.
    whole: bool,
    /// Protocols of listeners with a host, by hosts.
    hosts: BTreeMap<&'a str, &'a str>,
    /// Protocols that only we know.
    others: BTreeSet<&'a str>,
}

const PROTOCOL: &str = "ProtocolConflict";
const HOSTNAME: &str = "HostnameConflict";

impl<'a> Port<'a> {
    /// Takes a listener, or says why it cannot stand beside those that are there.
    fn take(&mut self, listener: &'a Listener) -> Result<(), &'static str> {
        let protocol = &*listener.protocol;
        match protocol {
            "TCP" | "UDP" => {
                if self.whole || !self.hosts.is_empty() {
                    return Err(PROTOCOL);
                }
                self.whole = true;
            }
            "HTTP" | "HTTPS" | "TLS" => {
                if self.whole {
                    return Err(PROTOCOL);
                }
                let host = listener.hostname.as_deref().filter(|host| !host.is_empty());
                let host = host.unwrap_or("*");
                if let Some(other) = self.hosts.get(host) {
                    return Err(if *other == protocol {
                        HOSTNAME
                    } else {
                        PROTOCOL
                    });
                }
                self.hosts.insert(host, protocol);
            }
            _ if !self.others.insert(protocol) => return Err(HOSTNAME),
            _ => {}
        }
        Ok(())
    }
}
