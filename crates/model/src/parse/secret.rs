//! What is said of a Secret: nothing of its values.
//!
//! Where a document that holds one cannot be read, or stands on few lines, any line of it may have a value: places are said, and
//! lines are not quoted.

use std::borrow::Cow;

use super::list::listed;
use super::nearest::distance;
use super::node::{Entry, Node, Value};
use crate::diagnostic::{Diagnostic, Excerpt};

/// The kind, of whichever letters are wrong.
const SECRET: &str = "Secret";

/// Takes lines and quoted values out of what was found in a Secret.
pub(super) fn hush(found: &mut [Diagnostic]) {
    for diagnostic in found {
        diagnostic.excerpt.iter_mut().for_each(conceal);
        let message: &str = &diagnostic.message;
        if let Cow::Owned(hushed) = without_quotes(message) {
            diagnostic.message = hushed.into();
        }
    }
}

/// Takes the text out of an excerpt; its place stays.
pub(super) fn conceal(excerpt: &mut Excerpt) {
    excerpt.text = "".into();
    excerpt.length = 0;
}

/// Whether a document is a Secret or a list that holds one, as far as its kind can be read.
pub(super) fn is_in(document: &Node<'_>) -> bool {
    let Some(entries) = document.entries() else {
        return true;
    };
    let Some(kind) = kind(document) else {
        return true;
    };
    let of = listed(kind);
    if is_named(kind) || of.is_some_and(is_named) {
        return true;
    }
    let is_item = |item: &Node<'_>| match self::kind(item) {
        Some(kind) => is_named(kind),
        // In a list for every kind it may be any.
        None => item.entries().is_some() && of == Some(""),
    };
    let mut items = entries
        .iter()
        .filter(|entry| of.is_some() && distance(&entry.key, "items") <= 2);
    items.any(|entry| match &entry.value.value {
        Value::Seq(items) => items.iter().any(is_item),
        Value::Map(items) => items.iter().any(|item| is_item(&item.value)) || is_item(&entry.value),
        _ => false,
    })
}

/// Whether a text that cannot be read may hold a Secret: it names one, may name one in escapes, or names no kind at all.
pub(super) fn may_be_in(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_one = |word: &str| is_named(word) || listed(word).is_some_and(is_named);
    let has_escapes = text.contains("\\u") || text.contains("\\x");
    has_escapes || words.clone().any(is_one) || !words.any(|word| word.eq_ignore_ascii_case("kind"))
}

/// The kind that a document names.
fn kind<'n>(document: &'n Node<'_>) -> Option<&'n str> {
    let mut entries = document.entries()?.iter();
    let is_kind = |entry: &&Entry<'_>| distance(&entry.key, "kind") <= 1;
    entries.find(is_kind).and_then(|entry| entry.value.as_str())
}

fn is_named(kind: &str) -> bool {
    distance(kind, SECRET) <= 2
}

/// A text without what stands in quotes, from the first to the last of them: values may have quotes themselves.
fn without_quotes(text: &str) -> Cow<'_, str> {
    match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            format!("{}(not shown){}", &text[..first], &text[last + 1..]).into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        for (text, hushed) in [
            (
                "expected a map, found a list",
                "expected a map, found a list",
            ),
            (
                r#"expected a map, found the text "a\" b""#,
                "expected a map, found the text (not shown)",
            ),
        ] {
            assert_eq!(without_quotes(text), hushed);
        }
    }

    #[test]
    fn a_text_that_may_hold_a_secret_is_known_in_any_letters() {
        for text in [
            "kind: Secret\ndata: {a: [",
            "Kind: secret\ndata: [",
            "kind: Sercet\ndata: [",
            "kind Secrets\ndata: [",
            "kind: SecretList\nitems: [",
            "kind: List\nitems:\n- {kind: \"SECRET\", data: [",
            "{\"kind\": \"\\u0053ecret\", ",
            "data: {a: [",
        ] {
            assert!(may_be_in(text), "{text}");
        }
        for text in [
            "kind: Ingress\nspec: {tls: [{secretName: a}",
            "kind: Gateway\nspec: {a: [",
        ] {
            assert!(!may_be_in(text), "{text}");
        }
    }
}
