//! What a proxy asks for when it connects: an entry of its own in a WorkloadGroup, or to look after one that was written.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::kinds::istio::WorkloadGroup;
use model::labels;
use model::names::{Name, Network};
use model::node::{Identity, Node};
use model::object::{Object, ObjectName};
use model::peer::network_of;
use serde_json::Value;

use crate::refusal::Refusal;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// The longest network or locality that a claim may state.
const LONGEST_WORD: usize = 253;

/// The longest value of a label.
const LONGEST_VALUE: usize = 63;

/// Labels that a claim may state.
const MOST_LABELS: usize = 64;

/// What becomes of the entry that a claim is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// It is made of a WorkloadGroup, and deleted when the workload is gone.
    Register {
        /// The group, in the namespace of the entry.
        group: Name,
    },
    /// It was written by somebody, and its health is that which the proxy reports.
    LookAfter,
}

/// What a proxy asks for when it connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The name of the entry.
    pub entry: ObjectName,
    /// What for.
    pub wish: Wish,
    /// The address of the workload.
    pub address: IpAddr,
    /// The network that it states, as it is written; empty if none.
    pub network: Network,
    /// Its labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// `region/zone/subzone`; empty if none.
    pub locality: Arc<str>,
    /// Whether its agent probes it and reports its health.
    pub probed: bool,
    /// Who the proxy has proven to be.
    pub identity: Option<Identity>,
    /// The network that the proxy connects from, for limits.
    pub peer: IpAddr,
}

/// Which claims are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Entries are made of groups.
    pub registers: bool,
    /// Health is taken.
    pub health: bool,
}

impl Claim {
    /// What a proxy asks for that connects from an address; `None` if nothing.
    ///
    /// Istio: pilot/pkg/autoregistration/controller.go OnConnect, 1.32.
    ///
    /// # Errors
    ///
    /// When no entry can be made of what it states.
    pub fn of(node: &Node, peer: IpAddr, taken: Taken) -> Result<Option<Self>, Refusal> {
        let text = |key: &str| {
            let stated = node.metadata.get(key).and_then(Value::as_str);
            stated.filter(|text| !text.is_empty())
        };
        let (wish, written) = match (text("AUTO_REGISTER_GROUP"), text("WORKLOAD_ENTRY")) {
            (Some(group), _) if taken.registers => {
                let group = group.into();
                (Wish::Register { group }, None)
            }
            (_, Some(entry)) if taken.health => (Wish::LookAfter, Some(entry)),
            _ => return Ok(None),
        };
        if node.namespace.is_empty() {
            return Err(Refusal::Namespace);
        }
        let first = node.addresses.first().copied();
        let address = first.ok_or_else(|| Refusal::Address("none".into()))?;
        let name = match (&wish, written) {
            (Wish::Register { group }, _) => {
                object_name(group).ok_or_else(|| Refusal::UnknownGroup {
                    group: shown(group).into(),
                    namespace: node.namespace.clone(),
                })?;
                check_address(address, peer)?;
                if node.network.len() > LONGEST_WORD {
                    return Err(Refusal::TooLong("network"));
                }
                entry_name(group, address, &node.network)
            }
            (Wish::LookAfter, Some(entry)) => {
                let entry = object_name(entry).ok_or(Refusal::UnknownEntry)?;
                entry.to_owned()
            }
            (Wish::LookAfter, None) => return Ok(None),
        };
        let locality = node.locality.to_string();
        if locality.len() > LONGEST_WORD {
            return Err(Refusal::TooLong("locality"));
        }
        Ok(Some(Self {
            entry: ObjectName::new(node.namespace.clone(), name.as_str()),
            labels: match &wish {
                Wish::Register { .. } => labels_of(node)?,
                Wish::LookAfter => BTreeMap::new(),
            },
            wish,
            address,
            network: node.network.clone(),
            locality: locality.into(),
            probed: is_probed(node),
            identity: node.identity.clone(),
            peer: network_of(peer),
        }))
    }

    /// The group that the entry is made of, if it is.
    pub fn group(&self) -> Option<ObjectName> {
        match &self.wish {
            Wish::Register { group } => {
                let namespace = self.entry.namespace.clone();
                Some(ObjectName::new(namespace, group.clone()))
            }
            Wish::LookAfter => None,
        }
    }

