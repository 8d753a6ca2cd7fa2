//! The Gateway of an Ingress.
//!
//! Istio: pilot/pkg/config/kube/ingress/gateways.go, 1.32.

use std::collections::BTreeMap;

use model::kinds::kube::{ANY_HOST, Ingress, IngressTls, is_host};
use model::{Diagnostic, Kind, Object, ObjectName, Severity};
use proto_istio::mesh::MeshConfig;
use proto_istio::networking::server_tls_settings::TlSmode;
use proto_istio::networking::{Gateway, Port, Server, ServerTlsSettings};

use super::rules::RulesOf;
use super::{charge, derived, gateway_name, key, limits};
use crate::budget;
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::owner::{OwnerOf, admit};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Gateway of an Ingress, with what is wrong with the Ingress itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewayOf(pub ObjectName);

impl Derive for GatewayOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let rules = read.derived(RulesOf(self.0.clone()));
        let Some(rules) = rules.as_ref() else {
            return Outcome::default();
        };
        let mut findings = rules.findings.clone();
        let is_over = charge::is_over(read, &self.0);
        if is_over {
            findings.push(budget::finding_of(&key(&self.0), "spec.rules"));
        }
        let ingress = read.get::<Ingress>(&self.0);
        let Some(ingress) = ingress.filter(|_| !rules.is_refused && !is_over) else {
            return Outcome {
                objects: Vec::new(),
                findings: findings.into(),
            };
        };
        let settings = read.settings();
        let name = ObjectName::new(
            settings.features.ingress_namespace.clone(),
            gateway_name(&self.0),
        );
        let gateway = Gateway {
            selector: selector(&settings.mesh),
            servers: servers(read, &ingress, &mut findings),
        };
        let derived = derived([self.0.clone()], rules.class.clone());
        let mut made = object(name, derived, gateway);
        made.meta.created = rules.created;
        Outcome {
            objects: vec![Made::new(made)],
            findings: findings.into(),
        }
    }
}

/// The label that the proxies have which serve Ingresses.
///
/// Istio: getIngressGatewaySelector.
pub(super) fn selector(mesh: &MeshConfig) -> BTreeMap<String, String> {
    let value = match (&*mesh.ingress_selector, &*mesh.ingress_service) {
        ("", "" | "istio-ingressgateway") => "ingressgateway",
        ("", service) => service,
        (selector, _) => selector,
    };
    BTreeMap::from([("istio".to_owned(), value.to_owned())])
}

fn servers(
    read: &Reader<'_, '_, Routes>,
    ingress: &Object<Ingress>,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Server> {
    let ObjectName {
        namespace, name, ..
    } = &ingress.meta.name;
    let port = |number, protocol: &str, name| Port {
        number,
        protocol: protocol.to_owned(),
        name,
        ..Port::default()
    };
    let mut servers = Vec::new();
    for (index, tls) in ingress.spec.tls.iter().enumerate() {
        let mut hosts = tls_hosts(ingress, index, tls, findings);
        hosts.retain(|(at, host)| {
            let owner = read.derived(OwnerOf(host.as_str().into()));
            let by = (Kind::Ingress, &ingress.meta.name, ingress.meta.created);
            let refused = admit(read, owner.as_ref().as_ref(), by, host).err();
            findings.extend(refused.iter().map(|message| {
                let (key, severity) = (key(&ingress.meta.name), Severity::Warning);
                finding(&key, code::NOT_OWNED, severity, at.clone(), message.clone())
            }));
            refused.is_none()
        });
        let hosts: Vec<String> = hosts.into_iter().map(|(_, host)| host).collect();
        if hosts.is_empty() {
            continue;
        }
        servers.push(Server {
            port: Some(port(
                443,
                "HTTPS",
                format!("https-443-ingress-{name}-{namespace}-{index}"),
            )),
            hosts,
            tls: Some(ServerTlsSettings {
                mode: TlSmode::Simple.into(),
                credential_name: tls.secret_name.to_string(),
                ..ServerTlsSettings::default()
            }),
            ..Server::default()
        });
    }
    servers.push(Server {
        port: Some(port(
            80,
            "HTTP",
            format!("http-80-ingress-{name}-{namespace}"),
        )),
        hosts: vec![ANY_HOST.to_owned()],
        ..Server::default()
    });
    servers
}

/// The hosts that an entry of `tls` has a certificate for, with where they are named; none where it is left out.
fn tls_hosts(
    ingress: &Object<Ingress>,
    index: usize,
    tls: &IngressTls,
    findings: &mut Vec<Diagnostic>,
) -> Vec<(String, String)> {
    let key = key(&ingress.meta.name);
    let mut tell = |field: String, message: &str| {
        let path = format!("spec.tls[{index}]{field}");
        let severity = Severity::Warning;
        findings.push(finding(&key, code::NOT_SERVED, severity, path, message));
    };
    if tls.secret_name.is_empty() {
        tell(
            ".secretName".to_owned(),
            "names no Secret, so no HTTPS is served for its hosts",
        );
        return Vec::new();
    }
    if tls.hosts.is_empty() {
        return vec![(format!("spec.tls[{index}]"), ANY_HOST.to_owned())];
    }
    let mut hosts = Vec::new();
    for (at, host) in tls.hosts.iter().enumerate() {
        if is_host(host) {
            hosts.push((format!("spec.tls[{index}].hosts[{at}]"), host.to_string()));
        } else {
            tell(
                format!(".hosts[{at}]"),
                "is not a host name, so HTTPS is not served for it",
            );
        }
    }
    hosts
}

/// Whether an Ingress has more in `tls` than is served.
pub(super) fn has_too_many_hosts(ingress: &Ingress) -> bool {
    let hosts = ingress.tls.iter().map(|tls| tls.hosts.len().max(1));
    hosts.sum::<usize>() > limits::TLS_HOSTS
}
