//! Text to trees, one for each document.
//!
//! The text is cut at its `---` lines first, so that a document that cannot be read leaves the others alone. Size and
//! depth are bounded; a document of aliases of aliases counts with the size it would have written out.

mod quoted;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as RawSpan, Tag};

use super::node::{Entry, Node, Path, Span, Step, Value};
use super::{json, scalar};

/// Levels of maps and lists in one document.
const MAX_DEPTH: usize = 96;
/// Values in one document, with aliases written out.
const MAX_NODES: usize = 2_000_000;
/// Texts of one document that may end with a colon in a list.
const MAX_COLONS: usize = 1000;
/// Duplicate keys of one document that are reported.
const MAX_DUPLICATES: usize = 1000;
/// What the paths of duplicate keys of one document may take, in bytes; beyond it no more are reported. A key may be as long as the
/// document, and stands in the path of every key below it.
const MAX_PATH_BYTES: usize = 1 << 20;

/// A document of a text.
pub(super) struct Document<'a> {
    /// Line of its first content, counted from 1.
    pub(super) line: u32,
    /// The text that was read.
    pub(super) text: &'a str,
    /// Its top value, or why there is none.
    pub(super) node: Result<Node<'a>, SyntaxError>,
    /// Keys that stand twice in the same map.
    pub(super) duplicates: Vec<Duplicate<'a>>,
}

/// A key that stands twice in the same map.
pub(super) struct Duplicate<'a> {
    pub(super) path: Path,
    pub(super) span: Span,
    /// The line of the first; none where it is not known, in JSON that is not YAML.
    pub(super) first_line: Option<u32>,
    /// What stands there first, and is not in the tree.
    pub(super) earlier: Node<'a>,
}

impl Duplicate<'_> {
    /// What is wrong, in a sentence.
    pub(super) fn message(&self) -> String {
        message(self.first_line)
    }
}

/// What is wrong with a key that stands twice, in a sentence.
pub(super) fn message(first_line: Option<u32>) -> String {
    match first_line {
        Some(line) => format!("the key stands twice, first on line {line}"),
        None => "the key stands twice".to_owned(),
    }
}

/// The duplicate keys of a document, as far as they are reported: the first always is.
#[derive(Default)]
pub(super) struct Duplicates<'a> {
    all: Vec<Duplicate<'a>>,
    path_bytes: usize,
}

impl<'a> Duplicates<'a> {
    /// Whether one more is reported.
    pub(super) fn has_room(&self) -> bool {
        self.all.len() < MAX_DUPLICATES && self.path_bytes < MAX_PATH_BYTES
    }

    /// Adds one, where there is room.
    pub(super) fn push(&mut self, duplicate: Duplicate<'a>) {
        let bytes = duplicate.path.0.iter().map(|step| match step {
            Step::Field(name) => size_of::<Step>() + name.len(),
            Step::Index(_) => size_of::<Step>(),
        });
        self.path_bytes += bytes.sum::<usize>();
        self.all.push(duplicate);
    }

    pub(super) fn into_vec(self) -> Vec<Duplicate<'a>> {
        self.all
    }
}

/// Text that is no YAML.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) span: Span,
    pub(super) message: String,
}

/// Reads the documents of `text`, one after the other: a tree is many times as large as its text. Those without content are left
/// out.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    parts(text).filter_map(|part| part.read())
}

/// The documents of `text` that have content, not read yet.
pub(super) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    chunks(text).filter_map(|(first_line, text)| {
        let skipped = text.lines().position(has_content)?;
        let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
        Some(Part {
            line: first_line + skipped,
            first_line,
            text,
        })
    })
}

/// The text of a document.
pub(super) struct Part<'a> {
    /// Line of its first content, counted from 1.
    pub(super) line: u32,
    first_line: u32,
    /// Its text.
    pub(super) text: &'a str,
}

