//! What the texts of users may change of what a template makes: texts, and nothing of its shape.
//!
//! Templates write YAML as text, so a value with line breaks or quotes could add a container, a volume or a privilege. [`Data`]
//! holds what a template is rendered over, and beside it the same with every character replaced that can mean something
//! in YAML. Where there is such a character, the template is rendered over both, and both results must have one shape: maps
//! with the same keys, lists of the same lengths, and the same texts but for those that hold a replaced character.
//! [`Data::rendered`] is the only way to render a template here, so none gets around it.
//!
//! What the operator writes (values of the installation, mesh config but for its `defaultConfig`) is taken as it is. What a
//! template decodes itself, as with `b64dec`, is not seen.

use std::borrow::Cow;

use gotemplate::{Budget, Functions, Template};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Fault, LARGEST_POD, config};

/// What stands in the place of a character that can mean something in YAML. It is also what a cut character leaves.
const PLAIN: char = char::REPLACEMENT_CHARACTER;

/// What a template is rendered over.
pub(crate) struct Data {
    stated: gotemplate::Value,
    /// The same with plain texts; none where they are plain.
    plain: Option<gotemplate::Value>,
    /// The object, for messages.
    of: String,
}

impl Data {
    /// Data of an object as users wrote it, and the same with plain texts where [`Plain`] replaced any.
    pub(crate) fn new(
        of: String,
        stated: gotemplate::Value,
        plain: Option<gotemplate::Value>,
    ) -> Self {
        Self { stated, plain, of }
    }

    /// What a template makes, as `read` reads its text.
    ///
    /// # Errors
    ///
    /// When the template fails, its text cannot be read, or its shape depends on a text of a user.
    pub(crate) fn rendered(
        &self,
        template: &Template,
        functions: &Functions,
        read: impl Fn(&str) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let budget = Budget {
            output: LARGEST_POD,
            ..Budget::default()
        };
        let made = |data| {
            let text = template.render(data, functions, &budget);
            read(&text.map_err(|e| Fault::new(e.to_string()))?)
        };
        let result = made(&self.stated)?;
        if let Some(plain) = &self.plain {
            let of = &self.of;
            let plain = made(plain).map_err(|why| {
                Fault::new(format!(
                    "a value of {of} has characters of YAML, and the template fails without them: {why}"
                ))
            })?;
            if let Some(place) = difference(&result, &plain, &mut Vec::new()) {
                return Err(Fault::new(format!(
                    "a value of {of} has characters of YAML that change what the template makes: {place}"
                )));
            }
        }
        Ok(result)
    }
}

/// Makes texts plain, and keeps whether it had to change any.
#[derive(Default)]
pub(crate) struct Plain {
    changed: bool,
}

impl Plain {
    /// Whether a text was not plain.
    pub(crate) fn changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        let plain = plain(text);
        self.changed |= matches!(plain, Cow::Owned(_));
        plain.into_owned()
    }

    /// All texts of a value, names of entries too.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|(key, value)| (self.text(key), self.value(value)));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            scalar => scalar.clone(),
        }
    }

    /// All texts of what can be written as JSON.
    pub(crate) fn of<T: Serialize + DeserializeOwned>(&mut self, of: &T) -> Result<T, Fault> {
        let wrong = |e: serde_json::Error| Fault::new(e.to_string());
        let value = serde_json::to_value(of).map_err(wrong)?;
        serde_json::from_value(self.value(&value)).map_err(wrong)
    }
}

/// A text without what can mean something in YAML. One that is JSON stays JSON, on one line, with plain texts: templates
/// read lists of volumes and the like from annotations.
fn plain(text: &str) -> Cow<'_, str> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(json) = serde_json::from_str::<Value>(text)
    {
        let mut within = Plain::default();
        let plain = within.value(&json);
        let same = !within.changed && !text.contains(['\n', '\r']);
        return match same {
            true => Cow::Borrowed(text),
            false => Cow::Owned(plain.to_string()),
        };
    }
    let means = |(at, c): (usize, char)| means_something(text, at, c);
    if !text.char_indices().any(means) {
        return Cow::Borrowed(text);
    }
    let replaced = text.char_indices();
    let replaced = replaced.map(|(at, c)| if means((at, c)) { PLAIN } else { c });
    Cow::Owned(replaced.collect())
}

/// Whether a character of a text can mean something in YAML, wherever a template puts the text.
fn means_something(text: &str, at: usize, c: char) -> bool {
    let next = text[at + c.len_utf8()..].chars().next();
    let ends = next.is_none_or(char::is_whitespace);
    match c {
        '"' | '\'' | '\\' | '{' | '}' | '[' | ']' | '#' | '&' | '!' | '|' | '>' | '<' => true,
        // A name of a map ends in it.
        ':' => ends || next == Some(','),
        // The names of anchors; a star alone is common.
        '*' => {
            next.is_some_and(|next| next.is_alphanumeric() || matches!(next, '_' | '-' | '.' | '/'))
        }
        '-' | '?' => at == 0 && (ends || text.starts_with("---")),
        '.' => at == 0 && text.starts_with("..."),
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => true,
        c => c.is_control(),
    }
}

/// Where two results of a template differ in shape.
fn difference<'v>(made: &'v Value, plain: &'v Value, at: &mut Vec<Cow<'v, str>>) -> Option<String> {
    match (made, plain) {
        (Value::Object(made), Value::Object(plain)) => {
            if made.len() != plain.len() {
                return Some(shown(at));
            }
            made.iter().find_map(|(key, value)| {
                at.push(Cow::Borrowed(key));
                let other = plain.get(&*self::plain(key));
                let found = match other {
                    Some(other) => difference(value, other, at),
                    None => Some(shown(at)),
                };
                at.pop();
                found
            })
        }
        (Value::Array(made), Value::Array(plain)) => {
            if made.len() != plain.len() {
                return Some(shown(at));
            }
            let pairs = made.iter().zip(plain).enumerate();
            pairs.into_iter().find_map(|(index, (made, plain))| {
                at.push(Cow::Owned(index.to_string()));
                let found = difference(made, plain, at);
                at.pop();
                found
            })
        }
        (Value::String(made), Value::String(plain)) => {
            if made == plain || is_data(at) {
                return None;
            }
            if !plain.contains(PLAIN) {
                return Some(shown(at));
            }
            // An argument may be a document of its own, as Envoy's bootstrap is.
            match (config::document(made), config::document(plain)) {
                (Ok(made @ Value::Object(_)), Ok(plain @ Value::Object(_))) => {
                    let found = difference(&made, &plain, &mut Vec::new());
                    found.map(|within| format!("{}: {within}", shown(at)))
                }
                _ => None,
            }
        }
        (made, plain) => (made != plain).then(|| shown(at)),
    }
}

/// Whether a text is for programs of the user to read: a label, an annotation, the value of a variable.
fn is_data(at: &[Cow<'_, str>]) -> bool {
    match at {
        [.., map, _] if matches!(&**map, "labels" | "annotations") => true,
        [.., env, _, value] => env == "env" && value == "value",
        _ => false,
    }
}

fn shown(at: &[Cow<'_, str>]) -> String {
    at.join(".")
}
