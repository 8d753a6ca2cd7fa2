//! Escaped slashes (`%2f`, `%5c`) on hosts of which only a part is protected.
//!
//! nginx decodes a path before it chooses a rule; proxies choose by the path as it is written, and backends may decode it. So
//! `/admin%2fusers` would be served by the open rule for `/` and reach what the rule for `/admin` protects. Paths that are
//! below a protected one once they are decoded, and those with escaped slashes beside `..`, get 400.
//!
//! Other paths with escaped slashes pass, as `/projects/a%2fb` beside a protected `/admin`; so do all where every rule of the
//! host has the same protection.
//!
//! Other characters that may be written in several ways are asked for in all of these ([`super::encoded`]). Of a protected
//! expression that is not understood there, nobody can say what it takes once it is decoded: below its beginning no path may have
//! anything escaped.

use std::collections::BTreeMap;

use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpDirectResponse, HttpMatchRequest, HttpRoute, StringMatch};

use super::draft::Draft;
use super::expand::closed;
use super::rules::PathKind;
use super::sound::NOT_VALID;
use super::{encoded, expression};

/// How many bytes the protected paths in one regular expression may have: Envoy limits the size of what it compiles.
const BYTES: usize = 1 << 10;

/// How many bytes the protected paths of a host may have; where they have more, no path may have an escaped slash.
const MOST: usize = 16 << 10;

/// Paths with an escaped slash before their query.
const ESCAPED: &str = "(?i)[^?#]*%(?:2f|5c).*";
/// Paths with anything escaped before their query.
const ANY_ESCAPED: &str = "[^?#]*%.*";
/// How many beginnings of expressions that are not understood a host may have; where it has more, no path may have anything escaped.
const MOST_UNKNOWN: usize = 20;
const SLASHES: &str = "(?:/|%2f|%5c)+";

/// The routes that refuse what would get around the protection of some of these rules; to stand before them all.
pub(super) fn guards(drafts: &[&Draft]) -> Vec<HttpRoute> {
    let Some((first, rest)) = drafts.split_first() else {
        return Vec::new();
    };
    if rest.iter().all(|draft| is_alike(draft, first)) {
        return Vec::new();
    }
    let protects = |draft: &&&Draft| closed_to_protect(draft).is_some() || draft.policy.protects();
    let protecting = || drafts.iter().filter(protects);
    let roots = protecting().filter(|draft| is_root(draft));
    let roots: Vec<&Draft> = roots.copied().collect();
    // The root has what no other rule has, so what is decoded to be below it is not below another. But an expression may take
    // an escaped path that it would not take decoded.
    let is_beside_root = |draft: &&Draft| {
        let differs = |root: &&Draft| !is_alike(draft, root);
        is_expression(&draft.asks.path, draft.asks.kind) && roots.iter().any(differs)
    };
    let below_root = drafts.iter().any(is_beside_root).then(|| ".*".to_owned());
    let others = || protecting().filter(|draft| !is_root(draft));
    let mut names = others().copied().chain(roots.iter().copied());
    let name = names
        .next()
        .map_or(&first.route.name, |draft| &draft.route.name);
    let mut below: Vec<String> = others()
        .map(|draft| below(&draft.asks.path, draft.asks.kind, draft.asks.ignore_case))
        .chain(below_root)
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
    let slashes = groups.iter().map(|group| refused(name, group, ESCAPED));
    let unknown = others().filter(|draft| is_unknown(&draft.asks.path, draft.asks.kind));
    let mut begins: Vec<String> = unknown
        .map(|draft| {
            format!(
                "{}.*",
                encoded::text(&expression::beginning(&draft.asks.path), true)
            )
        })
        .collect();
    begins.sort();
    begins.dedup();
    let begins = match begins.len() {
        0..=MOST_UNKNOWN => begins,
        _ => vec![".*".to_owned()],
    };
    let unknown = begins.iter().map(|begin| refused(name, begin, ANY_ESCAPED));
    slashes.chain(unknown).collect()
}

