//! Where a rule sends to: what a scope must import because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::kinds::istio::VirtualService;
use model::names::Namespace;
use model::object::ObjectName;
use proto_istio::networking::{Destination, HttpRoute};
use store::Snapshot;

use super::VirtualServiceOf;

/// Ports by host. Port 0 says that some destination names no port.
pub type Destinations = BTreeMap<Hostname, BTreeSet<u16>>;

/// The destinations of a rule, without those of routes that only other namespaces use.
///
/// Istio: pilot/pkg/model/push_context.go virtualServiceDestinationsFilteredBySourceNamespace, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DestinationsOf {
    /// The rule.
    pub rule: ObjectName,
    /// The namespace that requests come from; `None` for any.
    pub source: Option<Namespace>,
}

impl Query<Snapshot> for DestinationsOf {
    type Value = Arc<Destinations>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Destinations> {
        let rule = cx.query(&VirtualServiceOf(self.rule.clone()));
        Arc::new(rule.as_ref().as_ref().map_or_else(Destinations::new, |r| {
            let mut found = destinations(&r.spec, self.source.as_ref());
            for route in r.edge.values() {
                let external = route.external.iter().filter(|e| !e.tls);
                let external = external.map(|e| (&e.host, e.port));
                let fallback = route.fallback.iter().map(|f| (&f.host, f.port));
                for (host, port) in external.chain(fallback) {
                    found.entry((&**host).into()).or_default().insert(port);
                }
            }
            found
        }))
    }
}

fn destinations(spec: &VirtualService, source: Option<&Namespace>) -> Destinations {
    let mut found = Destinations::new();
    let mut add = |destination: Option<&Destination>| {
        if let Some(d) = destination {
            let port = d.port.as_ref().map_or(0, |p| p.number);
            found
                .entry(d.host.as_str().into())
                .or_default()
                .insert(u16::try_from(port).unwrap_or(0));
        }
    };
    for http in spec.http.iter().filter(|h| used_from(h, source)) {
        http.route.iter().for_each(|r| add(r.destination.as_ref()));
        add(http.mirror.as_ref());
        http.mirrors
            .iter()
            .for_each(|m| add(m.destination.as_ref()));
    }
    for tcp in &spec.tcp {
        tcp.route.iter().for_each(|r| add(r.destination.as_ref()));
    }
    for tls in &spec.tls {
        tls.route.iter().for_each(|r| add(r.destination.as_ref()));
    }
    found
}

/// Whether a route applies to requests from a namespace. The last match that names one decides, unless one fits.
fn used_from(route: &HttpRoute, source: Option<&Namespace>) -> bool {
    let Some(source) = source.filter(|s| !s.is_empty()) else {
        return true;
    };
    let mut stated = route
        .r#match
        .iter()
        .map(|m| m.source_namespace.as_str())
        .filter(|s| !s.is_empty())
        .peekable();
    stated.peek().is_none() || stated.any(|s| source == s)
}
