//! ServiceEntry.

use std::collections::BTreeSet;

use model::Meta;
use model::protocol::Protocol;
use proto_istio::networking::ServiceEntry;
use proto_istio::networking::service_entry::{Location, Resolution};

use super::destination_rule::label_pairs;
use super::export_to::{self, Exports};
use super::{selector, workload};
use crate::report::{At, Report};
use crate::text::{
    fqdn, is_ip, partial_wildcard, port, port_name, protocol, subnet, wildcard_domain,
};

const AUTO_ALLOCATE: &str = "networking.istio.io/enable-autoallocate-ip";
const USE_WAYPOINT: &str = "istio.io/use-waypoint";

pub(super) fn check(entry: &ServiceEntry, meta: &Meta, at: &At<'_>, report: &mut Report) {
    if !selector::older(entry.workload_selector.as_ref(), at, report) {
        return;
    }
    if entry.workload_selector.is_some() && !entry.endpoints.is_empty() {
        report.error(
            &at.field("endpoints"),
            "only one of `workloadSelector` and `endpoints` may be set",
        );
    }
    let resolution = Resolution::try_from(entry.resolution);
    hosts(entry, at, report);
    for (at, address) in at.field("addresses").each(&entry.addresses) {
        report.check(&at, subnet(address));
    }
    let has_range = entry.addresses.iter().any(|a| a.contains('/'));
    if has_range && !matches!(resolution, Ok(Resolution::None | Resolution::Static)) {
        report.error(
            &at.field("addresses"),
            "CIDR ranges need the resolution NONE or STATIC",
        );
    }
    let names = ports(entry, meta, at, report);
    match resolution {
        Ok(Resolution::None) => {
            if !entry.endpoints.is_empty() {
                let message = "endpoints have no meaning where the resolution is NONE";
                report.error(&at.field("endpoints"), message);
                report.help("set the resolution to STATIC or DNS");
            }
            if entry.workload_selector.is_some() {
                let message = "workloads have no meaning where the resolution is NONE";
                report.warning(&at.field("workloadSelector"), message);
            }
        }
        Ok(Resolution::Static) => {
            for (at, endpoint) in at.field("endpoints").each(&entry.endpoints) {
                workload::entry(endpoint, Some(&names), false, &at, report);
            }
        }
        Ok(Resolution::Dns | Resolution::DnsRoundRobin) => dns(entry, &names, at, report),
        Ok(Resolution::DynamicDns) => dynamic_dns(entry, meta, at, report),
        Err(_) => report.error(&at.field("resolution"), "unknown resolution"),
    }
    if resolution != Ok(Resolution::None) && entry.hosts.len() > 1 {
        let plain = at.field("ports");
        let plain = plain.each(&entry.ports).find(|(_, port)| {
            let protocol = Protocol::parse(&port.protocol);
            !protocol.is_http() && !is_tls(protocol)
        });
        if let Some((at, _)) = plain {
            report.error(
                &at.field("protocol"),
                "of several hosts, only HTTP and TLS can tell which one is meant",
            );
            report.help("make a ServiceEntry for each host, or name the protocol");
        }
    }
    export_to::check(
        &entry.export_to,
        meta.namespace(),
        Exports::OrNobody,
        at,
        report,
    );
}

fn is_tls(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Https | Protocol::Tls)
}

fn hosts(entry: &ServiceEntry, at: &At<'_>, report: &mut Report) {
    let at = at.field("hosts");
    let protocols = entry
        .ports
        .iter()
        .map(|port| Protocol::parse(&port.protocol));
    let has_tls = protocols.into_iter().any(is_tls);
    if entry.hosts.is_empty() {
        report.error(&at, "a host is needed");
    }
    for (at, host) in at.each(&entry.hosts) {
        if host == "*" {
            report.error(&at, "`*` is no host of a service");
            continue;
        }
        report.check(&at, wildcard_domain(host));
        if (entry.resolution() != Resolution::DynamicDns || has_tls)
            && let Err(fault) = partial_wildcard(host)
        {
            // Envoy has no such server names, so it is left out of them.
            let fault = match has_tls {
                true => format!("{fault}, so TLS is not sent there by this name"),
                false => fault,
            };
            report.warning(&at, fault);
        }
    }
}

