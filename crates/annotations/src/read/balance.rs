//! Which endpoint is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, header, host, path, seconds, text, token};
use crate::{Algorithm, Balance, HashBy, SessionCookie};

/// The name of the cookie where it is not stated.
const COOKIE: &str = "INGRESSCOOKIE";

/// Reads how endpoints are chosen.
pub(crate) fn read(r: &mut Reader<'_>) -> Balance {
    let nginx = r.is_nginx();
    let stated = r.get_or_option("load-balance", stated);
    let session = r.get("mcp-sse-stateful-param-name", token);
    let is_mcp = stated == Some(Stated::Mcp);
    Balance {
        algorithm: match stated {
            Some(Stated::Algorithm(algorithm)) => Some(algorithm),
            _ => None,
        },
        mcp: is_mcp.then(|| session.unwrap_or_else(|| SESSION.into())),
        hash: r.get_or_option("upstream-hash-by", |text| hash(text, nginx)),
        cookie: cookie(r),
    }
}

/// The parameter that names sessions where it is not stated.
const SESSION: &str = "sessionId";

/// What `load-balance` says.
#[derive(PartialEq)]
enum Stated {
    Algorithm(Algorithm),
    /// Sessions of MCP.
    Mcp,
}

fn stated(text: &str) -> Result<Stated, Fault> {
    match text.eq_ignore_ascii_case("mcp-sse") {
        true => Ok(Stated::Mcp),
        false => algorithm(text).map(Stated::Algorithm),
    }
}

fn algorithm(text: &str) -> Result<Algorithm, Fault> {
    match text {
        "round_robin" => Ok(Algorithm::RoundRobin),
        // nginx's weighs how long endpoints took; fewest requests is the nearest.
        "least_conn" | "least_request" | "ewma" => Ok(Algorithm::LeastRequest),
        "random" => Ok(Algorithm::Random),
        "passthrough" => Ok(Algorithm::Passthrough),
        _ => Err("is no algorithm that is known".into()),
    }
}

/// One variable of nginx, in braces or not.
fn hash(text: &str, nginx: bool) -> Result<HashBy, Fault> {
    let fault = || Fault::from("is no variable that requests can be told apart by");
    let name = text.strip_prefix('$').ok_or_else(fault)?;
    let name = name
        .strip_prefix('{')
        .and_then(|n| n.strip_suffix('}'))
        .unwrap_or(name);
    match name {
        "request_uri" | "uri" => return Ok(HashBy::Header(":path".into())),
        "host" | "http_host" => return Ok(HashBy::Header(":authority".into())),
        "remote_addr" | "binary_remote_addr" => return Ok(HashBy::Address),
        _ => {}
    }
    if let Some(name) = name.strip_prefix("http_") {
        let name = header(name).map_err(|_| fault())?;
        return Ok(HashBy::Header(match nginx {
            true => name.replace('_', "-").into(),
            false => name,
        }));
    }
    let name = name.strip_prefix("arg_").ok_or_else(fault)?;
    Ok(HashBy::Query(token(name).map_err(|_| fault())?))
}

/// Higress keeps clients where the cookie's name or path is stated, nginx where `affinity` is.
fn cookie(r: &mut Reader<'_>) -> Option<SessionCookie> {
    let nginx = r.is_nginx();
    let affinity = r.get("affinity", |text| match text == "cookie" || !nginx {
        true => Ok(()),
        false => Err("is not cookie".into()),
    });
    let name = r.get("session-cookie-name", token);
    let path = r.get("session-cookie-path", path);
    let on = affinity.is_some() || !nginx && (name.is_some() || path.is_some());
    let age = r.get("session-cookie-max-age", seconds);
    let expires = r.get("session-cookie-expires", seconds);
    let attributes = attributes(r);
    if !on {
        return None;
    }
    Some(SessionCookie {
        name: name.unwrap_or_else(|| COOKIE.into()),
        path: path.unwrap_or_else(|| "/".into()),
        ttl: age.or(expires).unwrap_or(Duration::ZERO),
        attributes,
    })
}

fn attributes(r: &mut Reader<'_>) -> BTreeMap<Arc<str>, Arc<str>> {
    let domain = r.get("session-cookie-domain", |text| {
        let name = host(text.strip_prefix('.').unwrap_or(text))?;
        Ok(name)
    });
    let same_site = r.get("session-cookie-samesite", |value| {
        match text(value)?.to_ascii_lowercase().as_str() {
            "none" => Ok(Arc::from("None")),
            "lax" => Ok("Lax".into()),
            "strict" => Ok("Strict".into()),
            _ => Err("is none of None, Lax and Strict".into()),
        }
    });
    let secure = r.get("session-cookie-secure", boolean);
    let secure = secure.filter(|secure| *secure).map(|_| Arc::from(""));
    let all = [
        ("Domain", domain),
        ("SameSite", same_site),
        ("Secure", secure),
    ];
    let stated = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)));
    stated.collect()
}
