//! Which services there are and which of them were reported, without sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::{Key, is_of_a_bridge};
use crate::outbox::Outbox;
use crate::report::{Instance, ServiceName};

/// More services of one registry than this are not read.
pub(super) const MOST_SERVICES: usize = 100_000;

/// How far a service is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Its instances are asked for.
    Asked,
    /// It was reported.
    Told,
    /// It is there, and the server does not tell of it.
    Refused,
    /// It came from a McpBridge.
    Skipped,
}

#[derive(Debug)]
struct Entry {
    name: ServiceName,
    standing: Standing,
    /// Whether the last list did not have it.
    is_missing: bool,
}

/// What follows from a list of services.
#[derive(Default, PartialEq, Debug)]
pub(super) struct Plan {
    /// Whose instances are asked for.
    pub(super) follow: Vec<Key>,
    /// Which are gone.
    pub(super) leave: Vec<Key>,
    /// Whether the list is to be read again at once. Pages are cut from a list that changes meanwhile, in no order: a service
    /// is gone when two lists in a row do not have it, and all are there when two were read.
    pub(super) again: bool,
}

/// The services of a namespace, as one connection told of them.
#[derive(Debug)]
pub(super) struct Catalog {
    namespace: Arc<str>,
    entries: BTreeMap<Key, Entry>,
    /// Hosts that are taken.
    hosts: BTreeSet<ServiceName>,
    /// How many are asked for.
    asked: usize,
    lists: usize,
    /// What was last said to be there.
    whole: Option<BTreeSet<ServiceName>>,
    /// Whether what is there may be something else.
    is_changed: bool,
    /// Whether something was told since that is not there any more.
    has_left: bool,
}

impl Catalog {
    /// A catalog of a namespace, by the name that it has in hosts.
    pub(super) fn new(namespace: Arc<str>) -> Self {
        Self {
            namespace,
            entries: BTreeMap::new(),
            hosts: BTreeSet::new(),
            asked: 0,
            lists: 0,
            whole: None,
            is_changed: true,
            has_left: false,
        }
    }

    /// Whether everything was told once.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// All services that are followed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys()
    }

    /// Takes in a list of all services.
    pub(super) fn listed(&mut self, found: &BTreeSet<Key>, out: &mut Outbox) -> Plan {
        let mut plan = Plan {
            again: self.lists == 0,
            ..Plan::default()
        };
        self.lists += 1;
        for key in found {
            match self.entries.get_mut(key) {
                Some(entry) => {
                    entry.is_missing = false;
                    if entry.standing == Standing::Refused {
                        plan.follow.push(key.clone());
                    }
                }
                None => plan.follow.extend(self.enter(key)),
            }
        }
        for (key, entry) in &mut self.entries {
            if found.contains(key) {
                continue;
            }
            if entry.is_missing {
                plan.leave.push(key.clone());
            } else {
                entry.is_missing = true;
                plan.again = true;
            }
        }
        for key in &plan.leave {
            self.leave(key);
        }
        self.settle(out);
        plan
    }

    fn enter(&mut self, key: &Key) -> Option<Key> {
        if self.entries.len() >= MOST_SERVICES {
            return None;
        }
        let name = key.host(&self.namespace);
        if !self.hosts.insert(name.clone()) {
            // Groups that differ in `_` and `-` alone.
            tracing::debug!(
                host = &*name,
                "Two services of Nacos have one host; one is read."
            );
            return None;
        }
        let entry = Entry {
            name,
            standing: Standing::Asked,
            is_missing: false,
        };
        self.entries.insert(key.clone(), entry);
        self.asked += 1;
        Some(key.clone())
    }

    fn leave(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.hosts.remove(&entry.name);
            self.asked -= usize::from(entry.standing == Standing::Asked);
            self.is_changed = true;
            self.has_left |= entry.standing == Standing::Told;
        }
    }

    /// Takes in what a service is, as it was asked for. A push that came meanwhile is newer.
    pub(super) fn answered(&mut self, key: &Key, instances: Vec<Instance>, out: &mut Outbox) {
        if self
            .entries
            .get(key)
            .is_some_and(|e| matches!(e.standing, Standing::Asked | Standing::Refused))
        {
            self.pushed(key, instances, out);
        }
    }

    /// Takes in what a service is now.
    pub(super) fn pushed(&mut self, key: &Key, instances: Vec<Instance>, out: &mut Outbox) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        if is_of_a_bridge(&instances) {
            self.stand(key, Standing::Skipped);
        } else {
            out.service(entry.name.clone(), instances);
            self.stand(key, Standing::Told);
        }
        self.settle(out);
    }

    /// A service is there, and the server does not tell of it: what is known of it stays.
    pub(super) fn refused(&mut self, key: &Key, out: &mut Outbox) {
        if self
            .entries
            .get(key)
            .is_some_and(|e| e.standing == Standing::Asked)
        {
            self.stand(key, Standing::Refused);
            self.settle(out);
        }
    }

    fn stand(&mut self, key: &Key, standing: Standing) {
        if let Some(entry) = self.entries.get_mut(key)
            && entry.standing != standing
        {
            self.asked -= usize::from(entry.standing == Standing::Asked);
            self.is_changed = true;
            self.has_left |= entry.standing == Standing::Told;
            entry.standing = standing;
        }
    }

    /// Says what there is, where that is known and something else.
    fn settle(&mut self, out: &mut Outbox) {
        if self.asked > 0 || self.lists < 2 || !self.is_changed {
            return;
        }
        self.is_changed = false;
        let has_left = std::mem::take(&mut self.has_left);
        let there = self.entries.values();
        let there = there.filter(|e| e.standing != Standing::Skipped);
        let names: BTreeSet<ServiceName> = there.map(|e| e.name.clone()).collect();
        if has_left || self.whole.as_ref() != Some(&names) {
            self.whole = Some(names.clone());
            out.whole(names);
        }
    }
}

#[cfg(test)]
mod tests;
