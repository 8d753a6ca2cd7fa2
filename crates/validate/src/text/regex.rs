//! Regular expressions as Envoy's RE2 takes them.
//!
//! Envoy 1.36 reads an expression as UTF-8, later versions read its bytes as Latin-1, and all refuse one whose program is
//! too long. What passes here passes in both readings. The length of a program is estimated from above, while the
//! expression is read once and without building anything: no expression that RE2 finds too long passes, and one passes
//! that is half as long as the limit. Nothing is matched here.

mod class;
mod parse;

use model::work::{EXPANDED_BYTES, REWRITE_BYTES, REWRITE_REFERENCES, STATED_BYTES};

use super::Check;

/// The longest expression that Istio sends to Envoy, in bytes.
const LONGEST: usize = 1024;
/// The most instructions of a program: `re2.max_program_size.error_level` of Istio's bootstrap and of ours.
const LARGEST_PROGRAM: u64 = 32_768;

/// An expression that Envoy can use.
pub fn re2(pattern: &str) -> Check {
    if pattern.len() > LONGEST {
        return Err(format!(
            "the regular expression has {} bytes, more than {LONGEST}",
            pattern.len()
        ));
    }
    re2_program(pattern)
}

/// An expression of any length whose program is not too long for Envoy.
pub fn re2_program(pattern: &str) -> Check {
    let size = program_size(pattern)?;
    if size > LARGEST_PROGRAM {
        return Err(format!(
            "the regular expression becomes a program of about {size} instructions, more than the {LARGEST_PROGRAM} \
             that Envoy allows"
        ));
    }
    Ok(())
}

/// An expression of RE2, of any length and with a program of any length.
pub fn re2_syntax(pattern: &str) -> Check {
    program_size(pattern).map(|_| ())
}

/// How many groups of an expression capture what they match; `None` where RE2 does not take it.
pub fn re2_groups(pattern: &str) -> Option<usize> {
    Some(parse::read(pattern).ok()?.groups)
}

/// Whether an expression of RE2 is a choice of several: what follows it in one that is made of it would follow the last alone.
pub fn re2_is_choice(pattern: &str) -> bool {
    parse::read(pattern).is_ok_and(|expression| expression.is_choice)
}

/// The most instructions that the program of an expression has.
///
/// # Errors
///
/// What RE2 does not take of it.
pub fn program_size(pattern: &str) -> Result<u64, String> {
    let read =
        parse::read(pattern).map_err(|why| format!("not a regular expression of RE2: {why}"));
    Ok(read?.size)
}

/// The text that replaces every match of an expression in a path.
///
/// # Errors
///
/// It is longer, refers to matches more often, or makes more of a path than one request may cost.
pub fn substitution(pattern: &str, text: &str) -> Check {
    if text.len() > REWRITE_BYTES {
        return Err(format!(
            "the text has {} bytes, more than {REWRITE_BYTES}",
            text.len()
        ));
    }
    let references = references(text);
    if references > REWRITE_REFERENCES {
        return Err(format!(
            "the text refers to what was matched {references} times, more than {REWRITE_REFERENCES}"
        ));
    }
    let size = rewritten_size(pattern, text);
    if size > EXPANDED_BYTES {
        return Err(format!(
            "a path may become {} KiB long, more than {}, as each match is replaced: let the expression begin with `^`, or match more",
            size >> 10,
            EXPANDED_BYTES >> 10
        ));
    }
    Ok(())
}

/// The most bytes that a path may have after every match of an expression was replaced.
pub fn rewritten_size(pattern: &str, text: &str) -> usize {
    let (is_choice, least) = parse::read(pattern).map_or((true, 0), |e| (e.is_choice, e.least));
    let matches = if !is_choice && matches_once(pattern) {
        1
    } else {
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        STATED_BYTES / least.max(1) + 1
    };
    // All matches together are not longer than the path.
    let references = references(text).saturating_mul(STATED_BYTES);
    let added = text.len().saturating_mul(matches);
    added
        .saturating_add(references)
        .saturating_add(STATED_BYTES)
}

/// How often a text refers to what an expression matched: `\0` to `\9`. A backslash is doubled.
fn references(text: &str) -> usize {
    let mut bytes = text.bytes();
    let mut count = 0;
    while let Some(byte) = bytes.next() {
        let is_reference = byte == b'\\' && bytes.next().is_some_and(|b| b.is_ascii_digit());
        count += usize::from(is_reference);
    }
    count
}

