//! The syntax of nginx's configuration: words, quotes, comments, `;` and blocks.

use crate::reader::shortened;

/// The most directives of a snippet.
const MOST: usize = 1000;

/// A directive. Those of blocks follow the one that opens it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Directive {
    /// Its name, as written.
    pub(super) name: String,
    /// Its arguments, without quotes.
    pub(super) arguments: Vec<String>,
    /// How many blocks it stands in.
    pub(super) depth: usize,
    /// Whether it opens a block.
    pub(super) opens: bool,
}

impl Directive {
    /// Its name, fit for a message.
    pub(super) fn shown(&self) -> String {
        shortened(&self.name)
    }

    /// Whether it answers with a redirect to a URL.
    pub(super) fn returns_to_url(&self) -> bool {
        let first = self
            .arguments
            .first()
            .map(String::as_str)
            .unwrap_or_default();
        first.starts_with("http") || matches!(first, "301" | "302" | "303" | "307" | "308")
    }
}

/// Takes a snippet apart; `None` where it is not well formed.
pub(super) fn directives(text: &str) -> Option<Vec<Directive>> {
    let mut found: Vec<Directive> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut depth = 0;
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            break;
        };
        match first {
            '#' => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            ';' | '{' => {
                found.push(directive(std::mem::take(&mut words), depth, first == '{')?);
                depth += usize::from(first == '{');
                rest = &rest[1..];
            }
            '}' if words.is_empty() => {
                depth = depth.checked_sub(1)?;
                rest = &rest[1..];
            }
            _ => {
                let (word, after) = word(rest)?;
                words.push(word);
                rest = after;
            }
        }
        if found.len() > MOST {
            return None;
        }
    }
    (depth == 0 && words.is_empty()).then_some(found)
}

fn directive(words: Vec<String>, depth: usize, opens: bool) -> Option<Directive> {
    let mut words = words.into_iter();
    Some(Directive {
        name: words.next()?,
        arguments: words.collect(),
        depth,
        opens,
    })
}

/// A word, and what follows it. As in nginx `{` opens a block unless it comes after `$`.
fn word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    let quote = chars
        .next_if(|(_, c)| matches!(c, '"' | '\''))
        .map(|(_, c)| c);
    let mut after_dollar = false;
    while let Some((at, c)) = chars.next() {
        let ends = match quote {
            Some(quote) => c == quote,
            None => c.is_whitespace() || c == ';' || c == '{' && !after_dollar,
        };
        if ends {
            let end = at + if quote.is_some() { c.len_utf8() } else { 0 };
            return follows(&text[end..], quote.is_some()).then(|| (word, &text[end..]));
        }
        match c {
            '\\' => {
                let (_, next) = chars.next()?;
                match next {
                    '"' | '\'' | '\\' => word.push(next),
                    't' => word.push('\t'),
                    'r' => word.push('\r'),
                    'n' => word.push('\n'),
                    _ => word.extend([c, next]),
                }
            }
            c => word.push(c),
        }
        after_dollar = c == '$';
    }
    quote.is_none().then_some((word, ""))
}

/// Whether a quoted word ends where it may.
fn follows(rest: &str, quoted: bool) -> bool {
    let next = rest.chars().next();
    !quoted || next.is_none_or(|c| c.is_whitespace() || matches!(c, ';' | '{' | ')'))
}
