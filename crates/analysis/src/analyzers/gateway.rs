//! Gateways: their workloads, ports and certificates.

use std::collections::{BTreeMap, BTreeSet};

use incr::{Cx, Query};
use model::credential::{Credential, Source, resource_name};
use model::kinds::istio::Gateway;
use model::kinds::kube::{Secret, Service};
use model::{Labels, Namespace, Object, ObjectName, Severity, Timestamp};
use proto_istio::networking::ServerTlsSettings;
use store::{Reads, Snapshot};

use super::certificate::{self, Fault};
use crate::code;
use crate::facts::selected::{Described, unmatched};
use crate::facts::workloads::for_each_match;
use crate::facts::{first_label, known_as, selector_text};
use crate::finding::{Report, Reported};

const NO_WORKLOAD_HELP: &str = "correct the selector, or deploy a gateway with these labels";

fn no_workload(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>, report: &mut Report<'_>) {
    // Of a gateway of an edge there is one object for each host.
    if gateway.meta.is_edge() {
        return;
    }
    let selector = &gateway.spec.selector;
    let Some(severity) = unmatched(cx, None, selector) else {
        return;
    };
    report
        .add(
            gateway,
            &code::NOT_FOUND,
            first_label("spec.selector", selector),
            format!("no workload has the labels {}", selector_text(selector)),
        )
        .help(NO_WORKLOAD_HELP)
        .at_most(severity);
}

/// Ports that no Service before the gateway leads to.
///
/// Istio: pkg/config/analysis/analyzers/gateway/gateway.go, 1.32.
pub(crate) fn ports(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>, report: &mut Report<'_>) {
    let mut by_namespace: BTreeMap<Namespace, Vec<Labels>> = BTreeMap::new();
    for_each_match(cx, &gateway.spec.selector, |workload| {
        let labels = by_namespace
            .entry(workload.name.namespace.clone())
            .or_default();
        if !labels.contains(&workload.labels) {
            labels.push(workload.labels.clone());
        }
        true
    });
    if by_namespace.is_empty() {
        no_workload(cx, gateway, report);
        return;
    }
    let mut served: BTreeSet<i32> = BTreeSet::new();
    for (namespace, workloads) in &by_namespace {
        for service in cx.list_in::<Service>(namespace) {
            if !workloads.iter().any(|l| l.matches(&service.spec.selector)) {
                continue;
            }
            for port in &service.spec.ports {
                if !matches!(&*port.protocol, "TCP" | "") {
                    continue;
                }
                served.insert(port.port);
                let target = port.target_port.as_ref().and_then(|t| t.number());
                served.extend(target.filter(|t| *t != 0));
            }
        }
    }
    // The gateway that the mesh config implies, of which the ports are not known, is no reason to warn.
    let severity = match *cx.query(&Described) {
        true => Severity::Error,
        false => Severity::Info,
    };
    let mut told = BTreeSet::new();
    for (i, server) in gateway.spec.servers.iter().enumerate() {
        let Some(port) = &server.port else { continue };
        let known = i32::try_from(port.number).is_ok_and(|n| served.contains(&n));
        if !known && told.insert(port.number) {
            report
                .add(
                    gateway,
                    &code::PORT_NOT_ON_SERVICE,
                    format!("spec.servers[{i}].port.number"),
                    format!(
                        "no Service leads to port {} of the workloads with {}",
                        port.number,
                        selector_text(&gateway.spec.selector)
                    ),
                )
                .help("add the port to the Service of the gateway; until then it is reached inside the cluster only")
                .at_most(severity);
        }
    }
}

