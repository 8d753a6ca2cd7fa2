//! Text: upper and lower case.

use super::S;
use crate::functions::Functions;

pub(super) fn add(functions: &mut Functions) {
    for (name, change) in [
        (
            "upper",
            (|text| text.chars().map(upper).collect()) as fn(&str) -> String,
        ),
        ("lower", |text| text.chars().map(lower).collect()),
        ("title", title),
        ("untitle", untitle),
        ("swapcase", swap),
        ("initials", initials),
        ("camelcase", super::words::pascal),
        ("snakecase", |text| super::words::joined(text, '_')),
        ("kebabcase", |text| super::words::joined(text, '-')),
    ] {
        functions.add(name, &[S], move |meter, args| {
            meter.make(args.str(0).len().saturating_mul(2))?;
            Ok(change(args.str(0)).into())
        });
    }
}

/// A character in upper case, itself if that takes several.
pub(super) fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// A character in lower case, itself if that takes several.
pub(super) fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// The first letter of each word in upper case.
fn title(text: &str) -> String {
    let mut before = ' ';
    let change = |c: char| {
        let separated = match before {
            '_' => false,
            _ if before.is_alphanumeric() => false,
            _ => before.is_ascii() || before.is_whitespace(),
        };
        before = c;
        if separated { upper(c) } else { c }
    };
    text.chars().map(change).collect()
}

/// The first letter of each word in lower case.
fn untitle(text: &str) -> String {
    let mut starts = true;
    let change = |c: char| {
        if c.is_whitespace() {
            starts = true;
            c
        } else if std::mem::take(&mut starts) {
            lower(c)
        } else {
            c
        }
    };
    text.chars().map(change).collect()
}

fn swap(text: &str) -> String {
    let change = |c: char| if c.is_uppercase() { lower(c) } else { upper(c) };
    text.chars().map(change).collect()
}

/// The first letter of each word.
fn initials(text: &str) -> String {
    text.split_whitespace()
        .filter_map(|word| word.chars().next())
        .collect()
}
