//! Classes of characters, single ones, and how many instructions each becomes.
//!
//! Sizes are those of the reading as UTF-8, which is never the smaller one. What is read is checked for both readings: a
//! range must not run backwards between characters, nor between the bytes on both sides of its dash.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use regex_syntax::utf8::Utf8Sequences;

use super::parse::{Flags, Found};

/// Instructions for any character: one for ASCII, six for all others.
pub(super) const ANY: u64 = 7;
/// The most that leaving out what is in a class adds to it.
const COMPLEMENT: u64 = 32;

/// A class that has been read.
pub(super) struct Class<'a> {
    pub(super) size: u64,
    pub(super) rest: &'a str,
}

/// A range beyond ASCII with more characters than this is not followed character by character where case is ignored, as that
/// takes its time; it counts as the most that any class of letters becomes.
const WIDE: u32 = 16;
const WIDEST: u64 = 2000;

type Range = (char, char);

/// A character, and its bytes at both ends in Latin-1.
#[derive(Clone, Copy)]
pub(super) struct Rune {
    pub(super) value: char,
    first: u8,
    last: u8,
}

impl Rune {
    fn of(value: char) -> Self {
        let mut bytes = [0; 4];
        let bytes = value.encode_utf8(&mut bytes).as_bytes();
        Self {
            value,
            first: bytes[0],
            last: bytes[bytes.len() - 1],
        }
    }

    /// An escaped character, with what stands after it.
    pub(super) fn escaped(text: &str) -> Found<(Self, &str)> {
        let mut chars = text.chars();
        chars.next();
        let Some(c) = chars.next() else {
            return Err("it ends with a backslash".to_owned());
        };
        let rest = chars.as_str();
        let unknown = || format!("unknown escape \\{c}");
        let (code, rest) = match c {
            'a' => (7, rest),
            'f' => (12, rest),
            'n' => (10, rest),
            'r' => (13, rest),
            't' => (9, rest),
            'v' => (11, rest),
            '0'..='7' => {
                let digits = rest
                    .bytes()
                    .take(2)
                    .take_while(|b| (b'0'..=b'7').contains(b));
                let more = digits.count();
                if c != '0' && more == 0 {
                    return Err(format!(
                        "{}: what a group held cannot be asked for",
                        unknown()
                    ));
                }
                let octal = &text[1..2 + more];
                (
                    u32::from_str_radix(octal, 8).map_err(|_| unknown())?,
                    &rest[more..],
                )
            }
            'x' => hexadecimal(rest).ok_or_else(unknown)?,
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => (u32::from(c), rest),
            _ => return Err(unknown()),
        };
        let byte = u8::try_from(code)
            .map_err(|_| format!("{}: Envoy reads bytes, and none is above 255", unknown()))?;
        let rune = Self {
            value: char::from(byte),
            first: byte,
            last: byte,
        };
        Ok((rune, rest))
    }
}

/// The code after `\x`: two digits, or any number of them in braces.
fn hexadecimal(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => (text.get(..2)?, &text[2..]),
    };
    let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !good {
        return None;
    }
    Some((u32::from_str_radix(digits, 16).unwrap_or(u32::MAX), rest))
}

/// Instructions of a single character.
pub(super) fn size_of(c: char, flags: Flags) -> u64 {
    if !flags.ignores_case {
        return c.len_utf8() as u64;
    }
    match c {
        // With the sign of Kelvin, and the long s.
        'k' | 'K' => 5,
        's' | 'S' => 4,
        'a'..='z' | 'A'..='Z' => 2,
        _ if c.is_ascii() => 1,
        _ => size(&folded(&[(c, c)], flags)),
    }
}

