//! TLSRoutes, TCPRoutes and UDPRoutes.
//!
//! Nothing is made of a UDPRoute: no listener serves UDP, and its status says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::derived::GatewayRole;
use model::{Kind, ObjectKey, ObjectName, host};
use proto_istio::networking::{
    L4MatchAttributes, TcpRoute, TlsMatchAttributes, TlsRoute, VirtualService,
};

use super::attachment::{Attachment, AttachmentsOf, excess};
use super::basis::BasisOf;
use super::route::CreatedOf;
use super::rules::stream::{StreamRules, StreamRulesOf};
use super::{ANY_HOST, INFIX, derived};
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualServices of a TLSRoute, TCPRoute or UDPRoute, one for each parent and host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamsOf(pub ObjectKey);

impl Derive for StreamsOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    /// Istio: pilot/pkg/config/kube/gateway/route_collections.go TCPRouteCollection, TLSRouteCollection, 1.32.
    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let attachments = read.derived(AttachmentsOf(self.0.clone()));
        let mut seen = BTreeSet::new();
        let accepted = attachments.iter().filter(|a| a.refused.is_none());
        let accepted = accepted.map(|a| (gateway(a), a));
        // Two references to one listener, or to one port of a service, are one.
        let mut accepted: Vec<(String, &Attachment)> = accepted
            .filter(|(gateway, a)| {
                let port = a.reference.port.filter(|_| a.listener.is_none());
                seen.insert((gateway.clone(), a.parent.clone(), port))
            })
            .collect();
        accepted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut made = Vec::new();
        for (gateway, attachment) in accepted {
            self.add(read, gateway, attachment, &mut made);
        }
        Outcome {
            objects: made,
            findings: excess(&self.0, &attachments).into_iter().collect(),
        }
    }
}

/// The gateway as VirtualServices name it.
fn gateway(attachment: &Attachment) -> String {
    match &attachment.listener {
        Some(listener) => {
            let ObjectName {
                namespace, name, ..
            } = &listener.gateway;
            format!("{namespace}/{name}")
        }
        None => "mesh".to_owned(),
    }
}

impl StreamsOf {
    /// Makes the VirtualServices of an attachment.
    fn add(
        &self,
        read: &Reader<'_, '_, Routes>,
        gateway: String,
        attachment: &Attachment,
        made: &mut Vec<Made<Routes>>,
    ) {
        let rules = read.derived(StreamRulesOf {
            route: self.0.clone(),
            in_mesh: attachment.listener.is_none(),
        });
        if rules.rules.is_empty() {
            return;
        }
        let basis = read.derived(BasisOf(attachment.parent.clone()));
        let from = std::iter::once(self.0.clone());
        let from = from.chain(rules.others.iter().cloned());
        let derived = derived(from.chain(basis.iter().cloned()), GatewayRole::default());
        let ObjectName {
            namespace, name, ..
        } = &self.0.name;
        let created = *read.derived(CreatedOf(self.0.clone()));
        for host in attachment.hosts.iter() {
            let mut spec = VirtualService {
                hosts: vec![host.to_string()],
                gateways: vec![gateway.clone()],
                ..VirtualService::default()
            };
            let kind = match self.0.kind {
                Kind::TlsRoute => {
                    spec.tls = tls(&rules, attachment, host);
                    "tls"
                }
                _ => {
                    spec.tcp = tcp(&rules, attachment);
                    "tcp"
                }
            };
            let name = format!("{name}~{kind}~{}~{INFIX}", made.len());
            let name = ObjectName::new(namespace.clone(), name);
            let mut service = object(name, derived.clone(), spec);
            service.meta.created = created;
            made.push(Made::new(service));
        }
    }
}

fn tcp(rules: &StreamRules, attachment: &Attachment) -> Vec<TcpRoute> {
    let port = attachment.reference.port;
    let port = port.filter(|_| attachment.listener.is_none());
    let matched = port.map(|port| L4MatchAttributes {
        port: port.into(),
        ..L4MatchAttributes::default()
    });
    let routes = rules.rules.iter().map(|rule| TcpRoute {
        r#match: matched.clone().into_iter().collect(),
        route: rule.route.clone(),
    });
    routes.collect()
}

/// The routes of a TLSRoute for a host of one of its parents.
fn tls(rules: &StreamRules, attachment: &Attachment, host: &str) -> Vec<TlsRoute> {
    let matched = TlsMatchAttributes {
        sni_hosts: server_names(rules, attachment, host),
        port: match attachment.listener {
            Some(_) => 0,
            None => attachment.reference.port.unwrap_or_default().into(),
        },
        ..TlsMatchAttributes::default()
    };
    let routes = rules.rules.iter().map(|rule| TlsRoute {
        r#match: match rule.is_refusal {
            true => Vec::new(),
            false => vec![matched.clone()],
        },
        route: rule.route.clone(),
    });
    routes.collect()
}

/// At a listener, the server names that it and the route have in common; in the mesh, those of the route, or of the service
/// where the route states none.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go augmentTLSPortMatch, compatibleRoutesForHost, 1.32.
fn server_names(rules: &StreamRules, attachment: &Attachment, service: &str) -> Vec<String> {
    let is_any = |names: &[Arc<str>]| matches!(names, [one] if **one == *ANY_HOST);
    let names = match attachment.listener.is_some() || is_any(&rules.server_names) {
        true => &attachment.hosts,
        false => &rules.server_names,
    };
    let all = attachment.listener.is_some() || names.len() == 1;
    let names = names
        .iter()
        .filter(|name| all || host::matches(service, name));
    names.map(|name| name.to_string()).collect()
}
