//! Redirects to HTTPS: those of a server are for the hosts that are its own.
//!
//! A redirect concerns a host as a whole, also what other servers of the port have for it. So it does not act on a host that
//! somebody else claimed before, whether or not hosts have owners otherwise. What the namespace of the proxy, or the root
//! namespace, says acts on all.

use std::sync::Arc;

use incr::Cx;
use mesh::gateways::{ClaimsAt, GatewayKey, GatewayServer, Owners};
use mesh::root::is_root;
use model::diagnostic::Diagnostic;
use model::names::Namespace;
use store::Snapshot;

use super::{Host, Hosts, with_port};

/// Whose redirects count for which hosts.
pub(super) struct Redirects {
    /// The namespace of the proxy.
    home: Namespace,
    /// Who claims hosts, where servers of others redirect.
    claims: Option<Arc<Owners>>,
}

impl Redirects {
    /// Those of the servers of a route configuration.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, key: &GatewayKey, servers: &[&GatewayServer]) -> Self {
        let mut redirects = Self {
            home: key.namespace.clone(),
            claims: None,
        };
        let mut servers = servers.iter();
        if servers.any(|server| server.https_redirect() && redirects.is_foreign(cx, server)) {
            redirects.claims = Some((*cx.query(&ClaimsAt(key.clone()))).clone());
        }
        redirects
    }

    fn is_foreign(&self, cx: &Cx<'_, Snapshot>, server: &GatewayServer) -> bool {
        let namespace = &server.gateway.namespace;
        *namespace != self.home && !is_root(cx, namespace)
    }

    /// Why a server does not send requests for a host to HTTPS, although it says so; `None` where it does.
    fn refusal(
        &self,
        cx: &Cx<'_, Snapshot>,
        server: &GatewayServer,
        host: &str,
    ) -> Option<Diagnostic> {
        let claims = self
            .claims
            .as_ref()
            .filter(|_| self.is_foreign(cx, server))?;
        claims.refuses_redirect(cx, server, host)
    }

    /// Whether a server sends requests for a host to HTTPS.
    pub(super) fn act_on(&self, cx: &Cx<'_, Snapshot>, server: &GatewayServer, host: &str) -> bool {
        server.https_redirect() && self.refusal(cx, server, host).is_none()
    }
}

impl Hosts<'_, '_> {
    /// Sends plain requests for the hosts of a server to HTTPS, whether rules know them or not.
    pub(super) fn redirects(&mut self, server: &GatewayServer) {
        if !server.https_redirect() {
            return;
        }
        for host in &server.server.hosts {
            if let Some(refusal) = self.redirects.refusal(self.cx, server, host) {
                self.found.push(refusal);
                continue;
            }
            let domain = host.to_ascii_lowercase();
            let host = self.hosts.entry(domain.clone()).or_insert_with(|| Host {
                name: with_port(&domain, server.port()),
                domains: vec![domain],
                routes: Vec::new(),
                session: None,
                require_tls: true,
                answers: Vec::new(),
            });
            host.require_tls = true;
        }
    }
}
