//! Connections over TLS that go to a backend as they are.

use std::sync::Arc;

use model::Diagnostic;
use proto_istio::networking::{RouteDestination, TlsMatchAttributes, TlsRoute};

use super::draft::Draft;
use super::host::warn;
use super::key;
use super::tls::{IngressesOf, Tls};
use crate::outcome::code;
use crate::reader::Reader;
use crate::strata::Routes;

/// The routes of connections for a host that go to a backend as they are, and what is reported where they are closed.
pub(super) fn routes(
    read: &Reader<'_, '_, Routes>,
    host: &Arc<str>,
    drafts: &[Draft],
    tls: &Tls,
) -> (Vec<TlsRoute>, Option<Diagnostic>) {
    if !tls.passthrough {
        return (Vec::new(), None);
    }
    let port = read.settings().features.edge_https_port.get();
    match route(host, drafts, tls, port) {
        Ok(route) => (route.into_iter().collect(), None),
        Err(why) => (Vec::new(), closed(read, host, tls, &why)),
    }
}

/// Connections as they are to the backend of the host's root, or of its first rule; none where that was closed, which is
/// reported with the rule.
///
/// # Errors
///
/// They are closed, and the rule is not.
fn route(host: &str, drafts: &[Draft], tls: &Tls, port: u16) -> Result<Option<TlsRoute>, String> {
    let root = drafts.iter().find(|draft| draft.asks.is_catch_all());
    let Some(draft) = root.or(drafts.first()) else {
        return Ok(None);
    };
    if draft.closed.is_some() {
        return Ok(None);
    }
    // Nobody could look at who sends requests, unless that is what their own Ingress asks for.
    if !tls.passing.contains(&draft.ingress) && draft.policy.protects() {
        return Err(format!(
            "{} says who may send requests to where they would go",
            key(&draft.ingress)
        ));
    }
    let route: Vec<RouteDestination> = draft
        .route
        .route
        .iter()
        .map(|to| RouteDestination {
            destination: to.destination.clone(),
            weight: to.weight,
        })
        .collect();
    if route.is_empty() {
        return Ok(None);
    }
    Ok(Some(TlsRoute {
        r#match: vec![TlsMatchAttributes {
            sni_hosts: vec![host.to_owned()],
            port: port.into(),
            ..TlsMatchAttributes::default()
        }],
        route,
    }))
}

/// The finding that connections of a host are closed which were to pass as they are.
fn closed(
    read: &Reader<'_, '_, Routes>,
    host: &Arc<str>,
    tls: &Tls,
    why: &str,
) -> Option<Diagnostic> {
    let ingresses = read.derived(IngressesOf(host.clone()));
    let mut all = ingresses.deciding().iter();
    let (ingress, rules) = all.find(|(name, _)| tls.passing.contains(name))?;
    let at = rules.annotated.path("ssl-passthrough");
    let message = format!("connections over TLS for {host:?} are closed: {why}");
    Some(warn(ingress, code::CLOSED, at, message))
}
