//! Redirects to HTTPS.

use mesh::gateways::GatewayServer;

use super::{Host, Hosts, with_port};

impl Hosts<'_, '_> {
    /// Sends plain requests for the hosts of a server to HTTPS, whether rules know them or not.
    pub(super) fn redirects(&mut self, server: &GatewayServer) {
        if !server.https_redirect() {
            return;
        }
        for host in &server.server.hosts {
            if let Some(refusal) = self.redirects.refusal(self.cx, server, host) {
                self.found.insert(refusal);
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
