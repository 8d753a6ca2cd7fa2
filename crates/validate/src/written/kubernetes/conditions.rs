//! What values of Kubernetes' kinds must say together.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::parse::Raw;

use crate::report::{At, Report};
use crate::text::is_ip;
use crate::written::gateway_api::is_subdomain;

/// Bytes of a Secret or a ConfigMap.
const LARGEST_DATA: usize = 1 << 20;

fn text<'a>(value: Raw<'a>, key: &str) -> Option<&'a str> {
    value
        .get(key)
        .and_then(Raw::as_str)
        .filter(|t| !t.is_empty())
}

fn items(value: Raw<'_>) -> impl Iterator<Item = (usize, Raw<'_>)> {
    value.items().into_iter().flatten().enumerate()
}

fn many(value: Raw<'_>, key: &str) -> usize {
    value.get(key).and_then(Raw::items).map_or(0, |i| i.len())
}

fn no_ip(text: &str, at: &At<'_>, report: &mut Report) {
    if !is_ip(text) {
        report.error(at, format!("{text:?} is no IP address"));
    }
}

pub(super) fn ip(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if let Some(text) = value.as_str() {
        no_ip(text, at, report);
    }
}

/// An address, or none.
pub(super) fn optional_ip(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if let Some(text) = value.as_str().filter(|t| !t.is_empty()) {
        no_ip(text, at, report);
    }
}

/// The address of a Service: none yet, none at all, or one.
pub(super) fn cluster_ip(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if let Some(text) = value.as_str().filter(|t| !matches!(*t, "" | "None")) {
        no_ip(text, at, report);
    }
}

pub(super) fn range(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if let Some(text) = value.as_str()
        && text.trim().parse::<ipnet::IpNet>().is_err()
    {
        report.error(
            at,
            format!("{text:?} is no range of addresses such as 10.0.0.0/8"),
        );
    }
}

pub(super) fn service(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let external = text(value, "type") == Some("ExternalName");
    let headless = text(value, "clusterIP") == Some("None");
    let at_name = at.field("externalName");
    match text(value, "externalName") {
        None if external => report.error(&at_name, "the type ExternalName needs it"),
        Some(name) if external && !is_subdomain(name.trim_end_matches('.')) => {
            report.error(&at_name, format!("{name:?} is not a host name"));
        }
        _ => {}
    }
    if external && value.get("clusterIP").is_some() && text(value, "clusterIP").is_some() {
        let message = "has no meaning where the type is ExternalName";
        report.error(&at.field("clusterIP"), message);
    }
    if headless && matches!(text(value, "type"), Some("NodePort" | "LoadBalancer")) {
        let message = "a Service of this type needs an address, and cannot be headless";
        report.error(&at.field("clusterIP"), message);
    }
    if many(value, "ports") == 0 && !headless && !external {
        report.error(&at.field("ports"), "a Service with an address needs a port");
    }
}

