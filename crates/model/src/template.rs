//! Secret templates: `${secret.name.key}` and `${secret.namespace/name.key}` in texts of objects.
//!
//! The reader of objects puts a mark in the place of each template ([`Mark`]). Marks go with the text into whatever is
//! made of it, and values take their place last, in the resources of proxies: no object, finding or page has them.
//!
//! A mark is sealed with a key of this process, so a text that another source wrote is never one. As a second line of
//! defence the character around marks (U+FDD0, which text does not use) and its escape sequences are taken out of every
//! text that is read ([`clean`], [`Outside`](crate::outside::Outside)).
//!
//! Higress: pkg/ingress/kube/util (`TemplateRegex`), 2.2.

mod mark;

use std::borrow::Cow;
use std::sync::Arc;

pub use mark::{Asker, Content, Gateways, Mark};

use crate::names::Namespace;
use crate::object::ObjectName;

/// What a mark begins and ends with.
const MARK: &str = "\u{FDD0}";
/// Replaces that character in texts that have it.
const REPLACEMENT: &str = "\u{FFFD}";
/// Its digits in escape sequences, and those that replace them.
const DIGITS: (&str, &str) = ("fdd0", "fffd");
/// How a template begins.
const BEGIN: &str = "${secret.";
/// More characters than a namespace, a name and a key have.
const LONGEST: usize = 1024;

/// A key of a Secret, and the namespace that asks for its value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SecretRef {
    /// The namespace of the object that has the template.
    pub asking: Namespace,
    /// The Secret; in the namespace of the object where the template names none.
    pub secret: ObjectName,
    /// The key; it may have dots.
    pub key: Arc<str>,
}

impl SecretRef {
    /// Reads `name.key` or `namespace/name.key`.
    fn read(inner: &str, asking: &str) -> Option<Self> {
        let (namespace, rest) = inner.split_once('/').unwrap_or((asking, inner));
        let (name, key) = rest.split_once('.')?;
        let is_name = |text: &str| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !text.is_empty() && text.bytes().all(fits)
        };
        let is_key = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let fits = is_name(namespace) && is_name(name) && !key.is_empty();
        let read = Self {
            asking: asking.into(),
            secret: ObjectName::new(namespace, name),
            key: key.into(),
        };
        (fits && key.bytes().all(is_key)).then_some(read)
    }
}

/// A template of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// The field that has it: `spec.http[0].headers.request.set.authorization`.
    pub path: Arc<str>,
    /// What it refers to.
    pub secret: SecretRef,
}

/// Whether a text may have templates that are not marked.
pub fn may_have(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), BEGIN.as_bytes()).is_some()
}

/// Whether encoded text may have marks.
pub fn is_marked(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, MARK.as_bytes()).is_some()
}

/// The text without the character of marks and without the escape sequences that stand for it in JSON and YAML, at any
/// depth of texts in texts; `None` where it has none.
pub fn clean(text: &str) -> Option<String> {
    let plain = is_marked(text.as_bytes()).then(|| text.replace(MARK, REPLACEMENT));
    let escaped = without_escapes(plain.as_deref().unwrap_or(text));
    escaped.or(plain)
}

/// The text without escape sequences of the character of marks; `None` where it has none.
pub fn without_escapes(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut kept = 0;
    for at in memchr::memchr_iter(b'\\', text.as_bytes()) {
        let after = &text[at + 1..];
        let skipped = match after.as_bytes().first() {
            Some(b'u') => 1,
            Some(b'U') if after[1..].starts_with("0000") => 5,
            _ => continue,
        };
        let digits = at + 1 + skipped..at + 1 + skipped + DIGITS.0.len();
        let stated = text.get(digits.clone());
        if stated.is_some_and(|stated| stated.eq_ignore_ascii_case(DIGITS.0)) {
            out.extend([&text[kept..digits.start], DIGITS.1]);
            kept = digits.end;
        }
    }
    out.push_str(&text[kept..]);
    (kept > 0).then_some(out)
}

/// The text with its templates marked, and what they refer to; `None` where it has none.
pub fn marked(text: &str, asker: &Asker) -> Option<(String, Vec<SecretRef>)> {
    let mut found = Vec::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let open = at + BEGIN.len();
        out.push_str(&rest[..at]);
        let end = rest[open..].bytes().take(LONGEST).position(|b| b == b'}');
        let sealed = end.and_then(|end| {
            let mark = Mark::template(asker, &rest[open..open + end])?;
            Some((mark.sealed()?, mark.secret()?.clone(), open + end + 1))
        });
        match sealed {
            Some((sealed, read, end)) => {
                out.push_str(&sealed);
                found.push(read);
                rest = &rest[end..];
            }
            None => {
                out.push_str(&rest[at..open]);
                rest = &rest[open..];
            }
        }
    }
    out.push_str(rest);
    (!found.is_empty()).then_some((out, found))
}

/// The text with what `value` says in place of each mark. Where something has torn a mark apart, only its characters are
/// removed.
pub fn filled<'a>(text: &'a str, mut value: impl FnMut(&Mark) -> String) -> Cow<'a, str> {
    if !is_marked(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        rest = after;
        if let Some((sealed, behind)) = after.split_once(MARK)
            && let Some(mark) = Mark::open(sealed)
        {
            out.push_str(&value(&mark));
            rest = behind;
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The text as its author has written it.
pub fn written(text: &str) -> Cow<'_, str> {
    filled(text, Mark::written)
}

/// The JSON as authors have written its texts.
pub fn written_json(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::String(text) => {
            if let Cow::Owned(written) = written(text) {
                *text = written;
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(written_json),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(written_json),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
