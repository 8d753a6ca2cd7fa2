//! What a control plane has said, topic by topic, and what follows from what it says next.
//!
//! Pure: a response goes in, steps come out. A whole list replaces the previous one, and each difference in content is a step. A
//! lost stream changes nothing. A resource that cannot be decoded keeps its previous version, and if the name of any resource
//! in a list cannot be decoded, nothing is deleted. A state older than the one in force, as from a replica that lags
//! behind, takes effect unless a newer one arrives within [`Limits::doubt`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::age::{has_age, is_older};
use crate::limits::Limits;

/// Versions of deleted resources that are remembered, for each topic.
const MOST_GONE: usize = 10_000;

/// A resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// `NAMESPACE/NAME`.
    pub name: Arc<str>,
    /// The version of the object.
    pub version: Arc<str>,
    /// The version of the resource, as incremental responses have it.
    pub wire_version: Arc<str>,
    /// Of what it says, however that is encoded.
    pub digest: u128,
    /// Whether its content can be read, beside its name.
    pub is_readable: bool,
    /// The encoded message.
    pub body: Bytes,
}

/// A response.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Which state it is, in words of the other side.
    pub stamp: Arc<str>,
    /// Whether what is not in it is gone.
    pub is_whole: bool,
    /// What there is, or what is new in an incremental response.
    pub entries: Vec<Entry>,
    /// What is gone, in an incremental response.
    pub removed: Vec<Arc<str>>,
    /// How many resources have no name that can be read.
    pub nameless: usize,
}

/// What is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A resource is there, new or changed.
    Put(Entry),
    /// It is gone.
    Delete(Arc<str>),
    /// All of the topic has been told.
    Whole,
}

/// What follows from a response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// What is to be told, in this order.
    pub steps: Vec<Step>,
    /// Whether there is something to keep on disk.
    pub is_changed: bool,
    /// Whether something is older than what is in force, and not believed yet.
    pub is_doubted: bool,
    /// Why nothing of it is taken.
    pub refused: Option<String>,
}

/// Everything that one control plane has said.
#[derive(Debug)]
pub struct Book {
    shelves: Vec<Shelf>,
    limits: Limits,
}

/// What it has said of one topic.
#[derive(Debug, Default)]
struct Shelf {
    entries: BTreeMap<Arc<str>, Entry>,
    bytes: usize,
    /// Which versions were deleted.
    gone: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether anything was ever said, if only that there is nothing.
    is_known: bool,
    /// Whether everything was ever said in a way that can be read, but for the content of what has a name.
    is_read: bool,
    /// Whether the newest list, or any difference of the stream, has resources without a name.
    is_damaged: bool,
    /// Whether it was told since the run began.
    is_told: bool,
    /// Whether the stream has answered.
    is_answered: bool,
    /// The state of the stream that is in force.
    stamp: Option<Arc<str>>,
    /// Since when only older states are heard.
    doubted_since: Option<Duration>,
    doubted: Option<Said>,
}

impl Book {
    /// A book of so many topics, in which nothing stands.
    pub fn new(topics: usize, limits: Limits) -> Self {
        Self {
            shelves: (0..topics).map(|_| Shelf::default()).collect(),
            limits,
        }
    }

    /// Takes in what was kept of a topic on disk.
    pub fn restore(&mut self, topic: usize, entries: Vec<Entry>) {
        if let Some(shelf) = self.shelves.get_mut(topic) {
            shelf.is_known = true;
            shelf.is_read = true;
            for entry in entries {
                shelf.put(entry);
            }
        }
    }

    /// Whether anything was ever said of a topic, if only that there is nothing.
    pub fn is_known(&self, topic: usize) -> bool {
        self.shelves.get(topic).is_some_and(|shelf| shelf.is_known)
    }

    /// Whether everything of a topic was ever read, if only that there is nothing. Resources without a name may be anything.
    pub fn is_read(&self, topic: usize) -> bool {
        self.shelves.get(topic).is_some_and(|shelf| shelf.is_read)
    }

    /// A run begins: everything is to be told again.
    pub fn begin(&mut self) {
        for shelf in &mut self.shelves {
            shelf.is_told = false;
        }
    }

    /// Tells what is known of a topic, if anything is.
    pub fn tell(&mut self, topic: usize) -> Vec<Step> {
        let shelf = self.shelves.get_mut(topic);
        shelf.map(Shelf::tell).unwrap_or_default()
    }