impl<'a> Part<'a> {
    /// Reads it; nothing where there is no content after all.
    pub(super) fn read(&self) -> Option<Document<'a>> {
        let mut builder = Builder::new(self.first_line - 1);
        let mut node = builder.read(self.text);
        let mut duplicates = builder.duplicates;
        if let Err(error) = &node
            && let Some((read, found)) = quoted::read(self.text, self.first_line - 1, error)
        {
            node = Ok(Some(read));
            duplicates = found;
        }
        if node.is_err() && self.text.trim_start().starts_with('{') {
            let span = Span {
                line: self.line,
                column: 1,
                length: 0,
            };
            // JSON has escapes that YAML does not know.
            if let Ok((json, found)) = json::read(self.text.as_bytes(), span) {
                node = Ok(Some(Node::from_json(json, span)));
                duplicates = found;
            }
        }
        Some(Document {
            line: self.line,
            text: self.text,
            node: node.transpose()?,
            duplicates: duplicates.into_vec(),
        })
    }
}

/// Whether a line is more than a comment, a directive or the end of a document.
fn has_content(line: &str) -> bool {
    let line = line.strip_prefix("---").unwrap_or(line).trim();
    !(line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "...")
}

/// The parts of a text between its `---` lines, with the number of their first line. The separator stays with what
/// follows it, since content may follow on its line.
fn chunks(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut rest = Some(text);
    let mut line = 1;
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = 0;
        let first = line;
        loop {
            let Some(newline) = text[end..].find('\n') else {
                rest = None;
                return Some((first, text));
            };
            end += newline + 1;
            line += 1;
            let next = &text[end..];
            if next.starts_with("---")
                && matches!(
                    next.as_bytes().get(3),
                    None | Some(b' ' | b'\t' | b'\r' | b'\n')
                )
            {
                rest = Some(next);
                return Some((first, &text[..end]));
            }
        }
    })
}

enum Frame<'a> {
    Seq {
        items: Vec<Node<'a>>,
        span: Span,
        anchor: usize,
    },
    Map {
        entries: Vec<Entry<'a>>,
        merged: Vec<Node<'a>>,
        key: Option<(Key<'a>, Span)>,
        span: Span,
        anchor: usize,
    },
}

enum Key<'a> {
    Name(Cow<'a, str>),
    Merge,
}

struct Builder<'a> {
    lines_before: u32,
    stack: Vec<Frame<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    duplicates: Duplicates<'a>,
    nodes: usize,
    /// How often a text was taken for one that ends with a colon.
    colons: usize,
    root: Option<Node<'a>>,
}

impl<'a> Builder<'a> {
    fn new(lines_before: u32) -> Self {
        Self {
            lines_before,
            stack: Vec::new(),
            anchors: HashMap::new(),
            duplicates: Duplicates::default(),
            nodes: 0,
            colons: 0,
            root: None,
        }
    }

    fn span(&self, raw: RawSpan) -> Span {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let length = if raw.start.line() == raw.end.line() {
            raw.end.col().saturating_sub(raw.start.col())
        } else {
            0
        };
        Span {
            line: narrow(raw.start.line()).saturating_add(self.lines_before),
            column: narrow(raw.start.col()).saturating_add(1),
            length: narrow(length),
        }
    }

    fn scan_error(&self, error: &ScanError) -> SyntaxError {
        let mark = *error.marker();
        SyntaxError {
            span: self.span(RawSpan::new(mark, mark)),
            message: error.info().to_owned(),
        }
    }