    /// Whether the proxy may have an entry with this service account; `checked` is off where nobody's identity is asked
    /// after.
    ///
    /// Istio: pilot/pkg/autoregistration/controller.go ensureProxyCanControlEntry, 1.32.
    ///
    /// # Errors
    ///
    /// When it is another's.
    pub fn may_have(&self, service_account: &str, checked: bool) -> Result<(), Refusal> {
        if !checked {
            return Ok(());
        }
        let Some(identity) = &self.identity else {
            return Err(Refusal::NoIdentity);
        };
        let same = identity.namespace == self.entry.namespace
            && (service_account.is_empty() || *identity.service_account == *service_account);
        match same {
            true => Ok(()),
            false => Err(Refusal::OtherIdentity {
                identity: identity.clone(),
                namespace: self.entry.namespace.clone(),
                service_account: service_account.into(),
            }),
        }
    }

    /// Whether the proxy may have an entry of this group.
    ///
    /// # Errors
    ///
    /// When the group is for another identity.
    pub fn may_join(&self, group: &Object<WorkloadGroup>, checked: bool) -> Result<(), Refusal> {
        let template = group.spec.template.as_ref();
        self.may_have(template.map_or("", |t| &t.service_account), checked)
    }
}

/// The beginning of what a client said.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}

/// A text that can be the name of an object.
fn object_name(text: &str) -> Option<&str> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let valid = !text.is_empty()
        && text.len() <= LONGEST_NAME
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            let ends = [bytes.first(), bytes.last()];
            ends.into_iter().all(|end| end.is_some_and(|b| inner(*b)))
                && bytes.iter().all(|b| inner(*b) || *b == b'-')
        });
    valid.then_some(text)
}

/// An address that other workloads can reach the workload at. This machine's own are taken from this machine only, as in
/// tests: for any other they would lead back to whoever calls.
fn check_address(address: IpAddr, peer: IpAddr) -> Result<(), Refusal> {
    let canonical = address.to_canonical();
    let local = canonical.is_loopback() && !peer.to_canonical().is_loopback();
    let special = match canonical {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if local || special || canonical.is_unspecified() || canonical.is_multicast() {
        return Err(Refusal::Address(address.to_string()));
    }
    Ok(())
}

/// The name of an entry that is made of a group: `<group>-<address>[-<network>]`. Of one that is too long the beginning is
/// left out.
///
/// Istio: pilot/pkg/autoregistration/controller.go autoregisteredWorkloadEntryName, 1.32, whose names of networks that no
/// name of an object can hold are refused by the API.
pub fn entry_name(group: &str, address: IpAddr, network: &str) -> String {
    let mut name = format!("{group}-{address}").replace(':', "-");
    if name.ends_with('-') {
        name.push('0');
    }
    let bytes = network.as_bytes();
    let stands = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    let allowed = |(at, byte): (usize, &u8)| match byte {
        b if b.is_ascii_alphanumeric() => b.to_ascii_lowercase() as char,
        b'.' if stands(at.checked_sub(1)) && stands(at.checked_add(1)) => '.',
        _ => '-',
    };
    let network: String = bytes.iter().enumerate().map(allowed).collect();
    let network = network.trim_matches('-');
    if !network.is_empty() {
        name.push('-');
        name.push_str(network);
    }
    let left_out = name.len().saturating_sub(LONGEST_NAME);
    let kept = &name[left_out..];
    kept.trim_start_matches(['-', '.']).to_owned()
}

/// The labels that the workload states. Its locality is a field of the entry, and no value of a label.
fn labels_of(node: &Node) -> Result<BTreeMap<Arc<str>, Arc<str>>, Refusal> {
    let stated = node
        .labels
        .iter()
        .filter(|(key, _)| !matches!(&***key, "istio-locality" | "topology.istio.io/locality"));
    let stated: BTreeMap<_, _> = stated.map(|(k, v)| (k.clone(), v.clone())).collect();
    if stated.len() > MOST_LABELS {
        return Err(Refusal::Label(format!(
            "it has {}, and {MOST_LABELS} are the most",
            stated.len()
        )));
    }
    for (key, value) in &stated {
        let too_long =
            (value.len() > LONGEST_VALUE).then_some("has a value of more than 63 characters");
        if let Some(fault) = labels::fault(key, value).or(too_long) {
            let (key, value) = (shown(key), shown(value));
            return Err(Refusal::Label(format!("{key:?}: {value:?} {fault}")));
        }
    }
    Ok(stated)
}

/// Whether the agent of the proxy has a probe.
fn is_probed(node: &Node) -> bool {
    let config = node.metadata.get("PROXY_CONFIG");
    let probe = config.and_then(|config| config.get("readinessProbe"));
    probe.is_some_and(|probe| !probe.is_null())
}

#[cfg(test)]
mod tests;
