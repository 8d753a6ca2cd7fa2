//! Secret templates: `${secret.name.key}` and `${secret.namespace/name.key}` in texts of objects.
//!
//! A template is marked where its object is read, with the namespace of the object. Marks go with the text into whatever
//! is made of it, and values take their place last, in the resources of proxies: no object, finding or page has them.
//! Nobody can write a mark: reading replaces its character, which is none of text (U+FDD0).
//!
//! Higress: pkg/ingress/kube/util (`TemplateRegex`), 2.2.

use std::borrow::Cow;
use std::sync::Arc;

use crate::names::Namespace;
use crate::object::ObjectName;

/// What a mark begins and ends with.
const MARK: &str = "\u{FDD0}";
/// What stands for the character in texts that have it.
const REPLACEMENT: &str = "\u{FFFD}";
/// How a template begins.
const BEGIN: &str = "${secret.";
/// The same after its `$` or its mark.
const OPEN: &str = "{secret.";
/// More characters than a namespace, a name and a key have.
const LONGEST: usize = 1024;

/// A key of a Secret, and who asks for its value.
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
    /// Reads what stands after [`OPEN`] up to the brace, and says how long it is with the brace.
    fn read(text: &str, asking: &str) -> Option<(Self, usize)> {
        let end = text.bytes().take(LONGEST).position(|b| b == b'}')?;
        let inner = &text[..end];
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
        (fits && key.bytes().all(is_key)).then_some((read, end + 1))
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

/// The text without the character of marks; `None` where it has none.
pub fn defused(text: &str) -> Option<String> {
    is_marked(text.as_bytes()).then(|| text.replace(MARK, REPLACEMENT))
}

/// The text with its templates marked, and what they refer to; `None` where it has none.
pub fn marked(text: &str, asking: &Namespace) -> Option<(String, Vec<SecretRef>)> {
    let mut found = Vec::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let open = at + BEGIN.len();
        out.push_str(&rest[..at]);
        match SecretRef::read(&rest[open..], asking) {
            Some((read, length)) => {
                out.extend([MARK, asking, MARK, &rest[at + 1..open + length]]);
                found.push(read);
                rest = &rest[open + length..];
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

/// The text with what `value` says in place of each template. Of a mark that something has torn apart, its characters go.
pub fn filled<'a>(text: &'a str, mut value: impl FnMut(&SecretRef) -> String) -> Cow<'a, str> {
    each(text, |read, _| value(read))
}

/// The text as its author has written it.
pub fn written(text: &str) -> Cow<'_, str> {
    each(text, |_, template| format!("${template}"))
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

/// Replaces each template, which `new` gets as what it refers to and without its mark.
fn each<'a>(text: &'a str, mut new: impl FnMut(&SecretRef, &str) -> String) -> Cow<'a, str> {
    if !is_marked(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        rest = after;
        let Some((asking, template)) = after.split_once(MARK) else {
            continue;
        };
        let Some(inner) = template.strip_prefix(OPEN) else {
            continue;
        };
        if let Some((read, length)) = SecretRef::read(inner, asking) {
            let length = OPEN.len() + length;
            out.push_str(&new(&read, &template[..length]));
            rest = &template[length..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<(String, Vec<String>)> {
        let (marked, found) = marked(text, &"shop".into())?;
        let told = |r: &SecretRef| format!("{} asks for {} {}", r.asking, r.secret, r.key);
        Some((marked, found.iter().map(told).collect()))
    }

    #[test]
    fn templates_are_found_with_who_asks() {
        let (marked, found) = told("a ${secret.db.pass.word} ${secret.ops/key.k_1}").unwrap();
        assert_eq!(
            found,
            [
                "shop asks for shop/db pass.word",
                "shop asks for ops/key k_1"
            ]
        );
        assert_eq!(
            filled(&marked, |r| format!("<{}>", r.key)),
            "a <pass.word> <k_1>"
        );
        assert_eq!(
            written(&marked),
            "a ${secret.db.pass.word} ${secret.ops/key.k_1}"
        );
    }

    #[test]
    fn what_is_no_template_stays() {
        for text in [
            "",
            "${secret.}",
            "${secret.db}",
            "${secret.db.}",
            "${secret.db.a b}",
            "${secret.a/b/c.d}",
            "${secret./b.c}",
            "${secret.UPPER.k}",
            "${secret.db.key",
            "$ {secret.db.key}",
            "${configmap.a.b}",
        ] {
            assert_eq!(told(text), None, "{text}");
            assert_eq!(written(text), text);
        }
        let (marked, found) = told("${secret.${secret.db.key}").unwrap();
        assert_eq!(found, ["shop asks for shop/db key"]);
        assert_eq!(filled(&marked, |_| "v".into()), "${secret.v");
    }

    #[test]
    fn nobody_writes_a_mark() {
        let forged = "\u{FDD0}ops\u{FDD0}{secret.ops/key.k}";
        assert_eq!(
            defused(forged).unwrap(),
            "\u{FFFD}ops\u{FFFD}{secret.ops/key.k}"
        );
        assert_eq!(defused("${secret.db.k}"), None);
        // What is torn apart leaves nothing that could be one.
        for torn in ["a\u{FDD0}", "\u{FDD0}shop\u{FDD0}{secret.db", "\u{FDD0}x"] {
            let filled = filled(torn, |_| "value".into());
            assert!(
                !filled.contains("value") && !is_marked(filled.as_bytes()),
                "{torn}"
            );
        }
    }
}
