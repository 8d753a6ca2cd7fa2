//! Texts that stand for something: names, hosts, addresses, headers, expressions.
//!
//! Each check says what is wrong with the text, without naming the field.

mod header;
mod host;
mod regex;
mod security;
mod url;

use std::net::IpAddr;

use ipnet::IpNet;
use model::protocol::Protocol;
use proto_istio::wkt::Duration;

pub use header::{
    expanded_size, expansion, header_name_to_match, header_name_to_remove, header_name_to_set,
    header_value, is_authority, is_claim, is_token, literal_format,
};
pub use host::{
    fqdn, host_of_gateway_route, namespaced_host, partial_wildcard, trust_domain, wildcard_domain,
};
pub use regex::{
    program_size, re2, re2_groups, re2_is_choice, re2_program, re2_syntax, rewritten_size,
    substitution,
};
pub use security::{
    Check, attribute, empty_values, ips, is_literal, path_template, ports, service_accounts,
    trust_domains, wildcards,
};
pub use url::{is_request_url, is_url, jwks_uri, plugin_url, url_part};

const MILLISECOND: i128 = 1_000_000;
/// The longest time that Envoy can count: the nanoseconds in 64 bits, but for less than a second.
const LONGEST_TIME: i128 = 9_223_372_035_000_000_000;
/// The longest name of a query parameter that Envoy matches, in bytes.
const LONGEST_PARAMETER: usize = 1024;

/// The longest name of an object of Kubernetes, in bytes.
const LONGEST_NAME: usize = 253;
/// The longest name of a credential: that of a Secret and its namespace, behind what says of which kind it is.
const LONGEST_CREDENTIAL: usize = "kubernetes-gateway://".len() + 63 + 1 + LONGEST_NAME;

/// A name that is not longer than so many bytes. Names become parts of the names of resources, which proxies cannot ask for in
/// any length.
fn at_most(longest: usize, name: &str) -> Check {
    match name.len() {
        more if more > longest => Err(format!(
            "the name has {more} characters, more than {longest}"
        )),
        _ => Ok(()),
    }
}

/// The name of a port of a Gateway, which may have any characters.
pub fn gateway_port_name(name: &str) -> Check {
    match name {
        "" => Err("the port needs a name".to_owned()),
        _ => at_most(LONGEST_NAME, name),
    }
}

/// The name of a credential: of a Secret or a ConfigMap, or of what else certificates come from.
pub fn credential_name(name: &str) -> Check {
    at_most(LONGEST_CREDENTIAL, name)
}

/// A port of TCP.
pub fn port(number: i64) -> Check {
    if (1..=65_535).contains(&number) {
        return Ok(());
    }
    Err(format!("the port {number} is not between 1 and 65535"))
}

/// A name of a variable that every shell can read.
pub fn variable_name(name: &str) -> Check {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.bytes().all(is_word) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not the name of a variable: letters, digits and `_`, and no digit first"
    ))
}

/// A time of at least a millisecond, in whole ones.
///
/// Istio: pkg/config/validation/agent/validation.go ValidateDuration, 1.32.
pub fn duration(time: Duration) -> Check {
    let nanos = time.as_nanos();
    if nanos < MILLISECOND {
        return Err("must be at least 1ms".to_owned());
    }
    if nanos % MILLISECOND != 0 {
        return Err("only whole milliseconds are possible".to_owned());
    }
    countable(time)
}

/// A time that Envoy can count, which may be none.
pub fn countable(time: Duration) -> Check {
    match time.as_nanos() {
        ..0 => Err("must not be negative".to_owned()),
        0..=LONGEST_TIME => Ok(()),
        _ => Err("is longer than Envoy can count, which is 292 years".to_owned()),
    }
}

/// A text that goes into a header of HTTP: Envoy refuses line breaks and NUL in it.
pub fn one_line(text: &str) -> Check {
    if text.contains(['\r', '\n', '\0']) {
        return Err("has a line break or NUL".to_owned());
    }
    Ok(())
}