    /// What an alias names, as it stands at the alias.
    fn aliased(&mut self, anchor: usize, span: Span) -> Result<Node<'a>, &'static str> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err("the alias stands inside what it names");
        };
        self.nodes += node.size();
        if self.nodes > MAX_NODES {
            return Err("the document is too large with its aliases written out");
        }
        let mut node = node.clone();
        node.span = span;
        Ok(node)
    }

    fn read(&mut self, text: &'a str) -> Result<Option<Node<'a>>, SyntaxError> {
        let mut parser = Parser::new_from_str(text);
        loop {
            let (event, raw) = match parser.next_event() {
                None => break,
                Some(Ok(next)) => next,
                Some(Err(error)) => return Err(self.scan_error(&error)),
            };
            let span = self.span(raw);
            let fail = |message: &str| {
                Err(SyntaxError {
                    span,
                    message: message.to_owned(),
                })
            };
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                return fail("the document is too large");
            }
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if self.root.is_some() => {
                    return fail("a document must start with --- on a line of its own");
                }
                Event::Nothing
                | Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {}
                Event::SequenceStart(..) | Event::MappingStart(..)
                    if self.stack.len() >= MAX_DEPTH =>
                {
                    return fail("the document is nested too deeply");
                }
                Event::SequenceStart(anchor, _) => self.stack.push(Frame::Seq {
                    items: Vec::new(),
                    span,
                    anchor,
                }),
                Event::MappingStart(anchor, _) => self.stack.push(Frame::Map {
                    entries: Vec::new(),
                    merged: Vec::new(),
                    key: None,
                    span,
                    anchor,
                }),
                Event::SequenceEnd | Event::MappingEnd => self.close()?,
                Event::Alias(anchor) => match self.aliased(anchor, span) {
                    Ok(node) => self.add(node)?,
                    Err(message) => return fail(message),
                },
                Event::Scalar(value, style, anchor, tag) => {
                    if self.merge_key(&value, style, span) {
                        continue;
                    }
                    // Nothing is read as `~`.
                    if value == "~"
                        && style == ScalarStyle::Plain
                        && let Some(node) = self.colon_at_end(text)
                    {
                        // The map that was begun for it ends next.
                        parser.next_event();
                        self.add(node)?;
                        continue;
                    }
                    let text = value;
                    let node = Node {
                        value: scalar_value(text, style, tag.as_deref()),
                        span,
                    };
                    self.remember(anchor, &node);
                    self.add(node)?;
                }
            }
        }
        Ok(self.root.take())
    }

    fn remember(&mut self, anchor: usize, node: &Node<'a>) {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
    }

    /// A text that ends with colons in a list such as `[fe80::]`, which Kubernetes reads so, and YAML 1.2 as a map from
    /// `fe80:` to nothing.
    fn colon_at_end(&mut self, text: &str) -> Option<Node<'a>> {
        let Some(Frame::Map {
            entries,
            key: Some((Key::Name(key), at)),
            ..
        }) = self.stack.last()
        else {
            return None;
        };
        // Each look costs the text before it.
        if !entries.is_empty() || !key.ends_with(':') || self.colons >= MAX_COLONS {
            return None;
        }
        self.colons += 1;
        let line = at.line.checked_sub(self.lines_before)?.checked_sub(1)?;
        let line = text.lines().nth(line as usize)?;
        // Behind the key and its colon.
        let next = line.chars().nth((at.column + at.length) as usize);
        let in_list = matches!(self.stack.iter().rev().nth(1), Some(Frame::Seq { .. }));
        if !in_list || !matches!(next, Some(']' | ',')) {
            return None;
        }
        let node = Node {
            value: Value::String(format!("{key}:").into()),
            span: Span {
                length: at.length + 1,
                ..*at
            },
        };
        self.stack.pop();
        Some(node)
    }

    /// Takes a plain `<<` in the place of a key.
    fn merge_key(&mut self, text: &str, style: ScalarStyle, span: Span) -> bool {
        match self.stack.last_mut() {
            Some(Frame::Map {
                key: key @ None, ..
            }) if text == "<<" && style == ScalarStyle::Plain => {
                *key = Some((Key::Merge, span));
                true
            }
            _ => false,
        }
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let (node, anchor) = match self.stack.pop() {
            Some(Frame::Seq {
                items,
                span,
                anchor,
            }) => (
                Node {
                    value: Value::Seq(items),
                    span,
                },
                anchor,
            ),
            Some(Frame::Map {
                mut entries,
                merged,
                span,
                anchor,
                ..
            }) => {
                self.last_wins(&mut entries);
                merge(&mut entries, merged)?;
                (
                    Node {
                        value: Value::Map(entries),
                        span,
                    },
                    anchor,
                )
            }
            None => return Ok(()),
        };
        self.remember(anchor, &node);
        self.add(node)
    }

    /// Puts a value into what is open, as the next item, key or value.
    fn add(&mut self, node: Node<'a>) -> Result<(), SyntaxError> {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::Seq { items, .. }) => items.push(node),
            Some(Frame::Map {
                entries,
                merged,
                key,
                ..
            }) => match key.take() {
                None => {
                    let at = node.span;
                    *key = Some((Key::Name(key_text(node)?), at));
                }
                Some((Key::Merge, _)) => merged.push(node),
                Some((Key::Name(key), at)) => entries.push(Entry {
                    key,
                    at,
                    value: node,
                }),
            },
        }
        Ok(())
    }

    /// Leaves the last of the entries with the same key.
    fn last_wins(&mut self, entries: &mut Vec<Entry<'a>>) {
        // The places of entries that another one follows, with those of the latter.
        let mut doubled: HashMap<usize, usize> = HashMap::new();
        {
            let mut seen = HashMap::with_capacity(entries.len());
            for (index, entry) in entries.iter().enumerate() {
                if let Some(earlier) = seen.insert(&*entry.key, index) {
                    doubled.insert(earlier, index);
                }
            }
        }
        if doubled.is_empty() {
            return;
        }
        // A path costs what the keys above are long, so none is made for what is not reported.
        let within = self.duplicates.has_room().then(|| self.path());
        let ats: Vec<Span> = entries.iter().map(|entry| entry.at).collect();
        let mut kept = Vec::with_capacity(entries.len() - doubled.len());
        for (index, entry) in std::mem::take(entries).into_iter().enumerate() {
            let Some(later) = doubled.get(&index) else {
                kept.push(entry);
                continue;
            };
            if let Some(within) = within.as_ref().filter(|_| self.duplicates.has_room()) {
                self.duplicates.push(Duplicate {
                    path: within.with(&entry.key),
                    span: ats[*later],
                    first_line: Some(entry.at.line),
                    earlier: entry.value,
                });
            }
        }
        *entries = kept;
    }

    /// Where the innermost open value will stand.
    fn path(&self) -> Path {
        let steps = self.stack.iter().map(|frame| match frame {
            Frame::Seq { items, .. } => Step::Index(items.len()),
            Frame::Map {
                key: Some((Key::Name(key), _)),
                ..
            } => Step::Field((&**key).into()),
            Frame::Map { .. } => Step::Field("<<".into()),
        });
        Path(steps.collect())
    }
}

