//! Escaped slashes (`%2f`, `%5c`) on hosts of which only a part is protected.
//!
//! nginx decodes a path before it chooses a rule; proxies choose by the path as it is written, and backends may decode it. So
//! `/admin%2fusers` would be served by the open rule for `/` and reach what the rule for `/admin` protects. Paths that are
//! below a protected one once they are decoded, and those with escaped slashes beside `..`, get 400.
//!
//! Other paths with escaped slashes pass, as `/projects/a%2fb` beside a protected `/admin`; so do all where every rule of the
//! host has the same protection.

use std::collections::BTreeMap;

use model::re2::quote;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpDirectResponse, HttpMatchRequest, HttpRoute, StringMatch};

use super::draft::Draft;
use super::expand::closed;
use super::rules::PathKind;
use super::sound::NOT_VALID;

/// How many bytes the protected paths in one regular expression may have: Envoy limits the size of what it compiles.
const BYTES: usize = 1 << 10;

/// How many bytes the protected paths of a host may have; where they have more, no path may have an escaped slash.
const MOST: usize = 16 << 10;

/// Paths with an escaped slash before their query.
const ESCAPED: &str = "(?i)[^?#]*%(?:2f|5c).*";
const SLASHES: &str = "(?:/|%2f|%5c)+";

/// The routes that refuse what would get around the protection of some of these rules; to stand before them all.
pub(super) fn guards(drafts: &[&Draft]) -> Vec<HttpRoute> {
    let Some((first, rest)) = drafts.split_first() else {
        return Vec::new();
    };
    let is_alike = |draft: &&Draft| {
        closed_to_protect(draft) == closed_to_protect(first)
            && draft.policy.protection() == first.policy.protection()
    };
    if rest.iter().all(is_alike) {
        return Vec::new();
    }
    let protects = |draft: &&&Draft| closed_to_protect(draft).is_some() || draft.policy.protects();
    let protecting = drafts.iter().filter(protects);
    // The root has what no other rule has, so what is decoded to be below it is not below another.
    let protecting = protecting.filter(|draft| !is_root(draft));
    let mut names = protecting.clone().map(|draft| draft.route.name.as_str());
    let name = names.next().unwrap_or(&first.route.name);
    let mut below: Vec<String> = protecting
        .map(|draft| below(&draft.asks.path, draft.asks.kind))
        .collect();
    below.sort();
    below.dedup();
    let is_too_much = below.iter().map(String::len).sum::<usize>() > MOST;
    if is_too_much || below.iter().any(|path| path.len() > BYTES) {
        below = vec![".*".to_owned()];
    }
    let mut groups = vec![up()];
    let mut size = BYTES;
    for path in below {
        size += path.len();
        match groups.last_mut().filter(|_| size <= BYTES) {
            Some(group) => {
                group.push('|');
                group.push_str(&path);
            }
            None => {
                size = path.len();
                groups.push(path);
            }
        }
    }
    groups.iter().map(|group| refused(name, group)).collect()
}

/// Why a rule is closed; none where its route is not valid, which protects nothing.
fn closed_to_protect(draft: &Draft) -> Option<&str> {
    draft.closed.as_deref().filter(|why| *why != NOT_VALID)
}

/// Paths that lead out of their folder.
fn up() -> String {
    format!(r"(?:.*{SLASHES})?\.\.(?:{SLASHES}.*)?")
}

fn is_root(draft: &Draft) -> bool {
    draft.asks.kind == PathKind::Prefix && &*draft.asks.path == "/"
}

/// Which paths are those of a rule once they are decoded; any may be that of an expression with more in it than dots.
fn below(path: &str, kind: PathKind) -> String {
    let is_regex = matches!(kind, PathKind::PrefixRegex | PathKind::FullRegex);
    if is_regex && path.contains(|c: char| r"*+?()[]{}|^$\".contains(c)) {
        return ".*".to_owned();
    }
    let parts = path.split('/').filter(|part| !part.is_empty());
    let plain: String = parts
        .map(|part| match is_regex {
            true => format!("{SLASHES}{part}"),
            false => format!("{SLASHES}{}", quote(part)),
        })
        .collect();
    match kind {
        PathKind::Exact | PathKind::FullRegex => format!("{plain}(?:{SLASHES})?"),
        PathKind::Prefix => format!("{plain}(?:{SLASHES}.*)?"),
        PathKind::PrefixRegex => format!("{plain}.*"),
    }
}

/// Answers 400 to paths with an escaped slash that match an expression.
fn refused(name: &str, pattern: &str) -> HttpRoute {
    let regex = |text: String| StringMatch {
        match_type: Some(MatchType::Regex(text)),
    };
    let asked = HttpMatchRequest {
        uri: Some(regex(format!("(?i)(?:{pattern})"))),
        headers: BTreeMap::from([(":path".to_owned(), regex(ESCAPED.to_owned()))]),
        ..HttpMatchRequest::default()
    };
    let reason = "a path with escaped slashes beside a protected one";
    HttpRoute {
        direct_response: Some(HttpDirectResponse {
            status: 400,
            body: None,
        }),
        ..closed(name, vec![asked], reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_slashes_are_refused_where_they_lead_below_what_is_protected() {
        let rules = [
            (PathKind::Prefix, "/admin"),
            (PathKind::Exact, "/a/secret"),
            (PathKind::PrefixRegex, "/v1.2/x"),
        ];
        // Paths, and below which of these rules they are.
        let table: [(&str, [bool; 3]); 12] = [
            ("/admin%2fx", [true, false, false]),
            ("/%2fadmin/x", [true, false, false]),
            ("/%2Fadmin%5Cx", [true, false, false]),
            ("/ADMIN%2fx", [true, false, false]),
            ("/administrator%2fx", [false, false, false]),
            ("/x%2fadmin", [false, false, false]),
            ("/a%2fsecret", [false, true, false]),
            ("/a%2fsecret/", [false, true, false]),
            ("/a%2fsecret/x", [false, false, false]),
            ("/v1.2%2fxyz", [false, false, true]),
            ("/v1-2%2fx", [false, false, true]),
            ("/projects/group%2fproject", [false, false, false]),
        ];
        for (path, wanted) in table {
            for ((kind, rule), wanted) in rules.iter().zip(wanted) {
                let regex = format!("^(?i)(?:{})$", below(rule, *kind));
                let regex = regex::Regex::new(&regex).unwrap();
                assert_eq!(regex.is_match(path), wanted, "{path} below {rule}");
            }
        }
        assert_eq!(below("/a|b", PathKind::PrefixRegex), ".*");
        let up = regex::Regex::new(&format!("^(?:{})$", up())).unwrap();
        for (path, wanted) in [
            ("/x/..%2fadmin", true),
            ("/x%2f..", true),
            ("/x%2f..%5cadmin", true),
            ("/a..b%2fc", false),
            ("/x%2fy", false),
        ] {
            assert_eq!(up.is_match(path), wanted, "{path}");
        }
    }
}