/// Instructions of `\d`, `\s`, `\w` or one of their opposites, with what stands after it.
pub(super) fn perl_size(text: &str, flags: Flags) -> Option<(u64, &str)> {
    static SIZES: LazyLock<BTreeMap<(char, bool), u64>> = LazyLock::new(|| {
        let all = [r"\d", r"\D", r"\s", r"\S", r"\w", r"\W"].into_iter();
        all.flat_map(|text| [(text, false), (text, true)])
            .filter_map(|(text, ignores_case)| {
                let flags = Flags {
                    ignores_case,
                    ..Flags::default()
                };
                let (class, _) = perl(text, flags)?;
                Some(((text.chars().nth(1)?, ignores_case), size(&class)))
            })
            .collect()
    });
    let letter = text.strip_prefix('\\')?.chars().next()?;
    let size = SIZES.get(&(letter, flags.ignores_case))?;
    Some((*size, &text[2..]))
}

/// The characters in ranges, in both cases where case is ignored.
fn folded(ranges: &[Range], flags: Flags) -> ClassUnicode {
    let mut all: Vec<ClassUnicodeRange> = Vec::with_capacity(ranges.len());
    for &(low, high) in ranges {
        let range = ClassUnicodeRange::new(low, high);
        if flags.ignores_case && high.is_ascii() {
            add_cases(low, high, &mut all);
        } else if flags.ignores_case {
            let mut class = ClassUnicode::new([range]);
            class
                .try_case_fold_simple()
                .expect("the tables of Unicode are built in");
            all.extend(class.iter());
        }
        all.push(range);
    }
    ClassUnicode::new(all)
}

/// Adds what differs from ASCII characters in case only: letters, the sign of Kelvin and the long s.
fn add_cases(low: char, high: char, all: &mut Vec<ClassUnicodeRange>) {
    for (first, last, to) in [('a', 'z', 'A'), ('A', 'Z', 'a')] {
        let (from, until) = (low.max(first), high.min(last));
        if from > until {
            continue;
        }
        let moved = |c: char| char::from(c as u8 - first as u8 + to as u8);
        all.push(ClassUnicodeRange::new(moved(from), moved(until)));
        for (letter, other) in [('k', '\u{212a}'), ('s', '\u{17f}')] {
            let letter = if first == 'a' {
                letter
            } else {
                letter.to_ascii_uppercase()
            };
            if (from..=until).contains(&letter) {
                all.push(ClassUnicodeRange::new(other, other));
            }
        }
    }
}

/// Instructions of a class.
fn size(class: &ClassUnicode) -> u64 {
    let of_range = |range: &ClassUnicodeRange| -> u64 {
        let (start, end) = (range.start(), range.end());
        if end == char::MAX && start <= '\u{80}' {
            return ANY - u64::from(start == '\u{80}');
        }
        Utf8Sequences::new(start, end)
            .map(|sequence| sequence.len() as u64)
            .sum()
    };
    class.iter().map(of_range).sum::<u64>().max(1)
}

