//! What a text that is not YAML says of the object that it should hold: kind, name and namespace, found line by line.
//!
//! This is a guess, good enough to close what a broken policy was to protect, and for nothing else: no object that can be used
//! is read in this way.

use super::node::{Entry, Node, Span, Value};
use crate::kinds::Kind;

/// The kind of the object, and a document with its metadata; `None` where no line names a kind that is read.
pub(super) fn read(text: &str) -> Option<(Kind, Node<'_>)> {
    let name = value(text, "kind")?;
    let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name)?;
    let metadata = ["name", "namespace"].into_iter().filter_map(|key| {
        let text = value(text, key)?;
        Some(entry(key, Value::String(text.into())))
    });
    let metadata = entry("metadata", Value::Map(metadata.collect()));
    let document = Node {
        value: Value::Map(vec![metadata]),
        span: Span::default(),
    };
    Some((kind, document))
}

fn entry<'a>(key: &'static str, value: Value<'a>) -> Entry<'a> {
    let (at, span) = (Span::default(), Span::default());
    Entry {
        key: key.into(),
        at,
        value: Node { value, span },
    }
}

/// The text after the first `key:` that begins a line or follows `{` or a comma, as a name may be written.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let fields = text.split(['\n', '{', ',']);
    let mut values = fields.filter_map(|field| {
        let field = field.trim_start_matches([' ', '\t', '-', '"', '\'']);
        let rest = field.strip_prefix(key)?.trim_start_matches(['"', '\'']);
        let rest = rest.strip_prefix(':')?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let rest = rest.trim_start_matches([' ', '"', '\'']);
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|value| !value.is_empty())
    });
    values.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_name_and_namespace_are_found_however_they_are_written() {
        let block = "apiVersion: a/v1\nkind: AuthorizationPolicy\nmetadata:\n  namespace: shop # ours\n  name: p\nspec: {a: [";
        let flow =
            "kind: \"AuthorizationPolicy\"\nmetadata: {name: p, namespace: 'shop'}\n\tspec: x";
        let json = "{\"kind\": \"AuthorizationPolicy\", \"metadata\": {\"name\": \"p\", \"namespace\": \"shop\"}, \"spec\": ";
        for text in [block, flow, json] {
            let (kind, document) = read(text).unwrap();
            assert_eq!(kind, Kind::AuthorizationPolicy, "{text}");
            let metadata = document.get("metadata").unwrap();
            for (key, value) in [("name", "p"), ("namespace", "shop")] {
                assert_eq!(
                    metadata.get(key).and_then(Node::as_str),
                    Some(value),
                    "{text}"
                );
            }
        }
        for text in ["", "kind:", "kind: Unheard", "a: {"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
