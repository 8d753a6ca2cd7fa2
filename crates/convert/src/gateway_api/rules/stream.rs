//! What the rules of a route of connections mean.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{StreamRule as Rule, TcpRoute, TlsRoute, UdpRoute};
use model::{Kind, ObjectKey};
use proto_istio::networking::{Destination, PortSelector, RouteDestination};

use super::RouteError;
use super::backend::{Named, Resolving};
use super::rule::weight_among;
use crate::gateway_api::{ANY_HOST, limits};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The rules of a TLSRoute, TCPRoute or UDPRoute.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct StreamRules {
    /// In order. Empty where one of them has no meaning.
    pub rules: Vec<StreamRule>,
    /// The server names of a TLSRoute; any where it states none.
    pub server_names: Arc<[Arc<str>]>,
    /// The last thing that is wrong.
    pub error: Option<RouteError>,
    /// Objects besides the route without which the rules would be others.
    pub others: BTreeSet<ObjectKey>,
}

/// A rule.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StreamRule {
    /// Where connections go.
    pub route: Vec<RouteDestination>,
    /// No backend takes any, so they are refused.
    pub is_refusal: bool,
}

impl StreamRules {
    /// What they weigh.
    pub(crate) fn weight(&self) -> usize {
        limits::weight(self.rules.iter().flat_map(|rule| &rule.route))
    }
}

/// The rules of a TLSRoute, TCPRoute or UDPRoute, at gateways or in the mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamRulesOf {
    /// The route.
    pub route: ObjectKey,
    /// Whether for sidecars and waypoints, where references across namespaces need no grant.
    pub in_mesh: bool,
}

impl Derive for StreamRulesOf {
    type Stratum = Routes;
    type Value = StreamRules;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> StreamRules {
        let name = &self.route.name;
        let rules = match self.route.kind {
            Kind::TlsRoute => read.get::<TlsRoute>(name).map(|route| {
                let names: Arc<[Arc<str>]> = match route.spec.hostnames.is_empty() {
                    true => Arc::from([ANY_HOST.into()]),
                    false => route.spec.hostnames.as_slice().into(),
                };
                self.rules(read, names, &route.spec.rules)
            }),
            Kind::TcpRoute => {
                let route = read.get::<TcpRoute>(name);
                route.map(|route| self.rules(read, Arc::default(), &route.spec.rules))
            }
            Kind::UdpRoute => {
                let route = read.get::<UdpRoute>(name);
                route.map(|route| self.rules(read, Arc::default(), &route.spec.rules))
            }
            _ => None,
        };
        rules.unwrap_or_default()
    }
}

impl StreamRulesOf {
    fn rules(
        &self,
        read: &Reader<'_, '_, Routes>,
        server_names: Arc<[Arc<str>]>,
        rules: &[Rule],
    ) -> StreamRules {
        let resolving = Resolving {
            read,
            route: &self.route,
            in_mesh: self.in_mesh,
        };
        let mut made = StreamRules {
            server_names,
            ..StreamRules::default()
        };
        for rule in rules {
            match connect(&resolving, rule, &mut made) {
                Ok(rule) => made.rules.push(rule),
                // A rule that has no meaning takes the others of its route with it, as in Istio.
                Err(error) => {
                    return StreamRules {
                        error: Some(error),
                        ..StreamRules::default()
                    };
                }
            }
        }
        made
    }
}

/// Where connections go by a rule.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go convertTCPRoute, buildTCPDestination, 1.32.
fn connect(
    resolving: &Resolving<'_, '_, '_>,
    rule: &Rule,
    made: &mut StreamRules,
) -> Result<StreamRule, RouteError> {
    let backends = rule.backend_refs.iter().filter(|to| to.weight > 0);
    let backends: Vec<_> = backends.collect();
    if backends.is_empty() {
        return Ok(refusal());
    }
    let count = backends.len();
    let mut route = Vec::with_capacity(count);
    for to in backends {
        let backend = resolving.resolve(&Named::from(to))?;
        made.error = backend.error.or(made.error.take());
        made.others.extend(backend.by);
        route.push(RouteDestination {
            destination: Some(backend.destination),
            weight: weight_among(to.weight, count),
        });
    }
    Ok(StreamRule {
        route,
        is_refusal: false,
    })
}

/// Connections that no backend takes go to a cluster that there is none of, which ends them.
fn refusal() -> StreamRule {
    StreamRule {
        route: vec![RouteDestination {
            destination: Some(Destination {
                host: "internal.cluster.local".to_owned(),
                subset: "zero-weight".to_owned(),
                port: Some(PortSelector { number: 65535 }),
            }),
            ..RouteDestination::default()
        }],
        is_refusal: true,
    }
}
