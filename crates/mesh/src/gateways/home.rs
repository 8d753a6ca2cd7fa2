//! What the namespace of a gateway proxy, and the root namespace, serve at the proxy: there they come before other namespaces, whatever
//! their age.

use incr::Cx;
use model::diagnostic::Diagnostic;
use model::host::canonical;
use model::kinds::istio::Gateway;
use model::ownership::Claim;
use store::{Reads, Snapshot};

use super::author::Author;
use super::held::ByHost;
use super::owned::{OwnersAt, claim_of, given_to, keeps_out, not_redirected, routed};
use super::select::Home;
use super::{GatewayKey, GatewayServer};
use crate::stated_hosts::stated_for;
use crate::virtual_service::VirtualServicesFor;

/// The hosts of a route configuration that the namespace of the proxy and the root namespace serve: those that their servers state, and
/// those for which they have routes below a wildcard of these servers.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct ServedAtHome {
    /// Those of the namespace of the proxy.
    own: ByHost,
    /// Those of the root namespace.
    root: ByHost,
}

impl ServedAtHome {
    /// Among the servers of a route configuration of a proxy.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, key: &GatewayKey, servers: &[&GatewayServer]) -> Self {
        let mut served = Self::default();
        for server in servers {
            let Some(gateway) = cx.get::<Gateway>(&server.gateway) else {
                continue;
            };
            let author = Author::of_gateway(&gateway);
            let created = author.created(cx, gateway.meta.created);
            let Some(held) = served.of_home(Home::of(cx, author.namespace(), key)) else {
                continue;
            };
            for host in &server.server.hosts {
                let (namespaces, claim) = claim_of(&author, created, host);
                held.hold(&claim, given_to(&namespaces));
            }
            if server.server.hosts.iter().any(|host| host.contains('*')) {
                served.routes(cx, key, server);
            }
        }
        served
    }

    /// Takes in the hosts for which the same namespaces have routes at one of their servers.
    fn routes(&mut self, cx: &Cx<'_, Snapshot>, key: &GatewayKey, server: &GatewayServer) {
        let owners = (*cx.query(&OwnersAt(key.clone()))).clone();
        let lists = cx.query(&VirtualServicesFor {
            namespace: key.namespace.clone(),
            gateway: server.gateway_name.clone(),
        });
        for head in lists.in_order().into_iter().flatten() {
            let author = Author::of_rule(head);
            let Some(held) = self.of_home(Home::of(cx, author.namespace(), key)) else {
                continue;
            };
            let created = author.created(cx, head.created);
            for host in routed(cx, owners.as_deref(), &server.server.hosts, head) {
                let claim = Claim {
                    object: author.key.clone(),
                    created,
                    host: canonical(host).into(),
                };
                held.hold(&claim, None);
            }
        }
    }

    fn of_home(&mut self, home: Home) -> Option<&mut ByHost> {
        match home {
            Home::Own => Some(&mut self.own),
            Home::Root => Some(&mut self.root),
            Home::Foreign => None,
        }
    }

    /// The finding that a server of another namespace may not send plain requests for a host to HTTPS, as the host is served at home.
    /// `None` where it may.
    pub(super) fn refuses_redirect(
        &self,
        cx: &Cx<'_, Snapshot>,
        server: &GatewayServer,
        host: &str,
    ) -> Option<Diagnostic> {
        let gateway = cx.get::<Gateway>(&server.gateway)?;
        let author = Author::of_gateway(&gateway);
        let host = canonical(stated_for(host).1);
        let own = self
            .own
            .get(&host)
            .map(|held| (held, "the namespace of the proxy"));
        let held = own.or_else(|| Some((self.root.get(&host)?, "the root namespace")));
        let (held, whose) = held.filter(|(held, _)| keeps_out(cx, held, &author))?;
        let object = &held.claim.object;
        let why = format!("{object} serves {host:?} on that port, and {whose} comes before others");
        Some(not_redirected(&author, &why))
    }
}
