//! Every entry that this replica looks after: who is connected, what is written next, and how much at once. Without
//! sockets, clocks or tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use model::Kind;
use model::object::{ObjectKey, ObjectName};
use serde_json::Value;
use writeback::WriteError;

use crate::claim::{Claim, Wish};
use crate::entry::{Cause, Entry, Known, Next, Op, Orphaned, Purpose};
use crate::object::{Report, Seen};
use crate::refusal::Refusal;
use crate::{ConnectionId, Note, Now, Options, View};

/// A write that is to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// Of this entry.
    pub entry: ObjectName,
    /// What for.
    pub purpose: Purpose,
    /// What to ask.
    pub op: Op,
}

/// Whether a stream may be served.
pub type Answer = (ConnectionId, Result<(), Refusal>);

/// Every entry that this replica looks after.
pub struct Core {
    options: Options,
    entries: BTreeMap<ObjectName, Entry>,
    connections: BTreeMap<ConnectionId, ObjectName>,
    /// Entries that workloads behind an address have.
    by_peer: BTreeMap<IpAddr, usize>,
    /// To be looked at.
    ready: VecDeque<ObjectName>,
    due: BTreeSet<(Duration, ObjectName)>,
    writing: usize,
    answers: Vec<Answer>,
    notes: Vec<Note>,
    /// Entries whose replica seems to be gone, and since when.
    orphans: BTreeMap<ObjectName, (Orphaned, Duration)>,
}

