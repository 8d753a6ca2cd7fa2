//! Paths in all the ways in which clients may write them.
//!
//! nginx decodes a path before it chooses a rule, proxies compare it as it is written: `/x@y` and `/x%40y` are one path for
//! nginx and for most backends, and two for Envoy. So a path with characters that may travel in several ways is asked for by a
//! regular expression of all of them. Letters, digits and `-._~` need none, since Envoy decodes them when it normalises a path;
//! escaped slashes are a matter of [`super::slashes`].

use std::borrow::Cow;

use model::re2::quote;

use super::expression::{Placed, Token, tokens};

/// Any byte that is written in hexadecimal.
const ANY_BYTE: &str = "%[[:xdigit:]]{2}";

/// Whether a text may be written in several ways.
pub(super) fn is_needed(text: &str) -> bool {
    text.chars().any(|c| !is_always_plain(c))
}

/// A text as a regular expression of all ways to write it. What is written as `%XX` in it stands for its character, as written so and
/// as a client would write a percent sign.
pub(super) fn text(text: &str, ignore_case: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(byte) = hexadecimal(rest) {
            out.push_str(&written(byte));
            rest = &rest[3..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match is_always_plain(c) {
            true => out.push_str(&quote(c.encode_utf8(&mut [0; 4]))),
            false => out.push_str(&one(c, ignore_case)),
        }
    }
    out
}

/// An expression that takes its characters in all ways to write them; as it is where it is not understood.
pub(super) fn expression(expression: &str, ignore_case: bool) -> Cow<'_, str> {
    let Some(tokens) = tokens(expression) else {
        return Cow::Borrowed(expression);
    };
    let mut out = String::with_capacity(expression.len());
    // Literals that stand one after the other, and where the first is.
    let mut run = String::new();
    let mut begins = 0;
    let flush = |out: &mut String, run: &mut String, begins: usize, ends: usize| {
        match is_needed(run) {
            true => out.push_str(&text(run, ignore_case)),
            false => out.push_str(&expression[begins..ends]),
        }
        run.clear();
    };
    for (at, (token, (from, to))) in tokens.iter().enumerate() {
        let repetition = repetition(expression, &tokens, at + 1);
        if let Token::Literal(c) = token {
            if run.is_empty() {
                begins = *from;
            } else if repetition.is_some() {
                flush(&mut out, &mut run, begins, *from);
                begins = *from;
            }
            run.push(*c);
            if repetition.is_some() {
                flush(&mut out, &mut run, begins, *to);
            }
            continue;
        }
        if !run.is_empty() {
            flush(&mut out, &mut run, begins, *from);
        }
        let as_it_is = &expression[*from..*to];
        match token {
            Token::Any | Token::Class { .. } => {
                let is_unbounded = repetition.is_some_and(|text| matches!(text, "*" | "+"));
                out.push_str(&one_of(as_it_is, is_unbounded));
            }
            _ => out.push_str(as_it_is),
        }
    }
    if !run.is_empty() {
        flush(&mut out, &mut run, begins, expression.len());
    }
    Cow::Owned(out)
}

/// Whether [`expression()`] knows all ways to write what an expression takes.
pub(super) fn is_understood(expression: &str) -> bool {
    tokens(expression).is_some_and(|tokens| {
        let written = |(from, to): (usize, usize)| &expression[from..to];
        tokens.into_iter().all(|(token, place)| match token {
            Token::Class { .. } => {
                is_boundary(written(place)) || Members::of(written(place)).is_some()
            }
            _ => true,
        })
    })
}

/// Whether a class of characters may take a byte; not known where it is not understood.
pub(super) fn class_has(written: &str, byte: u8) -> Option<bool> {
    Members::of(written).map(|members| members.has[usize::from(byte)])
}

fn repetition<'e>(expression: &'e str, tokens: &[Placed], at: usize) -> Option<&'e str> {
    match tokens.get(at)? {
        (Token::Repetition, (from, to)) => Some(&expression[*from..*to]),
        _ => None,
    }
}

fn is_boundary(written: &str) -> bool {
    matches!(written, r"\b" | r"\B")
}

/// Whether a byte means the same however it is written, and Envoy decodes it.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn is_always_plain(c: char) -> bool {
    c == '/' || u8::try_from(c).is_ok_and(is_unreserved)
}

