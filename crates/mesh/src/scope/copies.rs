//! Rules whose routes would be copied too often: into a virtual host for each of their hosts, or of the services that a
//! wildcard covers, on each of their ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::KeyedSet;
use incr::{Cx, Query};
use model::host::{Hostname, matches};
use model::object::ObjectName;
use model::service::Service;
use store::Snapshot;

use super::{EgressScope, ScopeKey, ScopeOf, SidecarScope};
use crate::hosts::Wildcards;
use crate::limits::COPIED_BYTES;
use crate::virtual_service::{VirtualServiceHead, VirtualServiceOf};

/// A rule that may be copied too often, looked at closely.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspect {
    /// Whether it is copied too often, and refused.
    pub refused: bool,
    /// The services that it is about, by port; with each whether the rule names its host as it is.
    pub ports: BTreeMap<u16, Vec<(Hostname, bool)>>,
}

/// Rules by name.
pub type Suspects = BTreeMap<ObjectName, Suspect>;

/// The suspects of each egress listener of a scope.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SuspectsIn(ScopeKey);

impl Query<Snapshot> for SuspectsIn {
    type Value = Arc<[Arc<Suspects>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let scope = cx.query(&ScopeOf(self.0.clone()));
        let of = |egress: &EgressScope| {
            if !egress.suspect {
                return Arc::default();
            }
            let extent = Extent::of(&egress.services);
            let suspects = egress.rules.iter().filter(|h| extent.suspects(h));
            Arc::new(
                suspects
                    .filter_map(|h| Some((h.name.clone(), look(cx, egress, h)?)))
                    .collect(),
            )
        };
        scope.egress.iter().map(of).collect()
    }
}

/// The rules of an egress listener of a scope that may be copied too often. Most scopes have none that comes near:
/// nothing is read for them.
pub fn suspects_in(cx: &Cx<'_, Snapshot>, scope: &SidecarScope, egress: usize) -> Arc<Suspects> {
    let suspect = scope.egress.get(egress).is_some_and(|e| e.suspect);
    let all = suspect.then(|| cx.query(&SuspectsIn(scope.key.clone())));
    all.and_then(|all| all.get(egress).cloned())
        .unwrap_or_default()
}

/// The rules that proxies of a scope refuse to follow somewhere.
pub fn refused_in(cx: &Cx<'_, Snapshot>, scope: &SidecarScope) -> BTreeSet<ObjectName> {
    let mut refused = BTreeSet::new();
    for egress in 0..scope.egress.len() {
        let suspects = suspects_in(cx, scope, egress);
        refused.extend(
            suspects
                .iter()
                .filter(|(_, s)| s.refused)
                .map(|(name, _)| name.clone()),
        );
    }
    refused
}

/// Whether the routes of some rule may be copied too often to the ports of these services.
pub fn any_suspect(services: &[Arc<Service>], rules: &[Arc<VirtualServiceHead>]) -> bool {
    let extent = Extent::of(services);
    rules.iter().any(|head| extent.suspects(head))
}

/// What bounds the copies of any rule of an egress listener.
struct Extent {
    /// Ports of services, all together.
    ports: usize,
    /// The most that one service has.
    most: usize,
}

impl Extent {
    fn of(services: &[Arc<Service>]) -> Self {
        let counts = services.iter().map(|s| s.ports.len());
        Self {
            ports: counts.clone().sum(),
            most: counts.max().unwrap_or(0),
        }
    }

    /// Whether the routes of a rule may be copied too often: cheap to say, and never false where they are.
    fn suspects(&self, head: &VirtualServiceHead) -> bool {
        let hosts = head.hosts.len();
        let wildcard = head.hosts.iter().any(|h| h.starts_with('*'));
        let served = match wildcard {
            true => self.ports,
            false => self.ports.min(hosts.saturating_mul(self.most)),
        };
        head.weight().saturating_mul(copies(served, served, hosts)) > COPIED_BYTES
    }
}

/// How many virtual hosts, or chains, a rule has: on each port number of its services one for each of its hosts, and one
/// for each port of each service. Port 80 has its hosts in any case.
fn copies(numbers: usize, served: usize, hosts: usize) -> usize {
    let listeners = numbers.min(usize::from(u16::MAX)) + 1;
    listeners.saturating_mul(hosts).saturating_add(served)
}

fn look(cx: &Cx<'_, Snapshot>, egress: &EgressScope, head: &VirtualServiceHead) -> Option<Suspect> {
    let lower: Vec<String> = head.hosts.iter().map(|h| h.to_ascii_lowercase()).collect();
    let exact: KeyedSet<&str> = lower.iter().map(String::as_str).collect();
    let wildcards = Wildcards::new(lower.iter().map(|h| (h.as_str(), ())));
    let mut ports: BTreeMap<u16, Vec<(Hostname, bool)>> = BTreeMap::new();
    let mut served = 0;
    for service in egress.services.iter() {
        let host = Hostname::from(service.host.to_ascii_lowercase());
        let named = exact.contains(host.as_str()) && !host.is_wildcard();
        let concerned = named
            || wildcards.cover(&host)
            || (host.is_wildcard() && exact.iter().any(|h| matches(h, &host)));
        if concerned {
            served += service.ports.len();
            for port in service.ports.iter() {
                ports
                    .entry(port.number)
                    .or_default()
                    .push((host.clone(), named));
            }
        }
    }
    let weight = (*cx.query(&VirtualServiceOf(head.name.clone())))
        .as_ref()?
        .weight;
    let copies = copies(ports.len(), served, head.hosts.len());
    Some(Suspect {
        refused: weight.saturating_mul(copies) > COPIED_BYTES,
        ports,
    })
}
