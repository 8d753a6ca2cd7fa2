//! VirtualService.

use std::collections::HashSet;

use model::{Meta, host};
use proto_istio::networking::VirtualService;

use super::export_to::{self, Exports};
use super::{http_route, is_converted, overlap, stream_route};
use crate::report::{At, Report};
use crate::text::{Check, fqdn, host_of_gateway_route, is_claim, is_ip, is_label, wildcard_domain};

const SEMANTICS: &str = "internal.istio.io/route-semantics";
/// So many wildcards of one object are compared with its other hosts.
const MOST_WILDCARDS: usize = 1000;
/// The name that stands for all sidecars.
const MESH: &str = "mesh";

/// What the routes of a VirtualService are judged by.
pub(super) struct Context<'a> {
    /// Its hosts.
    pub(super) hosts: &'a [String],
    /// Whether it holds at gateways and not at sidecars.
    pub(super) only_gateways: bool,
    /// Whether another one delegates to it.
    pub(super) is_delegate: bool,
    /// Whether it stands for a route of the Gateway API.
    pub(super) converted: bool,
}

pub(super) fn check(service: &VirtualService, meta: &Meta, at: &At<'_>, report: &mut Report) {
    let context = Context {
        hosts: &service.hosts,
        only_gateways: !service.gateways.iter().any(|g| g == MESH),
        is_delegate: service.hosts.is_empty(),
        converted: is_converted(meta, SEMANTICS),
    };
    if context.is_delegate {
        let unused = [
            ("gateways", service.gateways.is_empty()),
            ("tls", service.tls.is_empty()),
            ("tcp", service.tcp.is_empty()),
        ];
        for (field, empty) in unused {
            if !empty {
                let message = "has no meaning where others delegate to this, as it has no hosts";
                report.error(&at.field(field), message);
            }
        }
    }
    gateways(
        &service.gateways,
        context.converted,
        &at.field("gateways"),
        report,
    );
    let at_gateways = !service.gateways.is_empty() && context.only_gateways;
    if !at_gateways {
        claims(service, at, report);
    }
    hosts(service, at_gateways, &at.field("hosts"), report);
    if service.http.is_empty() && service.tcp.is_empty() && service.tls.is_empty() {
        report.error(at, "one of `http`, `tls` and `tcp` is needed");
    }
    for (at, route) in at.field("http").each(&service.http) {
        http_route::check(route, &context, &at, report);
    }
    for (at, route) in at.field("tls").each(&service.tls) {
        stream_route::tls(route, &context, &at, report);
    }
    for (at, route) in at.field("tcp").each(&service.tcp) {
        stream_route::tcp(route, &context, &at, report);
    }
    export_to::check(
        &service.export_to,
        meta.namespace(),
        Exports::Any,
        at,
        report,
    );
    overlap::http(&service.http, &at.field("http"), report);
    overlap::routes(
        &service.tcp,
        |r| r.r#match.as_slice(),
        &at.field("tcp"),
        report,
    );
    overlap::routes(
        &service.tls,
        |r| r.r#match.as_slice(),
        &at.field("tls"),
        report,
    );
}

fn claims(service: &VirtualService, at: &At<'_>, report: &mut Report) {
    for (at, route) in at.field("http").each(&service.http) {
        for (at, one) in at.field("match").each(&route.r#match) {
            for (field, headers) in [
                ("headers", &one.headers),
                ("withoutHeaders", &one.without_headers),
            ] {
                for name in headers.keys().filter(|name| is_claim(name)) {
                    let message = "only gateways can match claims of tokens";
                    report.error(&at.field(field).field(name), message);
                }
            }
        }
    }
}

fn hosts(service: &VirtualService, at_gateways: bool, at: &At<'_>, report: &mut Report) {
    let has_sni = service
        .tls
        .iter()
        .any(|r| r.r#match.iter().any(|m| !m.sni_hosts.is_empty()));
    let mut good = true;
    for (at, name) in at.each(&service.hosts) {
        let fault = match at_gateways {
            true => host_of_gateway_route(has_sni, name),
            false => wildcard_domain(name),
        };
        match fault {
            Err(fault) if !is_ip(name) => {
                good = false;
                report.error(&at, fault);
            }
            Ok(()) if !at_gateways && name == "*" => {
                good = false;
                report.error(&at, "sidecars need hosts, `*` is only for gateways");
            }
            _ => {}
        }
    }
    if !good {
        return;
    }
    let mut exact: HashSet<&str> = HashSet::new();
    let mut wild: Vec<&str> = Vec::new();
    for (at, name) in at.each(&service.hosts) {
        let covered = match name.starts_with('*') {
            true => exact
                .iter()
                .copied()
                .find(|other| host::matches(name, other)),
            false => exact.get(name.as_str()).copied(),
        };
        let covered = covered.or_else(|| wild.iter().copied().find(|w| host::matches(w, name)));
        if let Some(other) = covered {
            report.error(&at, format!("{name:?} overlaps with {other:?}"));
        }
        match name.starts_with('*') {
            true if wild.len() < MOST_WILDCARDS => wild.push(name),
            true => {}
            false => _ = exact.insert(name),
        }
    }
}

/// Names of gateways, as `NAMESPACE/NAME`, `NAME`, or `mesh`.
///
/// Istio: pkg/config/validation/validation.go validateGatewayNames, 1.32.
pub(super) fn gateways(names: &[String], converted: bool, at: &At<'_>, report: &mut Report) {
    for (at, name) in at.each(names) {
        let Some((namespace, gateway)) = name.split_once('/') else {
            if let Some((first, rest)) = name.split_once('.') {
                let namespace = rest.split('.').next().unwrap_or_default();
                report.warning(&at, "gateways are named NAMESPACE/NAME");
                report.help(format!("write {namespace}/{first}"));
            }
            report.check(&at, fqdn(name));
            return;
        };
        report.check(&at, namespace_and_name(namespace, gateway, converted));
    }
}

fn namespace_and_name(namespace: &str, name: &str, converted: bool) -> Check {
    if !is_label(namespace) {
        return Err(format!("{namespace:?} is no namespace"));
    }
    if name.is_empty() || (!is_label(name) && !converted) {
        return Err(format!("{name:?} is not the name of a Gateway"));
    }
    Ok(())
}