/// Whether an expression that is no choice matches a path, which has no line breaks, at most once: it is bound to where the
/// path begins, or takes all of it to the end.
fn matches_once(pattern: &str) -> bool {
    let begins = pattern
        .strip_prefix('^')
        .or_else(|| pattern.strip_prefix(r"\A"));
    if begins.is_some_and(|rest| !rest.starts_with(['*', '+', '?', '{'])) {
        return true;
    }
    // Flags and quotes may give signs another meaning.
    if pattern.contains("(?") || pattern.contains(r"\Q") {
        return false;
    }
    let ends = [".*", ".+", "(.*)", "(.+)", "$"];
    let mut before = ends.iter().filter_map(|end| pattern.strip_suffix(end));
    before.any(|rest| !rest.ends_with('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_place_of_matches_do_not_grow_without_bound() {
        let short = "/a-path-of-fifty-bytes-that-is-longer-than-the-old";
        let long = format!("/{}", "a".repeat(1023));
        for (pattern, text) in [
            ("^/service/([^/]+)(/.*)$", r"\2/instance/\1"),
            ("/regex/(.*)", r"/\1"),
            ("a", "bb"),
            ("/", short),
            ("/.*", &*long),
            ("^/a", &*long),
            ("/api/v1/", &long[..400]),
            ("/(a|b){30}", &*long),
            ("a", r"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0"),
        ] {
            assert_eq!(substitution(pattern, text), Ok(()), "{pattern}");
        }
        for (pattern, text) in [
            ("a", r"\0".repeat(8000)),
            ("^a", r"\0".repeat(17)),
            ("^a", "a".repeat(2049)),
            ("a", long.clone()),
            ("", long.clone()),
            ("^*a", long.clone()),
            ("^a|b", long.clone()),
            (r"\.*", long.clone()),
            (r"(a|\(.*)", long.clone()),
            (r"\Qa$", long.clone()),
            ("(?U)/.*", long.clone()),
            (r"a\$", long.clone()),
            ("(a{1000}|b)", long.clone()),
        ] {
            assert!(substitution(pattern, &text).is_err(), "{pattern}");
        }
    }

    #[test]
    fn groups_are_counted_as_re2_counts_them() {
        for (pattern, groups) in [
            ("", Some(0)),
            ("(a)(?:b)(?P<n>c)(?<m>d)((e))", Some(5)),
            (r"\(a\)[(](?i)(?i:b)", Some(0)),
            (r"\Q(\E(a)", Some(1)),
            (r"\C(a)", Some(1)),
            ("[[](a)", Some(1)),
            ("(a", None),
        ] {
            assert_eq!(re2_groups(pattern), groups, "{pattern}");
        }
    }

    #[test]
    fn a_choice_is_one_outside_of_groups() {
        for (pattern, is_choice) in [
            ("a|b", true),
            ("(a|b)", false),
            ("(a)|b", true),
            (r"a\|b", false),
            ("[|]", false),
            (r"\Qa|b\E", false),
            (r"\Ca|b", true),
            ("a)|(b", false),
        ] {
            assert_eq!(re2_is_choice(pattern), is_choice, "{pattern}");
        }
    }

    #[test]
    fn expressions_are_those_of_re2() {
        for good in [
            "",
            "^/api/v[0-9]+/.*$",
            "(?i)a|b",
            r"\Qa.b(\E+",
            r"a\Cb",
            "[]a]",
            "[^]a]",
            "[[]",
            "[a&&b]",
            "[[:alpha:]-]",
            r"\p{Greek}\pL\d",
            r"\123\x41\x{41}",
            "(?P<name>a)(?<other>b)",
            "a{1000}",
            "(?:a*)*",
            r"[\w-]+",
            "(?:a*)+?",
            r"\b{start}",
        ] {
            assert_eq!(re2(good), Ok(()), "{good}");
        }
        for bad in [
            "[",
            "(",
            ")",
            "*",
            "a{1001}",
            "(a{100}){100}",
            "(?=a)",
            r"(a)\1",
            "a**",
            "a++",
            r"\",
            "(?x)a",
            r"\u0041",
            r"\p{Klingon}",
            "[z-a]",
            r"\p{Nowhere}",
            r"[a\p{Nowhere}]",
            "a{2,1}",
            "(?P<a>b)(?P<a>c)",
        ] {
            assert!(re2(bad).is_err(), "{bad}");
        }
        assert!(re2(&"a".repeat(1025)).is_err());
        assert!(re2(&"(".repeat(1000)).is_err());
    }
}
