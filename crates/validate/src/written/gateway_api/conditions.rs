//! What values of the Gateway API must say together.

use std::collections::BTreeSet;

use model::parse::Raw;
use proto_istio::wkt::Duration;

use super::is_host;
use crate::report::{At, Report};
use crate::text::is_ip;

/// Matches that all rules of a route may have together.
const MOST_MATCHES: usize = 128;
const GATEWAY_API: &str = "gateway.networking.k8s.io";

fn text<'a>(value: Raw<'a>, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Raw::as_str)
}

fn items(value: Raw<'_>) -> impl Iterator<Item = (usize, Raw<'_>)> {
    value.items().into_iter().flatten().enumerate()
}

fn number(value: Raw<'_>, key: &str) -> f64 {
    value.get(key).and_then(Raw::as_f64).unwrap_or(0.0)
}

pub(super) fn listeners(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let (mut names, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for (index, listener) in items(value) {
        let at = at.item(index);
        let protocol = text(listener, "protocol").unwrap_or_default();
        let tls = listener.get("tls");
        let host = text(listener, "hostname").unwrap_or_default();
        if matches!(protocol, "HTTP" | "TCP" | "UDP") && tls.is_some() {
            report.error(&at.field("tls"), format!("{protocol} has no TLS"));
        }
        let mode = tls.map(|tls| text(tls, "mode").unwrap_or("Terminate"));
        if protocol == "HTTPS" && mode.is_some_and(|mode| !matches!(mode, "" | "Terminate")) {
            let at = at.field("tls");
            report.error(&at.field("mode"), "must be Terminate for HTTPS");
        }
        if protocol == "TLS" && tls.is_none() {
            report.error(&at.field("tls"), "TLS needs settings");
        }
        if matches!(protocol, "TCP" | "UDP") && !host.is_empty() {
            report.error(&at.field("hostname"), format!("{protocol} knows no hosts"));
        }
        if let Some(name) = text(listener, "name")
            && !names.insert(name)
        {
            report.error(&at.field("name"), "another listener has this name");
        }
        if !ports.insert((number(listener, "port").to_bits(), protocol, host)) {
            let message = "another listener has this port, protocol and host";
            report.error(&at.field("port"), message);
        }
    }
}

pub(super) fn listener_tls(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let terminates = matches!(text(value, "mode"), None | Some("Terminate"));
    let certificates = value
        .get("certificateRefs")
        .and_then(Raw::items)
        .map_or(0, |i| i.len());
    let options = value
        .get("options")
        .and_then(Raw::all_entries)
        .map_or(0, Iterator::count);
    if terminates && certificates == 0 && options == 0 {
        report.error(&at.field("certificateRefs"), "a certificate is needed");
    }
}

pub(super) fn addresses(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, address) in items(value) {
        let ty = text(address, "type").unwrap_or("IPAddress");
        if matches!(ty, "IPAddress" | "Hostname")
            && let Some(value) = text(address, "value")
            && !seen.insert((ty, value))
        {
            report.error(&at.item(index), "the address is there twice");
        }
    }
}

pub(super) fn address(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(address) = text(value, "value").filter(|a| !a.is_empty()) else {
        return;
    };
    let good = match text(value, "type").unwrap_or("IPAddress") {
        "IPAddress" => is_ip(address),
        "Hostname" => is_host(address),
        _ => true,
    };
    if !good {
        let message = format!("{address:?} is no address of this type");
        report.error(&at.field("value"), message);
    }
}

pub(super) fn labels(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    for (key, value) in value.all_entries().into_iter().flatten() {
        if let Some(fault) = model::labels::fault(key, value.as_str().unwrap_or_default()) {
            report.error(&at.field(key), format!("{key:?} {fault}"));
        }
    }
}

/// Several references to one parent differ in their sections or ports, and all of them have what tells them apart.
pub(super) fn parents(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let of = |p: Raw<'_>| -> [String; 6] {
        let field = |key: &str, default: &str| text(p, key).unwrap_or(default).to_owned();
        [
            field("group", GATEWAY_API),
            field("kind", "Gateway"),
            field("namespace", ""),
            field("name", ""),
            field("sectionName", ""),
            number(p, "port").to_string(),
        ]
    };
    together(value, 4, of, at, report);
}

