//! Locations of a server: which one takes a path, and what it does.

use std::cmp::Reverse;
use std::fmt;

use model::kinds::kube::PathType;
use regex::RegexBuilder;

use super::super::{Choice, Request};
use super::Server;
use super::canary::{self, Canary};

/// A location.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// The path as the Ingress has it.
    pub(super) path: String,
    /// How it is matched: exactly, or by elements as a prefix.
    pub(super) path_type: PathType,
    /// The Ingress that it is from.
    pub(super) ingress: String,
    /// Where requests go; none where nothing is named.
    pub(super) backend: Option<Backend>,
    /// It stands for what no rule says, and gives way to one of the same path.
    pub(super) is_default: bool,
    /// It makes the paths of its server regular expressions.
    pub(super) is_regex: bool,
    /// Where it redirects to, and with which status.
    pub(super) redirect: Option<(u16, String)>,
    /// Where `/` goes.
    pub(super) app_root: Option<String>,
    /// Requests without TLS are redirected: always, or where the server has a certificate.
    pub(super) to_https: ToHttps,
    /// Who takes a part of its requests.
    pub(super) canaries: Vec<Canary>,
}

/// What stands behind a location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Backend {
    /// The port of a Service, `namespace/name:port`.
    Service(String),
    /// There is no such Service, or it has not the port, and requests get 503; the reason, as a sentence.
    Absent(String),
}

/// Which requests without TLS are redirected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ToHttps {
    /// None.
    Never,
    /// Those to servers with a certificate.
    WithCertificate,
    /// All.
    Always,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if !self.ingress.is_empty() {
            write!(f, " of {}", self.ingress)?;
        }
        match &self.backend {
            Some(Backend::Absent(why)) => write!(f, ": {why}"),
            _ => Ok(()),
        }
    }
}

/// The location that takes a path.
///
/// # Errors
///
/// When that is decided by a regular expression that is not understood here.
pub(super) fn find<'a>(
    locations: &'a [Location],
    path: &str,
) -> Result<Option<&'a Location>, String> {
    if locations.iter().any(|location| location.is_regex) {
        return by_expression(locations, path);
    }
    let exact = |l: &&Location| l.path_type == PathType::Exact && l.path == path;
    if let Some(found) = locations.iter().find(exact) {
        return Ok(Some(found));
    }
    let whole = |l: &&Location| l.path_type == PathType::Prefix && l.path == path;
    if let Some(found) = locations.iter().find(whole) {
        return Ok(Some(found));
    }
    let prefixes = locations.iter().filter_map(|location| {
        if location.path_type == PathType::Exact {
            return None;
        }
        let prefix = by_element(&location.path);
        // nginx itself redirects from `/a` to a location `/a/`.
        let without = prefix.strip_suffix('/').filter(|rest| *rest == path);
        let is_slash = without.is_some() && !path.is_empty();
        (path.starts_with(&prefix) || is_slash).then_some((prefix.len(), location))
    });
    Ok(longest(prefixes))
}

/// The longest, and of equal ones the first.
fn longest<'a>(found: impl Iterator<Item = (usize, &'a Location)>) -> Option<&'a Location> {
    let best = found.enumerate();
    let best = best.max_by_key(|(at, (length, _))| (*length, Reverse(*at)));
    best.map(|(_, (_, location))| location)
}

/// On a server with regular expressions every path is one, without regard to case; longer ones go first.
fn by_expression<'a>(
    locations: &'a [Location],
    path: &str,
) -> Result<Option<&'a Location>, String> {
    let mut sorted: Vec<&Location> = locations.iter().collect();
    sorted.sort_by(|a, b| b.path.cmp(&a.path));
    sorted.sort_by_key(|location| Reverse(location.path.len()));
    for location in sorted {
        let pattern = format!("^{}", location.path);
        let mut builder = RegexBuilder::new(&pattern);
        let regex = builder.case_insensitive(true).size_limit(1 << 20).build();
        let regex = regex.map_err(|_| {
            format!(
                "the expression {} of {} is not one of RE2",
                location.path, location.ingress
            )
        })?;
        if regex.is_match(path) {
            return Ok(Some(location));
        }
    }
    Ok(None)
}

fn by_element(path: &str) -> String {
    match path.ends_with('/') {
        true => path.to_owned(),
        false => format!("{path}/"),
    }
}

impl Location {
    /// What becomes of a request that it takes.
    pub(super) fn serve(&self, server: &Server, request: &Request, path: &str) -> Choice {
        let secure = match self.to_https {
            ToHttps::Never => false,
            ToHttps::WithCertificate => server.has_certificate,
            ToHttps::Always => true,
        };
        if secure && !request.tls {
            return Choice::Redirect {
                status: 308,
                location: format!("https://{}{}", request.host, request.path),
            };
        }
        if let Some(root) = self.app_root.as_ref().filter(|_| path == "/") {
            return Choice::Redirect {
                status: 302,
                location: format!("{}://{}{root}", request.scheme(), request.host),
            };
        }
        if let Some((status, to)) = &self.redirect {
            return Choice::Redirect {
                status: *status,
                location: variables(to, request),
            };
        }
        // A slash is added to what is all of a location but the slash.
        let slashed = self.path_type == PathType::Prefix
            && !self.is_regex
            && self.path.strip_suffix('/') == Some(path)
            && !path.is_empty();
        if slashed {
            return Choice::Redirect {
                status: 301,
                location: format!("{}://{}{path}/", request.scheme(), request.host),
            };
        }
        match &self.backend {
            None => Choice::Answer(404),
            Some(Backend::Absent(_)) => Choice::Answer(503),
            Some(Backend::Service(to)) => {
                Choice::Backends(canary::split(to, &self.canaries, request))
            }
        }
    }
}

/// A URL with the variables of nginx that redirects use.
fn variables(text: &str, request: &Request) -> String {
    let mut text = text.to_owned();
    for (name, value) in [
        ("$request_uri", request.path.as_str()),
        ("$http_host", &request.host),
        ("$host", &request.host),
        ("$scheme", request.scheme()),
    ] {
        text = text.replace(name, value);
    }
    text
}

/// A path as locations see it: decoded, without doubled slashes and dots.
pub(super) fn normalised(path: &str) -> String {
    let decoded = decoded(path);
    let mut elements: Vec<&str> = Vec::new();
    let mut parts = decoded.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        match part {
            "" | "." if parts.peek().is_some() => {}
            ".." => {
                elements.pop();
                if parts.peek().is_none() {
                    elements.push("");
                }
            }
            "." => elements.push(""),
            part => elements.push(part),
        }
    }
    format!("/{}", elements.join("/"))
}

fn decoded(path: &str) -> String {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (digit(bytes.get(at + 1)), digit(bytes.get(at + 2)));
        match (bytes[at], pair) {
            (b'%', (Some(high), Some(low))) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn paths_are_normalised() {
        for (path, expected) in [
            ("/", "/"),
            ("//a///b", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/a/b/", "/a/b/"),
            ("/%61%2fb", "/a/b"),
            ("/a%zz", "/a%zz"),
        ] {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }
}
