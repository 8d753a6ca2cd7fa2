//! The filters that check who a client is and what it may do, for the side of a proxy at which clients arrive.

use std::collections::BTreeSet;

use incr::{Cx, Query};
use mesh::label_names::Reader;
use mesh::proxy::Traits;
use model::diagnostic::Diagnostic;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use store::{Reads, Snapshot};

use crate::authz::{Policies, Surroundings};
use crate::traffic_extension::Phases;
use crate::{authz, jwt};

/// Filters by what they protect with.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Security {
    /// Of HTTP chains.
    pub http: Phases<hcm::HttpFilter>,
    /// Of TCP chains.
    pub tcp: Phases<listener::Filter>,
    /// What of the policies makes no sense or cannot be enforced as written.
    pub diagnostics: Vec<Diagnostic>,
    /// The same, where it matters only to proxies with TCP ports.
    pub tcp_diagnostics: Vec<Diagnostic>,
}

/// What decides those filters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SecurityOf {
    /// Namespace of the workload.
    pub namespace: Namespace,
    /// Its labels by which policies select.
    pub labels: Labels,
    /// Whether it is a gateway.
    pub gateway: bool,
}

impl SecurityOf {
    /// That of a proxy.
    pub fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            namespace: proxy.namespace().clone(),
            labels: proxy.labels_for(cx, Reader::Policies),
            gateway: proxy.node.role != Role::Sidecar,
        }
    }
}

impl Query<Snapshot> for SecurityOf {
    type Value = Security;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Security {
        let mut diagnostics = Vec::new();
        let policies = Policies::of_workload(cx, &self.namespace, &self.labels);
        let jwt = jwt::filter(
            cx,
            &self.namespace,
            &self.labels,
            self.gateway,
            &mut diagnostics,
        );
        let mut tcp_diagnostics = Vec::new();
        let (http, tcp) = Surroundings::with(cx, cx.settings(), |around| {
            let http = authz::http(&policies, around, &mut diagnostics);
            let tcp = authz::tcp(&policies, around, &mut tcp_diagnostics);
            (http, tcp)
        });
        let told: BTreeSet<&Diagnostic> = diagnostics.iter().collect();
        tcp_diagnostics.retain(|d| !told.contains(d));
        Security {
            http: Phases::new(http.custom, jwt.into_iter().collect(), http.local),
            tcp: Phases::new(tcp.custom, Vec::new(), tcp.local),
            diagnostics,
            tcp_diagnostics,
        }
    }
}