/// Whether two rules have the same protection.
fn is_alike(one: &Draft, other: &Draft) -> bool {
    closed_to_protect(one) == closed_to_protect(other)
        && one.policy.protection() == other.policy.protection()
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

/// Whether a rule is an expression with more in it than dots.
fn is_expression(path: &str, kind: PathKind) -> bool {
    let is_regex = matches!(kind, PathKind::PrefixRegex | PathKind::FullRegex);
    is_regex && path.contains(|c: char| r"*+?()[]{}|^$\".contains(c))
}

/// Whether a rule is an expression of which not all ways to write its paths are known.
fn is_unknown(path: &str, kind: PathKind) -> bool {
    is_expression(path, kind) && !encoded::is_understood(&expression::split(path).matched)
}

/// Which paths are those of a rule once they are decoded; any may be that of an expression with more in it than dots.
fn below(path: &str, kind: PathKind, ignore_case: bool) -> String {
    let is_regex = matches!(kind, PathKind::PrefixRegex | PathKind::FullRegex);
    if is_expression(path, kind) {
        return ".*".to_owned();
    }
    let parts = path.split('/').filter(|part| !part.is_empty());
    let plain: String = parts
        .map(|part| match is_regex {
            true => format!("{SLASHES}{}", encoded::expression(part, ignore_case)),
            false => format!("{SLASHES}{}", encoded::text(part, ignore_case)),
        })
        .collect();
    match kind {
        PathKind::Exact | PathKind::FullRegex => format!("{plain}(?:{SLASHES})?"),
        PathKind::Prefix => format!("{plain}(?:{SLASHES}.*)?"),
        PathKind::PrefixRegex => format!("{plain}.*"),
    }
}

/// Answers 400 to paths that match an expression, and with their query another one, of what is escaped.
fn refused(name: &str, pattern: &str, escaped: &str) -> HttpRoute {
    let regex = |text: String| StringMatch {
        match_type: Some(MatchType::Regex(text)),
    };
    let asked = HttpMatchRequest {
        uri: Some(regex(format!("(?i)(?:{pattern})"))),
        headers: BTreeMap::from([(":path".to_owned(), regex(escaped.to_owned()))]),
        ..HttpMatchRequest::default()
    };
    let reason = match escaped {
        ESCAPED => "a path with escaped slashes beside a protected one",
        _ => "a path with escaped characters beside a protected one",
    };
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
            (PathKind::Prefix, "/a b"),
        ];
        // Paths, and below which of these rules they are.
        let table: [(&str, [bool; 4]); 13] = [
            ("/admin%2fx", [true, false, false, false]),
            ("/%2fadmin/x", [true, false, false, false]),
            ("/%2Fadmin%5Cx", [true, false, false, false]),
            ("/ADMIN%2fx", [true, false, false, false]),
            ("/administrator%2fx", [false, false, false, false]),
            ("/x%2fadmin", [false, false, false, false]),
            ("/a%2fsecret", [false, true, false, false]),
            ("/a%2fsecret/", [false, true, false, false]),
            ("/a%2fsecret/x", [false, false, false, false]),
            ("/v1.2%2fxyz", [false, false, true, false]),
            ("/v1-2%2fx", [false, false, true, false]),
            ("/projects/group%2fproject", [false, false, false, false]),
            ("/%2fa%20b/x", [false, false, false, true]),
        ];
        for (path, wanted) in table {
            for ((kind, rule), wanted) in rules.iter().zip(wanted) {
                let regex = format!("^(?i)(?:{})$", below(rule, *kind, false));
                let regex = regex::Regex::new(&regex).unwrap();
                assert_eq!(regex.is_match(path), wanted, "{path} below {rule}");
            }
        }
        assert_eq!(below("/a|b", PathKind::PrefixRegex, false), ".*");
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