pub(super) fn service_ports(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let several = value.items().map_or(0, |i| i.len()) > 1;
    let (mut names, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in items(value) {
        let at = at.item(index);
        match text(port, "name") {
            None if several => {
                report.error(&at.field("name"), "is needed where there are several ports");
            }
            Some(name) if !names.insert(name) => {
                report.error(&at.field("name"), format!("there is another {name:?}"));
            }
            _ => {}
        }
        let protocol = text(port, "protocol").unwrap_or("TCP");
        if let Some(number) = port.get("port").and_then(Raw::as_f64)
            && !ports.insert((protocol, number.to_bits()))
        {
            let message = format!("another port has the number {number} and {protocol}");
            report.error(&at.field("port"), message);
        }
    }
}

/// The name of a service as IANA has it: up to 15 lower-case letters, digits and single dashes, one of them a letter.
pub(super) fn is_service_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.is_empty()
        || (text.len() <= 15
            && text.bytes().all(good)
            && text.bytes().any(|b| b.is_ascii_lowercase())
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--"))
}

pub(super) fn target_port(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if let Some(name) = value.as_str() {
        // Kubernetes looks for a port of that name, also where it is a number in quotes.
        if !is_service_name(name) || name.is_empty() {
            let message = format!("{name:?} is neither the number nor the name of a port");
            report.error(at, message);
            if name.parse::<u16>().is_ok() {
                report.help("write the number without quotes");
            }
        }
    } else if let Some(number) = value.as_f64()
        && !(1.0..=65_535.0).contains(&number)
    {
        report.error(at, format!("{number} is not between 1 and 65535"));
    }
}

pub(super) fn slice_addresses(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let family = text(value, "addressType").unwrap_or_default();
    let Some(endpoints) = value.get("endpoints") else {
        return;
    };
    let at = at.field("endpoints");
    for (index, endpoint) in items(endpoints) {
        let Some(addresses) = endpoint.get("addresses") else {
            continue;
        };
        let at = at.item(index);
        let at = at.field("addresses");
        for (index, address) in items(addresses) {
            let Some(address) = address.as_str() else {
                continue;
            };
            let at = at.item(index);
            if let Some(fault) = address_fault(family, address) {
                report.error(&at, format!("{address:?} {fault}"));
            } else if address.parse().is_ok_and(is_local) {
                // All of a mesh may run on one machine.
                let message = format!("{address:?} is an address that no other machine can reach");
                report.warning(&at, message);
            }
        }
    }
}

fn address_fault(family: &str, address: &str) -> Option<&'static str> {
    let ip = address.parse::<IpAddr>();
    let fits = match family {
        "IPv4" => matches!(ip, Ok(IpAddr::V4(_))),
        "IPv6" => matches!(ip, Ok(IpAddr::V6(_))),
        "FQDN" => return (!is_subdomain(address)).then_some("is not a host name"),
        _ => return None,
    };
    if ip.is_err() {
        return Some("is no IP address");
    }
    if !fits {
        return Some("is of the other family than `addressType` says");
    }
    None
}

fn is_local(ip: IpAddr) -> bool {
    let of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.is_multicast(),
    };
    ip.is_unspecified() || ip.is_loopback() || of_link
}

pub(super) fn container_ports(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut names = BTreeSet::new();
    for (index, port) in items(value) {
        if let Some(name) = text(port, "name")
            && !names.insert(name)
        {
            let message = format!("there is another {name:?}");
            report.error(&at.item(index).field("name"), message);
        }
    }
}

pub(super) fn node_address(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let (Some(ty), Some(address)) = (text(value, "type"), text(value, "address")) else {
        return;
    };
    if ty.ends_with("IP") && address.parse::<IpAddr>().is_err() {
        let message = format!("{address:?} is no IP address");
        report.error(&at.field("address"), message);
    }
}

/// Keys of the data of Secrets and ConfigMaps.
pub(super) fn keys(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    for (key, _) in value.all_entries().into_iter().flatten() {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if key.is_empty() || key.len() > 253 || !key.bytes().all(good) || matches!(key, "." | "..")
        {
            let message = format!(
                "{key:?} is no key: it needs letters, digits, -, _ and ., and at most 253 of them"
            );
            report.error(&at.field(key), message);
        }
    }
}

fn size(value: Raw<'_>, parts: &[&str]) -> usize {
    let texts = parts
        .iter()
        .filter_map(|part| value.get(part)?.all_entries())
        .flatten();
    texts
        .map(|(_, text)| text.as_str().map_or(0, str::len))
        .sum()
}

fn too_large(size: usize, at: &At<'_>, report: &mut Report) {
    if size > LARGEST_DATA {
        report.error(at, format!("has {size} bytes, more than {LARGEST_DATA}"));
    }
}

