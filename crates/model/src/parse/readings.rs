//! What else a document may mean in which keys stand twice.
//!
//! The last one counts, as in Kubernetes. Whoever wrote the first one may have meant that, though: for what protects, each reading is
//! looked at, and what any of them closes is closed.

use super::node::{Entry, Node, Step, Value};
use super::yaml::Duplicate;

/// So many further readings of a document are looked at, those first that differ farther up.
const MOST: usize = 16;

/// The documents that there would be if the first of two keys counted, for one pair of keys each.
pub(super) fn of<'a>(document: &Node<'a>, mut twice: Vec<Duplicate<'a>>) -> Vec<Node<'a>> {
    twice.sort_by_key(|duplicate| duplicate.path.0.len());
    twice.truncate(MOST);
    let readings = twice.into_iter().filter_map(|duplicate| {
        let mut reading = document.clone();
        put(&mut reading, &duplicate.path.0, duplicate.earlier).then_some(reading)
    });
    readings.collect()
}

/// Puts a value into a place, which there may not be now; whether there is such a place.
fn put<'a>(node: &mut Node<'a>, path: &[Step], value: Node<'a>) -> bool {
    let Some((step, rest)) = path.split_first() else {
        *node = value;
        return true;
    };
    match (step, &mut node.value) {
        // What is merged stands in the map itself.
        (Step::Field(field), _) if &**field == "<<" => put(node, rest, value),
        (Step::Index(index), Value::Seq(items)) => items
            .get_mut(*index)
            .is_some_and(|item| put(item, rest, value)),
        (Step::Field(field), Value::Map(entries)) => {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == **field) {
                return put(&mut entry.value, rest, value);
            }
            let (at, span) = (value.span, value.span);
            let mut inner = Node {
                value: Value::Map(Vec::new()),
                span,
            };
            let is_there = put(&mut inner, rest, value);
            entries.push(Entry {
                key: field.to_string().into(),
                at,
                value: inner,
            });
            is_there
        }
        _ => false,
    }
}
