//! What stays in force of a file that is refused in part: what was valid before, else the substitute of what protects.

use std::collections::{HashMap, HashSet};

use model::ObjectKey;
use model::parse::Document;

/// A document, and whether its object is that of an earlier version of the file.
pub(super) struct Kept {
    pub(super) document: Document,
    pub(super) kept: bool,
}

/// The documents of a new version of a file. One that is refused keeps the valid object of its key from the version before,
/// or, where it is too broken to have a key, what was in force at its position. Otherwise its substitute, if it has one, is
/// its object.
pub(super) fn keep(before: &[Document], after: Vec<Document>) -> Vec<Kept> {
    let mut known: HashSet<ObjectKey> = after.iter().filter_map(|d| d.key.clone()).collect();
    let last_by_key: HashMap<&ObjectKey, &Document> = before
        .iter()
        .filter(|d| d.object.as_ref().is_some_and(|o| o.meta().closed.is_none()))
        .filter_map(|d| Some((d.key.as_ref()?, d)))
        .collect();
    let broken_end = after.last().is_some_and(is_broken);
    let mut result = Vec::with_capacity(after.len());
    for (at, document) in after.into_iter().enumerate() {
        let last = match (&document.object, &document.key) {
            (Some(_), _) => None,
            (None, Some(key)) => last_by_key.get(key).copied(),
            (None, None) => before.get(at).filter(|d| {
                d.object.is_some() && d.key.as_ref().is_some_and(|key| known.insert(key.clone()))
            }),
        };
        result.push(Kept {
            kept: last.is_some(),
            document: last.cloned().unwrap_or_else(|| closed(document)),
        });
    }
    // A text that breaks off hides what stood behind the break.
    if broken_end {
        let hidden = before.iter().filter(|d| {
            d.object.is_some() && d.key.as_ref().is_some_and(|key| known.insert(key.clone()))
        });
        result.extend(hidden.cloned().map(|document| Kept {
            document,
            kept: true,
        }));
    }
    result
}

/// A document for which nothing better is known.
fn closed(mut document: Document) -> Document {
    let substitute = document.substitute.take();
    document.object = document.object.or(substitute);
    document
}

/// Whether not even its key could be read.
fn is_broken(document: &Document) -> bool {
    document.key.is_none() && document.object.is_none()
}