/// The name of a query parameter.
pub fn query_parameter(name: &str) -> Check {
    match name.len() {
        0 => Err("the name of the query parameter is empty".to_owned()),
        1..=LONGEST_PARAMETER => Ok(()),
        more => Err(format!(
            "the name of the query parameter has {more} bytes, more than {LONGEST_PARAMETER}"
        )),
    }
}

/// A time of [`duration`], where one is set.
pub fn duration_if_set(time: Option<Duration>) -> Check {
    time.map_or(Ok(()), duration)
}

/// An address of IPv4 or IPv6.
pub fn ip(text: &str) -> Check {
    if is_ip(text) {
        return Ok(());
    }
    Err(format!("{text:?} is no IP address"))
}

/// Whether the text is an address of IPv4 or IPv6; the latter may name a zone.
pub fn is_ip(text: &str) -> bool {
    let address = match text.split_once('%') {
        Some((address, zone)) if address.contains(':') && !zone.is_empty() => address,
        _ => text,
    };
    address.parse::<IpAddr>().is_ok()
}

/// An address, or a range as CIDR.
pub fn subnet(text: &str) -> Check {
    match text.matches('/').count() {
        1 if text.parse::<IpNet>().is_ok() => Ok(()),
        1 => Err(format!("{text:?} is no CIDR range")),
        _ => ip(text),
    }
}

/// A name of lower-case letters, digits and dashes; upper-case letters are let through, as Istio does.
///
/// Istio: pkg/config/labels/instance.go IsDNS1123Label, 1.32.
pub fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

/// Whether a text may be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.is_empty()
        || (text.len() <= 63
            && text.bytes().all(inner)
            && edge(text.bytes().next())
            && edge(text.bytes().last()))
}

/// The name of a port.
pub fn port_name(text: &str) -> Check {
    if is_label(text) {
        return Ok(());
    }
    Err(format!(
        "{text:?} is not a port name: it needs letters, digits and dashes, and at most 63 of them"
    ))
}

/// The name of a protocol, or nothing.
pub fn protocol(text: &str) -> Check {
    if text.is_empty() || Protocol::parse(text) != Protocol::Unsupported {
        return Ok(());
    }
    Err(format!(
        "unknown protocol {text:?}: expected HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, UDP, MONGO, MYSQL or REDIS"
    ))
}

/// The path of a Unix socket, without `unix://`.
///
/// Istio: pkg/config/validation/validation.go ValidateUnixAddress, 1.32.
pub fn unix_path(path: &str) -> Check {
    match path {
        "" => Err("the path of the Unix socket is empty".to_owned()),
        // A socket without a file.
        _ if path.starts_with('@') => Ok(()),
        _ if !path.starts_with('/') || path.ends_with('/') => {
            Err(format!("{path:?} is not the absolute path of a file"))
        }
        _ => Ok(()),
    }
}

/// `HOST:PORT`, as Go splits it: an IPv6 address stands in brackets.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        return (!inner.contains(['[', ']'])).then_some((inner, port));
    }
    (!host.contains([':', '[', ']'])).then_some((host, port))
}

/// `HOST:PORT` of a server.
///
/// Istio: pkg/config/validation/agent/validation.go ValidateProxyAddress, 1.32.
pub fn proxy_address(text: &str) -> Check {
    let Some((host, number)) = split_host_port(text) else {
        return Err(format!("{text:?} is not HOST:PORT"));
    };
    let Ok(number) = number.parse::<i64>() else {
        return Err(format!("{number:?} is no number of a port"));
    };
    port(number)?;
    if fqdn(host).is_err() && !is_ip(host) {
        return Err(format!("{host:?} is no host name and no IP address"));
    }
    Ok(())
}

/// A share in per cent.
pub fn percent(value: i64) -> Check {
    if (0..=100).contains(&value) {
        return Ok(());
    }
    Err(format!("{value} is not between 0 and 100"))
}

/// A number that may be 0, and not less.
pub fn not_negative(value: i64) -> Check {
    if value >= 0 {
        return Ok(());
    }
    Err(format!("must not be negative, is {value}"))
}
