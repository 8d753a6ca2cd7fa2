//! A document as a small tree in which every value knows where it was written.

use std::borrow::Cow;
use std::fmt;

/// A place in a text, in lines and characters counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Span {
    /// Line of the first character.
    pub(super) line: u32,
    /// Column of the first character.
    pub(super) column: u32,
    /// Characters on that line; 0 where it is not known.
    pub(super) length: u32,
}

/// A value and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node<'a> {
    pub(super) value: Value<'a>,
    pub(super) span: Span,
}

/// A value as JSON has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Larger than an `i64` holds.
    UInt(u64),
    /// Not whole.
    Float(f64),
    String(Cow<'a, str>),
    Seq(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// A key and its value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) at: Span,
    pub(super) value: Node<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn entries(&self) -> Option<&[Entry<'a>]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.entries()?
            .iter()
            .find(|e| e.key == key)
            .map(|e| &e.value)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Entry<'a>> {
        let Value::Map(entries) = &mut self.value else {
            return None;
        };
        let index = entries.iter().position(|e| e.key == key)?;
        Some(entries.remove(index))
    }

    pub(super) fn into_owned(self) -> Node<'static> {
        let value = match self.value {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::UInt(value) => Value::UInt(value),
            Value::Float(value) => Value::Float(value),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Seq(items) => Value::Seq(items.into_iter().map(Node::into_owned).collect()),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|entry| Entry {
                        key: Cow::Owned(entry.key.into_owned()),
                        at: entry.at,
                        value: entry.value.into_owned(),
                    })
                    .collect(),
            ),
        };
        Node {
            value,
            span: self.span,
        }
    }

    /// Whether both say the same, wherever it stands.
    pub(super) fn says(&self, other: &Node<'_>) -> bool {
        match (&self.value, &other.value) {
            (Value::Seq(ours), Value::Seq(others)) => {
                ours.len() == others.len() && ours.iter().zip(others).all(|(a, b)| a.says(b))
            }
            (Value::Map(ours), Value::Map(others)) => {
                let same = |a: &Entry<'_>| other.get(&a.key).is_some_and(|b| a.value.says(b));
                ours.len() == others.len() && ours.iter().all(same)
            }
            (ours, others) => ours == others,
        }
    }

    /// The values below this one and itself.
    pub(super) fn size(&self) -> usize {
        1 + match &self.value {
            Value::Seq(items) => items.iter().map(Node::size).sum(),
            Value::Map(entries) => entries.iter().map(|e| e.value.size()).sum(),
            _ => 0,
        }
    }

    pub(super) fn from_json(json: serde_json::Value, span: Span) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), ..) => Value::Int(value),
                (_, Some(value), _) => Value::UInt(value),
                (.., value) => super::scalar::from_f64(value.unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(text.into()),
            Json::Array(items) => Value::Seq(
                items
                    .into_iter()
                    .map(|v| Self::from_json(v, span))
                    .collect(),
            ),
            Json::Object(fields) => Value::Map(
                fields
                    .into_iter()
                    .map(|(key, value)| Entry {
                        key: key.into(),
                        at: span,
                        value: Self::from_json(value, span),
                    })
                    .collect(),
            ),
        };
        Self { value, span }
    }
}

impl Value<'_> {
    /// What it is, without its content.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => "a number",
            Value::String(_) => "a text",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

impl fmt::Display for Value<'_> {
    /// The value as a message names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "the boolean {value}"),
            Value::Int(value) => write!(f, "the number {value}"),
            Value::UInt(value) => write!(f, "the number {value}"),
            Value::Float(value) => write!(f, "the number {value}"),
            Value::String(text) if text.chars().count() > 60 => {
                let start: String = text.chars().take(57).collect();
                write!(f, "the text {:?}", start + "...")
            }
            Value::String(text) => write!(f, "the text {text:?}"),
            Value::Seq(_) => f.write_str("a list"),
            Value::Map(_) => f.write_str("a map"),
        }
    }
}

/// One step from a value to one inside it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// To the value of a key.
    Field(Box<str>),
    /// To an item of a list, counted from 0.
    Index(usize),
}

/// The way from the top of an object to a value inside it; shown as `spec.http[0].route`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Path(pub Vec<Step>);

/// Where a value stands, for who walks through a tree: a path that costs nothing until it is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// The top of an object.
    Top,
    /// The value of a key of what stands there.
    Field(&'p Place<'p>, &'p str),
    /// An item of the list that stands there, counted from 0.
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// The way to it.
    pub fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut at = self;
        loop {
            at = match *at {
                Place::Top => break,
                Place::Field(above, name) => {
                    steps.push(Step::Field(name.into()));
                    above
                }
                Place::Item(above, index) => {
                    steps.push(Step::Index(index));
                    above
                }
            };
        }
        steps.reverse();
        Path(steps)
    }
}

impl Path {
    pub(super) fn of(field: &str) -> Self {
        Self(vec![Step::Field(field.into())])
    }

    pub(super) fn with(&self, field: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Field(field.into()));
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Field(name) if name.contains(['.', '/', '[', ' ']) => {
                    write!(f, "[{name:?}]")?;
                }
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}
