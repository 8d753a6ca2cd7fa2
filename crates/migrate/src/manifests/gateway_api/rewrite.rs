//! Rewrites of paths by expressions, as far as the Gateway API can say them.
//!
//! It can replace a whole path by a fixed one, or a prefix by another. ingress-nginx's usual `/api(/|$)(.*)` with `/$2` is the
//! latter; any other use of groups is none.

use model::re2::quote;

use super::lost;
use super::rule::{Path, is_plain};
use crate::manifests::lost::Lost;

/// What becomes of a rewrite.
#[derive(PartialEq, Debug)]
pub(super) enum Rewritten {
    /// The path stays.
    Not,
    /// The whole path is replaced.
    Whole(String),
    /// A prefix is replaced.
    Prefix(Prefix),
    /// It cannot be said.
    No,
}

/// A prefix that is replaced.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Prefix {
    /// The prefix.
    pub(super) path: String,
    /// What takes its place.
    pub(super) by: String,
    /// What becomes of the path that is just the prefix, where that is something else.
    pub(super) bare: Option<String>,
    /// What the prefix matches beyond the expression, or the expression beyond the prefix, and what is lost so.
    pub(super) guards: Vec<(Path, Lost)>,
}

/// How a path goes on behind the prefix.
#[derive(Clone, Copy, PartialEq)]
enum Tail {
    /// Not at all, or with a slash.
    Element,
    /// With a slash.
    Slash,
    /// With a slash or without.
    Text,
}

const TAILS: [(&str, &str, Tail); 5] = [
    ("(/|$)(.*).*", r"/\2", Tail::Element),
    ("/(.*).*", r"/\1", Tail::Slash),
    ("/?(.*).*", r"/\1", Tail::Text),
    ("/()(.*).*", r"/\2", Tail::Slash),
    ("(/|$)(.*)", r"/\2", Tail::Element),
];

/// What becomes of a rewrite of an expression to a target.
pub(super) fn of(pattern: &str, target: &str) -> Rewritten {
    if !target.contains('\\') {
        return match is_plain(target) {
            true => Rewritten::Whole(target.to_owned()),
            false => Rewritten::No,
        };
    }
    let (plain, any_case) = match pattern.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    for (tail, group, kind) in TAILS {
        let stated = plain.strip_suffix(tail).and_then(text_of);
        let (Some(path), Some(by)) = (stated, target.strip_suffix(group)) else {
            continue;
        };
        let usable = |text: &str| text.is_empty() || (is_plain(text) && !text.ends_with('/'));
        if usable(&path) && usable(by) {
            return prefix(path, by, kind, any_case);
        }
    }
    Rewritten::No
}

fn prefix(path: String, by: &str, tail: Tail, any_case: bool) -> Rewritten {
    if path.is_empty() {
        // Envoy puts nothing between what takes the place of the root and the rest.
        return match (by, tail) {
            ("", Tail::Slash) => Rewritten::Not,
            _ => Rewritten::No,
        };
    }
    let case = if any_case { "(?i)" } else { "" };
    let quoted = quote(&path);
    let mut guards = Vec::new();
    match tail {
        Tail::Element if any_case => {
            guards.push((Path::Regex(format!("{case}{quoted}(/.*)?")), lost::CASE));
        }
        Tail::Element => {}
        Tail::Slash => {
            guards.push((Path::Exact(path.clone()), lost::BEYOND));
            if any_case {
                guards.push((Path::Regex(format!("{case}{quoted}/.*")), lost::CASE));
            }
        }
        Tail::Text => guards.push((Path::Regex(format!("{case}{quoted}.*")), lost::BEYOND)),
    }
    let bare = (tail != Tail::Slash && !by.is_empty()).then(|| format!("{by}/"));
    let by = if by.is_empty() { "/" } else { by };
    Rewritten::Prefix(Prefix {
        path,
        by: by.to_owned(),
        bare,
        guards,
    })
}

/// The text that an expression stands for, if it stands for one.
fn text_of(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(|c| !c.is_ascii_alphanumeric())?),
            c if r"+*?()|[]{}^$.".contains(c) => return None,
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found() {
        let table = [
            (r"(?i)/api(/|$)(.*).*", r"/\2", "/api / - 1"),
            (r"(?i)/api(/|$)(.*).*", r"/v1/\2", "/api /v1 /v1/ 1"),
            (r"(?i)/api/(.*).*", r"/\1", "/api / - 2"),
            (r"/a\.b/?(.*).*", r"/\1", "/a.b / - 1"),
        ];
        for (pattern, target, wanted) in table {
            let Rewritten::Prefix(found) = of(pattern, target) else {
                panic!("{pattern}");
            };
            let bare = found.bare.as_deref().unwrap_or("-");
            let guards = found.guards.len();
            let text = format!("{} {} {bare} {guards}", found.path, found.by);
            assert_eq!(text, wanted, "{pattern}");
        }
    }

    #[test]
    fn other_groups_cannot_be_said() {
        assert_eq!(of("(?i)/(.*).*", r"/\1"), Rewritten::Not);
        assert_eq!(of("(?i)/()(.*).*", r"/\2"), Rewritten::Not);
        assert_eq!(of("/a.*", "/b"), Rewritten::Whole("/b".to_owned()));
        for (pattern, target) in [
            (r"/(a|b)/(.*).*", r"/\2"),
            (r"/a/(.*)/b/(.*).*", r"/\2/\1"),
            ("/(.*).*", r"/app/\1"),
            (r"/a(/|$)(.*).*", r"/\2?x=1"),
            ("/a.*", "/b?c=d"),
        ] {
            assert_eq!(of(pattern, target), Rewritten::No, "{pattern}");
        }
    }
}
