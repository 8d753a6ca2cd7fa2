//! Lists of objects: `kind: List`, and lists of one kind.

use std::collections::BTreeMap;

use super::check::field_help;
use super::head::{self, near};
use super::nearest::distance;
use super::node::{Entry, Node, Step, Value};
use super::{Reader, code, yaml};

/// The fields of a list.
const FIELDS: [&str; 4] = ["apiVersion", "items", "kind", "metadata"];

/// Whether a kind is that of lists of any kind, misspelt or not.
pub(super) fn is_list(kind: &str) -> bool {
    distance(kind, "List") <= 1
}

/// The kind of what a list holds, empty where each item says its own; none where a kind is not that of a list.
pub(super) fn listed(kind: &str) -> Option<&str> {
    if is_list(kind) {
        return Some("");
    }
    let (of, end) = kind.split_at_checked(kind.len().saturating_sub("List".len()))?;
    end.eq_ignore_ascii_case("List").then_some(of)
}

impl Reader<'_> {
    /// Reads each object of a list; items that name no kind have that of the list.
    pub(super) fn list<'n>(
        &mut self,
        mut node: Node<'n>,
        line: u32,
        kind: &str,
        api_version: &str,
        twice: Vec<yaml::Duplicate<'n>>,
    ) {
        let of_items = self.of_items(line, kind, twice);
        let is_unknown = |entry: &&Entry<'n>| !FIELDS.contains(&&*entry.key);
        let unknown: Vec<Entry<'n>> = match node.entries() {
            Some(entries) => entries.iter().filter(is_unknown).cloned().collect(),
            None => Vec::new(),
        };
        for entry in &unknown {
            let at = Node {
                value: Value::Null,
                span: entry.at,
            };
            let message = format!("unknown field `{}`", entry.key);
            let help = field_help(&entry.key, FIELDS.into_iter());
            self.refuse(&at, line, code::UNKNOWN_FIELD, message, help);
            self.close_items(&entry.value, kind);
        }
        let items = match node.take("items").map(|entry| entry.value) {
            Some(items) => items,
            None if unknown.is_empty() => {
                let message = "the list has no items".to_owned();
                return self.refuse(&node, line, code::NO_OBJECT, message, None);
            }
            None => return,
        };
        match items.value {
            Value::Null => {}
            Value::Seq(items) => self.items(items, kind, api_version, of_items),
            _ => {
                let message = format!("expected a list, found {}", items.value.form());
                self.refuse(&items, line, code::INVALID, message, None);
                self.close_items(&items, kind);
            }
        }
    }

    /// Refuses a list whose kind is misspelt, and closes what its items are to protect.
    pub(super) fn misspelt_list(&mut self, node: &Node<'_>, line: u32, kind: &str) {
        let message = format!("unknown kind {kind:?}");
        let help = Some("did you mean List?".to_owned());
        let at = node.get("kind").unwrap_or(node);
        self.refuse(at, line, code::UNKNOWN_KIND, message, help);
        if let Some(items) = near(node, "items") {
            self.close_items(items, "");
        }
    }

    fn items<'n>(
        &mut self,
        items: Vec<Node<'n>>,
        kind: &str,
        api_version: &str,
        mut twice: BTreeMap<usize, Vec<yaml::Duplicate<'n>>>,
    ) {
        for (index, mut item) in items.into_iter().enumerate() {
            let line = item.span.line;
            if let (Value::Map(entries), false) = (&mut item.value, kind.is_empty()) {
                for (field, text) in [("kind", kind), ("apiVersion", api_version)] {
                    if !entries.iter().any(|e| e.key == field) {
                        let value = Value::String(text.to_owned().into());
                        entries.push(Entry {
                            key: field.into(),
                            at: item.span,
                            value: Node {
                                value,
                                span: item.span,
                            },
                        });
                    }
                }
            }
            self.items.push(index);
            self.node(item, line, twice.remove(&index).unwrap_or_default());
            self.items.pop();
        }
    }

    /// The keys that stand twice within items. Others are wrong with the list itself; what stands in the first of two `items` is
    /// closed.
    fn of_items<'n>(
        &mut self,
        line: u32,
        kind: &str,
        twice: Vec<yaml::Duplicate<'n>>,
    ) -> BTreeMap<usize, Vec<yaml::Duplicate<'n>>> {
        let mut of_items: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for mut duplicate in twice {
            let is_items = |step: &Step| matches!(step, Step::Field(field) if &**field == "items");
            let path = &mut duplicate.path.0;
            match path.as_slice() {
                [items, Step::Index(index), _, ..] if is_items(items) => {
                    let index = *index;
                    path.drain(..2);
                    of_items.entry(index).or_default().push(duplicate);
                    continue;
                }
                _ => {}
            }
            let at = Node {
                value: Value::Null,
                span: duplicate.span,
            };
            let message = duplicate.message();
            self.refuse(&at, line, code::DUPLICATE_KEY, message, None);
            if duplicate.path.0.first().is_some_and(is_items) {
                self.close_items(&duplicate.earlier, kind);
            }
        }
        of_items
    }

    /// Closes what the items of a list are to protect that is not read; items that name no kind have that of the list. They may
    /// stand in a map, or one of them in the place of all.
    pub(super) fn close_items(&mut self, items: &Node<'_>, kind: &str) {
        match &items.value {
            Value::Seq(all) => all.iter().for_each(|item| self.close_item(item, kind)),
            Value::Map(all) if near(items, "metadata").is_none() => all
                .iter()
                .for_each(|entry| self.close_item(&entry.value, kind)),
            Value::Map(_) => self.close_item(items, kind),
            _ => {}
        }
    }

    /// Closes an object, or a list, that stands where nothing is read.
    fn close_item(&mut self, item: &Node<'_>, kind: &str) {
        let stated = near(item, "kind").and_then(Node::as_str);
        if let Some((of, items)) = stated.and_then(listed).zip(near(item, "items")) {
            return self.close_items(items, of);
        }
        let mut kinds = head::kinds(item, kind).into_iter();
        kinds.any(|kind| self.add_closed(item, item.span.line, kind));
    }
}
