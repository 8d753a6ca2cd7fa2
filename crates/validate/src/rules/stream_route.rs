//! Routes of VirtualServices for TLS and TCP.
// Istio: pkg/config/validation/validation.go validateTLSRoute, validateTCPRoute, 1.32.

use model::host;
use proto_istio::networking::{RouteDestination, TcpRoute, TlsRoute};

use super::destination_rule::label_pairs;
use super::http_route::destination;
use super::virtual_service::{Context, gateways};
use crate::report::{At, Report};
use crate::text::{host_of_gateway_route, is_ip, not_negative, port, subnet, wildcard_domain};

pub(super) fn tls(route: &TlsRoute, context: &Context<'_>, at: &At<'_>, report: &mut Report) {
    let at_match = at.field("match");
    if route.r#match.is_empty() {
        report.error(&at_match, "a match is needed");
    }
    for (at, one) in at_match.each(&route.r#match) {
        let at_hosts = at.field("sniHosts");
        if one.sni_hosts.is_empty() {
            report.error(&at_hosts, "a host is needed");
        }
        for (at, name) in at_hosts.each(&one.sni_hosts) {
            sni(name, context, &at, report);
        }
        for (at, text) in at
            .field("destinationSubnets")
            .each(&one.destination_subnets)
        {
            report.check(&at, subnet(text));
        }
        if one.port != 0 {
            report.check(&at.field("port"), port(one.port.into()));
        }
        label_pairs(&one.source_labels, &at.field("sourceLabels"), report);
        gateways(&one.gateways, false, &at.field("gateways"), report);
    }
    destinations(&route.route, context, at, report);
}

fn sni(name: &str, context: &Context<'_>, at: &At<'_>, report: &mut Report) {
    let fault = match context.only_gateways {
        true => host_of_gateway_route(true, name),
        false => wildcard_domain(name),
    };
    if let Err(fault) = fault {
        if is_ip(name) {
            return report.warning(at, "clients send no addresses as server name");
        }
        return report.error(at, fault);
    }
    if !context.hosts.iter().any(|host| host::subset_of(name, host)) {
        report.error(
            at,
            format!("{name:?} is none of the hosts of the VirtualService"),
        );
        report.help(format!("its hosts are {}", context.hosts.join(", ")));
    }
}

pub(super) fn tcp(route: &TcpRoute, context: &Context<'_>, at: &At<'_>, report: &mut Report) {
    for (at, one) in at.field("match").each(&route.r#match) {
        for (at, text) in at
            .field("destinationSubnets")
            .each(&one.destination_subnets)
        {
            report.check(&at, subnet(text));
        }
        if one.port != 0 {
            report.check(&at.field("port"), port(one.port.into()));
        }
        label_pairs(&one.source_labels, &at.field("sourceLabels"), report);
        // As in Istio, names of gateways warn in routes for TLS only.
        let mut found = Report::default();
        gateways(&one.gateways, false, &at.field("gateways"), &mut found);
        report.0.extend(found.into_errors());
    }
    destinations(&route.route, context, at, report);
}

fn destinations(
    destinations: &[RouteDestination],
    context: &Context<'_>,
    at: &At<'_>,
    report: &mut Report,
) {
    let at = at.field("route");
    if destinations.is_empty() {
        report.error(&at, "a destination is needed");
    }
    weighted(destinations, context, &at, report);
}

/// Istio: pkg/config/validation/validation.go validateRouteDestinations, 1.32.
pub(super) fn weighted(
    destinations: &[RouteDestination],
    context: &Context<'_>,
    at: &At<'_>,
    report: &mut Report,
) {
    for (at, one) in at.each(destinations) {
        if one.destination.is_none() {
            report.error(&at.field("destination"), "a destination is needed");
        }
        if !context.converted {
            destination(one.destination.as_ref(), &at.field("destination"), report);
        }
        report.check(&at.field("weight"), not_negative(one.weight.into()));
    }
    total_weight(destinations.iter().map(|d| d.weight), at, report);
}

/// Of several destinations, one must have a weight.
pub(super) fn total_weight(
    weights: impl ExactSizeIterator<Item = i32>,
    at: &At<'_>,
    report: &mut Report,
) {
    let many = weights.len() > 1;
    let total: i64 = weights.map(i64::from).sum();
    if many && total == 0 {
        report.error(at, "the weights add up to 0");
    }
    if total > u32::MAX.into() {
        report.error(
            at,
            format!("the weights add up to {total}, more than {}", u32::MAX),
        );
    }
}