/// The names of the ports.
fn ports<'a>(
    entry: &'a ServiceEntry,
    meta: &Meta,
    at: &At<'_>,
    report: &mut Report,
) -> BTreeSet<&'a str> {
    let opted_out = meta.labels.get(AUTO_ALLOCATE);
    let allocated = entry.resolution() != Resolution::None
        && !opted_out.is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (at, one) in at.field("ports").each(&entry.ports) {
        if !names.insert(one.name.as_str()) {
            let message = format!("there is another port {:?}", one.name);
            report.error(&at.field("name"), message);
        }
        if !numbers.insert(one.number) {
            let message = format!("there is another port {}", one.number);
            report.error(&at.field("number"), message);
        }
        if one.target_port != 0 {
            report.check(&at.field("targetPort"), port(one.target_port.into()));
        }
        let plain = matches!(one.protocol.as_str(), "" | "TCP");
        if entry.addresses.is_empty() && !allocated && plain {
            report.warning(
                &at.field("protocol"),
                "without addresses, TCP on this port cannot be told from other services'",
            );
        }
        report.check(&at.field("name"), port_name(&one.name));
        report.check(&at.field("protocol"), protocol(&one.protocol));
        report.check(&at.field("number"), port(one.number.into()));
    }
    names
}

fn dns(entry: &ServiceEntry, names: &BTreeSet<&str>, at: &At<'_>, report: &mut Report) {
    if entry.endpoints.is_empty() {
        let hosts = at.field("hosts");
        let wild = hosts.each(&entry.hosts).find(|(_, h)| fqdn(h).is_err());
        if let Some((at, host)) = wild {
            let message = format!("{host:?} cannot be looked up, and there are no endpoints");
            report.error(&at, message);
        }
    }
    if entry.resolution() == Resolution::DnsRoundRobin && entry.endpoints.len() > 1 {
        let message = "DNS_ROUND_ROBIN can have one endpoint";
        report.error(&at.field("endpoints"), message);
    }
    for (at, endpoint) in at.field("endpoints").each(&entry.endpoints) {
        let address = &endpoint.address;
        if !is_ip(address) && fqdn(address).is_err() {
            let message = format!("{address:?} is no host name and no IP address");
            report.error(&at.field("address"), message);
        }
        label_pairs(&endpoint.labels, &at.field("labels"), report);
        workload::ports(endpoint, Some(names), &at, report);
    }
    let tcp = |protocol: &str| {
        use Protocol::{Https, Mongo, Mysql, Redis, Tcp, Tls};
        matches!(
            Protocol::parse(protocol),
            Tcp | Https | Tls | Mongo | Redis | Mysql
        )
    };
    if !entry.addresses.is_empty()
        && entry.hosts.len() > 1
        && entry.ports.iter().any(|p| tcp(&p.protocol))
    {
        report.warning(
            &at.field("addresses"),
            "several hosts share the addresses, so TCP cannot tell which one is meant",
        );
    }
}

fn dynamic_dns(entry: &ServiceEntry, meta: &Meta, at: &At<'_>, report: &mut Report) {
    for (at, host) in at.field("hosts").each(&entry.hosts) {
        if !host.starts_with('*') {
            report.error(&at, "DYNAMIC_DNS needs a host with a wildcard");
        }
    }
    if !entry.addresses.is_empty() {
        let message = "DYNAMIC_DNS takes the address from the request";
        report.error(&at.field("addresses"), message);
    }
    if !entry.endpoints.is_empty() {
        let message = "DYNAMIC_DNS takes the endpoint from the request";
        report.error(&at.field("endpoints"), message);
    }
    for (at, port) in at.field("ports").each(&entry.ports) {
        use Protocol::{Grpc, Http, Http2, Tls};
        if !matches!(Protocol::parse(&port.protocol), Http | Tls | Grpc | Http2) {
            let message = "DYNAMIC_DNS works for HTTP, HTTP2, GRPC and TLS";
            report.error(&at.field("protocol"), message);
        }
    }
    let waypoint = meta.labels.get(USE_WAYPOINT);
    let has_waypoint = waypoint.is_some_and(|w| !w.is_empty() && !w.eq_ignore_ascii_case("none"));
    if entry.location() == Location::MeshInternal && has_waypoint {
        let message = "DYNAMIC_DNS behind a waypoint needs the location MESH_EXTERNAL";
        report.error(&at.field("location"), message);
    }
}