/// Adds the entries of merged maps that are not there yet; earlier ones win.
fn merge<'a>(entries: &mut Vec<Entry<'a>>, merged: Vec<Node<'a>>) -> Result<(), SyntaxError> {
    let mut queue: Vec<Node<'a>> = Vec::new();
    if merged.is_empty() {
        return Ok(());
    }
    for node in merged {
        match node.value {
            Value::Seq(items) => queue.extend(items),
            _ => queue.push(node),
        }
    }
    let mut there: HashSet<String> = entries.iter().map(|e| e.key.to_string()).collect();
    for node in queue {
        let Value::Map(more) = node.value else {
            return Err(SyntaxError {
                span: node.span,
                message: "<< needs a map or a list of maps".to_owned(),
            });
        };
        for entry in more {
            if there.insert(entry.key.to_string()) {
                entries.push(entry);
            }
        }
    }
    Ok(())
}

/// A key as JSON has it: numbers and booleans become their text.
fn key_text(node: Node<'_>) -> Result<Cow<'_, str>, SyntaxError> {
    Ok(match node.value {
        Value::String(text) => text,
        Value::Bool(value) => value.to_string().into(),
        Value::Int(value) => value.to_string().into(),
        Value::UInt(value) => value.to_string().into(),
        Value::Float(value) => value.to_string().into(),
        Value::Null | Value::Seq(_) | Value::Map(_) => {
            return Err(SyntaxError {
                span: node.span,
                message: format!("{} cannot be a key", node.value),
            });
        }
    })
}

fn scalar_value<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value<'a> {
    let tag = tag.filter(|t| t.is_yaml_core_schema());
    match tag.map(|t| t.suffix.as_str()) {
        Some("str" | "binary" | "timestamp") => Value::String(text),
        Some("null") => Value::Null,
        Some("bool" | "int" | "float") => scalar::resolve(text),
        _ if style == ScalarStyle::Plain => scalar::resolve(text),
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests;