pub(super) fn targets(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let of = |p: Raw<'_>| -> [String; 4] {
        let field = |key: &str| text(p, key).unwrap_or_default().to_owned();
        [
            field("group"),
            field("kind"),
            field("name"),
            field("sectionName"),
        ]
    };
    together(value, 3, of, at, report);
}

fn together<const N: usize>(
    value: Raw<'_>,
    identity: usize,
    of: impl Fn(Raw<'_>) -> [String; N],
    at: &At<'_>,
    report: &mut Report,
) {
    let all: Vec<[String; N]> = items(value).take(64).map(|(_, p)| of(p)).collect();
    let is_set = |text: &String| !text.is_empty() && text != "0";
    for (index, one) in all.iter().enumerate() {
        let same = all[..index]
            .iter()
            .filter(|other| other[..identity] == one[..identity]);
        for other in same {
            if other == one {
                report.error(&at.item(index), "the same reference stands before");
                break;
            }
            let pairs = other[identity..].iter().zip(&one[identity..]);
            if pairs.into_iter().any(|(a, b)| is_set(a) != is_set(b)) {
                let message = "of several references to one object, either all or none name a section or port";
                report.error(&at.item(index), message);
                break;
            }
        }
    }
}

pub(super) fn service_port(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let service = text(value, "group").unwrap_or_default().is_empty()
        && text(value, "kind").unwrap_or("Service") == "Service";
    if service && value.get("port").is_none() {
        report.error(&at.field("port"), "a port of the Service is needed");
    }
}

pub(super) fn no_addresses(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    for (index, host) in items(value) {
        if host.as_str().is_some_and(is_ip) {
            report.error(&at.item(index), "clients send no addresses as server name");
        }
    }
}

pub(super) fn rule_names(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, rule) in items(value) {
        if let Some(name) = text(rule, "name").filter(|name| !name.is_empty())
            && !seen.insert(name)
        {
            let at = at.item(index);
            report.error(&at.field("name"), "another rule has this name");
        }
    }
}

pub(super) fn total_matches(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let of = |rule: Raw<'_>| {
        rule.get("matches")
            .and_then(Raw::items)
            .map_or(0, |i| i.len())
    };
    let total: usize = items(value).map(|(_, rule)| of(rule)).sum();
    if total > MOST_MATCHES {
        let message = format!("the rules have {total} matches together, more than {MOST_MATCHES}");
        report.error(at, message);
    }
}

pub(super) fn http_rule(rule: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let filters = || {
        rule.get("filters")
            .and_then(Raw::items)
            .into_iter()
            .flatten()
    };
    let backends = rule
        .get("backendRefs")
        .and_then(Raw::items)
        .map_or(0, |i| i.len());
    if backends > 0 && filters().any(|f| f.get("requestRedirect").is_some()) {
        report.error(
            &at.field("backendRefs"),
            "have no meaning beside a redirect",
        );
    }
    let of_backends = rule
        .get("backendRefs")
        .and_then(Raw::items)
        .into_iter()
        .flatten();
    let of_backends = of_backends
        .filter_map(|b| b.get("filters").and_then(Raw::items))
        .flatten();
    let replaces = |filter: Raw<'_>| {
        ["requestRedirect", "urlRewrite"].iter().any(|field| {
            let path = filter.get(field).and_then(|f| f.get("path"));
            path.is_some_and(|p| text(p, "type") == Some("ReplacePrefixMatch"))
        })
    };
    if filters().chain(of_backends).any(replaces) && !matches_one_prefix(rule) {
        let message =
            "a prefix can be replaced only where the rule has exactly one match, by a prefix";
        report.error(&at.field("matches"), message);
    }
}

/// A rule without matches has one, by the prefix `/`.
fn matches_one_prefix(rule: Raw<'_>) -> bool {
    let Some(mut matches) = rule.get("matches").and_then(Raw::items) else {
        return true;
    };
    let (Some(one), None) = (matches.next(), matches.next()) else {
        return false;
    };
    let path = one.get("path");
    path.is_none_or(|path| text(path, "type").unwrap_or("PathPrefix") == "PathPrefix")
}