/// The byte that a text begins with in hexadecimal.
fn hexadecimal(text: &str) -> Option<u8> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// A character in all ways to write it.
fn one(c: char, ignore_case: bool) -> String {
    let mut chars = vec![c];
    if ignore_case {
        chars.extend(
            c.to_lowercase()
                .chain(c.to_uppercase())
                .filter(|other| *other != c),
        );
        chars.truncate(3);
    }
    let ways = chars.into_iter().flat_map(|c| {
        let raw = c.to_string();
        let hex: String = raw.bytes().map(|byte| format!("%{byte:02x}")).collect();
        [quote(&raw), hex]
    });
    format!("(?i:{})", ways.collect::<Vec<_>>().join("|"))
}

/// A byte that is written in hexadecimal already.
fn written(byte: u8) -> String {
    let hex = format!("%{byte:02x}|%25{byte:02x}");
    let raw = char::from(byte);
    match byte {
        // Those are others than a slash for who looks for rules.
        b'/' | b'\\' => format!("(?i:{hex})"),
        _ if byte.is_ascii_graphic() => {
            format!("(?:{}|(?i:{hex}))", quote(raw.encode_utf8(&mut [0; 4])))
        }
        _ => format!("(?i:{hex})"),
    }
}

/// One of some characters in all ways to write them.
fn one_of(as_it_is: &str, is_unbounded: bool) -> String {
    let Some(members) = Members::of(as_it_is).filter(|_| !is_boundary(as_it_is)) else {
        return as_it_is.to_owned();
    };
    // Of any number of these, those that write another one are some.
    let takes_hex = b"%0123456789abcdefABCDEF"
        .iter()
        .all(|byte| members.has[usize::from(*byte)]);
    let ways = members.ways();
    // What is left out is left out however it is written, so a percent sign is none by itself.
    let others = as_it_is
        .strip_prefix("[^")
        .filter(|rest| !rest.starts_with(']'));
    if let Some(others) = others.filter(|_| !members.is_any()) {
        return format!("(?:[^%{others}|{})", ways.join("|"));
    }
    match is_unbounded && takes_hex || ways.is_empty() {
        true => as_it_is.to_owned(),
        false => format!("(?:{as_it_is}|{})", ways.join("|")),
    }
}

/// Which characters a class takes: single bytes, and characters of several.
struct Members {
    has: [bool; 256],
    wide: Vec<char>,
}

impl Members {
    /// Those of what stands for one of some characters in an expression.
    fn of(written: &str) -> Option<Self> {
        let mut members = Self {
            has: [false; 256],
            wide: Vec::new(),
        };
        if written == "." {
            members.has = [true; 256];
            return Some(members);
        }
        let Some(inner) = written.strip_prefix('[') else {
            let name = written.strip_prefix('\\')?.chars().next()?;
            members.add_named(name)?;
            return Some(members);
        };
        let inner = inner.strip_suffix(']')?;
        let (negated, inner) = match inner.strip_prefix('^') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        members.add_all(inner)?;
        if negated {
            // What it leaves out of characters of several bytes it takes with others of their bytes.
            members.has = members.has.map(|has| !has);
            members.wide.clear();
        }
        Some(members)
    }

    fn add_all(&mut self, inner: &str) -> Option<()> {
        let mut rest = inner;
        while let Some(c) = rest.chars().next() {
            if rest.starts_with("[:") {
                return None;
            }
            rest = &rest[c.len_utf8()..];
            let mut from = c;
            if c == '\\' {
                let escaped = rest.chars().next()?;
                rest = &rest[escaped.len_utf8()..];
                if !escaped.is_ascii_punctuation() {
                    self.add_named(escaped)?;
                    continue;
                }
                from = escaped;
            }
            let to = rest
                .strip_prefix('-')
                .and_then(|after| after.chars().next());
            match to {
                None => self.add(from),
                Some(mut to) => {
                    rest = &rest[1 + to.len_utf8()..];
                    if to == '\\' {
                        to = rest.chars().next().filter(char::is_ascii_punctuation)?;
                        rest = &rest[1..];
                    }
                    let (from, to) = (u8::try_from(from).ok()?, u8::try_from(to).ok()?);
                    if !to.is_ascii() || from > to {
                        return None;
                    }
                    (from..=to).for_each(|byte| self.has[usize::from(byte)] = true);
                }
            }
        }
        Some(())
    }

    fn add(&mut self, c: char) {
        match c.is_ascii() {
            true => self.has[c as usize] = true,
            false => self.wide.push(c),
        }
    }