/// Certificates that are missing, unusable or expired.
///
/// Istio: pkg/config/analysis/analyzers/gateway/secret.go, 1.32.
pub(crate) fn secrets(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>, report: &mut Report<'_>) {
    let mut home = None;
    for_each_match(cx, &gateway.spec.selector, |workload| {
        home = Some(workload.name.namespace.clone());
        false
    });
    let Some(home) = home else {
        no_workload(cx, gateway, report);
        return;
    };
    for (i, server) in gateway.spec.servers.iter().enumerate() {
        let credential = server.tls.as_ref().map(|tls| &tls.credential_name);
        let Some(credential) = credential.filter(|c| !c.is_empty()) else {
            continue;
        };
        let path = format!("spec.servers[{i}].tls.credentialName");
        // Whether the workloads may read a Secret that is elsewhere, generation tells.
        let credential = Credential::parse(&resource_name(credential), &home, None);
        let is_secret = |c: &Credential| matches!(c.source, Source::Secret | Source::GatewaySecret);
        let Some(Credential { object: name, .. }) = credential.filter(is_secret) else {
            continue;
        };
        let Some(secret) = cx.get::<Secret>(&name) else {
            report
                .add(
                    gateway,
                    &code::NOT_FOUND,
                    path,
                    format!("there is no Secret {name}, where the gateway's workloads look for it"),
                )
                .help("create the Secret in the namespace of the gateway's workloads; until then the listener refuses connections");
            continue;
        };
        match certificate::of_secret(&secret.spec) {
            Err(Fault::NoPair) => {
                let found: Vec<&str> = secret.spec.data.keys().map(|k| &**k).take(3).collect();
                invalid(
                    gateway,
                    &path,
                    report,
                    format!(
                        "the Secret {name} has neither cert and key nor tls.crt and tls.key; it has {found:?}"
                    ),
                );
            }
            Err(Fault::NoCertificate) => {
                invalid(
                    gateway,
                    &path,
                    report,
                    format!("the Secret {name} holds no certificate that can be read"),
                );
            }
            Ok(validity) => {
                let expired = format!("the certificate in the Secret {name} has expired");
                invalid(gateway, &path, report, expired)
                    .since(Timestamp(validity.not_after.saturating_add(1)));
                let early = format!("the certificate in the Secret {name} is not valid yet");
                invalid(gateway, &path, report, early).until(Timestamp(validity.not_before));
            }
        }
    }
}

fn invalid<'a>(
    gateway: &Object<Gateway>,
    path: &str,
    report: &'a mut Report<'_>,
    what: String,
) -> Reported<'a> {
    report
        .add(gateway, &code::INVALID_CREDENTIAL, path, what)
        .help("put a certificate and its key in PEM into tls.crt and tls.key")
}

/// Certificates that several gateways of the same workloads use: browsers reuse a connection for both hosts. Hosts of Ingresses
/// with annotations share their routes, so each is served on the connections of others. A gateway is reported once for each
/// certificate, however many share it.
///
/// Istio: pkg/config/analysis/analyzers/gateway/certificate.go, 1.32.
pub(crate) fn certificates(
    cx: &Cx<'_, Snapshot>,
    gateway: &Object<Gateway>,
    report: &mut Report<'_>,
) {
    let own: Vec<(usize, &ServerTlsSettings)> = tls_servers(gateway).collect();
    if own.is_empty() {
        return;
    }
    let mut open = own;
    let others = match gateway.meta.is_edge() {
        true => cx
            .query(&OwnRoutes)
            .iter()
            .filter_map(|name| cx.get::<Gateway>(name))
            .collect(),
        false => cx.list::<Gateway>(),
    };
    for other in others {
        if open.is_empty() {
            return;
        }
        let mut selector = gateway.spec.selector.iter();
        let same_workloads = selector.all(|(k, v)| other.spec.selector.get(k) == Some(v));
        if other.meta.name == gateway.meta.name || !same_workloads {
            continue;
        }
        let shared = open
            .iter()
            .find(|(_, tls)| tls_servers(&other).any(|(_, theirs)| same_certificate(tls, theirs)))
            .copied();
        if let Some((i, shared)) = shared {
            open.retain(|(_, tls)| !same_certificate(tls, shared));
            report
                .add(
                    gateway,
                    &code::DUPLICATE_CERTIFICATE,
                    format!("spec.servers[{i}].tls"),
                    format!(
                        "{} and {} show the same certificate, so a browser may send requests for one to the other and get 404",
                        known_as(&gateway.meta),
                        known_as(&other.meta)
                    ),
                )
                .help("serve all hosts of a certificate from one Gateway");
        }
    }
}

/// The Gateways that do not share their routes with those of other hosts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OwnRoutes;

impl Query<Snapshot> for OwnRoutes {
    type Value = Vec<ObjectName>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let all = cx.list::<Gateway>().into_iter();
        let own = all.filter(|gateway| !gateway.meta.is_edge());
        own.map(|gateway| gateway.meta.name.clone()).collect()
    }
}

fn tls_servers(gateway: &Object<Gateway>) -> impl Iterator<Item = (usize, &ServerTlsSettings)> {
    let servers = gateway.spec.servers.iter().enumerate();
    servers.filter_map(|(i, server)| Some((i, server.tls.as_ref()?)))
}

fn same_certificate(a: &ServerTlsSettings, b: &ServerTlsSettings) -> bool {
    match (a.credential_name.as_str(), b.credential_name.as_str()) {
        ("", "") => {
            !a.server_certificate.is_empty()
                && !a.private_key.is_empty()
                && a.server_certificate == b.server_certificate
                && a.private_key == b.private_key
        }
        (a, b) => a == b,
    }
}