/// Filters that a rule has once, and the fields of each type.
const FILTERS: [(&str, &str, bool); 8] = [
    ("RequestHeaderModifier", "requestHeaderModifier", true),
    ("ResponseHeaderModifier", "responseHeaderModifier", true),
    ("RequestRedirect", "requestRedirect", true),
    ("URLRewrite", "urlRewrite", true),
    ("CORS", "cors", true),
    ("ExternalAuth", "externalAuth", true),
    ("RequestMirror", "requestMirror", false),
    ("ExtensionRef", "extensionRef", false),
];

pub(super) fn filters(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, filter) in items(value) {
        let Some(ty) = text(filter, "type") else {
            continue;
        };
        let once = FILTERS.iter().any(|(name, _, once)| *name == ty && *once);
        if !seen.insert(ty) && once {
            report.error(&at.item(index), format!("a rule has one filter {ty}"));
        }
    }
    if seen.contains("RequestRedirect") && seen.contains("URLRewrite") {
        report.error(at, "a rule either redirects or rewrites");
    }
}

pub(super) fn filter(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(ty) = text(value, "type") else {
        return;
    };
    for (name, field, _) in FILTERS {
        match (name == ty, value.get(field).is_some()) {
            (true, false) => report.error(&at.field(field), format!("{ty} needs it")),
            (false, true) => {
                report.error(
                    &at.field(field),
                    format!("has no meaning where the type is {ty}"),
                );
            }
            _ => {}
        }
    }
}

pub(super) fn fraction(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let denominator = value
        .get("denominator")
        .and_then(Raw::as_f64)
        .unwrap_or(100.0);
    if number(value, "numerator") > denominator {
        report.error(&at.field("numerator"), "is more than the whole");
    }
}

pub(super) fn path(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let path = text(value, "value").unwrap_or("/");
    if text(value, "type") == Some("RegularExpression") {
        return;
    }
    let at = at.field("value");
    if !path.starts_with('/') {
        return report.error(&at, format!("{path:?} does not start with a slash"));
    }
    let lower = path.to_ascii_lowercase();
    let inside = ["//", "/./", "/../", "%2f", "#"];
    let bad = inside.iter().find(|part| lower.contains(**part));
    let at_end = ["/..", "/."].iter().find(|part| lower.ends_with(**part));
    if let Some(part) = bad.or(at_end) {
        return report.error(
            &at,
            format!("{path:?} has {part:?}, which is no part of a path"),
        );
    }
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@%".contains(&b);
    if !path.bytes().all(good) {
        report.error(
            &at,
            format!("{path:?} has characters that must be written as %XX"),
        );
    }
}

pub(super) fn path_modifier(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let ty = text(value, "type").unwrap_or_default();
    let kinds = [
        ("ReplaceFullPath", "replaceFullPath"),
        ("ReplacePrefixMatch", "replacePrefixMatch"),
    ];
    for (name, field) in kinds {
        match (name == ty, value.get(field).is_some()) {
            (true, false) => report.error(&at.field(field), format!("{ty} needs it")),
            (false, true) => {
                report.error(
                    &at.field(field),
                    format!("has no meaning where the type is {ty}"),
                );
            }
            _ => {}
        }
    }
}

pub(super) fn lone_wildcard(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let many = value.items().map_or(0, |items| items.len());
    if many > 1 && items(value).any(|(_, item)| item.as_str() == Some("*")) {
        report.error(
            at,
            "`*` stands for everything, beside it nothing has a meaning",
        );
    }
}

pub(super) fn external_auth(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let protocol = text(value, "protocol").unwrap_or_default();
    for (name, field) in [("GRPC", "grpc"), ("HTTP", "http")] {
        match (name == protocol, value.get(field).is_some()) {
            (true, false) => report.error(&at.field(field), format!("{name} needs it")),
            (false, true) => {
                let message = format!("has no meaning where the protocol is {protocol}");
                report.error(&at.field(field), message);
            }
            _ => {}
        }
    }
}