    fn add_named(&mut self, name: char) -> Option<()> {
        let is = |byte: u8| match name.to_ascii_lowercase() {
            'd' => Some(byte.is_ascii_digit()),
            'w' => Some(byte.is_ascii_alphanumeric() || byte == b'_'),
            's' => Some(matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)),
            _ => None,
        };
        for byte in 0..=u8::MAX {
            self.has[usize::from(byte)] |= is(byte)? != name.is_ascii_uppercase();
        }
        Some(())
    }

    /// Whether it takes whatever may be written in another way than as it is.
    fn is_any(&self) -> bool {
        let takes = |byte: u8| self.has[usize::from(byte)];
        (0..=u8::MAX).all(|byte| is_unreserved(byte) || b"/\\".contains(&byte) || takes(byte))
    }

    /// How those are written that may be written in another way than as they are.
    fn ways(&self) -> Vec<String> {
        let encoded = |byte: &u8| !is_unreserved(*byte) && !b"/\\".contains(byte);
        let all: Vec<u8> = (0..=u8::MAX).filter(encoded).collect();
        let has: Vec<u8> = all
            .iter()
            .copied()
            .filter(|byte| self.has[usize::from(*byte)])
            .collect();
        let mut ways: Vec<String> = Vec::new();
        if has.len() == all.len() {
            ways.push(ANY_BYTE.to_owned());
        } else {
            for high in 0..16 {
                let low: String = has
                    .iter()
                    .filter(|byte| **byte >> 4 == high)
                    .map(|byte| format!("{:x}", byte & 15))
                    .collect();
                if !low.is_empty() {
                    ways.push(format!("(?i:%{high:x}[{low}])"));
                }
            }
        }
        ways.extend(self.wide.iter().map(|c| one(*c, false)));
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(pattern: &str, path: &str) -> bool {
        regex::Regex::new(&format!("^(?:{pattern})$"))
            .unwrap()
            .is_match(path)
    }

    #[test]
    fn a_text_is_taken_however_it_is_written() {
        for (stated, paths) in [
            ("/a b", &["/a%20b"][..]),
            ("/über", &["/%c3%bcber", "/%C3%BCber", "/über"]),
            ("/x@y", &["/x@y", "/x%40y"]),
            ("/q|r", &["/q|r", "/q%7cr", "/q%7Cr"]),
            ("/a%20b", &["/a%20b", "/a%2520b"]),
            ("/x%40y", &["/x@y", "/x%40y"]),
            ("/%61dmin", &["/admin", "/%61dmin"]),
            ("/100%", &["/100%", "/100%25"]),
        ] {
            assert!(is_needed(stated), "{stated}");
            for path in paths {
                assert!(takes(&text(stated, false), path), "{path} of {stated}");
            }
        }
        assert!(!takes(&text("/x@y", false), "/x%41y"));
        assert!(!takes(&text("/a%2fb", false), "/a/b"));
        assert!(takes(&text("/ü", true), "/%C3%9C"));
        assert!(!takes(&text("/ü", false), "/%C3%9C"));
        for plain in ["/", "/admin/v1.2-a_b~c"] {
            assert!(!is_needed(plain));
            assert_eq!(text(plain, false), quote(plain));
        }
    }

    #[test]
    fn an_expression_takes_what_it_took_however_it_is_written() {
        for (stated, path, wanted) in [
            ("/x@y", "/x%40y", true),
            ("/x@?y", "/xy", true),
            ("/x@?y", "/x%40y", true),
            ("/x.y", "/x%40y", true),
            ("/x[!-@]y", "/x%3fy", true),
            ("/x[!-@]y", "/x%5by", false),
            ("/x[^@]y", "/x%40y", false),
            ("/x[^@]y", "/x%3Ay", true),
            ("/x[^@]+y", "/x%40y", false),
            ("/x[^@]+y", "/x%3aby", true),
            ("/x[a-z ]+y", "/xa%20y", true),
            (r"/x\sy", "/x%20y", true),
            (r"/x[\s+]y", "/x%2By", true),
            ("/x[ab]y", "/x%40y", false),
            ("/(a|b:c)/d", "/b%3ac/d", true),
            (r"/a\@b", "/a%40b", true),
            ("/[üä]", "/%c3%bc", true),
            ("/a%20b", "/a%20b", true),
        ] {
            assert_eq!(
                takes(&expression(stated, false), path),
                wanted,
                "{path} of {stated}"
            );
            assert!(is_understood(stated), "{stated}");
        }
        for same in [
            "/admin.*",
            "/(?:a|b)(/|$)(.*)",
            "/v[0-9]+/[^/]+",
            r"/a\.b",
            r"/\w+\b",
            "/a{2}",
        ] {
            assert_eq!(expression(same, false), same);
        }
        for unknown in [r"/\x40", r"/\p{Lu}", "/[[:punct:]]"] {
            assert!(!is_understood(unknown), "{unknown}");
        }
    }
}
