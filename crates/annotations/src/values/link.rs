//! URLs.

use std::sync::Arc;

use super::{authority, host_and_port, is_of_url, path};
use crate::RedirectTo;
use crate::reader::Fault;

/// The variable of nginx that is path and query of the request.
const REQUEST_URI: &str = "$request_uri";

/// A URL of http or https, taken apart.
pub(crate) struct Link {
    /// Whether it is https.
    pub(crate) tls: bool,
    /// The host, in lower case.
    pub(crate) host: Arc<str>,
    /// The port, where it is stated.
    pub(crate) port: Option<u16>,
    /// Path and query from `/`, where there are any.
    pub(crate) path: Option<Arc<str>>,
}

/// A URL without variables of nginx.
pub(crate) fn link(text: &str) -> Result<Link, Fault> {
    let (tls, rest) = scheme(text)?;
    if text.contains('$') {
        return Err("has variables of nginx".into());
    }
    let (host, port, path) = after_scheme(rest)?;
    Ok(Link {
        tls,
        host,
        port,
        path,
    })
}

/// Where a redirect goes: a URL of http or https or a path, and `$request_uri` as its path or at its end. A URL without a path
/// means `/`, as it stands.
pub(crate) fn target(text: &str, code: u16) -> Result<RedirectTo, Fault> {
    let to = target_keeping_path(text, code)?;
    let keeps = to.path.is_some() || text.ends_with(REQUEST_URI);
    Ok(RedirectTo {
        path: to.path.or_else(|| (!keeps).then(|| "/".into())),
        ..to
    })
}

/// The same, where a URL without a path leads to the path of the request.
pub(crate) fn target_keeping_path(text: &str, code: u16) -> Result<RedirectTo, Fault> {
    let whole = text.strip_suffix(REQUEST_URI);
    let stated = whole.unwrap_or(text);
    if stated.contains('$') {
        return Err("has variables of nginx other than $request_uri after the host".into());
    }
    if stated.starts_with('/') && whole.is_none() {
        let path = Some(path(stated)?);
        return Ok(RedirectTo {
            scheme: None,
            authority: None,
            path,
            code,
        });
    }
    let (tls, rest) = scheme(stated)?;
    let (host, port, path) = after_scheme(rest)?;
    if whole.is_some() && path.is_some() {
        return Err("has $request_uri elsewhere than after the host".into());
    }
    let named = match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    };
    Ok(RedirectTo {
        scheme: Some(if tls { "https" } else { "http" }.into()),
        authority: Some(authority(&named)?),
        path,
        code,
    })
}

fn scheme(text: &str) -> Result<(bool, &str), Fault> {
    let split = text.split_once("://");
    let Some((scheme, rest)) = split else {
        return Err("is no URL of http or https".into());
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((false, rest)),
        "https" => Ok((true, rest)),
        _ => Err("is no URL of http or https".into()),
    }
}

type AfterScheme = (Arc<str>, Option<u16>, Option<Arc<str>>);

fn after_scheme(rest: &str) -> Result<AfterScheme, Fault> {
    if !rest.bytes().all(is_of_url) {
        return Err("has characters that no URL has".into());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (named, rest) = rest.split_at(end);
    let (host, port) = host_and_port(named)?;
    let path = match rest {
        "" => None,
        rest if rest.starts_with('/') => Some(rest.into()),
        rest => Some(format!("/{rest}").into()),
    };
    Ok((host, port, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_leads_to_the_root_or_keeps_the_path() {
        let path = |to: Result<RedirectTo, Fault>| to.ok().and_then(|to| to.path);
        assert_eq!(path(target("http://a.com", 301)).as_deref(), Some("/"));
        assert_eq!(path(target_keeping_path("http://a.com", 301)), None);
        for text in ["http://a.com/b", "/b"] {
            assert_eq!(path(target(text, 301)).as_deref(), Some("/b"));
            assert_eq!(path(target_keeping_path(text, 301)).as_deref(), Some("/b"));
        }
        assert_eq!(path(target("http://a.com$request_uri", 301)), None);
    }
}
