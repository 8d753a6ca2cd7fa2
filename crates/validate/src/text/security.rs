//! Values in policies about who may do what.
// Istio: pkg/config/security/security.go, 1.32.

use ipnet::IpNet;

use super::{header_name_to_match, is_ip};

/// Nothing, or what is wrong.
pub type Check = Result<(), String>;

const ONE_SEGMENT: &str = "{*}";
const ANY_SEGMENTS: &str = "{**}";
/// Service accounts in one list, and characters of each.
const MOST_ACCOUNTS: usize = 16;
const LONGEST_ACCOUNT: usize = 320;

/// No value is empty.
pub fn empty_values(values: &[String]) -> Check {
    if values.iter().any(String::is_empty) {
        return Err("an empty value matches nothing".to_owned());
    }
    Ok(())
}

/// Values with at most one wildcard, at an end.
pub fn wildcards(values: &[String]) -> Check {
    empty_values(values)?;
    for value in values {
        let inner = value.strip_prefix('*').or_else(|| value.strip_suffix('*'));
        if inner.unwrap_or(value).contains('*') {
            return Err(format!(
                "{value:?} may have one wildcard, at its start or its end"
            ));
        }
    }
    Ok(())
}

/// Trust domains, with wildcards.
pub fn trust_domains(values: &[String]) -> Check {
    wildcards(values)?;
    match values.iter().find(|value| value.contains('/')) {
        Some(value) => Err(format!("{value:?} is no trust domain: it has a slash")),
        None => Ok(()),
    }
}

/// Service accounts, as `NAME` or `NAMESPACE/NAME`.
pub fn service_accounts(values: &[String]) -> Check {
    if values.len() > MOST_ACCOUNTS {
        return Err(format!(
            "{} values, more than {MOST_ACCOUNTS}",
            values.len()
        ));
    }
    for value in values {
        let name = value.split_once('/').map_or(&**value, |(_, name)| name);
        let namespace = value.split_once('/').map(|(namespace, _)| namespace);
        if name.is_empty() || name.contains('/') || namespace == Some("") {
            return Err(format!("{value:?} is neither NAME nor NAMESPACE/NAME"));
        }
        if value.contains('*') {
            return Err(format!("{value:?} has a wildcard, which is not supported"));
        }
        if value.len() > LONGEST_ACCOUNT {
            return Err(format!(
                "{value:?} has more than {LONGEST_ACCOUNT} characters"
            ));
        }
    }
    Ok(())
}

/// Paths, with templates that stand for whole segments.
pub fn path_template(paths: &[String]) -> Check {
    for path in paths {
        let is_template = path.contains(ONE_SEGMENT) || path.contains(ANY_SEGMENTS);
        let mut ended = false;
        for segment in path.trim_matches('/').split('/') {
            match segment {
                ONE_SEGMENT | ANY_SEGMENTS if ended => {
                    return Err(format!("{path:?}: no template can follow {{**}}"));
                }
                ONE_SEGMENT => {}
                ANY_SEGMENTS => ended = true,
                _ if segment.contains(['{', '}']) => {
                    return Err(format!(
                        "{path:?}: {segment:?} is no template, which are {{*}} and {{**}}"
                    ));
                }
                _ if is_template && !is_literal(segment) => {
                    return Err(format!(
                        "{path:?}: {segment:?} cannot stand beside a template"
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a segment of a path may stand beside templates.
pub fn is_literal(segment: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@=".contains(&b);
    !segment.is_empty() && segment.bytes().all(good)
}

/// Addresses and CIDR ranges.
pub fn ips(values: &[String]) -> Check {
    let good = |v: &String| match v.contains('/') {
        true => v.parse::<IpNet>().is_ok(),
        false => is_ip(v),
    };
    match values.iter().find(|v| !good(v)) {
        Some(value) => Err(format!("{value:?} is no IP address and no CIDR range")),
        None => Ok(()),
    }
}

/// Ports as text; 0 is let through, as Istio does.
pub fn ports(values: &[String]) -> Check {
    let good = |v: &str| v.bytes().all(|b| b.is_ascii_digit()) && v.parse::<u16>().is_ok();
    match values.iter().find(|v| !good(v)) {
        Some(value) => Err(format!("{value:?} is no port")),
        None => Ok(()),
    }
}

/// Values of an attribute that a condition of a policy is about.
pub fn attribute(key: &str, values: &[String]) -> Check {
    empty_values(values)?;
    match key {
        _ if key.starts_with("request.headers") => {
            in_brackets(key)?;
            let name = key.split_once('[').map_or("", |(_, rest)| rest);
            header_name_to_match(name.strip_suffix(']').unwrap_or(name))
        }
        _ if key.starts_with("request.auth.claims")
            || key.starts_with("experimental.envoy.filters.") =>
        {
            in_brackets(key)
        }
        "source.ip" | "remote.ip" | "destination.ip" => ips(values),
        "source.serviceAccount" => service_accounts(values),
        "source.trustDomain" => wildcards(values),
        "destination.port" => ports(values),
        "source.namespace"
        | "source.principal"
        | "request.auth.principal"
        | "request.auth.audiences"
        | "request.auth.presenter"
        | "connection.sni" => Ok(()),
        "destination.namespace" => Err(format!("{key}: metadata.namespace says that instead")),
        _ if key.starts_with("destination.labels") => {
            Err(format!("{key}: the selector says that instead"))
        }
        "destination.name" | "destination.user" => Err(format!("{key} does not exist any more")),
        _ => Err(format!("unknown attribute {key}")),
    }
}

fn in_brackets(key: &str) -> Check {
    let inner = key
        .split_once('[')
        .filter(|(name, _)| !name.is_empty())
        .and_then(|(_, rest)| rest.strip_suffix(']'));
    if inner.is_some_and(|inner| !inner.is_empty()) {
        return Ok(());
    }
    Err(format!("{key:?} is not of the form name[key]"))
}
