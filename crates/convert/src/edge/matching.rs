//! Which requests a rule is for, and their paths as backends see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::{Dialect, Text};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, HttpRewrite, StringMatch};
use validate::text::{re2_groups, re2_is_choice};

use super::draft::{Asks, by_regex};
use super::rules::{HostRules, Path, PathKind};
use super::{encoded, expression, mcp};

/// The match of a rule.
pub(super) fn matched(asks: &Asks) -> HttpMatchRequest {
    let regex = |pattern: String| MatchType::Regex(cased(&pattern, asks.ignore_case));
    let mut excepted = None;
    let uri = match (&asks.below, asks.kind) {
        (Some(below), _) if &**below == "/" => MatchType::Prefix(below.to_string()),
        (Some(below), _) => regex(format!("{}.*", encoded::text(below, asks.ignore_case))),
        (None, PathKind::Exact) if encoded::is_needed(&asks.path) => {
            regex(encoded::text(&asks.path, asks.ignore_case))
        }
        (None, PathKind::Prefix) if encoded::is_needed(&asks.path) => {
            let path = asks.path.strip_suffix('/').unwrap_or(&asks.path);
            regex(format!("{}(?:/.*)?", encoded::text(path, asks.ignore_case)))
        }
        (None, PathKind::Exact) => MatchType::Exact(asks.path.to_string()),
        (None, PathKind::Prefix) => MatchType::Prefix(asks.path.to_string()),
        (None, kind) => {
            excepted = expression::split(&asks.path).excepted.map(regex);
            regex(pattern(&asks.path, kind, asks.ignore_case))
        }
    };
    let is_regex = matches!(uri, MatchType::Regex(_));
    let excepted = excepted.map(|regex| {
        let match_type = Some(regex);
        (":path".to_owned(), StringMatch { match_type })
    });
    HttpMatchRequest {
        uri: text(uri),
        ignore_uri_case: asks.ignore_case && !is_regex,
        method: methods(&asks.methods),
        headers: texts(&asks.headers),
        without_headers: excepted.into_iter().collect(),
        query_params: texts(&asks.query),
        ..HttpMatchRequest::default()
    }
}

/// A match of methods; none where all are meant.
pub(super) fn methods<T: AsRef<str>>(methods: &[T]) -> Option<StringMatch> {
    let names: Vec<&str> = methods.iter().map(AsRef::as_ref).collect();
    if names.is_empty() {
        return None;
    }
    text(MatchType::Regex(names.join("|")))
}

fn text(match_type: MatchType) -> Option<StringMatch> {
    Some(StringMatch {
        match_type: Some(match_type),
    })
}

fn texts(stated: &BTreeMap<Arc<str>, Text>) -> BTreeMap<String, StringMatch> {
    let pairs = stated.iter().map(|(name, value)| {
        let match_type = match value {
            Text::Exact(text) => MatchType::Exact(text.to_string()),
            Text::Prefix(text) => MatchType::Prefix(text.to_string()),
            Text::Regex(text) => MatchType::Regex(text.to_string()),
        };
        let value = StringMatch {
            match_type: Some(match_type),
        };
        (name.to_string(), value)
    });
    pairs.collect()
}

/// The regular expression that a path stands for, which matches all of a request's path, however that is written.
fn pattern(path: &str, kind: PathKind, ignore_case: bool) -> String {
    let any_writing = |split: &str| encoded::expression(split, ignore_case).into_owned();
    match kind {
        PathKind::Exact => encoded::text(path, ignore_case),
        PathKind::Prefix => format!("{}.*", encoded::text(path, ignore_case)),
        PathKind::PrefixRegex => {
            let split = expression::split(path).matched;
            let path = any_writing(expression::without_rest(&split));
            match re2_is_choice(&path) {
                true => format!("(?:{path}).*"),
                false => format!("{path}.*"),
            }
        }
        PathKind::FullRegex => {
            let split = expression::split(path).matched;
            let path = any_writing(expression::without_dollar(&split));
            format!("{path}$")
        }
    }
}

fn cased(pattern: &str, ignore_case: bool) -> String {
    if ignore_case {
        format!("(?i){pattern}")
    } else {
        pattern.to_owned()
    }
}

/// How the path of requests is changed.
///
/// Higress: pkg/ingress/kube/annotations/rewrite.go ApplyRoute, 2.1. nginx replaces the whole path, Higress only the
/// prefix that matched.
pub(super) fn rewrite(path: &Path, rules: &HostRules) -> Option<HttpRewrite> {
    let annotations = &rules.annotated.annotations;
    let stated = &annotations.rewrite;
    if let Some(new) = &stated.path {
        return Some(prefix_rewrite(path, new));
    }
    let Some(target) = &stated.target else {
        let server = annotations.mcp.as_ref();
        let new = server.and_then(mcp::rewritten_to)?;
        return Some(prefix_rewrite(path, new));
    };
    let ignore_case = path.ignore_case;
    let nginx = rules.annotated.dialect == Dialect::Nginx;
    let matched = match path.kind {
        PathKind::Prefix if !nginx => format!("^{}", encoded::text(&path.path, ignore_case)),
        kind => pattern(&path.path, kind, ignore_case),
    };
    // At the end it means that nothing of a request's own query stays.
    let target = match nginx {
        true => target.strip_suffix('?').unwrap_or(target),
        false => target,
    };
    let target = groups(target, captures(&matched));
    Some(by_regex(cased(&matched, ignore_case), target))
}

