//! Quoted texts whose further lines stand no deeper than their key. YAML 1.2 wants them deeper; kubectl, whose parser is older, reads
//! them, and generators of CustomResourceDefinitions write them.
//!
//! The space that such a line begins with is not part of the text, so the lines are moved to the right and read again.

use std::borrow::Cow;

use super::{Builder, Duplicate, Duplicates, SyntaxError};
use crate::parse::node::Node;

/// What the parser says of such a text, at its first quote.
const NOT_DEEPER: &str = "invalid indentation in quoted scalar";
/// How much of one document is read again for such texts, in bytes.
const MAX_AGAIN: usize = 8 << 20;
/// How many bytes a document may grow by.
const MAX_GROWTH: usize = 1 << 20;

/// The document, where only such texts keep it from being read.
pub(super) fn read(
    text: &str,
    lines_before: u32,
    error: &SyntaxError,
) -> Option<(Node<'static>, Duplicates<'static>)> {
    let mut text = Cow::Borrowed(text);
    let mut found = Cow::Borrowed(error);
    let (mut again, mut growth) = (0, 0);
    while found.message == NOT_DEEPER {
        again += text.len();
        if again > MAX_AGAIN {
            return None;
        }
        let line = found.span.line.checked_sub(lines_before)?.checked_sub(1)?;
        let column = found.span.column.checked_sub(1)?;
        let moved = moved(&text, line as usize, column as usize, MAX_GROWTH - growth)?;
        growth += moved.len() - text.len();
        match attempt(&moved, lines_before) {
            Ok(read) => return read,
            Err(other) if other.span == found.span => return None,
            Err(other) => found = Cow::Owned(other),
        }
        text = Cow::Owned(moved);
    }
    None
}

fn attempt(
    text: &str,
    lines_before: u32,
) -> Result<Option<(Node<'static>, Duplicates<'static>)>, SyntaxError> {
    let mut builder = Builder::new(lines_before);
    let Some(node) = builder.read(text)? else {
        return Ok(None);
    };
    let mut duplicates = Duplicates::default();
    for found in std::mem::take(&mut builder.duplicates).into_vec() {
        duplicates.push(Duplicate {
            path: found.path,
            span: found.span,
            first_line: found.first_line,
            earlier: found.earlier.into_owned(),
        });
    }
    Ok(Some((node.into_owned(), duplicates)))
}

/// The text with the further lines of the quoted text that begins at a place moved to the right of its quote, if it becomes no longer
/// than that. Lines and columns are counted from 0.
fn moved(text: &str, line: usize, column: usize, room: usize) -> Option<String> {
    let line_start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let in_line = text.get(line_start..)?.char_indices().nth(column)?.0;
    let start = line_start + in_line;
    let inner = end_of(&text[start..])?;
    let (quoted, rest) = text[start..].split_at(inner);
    let mut result = text[..start].to_owned();
    let mut left = room;
    for (at, part) in quoted.split_inclusive('\n').enumerate() {
        // An empty line stands for the end of a line, wherever it begins.
        if at > 0 && !part.trim().is_empty() {
            left = left.checked_sub(column + 1)?;
            result.extend(std::iter::repeat_n(' ', column + 1));
        }
        result.push_str(part);
    }
    result.push_str(rest);
    (left < room).then_some(result)
}

/// The bytes of a quoted text at the start, with its quotes.
fn end_of(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut rest = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '\\' if quote == '"' => _ = rest.next(),
            '\'' if quote == '\'' && rest.next_if(|(_, next)| *next == '\'').is_some() => {}
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}
