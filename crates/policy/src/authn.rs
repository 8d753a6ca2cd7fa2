//! Which mutual TLS mode PeerAuthentication asks of servers, by namespace, workload and port.
//!
//! Istio: pilot/pkg/model/authentication.go and pilot/pkg/security/authn/policy_applier.go, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::PeerAuthentication;
use model::labels::Labels;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use model::settings::MeshConfig;
use proto_istio::security::peer_authentication::MutualTls as Setting;
use proto_istio::security::peer_authentication::mutual_tls::Mode;
use store::{Reads, Snapshot};

use mesh::policy_target::oldest_first;

/// What a server accepts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MutualTls {
    /// Plain text only.
    Disable,
    /// Both.
    Permissive,
    /// Mutual TLS only.
    Strict,
}

impl MutualTls {
    fn of(setting: Option<&Setting>) -> Option<Self> {
        match Mode::try_from(setting?.mode).ok()? {
            Mode::Unset => None,
            Mode::Disable => Some(Self::Disable),
            Mode::Permissive => Some(Self::Permissive),
            Mode::Strict => Some(Self::Strict),
        }
    }
}

/// The policies that may concern workloads of a namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerPolicies(pub Namespace);

/// What they say, ready to be asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peers {
    /// The policy of the mesh.
    mesh: Option<GeneralPolicy>,
    /// The policy of the namespace, unless it is the root namespace.
    namespace: Option<GeneralPolicy>,
    /// Policies with a selector, oldest first.
    workloads: Vec<WorkloadPolicy>,
    /// Policies of the root namespace with a selector, which have no effect.
    ignored: Vec<(ObjectName, BTreeMap<String, String>)>,
    /// Substitutes of policies that were rejected, with their selectors, empty ones for all workloads. What they cover is
    /// strict, whatever other policies say.
    closed: Vec<(ObjectName, BTreeMap<String, String>)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct GeneralPolicy {
    name: ObjectName,
    /// `None` for `UNSET`.
    mode: Option<MutualTls>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct WorkloadPolicy {
    name: ObjectName,
    selector: BTreeMap<String, String>,
    mode: Option<MutualTls>,
    ports: BTreeMap<u32, Option<MutualTls>>,
}

impl Peers {
    /// The mode that policies of the namespace or the mesh state; `None` where there is none of them.
    pub fn of_namespace(&self) -> Option<MutualTls> {
        if self.closed.iter().any(|(_, selector)| selector.is_empty()) {
            return Some(MutualTls::Strict);
        }
        let or_permissive = |p: &GeneralPolicy| p.mode.unwrap_or(MutualTls::Permissive);
        let mesh = self.mesh.as_ref().map(or_permissive);
        match self.namespace.as_ref().map(|n| n.mode) {
            Some(Some(mode)) => Some(mode),
            Some(None) => Some(mesh.unwrap_or(MutualTls::Permissive)),
            None => mesh,
        }
    }

    /// The mode in force for a port of a workload.
    pub fn of_workload(&self, labels: &Labels, port: u16) -> MutualTls {
        if self.closing(labels).is_some() {
            return MutualTls::Strict;
        }
        let general = |p: &Option<GeneralPolicy>| p.as_ref().and_then(|p| p.mode);
        let mut mode = general(&self.mesh).unwrap_or(MutualTls::Permissive);
        mode = general(&self.namespace).unwrap_or(mode);
        let own = self
            .workloads
            .iter()
            .find(|w| labels.matches_map(&w.selector));
        let Some(own) = own else { return mode };
        mode = own.mode.unwrap_or(mode);
        match own.ports.get(&u32::from(port)) {
            Some(of_port) => of_port.unwrap_or(mode),
            None => mode,
        }
    }

    /// The policy, and the field of it, that decides the mode of a port; `None` where none states any.
    pub fn deciding(&self, labels: &Labels, port: u16) -> Option<(&ObjectName, String)> {
        if let Some(name) = self.closing(labels) {
            return Some((name, String::new()));
        }
        let own = self
            .workloads
            .iter()
            .find(|w| labels.matches_map(&w.selector));
        if let Some(own) = own {
            if let Some(Some(_)) = own.ports.get(&u32::from(port)) {
                return Some((&own.name, format!("spec.portLevelMtls[{port}].mode")));
            }
            if own.mode.is_some() {
                return Some((&own.name, "spec.mtls.mode".to_owned()));
            }
        }
        [&self.namespace, &self.mesh]
            .into_iter()
            .flatten()
            .find(|p| p.mode.is_some())
            .map(|p| (&p.name, "spec.mtls.mode".to_owned()))
    }

    /// A policy that was rejected and covers a workload with these labels.
    fn closing(&self, labels: &Labels) -> Option<&ObjectName> {
        let mut closed = self.closed.iter();
        let found = closed.find(|(_, selector)| labels.matches_map(selector));
        found.map(|(name, _)| name)
    }

    /// Policies that select a workload with these labels and have no effect.
    pub fn ignored(&self, labels: &Labels) -> impl Iterator<Item = &ObjectName> {
        self.ignored
            .iter()
            .filter(|(_, selector)| labels.matches_map(selector))
            .map(|(name, _)| name)
    }

    /// The ports of a workload that its policy states a mode for, sorted.
    pub fn stated_ports(&self, labels: &Labels) -> Vec<u16> {
        self.workloads
            .iter()
            .find(|w| labels.matches_map(&w.selector))
            .into_iter()
            .flat_map(|w| w.ports.keys())
            .filter_map(|port| u16::try_from(*port).ok())
            .collect()
    }
}

impl Query<Snapshot> for PeerPolicies {
    type Value = Arc<Peers>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Peers> {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let general = |p: &Object<PeerAuthentication>| {
            p.spec
                .selector
                .as_ref()
                .is_none_or(|s| s.match_labels.is_empty())
        };
        let mut peers = Peers::default();
        let closed = |p: &Object<PeerAuthentication>| {
            let selector = p.spec.selector.as_ref();
            let selector = selector.map(|s| s.match_labels.clone());
            let name = p.meta.name.clone();
            p.meta.closed.as_ref()?;
            Some((name, selector.unwrap_or_default()))
        };
        for policy in oldest_first::<PeerAuthentication>(cx, &root) {
            if general(&policy)
                && let Some(closed) = closed(&policy)
            {
                peers.closed.push(closed);
                continue;
            }
            match &policy.spec.selector {
                Some(selector) if !general(&policy) => {
                    let ignored = (policy.meta.name.clone(), selector.match_labels.clone());
                    peers.ignored.push(ignored);
                }
                _ => {
                    peers.mesh.get_or_insert_with(|| GeneralPolicy {
                        name: policy.meta.name.clone(),
                        mode: MutualTls::of(policy.spec.mtls.as_ref()),
                    });
                }
            }
        }
        if self.0 == root {
            return Arc::new(peers);
        }
        for policy in oldest_first::<PeerAuthentication>(cx, &self.0) {
            if let Some(closed) = closed(&policy) {
                peers.closed.push(closed);
                continue;
            }
            let spec = &policy.spec;
            let mode = MutualTls::of(spec.mtls.as_ref());
            match &spec.selector {
                Some(selector) if !general(&policy) => peers.workloads.push(WorkloadPolicy {
                    name: policy.meta.name.clone(),
                    selector: selector.match_labels.clone(),
                    mode,
                    ports: spec
                        .port_level_mtls
                        .iter()
                        .map(|(port, setting)| (*port, MutualTls::of(Some(setting))))
                        .collect(),
                }),
                _ => {
                    let name = policy.meta.name.clone();
                    peers.namespace.get_or_insert(GeneralPolicy { name, mode });
                }
            }
        }
        Arc::new(peers)
    }
}

/// The mode in force for a port of a workload.
pub fn mtls_mode(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    labels: &Labels,
    port: u16,
) -> MutualTls {
    cx.query(&PeerPolicies(namespace.clone()))
        .of_workload(labels, port)
}

/// The trust domains whose peers are taken: the mesh's, its aliases and those of its further roots, each once.
///
/// Istio: pilot/pkg/networking/plugin/authn/util.go TrustDomainsForValidation, 1.32.
pub fn trust_domains(mesh: &MeshConfig) -> Vec<&str> {
    let mut domains: Vec<&str> = Vec::new();
    let further = mesh.ca_certificates.iter().flat_map(|c| &c.trust_domains);
    for domain in std::iter::once(&mesh.trust_domain)
        .chain(&mesh.trust_domain_aliases)
        .chain(further)
    {
        if !domain.is_empty() && !domains.contains(&domain.as_str()) {
            domains.push(domain);
        }
    }
    domains
}
