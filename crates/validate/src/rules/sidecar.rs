//! Sidecar.

use std::collections::{BTreeMap, BTreeSet};

use model::Meta;
use model::protocol::Protocol;
use proto_istio::networking::outbound_traffic_policy::Mode;
use proto_istio::networking::server_tls_settings::TlSmode;
use proto_istio::networking::{
    CaptureMode, IstioEgressListener, IstioIngressListener, OutboundTrafficPolicy, Sidecar,
    SidecarPort,
};

use super::gateway::UNIX;
use super::{http_route, selector, server_tls, traffic_policy};
use crate::report::{At, Report};
use crate::text::{
    fqdn, ip, namespaced_host, port, port_name, protocol, split_host_port, unix_path,
};

pub(super) fn check(sidecar: &Sidecar, meta: &Meta, at: &At<'_>, report: &mut Report) {
    if !selector::older(sidecar.workload_selector.as_ref(), at, report) {
        return;
    }
    let empty = sidecar.egress.is_empty()
        && sidecar.ingress.is_empty()
        && sidecar.outbound_traffic_policy.is_none()
        && sidecar.inbound_connection_pool.is_none();
    if empty {
        return report.error(at, "the Sidecar says nothing");
    }
    let mut numbers = BTreeSet::new();
    for (at, listener) in at.field("ingress").each(&sidecar.ingress) {
        ingress(listener, &mut numbers, &at, report);
    }
    let pool = sidecar.inbound_connection_pool.as_ref();
    traffic_policy::connection_pool(pool, &at.field("inboundConnectionPool"), report);
    let at_egress = at.field("egress");
    let (mut numbers, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    let mut catches_all = false;
    for (index, listener) in sidecar.egress.iter().enumerate() {
        let at = at_egress.item(index);
        match &listener.port {
            None if catches_all => {
                report.error(&at, "only one listener can be without a port");
                continue;
            }
            None if index + 1 < sidecar.egress.len() => {
                report.error(&at, "the listener without a port must be the last one");
            }
            None => catches_all = true,
            Some(port) => {
                egress_port(port, listener, &at, report);
                let fresh = match port.number {
                    0 => sockets.insert(listener.bind.as_str()),
                    number => numbers.insert(number),
                };
                if !fresh {
                    report.error(&at.field("port"), "another listener has this port");
                }
            }
        }
        egress_hosts(
            &listener.hosts,
            meta.namespace(),
            &at.field("hosts"),
            report,
        );
    }
    if let Some(policy) = &sidecar.outbound_traffic_policy {
        outbound(policy, &at.field("outboundTrafficPolicy"), report);
    }
}

fn ingress(
    listener: &IstioIngressListener,
    numbers: &mut BTreeSet<u32>,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(of) = &listener.port else {
        return report.error(&at.field("port"), "a port is needed");
    };
    port_fields(of, at, report);
    report.check(&at.field("port").field("number"), port(of.number.into()));
    if !listener.bind.is_empty() {
        report.check(&at.field("bind"), ip(&listener.bind));
    }
    if !numbers.insert(of.number) {
        let message = "another listener has this port";
        report.error(&at.field("port").field("number"), message);
    }
    if !listener.default_endpoint.is_empty() {
        endpoint(
            &listener.default_endpoint,
            &at.field("defaultEndpoint"),
            report,
        );
    }
    let of_port = Protocol::parse(&of.protocol);
    if let Some(tls) = &listener.tls {
        let at = at.field("tls");
        let unsupported = [
            ("subjectAltNames", !tls.subject_alt_names.is_empty()),
            ("httpsRedirect", tls.https_redirect),
            ("credentialName", !tls.credential_name.is_empty()),
            ("credentialNames", !tls.credential_names.is_empty()),
            ("tlsCertificates", !tls.tls_certificates.is_empty()),
        ];
        for (field, set) in unsupported {
            if set {
                report.error(&at.field(field), "is not supported at sidecars");
            }
        }
        if matches!(tls.mode(), TlSmode::IstioMutual | TlSmode::AutoPassthrough) {
            report.error(&at.field("mode"), "this mode is not supported at sidecars");
        }
        if !matches!(of_port, Protocol::Https | Protocol::Tls) {
            report.error(&at, "only HTTPS and TLS can have settings for TLS");
        }
        server_tls::check(Some(tls), &at, report);
    }
    let pool = listener.connection_pool.as_ref();
    traffic_policy::connection_pool(pool, &at.field("connectionPool"), report);
    if pool.is_some_and(|pool| pool.http.is_some()) && !of_port.is_http() {
        let message = format!(
            "the port's protocol is {:?}, so this is not used",
            of.protocol
        );
        report.warning(&at.field("connectionPool").field("http"), message);
    }
}

/// What ports of both directions have.
fn port_fields(port: &SidecarPort, at: &At<'_>, report: &mut Report) {
    let at = at.field("port");
    if port.target_port > 0 {
        report.error(&at.field("targetPort"), "has no meaning at sidecars");
    }
    if !port.name.is_empty() {
        report.check(&at.field("name"), port_name(&port.name));
    }
    report.check(&at.field("protocol"), protocol(&port.protocol));
}

/// Where a listener sends on to: a local address, or a Unix socket.
fn endpoint(text: &str, at: &At<'_>, report: &mut Report) {
    if let Some(path) = text.strip_prefix(UNIX) {
        return report.check(at, unix_path(path));
    }
    let local = ["", "127.0.0.1", "0.0.0.0", "::1", "::"];
    let good = split_host_port(text).is_some_and(|(host, number)| {
        local.contains(&host) && number.parse().is_ok_and(|number| port(number).is_ok())
    });
    if !good {
        report.error(at, format!("{text:?} is no local endpoint"));
        report.help("expected 127.0.0.1:PORT, 0.0.0.0:PORT, [::1]:PORT, [::]:PORT or unix://PATH");
    }
}

fn egress_port(of: &SidecarPort, listener: &IstioEgressListener, at: &At<'_>, report: &mut Report) {
    port_fields(of, at, report);
    let bind = listener.bind.as_str();
    if of.number != 0 {
        report.check(&at.field("port").field("number"), port(of.number.into()));
        if !bind.is_empty() {
            report.check(&at.field("bind"), ip(bind));
        }
        return;
    }
    match bind.strip_prefix(UNIX) {
        Some(path) => report.check(&at.field("bind"), unix_path(path)),
        None => report.error(&at.field("bind"), "the port 0 needs a Unix socket"),
    }
    if listener.capture_mode() == CaptureMode::Iptables {
        report.error(&at.field("captureMode"), "a Unix socket cannot be captured");
    }
}

fn egress_hosts(hosts: &[String], own: &str, at: &At<'_>, report: &mut Report) {
    if hosts.is_empty() {
        return report.error(at, "a host is needed");
    }
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (at, host) in at.each(hosts) {
        if let Some((namespace, name)) = host.split_once('/')
            && !namespace.starts_with('~')
        {
            let namespace = if namespace == "." { own } else { namespace };
            let names = seen.entry(namespace).or_default();
            let doubled = match name {
                "*" => !names.is_empty(),
                _ => names.contains(name) || names.contains("*"),
            };
            if doubled {
                report.warning(&at, format!("{host:?} adds nothing to the hosts before it"));
            }
            names.insert(name);
        }
        for fault in namespaced_host(host, false, false) {
            report.error(&at, fault);
        }
    }
    if seen.len() > 1 && seen.get("*").is_some_and(|names| names.contains("*")) {
        report.warning(
            at,
            "`*/*` takes everything, beside it nothing has a meaning",
        );
    }
}

/// Istio: pkg/config/validation/validation.go validateSidecarOutboundTrafficPolicy, 1.32.
fn outbound(policy: &OutboundTrafficPolicy, at: &At<'_>, report: &mut Report) {
    let Ok(mode) = Mode::try_from(policy.mode) else {
        return report.error(&at.field("mode"), "this mode is only for the whole mesh");
    };
    let Some(proxy) = &policy.egress_proxy else {
        return;
    };
    let at_proxy = at.field("egressProxy");
    if mode != Mode::AllowAny {
        return report.error(&at_proxy, "has a meaning only where the mode is ALLOW_ANY");
    }
    report.check(&at_proxy.field("host"), fqdn(&proxy.host));
    if proxy.port.is_none() {
        return report.error(&at_proxy.field("port"), "a port is needed");
    }
    http_route::destination(Some(proxy), &at_proxy, report);
}
