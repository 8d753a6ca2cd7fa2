//! What stays in force of a file that is refused in part: what was valid before, else the substitute of what protects.

use std::collections::{HashMap, HashSet};

use model::ObjectKey;
use model::kinds::AnyObject;
use model::parse::Document;

/// What stands at one position of a file.
#[derive(Clone, Debug)]
pub(super) struct Stood {
    /// What is in force because of it.
    pub(super) object: Option<AnyObject>,
    /// The key of a document that was refused, where that much could be read: others have that of their object.
    refused: Option<Box<ObjectKey>>,
}

impl Stood {
    /// The key of the document.
    fn key(&self) -> Option<ObjectKey> {
        match &self.object {
            Some(object) if object.meta().closed.is_none() => Some(object.key()),
            _ => self.refused.as_deref().cloned(),
        }
    }

    /// Whether its object is one that was read, and not a substitute.
    fn is_valid(&self) -> bool {
        let object = self.object.as_ref();
        object.is_some_and(|object| object.meta().closed.is_none())
    }
}

impl From<Document> for Stood {
    /// A document for which nothing better is known.
    fn from(document: Document) -> Self {
        match document.object {
            Some(object) => Self {
                object: Some(object),
                refused: None,
            },
            None => Self {
                object: document.substitute,
                refused: document.key.map(Box::new),
            },
        }
    }
}

/// What stands at a position, and whether it is that of an earlier version of the file.
pub(super) struct Kept {
    pub(super) stood: Stood,
    pub(super) kept: bool,
}

/// The documents of a new version of a file. One that is refused keeps the valid object of its key from the version before,
/// or, where it is too broken to have a key, what was in force at its position. Otherwise its substitute, if it has one, is
/// its object.
pub(super) fn keep(before: &[Stood], after: Vec<Document>) -> Vec<Kept> {
    let as_it_is = |document: Document| Kept {
        stood: document.into(),
        kept: false,
    };
    if after.iter().all(|document| document.object.is_some()) {
        return after.into_iter().map(as_it_is).collect();
    }
    let mut known: HashSet<ObjectKey> = after.iter().filter_map(|d| d.key.clone()).collect();
    let last_by_key: HashMap<ObjectKey, &Stood> = before
        .iter()
        .filter(|stood| stood.is_valid())
        .filter_map(|stood| Some((stood.key()?, stood)))
        .collect();
    let broken_end = after.last().is_some_and(is_broken);
    let mut result = Vec::with_capacity(after.len());
    for (at, mut document) in after.into_iter().enumerate() {
        // Of an object that is in force nothing else is closed.
        let beside = document.beside.as_ref();
        if beside.is_some_and(|object| last_by_key.contains_key(object)) {
            document.substitute = None;
        }
        let last = match (&document.object, &document.key) {
            (Some(_), _) => None,
            (None, Some(key)) => last_by_key.get(key).copied(),
            (None, None) => before.get(at).filter(|stood| {
                stood.object.is_some() && stood.key().is_some_and(|key| known.insert(key))
            }),
        };
        result.push(match last {
            Some(last) => Kept {
                stood: last.clone(),
                kept: true,
            },
            None => as_it_is(document),
        });
    }
    // A text that breaks off hides what stood behind the break.
    if broken_end {
        let hidden = before.iter().filter(|stood| {
            stood.object.is_some() && stood.key().is_some_and(|key| known.insert(key))
        });
        result.extend(hidden.cloned().map(|stood| Kept { stood, kept: true }));
    }
    result
}

/// Whether nobody knows where it ends, or not even its key could be read.
fn is_broken(document: &Document) -> bool {
    document.object.is_none() && (document.is_broken || document.key.is_none())
}
