//! Regular expressions as Envoy's RE2 takes them.
//!
//! RE2 and Rust's syntax differ at the edges: RE2 has `\C`, `\Q..\E`, `\pN` and octal escapes and bounds repetitions by
//! 1000; it has no operators on classes, no `(?x)`, and no escapes such as `\b{start}`. What only RE2 has is rewritten
//! before the syntax is checked, what only Rust has is refused.

use regex_syntax::ast::{Ast, ClassSetItem, RepetitionKind, RepetitionRange, Visitor};
use regex_syntax::hir::translate::TranslatorBuilder;

use super::Check;

/// The longest expression that Istio sends to Envoy, in bytes.
const LONGEST: usize = 1024;
/// How often RE2 repeats something at most.
const MOST_REPETITIONS: u32 = 1000;
/// How deep groups may be nested; RE2 refuses more than 1000, and what long expressions can hold is less.
const DEEPEST: u32 = 500;

/// An expression that Envoy can use.
pub fn re2(pattern: &str) -> Check {
    if pattern.len() > LONGEST {
        return Err(format!(
            "the regular expression has {} bytes, more than {LONGEST}",
            pattern.len()
        ));
    }
    re2_syntax(pattern)
}

/// An expression of RE2, of any length.
pub fn re2_syntax(pattern: &str) -> Check {
    let rewritten = rewrite(pattern)?;
    let mut parser = regex_syntax::ast::parse::ParserBuilder::new()
        .octal(true)
        .nest_limit(DEEPEST)
        .build();
    let ast = parser
        .parse(&rewritten)
        .map_err(|error| fault(error.kind()))?;
    let bounds = Bounds {
        repeated: Vec::new(),
        names_class: false,
    };
    if !regex_syntax::ast::visit(&ast, bounds)? {
        return Ok(());
    }
    // Which named classes there are is known only after translation, which takes longer than all else.
    let translated = TranslatorBuilder::new()
        .utf8(false)
        .build()
        .translate(&rewritten, &ast);
    translated.map(|_| ()).map_err(|error| fault(error.kind()))
}

fn fault(kind: &dyn std::fmt::Display) -> String {
    format!("not a regular expression of RE2: {kind}")
}

/// What only RE2 knows in terms that Rust knows.
fn rewrite(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    // Characters of a class since its `[`; `None` outside of one.
    let mut in_class: Option<usize> = None;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                None => return Err(fault(&"it ends with a backslash")),
                Some('C') if in_class.is_none() => out.push('.'),
                Some('Q') => quoted(&mut chars, &mut out),
                Some(e @ ('<' | '>' | 'b' | 'B')) if in_class.is_none() => {
                    if matches!(e, '<' | '>') || chars.peek() == Some(&'{') {
                        return Err(fault(&format!("unknown escape \\{e}")));
                    }
                    out.extend(['\\', e]);
                }
                Some(e @ '1'..='9')
                    if e > '7' || !chars.peek().is_some_and(|c| ('0'..='7').contains(c)) =>
                {
                    return Err(fault(&format!(
                        "unknown escape \\{e}: groups cannot be repeated"
                    )));
                }
                Some(e @ ('u' | 'U')) => return Err(fault(&format!("unknown escape \\{e}"))),
                Some(e) => out.extend(['\\', e]),
            },
            '[' if in_class.is_none() => {
                out.push('[');
                in_class = Some(0);
                if chars.peek() == Some(&'^') {
                    chars.next();
                    out.push('^');
                }
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() != Some(&':') => out.push_str("\\["),
            '[' => {
                // A named class ends with its own bracket.
                out.push('[');
                let mut last = ' ';
                for c in chars.by_ref() {
                    out.push(c);
                    if last == ':' && c == ']' {
                        break;
                    }
                    last = c;
                }
            }
            ']' if in_class.is_some() => {
                out.push(']');
                in_class = None;
            }
            // Rust has operators on classes.
            '&' | '~' | '-' if in_class.is_some() && chars.peek() == Some(&c) => {
                out.extend(['\\', c]);
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Copies what stands between `\Q` and `\E` as itself.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'E') {
            chars.next();
            return;
        }
        out.push_str(&regex_syntax::escape(c.encode_utf8(&mut [0; 4])));
    }
}

/// Refuses what RE2 does not know or not so often, and says whether a class is named, as in `\p{Greek}`.
struct Bounds {
    repeated: Vec<u32>,
    names_class: bool,
}

impl Visitor for Bounds {
    type Output = bool;
    type Err = String;

    fn finish(self) -> Result<bool, String> {
        Ok(self.names_class)
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        self.names_class |= matches!(item, ClassSetItem::Unicode(_));
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Repetition(repetition) => {
                if matches!(&*repetition.ast, Ast::Repetition(_)) {
                    return Err(fault(
                        &"what is repeated cannot be repeated again without a group",
                    ));
                }
                let times = match &repetition.op.kind {
                    RepetitionKind::Range(
                        RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n),
                    ) => *n,
                    RepetitionKind::Range(RepetitionRange::Bounded(_, n)) => *n,
                    _ => 1,
                };
                self.repeated.push(times.max(1));
                let all = self
                    .repeated
                    .iter()
                    .try_fold(1u32, |all, n| all.checked_mul(*n));
                if all.is_none_or(|all| all > MOST_REPETITIONS) {
                    return Err(fault(&"it repeats more than 1000 times"));
                }
                Ok(())
            }
            Ast::ClassUnicode(_) => {
                self.names_class = true;
                Ok(())
            }
            Ast::Flags(set) => flags(&set.flags),
            Ast::Group(group) => group.flags().map_or(Ok(()), flags),
            _ => Ok(()),
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), String> {
        if matches!(ast, Ast::Repetition(_)) {
            self.repeated.pop();
        }
        Ok(())
    }
}

fn flags(flags: &regex_syntax::ast::Flags) -> Check {
    use regex_syntax::ast::{Flag, FlagsItemKind};
    let foreign = flags.items.iter().any(|item| {
        matches!(
            item.kind,
            FlagsItemKind::Flag(Flag::IgnoreWhitespace | Flag::CRLF | Flag::Unicode)
        )
    });
    if foreign {
        return Err(fault(&"only the flags i, m, s and U exist"));
    }
    Ok(())
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
            r"\b{start}",
            "a{2,1}",
            "(?P<a>b)(?P<a>c)",
        ] {
            assert!(re2(bad).is_err(), "{bad}");
        }
        assert!(re2(&"a".repeat(1025)).is_err());
        assert!(re2(&"(".repeat(1000)).is_err());
    }
}
