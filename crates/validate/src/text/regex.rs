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
    let size = program_size(pattern)?;
    if size > LARGEST_PROGRAM {
        return Err(format!(
            "the regular expression becomes a program of about {size} instructions, more than the {LARGEST_PROGRAM} \
             that Envoy allows"
        ));
    }
    Ok(())
}

/// An expression of RE2, of any length.
pub fn re2_syntax(pattern: &str) -> Check {
    program_size(pattern).map(|_| ())
}

/// The most instructions that the program of an expression has.
///
/// # Errors
///
/// What RE2 does not take of it.
pub(crate) fn program_size(pattern: &str) -> Result<u64, String> {
    parse::program_size(pattern).map_err(|why| format!("not a regular expression of RE2: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
