//! Retries, timeouts and mirrors.

use std::sync::Arc;
use std::time::Duration;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, count, duration, host, link, number, port, reference, seconds};
use crate::{Mirror, MirrorTo, Retry, Timeouts};

/// What is tried again at most: more attempts are a storm.
const MOST_ATTEMPTS: u32 = 100;

/// Attempts where as many are allowed as there are endpoints.
const MANY: u32 = 10;

/// What is tried again.
#[derive(Clone, Debug, Default)]
struct Conditions {
    off: bool,
    on: Vec<String>,
    non_idempotent: bool,
}

/// Reads retries; any annotation of the family turns them on.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<Retry> {
    let nginx = r.is_nginx();
    let on = r.get_or_option("proxy-next-upstream", |text| conditions(text, nginx));
    let tries = r.get_or_option("proxy-next-upstream-tries", count);
    let per_try = r.get_or_option("proxy-next-upstream-timeout", seconds);
    let always = r.option("retry-non-idempotent", boolean);
    if on.is_none() && tries.is_none() && per_try.is_none() {
        return None;
    }
    let on = match on {
        Some(on) => on,
        None if nginx => conditions("error timeout", true).ok()?,
        None => conditions("error", false).ok()?,
    };
    let attempts = match (tries, nginx) {
        (Some(0), true) => MANY,
        (Some(tries), true) => tries - 1,
        (Some(tries), false) => tries,
        (None, true) => 2,
        (None, false) => 3,
    };
    Some(Retry {
        attempts: if on.off {
            0
        } else {
            attempts.min(MOST_ATTEMPTS)
        },
        per_try: per_try.filter(|time| !time.is_zero()),
        on: on.on.join(",").into(),
        non_idempotent: on.non_idempotent || always.unwrap_or_default(),
    })
}

/// Conditions of nginx in Istio's words. Higress retries every 5xx for each of `error`, `timeout` and `invalid_header`;
/// nginx means connections.
fn conditions(text: &str, nginx: bool) -> Result<Conditions, Fault> {
    let mut read = Conditions::default();
    let add = |read: &mut Conditions, word: &str| {
        if !read.on.iter().any(|other| other == word) {
            read.on.push(word.to_owned());
        }
    };
    for word in text
        .split([' ', ',', '\n', '\t'])
        .filter(|word| !word.is_empty())
    {
        match word {
            "off" => read.off = true,
            "non_idempotent" => read.non_idempotent = true,
            "error" | "timeout" | "invalid_header" if !nginx => add(&mut read, "5xx"),
            "error" | "timeout" | "invalid_header" => {
                for word in ["connect-failure", "refused-stream", "reset"] {
                    add(&mut read, word);
                }
            }
            word => {
                let status = word.strip_prefix("http_").and_then(|s| number(s).ok());
                let Some(status) = status.filter(|status| (400..600).contains(status)) else {
                    return Err("has a condition that is not known".into());
                };
                add(&mut read, "retriable-status-codes");
                add(&mut read, &status.to_string());
            }
        }
    }
    Ok(read)
}

/// Reads how long things may take.
pub(crate) fn timeouts(r: &mut Reader<'_>) -> Timeouts {
    let some = |time: Option<Duration>| time.filter(|time| !time.is_zero());
    let read = r.get_or_option("proxy-read-timeout", duration);
    let send = r.get_or_option("proxy-send-timeout", duration);
    Timeouts {
        request: some(r.get("timeout", seconds)),
        connect: some(r.get_or_option("proxy-connect-timeout", duration)),
        idle: some(read.max(send)),
    }
}

/// Reads where copies of requests go: to a host, a Service, or a URL of nginx, the first that is stated.
pub(crate) fn mirror(r: &mut Reader<'_>) -> Option<Mirror> {
    let to = match r.get("mirror-target-fqdn", host) {
        Some(host) => {
            let port = r.get("mirror-target-fqdn-port", port).unwrap_or(80);
            MirrorTo::Host(host, port)
        }
        None => match r.get("mirror-target-service", service) {
            Some(to) => to,
            None => r.get("mirror-target", copy_to)?,
        },
    };
    let percent = r.get("mirror-percentage", count).unwrap_or(100).min(100);
    Some(Mirror { to, percent })
}

/// `[NAMESPACE/]NAME[:PORT]`; a port that is none is the first.
fn service(text: &str) -> Result<MirrorTo, Fault> {
    let (name, stated) = text.split_once(':').unwrap_or((text, ""));
    Ok(MirrorTo::Service(reference(name)?, port(stated).ok()))
}

/// A URL of http whose path is that of the request.
fn copy_to(text: &str) -> Result<MirrorTo, Fault> {
    let link = link(text.strip_suffix("$request_uri").unwrap_or(text))?;
    if link.tls {
        return Err("is a URL of https, to which copies are not sent".into());
    }
    match link.path.as_deref() {
        None | Some("/") => Ok(MirrorTo::Host(
            Arc::clone(&link.host),
            link.port.unwrap_or(80),
        )),
        Some(_) => Err("has a path, but copies keep that of the request".into()),
    }
}
