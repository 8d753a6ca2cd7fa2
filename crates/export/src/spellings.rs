//! Closed routes for every spelling of their paths.
//!
//! Whether `//admin`, `/\admin` or `/%2fadmin` is `/admin` depends on how the proxies of the other control plane normalize paths, and
//! on what the backend makes of the path. A closed route that took only the spelling of its rule would leave the others to the
//! open routes after it, so that its paths are regular expressions of all spellings. Letters that are percent-encoded are left
//! to Envoy, which decodes them in every normalization but `NONE`.

use model::re2::quote;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};
use validate::text::re2;

/// Anything that a normalization may turn into a slash.
const SLASH: &str = r"(?:/|\\|%2[fF]|%5[cC])";
/// A dot, which may be percent-encoded.
const DOT: &str = r"(?:\.|%2[eE])";

/// All paths. As a prefix, istiod would move the route behind the open ones.
const ALL: &str = "/.*";

/// Has a match take every spelling of its path. `by_segments` says whether a prefix ends where a segment ends.
pub(crate) fn widen(asked: &mut HttpMatchRequest, by_segments: bool) {
    let Some(stated) = asked.uri.as_ref().and_then(|uri| uri.match_type.as_ref()) else {
        return;
    };
    let pattern = match stated {
        MatchType::Prefix(path) if path == "/" => return,
        MatchType::Exact(path) | MatchType::Prefix(path) if !path.starts_with('/') => return,
        MatchType::Exact(path) => Some(exact(path)),
        MatchType::Prefix(path) => Some(prefix(path, by_segments)),
        MatchType::Regex(regex) => expression(regex),
    };
    let case = match asked.ignore_uri_case {
        true => "(?i)",
        false => "",
    };
    let regex = pattern.map(|pattern| format!("{case}(?:{pattern})|{}", up()));
    // What istiod finds too long costs the whole object there, and what Envoy does all routes of the port.
    let regex = regex.filter(|regex| re2(regex).is_ok());
    asked.ignore_uri_case = false;
    asked.uri = Some(StringMatch {
        match_type: Some(MatchType::Regex(regex.unwrap_or_else(|| ALL.to_owned()))),
    });
}

/// What separates two segments: slashes, and segments that stay in their folder.
fn separator() -> String {
    format!("{SLASH}(?:{DOT}?{SLASH})*")
}

/// Paths that lead out of a folder: where they end depends on who resolves them.
fn up() -> String {
    format!("(?:.*{SLASH})?{DOT}{DOT}(?:{SLASH}.*)?")
}

fn segments(path: &str) -> String {
    let separator = separator();
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments
        .map(|segment| format!("{separator}{}", quote(segment)))
        .collect()
}

fn exact(path: &str) -> String {
    format!("{}(?:{}{DOT}?)?", segments(path), separator())
}

fn prefix(path: &str, by_segments: bool) -> String {
    let segments = segments(path);
    if by_segments {
        format!("{segments}(?:{SLASH}.*)?")
    } else if path.ends_with('/') {
        format!("{segments}{SLASH}.*")
    } else {
        format!("{segments}.*")
    }
}

/// An expression that takes at least the spellings of what another one takes; `None` where the other one is not understood.
fn expression(regex: &str) -> Option<String> {
    let separator = format!("(?:{})", separator());
    let mut out = String::with_capacity(regex.len());
    let mut rest = regex;
    while let Some(c) = rest.chars().next() {
        let one = match c {
            '[' => class(rest)?,
            '\\' => escape(rest)?,
            _ => &rest[..c.len_utf8()],
        };
        rest = &rest[one.len()..];
        let is_repeated = rest.starts_with(['*', '+']);
        match one {
            "/" | r"\/" => out.push_str(&separator),
            "." if is_repeated => out.push('.'),
            _ if takes_slash(one) => out.push_str(&format!("(?:{one}|{separator})")),
            _ => out.push_str(one),
        }
    }
    Some(out)
}

/// The class of characters that an expression begins with.
fn class(regex: &str) -> Option<&str> {
    let inner = regex.strip_prefix('[')?;
    let inner = inner.strip_prefix('^').unwrap_or(inner);
    let mut at = regex.len() - inner.len();
    if inner.starts_with(']') {
        at += 1;
    }
    while let Some(c) = regex[at..].chars().next() {
        let rest = &regex[at..];
        at += match c {
            ']' => return Some(&regex[..=at]),
            '\\' => 1 + rest[1..].chars().next()?.len_utf8(),
            '[' if rest.starts_with("[:") => 4 + rest[2..].find(":]")?,
            _ => c.len_utf8(),
        };
    }
    None
}

/// The escaped character that an expression begins with, or the class that it names. Boundaries of words are others in other
/// spellings, and other escapes are not known.
fn escape(regex: &str) -> Option<&str> {
    let escaped = regex.strip_prefix('\\')?.chars().next()?;
    let is_known = escaped.is_ascii_punctuation() || "dDwWsS".contains(escaped);
    is_known.then(|| &regex[..2])
}

/// Whether one of the parts of an expression may take a slash.
fn takes_slash(one: &str) -> bool {
    if let Some(others) = one.strip_prefix("[^") {
        return !others.contains('/');
    }
    let Some(members) = one.strip_prefix('[') else {
        return matches!(one, "." | r"\D" | r"\W" | r"\S");
    };
    let members: Vec<char> = members.chars().collect();
    let is_range = |range: &[char]| range[1] == '-' && (range[0]..=range[2]).contains(&'/');
    // What is escaped and what has a name may be anything.
    let may_take = |c: &char| matches!(c, '/' | '\\' | '[');
    members.iter().any(may_take) || members.windows(3).any(is_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_take_the_spellings_of_their_slashes() {
        let separator = format!("(?:{})", separator());
        let table = [
            ("(?i)/admin.*", Some("(?i)Sadmin.*")),
            (r"\/a(?:/.*)?", Some("Sa(?:S.*)?")),
            ("/v[0-9]+/.", Some("Sv[0-9]+S(?:.|S)")),
            ("/[^/]+/[^x]", Some("S[^/]+S(?:[^x]|S)")),
            ("/[]/]", Some("S(?:[]/]|S)")),
            ("/[+-9]", Some("S(?:[+-9]|S)")),
            ("/[[:alpha:]]", Some("S(?:[[:alpha:]]|S)")),
            (r"/\d\S\.", Some(r"S\d(?:\S|S)\.")),
            (r"/a\b.*", None),
            (r"/\x61", None),
            ("/[a", None),
        ];
        for (regex, wanted) in table {
            let wanted = wanted.map(|wanted| {
                let kept = wanted.replace(r"\S", "KEPT").replace('S', &separator);
                kept.replace("KEPT", r"\S")
            });
            assert_eq!(expression(regex), wanted, "{regex}");
        }
    }

    #[test]
    fn what_is_not_understood_or_too_long_is_closed_with_all_paths() {
        // The program of the last is too large for Envoy, though its text is short and its author's expression is not.
        for stated in [
            MatchType::Regex(r"/a\b.*".to_owned()),
            MatchType::Prefix("/a".repeat(20)),
            MatchType::Regex(format!("/{}", "[.-0]{990}".repeat(6))),
        ] {
            let mut asked = HttpMatchRequest {
                uri: Some(StringMatch {
                    match_type: Some(stated),
                }),
                ..HttpMatchRequest::default()
            };
            widen(&mut asked, true);
            let uri = asked.uri.and_then(|uri| uri.match_type);
            assert_eq!(uri, Some(MatchType::Regex(ALL.to_owned())));
        }
    }
}
