//! The Gateway of a host.
//!
//! Higress: pkg/ingress/kube/ingressv1/controller.go ConvertGateway, 2.1.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::ANY_HOST;
use model::names::ClusterId;
use model::settings::Features;
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::server_tls_settings::TlSmode;
use proto_istio::networking::{Gateway, Port, Server, ServerTlsSettings};

use super::class::is_on;
use super::tls::{IngressesOf, Tls, TlsOf};
use super::{derived, name};
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Gateway of a host that Ingresses with annotations name, with what is wrong with how its clients connect.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewayOfHost(pub Arc<str>);

impl Derive for GatewayOfHost {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !is_on(read) {
            return Outcome::default();
        }
        let ingresses = read.derived(IngressesOf(self.0.clone()));
        let bases: Vec<_> = ingresses
            .all()
            .iter()
            .filter(|(_, rules)| rules.annotated.annotations.canary.is_none())
            .collect();
        let Some((first, rules)) = bases.first() else {
            return Outcome::default();
        };
        let tls = read.derived(TlsOf(self.0.clone()));
        let features = &read.settings().features;
        let gateway = Gateway {
            selector: selector(features),
            servers: servers(&self.0, &tls, features, first.cluster.as_ref()),
        };
        let name = ObjectName::new(features.edge_namespace.clone(), name::gateway(&self.0));
        let mut others = tls.others.clone();
        others.extend(ingresses.grants.iter().cloned());
        others.retain(|other| other.kind != Kind::Ingress);
        others.sort();
        others.dedup();
        let derived = derived(
            bases.iter().map(|(name, _)| name.clone()),
            others.into_iter().collect::<Vec<ObjectKey>>(),
        );
        let mut made = object(name, derived, gateway);
        made.meta.created = rules.created;
        Outcome {
            objects: vec![Made::new(made)],
            findings: tls.findings.clone().into(),
        }
    }
}

/// The label of the proxies that serve Ingresses with annotations.
fn selector(features: &Features) -> BTreeMap<String, String> {
    label(features.edge_selector.as_str())
}

/// A label, written `key=value`, as a selector.
pub(crate) fn label(text: &str) -> BTreeMap<String, String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    BTreeMap::from([(key.trim().to_owned(), value.trim().to_owned())])
}

/// The servers of a host whose oldest Ingress is in that cluster.
fn servers(host: &str, tls: &Tls, features: &Features, cluster: Option<&ClusterId>) -> Vec<Server> {
    let host = if host.is_empty() { ANY_HOST } else { host };
    let server = |number, protocol, tls| server(host, number, protocol, tls);
    let (plain, secure) = (
        features.edge_http_port.get(),
        features.edge_https_port.get(),
    );
    let mut servers = vec![server(plain, "HTTP", None)];
    if tls.passthrough {
        let passed = ServerTlsSettings {
            mode: TlSmode::Passthrough.into(),
            ..ServerTlsSettings::default()
        };
        servers.push(server(secure, "TLS", Some(passed)));
    } else if let Some(settings) = &tls.settings {
        // Without usable roots the host is closed: it has no HTTPS that lets anybody in.
        if tls.closed.is_none() {
            servers.push(server(secure, "HTTPS", Some(settings.clone())));
        }
    }
    let ports = servers.iter_mut().filter_map(|server| server.port.as_mut());
    for (port, cluster) in ports.zip(std::iter::repeat(cluster)) {
        port.name.push_str(&name::of_cluster(cluster));
    }
    servers
}

/// A server of a host.
pub(crate) fn server(
    host: &str,
    number: u16,
    protocol: &str,
    tls: Option<ServerTlsSettings>,
) -> Server {
    Server {
        port: Some(Port {
            number: number.into(),
            protocol: protocol.to_owned(),
            name: format!("{}-{number}-ingress", protocol.to_lowercase()),
            ..Port::default()
        }),
        hosts: vec![host.to_owned()],
        tls,
        ..Server::default()
    }
}