pub(super) fn secret(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    // Base64 makes four characters of three bytes.
    let data = size(value, &["data"]) / 4 * 3 + size(value, &["stringData"]);
    too_large(data, &at.field("data"), report);
    if text(value, "type") != Some("kubernetes.io/tls") {
        return;
    }
    let has = |key: &str| {
        let parts = ["data", "stringData"];
        parts
            .iter()
            .any(|part| value.get(part).is_some_and(|p| p.value_of(key).is_some()))
    };
    for key in ["tls.crt", "tls.key"] {
        if !has(key) {
            let at = at.field("data");
            report.error(&at.field(key), "the type kubernetes.io/tls needs it");
        }
    }
}

pub(super) fn config_map(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    too_large(
        size(value, &["data", "binaryData"]),
        &at.field("data"),
        report,
    );
    let (Some(data), Some(binary)) = (value.get("data"), value.get("binaryData")) else {
        return;
    };
    for (key, _) in binary.all_entries().into_iter().flatten() {
        if data.value_of(key).is_some() {
            let at = at.field("binaryData");
            report.error(&at.field(key), "the key stands in `data` too");
        }
    }
}

pub(super) fn ingress(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if many(value, "rules") == 0 && value.get("defaultBackend").is_none() {
        report.error(at, "one of `defaultBackend` and `rules` is needed");
    }
}

pub(super) fn ingress_path(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let strict = matches!(text(value, "pathType"), Some("Exact" | "Prefix"));
    let path = text(value, "path").unwrap_or_default();
    let at = at.field("path");
    if path.is_empty() {
        if strict {
            report.error(&at, "is needed, and starts with a slash");
        }
        return;
    }
    if !path.starts_with('/') {
        return report.error(&at, format!("{path:?} does not start with a slash"));
    }
    if !strict {
        return;
    }
    let inside = ["//", "/./", "/../", "%2f", "%2F"];
    let bad = inside.iter().find(|part| path.contains(**part));
    let at_end = ["/..", "/."].iter().find(|part| path.ends_with(**part));
    if let Some(part) = bad.or(at_end) {
        let message = format!("{path:?} has {part:?}, which is no part of a path");
        report.error(&at, message);
    }
}

pub(super) fn ingress_backend(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let is_map = value.all_entries().is_some();
    if is_map && value.get("service").is_none() && value.get("resource").is_none() {
        report.error(at, "one of `service` and `resource` is needed");
        if value.value_of("serviceName").is_some() {
            report.help("since networking.k8s.io/v1 it is written service: {name, port: {number}}");
        }
    }
}

pub(super) fn ingress_port(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let is_map = value.all_entries().is_some();
    if is_map && value.get("name").is_none() && value.get("number").is_none() {
        report.error(at, "one of `name` and `number` is needed");
    }
}

pub(super) fn deployment(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(selector) = value.get("selector") else {
        return;
    };
    let at = at.field("selector");
    let labels = selector.get("matchLabels");
    let pairs = || labels.and_then(Raw::all_entries).into_iter().flatten();
    if pairs().count() == 0 && many(selector, "matchExpressions") == 0 {
        return report.error(&at, "an empty selector selects no pods");
    }
    let of_pods = value
        .get("template")
        .and_then(|t| t.get("metadata"))
        .and_then(|m| m.get("labels"));
    let at = at.field("matchLabels");
    for (key, wanted) in pairs() {
        let has = of_pods.and_then(|labels| labels.get(key));
        if has.map(Raw::to_json) != Some(wanted.to_json()) {
            let message = "the pods of the template do not have this label";
            report.error(&at.field(key), message);
            report.help("the selector must match `template.metadata.labels`");
        }
    }
}

/// `NAME.DOMAIN` of at least three parts.
pub(super) fn definition(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let name = value.get("metadata").and_then(|m| text(m, "name"));
    let Some(spec) = value.get("spec") else {
        return;
    };
    let plural = spec.get("names").and_then(|n| text(n, "plural"));
    if let (Some(name), Some(plural), Some(group)) = (name, plural, text(spec, "group")) {
        let wanted = format!("{plural}.{group}");
        if name != wanted {
            let at = at.field("metadata");
            let message = format!("{name:?} is not the plural name and the group");
            report.error(&at.field("name"), message);
            report.help(format!("name it {wanted}"));
        }
    }
}
