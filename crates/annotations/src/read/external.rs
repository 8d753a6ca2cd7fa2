//! A service that is asked about each request: by the Ingress itself, or by the ConfigMap for all of them.

use std::sync::Arc;

use crate::reader::{Fault, Reader};
use crate::values::{Link, authority, boolean, headers, is_of_url, link, port, reference, token};
use crate::{AuthHost, ExternalAuth, Signin, variables};

/// The parameter of the sign-in page that says where to come back to, where it is not stated.
const PARAMETER: &str = "rd";

/// The variables of nginx that are the host of the request.
const HOSTS: [&str; 3] = ["host", "http_host", "best_http_host"];

/// The most headers that backends get of an answer.
const MOST: usize = 100;

/// The methods of requests to the service, those of nginx.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE",
];

/// Where settings are read: annotations of the Ingress, or options.
#[derive(Clone, Copy)]
enum Place {
    Ingress,
    Options,
}

/// Reads which service is asked. That of the Ingress goes before that of the ConfigMap, which `enable-global-auth` turns
/// off.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<ExternalAuth> {
    let own = of(r, Place::Ingress);
    let wants_global = r.get("enable-global-auth", boolean).unwrap_or(true);
    if own.is_some() || r.has("auth-url") || !wants_global {
        return own;
    }
    of(r, Place::Options)
}

fn of(r: &mut Reader<'_>, place: Place) -> Option<ExternalAuth> {
    let url = value(r, place, ["auth-url", "global-auth-url"], service);
    let method = value(r, place, ["auth-method", "global-auth-method"], method);
    let redirect = ["auth-request-redirect", "global-auth-request-redirect"];
    let request_redirect = value(r, place, redirect, request_redirect);
    let to_backend = ["auth-response-headers", "global-auth-response-headers"];
    let response_headers = value(r, place, to_backend, |text| headers(text, MOST));
    let always = ["auth-always-set-cookie", "global-auth-always-set-cookie"];
    let always_set_cookie = value(r, place, always, boolean);
    let signin = signin(r, place);
    let proxied = match place {
        Place::Ingress => r.get("auth-proxy-set-headers", reference),
        Place::Options => None,
    };
    let (host, link) = url?;
    Some(ExternalAuth {
        tls: link.tls,
        host,
        port: link.port,
        path: link.path.unwrap_or_else(|| "/".into()),
        method,
        signin,
        response_headers: response_headers.unwrap_or_default(),
        always_set_cookie: always_set_cookie.unwrap_or_default(),
        request_redirect,
        headers: proxied,
    })
}

fn value<T>(
    r: &mut Reader<'_>,
    place: Place,
    [annotation, option]: [&'static str; 2],
    parse: impl Fn(&str) -> Result<T, Fault>,
) -> Option<T> {
    match place {
        Place::Ingress => r.get(annotation, parse),
        Place::Options => r.option(option, parse),
    }
}

/// A URL whose path, and what follows it, may have variables, and whose host may be that of the request.
fn service(text: &str) -> Result<(AuthHost, Link), Fault> {
    if text.contains('#') {
        return Err("has a fragment".into());
    }
    let after_scheme = text.find("://").map_or(0, |at| at + 3);
    let end = text[after_scheme..]
        .find(['/', '?'])
        .map_or(text.len(), |at| after_scheme + at);
    let (place, rest) = text.split_at(end);
    let (host, found) = match of_request(place) {
        Some(place) => (AuthHost::OfRequest, link(&place)?),
        None => {
            let found = link(place)?;
            (AuthHost::Named(found.host.clone()), found)
        }
    };
    if !rest.bytes().all(|b| is_of_url(b) || b"${}".contains(&b)) {
        return Err("has characters that no URL has".into());
    }
    let path = match rest {
        "" => "/".to_owned(),
        rest if rest.starts_with('/') => rest.to_owned(),
        query => format!("/{query}"),
    };
    let path = Some(variables::format_of_script(&path)?.into());
    Ok((host, Link { path, ..found }))
}

/// Scheme, host and port where the host is that of the request, with another one in its place.
fn of_request(place: &str) -> Option<String> {
    let (scheme, named) = place.split_once("://")?;
    let (name, after) = variables::name(named.strip_prefix('$')?)?;
    HOSTS
        .contains(&name)
        .then(|| format!("{scheme}://host{after}"))
}

fn method(text: &str) -> Result<Arc<str>, Fault> {
    match METHODS.contains(&text) {
        true => Ok(text.into()),
        false => Err("is no method".into()),
    }
}

fn request_redirect(text: &str) -> Result<Arc<str>, Fault> {
    match text.bytes().all(is_of_url) {
        true => Ok(text.into()),
        false => Err("has characters that no URL has, or variables of nginx".into()),
    }
}

/// The sign-in page, with the parameter that says where to come back to unless it has it.
fn signin(r: &mut Reader<'_>, place: Place) -> Option<Signin> {
    let names = [
        "auth-signin-redirect-param",
        "global-auth-signin-redirect-param",
    ];
    let parameter = value(r, place, names, token);
    let parameter = parameter.unwrap_or_else(|| PARAMETER.into());
    let names = ["auth-signin", "global-auth-signin"];
    value(r, place, names, |text| page(text, &parameter))
}

fn page(text: &str, parameter: &str) -> Result<Signin, Fault> {
    if !text.bytes().all(|b| is_of_url(b) || b"${}".contains(&b)) {
        return Err("has characters that no URL has".into());
    }
    let mut url = match text.starts_with('/') && !text.starts_with("//") {
        true => format!("$scheme://$http_host{text}"),
        false => text.to_owned(),
    };
    let (scheme, rest) = url.split_once("://").ok_or(NO_URL)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if !["http", "https", "$scheme"].contains(&scheme) || !is_authority(&rest[..end]) {
        return Err(NO_URL.into());
    }
    let query = url.split_once('?').map(|(_, query)| query);
    let mut stated = query.unwrap_or_default().split('&');
    if !stated.any(|pair| pair.split('=').next() == Some(parameter)) {
        let sign = if query.is_some() { '&' } else { '?' };
        url = format!("{url}{sign}{parameter}=$scheme://$http_host$escaped_request_uri");
    }
    let url = variables::format(&url)?.into();
    Ok(Signin { url })
}

const NO_URL: &str = "is no URL of http or https";

/// A host and a port, or a variable and a port.
fn is_authority(text: &str) -> bool {
    match text.strip_prefix('$').map(variables::name) {
        Some(Some((_, after))) => after
            .strip_prefix(':')
            .map_or(after.is_empty(), |p| port(p).is_ok()),
        Some(None) => false,
        None => authority(text).is_ok(),
    }
}
