//! Reading the fields of a section: each by its name and type, and what is left is none of them.
//!
//! Higress reads them as Go does: a number where a text is wanted is that text, and `null` is what is not stated.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use model::parse::nearest;
use serde_json::{Map, Value};

/// The longest text that is taken, in bytes: some stand in each filter chain of a gateway.
const LONGEST: usize = 4096;
/// How much is told of the name of a field that there is not.
pub(super) const NAME: usize = 64;
/// How many texts a list may have, and how long these may be.
const MOST_TEXTS: (usize, usize) = (64, 256);
/// How many parts a list may have.
const MOST_PARTS: usize = 512;

/// What is wrong with a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The field: `downstream.http2.maxConcurrentStreams`; nothing where it is the document.
    pub at: String,
    /// What is wrong with it.
    pub why: String,
}

impl Wrong {
    /// What is wrong with a field.
    pub(super) fn new(at: impl Into<String>, why: impl Into<String>) -> Self {
        let (at, why) = (at.into(), why.into());
        Self { at, why }
    }

    /// There is no such field, but maybe one of nearly that name.
    pub(super) fn unknown(at: String, near: Option<&str>) -> Self {
        let near = near.map(|near| format!(" (did you mean {near}?)"));
        let near = near.unwrap_or_default();
        Self::new(at, format!("is no option{near}: it is ignored"))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.at {
            "" => f.write_str(&self.why),
            at => write!(f, "{at} {}", self.why),
        }
    }
}

/// The fields of a section, or of a part of one.
pub(super) struct Fields<'a> {
    /// Where they stand: `downstream.http2`.
    at: String,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields that a value has.
    pub(super) fn of(at: impl Into<String>, value: &'a Value) -> Result<Self, Wrong> {
        let at = at.into();
        match value {
            Value::Object(map) => Ok(Self {
                at,
                map,
                known: Vec::new(),
            }),
            _ => Err(Wrong::new(at, "is no map of fields")),
        }
    }

    /// What is wrong with a field.
    pub(super) fn wrong(&self, name: &str, why: impl Display) -> Wrong {
        Wrong::new(format!("{}.{name}", self.at), why.to_string())
    }

    /// A field as it is; none where it is `null`.
    pub(super) fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Whether something is wanted.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, Wrong> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(name, "is neither true nor false")),
        }
    }

    /// A whole number within a range.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, Wrong> {
        let Some(value) = self.value(name) else {
            return Ok(default);
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(number),
            None => {
                let why = format!(
                    "is no whole number between {} and {}",
                    range.start(),
                    range.end()
                );
                Err(self.wrong(name, why))
            }
        }
    }

    /// A text, or nothing.
    pub(super) fn text(&mut self, name: &'static str) -> Result<String, Wrong> {
        let Some(value) = self.value(name) else {
            return Ok(String::new());
        };
        match of_text(value) {
            Some(text) if text.len() <= LONGEST => Ok(text),
            Some(_) => Err(self.wrong(name, format!("is longer than {LONGEST} bytes"))),
            None => Err(self.wrong(name, "is no text")),
        }
    }

    /// Texts.
    pub(super) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<String>>, Wrong> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let items = value.as_array();
        let read: Option<Vec<String>> = items.and_then(|items| items.iter().map(of_text).collect());
        let (most, longest) = MOST_TEXTS;
        let fits = |texts: &Vec<String>| {
            texts.len() <= most && texts.iter().all(|text| text.len() <= longest)
        };
        match read {
            Some(texts) if fits(&texts) => Ok(Some(texts)),
            Some(_) => {
                let why = format!("has more than {most} texts, or one longer than {longest} bytes");
                Err(self.wrong(name, why))
            }
            None => Err(self.wrong(name, "is no list of texts")),
        }
    }

    /// The fields of a part.
    pub(super) fn part(&mut self, name: &'static str) -> Result<Option<Fields<'a>>, Wrong> {
        let at = format!("{}.{name}", self.at);
        let value = self.value(name);
        value.map(|value| Fields::of(at, value)).transpose()
    }

    /// The fields of each part of a list.
    pub(super) fn parts(&mut self, name: &'static str) -> Result<Vec<Fields<'a>>, Wrong> {
        let at = format!("{}.{name}", self.at);
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() > MOST_PARTS => {
                Err(Wrong::new(at, format!("has more than {MOST_PARTS} parts")))
            }
            Some(Value::Array(items)) => {
                let items = items.iter().enumerate();
                let parts = items.map(|(place, item)| Fields::of(format!("{at}[{place}]"), item));
                parts.collect()
            }
            Some(_) => Err(Wrong::new(at, "is no list")),
        }
    }

    /// Tells of the fields that nobody asked for.
    pub(super) fn end(self, unknown: &mut Vec<Wrong>) {
        let others = self
            .map
            .keys()
            .filter(|name| !self.known.contains(&&***name));
        unknown.extend(others.map(|name| {
            let near = nearest(name, self.known.iter().copied());
            Wrong::unknown(format!("{}.{}", self.at, short(name, NAME)), near)
        }));
    }
}

/// So much of a text as is told.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn of_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
