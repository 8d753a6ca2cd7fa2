//! One type on one stream: what the client wants of it, and what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ads::{Answer, Ask, Code, Entry, Request, Status};
use export::{Exported, Item, Items};
use rustc_hash::FxHasher;

use super::stream::View;

/// Names, and namespaces, of one type that a stream may ask for.
const MOST_NAMES: usize = 10_000;

/// What a client wants of a type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Wants {
    everything: bool,
    /// `namespace/name`, or `namespace/*` for all of a namespace.
    names: BTreeSet<String>,
}

impl Wants {
    /// No names mean everything.
    fn of(names: Vec<String>) -> Self {
        let everything = names.is_empty() || names.iter().any(|name| name == "*");
        Self {
            everything,
            names: names.into_iter().filter(|name| name != "*").collect(),
        }
    }

    fn covers(&self, name: &str) -> bool {
        self.everything
            || self.names.contains(name)
            || name.split_once('/').is_some_and(|(namespace, _)| {
                let all = format!("{namespace}/*");
                self.names.contains(&all)
            })
    }
}

/// What the client has.
enum Told {
    /// State of the world: which response was the last, by what it held.
    Whole(Option<u64>),
    /// Delta: each resource, with its version.
    Each(BTreeMap<Arc<str>, u64>),
}

/// A type that a client watches.
pub(super) struct Watched {
    /// What it stands for; `None` where the client's release has another name for it.
    exported: Option<Exported>,
    wants: Wants,
    told: Told,
    /// Names that were asked for and not answered yet.
    asked_for: BTreeSet<String>,
    /// Whether a response is owed, whatever changed.
    pub(super) owes: bool,
    /// The number of the last response.
    last: u64,
    /// Whether it was acknowledged, or never needs to be.
    is_free: bool,
    /// What was looked through last: nothing of it is left to tell.
    known: Option<Items>,
}

impl Watched {
    pub(super) fn new(exported: Option<Exported>, request: &Request) -> Self {
        let told = match &request.ask {
            Ask::Sotw { .. } => Told::Whole(None),
            Ask::Delta { initial, .. } => {
                let read = |text: &String| u64::from_str_radix(text, 16).unwrap_or_default();
                let has = initial.iter();
                Told::Each(
                    has.map(|(name, version)| (name.as_str().into(), read(version)))
                        .collect(),
                )
            }
        };
        Self {
            exported,
            wants: Wants::default(),
            told,
            asked_for: BTreeSet::new(),
            owes: true,
            last: 0,
            is_free: true,
            known: None,
        }
    }

    /// Takes in a request. Its nonce may be one that nobody has sent: istiod's first requests have such.
    pub(super) fn on_request(&mut self, request: Request, is_first: bool) -> Result<(), Status> {
        let answers = u64::from_str_radix(&request.nonce, 16).ok();
        let answers = answers.filter(|nonce| (1..=self.last).contains(nonce));
        if answers == Some(self.last) {
            self.is_free = true;
        }
        match request.ask {
            Ask::Sotw { names } => {
                // An older answer: the client says again what it wants when it has seen the newest.
                if answers.is_some_and(|nonce| nonce != self.last) {
                    return Ok(());
                }
                let wants = Wants::of(names);
                self.owes |= answers.is_none() || wants != self.wants;
                self.wants = wants;
            }
            Ask::Delta {
                subscribe,
                unsubscribe,
                ..
            } => {
                self.owes |= !subscribe.is_empty();
                if is_first && subscribe.is_empty() {
                    self.wants.everything = true;
                }
                for name in unsubscribe {
                    self.wants.everything &= name != "*";
                    self.wants.names.remove(&name);
                }
                for name in subscribe {
                    if name == "*" {
                        self.wants.everything = true;
                    } else {
                        self.asked_for.insert(name.clone());
                        self.wants.names.insert(name);
                    }
                }
            }
        }
        if self.wants.names.len().max(self.asked_for.len()) > MOST_NAMES {
            let message = format!("the limit is {MOST_NAMES} names of a type");
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        // It is asked anew, so that what was sent before need not be waited for.
        self.is_free |= self.owes;
        Ok(())
    }

    /// The type that has to be known for an answer.
    pub(super) fn exported(&self) -> Option<Exported> {
        self.exported
    }

    /// The next response: one that is owed, or what has changed. One that the client has not acknowledged is waited for.
    pub(super) fn answer(&mut self, type_url: &str, items: &Items, view: &View) -> Option<Answer> {
        let is_known = |known: &Items| Arc::ptr_eq(known, items);
        if !self.owes && (!self.is_free || self.known.as_ref().is_some_and(is_known)) {
            return None;
        }
        self.known = Some(items.clone());
        let wants = &self.wants;
        let seen = items.iter();
        let seen: Vec<&Arc<Item>> = seen
            .filter(|item| wants.covers(&item.name) && view.shows(item))
            .collect();
        let whole = fingerprint(&seen);
        let (sent, removed) = match &mut self.told {
            Told::Whole(told) => {
                let same = told.replace(whole) == Some(whole);
                if same && !self.owes {
                    return None;
                }
                (seen, Vec::new())
            }
            Told::Each(told) => {
                let (sent, removed) = difference(told, &seen, &self.asked_for);
                if sent.is_empty() && removed.is_empty() && !self.owes {
                    return None;
                }
                (sent, removed)
            }
        };
        self.owes = false;
        self.asked_for.clear();
        self.last += 1;
        // istiod never acknowledges the mesh configuration.
        self.is_free = self.exported == Some(Exported::MeshConfig);
        Some(Answer {
            type_url: type_url.to_owned(),
            version: hex(whole),
            nonce: hex(self.last),
            resources: sent.into_iter().map(entry).collect(),
            removed,
            control_plane: None,
        })
    }
}

/// What a delta client has to be told, and what it has then.
fn difference<'a>(
    told: &mut BTreeMap<Arc<str>, u64>,
    seen: &[&'a Arc<Item>],
    asked_for: &BTreeSet<String>,
) -> (Vec<&'a Arc<Item>>, Vec<String>) {
    let now: BTreeMap<Arc<str>, u64> = seen
        .iter()
        .map(|item| (item.name.clone(), item.version))
        .collect();
    let sent = seen.iter().copied().filter(|item| {
        told.get(&item.name) != Some(&item.version) || asked_for.contains(&*item.name)
    });
    let sent = sent.collect();
    let gone = told.keys().map(|name| name.to_string());
    let absent = asked_for.iter().filter(|name| !name.ends_with("/*"));
    let removed: BTreeSet<String> = gone.chain(absent.cloned()).collect();
    let removed = removed
        .into_iter()
        .filter(|name| !now.contains_key(name.as_str()));
    let removed = removed.collect();
    *told = now;
    (sent, removed)
}

fn entry(item: &Arc<Item>) -> Entry {
    Entry {
        name: item.name.to_string(),
        version: hex(item.version),
        resource: item.resource.clone(),
    }
}

/// Differs where the resources do.
fn fingerprint(items: &[&Arc<Item>]) -> u64 {
    let mut hasher = FxHasher::default();
    for item in items {
        (&item.name, item.version).hash(&mut hasher);
    }
    hasher.finish()
}

fn hex(value: u64) -> String {
    format!("{value:016x}")
}
