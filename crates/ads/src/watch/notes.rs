//! Where a client deviates from what it was sent, name by name, and how much of it there is.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How a client deviates from the set that the last response was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// It asked, and waits for the resource or for word that there is none.
    Asked,
    /// It said at a reconnect that it has this version; `None` if the version is not one of ours.
    Has(Option<u64>),
    /// It refused this version, and may have an older one.
    Rejected(u64),
}

/// The notes of one type on one stream. What is asked of all of them is counted, and not looked for.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    by_name: BTreeMap<Arc<str>, Note>,
    asked: usize,
    rejected: usize,
    bytes: usize,
}

impl Notes {
    /// The note about a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Note> {
        self.by_name.get(name)
    }

    /// Whether there is a note about a name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The names, in ascending order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    /// Makes a note, in place of one about the same name.
    pub(crate) fn insert(&mut self, name: Arc<str>, note: Note) {
        let len = name.len();
        self.count(note, len, true);
        if let Some(old) = self.by_name.insert(name, note) {
            self.count(old, len, false);
        }
    }

    /// Drops the note about a name.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(old) = self.by_name.remove(name) {
            self.count(old, name.len(), false);
        }
    }

    /// Drops the notes that are not to be kept.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, Note) -> bool) {
        let mut notes = std::mem::take(&mut self.by_name);
        notes.retain(|name, note| {
            let kept = keep(name, *note);
            if !kept {
                self.count(*note, name.len(), false);
            }
            kept
        });
        self.by_name = notes;
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// What their names are long, all together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the client asked for something and waits.
    pub(crate) fn asked(&self) -> bool {
        self.asked > 0
    }

    /// Whether the client refused something.
    pub(crate) fn rejected(&self) -> bool {
        self.rejected > 0
    }

    fn count(&mut self, note: Note, bytes: usize, more: bool) {
        let add = |figure: &mut usize, by: usize| {
            *figure = if more { *figure + by } else { *figure - by };
        };
        add(&mut self.bytes, bytes);
        match note {
            Note::Asked => add(&mut self.asked, 1),
            Note::Rejected(_) => add(&mut self.rejected, 1),
            Note::Has(_) => {}
        }
    }
}