    /// A stream begins.
    pub fn open(&mut self) {
        for shelf in &mut self.shelves {
            shelf.is_answered = false;
            shelf.is_damaged = false;
            shelf.stamp = None;
            shelf.doubted = None;
        }
    }

    /// The topics that the stream has not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = usize> {
        let shelves = self.shelves.iter().enumerate();
        shelves.filter(|(_, s)| !s.is_answered).map(|(n, _)| n)
    }

    /// What is in force of a topic.
    pub fn entries(&self, topic: usize) -> impl Iterator<Item = &Entry> {
        let shelf = self.shelves.get(topic).into_iter();
        shelf.flat_map(|shelf| shelf.entries.values())
    }

    /// Takes in a response. `now` is any clock that only goes forward.
    pub fn take(&mut self, topic: usize, said: Said, now: Duration) -> Outcome {
        let others: usize = self.bytes_beside(topic);
        let Some(shelf) = self.shelves.get_mut(topic) else {
            return Outcome::default();
        };
        if let Some(why) = shelf.is_too_much(&said, others, &self.limits) {
            return Outcome {
                refused: Some(why),
                ..Outcome::default()
            };
        }
        shelf.is_answered = true;
        match said.is_whole {
            true => shelf.take_whole(said, now, self.limits.doubt),
            false => shelf.take_parts(said, now),
        }
    }

    /// When [`Book::expire`] has something to do next.
    pub fn due(&self) -> Option<Duration> {
        let doubted = self.shelves.iter().filter(|s| s.doubted.is_some());
        let since = doubted.filter_map(|s| s.doubted_since).min()?;
        Some(since + self.limits.doubt)
    }

    /// Believes the older states that nobody has contradicted for long enough.
    pub fn expire(&mut self, now: Duration) -> Vec<(usize, Outcome)> {
        let mut out = Vec::new();
        for (topic, shelf) in self.shelves.iter_mut().enumerate() {
            let since = shelf.doubted_since.filter(|_| shelf.doubted.is_some());
            if since.is_none_or(|since| now < since + self.limits.doubt) {
                continue;
            }
            shelf.doubted_since = None;
            if let Some(said) = shelf.doubted.take() {
                out.push((topic, shelf.apply(said)));
            }
        }
        out
    }

    fn bytes_beside(&self, topic: usize) -> usize {
        let shelves = self.shelves.iter().enumerate();
        let others = shelves.filter(|(n, _)| *n != topic);
        others.map(|(_, shelf)| shelf.bytes).sum()
    }
}

impl Shelf {
    /// Why a response is not taken at all.
    fn is_too_much(&self, said: &Said, others: usize, limits: &Limits) -> Option<String> {
        let named = said.entries.iter();
        let (mut count, mut bytes) = (said.entries.len(), 0);
        for entry in named {
            bytes += entry.body.len();
        }
        if !said.is_whole {
            let known = said
                .entries
                .iter()
                .filter(|e| self.entries.contains_key(&e.name));
            let replaced = known.count() + said.removed.len();
            count += self.entries.len().saturating_sub(replaced);
            bytes += self.bytes;
        }
        if count > limits.resources {
            let most = limits.resources;
            return Some(format!(
                "{count} resources of a type; at most {most} are taken"
            ));
        }
        let (all, most) = (others + bytes, limits.bytes);
        (all > most).then(|| format!("{all} bytes of resources; at most {most} are taken"))
    }

    fn take_whole(&mut self, said: Said, now: Duration, doubt: Duration) -> Outcome {
        self.doubted = None;
        let is_older =
            self.has_moved_on(&said.stamp) || said.entries.iter().any(|entry| self.is_older(entry));
        if !is_older {
            self.doubted_since = None;
            return self.apply(said);
        }
        let since = *self.doubted_since.get_or_insert(now);
        if now >= since + doubt {
            self.doubted_since = None;
            return self.apply(said);
        }
        self.doubted = Some(said);
        Outcome {
            steps: self.tell_once(),
            is_doubted: true,
            ..Outcome::default()
        }
    }