pub(super) fn timeouts(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let time = |key: &str| text(value, key).and_then(|t| t.parse::<Duration>().ok());
    let (request, backend) = (time("request"), time("backendRequest"));
    if let (Some(request), Some(backend)) = (request, backend)
        && request.as_nanos() != 0
        && backend.as_nanos() > request.as_nanos()
    {
        let at = at.field("backendRequest");
        report.error(&at, "is longer than the time for the whole request");
    }
}

pub(super) fn session(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let cookie = value.get("cookie");
    let permanent = cookie.is_some_and(|c| text(c, "lifetimeType") == Some("Permanent"));
    if permanent && value.get("absoluteTimeout").is_none() {
        let message = "is needed where the cookie is permanent";
        report.error(&at.field("absoluteTimeout"), message);
    }
    let by_header = text(value, "type") == Some("Header");
    if by_header && cookie.is_some() {
        report.error(
            &at.field("cookie"),
            "has no meaning where the type is Header",
        );
    }
    if !by_header && cookie.is_none() {
        report.error(&at.field("cookie"), "the type Cookie needs it");
    }
    match (by_header, value.get("header").is_some()) {
        (true, false) => report.error(&at.field("header"), "the type Header needs it"),
        (false, true) => {
            report.error(
                &at.field("header"),
                "has no meaning where the type is Cookie",
            );
        }
        _ => {}
    }
}

pub(super) fn method(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let (service, method) = (text(value, "service"), text(value, "method"));
    if service.is_none() && method.is_none() {
        report.error(at, "one of `service` and `method` is needed");
    }
    if text(value, "type") == Some("RegularExpression") {
        return;
    }
    let word = |part: &str| {
        let start = |c: char| c.is_ascii_alphabetic() || c == '_';
        part.starts_with(start) && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if let Some(name) = service.filter(|n| !n.trim_start_matches('.').split('.').all(word)) {
        report.error(
            &at.field("service"),
            format!("{name:?} is not a service name"),
        );
    }
    if let Some(name) = method.filter(|name| !word(name)) {
        report.error(
            &at.field("method"),
            format!("{name:?} is not a method name"),
        );
    }
}

pub(super) fn backend_validation(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let refs = value
        .get("caCertificateRefs")
        .and_then(Raw::items)
        .map_or(0, |i| i.len());
    let well_known = text(value, "wellKnownCACertificates").is_some_and(|t| !t.is_empty());
    match (refs > 0, well_known) {
        (true, true) => report.error(
            &at.field("wellKnownCACertificates"),
            "only one of `caCertificateRefs` and `wellKnownCACertificates` may be set",
        ),
        (false, false) => report.error(
            at,
            "one of `caCertificateRefs` and `wellKnownCACertificates` is needed",
        ),
        _ => {}
    }
}

pub(super) fn subject(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let ty = text(value, "type").unwrap_or_default();
    for (name, field) in [("Hostname", "hostname"), ("URI", "uri")] {
        let set = text(value, field).is_some_and(|t| !t.is_empty());
        match (name == ty, set) {
            (true, false) => report.error(&at.field(field), format!("{name} needs it")),
            (false, true) => {
                report.error(
                    &at.field(field),
                    format!("has no meaning where the type is {ty}"),
                );
            }
            _ => {}
        }
    }
    if let Some(uri) = text(value, "uri").filter(|uri| !is_uri(uri)) {
        report.error(&at.field("uri"), format!("{uri:?} is no URI"));
    }
}

/// `SCHEME://HOST/PATH`; host and path may be empty.
fn is_uri(text: &str) -> bool {
    let scheme = text.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme = scheme.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| !s.is_empty() && text[s.len() + 1..].starts_with("//"))
}

/// Printable characters of ASCII, with single blanks between them.
pub(super) fn header_value(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(text) = value.as_str() else { return };
    let words = text.split([' ', '\t']);
    let good = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic());
    if !text.is_empty() && !words.into_iter().all(good) {
        report.error(at, format!("{text:?} is not a header value"));
    }
}

pub(super) fn distinct(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, item) in items(value) {
        if let Some(text) = item.as_str()
            && !seen.insert(text)
        {
            report.error(&at.item(index), "is there twice");
        }
    }
}
