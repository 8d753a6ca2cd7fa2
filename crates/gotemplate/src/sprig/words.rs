//! Text: words of names, and lines of words.

use super::case::{lower, upper};
use super::{I, S};
use crate::functions::Functions;

pub(super) fn add(functions: &mut Functions) {
    functions.add("wrap", &[I, S], |meter, args| {
        meter.make(args.str(1).len().saturating_mul(2))?;
        Ok(wrapped(args.str(1), args.int(0), "\n", false).into())
    });
    functions.add("wrapWith", &[I, S, S], |meter, args| {
        let (width, line, text) = (args.int(0), args.str(1), args.str(2));
        let line = if line.is_empty() { "\n" } else { line };
        let breaks =
            text.len() / usize::try_from(width.max(1)).unwrap_or(1) + text.matches(' ').count() + 1;
        meter.make(text.len().saturating_add(breaks.saturating_mul(line.len())))?;
        Ok(wrapped(text, width, line, true).into())
    });
}

/// Lines of at most that many characters, broken at spaces, and within long words if `hard`.
fn wrapped(text: &str, width: i64, line: &str, hard: bool) -> String {
    let width = usize::try_from(width.max(1)).unwrap_or(1);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while chars.len() - at > width {
        if chars[at] == ' ' {
            at += 1;
            continue;
        }
        let window = &chars[at..=at + width];
        let end = match window.iter().rposition(|c| *c == ' ') {
            Some(space) => at + space,
            None if hard => {
                out.extend(&chars[at..at + width]);
                out.push_str(line);
                at += width;
                continue;
            }
            None => match chars[at + width..].iter().position(|c| *c == ' ') {
                Some(space) => at + width + space,
                None => break,
            },
        };
        out.extend(&chars[at..end]);
        out.push_str(line);
        at = end + 1;
    }
    out.extend(&chars[at..]);
    out
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// Words with their first letters in upper case, put together. Of several connectors all but one stay.
pub(super) fn pascal(text: &str) -> String {
    let start = text.find(|c| !is_connector(c)).unwrap_or(text.len());
    let mut out = text[..start].to_owned();
    let mut chars = text[start..].chars();
    let Some(first) = chars.next() else {
        // Sprig's library says the last of them twice.
        out.extend(text.chars().next_back());
        return out;
    };
    let mut in_capitals = first.is_uppercase();
    let mut before = upper(first);
    for c in chars {
        let mut c = c;
        match (is_connector(before), is_connector(c)) {
            (true, true) => out.push(before),
            (true, false) => {
                in_capitals = c.is_uppercase();
                c = upper(c);
            }
            (false, _) => {
                if in_capitals && c.is_uppercase() {
                    c = lower(c);
                } else {
                    in_capitals = false;
                }
                out.push(before);
            }
        }
        before = c;
    }
    out.push(before);
    out
}

/// What a run of characters is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// Words in lower case with a connector between them. Numbers go with the letters around them as in `bld4_floor_3rd`.
pub(super) fn joined(text: &str, connector: char) -> String {
    let runs = runs(text);
    let mut out = String::with_capacity(text.len() + 8);
    let kind = |i: usize| runs.get(i).map(|(kind, _)| *kind);
    let mut i = 0;
    while let Some((this, word)) = runs.get(i) {
        put(&mut out, *this, word, connector);
        i += 1;
        match (this, kind(i)) {
            (_, None)
            | (Run::Connector | Run::Punctuation, _)
            | (_, Some(Run::Connector | Run::Punctuation)) => {}
            (Run::Number, _) => {
                i = letters_and_numbers(&runs, i, connector, &mut out);
                separate(&mut out, kind(i), connector);
            }
            (_, Some(Run::Number)) if i + 1 == runs.len() => {}
            (_, Some(Run::Number)) => {
                if kind(i + 1) == Some(Run::Letters) {
                    out.push(connector);
                    put(&mut out, Run::Number, &runs[i].1, connector);
                    i = letters_and_numbers(&runs, i + 1, connector, &mut out);
                } else {
                    put(&mut out, Run::Number, &runs[i].1, connector);
                    i += 1;
                }
                separate(&mut out, kind(i), connector);
            }
            _ => out.push(connector),
        }
    }
    out
}

/// Runs that stay together after a number; returns where they end.
fn letters_and_numbers(
    runs: &[(Run, String)],
    from: usize,
    connector: char,
    out: &mut String,
) -> usize {
    let mut i = from;
    while let Some((kind @ (Run::Letters | Run::Number), word)) = runs.get(i) {
        put(out, *kind, word, connector);
        i += 1;
    }
    i
}

fn separate(out: &mut String, next: Option<Run>, connector: char) {
    if next.is_some_and(|next| !matches!(next, Run::Connector | Run::Punctuation)) {
        out.push(connector);
    }
}

fn put(out: &mut String, run: Run, word: &str, connector: char) {
    match run {
        Run::Connector => out.extend(word.chars().map(|_| connector)),
        Run::Upper => out.extend(word.chars().map(lower)),
        _ => out.push_str(word),
    }
}

fn runs(text: &str) -> Vec<(Run, String)> {
    let mut runs: Vec<(Run, String)> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = kind_of(c);
        let mut word = String::from(c);
        if kind == Run::Upper
            && chars
                .peek()
                .is_some_and(|next| kind_of(*next) == Run::Letters)
        {
            take_while(&mut chars, &mut word, Run::Letters);
        } else {
            take_while(&mut chars, &mut word, kind);
            // The last capital begins the next word: `HTTPStatus`.
            if kind == Run::Upper
                && chars
                    .peek()
                    .is_some_and(|next| kind_of(*next) == Run::Letters)
            {
                let last = word.pop();
                runs.push((kind, word));
                word = last.into_iter().collect();
                take_while(&mut chars, &mut word, Run::Letters);
            }
        }
        runs.push((kind, word));
    }
    runs
}

fn take_while(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String, kind: Run) {
    while let Some(c) = chars.next_if(|c| kind_of(*c) == kind) {
        word.push(c);
    }
}

fn kind_of(c: char) -> Run {
    match c {
        _ if is_connector(c) => Run::Connector,
        _ if c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c) => Run::Punctuation,
        _ if c.is_uppercase() => Run::Upper,
        _ if c.is_lowercase() || c.is_alphabetic() => Run::Letters,
        _ if c.is_numeric() => Run::Number,
        _ => Run::Other,
    }
}
