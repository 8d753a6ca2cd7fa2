//! `enable-cors` and its family.

use std::sync::Arc;

use crate::reader::{Fault, Reader};
use crate::values::{authority, boolean, list, seconds, tokens};
use crate::{Cors, Origin};

const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";

/// Higress: pkg/ingress/kube/annotations/cors.go, 2.2.
const HIGRESS_HEADERS: &str = "DNT,X-CustomHeader,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Authorization";

/// ingress-nginx: internal/ingress/annotations/cors, 1.15.
const NGINX_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";

/// How long browsers remember it where it is not stated.
const MAX_AGE: &str = "1728000";

const ORIGINS: &str = "cors-allow-origin";

/// The most items of a list.
const MOST: usize = 100;

/// Reads what pages of other origins may do.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<Cors> {
    if !r.get("enable-cors", boolean)? {
        return None;
    }
    let origins = match r.has(ORIGINS) {
        // None that is valid allows none: all would be more than was asked for.
        true => r.get(ORIGINS, origins).unwrap_or_default(),
        false => (vec![Origin::Any], true),
    };
    if !origins.1 {
        r.warn(ORIGINS, "has items that are no origins, which are left out");
    }
    let origins = origins.0;
    let names = |text: &str| tokens(text, MOST);
    let stated_or = |found: Option<Vec<Arc<str>>>, default| found.or_else(|| names(default).ok());
    let headers = match r.is_nginx() {
        true => NGINX_HEADERS,
        false => HIGRESS_HEADERS,
    };
    let methods = stated_or(r.get("cors-allow-methods", names), METHODS);
    let headers = stated_or(r.get("cors-allow-headers", names), headers);
    let credentials = r.get("cors-allow-credentials", boolean).unwrap_or(true);
    // nginx answers `*`, with which browsers send no cookies; Envoy answers the origin of the request.
    let anyone = origins.contains(&Origin::Any) && r.is_nginx();
    let max_age = r.get("cors-max-age", seconds);
    Some(Cors {
        methods: methods.unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        expose: r.get("cors-expose-headers", names).unwrap_or_default(),
        credentials: credentials && !anyone,
        max_age: max_age
            .or_else(|| seconds(MAX_AGE).ok())
            .unwrap_or_default(),
        origins,
    })
}

/// The origins of a list, and whether all are valid.
fn origins(text: &str) -> Result<(Vec<Origin>, bool), Fault> {
    let items = list(text, MOST)?;
    if items.contains(&"*") {
        return Ok((vec![Origin::Any], true));
    }
    let mut origins = Vec::new();
    let mut all = true;
    for item in items {
        match origin(item) {
            Ok(origin) if !origins.contains(&origin) => origins.push(origin),
            Ok(_) => {}
            Err(_) => all = false,
        }
    }
    Ok((origins, all))
}

/// `https://shop.example.com`, with a port or not; or `https://*.example.com`, for any host below.
fn origin(text: &str) -> Result<Origin, Fault> {
    if text == "null" {
        return Ok(Origin::Exact(text.into()));
    }
    let Some((scheme, named)) = text.split_once("://") else {
        return Err("has an origin without a scheme".into());
    };
    if scheme.is_empty()
        || !scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        return Err("has something that is no origin".into());
    }
    let scheme = scheme.to_ascii_lowercase();
    match named.strip_prefix("*.") {
        None => Ok(Origin::Exact(
            format!("{scheme}://{}", authority(named)?).into(),
        )),
        Some(below) => {
            let below = authority(below)?.replace('.', "\\.");
            let scheme = scheme.replace('+', "\\+").replace('.', "\\.");
            Ok(Origin::Regex(
                format!("{scheme}://[A-Za-z0-9.-]+\\.{below}").into(),
            ))
        }
    }
}
