//! Redirects to HTTPS: those of a server are for the hosts that are its own.
//!
//! A redirect concerns a host as a whole, also what other servers of the port have for it. So one of another namespace does not act
//! on a host that the namespace of the proxy or the root namespace serves on the port, nor on one that somebody else claimed
//! before, whether or not hosts have owners otherwise. Where they have none, it does not act on one for which somebody else's routes
//! are older either, nor on one below a wildcard of somebody else, unless it is served beside that. What these two namespaces say
//! acts on all.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::Diagnostic;
use model::host::canonical;
use model::names::Namespace;
use store::Snapshot;

use super::below::Below;
use super::home::ServedAtHome;
use super::owned::{ClaimsAt, Owners, OwnersAt, routed};
use super::{GatewayKey, GatewayServer, MergedGatewayOf};
use crate::root::is_root;
use crate::stated_hosts::stated_for;
use crate::virtual_service::VirtualServicesFor;

/// Whose redirects count for which hosts.
#[derive(Debug)]
pub struct Redirects {
    /// The namespace of the proxy.
    home: Namespace,
    /// Who has hosts, where servers of others redirect.
    claims: Option<Claims>,
}

/// Who has the hosts of a route configuration, for servers of others.
#[derive(Debug)]
struct Claims {
    /// Those who come before all others.
    home: ServedAtHome,
    /// Those who were first.
    oldest: Arc<Owners>,
    /// Those who have routes for hosts, and wildcards above them; `None` where hosts have owners, who decide.
    below: Option<Below>,
}

impl Redirects {
    /// Those of the servers of a route configuration.
    pub fn of(cx: &Cx<'_, Snapshot>, key: &GatewayKey, servers: &[&GatewayServer]) -> Self {
        let mut redirects = Self {
            home: key.namespace.clone(),
            claims: None,
        };
        let acts_on_others =
            |server: &&GatewayServer| server.https_redirect() && redirects.is_foreign(cx, server);
        let redirecting = servers.iter().copied().filter(acts_on_others);
        let hosts = redirecting.flat_map(|server| concerned(cx, key, server));
        let hosts: BTreeSet<Arc<str>> = hosts.collect();
        if !hosts.is_empty() {
            let is_owned = cx.query(&OwnersAt(key.clone())).is_some();
            redirects.claims = Some(Claims {
                home: ServedAtHome::of(cx, key, servers),
                oldest: (*cx.query(&ClaimsAt(key.clone()))).clone(),
                below: (!is_owned).then(|| Below::of(cx, key, servers, hosts)),
            });
        }
        redirects
    }

    fn is_foreign(&self, cx: &Cx<'_, Snapshot>, server: &GatewayServer) -> bool {
        let namespace = &server.gateway.namespace;
        *namespace != self.home && !is_root(cx, namespace)
    }

    /// Why a server that redirects does not send requests for a host to HTTPS; `None` where it does.
    pub fn refusal(
        &self,
        cx: &Cx<'_, Snapshot>,
        server: &GatewayServer,
        host: &str,
    ) -> Option<Diagnostic> {
        let claims = self
            .claims
            .as_ref()
            .filter(|_| self.is_foreign(cx, server))?;
        let refuses = |below: &Below| below.refuses_redirect(cx, server, host);
        let at_home = claims.home.refuses_redirect(cx, server, host);
        at_home
            .or_else(|| claims.oldest.refuses_redirect(cx, server, host))
            .or_else(|| claims.below.as_ref().and_then(refuses))
    }
}

/// The hosts that the redirect of a server concerns: those that it states, and those for which rules have routes there.
fn concerned(
    cx: &Cx<'_, Snapshot>,
    key: &GatewayKey,
    server: &GatewayServer,
) -> BTreeSet<Arc<str>> {
    let stated = server.server.hosts.iter().map(|host| stated_for(host).1);
    let mut hosts: BTreeSet<Arc<str>> = stated.map(|host| canonical(host).into()).collect();
    let lists = cx.query(&VirtualServicesFor {
        namespace: key.namespace.clone(),
        gateway: server.gateway_name.clone(),
    });
    for head in lists.in_order().into_iter().flatten() {
        let routed = routed(cx, None, &server.server.hosts, head).into_iter();
        hosts.extend(routed.map(|host| Arc::<str>::from(canonical(host))));
    }
    hosts
}

/// The redirects at a gateway proxy that do not act, as the hosts are somebody else's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RefusedRedirects(pub GatewayKey);

impl Query<Snapshot> for RefusedRedirects {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        let Some(merged) = merged.as_ref() else {
            return Arc::default();
        };
        let mut found = Vec::new();
        for places in merged.by_route.values() {
            let servers = places.iter().filter_map(|at| merged.servers.get(*at));
            let servers: Vec<&GatewayServer> = servers.collect();
            let redirects = Redirects::of(cx, &self.0, &servers);
            let redirecting = servers.iter().filter(|server| server.https_redirect());
            for server in redirecting.filter(|server| redirects.is_foreign(cx, server)) {
                let hosts = concerned(cx, &self.0, server).into_iter();
                found.extend(hosts.filter_map(|host| redirects.refusal(cx, server, &host)));
            }
        }
        found.sort();
        found.dedup();
        found.into()
    }
}
