//! Backends: what they speak, which they are, and who answers when they cannot.

use std::collections::BTreeSet;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, count, host, list, number, port, reference, switch, token};
use crate::{Backend, BackendTls, DefaultBackend, Destination, Protocol};

/// The most lines of `destination`, and the most statuses.
const MOST: usize = 100;

/// Reads what backends speak, and which they are.
pub(crate) fn read(r: &mut Reader<'_>) -> Backend {
    let protocol = protocol(r);
    let tls = BackendTls {
        secret: r.get("proxy-ssl-secret", reference),
        verify: r.get("proxy-ssl-verify", switch),
        name: r.get("proxy-ssl-name", |name| host(name).map(|_| name.into())),
        send_name: r.get("proxy-ssl-server-name", switch).unwrap_or_default(),
    };
    Backend {
        // Backends without TLS have nothing to check.
        tls: match protocol {
            Protocol::Http => BackendTls::default(),
            _ => tls,
        },
        protocol,
        destinations: destinations(r),
    }
}

fn protocol(r: &mut Reader<'_>) -> Protocol {
    const NAME: &str = "backend-protocol";
    let read = r.get(NAME, |text| match text.to_ascii_uppercase().as_str() {
        "HTTP" | "AUTO_HTTP" => Ok(Some(Protocol::Http)),
        "HTTP2" => Ok(Some(Protocol::Http2)),
        "HTTPS" => Ok(Some(Protocol::Https)),
        "GRPC" => Ok(Some(Protocol::Grpc)),
        "GRPCS" => Ok(Some(Protocol::Grpcs)),
        "FCGI" => Ok(None),
        _ => Err("is not a protocol that is known".into()),
    });
    if read == Some(None) {
        r.close(NAME, "is FastCGI, which Envoy does not speak");
    }
    read.flatten().unwrap_or_default()
}

fn destinations(r: &mut Reader<'_>) -> Vec<Destination> {
    const NAME: &str = "destination";
    let read = r.get(NAME, |text| {
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let good: Vec<Destination> = lines
            .iter()
            .filter_map(|line| destination(line))
            .take(MOST)
            .collect();
        match good.len() {
            0 => Err("has no line of a host".into()),
            some => Ok((good, some == lines.len())),
        }
    });
    let Some((good, all)) = read else {
        return Vec::new();
    };
    if !all {
        r.warn(NAME, "has lines that cannot be used, which are left out");
    }
    good
}

/// `[WEIGHT%] HOST[:PORT] [SUBSET]`. Hosts of registries have colons within.
fn destination(line: &str) -> Option<Destination> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let weight = match words.first()?.strip_suffix('%') {
        Some(percent) => {
            words.remove(0);
            count(percent).ok()?.min(1_000_000)
        }
        None => 100,
    };
    let (named, subset) = match words.as_slice() {
        [named] => (*named, None),
        [named, subset] => (*named, Some(token(subset).ok()?)),
        _ => return None,
    };
    let (name, port) = match named.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
            (name, Some(port(number).ok()?))
        }
        _ => (named, None),
    };
    let valid = |b: u8| b.is_ascii_alphanumeric() || b".-_:".contains(&b);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(valid) {
        return None;
    }
    Some(Destination {
        weight,
        host: name.into(),
        port,
        subset,
    })
}

/// Reads who answers when backends cannot.
pub(crate) fn fallback(r: &mut Reader<'_>) -> DefaultBackend {
    let statuses = r.get_or_option("custom-http-errors", statuses);
    let passed = r.get_or_option("disable-proxy-intercept-errors", boolean);
    DefaultBackend {
        service: r.get("default-backend", reference),
        statuses: match passed.unwrap_or_default() {
            true => BTreeSet::new(),
            false => statuses.unwrap_or_default(),
        },
    }
}

/// Statuses from 400; what is none does not count.
fn statuses(text: &str) -> Result<BTreeSet<u16>, Fault> {
    let all = list(text, MOST)?.into_iter();
    let numbers = all.filter_map(|item| number(item).ok());
    let statuses = numbers.filter_map(|n| u16::try_from(n).ok());
    let statuses: BTreeSet<u16> = statuses.filter(|n| (400..600).contains(n)).collect();
    match statuses.is_empty() {
        true => Err("has no status from 400 to 599".into()),
        false => Ok(statuses),
    }
}