/// How many groups a regular expression has; none where it is none.
pub(super) fn captures(pattern: &str) -> usize {
    re2_groups(pattern).unwrap_or(0)
}

/// The annotation `rewrite-path`: what matched becomes the new path, what follows stays.
fn prefix_rewrite(path: &Path, new: &str) -> HttpRewrite {
    let ignore_case = path.ignore_case;
    let is_encoded = encoded::is_needed(&path.path);
    let whole = matches!(path.kind, PathKind::PrefixRegex | PathKind::FullRegex);
    let is_prefix = path.kind == PathKind::Prefix;
    let plain_path = match is_encoded {
        true => path.path.strip_suffix('/').unwrap_or(&path.path),
        false => &*path.path,
    };
    if is_prefix && !plain_path.ends_with('/') {
        let quoted = encoded::text(plain_path, ignore_case);
        let matched = format!("^{quoted}(/.*)?");
        let new = new.strip_suffix('/').unwrap_or(new);
        let target = if new.is_empty() {
            r"/\1".to_owned()
        } else {
            format!(r"{}\1", plain(new))
        };
        // A prefix that becomes the root leaves one slash, not two.
        return match new.is_empty() {
            true => by_regex(format!("^{quoted}(?:/(.*))?"), target),
            false => by_regex(matched, target),
        };
    }
    if whole || is_encoded {
        return by_regex(pattern(&path.path, path.kind, ignore_case), plain(new));
    }
    let ends = is_prefix && !new.ends_with('/');
    HttpRewrite {
        uri: if ends {
            format!("{new}/")
        } else {
            new.to_owned()
        },
        ..HttpRewrite::default()
    }
}

/// A text of a substitution that stands for itself.
fn plain(text: &str) -> String {
    text.replace('\\', r"\\")
}

/// nginx's groups (`$1`) as RE2's (`\1`). One that the expression does not have is empty, as in nginx.
///
/// Higress: pkg/ingress/kube/annotations/rewrite.go convertToRE2, 2.1.
fn groups(target: &str, captures: usize) -> String {
    let mut converted = String::with_capacity(target.len());
    let mut chars = target.chars().peekable();
    while let Some(c) = chars.next() {
        let group = chars.peek().and_then(|c| c.to_digit(10));
        match (c, group) {
            ('$' | '\\', Some(group)) => {
                chars.next();
                if group as usize <= captures {
                    converted.push_str(&format!("\\{group}"));
                }
            }
            ('\\', None) => converted.push_str(r"\\"),
            _ => converted.push(c),
        }
    }
    if converted.is_empty() {
        converted.push('/');
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_choice_follows_all_of_it() {
        let table = [
            ("/admin", "/admin.*"),
            ("/admin.*", "/admin.*"),
            ("/(admin|secure)", "/(admin|secure).*"),
            ("/admin|/secure", "(?:/admin|/secure).*"),
            ("/admin|/secure.*", "(?:/admin|/secure).*"),
            ("/a)|(?:/b", "/a)|(?:/b.*"),
            (r"/admin\.*", r"/admin\.*.*"),
            (r"/admin\\.*", r"/admin(?i:\\|%5c).*"),
            (r"/admin\..*", r"/admin\..*"),
        ];
        for (path, wanted) in table {
            assert_eq!(
                pattern(path, PathKind::PrefixRegex, false),
                wanted,
                "{path}"
            );
        }
        let whole = [
            ("/a$", "/a$"),
            (r"/a\$", r"/a(?i:\$|%24)$"),
            ("/a$$", "/a$"),
        ];
        for (path, wanted) in whole {
            assert_eq!(pattern(path, PathKind::FullRegex, false), wanted, "{path}");
        }
    }

    #[test]
    fn expressions_are_read_as_re2_reads_them() {
        for (expression, groups) in [
            (r"/\Q(\E(a)", 1),
            (r"/\C(a)", 1),
            ("/(?<n>a)(?P<m>b)(?:c)", 2),
            ("/(a", 0),
            // Not of RE2.
            (r"/(a)(?=b)", 0),
            (r"/(a)\x{100}", 0),
        ] {
            assert_eq!(captures(expression), groups, "{expression}");
        }
        // Of RE2 alone, and a choice.
        let of = |path| pattern(path, PathKind::PrefixRegex, false);
        assert_eq!(of(r"/\Ca|/b"), r"(?:/\Ca|/b).*");
        assert_eq!(of(r"/\Qa|b\E"), r"/\Qa|b\E.*");
    }

    #[test]
    fn groups_of_nginx_become_those_of_re2() {
        let table = [
            ("/test", "/test"),
            ("/$2/$1", r"/\2/\1"),
            ("/$test/$a", "/$test/$a"),
            (r"/\1", r"/\1"),
            (r"/\x", r"/\\x"),
            ("/a$3", "/a"),
            ("$3", "/"),
        ];
        for (target, wanted) in table {
            assert_eq!(groups(target, 2), wanted, "{target}");
        }
    }
}
