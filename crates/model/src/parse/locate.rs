//! Where a field stands in the text that an object was read from.
//!
//! Objects in a store remember the line of their document only. Who shows a finding about one of their fields reads
//! the text again and asks here.

use std::cell::OnceCell;

use crate::diagnostic::Excerpt;

use super::node::{Node, Span, Value};
use super::{secret, yaml};

/// A text by the places of its fields. Documents are read when one of their fields is asked for.
pub struct Locator<'a> {
    lines: Vec<&'a str>,
    documents: Vec<(yaml::Part<'a>, OnceCell<Option<Node<'a>>>)>,
}

impl<'a> Locator<'a> {
    /// Takes a text; documents that cannot be read hold no field.
    pub fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().collect(),
            documents: yaml::parts(text).map(|p| (p, OnceCell::new())).collect(),
        }
    }

    /// The line that holds a field of the object whose document or list item begins at `line`, or the innermost part
    /// of the way to it that is there. The empty path is the name of the object.
    pub fn find(&self, line: u32, path: &str) -> Option<Excerpt> {
        self.excerpt(line, path, false)
    }

    /// As [`Locator::find`], the name of the field and not its value.
    pub fn find_name(&self, line: u32, path: &str) -> Option<Excerpt> {
        self.excerpt(line, path, true)
    }

    fn excerpt(&self, line: u32, path: &str, of_name: bool) -> Option<Excerpt> {
        let object = self.object(line)?;
        let path = match path {
            "" => "metadata.name",
            path => path,
        };
        let span = walk(object, path, of_name);
        let mut excerpt = super::excerpt(&self.lines, span)?;
        if secret::is_in(object) {
            secret::conceal(&mut excerpt);
        }
        Some(excerpt)
    }

    fn object(&self, line: u32) -> Option<&Node<'a>> {
        let at = self
            .documents
            .partition_point(|(part, _)| part.line <= line);
        let (part, document) = self.documents.get(at.checked_sub(1)?)?;
        let document = document.get_or_init(|| part.read()?.node.ok());
        let document = document.as_ref()?;
        if part.line == line {
            return Some(document);
        }
        let items = match document.get("items").map(|n| &n.value) {
            Some(Value::Seq(items)) => items,
            _ => return Some(document),
        };
        items.iter().find(|item| item.span.line == line)
    }
}

/// The place of the last step of a path that is there: of its value, or of its name.
fn walk(object: &Node<'_>, path: &str, of_name: bool) -> Span {
    let (mut at, mut span) = (object, object.span);
    for step in steps(path) {
        let next = match &at.value {
            Value::Seq(items) => step
                .parse::<usize>()
                .ok()
                .and_then(|i| items.get(i))
                .map(|item| (item.span, item)),
            Value::Map(entries) => entries
                .iter()
                .find(|e| *e.key == *step)
                .map(|e| (e.at, &e.value)),
            _ => None,
        };
        let Some((place, node)) = next else { break };
        (span, at) = (place, node);
    }
    // A value says more than its key does, where it is one.
    match &at.value {
        Value::Map(_) | Value::Seq(_) | Value::Null => span,
        _ if of_name => span,
        _ => at.span,
    }
}

/// The steps of a path as `spec.http[0].headers["a.b"]`.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let end = quoted.find("\"]").unwrap_or(quoted.len());
            steps.push(quoted[..end].to_owned());
            rest = quoted.get(end + 2..).unwrap_or_default();
        } else {
            let plain = rest.trim_start_matches(['.', '[']);
            let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
            steps.push(plain[..end].to_owned());
            rest = plain[end..].trim_start_matches([']', '.']);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, Locator, steps};

    #[test]
    fn paths_are_cut_into_steps() {
        assert_eq!(
            steps("spec.http[0].headers[\"a.b\"].exact"),
            ["spec", "http", "0", "headers", "a.b", "exact"]
        );
        assert_eq!(steps("a[1][\"x/y\"]"), ["a", "1", "x/y"]);
        assert_eq!(steps("[\"broken"), ["broken"]);
    }

    #[test]
    fn a_field_is_found_in_its_document_and_a_missing_one_at_its_parent() {
        let text =
            "a: 1\n---\nmetadata:\n  name: x\nspec:\n  ports:\n  - number: 1\n  - number: 2\n";
        let locator = Locator::new(text);
        let at = |path: &str| locator.find(3, path).map(|e| (e.line, e.column));
        assert_eq!(at("spec.ports[1].number"), Some((8, 13)));
        assert_eq!(at("spec.ports[1].name"), Some((8, 5)));
        assert_eq!(at(""), Some((4, 9)));
        assert_eq!(Locator::new("").find(1, "a"), None);
    }

    #[test]
    fn the_name_of_an_annotation_is_found_and_its_value() {
        let text = "metadata:\n  name: x\n  annotations:\n    a.test/b: \"1\"\n    'a.test/c': 2\nkind: Ingress\n";
        let locator = Locator::new(text);
        let place = |found: Option<Excerpt>| found.map(|e| (e.line, e.column, e.length));
        let b = "metadata.annotations[\"a.test/b\"]";
        assert_eq!(place(locator.find_name(1, b)), Some((4, 5, 8)));
        assert_eq!(place(locator.find(1, b)), Some((4, 15, 3)));
        let c = "metadata.annotations[\"a.test/c\"]";
        assert_eq!(place(locator.find_name(1, c)).map(|at| at.1), Some(5));
    }

    #[test]
    fn objects_of_a_list_are_found_by_their_own_line() {
        let text = "kind: List\nitems:\n- metadata:\n    name: a\n- metadata:\n    name: b\n";
        let locator = Locator::new(text);
        assert_eq!(locator.find(5, "metadata.name").map(|e| e.line), Some(6));
    }
}