impl Core {
    /// Nobody is connected.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            entries: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            ready: VecDeque::new(),
            due: BTreeSet::new(),
            writing: 0,
            answers: Vec::new(),
            notes: Vec::new(),
            orphans: BTreeMap::new(),
        }
    }

    /// A workload connects. It is answered when it may be served: at once if its entry is in force.
    pub fn connect(&mut self, id: ConnectionId, claim: Claim, view: &dyn View, now: Now) {
        if let Err(refusal) = self.admit(&claim, view) {
            self.refuse(id, &claim, refusal);
            return;
        }
        let (name, peer) = (claim.entry.clone(), claim.peer);
        let claim = Arc::new(claim);
        let in_force = view.entry(&name).is_some();
        let before = self.entries.get(&name).and_then(Entry::peer);
        if before != Some(peer) {
            *self.by_peer.entry(peer).or_default() += 1;
            if let Some(before) = before {
                leave(&mut self.by_peer, before);
            }
        }
        let entry = self.entries.entry(name.clone()).or_insert_with(|| {
            let object = match in_force || !view.is_complete() {
                true => Known::Unknown,
                false => Known::Absent,
            };
            Entry::new(Cause::Claimed(claim.clone()), object)
        });
        entry.connect(id, claim, now);
        self.connections.insert(id, name.clone());
        if let Some(refusal) = entry.stands_refused(now) {
            self.answers.push((id, Err(refusal.clone())));
        } else if in_force || !view.is_complete() {
            self.answers.push((id, Ok(())));
        } else {
            entry.waiting.insert(id);
        }
        self.ready.push_back(name);
    }

    /// Whether a claim may be taken, as far as can be told without asking the API.
    fn admit(&self, claim: &Claim, view: &dyn View) -> Result<(), Refusal> {
        let checked = self.options.validate_identity;
        // Who is nobody stays so, whatever the configuration is.
        if checked && claim.identity.is_none() {
            return Err(Refusal::NoIdentity);
        }
        if view.is_complete() {
            let entry = view.entry(&claim.entry);
            if let Some(name) = claim.group() {
                let group = view.group(&name).ok_or_else(|| Refusal::UnknownGroup {
                    group: name.name.as_arc().clone(),
                    namespace: name.namespace.clone(),
                })?;
                claim.may_join(&group.object, checked)?;
            }
            match entry {
                Some(seen) => {
                    if let Some(why) = seen.is_taken(claim) {
                        return Err(Refusal::Taken(claim.entry.to_string().into(), why));
                    }
                    if claim.wish != Wish::LookAfter || seen.probed {
                        claim.may_have(&seen.service_account, checked)?;
                    }
                }
                None if claim.wish == Wish::LookAfter => return Err(Refusal::UnknownEntry),
                None => {}
            }
        }
        if self.entries.contains_key(&claim.entry) {
            return Ok(());
        }
        if self.entries.len() >= self.options.most_entries {
            return Err(Refusal::TooMany(""));
        }
        let of_peer = self.by_peer.get(&claim.peer).copied().unwrap_or_default();
        if of_peer >= self.options.most_entries_of_peer {
            return Err(Refusal::TooMany(" from one address"));
        }
        Ok(())
    }

    fn refuse(&mut self, id: ConnectionId, claim: &Claim, refusal: Refusal) {
        self.notes.push(Note::Refused {
            entry: claim.entry.clone(),
            refusal: refusal.clone(),
            told: true,
        });
        self.answers.push((id, Err(refusal)));
    }

    /// A workload is gone.
    pub fn disconnect(&mut self, id: ConnectionId, now: Now) {
        let Some(name) = self.connections.remove(&id) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&name)
            && !entry.disconnect(id, now)
        {
            self.ready.push_back(name);
        }
    }

    /// A workload's health was reported.
    pub fn report(&mut self, id: ConnectionId, report: Report) {
        let Some(name) = self.connections.get(&id) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(name) {
            entry.report(report);
            self.ready.push_back(name.clone());
        }
    }

    /// Other groups or entries are in force.
    pub fn seen(&mut self, changed: impl IntoIterator<Item = ObjectKey>, view: &dyn View) {
        for key in changed {
            match key.kind {
                Kind::WorkloadEntry => self.seen_entry(key.name, view),
                Kind::WorkloadGroup if view.group(&key.name).is_some() => {
                    self.seen_group(&key.name);
                }
                _ => {}
            }
        }
    }

    fn seen_entry(&mut self, name: ObjectName, view: &dyn View) {
        let Some(entry) = self.entries.get_mut(&name) else {
            return;
        };
        let seen = view.entry(&name);
        if seen.is_some() {
            let waiting = std::mem::take(&mut entry.waiting);
            self.answers
                .extend(waiting.into_iter().map(|id| (id, Ok(()))));
        }
        if entry.writing {
            entry.missed = true;
        } else {
            entry.seen(seen.as_ref());
            self.ready.push_back(name);
        }
    }

    fn seen_group(&mut self, group: &ObjectName) {
        for (name, entry) in &mut self.entries {
            let Cause::Claimed(claim) = &entry.cause else {
                continue;
            };
            if claim.group().is_some_and(|of| of == *group) {
                entry.group_came();
                self.ready.push_back(name.clone());
            }
        }
    }

    /// Everything has been read: what had to wait is looked at.
    pub fn completed(&mut self) {
        self.ready.extend(self.entries.keys().cloned());
    }

    /// Looks for entries whose workloads are connected to nobody: called now and then. `gone` are
    /// the replicas that are no more. An entry is cleaned up once it has been so for the grace period, by the clock of this
    /// replica.
    pub fn sweep(
        &mut self,
        registered: impl IntoIterator<Item = (ObjectName, Seen)>,
        gone: &BTreeSet<Arc<str>>,
        now: Now,
    ) {
        let mut before = std::mem::take(&mut self.orphans);
        for (name, seen) in registered {
            let cleaned = seen.group.is_some() || (seen.probed && seen.health.is_some());
            let left = match seen.connected {
                Some(_) => seen.controller.as_ref().is_some_and(|c| gone.contains(c)),
                None => seen.disconnected.is_some(),
            };
            if !cleaned || !left || self.entries.contains_key(&name) {
                continue;
            }
            let now_so = Orphaned::of(&seen);
            let since = match before.remove(&name) {
                Some((so, since)) if so == now_so => since,
                _ => now.since,
            };
            if now.since < since + self.options.grace {
                self.orphans.insert(name, (now_so, since));
                continue;
            }
            let entry = Entry::new(Cause::Orphaned(now_so), Known::Unknown);
            self.entries.insert(name.clone(), entry);
            self.ready.push_back(name);
        }
    }

    /// What is to be written next, if anything is and not too much is being written.
    pub fn next_write(&mut self, view: &dyn View, now: Now) -> Option<Write> {
        while let Some(first) = self.due.first()
            && first.0 <= now.since
            && let Some((_, name)) = self.due.pop_first()
        {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.due = None;
            }
            self.ready.push_back(name);
        }
        while self.writing < self.options.most_writes {
            let name = self.ready.pop_front()?;
            let Some(entry) = self.entries.get_mut(&name) else {
                continue;
            };
            if let Some(at) = entry.due.take() {
                self.due.remove(&(at, name.clone()));
            }
            match entry.next(view, &self.options, now) {
                Next::Rest => {}
                Next::Wait(at) => {
                    entry.due = Some(at);
                    self.due.insert((at, name));
                }
                Next::Forget => self.forget(&name),
                Next::Refuse(refusal) => self.refuse_waiting(&name, &refusal),
                Next::Write(purpose, op) => {
                    entry.writing = true;
                    self.writing += 1;
                    let entry = name;
                    return Some(Write { entry, purpose, op });
                }
            }
        }
        None
    }

    fn forget(&mut self, name: &ObjectName) {
        if let Some(peer) = self.entries.remove(name).and_then(|e| e.peer()) {
            leave(&mut self.by_peer, peer);
        }
    }

    fn refuse_waiting(&mut self, name: &ObjectName, refusal: &Refusal) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let waiting = std::mem::take(&mut entry.waiting);
        if !entry.refuse(refusal) {
            self.notes.push(Note::Refused {
                entry: name.clone(),
                refusal: refusal.clone(),
                told: !waiting.is_empty(),
            });
        }
        let refused = waiting.into_iter().map(|id| (id, Err(refusal.clone())));
        self.answers.extend(refused);
    }

    /// What a write came to. For a look: the object, if there is one.
    pub fn wrote(
        &mut self,
        write: &Write,
        result: Result<Option<Value>, WriteError>,
        view: &dyn View,
        now: Now,
    ) {
        self.writing -= 1;
        let name = &write.entry;
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let refused = match result {
            Ok(object) => {
                let note = note_of(write.purpose, name, entry.is_registered());
                let object = object.map_or(Known::Absent, Known::Object);
                entry.wrote(write.purpose, object, now);
                self.notes.extend(note);
                None
            }
            Err(WriteError::Conflict | WriteError::Exists) => {
                entry.mistaken(now);
                None
            }
            Err(WriteError::Missing) if write.purpose == Purpose::Register => Some(format!(
                "the API has no namespace {} or no WorkloadEntries",
                name.namespace
            )),
            Err(WriteError::Missing) => {
                entry.wrote(write.purpose, Known::Absent, now);
                None
            }
            Err(WriteError::Refused(why)) => Some(shortened(&why)),
            Err(error @ (WriteError::Unavailable(_) | WriteError::NotLeading)) => {
                if entry.failures() == 0 {
                    self.notes.push(Note::Failed {
                        entry: name.clone(),
                        reason: error.to_string().into(),
                    });
                }
                entry.failed(now);
                None
            }
        };
        if let Some(why) = refused
            && let Some(entry) = self.entries.get_mut(name)
        {
            entry.refused(now);
            self.refuse_waiting(name, &Refusal::Write(why.into()));
        }
        if let Some(entry) = self.entries.get_mut(name)
            && std::mem::take(&mut entry.missed)
        {
            entry.seen(view.entry(name).as_ref());
        }
        self.ready.push_back(name.clone());
    }

    /// Which streams may be served, and which may not, since this was last asked.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// What happened since this was last asked.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// When there is something to do again, if nothing happens before.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many entries are looked after.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The beginning of what an API says.
fn shortened(why: &str) -> String {
    why[..why.floor_char_boundary(300)].to_owned()
}

fn leave(by_peer: &mut BTreeMap<IpAddr, usize>, peer: IpAddr) {
    if let Some(count) = by_peer.get_mut(&peer) {
        *count -= 1;
        if *count == 0 {
            by_peer.remove(&peer);
        }
    }
}

/// What is to be told of a write that succeeded. Of entries that somebody wrote, nothing.
fn note_of(purpose: Purpose, entry: &ObjectName, registered: bool) -> Option<Note> {
    let entry = entry.clone();
    match purpose {
        _ if !registered => None,
        Purpose::Look | Purpose::Health | Purpose::Unhealth => None,
        Purpose::Register => Some(Note::Registered(entry)),
        Purpose::Connect => Some(Note::Updated(entry)),
        Purpose::Disconnect => Some(Note::Unregistered(entry)),
        Purpose::CleanUp => Some(Note::CleanedUp(entry)),
    }
}

#[cfg(test)]
mod tests;
