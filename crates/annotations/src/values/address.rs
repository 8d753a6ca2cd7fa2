//! Addresses, hosts and ports.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use model::template;

use super::list;
use crate::reader::Fault;

/// The most ranges of addresses.
const MOST_RANGES: usize = 1000;
/// More characters than a range has; of a longer item the beginning is shown.
const MOST_SHOWN: usize = 60;

/// Every address of either family, which `*` stands for.
const EVERY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Ranges and addresses with commas between them; `*` is every address. One that is none makes all unusable: who relies on it must
/// know.
pub(crate) fn ranges(text: &str) -> Result<BTreeSet<IpNet>, Fault> {
    let range = |text: &str| {
        let net = text.parse::<IpNet>().ok();
        let net = net.or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?)));
        net.map(|net| net.trunc())
            .ok_or_else(|| Fault::from(not_a_range(text)))
    };
    let items = list(text, MOST_RANGES)?.into_iter();
    let items = items.flat_map(|item| match item {
        "*" => EVERY.to_vec(),
        _ => vec![item],
    });
    items.map(range).collect()
}

fn not_a_range(item: &str) -> String {
    let written = template::written(item);
    let shown: String = written.chars().take(MOST_SHOWN).collect();
    let more = match shown.len() < written.len() {
        true => "...",
        false => "",
    };
    format!("has {shown:?}{more}, which is not a range of addresses such as 10.0.0.0/8")
}

/// A host name in lower case, or an address; IPv6 in brackets.
pub(crate) fn host(text: &str) -> Result<Arc<str>, Fault> {
    let fault = || Err("has something that is no host".into());
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return match inner.parse::<Ipv6Addr>() {
            Ok(address) => Ok(format!("[{address}]").into()),
            Err(_) => fault(),
        };
    }
    let label = |label: &str| {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        !label.is_empty() && label.len() <= 63 && label.bytes().all(valid)
    };
    if text.len() > 253 || !text.split('.').all(label) {
        return fault();
    }
    Ok(text.to_ascii_lowercase().into())
}

/// A port.
pub(crate) fn port(text: &str) -> Result<u16, Fault> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let port = Some(text).filter(|_| digits).and_then(|t| t.parse().ok());
    match port {
        Some(port) if port > 0 => Ok(port),
        _ => Err("has something that is no port".into()),
    }
}

/// A host and an optional port.
pub(crate) fn host_and_port(text: &str) -> Result<(Arc<str>, Option<u16>), Fault> {
    match text.rsplit_once(':') {
        Some((name, number)) if !number.ends_with(']') => Ok((host(name)?, Some(port(number)?))),
        _ => Ok((host(text)?, None)),
    }
}

/// A host and an optional port, as one text.
pub(crate) fn authority(text: &str) -> Result<Arc<str>, Fault> {
    Ok(match host_and_port(text)? {
        (host, Some(port)) => format!("{host}:{port}").into(),
        (host, None) => host,
    })
}

/// A host of an Ingress: a name, or one with `*` as its first label.
pub(crate) fn ingress_host(text: &str) -> Result<Arc<str>, Fault> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.contains(['[', '_']) || name.parse::<IpAddr>().is_ok() {
        return Err("has something that is no host".into());
    }
    let name = host(name)?;
    Ok(match text.starts_with('*') {
        true => format!("*.{name}").into(),
        false => name,
    })
}
