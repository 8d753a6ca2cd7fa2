//! What a text that is not YAML says of the objects that it should hold: kind, name and namespace, found line by line.
//!
//! This is a guess, good enough to close what a broken policy was to protect, and for nothing else: no object that can be used
//! is read in this way.

use super::node::{Entry, Node, Span, Value};
use crate::kinds::Kind;

/// Each object, as what it may be, the likeliest first: a kind, and a document with its metadata. A list holds several.
pub(super) fn read(text: &str) -> Vec<Vec<(Kind, Node<'_>)>> {
    let least = values(text, "kind").map(|(indent, _)| indent).min();
    let mut outer = values(text, "kind").filter(|(indent, _)| Some(*indent) == least);
    let listed = outer.find_map(|(_, name)| name.strip_suffix("List"));
    let of_list = listed.map(|name| Kind::ALL.iter().copied().find(|kind| kind.name() == name));
    let objects = match (listed, of_list.flatten()) {
        (Some(name), kind) if name.is_empty() || kind.is_some() => {
            let items = items(text).into_iter();
            items.map(|item| object(item, kind)).collect()
        }
        _ => vec![object(text, None)],
    };
    objects
        .into_iter()
        .filter(|kinds: &Vec<_>| !kinds.is_empty())
        .collect()
}

/// What an object may be; where it names no kind, that of the list that it is an item of.
fn object(text: &str, of_list: Option<Kind>) -> Vec<(Kind, Node<'_>)> {
    let known = |name: &str| Kind::ALL.iter().copied().find(|kind| kind.name() == name);
    let mut kinds: Vec<(usize, Kind)> = values(text, "kind")
        .filter_map(|(indent, name)| Some((indent, known(name)?)))
        .collect();
    // Others are those of what it refers to.
    kinds.sort_by_key(|(indent, _)| *indent);
    let least = kinds.first().map(|(indent, _)| *indent);
    kinds.retain(|(indent, _)| Some(*indent) == least);
    let kinds = kinds.into_iter().map(|(_, kind)| kind);
    let kinds: Vec<Kind> = kinds.chain(of_list).collect();
    kinds
        .into_iter()
        .map(|kind| (kind, document(text)))
        .collect()
}

/// A document with the metadata that a text states.
fn document(text: &str) -> Node<'_> {
    let within = text.find("metadata").map(|at| &text[at..]);
    let metadata = ["name", "namespace"].into_iter().filter_map(|key| {
        let found = within.and_then(|text| value(text, key));
        let text = found.or_else(|| value(text, key))?;
        Some(entry(key, Value::String(text.into())))
    });
    let metadata = entry("metadata", Value::Map(metadata.collect()));
    Node {
        value: Value::Map(vec![metadata]),
        span: Span::default(),
    }
}

/// The texts of the items of a list: each from its dash to the next, or, where they are written on lines with others, from one kind
/// to the next.
fn items(text: &str) -> Vec<&str> {
    let after = lines(text).find(|(_, line)| line.trim_end() == "items:");
    let after = after.map(|(at, line)| at + line.len());
    let mut begins: Vec<usize> = Vec::new();
    if let Some(after) = after {
        let dashes = lines(&text[after..]).filter(|(_, line)| line.trim_start().starts_with('-'));
        let dashes = dashes.filter(|(_, line)| !line.starts_with("---"));
        let dashes: Vec<(usize, usize)> = dashes
            .map(|(at, line)| (after + at, line.len() - line.trim_start().len()))
            .collect();
        let indent = dashes.first().map(|(_, indent)| *indent);
        begins = dashes
            .into_iter()
            .filter(|(_, of)| Some(*of) == indent)
            .map(|(at, _)| at)
            .collect();
    }
    if begins.is_empty() {
        begins = text.match_indices("kind").map(|(at, _)| at).collect();
    }
    let ends = begins.iter().copied().skip(1).chain([text.len()]);
    let all = begins.iter().zip(ends).map(|(from, to)| &text[*from..to]);
    let is_list = |item: &&str| {
        values(item, "kind")
            .next()
            .is_some_and(|(_, kind)| kind.ends_with("List"))
    };
    all.filter(|item| !is_list(item)).collect()
}

