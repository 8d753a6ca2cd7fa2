//! URLs, as strictly as Go's `net/url` reads them where Istio relies on it.

use super::Check;

/// A URL in its parts.
#[derive(Debug, PartialEq)]
pub(super) struct Url<'a> {
    /// In lower case; empty for a relative one.
    pub(super) scheme: String,
    /// What stands between `//` and the path, without a user.
    pub(super) host: &'a str,
    /// From the first `/` on.
    pub(super) path: &'a str,
}

impl<'a> Url<'a> {
    /// Reads a URL; `None` for what Go's `url.Parse` refuses.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let (scheme, rest) = scheme(text)?;
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        if !rest.starts_with('/') {
            // What follows a scheme without a slash has no structure; a relative one may have no colon in front.
            let first = rest.split('/').next().unwrap_or_default();
            let relative = scheme.is_empty();
            if relative && first.contains(':') {
                return None;
            }
            return (!relative || escapes(rest)).then_some(Self {
                scheme,
                host: "",
                path: rest,
            });
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                let at = rest.find('/').unwrap_or(rest.len());
                rest.split_at(at)
            }
            _ => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        (is_host(host) && escapes(path)).then_some(Self { scheme, host, path })
    }
}

/// The scheme, empty where there is none, and what follows it.
fn scheme(text: &str) -> Option<(String, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Some((String::new(), text))
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some(parts) => parts,
            None => return false,
        },
        None => match host.rfind(':') {
            Some(at) => host.split_at(at),
            None => (host, ""),
        },
    };
    let good_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let good = |c: char| c.is_alphanumeric() || c > '\u{7f}' || "-._~!$&'()*+,;=:\"<>%".contains(c);
    good_port && name.chars().all(good) && escapes(name)
}

/// Whether every `%` starts an escape.
fn escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        part.as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Whether the text is an absolute URL, or an absolute path.
pub fn is_request_url(text: &str) -> bool {
    // A request has no fragment, so the sign is part of the host, where it may not stand.
    let host = text.split_once("://").map_or("", |(_, rest)| rest);
    if host
        .split('/')
        .next()
        .is_some_and(|host| host.contains('#'))
    {
        return false;
    }
    Url::parse(text).is_some_and(|url| {
        let opaque = !url.scheme.is_empty() && !text.contains("://") && !url.path.starts_with('/');
        !opaque && (!url.scheme.is_empty() || url.path.starts_with('/'))
    })
}

/// A part of a URL: `scheme`, `host`, `hostname`, `port` or `path`; empty where there is none.
pub fn url_part(text: &str, part: &str) -> String {
    let Some(url) = Url::parse(text) else {
        return String::new();
    };
    let (name, port) = match url.host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (url.host, ""),
    };
    match part {
        "scheme" => url.scheme,
        "host" => url.host.to_owned(),
        "hostname" => name.trim_matches(['[', ']']).to_owned(),
        "port" => port.to_owned(),
        _ => url.path.to_owned(),
    }
}

/// Whether the text is a URL, which may be relative.
pub fn is_url(text: &str) -> bool {
    Url::parse(text).is_some()
}

/// Where keys for tokens are fetched from.
///
/// Istio: pkg/config/security/security.go ParseJwksURI, 1.32.
pub fn jwks_uri(text: &str) -> Check {
    let Some(url) = Url::parse(text) else {
        return Err(format!("{text:?} is no URL"));
    };
    match url.scheme.as_str() {
        "http" | "https" => Ok(()),
        "" => Err(format!("{text:?} does not start with https:// or http://")),
        scheme => Err(format!("{scheme:?} is neither https nor http")),
    }
}

/// Where a Wasm module is fetched from. Without a scheme it is an image.
///
/// Istio: pkg/config/validation/validation.go validateWasmPluginURL, 1.32.
pub fn plugin_url(text: &str) -> Check {
    if text.is_empty() {
        return Err("a URL is needed".to_owned());
    }
    let as_request = |text: &str| -> Option<String> {
        let url = Url::parse(text)?;
        let absolute =
            url.path.starts_with('/') || (!url.scheme.is_empty() && text.contains("://"));
        let opaque = !url.scheme.is_empty() && !url.path.starts_with('/') && url.host.is_empty();
        (absolute && !opaque).then_some(url.scheme)
    };
    let with_scheme = format!("http://{text}");
    match as_request(text).or_else(|| as_request(&with_scheme)) {
        None => Err(format!("{text:?} is no URL")),
        Some(scheme) if matches!(scheme.as_str(), "" | "file" | "http" | "https" | "oci") => Ok(()),
        Some(scheme) => Err(format!(
            "modules cannot be fetched by {scheme:?}: expected oci, https, http or file"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_a_host_and_a_path() {
        let url = Url::parse("HTTPS://user@a.b:80/c%20d?e=f#g");
        let expected = Url {
            scheme: "https".to_owned(),
            host: "a.b:80",
            path: "/c%20d",
        };
        assert_eq!(url, Some(expected));
        for bad in [
            "http://[fe80",
            "http://a:b",
            "http://a b",
            "%zz",
            ":a",
            "1:a",
            "a\n",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn modules_come_from_images_servers_and_files() {
        for good in [
            "oci://a/b",
            "a.b/c:v1",
            "http://a/b.wasm",
            "file:///a",
            "localhost:5000/a",
        ] {
            assert_eq!(plugin_url(good), Ok(()), "{good}");
        }
        for bad in ["", "ftp://a/b", "a%zz"] {
            assert!(plugin_url(bad).is_err(), "{bad}");
        }
    }
}
