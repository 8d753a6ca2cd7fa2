//! Gateway of Istio.

use std::collections::BTreeSet;

use model::Meta;
use model::protocol::Protocol;
use proto_istio::networking::server_tls_settings::TlSmode as Mode;
use proto_istio::networking::{Gateway, Port, Server};

use super::{is_converted, server_tls};
use crate::report::{At, Report};
use crate::text::{gateway_port_name, ip, is_label, namespaced_host, port, unix_path};

const SEMANTICS: &str = "internal.istio.io/gateway-semantics";
pub(super) const UNIX: &str = "unix://";

pub(super) fn check(gateway: &Gateway, meta: &Meta, at: &At<'_>, report: &mut Report) {
    let converted = is_converted(meta, SEMANTICS);
    if !is_label(&meta.name.name) && !converted {
        let (top, message) = (At::TOP, "the name of a Gateway may have no dots");
        report.error(&top.field("metadata").field("name"), message);
    }
    let at = &at.field("servers");
    if gateway.servers.is_empty() {
        report.error(at, "a server is needed");
    }
    let mut names = BTreeSet::new();
    for (at, one) in at.each(&gateway.servers) {
        server(one, converted, &at, report);
        let Some(port) = &one.port else { continue };
        if !names.insert(&port.name) {
            let message = format!("another server has a port {:?}", port.name);
            report.error(&at.field("port").field("name"), message);
        }
        let redirects = one.tls.as_ref().is_some_and(|tls| tls.https_redirect);
        if redirects && !Protocol::parse(&port.protocol).is_http() {
            let at = at.field("tls");
            report.warning(
                &at.field("httpsRedirect"),
                "only servers for HTTP can redirect",
            );
        }
    }
}

/// Istio: pkg/config/validation/validation.go validateServer, 1.32.
pub(super) fn server(server: &Server, converted: bool, at: &At<'_>, report: &mut Report) {
    if server.hosts.is_empty() {
        report.error(&at.field("hosts"), "a host is needed");
    }
    for (at, host) in at.field("hosts").each(&server.hosts) {
        for fault in namespaced_host(host, true, converted) {
            report.error(&at, fault);
        }
    }
    let mut found = Report::default();
    server_port(server.port.as_ref(), &server.bind, at, &mut found);
    let port_is_good = !found.has_errors();
    report.0.extend(found.0);
    bind(
        server.port.as_ref(),
        &server.bind,
        &at.field("bind"),
        report,
    );
    server_tls::check(server.tls.as_ref(), &at.field("tls"), report);
    let Some(port) = server.port.as_ref().filter(|_| port_is_good) else {
        return;
    };
    let protocol = Protocol::parse(&port.protocol);
    let is_tls = matches!(protocol, Protocol::Https | Protocol::Tls);
    match &server.tls {
        None if is_tls => {
            let message = format!("{} needs settings for TLS", protocol.name());
            report.error(&at.field("tls"), message);
        }
        Some(tls) if !is_tls && protocol.is_http() => {
            let passes = matches!(tls.mode(), Mode::Passthrough | Mode::AutoPassthrough);
            let files = [
                &tls.ca_certificates,
                &tls.private_key,
                &tls.server_certificate,
            ];
            if !passes || files.iter().any(|file| !file.is_empty()) {
                let message = format!("{} has no TLS; it can only redirect", protocol.name());
                report.error(&at.field("tls"), message);
                report.help("set the port's protocol to HTTPS");
            }
        }
        Some(_) if !is_tls => {
            report.error(
                &at.field("tls"),
                "only HTTPS and TLS can have settings for TLS",
            );
        }
        _ => {}
    }
}

/// Istio: pkg/config/validation/validation.go validateServerPort, 1.32.
pub(super) fn server_port(of: Option<&Port>, bind: &str, at: &At<'_>, report: &mut Report) {
    let at = at.field("port");
    let Some(of) = of else {
        return report.error(&at, "a port is needed");
    };
    if Protocol::parse(&of.protocol) == Protocol::Unsupported {
        let message = format!("unknown protocol {:?}", of.protocol);
        report.error(&at.field("protocol"), message);
        report.help("expected HTTP, HTTPS, HTTP2, GRPC, GRPC-WEB, TLS, TCP, MONGO, MYSQL or REDIS");
    }
    if of.number > 0 || !bind.starts_with(UNIX) {
        report.check(&at.field("number"), port(of.number.into()));
    }
    if of.target_port > 0 {
        report.error(&at.field("targetPort"), "has no meaning at gateways");
    }
    report.check(&at.field("name"), gateway_port_name(&of.name));
}

fn bind(port: Option<&Port>, bind: &str, at: &At<'_>, report: &mut Report) {
    match bind.strip_prefix(UNIX) {
        Some(path) => {
            report.check(at, unix_path(path));
            if port.is_some_and(|port| port.number != 0) {
                report.error(at, "the number of the port must be 0 for a Unix socket");
            }
        }
        None if !bind.is_empty() => report.check(at, ip(bind)),
        None => {}
    }
}
