//! What differs between what a client has and what it should have, name by name.

use std::sync::Arc;

use xds::{Cursor, Removal, Resource, TypeUrl};
use xxhash_rust::xxh3::xxh3_64;

use super::{Note, Plan, Setting, Watch};
use crate::content::Item;
use crate::names::Names;
use crate::stream::Protocol;

impl Watch {
    /// Only what differs.
    pub(super) fn plan_parts(&self, setting: &Setting<'_>) -> Plan {
        let mut parts = PlanBuilder {
            watch: self,
            setting,
            plan: Plan::default(),
            cover: Cursor::new(setting.cover),
            sent: Cursor::new(self.sent.as_ref()),
        };
        match &self.sent {
            Some(sent) if self.advances(setting) => {
                if sent != setting.target {
                    let change = setting.fanout.change(sent, setting.target);
                    let mine = |r: &Arc<Resource>| {
                        self.selection.takes(r) && !self.notes.contains(&r.name)
                    };
                    for (resource, _) in change.changed.iter().filter(|(r, _)| mine(r)) {
                        parts.consider(&resource.name, Some(resource));
                    }
                    for resource in change.removed.iter().filter(|r| mine(r)) {
                        parts.consider(&resource.name, None);
                    }
                }
                if !self.notes.is_empty() {
                    for name in self.notes.names().filter(|n| self.selection.selects(n)) {
                        parts.consider(name, setting.target.get(name));
                    }
                    parts.sort();
                }
            }
            _ => {
                if self.selection.wildcard {
                    let taken = |r: &&Arc<Resource>| self.selection.takes(r);
                    for resource in setting.target.iter().filter(taken) {
                        parts.consider(&resource.name, Some(resource));
                    }
                    // What was named since the last response has notes.
                    let change = self.sent.as_ref();
                    let change = change.map(|sent| setting.fanout.change(sent, setting.target));
                    let gone = change.iter().flat_map(|c| &c.removed).map(|r| &r.name);
                    let first = self.sent.is_none().then_some(&self.selection.names);
                    let named = first.into_iter().flat_map(Names::iter);
                    let named = named.chain(self.notes.names());
                    let mut absent: Vec<&Arc<str>> = gone.chain(named).collect();
                    absent.sort_unstable();
                    absent.dedup();
                    let mut target = Cursor::new(Some(setting.target));
                    for name in absent.into_iter().filter(|n| target.seek(n).is_none()) {
                        parts.consider(name, None);
                    }
                } else {
                    let mut target = Cursor::new(Some(setting.target));
                    for name in self.selection.names.iter() {
                        parts.consider(name, target.seek(name));
                    }
                    // Only listeners have aliases.
                    if setting.ty == TypeUrl::Listener {
                        let by_alias = |r: &&Arc<Resource>| {
                            !self.selection.names.contains(&r.name) && self.selection.takes(r)
                        };
                        for resource in setting.target.iter().filter(by_alias) {
                            parts.consider(&resource.name, Some(resource));
                        }
                        parts.sort();
                    }
                }
            }
        }
        parts.finish()
    }

    /// Whether all that the client asks for beyond what the last response covered has a note, so that nothing else that it
    /// asks for needs to be looked at. State of the world says all names anew, and has none.
    fn advances(&self, setting: &Setting<'_>) -> bool {
        let narrower = self.covered.wildcard || !self.selection.wildcard;
        setting.protocol == Protocol::Delta && narrower || self.covered.same(&self.selection)
    }
}

/// Builds a plan name by name, in ascending order as far as possible.
struct PlanBuilder<'a> {
    watch: &'a Watch,
    setting: &'a Setting<'a>,
    plan: Plan,
    cover: Cursor<'a>,
    sent: Cursor<'a>,
}

impl<'a> PlanBuilder<'a> {
    /// Decides about one selected name that `target` has or lacks.
    fn consider(&mut self, name: &Arc<str>, target: Option<&Arc<Resource>>) {
        let watch = self.watch;
        self.plan.work += 1;
        let covered = watch.sent.is_some() && watch.covered.selects(name);
        let had = match watch.sent.is_some() {
            true => self.sent.seek(name).filter(|r| watch.covered.takes(r)),
            false => None,
        };
        let note = match watch.notes.get(name) {
            None if !covered && watch.selection.names.contains(name) => Some(Note::Asked),
            note => note.copied(),
        };
        match target {
            Some(resource) => {
                let version = wire_version(resource, self.cover.seek(name));
                let send = match note {
                    Some(Note::Asked) => true,
                    Some(Note::Has(has)) => has != Some(version),
                    Some(Note::Rejected(refused)) => refused != resource.version,
                    None => had.is_none_or(|h| h.version != resource.version),
                };
                if send {
                    self.plan.touched.push((Arc::clone(name), had.is_none()));
                    self.plan.items.push(Item {
                        version,
                        resource: Arc::clone(resource),
                    });
                }
                self.sum(resource, u64::wrapping_add);
            }
            None => {
                let asked = note == Some(Note::Asked);
                self.plan.answer |= asked;
                let tell = match self.setting.ty.removal() {
                    Removal::Told => note.is_some() || had.is_some(),
                    Removal::ToldWhenAsked => asked,
                    Removal::NotTold => false,
                };
                if tell && self.setting.protocol == Protocol::Delta {
                    self.plan.removed.push(Arc::clone(name));
                }
            }
        }
        if let Some(had) = had {
            self.sum(had, u64::wrapping_sub);
        }
    }

    /// Keeps the hash over what the client will have, which only state of the world tells.
    fn sum(&mut self, resource: &Resource, with: fn(u64, u64) -> u64) {
        if self.setting.protocol == Protocol::Sotw {
            self.plan.version = with(self.plan.version, mixed(resource));
        }
    }

    fn sort(&mut self) {
        self.plan
            .items
            .sort_by(|a, b| a.resource.name.cmp(&b.resource.name));
        self.plan.removed.sort_unstable();
    }

    fn finish(mut self) -> Plan {
        let watch = self.watch;
        // The hash over what the client had is known; what went and came was summed on the way.
        if watch.sent.is_some() && watch.covered.same(&watch.selection) {
            self.plan.version = self
                .plan
                .version
                .wrapping_add(watch.stated.unwrap_or_default());
        } else if self.setting.protocol == Protocol::Sotw {
            // Whoever asks for everything is sent whole sets, and does not come here.
            let mut target = Cursor::new(Some(self.setting.target));
            let selected = watch.selection.names.iter().filter_map(|n| target.seek(n));
            self.plan.version = selected.fold(0, |sum, r| sum.wrapping_add(mixed(r)));
        }
        match self.setting.protocol {
            // What there is not is named; only a wildcard can have nothing to name.
            Protocol::Delta => {
                self.plan.answer =
                    watch.owes || watch.fresh && watch.selection.wildcard && watch.notes.is_empty();
            }
            Protocol::Sotw => self.plan.answer |= watch.fresh,
        }
        self.plan
    }
}

/// The version on the wire. An assignment's version covers its cluster: Envoy waits for the assignment again whenever
/// the cluster changes, and a reconnect in between must not look as if it had it.
pub(super) fn wire_version(resource: &Resource, cluster: Option<&Arc<Resource>>) -> u64 {
    match cluster {
        Some(cluster) => resource.version ^ cluster.version.rotate_left(32),
        None => resource.version,
    }
}

pub(super) fn mixed(resource: &Resource) -> u64 {
    (xxh3_64(resource.name.as_bytes()) ^ resource.version.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
