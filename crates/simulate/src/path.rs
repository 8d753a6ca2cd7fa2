//! Paths as a listener sees them before it looks for a route.
//!
//! Envoy: source/common/http/path_utility.cc, 1.36.

use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::PathWithEscapedSlashesAction as Escaped;

/// The path with its query as a connection manager sees it; none where it refuses the request because of escaped slashes.
pub(crate) fn seen_by(manager: &HttpConnectionManager, path: &str) -> Option<String> {
    let at = path.find(['?', '#']).unwrap_or(path.len());
    let (bare, rest) = path.split_at(at);
    if !bare.starts_with('/') {
        return Some(path.to_owned());
    }
    let mut bare = bare.to_owned();
    let escaped = Escaped::try_from(manager.path_with_escaped_slashes_action).unwrap_or_default();
    match escaped {
        Escaped::ImplementationSpecificDefault | Escaped::KeepUnchanged => {}
        Escaped::RejectRequest if has_escaped_slashes(&bare) => return None,
        Escaped::RejectRequest => {}
        Escaped::UnescapeAndRedirect | Escaped::UnescapeAndForward => {
            bare = decoded(&bare, |byte| matches!(byte, b'/' | b'\\'));
        }
    }
    if manager.normalize_path == Some(true) {
        bare = without_dots(&decoded(&bare, is_unreserved).replace('\\', "/"));
    }
    if manager.merge_slashes {
        while bare.contains("//") {
            bare = bare.replace("//", "/");
        }
    }
    Some(format!("{bare}{rest}"))
}

/// An authority without the dot at the end of its host.
pub(crate) fn without_dot(authority: &str) -> String {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{}:{port}", host.strip_suffix('.').unwrap_or(host))
        }
        _ => authority.strip_suffix('.').unwrap_or(authority).to_owned(),
    }
}

fn has_escaped_slashes(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    lower.contains("%2f") || lower.contains("%5c")
}

/// Characters that mean the same whether they are escaped or not.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A path in which some escaped characters stand for themselves.
fn decoded(path: &str, stands: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = rest
            .get(1..3)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| stands(*byte)) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[3..];
            }
            None => {
                out.push('%');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// A path without elements that are one dot or two. Elements may be empty.
fn without_dots(path: &str) -> String {
    let mut elements: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    elements.pop();
                }
                if is_last {
                    elements.push("");
                }
            }
            part => elements.push(part),
        }
    }
    format!("/{}", elements.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dot_at_the_end_of_a_host_is_dropped() {
        for (authority, seen) in [
            ("a.test.", "a.test"),
            ("a.test.:80", "a.test:80"),
            ("a.test..", "a.test."),
            ("a.test", "a.test"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(without_dot(authority), seen);
        }
    }

    #[test]
    fn paths_are_seen_as_the_listener_is_told_to_see_them() {
        let all = HttpConnectionManager {
            normalize_path: Some(true),
            merge_slashes: true,
            ..HttpConnectionManager::default()
        };
        for (path, seen) in [
            ("//v1//items", "/v1/items"),
            ("/v1/../v1/items?a=../b", "/v1/items?a=../b"),
            ("/v1/%69tems", "/v1/items"),
            ("/v1/%2e%2e/x", "/x"),
            ("/a/./b/..", "/a/"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a\\b", "/a/b"),
            ("/%zz%2", "/%zz%2"),
            ("*", "*"),
        ] {
            assert_eq!(seen_by(&all, path).as_deref(), Some(seen), "{path}");
        }
        let none = HttpConnectionManager::default();
        assert_eq!(seen_by(&none, "//a/../b").as_deref(), Some("//a/../b"));
        let with = |action: Escaped| HttpConnectionManager {
            path_with_escaped_slashes_action: action.into(),
            ..all.clone()
        };
        let opened = with(Escaped::UnescapeAndForward);
        assert_eq!(seen_by(&opened, "/a%2fb").as_deref(), Some("/a/b"));
        assert_eq!(seen_by(&with(Escaped::RejectRequest), "/a%2fb"), None);
    }
}