/// Lines with where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        at += line.len();
        (at - line.len(), line)
    })
}

fn entry<'a>(key: &'static str, value: Value<'a>) -> Entry<'a> {
    let (at, span) = (Span::default(), Span::default());
    Entry {
        key: key.into(),
        at,
        value: Node { value, span },
    }
}

/// The text after the first `key:`.
fn value<'a>(text: &'a str, key: &'a str) -> Option<&'a str> {
    values(text, key).next().map(|(_, value)| value)
}

/// The texts after each `key:` that begins a line or follows `{` or a comma, as a name may be written, with how far the line is
/// indented.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let fields = text.lines().flat_map(|line| {
        let indent = line.len() - line.trim_start_matches([' ', '\t', '-']).len();
        line.split(['{', ',']).map(move |field| (indent, field))
    });
    fields.filter_map(move |(indent, field)| {
        let field = field.trim_start_matches([' ', '\t', '-', '"', '\'']);
        let rest = field.strip_prefix(key)?.trim_start_matches(['"', '\'']);
        let rest = rest.strip_prefix(':')?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let rest = rest.trim_start_matches([' ', '"', '\'']);
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        Some((indent, &rest[..end])).filter(|(_, value)| !value.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let objects = read(text)
            .into_iter()
            .filter_map(|kinds| kinds.into_iter().next());
        let told = objects.map(|(kind, document)| {
            let metadata = document.get("metadata").unwrap();
            let text = |key| metadata.get(key).and_then(Node::as_str).unwrap_or("-");
            format!("{} {}/{}", kind.name(), text("namespace"), text("name"))
        });
        told.collect()
    }

    #[test]
    fn kind_name_and_namespace_are_found_however_they_are_written() {
        let block = "apiVersion: a/v1\nkind: AuthorizationPolicy\nmetadata:\n  namespace: shop # ours\n  name: p\nspec: {a: [";
        let flow =
            "kind: \"AuthorizationPolicy\"\nmetadata: {name: p, namespace: 'shop'}\n\tspec: x";
        let json = "{\"kind\": \"AuthorizationPolicy\", \"metadata\": {\"name\": \"p\", \"namespace\": \"shop\"}, \"spec\": ";
        let last = "spec:\n  targetRefs:\n  - kind: Gateway\n    name: g\n  x: [\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}";
        for text in [block, flow, json, last] {
            assert_eq!(told(text), ["AuthorizationPolicy shop/p"], "{text}");
        }
        for text in ["", "kind:", "kind: Unheard", "a: {"] {
            assert!(read(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn each_item_of_a_list_is_found() {
        let wanted = ["AuthorizationPolicy shop/p", "PeerAuthentication shop/q"];
        let block = "kind: List\nitems:\n- kind: AuthorizationPolicy\n  metadata: {name: p, namespace: shop}\n  spec:\n    rules:\n    - {\n\
                     - metadata: {name: q, namespace: shop}\n  kind: PeerAuthentication\n";
        let flow = "{\"kind\": \"List\", \"items\": [{\"kind\": \"AuthorizationPolicy\", \"metadata\": {\"name\": \"p\", \"namespace\": \"shop\"}}, \
                    {\"kind\": \"PeerAuthentication\", \"metadata\": {\"namespace\": \"shop\", \"name\": \"q\"}, ";
        for text in [block, flow] {
            assert_eq!(told(text), wanted, "{text}");
        }
        let one = "kind: PeerAuthenticationList\nitems:\n  - metadata: {name: q, namespace: shop}\n    spec: [\n";
        assert_eq!(told(one), ["PeerAuthentication shop/q"]);
    }
}
