//! Host names and domains.
// Istio: pkg/config/validation/agent/validation.go, 1.32.

use model::host::LONGEST;

use super::{Check, at_most, is_ip, is_label};

/// A domain name without wildcards.
pub fn fqdn(name: &str) -> Check {
    length(name)?;
    labels(name)
}

/// A domain name that may start with a wildcard, such as `*.example.com`.
pub fn wildcard_domain(name: &str) -> Check {
    length(name)?;
    let (first, rest) = match name.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (name, None),
    };
    if !is_wildcard_label(first) {
        return Err(bad_label(name, first));
    }
    rest.map_or(Ok(()), labels)
}

/// A host of a route that is bound to gateways. With `sni`, also the names that gateways between networks route by, such
/// as `outbound_.80_._.reviews.default.svc.cluster.local`.
pub fn host_of_gateway_route(sni: bool, name: &str) -> Check {
    length(name)?;
    if !sni || !name.starts_with("outbound_") {
        return wildcard_domain(name);
    }
    let parts: Vec<&str> = name.split('_').collect();
    let (Some(port), Some(host)) = (parts.get(1), parts.get(3)) else {
        return Err(format!("{name:?} is not outbound_.PORT_._.HOST"));
    };
    if !port.contains(|c: char| c.is_ascii_digit())
        || !host.contains(|c: char| c.is_ascii_alphabetic())
    {
        return Err(format!("{name:?} is not outbound_.PORT_._.HOST"));
    }
    Ok(())
}

/// `NAMESPACE/HOST` as gateways and sidecars have it; gateways may leave the namespace out. With `converted`, a gateway
/// that stands for one of the Gateway API, which may be for no namespace at all.
pub fn namespaced_host(text: &str, gateway: bool, converted: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let Some((namespace, host)) = text.split_once('/') else {
        if gateway {
            return host_part(text, true);
        }
        return vec![format!("{text:?} is not NAMESPACE/HOST")];
    };
    if namespace.is_empty() || host.is_empty() {
        faults.push("neither the namespace nor the host may be empty".to_owned());
    }
    let bad = if gateway {
        let special = matches!(namespace, "*" | ".") || (namespace == "~" && converted);
        !special && !is_label(namespace)
    } else {
        let of = namespace.strip_prefix('~').unwrap_or(namespace);
        !matches!(of, "" | "*" | ".") && !is_label(of)
    };
    if bad {
        faults.push(format!("{namespace:?} is no namespace"));
    }
    faults.extend(host_part(host, gateway));
    faults
}

fn host_part(host: &str, gateway: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if host != "*" && !host.contains('.') {
        faults.push(format!("{host:?} is a short name, a full one is needed"));
    }
    if let Err(fault) = wildcard_domain(host) {
        // A gateway may also serve an address.
        if !gateway || !is_ip(host) {
            faults.push(fault);
        }
    }
    faults.extend(partial_wildcard(host).err());
    faults
}

/// A wildcard that does not stand for whole labels.
pub fn partial_wildcard(host: &str) -> Check {
    if host.contains('*') && host != "*" && !host.starts_with("*.") {
        return Err(format!(
            "the wildcard of {host:?} does not stand for a whole label"
        ));
    }
    Ok(())
}

/// A trust domain.
pub fn trust_domain(name: &str) -> Check {
    if name.is_empty() {
        return Err("a trust domain is needed".to_owned());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').all(is_label) {
        return Ok(());
    }
    Err(format!("{name:?} is no trust domain"))
}

fn length(name: &str) -> Check {
    match name {
        "" => Err("the name is empty".to_owned()),
        _ => at_most(LONGEST, name),
    }
}

fn labels(domain: &str) -> Check {
    let last = domain.rsplit('.').next().unwrap_or_default();
    if last.parse::<i64>().is_ok() {
        return Err(format!("{domain:?} ends with a number"));
    }
    // A dot at the end says that the name is complete.
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    match domain.split('.').find(|label| !is_label(label)) {
        Some(label) => Err(bad_label(domain, label)),
        None => Ok(()),
    }
}

fn bad_label(domain: &str, label: &str) -> String {
    match label {
        _ if label == domain => format!("{domain:?} is no host name"),
        "" => format!("{domain:?} is no host name: it has an empty part"),
        _ => format!("{domain:?} is no host name: {label:?} is no part of one"),
    }
}

/// A label that may be, or start with, a wildcard.
fn is_wildcard_label(label: &str) -> bool {
    match label.strip_prefix('*') {
        Some("") => true,
        Some(rest) => {
            let rest = rest.strip_prefix('-').unwrap_or(rest);
            label.len() <= 63 && is_label(rest)
        }
        None => is_label(label),
    }
}
