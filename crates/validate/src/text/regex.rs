//! Regular expressions as Envoy's RE2 takes them.
//!
//! Envoy 1.36 reads an expression as UTF-8, later versions read its bytes as Latin-1, and all refuse one whose program is
//! too long. What passes here passes in both readings. The length of a program is estimated from above, while the
//! expression is read once and without building anything: no expression that RE2 finds too long passes, and one passes
//! that is half as long as the limit. Nothing is matched here.

mod class;
mod parse;

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

#[cfg(test)]
mod tests {
    use super::*;

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