/// Reads a class in brackets.
pub(super) fn read(text: &str, flags: Flags) -> Found<Class<'_>> {
    const OPEN: &str = "unclosed character class";
    let mut rest = &text[1..];
    let is_negated = rest.starts_with('^');
    rest = rest.strip_prefix('^').unwrap_or(rest);
    let mut ranges: Vec<Range> = Vec::new();
    let mut class = ClassUnicode::empty();
    let mut named_size = 0;
    let mut is_first = true;
    loop {
        match rest.chars().next() {
            None => return Err(OPEN.to_owned()),
            Some(']') if !is_first => break,
            Some(_) => is_first = false,
        }
        if rest.starts_with("[:")
            && let Some(end) = rest[2..].find(":]")
        {
            let name = &rest[2..2 + end];
            let known = posix(name, flags);
            class.union(&known.ok_or_else(|| format!("there is no class [:{name}:]"))?);
            rest = &rest[end + 4..];
            continue;
        }
        if let Some(named) = named(rest)? {
            named_size += named.size;
            rest = named.rest;
            continue;
        }
        if let Some((known, after)) = perl(rest, flags) {
            class.union(&known);
            rest = after;
            continue;
        }
        let (low, after) = one(rest).ok_or(OPEN)??;
        rest = after;
        let dash = rest
            .strip_prefix('-')
            .filter(|after| !after.starts_with(']'));
        let Some(after) = dash.filter(|after| !after.is_empty()) else {
            ranges.push((low.value, low.value));
            continue;
        };
        let (high, after) = one(after).ok_or(OPEN)??;
        if high.value < low.value || high.first < low.last {
            return Err(format!(
                "the range {:?} to {:?} runs backwards",
                low.value, high.value
            ));
        }
        ranges.push((low.value, high.value));
        rest = after;
    }
    let is_wide =
        |(low, high): &Range| !high.is_ascii() && u32::from(*high) - u32::from(*low) > WIDE;
    if flags.ignores_case && ranges.iter().any(is_wide) {
        named_size += WIDEST;
    } else {
        class.union(&folded(&ranges, flags));
    }
    let mut all = named_size;
    if is_negated {
        class.negate();
        all += if named_size > 0 { COMPLEMENT } else { 0 };
    }
    Ok(Class {
        size: all + size(&class),
        rest: &rest[1..],
    })
}

/// A character of a class, escaped or not.
fn one(text: &str) -> Option<Found<(Rune, &str)>> {
    let c = text.chars().next()?;
    if c == '\\' {
        return Some(Rune::escaped(text));
    }
    Some(Ok((Rune::of(c), &text[c.len_utf8()..])))
}

/// A class that Unicode names, as `\pL` or `\P{Greek}`; `None` where none starts.
pub(super) fn named(text: &str) -> Found<Option<Class<'_>>> {
    static KNOWN: LazyLock<BTreeMap<&str, u64>> = LazyLock::new(|| {
        let lines = include_str!("groups.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#'));
        rows.filter_map(|row| row.split_once(' '))
            .map(|(name, size)| (name, size.parse().expect("the table has numbers")))
            .collect()
    });
    let Some(after) = text
        .strip_prefix(r"\p")
        .or_else(|| text.strip_prefix(r"\P"))
    else {
        return Ok(None);
    };
    let (name, rest) = match after.strip_prefix('{') {
        Some(inner) => inner
            .split_once('}')
            .ok_or_else(|| "the name of a class has no `}`".to_owned())?,
        None => after.split_at(after.chars().next().map_or(0, char::len_utf8)),
    };
    let bare = name.strip_prefix('^').unwrap_or(name);
    match KNOWN.get(bare) {
        Some(&size) => Ok(Some(Class { size, rest })),
        None => Err(format!("there is no class {name:?} of Unicode")),
    }
}

const DIGIT: &[Range] = &[('0', '9')];
const SPACE: &[Range] = &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')];
const WORD: &[Range] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// One of `\d`, `\s`, `\w` and their opposites, with what stands after it.
fn perl(text: &str, flags: Flags) -> Option<(ClassUnicode, &str)> {
    let after = text.strip_prefix('\\')?;
    let letter = after.chars().next()?;
    let ranges = match letter.to_ascii_lowercase() {
        'd' => DIGIT,
        's' => SPACE,
        'w' => WORD,
        _ => return None,
    };
    let class = either(ranges, letter.is_ascii_uppercase(), flags);
    Some((class, &after[1..]))
}

/// A class of POSIX by its name, as `alpha` or `^alpha`.
fn posix(name: &str, flags: Flags) -> Option<ClassUnicode> {
    let bare = name.strip_prefix('^').unwrap_or(name);
    let ranges: &[Range] = match bare {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => DIGIT,
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => WORD,
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(either(ranges, bare.len() != name.len(), flags))
}

/// The ranges, or all others.
fn either(ranges: &[Range], is_negated: bool, flags: Flags) -> ClassUnicode {
    let mut class = folded(ranges, flags);
    if is_negated {
        class.negate();
    }
    class
}