    /// Takes in what is new in an incremental response, but for what is older than what is in force.
    fn take_parts(&mut self, mut said: Said, now: Duration) -> Outcome {
        let (older, newer): (Vec<Entry>, Vec<Entry>) =
            said.entries.into_iter().partition(|e| self.is_older(e));
        said.entries = newer;
        if let Some(doubted) = &mut self.doubted {
            let told: BTreeSet<&Arc<str>> = said.entries.iter().map(|e| &e.name).collect();
            let again: BTreeSet<&Arc<str>> = older.iter().map(|e| &e.name).collect();
            doubted.entries.retain(|e| {
                let name = &e.name;
                !told.contains(name) && !again.contains(name) && !said.removed.contains(name)
            });
        }
        let is_doubted = !older.is_empty();
        if is_doubted {
            self.doubted_since.get_or_insert(now);
            let doubted = self.doubted.get_or_insert_default();
            doubted.entries.extend(older);
        }
        if self.doubted.as_ref().is_some_and(|d| d.entries.is_empty()) {
            self.doubted = None;
            self.doubted_since = None;
        }
        Outcome {
            is_doubted,
            ..self.apply(said)
        }
    }

    /// Whether the stream has told a later state than this one.
    fn has_moved_on(&self, stamp: &str) -> bool {
        let known = self.stamp.as_ref();
        known.is_some_and(|known| is_older(stamp, known))
    }

    /// Whether a resource says what is over: an earlier version, or one that was deleted.
    fn is_older(&self, entry: &Entry) -> bool {
        let is_older_than = |known: &Entry| {
            known.digest != entry.digest && is_older(&entry.version, &known.version)
        };
        let is_gone = |version: &Arc<str>| {
            is_older(&entry.version, version) || (*version == entry.version && has_age(version))
        };
        self.entries.get(&entry.name).is_some_and(is_older_than)
            || self.gone.get(&entry.name).is_some_and(is_gone)
    }

    /// Puts what was said in force.
    fn apply(&mut self, said: Said) -> Outcome {
        let mut steps = Vec::new();
        for name in self.dropped(&said) {
            if let Some(entry) = self.entries.remove(&name) {
                self.bytes -= entry.body.len();
                self.note_gone(entry);
                steps.push(Step::Delete(name));
            }
        }
        for entry in said.entries {
            if self.put(entry.clone()) {
                steps.push(Step::Put(entry));
            }
        }
        self.is_known = true;
        self.is_damaged = said.nameless > 0 || (self.is_damaged && !said.is_whole);
        let was_read = self.is_read;
        self.is_read |= !self.is_damaged;
        if !said.stamp.is_empty() {
            self.stamp = Some(said.stamp);
        }
        // A list of which not everything was read is none for the next start.
        let is_changed = self.is_read && (!was_read || !steps.is_empty());
        if !self.is_told {
            steps = self.tell();
        }
        Outcome {
            steps,
            is_changed,
            ..Outcome::default()
        }
    }

    /// What is in force and gone by what was said.
    fn dropped(&self, said: &Said) -> Vec<Arc<str>> {
        if !said.is_whole {
            return said.removed.clone();
        }
        if said.nameless > 0 {
            return Vec::new();
        }
        let named: BTreeSet<&Arc<str>> = said.entries.iter().map(|e| &e.name).collect();
        let gone = self.entries.keys().filter(|name| !named.contains(name));
        gone.cloned().collect()
    }

    /// Puts a resource in force. Returns whether it is another than before.
    fn put(&mut self, entry: Entry) -> bool {
        let known = self.entries.get(&entry.name);
        if known.is_some_and(|known| known.is_readable && !entry.is_readable) {
            return false;
        }
        let same =
            |known: &Entry| known.digest == entry.digest && known.is_readable == entry.is_readable;
        let is_same = known.is_some_and(same);
        self.gone.remove(&entry.name);
        self.bytes += entry.body.len();
        if let Some(former) = self.entries.insert(entry.name.clone(), entry) {
            self.bytes -= former.body.len();
        }
        !is_same
    }

    fn note_gone(&mut self, entry: Entry) {
        if !has_age(&entry.version) {
            return;
        }
        if self.gone.len() >= MOST_GONE {
            self.gone.clear();
        }
        self.gone.insert(entry.name, entry.version);
    }

    /// Tells what is in force, unless the run has told it already.
    fn tell_once(&mut self) -> Vec<Step> {
        match self.is_told {
            true => Vec::new(),
            false => self.tell(),
        }
    }

    fn tell(&mut self) -> Vec<Step> {
        if !self.is_known {
            return Vec::new();
        }
        self.is_told = true;
        let entries = self.entries.values().cloned().map(Step::Put);
        entries.chain([Step::Whole]).collect()
    }
}

#[cfg(test)]
mod tests;
