//! One type on one stream: what the client asked for, what it has, and what it should get next.
//!
//! What the client has is kept as the set that the last response was made from, restricted to the selection that the
//! response covered, and a small table of names that deviate. Both parts are shared between streams, so a client that
//! holds a thousand resources costs two pointers here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use xlate::{Resource, ResourceSet, TypeUrl};
use xxhash_rust::xxh3::xxh3_64;

use crate::change::same;
use crate::content::Item;
use crate::fanout::Fanout;
use crate::names::Selection;
use crate::out::Response;
use crate::request::Rejection;
use crate::stream::Protocol;

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

/// What surrounds a watch when it decides.
pub(crate) struct Setting<'a> {
    pub(crate) ty: TypeUrl,
    pub(crate) protocol: Protocol,
    pub(crate) fanout: &'a Fanout,
    /// What the client should have.
    pub(crate) target: &'a ResourceSet,
    /// The clusters, whose versions those of assignments cover.
    pub(crate) cover: Option<&'a ResourceSet>,
}

/// What to send.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) items: Vec<Item>,
    pub(crate) removed: Vec<Arc<str>>,
    /// Names in `items` that the client does not have or has otherwise, and whether it lacks them.
    pub(crate) touched: Vec<(Arc<str>, bool)>,
    /// Send even if there is nothing in it.
    pub(crate) answer: bool,
    /// State of the world: hash over what the client will have.
    pub(crate) version: u64,
    /// State of the world: the response must hold all that is selected.
    pub(crate) whole: bool,
}

impl Plan {
    /// Whether there is a response to send.
    pub(crate) fn sends(&self) -> bool {
        self.answer || !self.items.is_empty() || !self.removed.is_empty()
    }
}

/// The state of one type on one stream.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What the client asks for.
    pub(crate) selection: Selection,
    /// What it asked for when the last response was made.
    pub(crate) covered: Selection,
    /// What the last response was made from.
    pub(crate) sent: Option<ResourceSet>,
    /// Where the client deviates from `sent`, or is asked to.
    pub(crate) notes: BTreeMap<Arc<str>, Note>,
    /// Parts of a refused response that are to be sent again, each alone, to learn which of them are good.
    pub(crate) retry: VecDeque<Vec<Arc<str>>>,
    /// The response that was not answered yet.
    pub(crate) in_flight: Option<Response>,
    /// The nonce of the newest response.
    pub(crate) last_nonce: Option<u64>,
    /// The client's question was not answered, so a response must follow even if it is empty.
    pub(crate) fresh: bool,
    /// State of the world: version of what the client has or was sent last.
    pub(crate) stated: Option<u64>,
    /// State of the world: version that was refused without naming a resource.
    pub(crate) refused: Option<u64>,
    /// State of the world, whole sets: what the client accepted last.
    pub(crate) good: Option<ResourceSet>,
    /// State of the world, whole sets: the set in flight.
    trial: Option<ResourceSet>,
}

impl Watch {
    /// Whether the client waits for an answer to a request of its own.
    pub(crate) fn asks(&self) -> bool {
        self.fresh
            || self.notes.values().any(|n| *n == Note::Asked)
            || !self.covered.same(&self.selection)
                && (self.selection.wildcard && !self.covered.wildcard
                    || self
                        .selection
                        .names
                        .iter()
                        .any(|n| !self.covered.selects(n)))
    }

    /// Whether the client refused something that it would be sent otherwise.
    pub(crate) fn refuses(&self) -> bool {
        self.refused.is_some() || self.notes.values().any(|n| matches!(n, Note::Rejected(_)))
    }

    /// Whether responses must hold all that is selected: of clusters and listeners in state of the world, and of what
    /// is asked for as a whole, clients drop what is not in the response.
    fn whole(&self, protocol: Protocol, ty: TypeUrl) -> bool {
        protocol == Protocol::Sotw
            && (matches!(ty, TypeUrl::Cluster | TypeUrl::Listener) || self.selection.wildcard)
    }

    /// What the client should be sent next, if anything.
    pub(crate) fn plan(&self, setting: &Setting<'_>) -> Plan {
        if self.whole(setting.protocol, setting.ty) {
            self.plan_whole(setting)
        } else {
            self.plan_parts(setting)
        }
    }

    /// Records that the client was brought to `target`, by a response or because it had everything.
    pub(crate) fn commit(&mut self, target: &ResourceSet, plan: &Plan) {
        self.sent = Some(target.clone());
        self.covered = self.selection.clone();
        self.fresh = false;
        let selection = &self.selection;
        self.notes.retain(|name, note| match note {
            Note::Rejected(version) => {
                selection.selects(name) && target.get(name).is_some_and(|r| r.version == *version)
            }
            Note::Asked | Note::Has(_) => false,
        });
        self.stated = Some(plan.version);
        if self.refused != self.stated {
            self.refused = None;
        }
        if plan.whole {
            let exact = || match self.notes.is_empty() {
                true => target.clone(),
                false => ResourceSet::new(plan.items.iter().map(|i| Arc::clone(&i.resource))),
            };
            match plan.sends() {
                true => self.trial = Some(exact()),
                false if self.notes.is_empty() && self.refused.is_none() => {
                    self.good = Some(target.clone())
                }
                false => {}
            }
        }
    }

    /// Clusters and listeners whole: everything selected, if its hash is another than the client's.
    fn plan_whole(&self, setting: &Setting<'_>) -> Plan {
        let asks = self.asks();
        let change = self
            .sent
            .as_ref()
            .filter(|sent| !same(sent, setting.target));
        let change = change.map(|sent| setting.fanout.change(sent, setting.target));
        let mut plan = Plan {
            whole: true,
            ..Plan::default()
        };
        if let Some(stated) = self.stated
            && self.sent.is_some()
            && self.covered.same(&self.selection)
            && !asks
            && self.notes.is_empty()
        {
            let touches = change.as_ref().is_some_and(|c| {
                let mut all = c.changed.iter().map(|(r, _)| r).chain(&c.removed);
                all.any(|r| self.selection.selects(&r.name))
            });
            if !touches {
                plan.version = stated;
                return plan;
            }
        }
        let mut items = Vec::new();
        for resource in setting
            .target
            .iter()
            .filter(|r| self.selection.selects(&r.name))
        {
            let resource = match self.notes.get(&resource.name) {
                // The last good one in its place: leaving it out would delete it.
                Some(Note::Rejected(v)) if *v == resource.version => {
                    match self.good.as_ref().and_then(|g| g.get(&resource.name)) {
                        Some(good) => good,
                        None => continue,
                    }
                }
                _ => resource,
            };
            plan.version = plan.version.wrapping_add(mixed(resource));
            items.push(Item {
                version: resource.version,
                resource: Arc::clone(resource),
            });
        }
        let known = self.stated == Some(plan.version) || self.refused == Some(plan.version);
        // A client that reconnects and states the version that it would get needs no answer.
        plan.answer = !known || asks && self.sent.is_some();
        if plan.answer {
            plan.touched = match (&self.sent, change) {
                (Some(_), Some(change)) => {
                    let mine = change
                        .changed
                        .iter()
                        .filter(|(r, _)| self.selection.selects(&r.name));
                    mine.map(|(r, new)| (Arc::clone(&r.name), *new)).collect()
                }
                (Some(_), None) => Vec::new(),
                (None, _) => items
                    .iter()
                    .map(|i| (Arc::clone(&i.resource.name), true))
                    .collect(),
            };
            plan.items = items;
        }
        plan
    }

    /// Only what differs.
    fn plan_parts(&self, setting: &Setting<'_>) -> Plan {
        let mut parts = Parts {
            watch: self,
            setting,
            plan: Plan::default(),
            cover: Cursor::new(setting.cover),
            sent: Cursor::new(self.sent.as_ref()),
        };
        match &self.sent {
            Some(sent) if self.covered.same(&self.selection) => {
                if !same(sent, setting.target) {
                    let change = setting.fanout.change(sent, setting.target);
                    let mine = |r: &Arc<Resource>| {
                        self.selection.selects(&r.name) && !self.notes.contains_key(&r.name)
                    };
                    for (resource, _) in change.changed.iter().filter(|(r, _)| mine(r)) {
                        parts.consider(&resource.name, Some(resource));
                    }
                    parts.rewind();
                    for resource in change.removed.iter().filter(|r| mine(r)) {
                        parts.consider(&resource.name, None);
                    }
                }
                if !self.notes.is_empty() {
                    parts.rewind();
                    for name in self.notes.keys().filter(|n| self.selection.selects(n)) {
                        parts.consider(name, setting.target.get(name));
                    }
                    parts.sort();
                }
            }
            _ => {
                if self.selection.wildcard {
                    for resource in setting.target.iter() {
                        parts.consider(&resource.name, Some(resource));
                    }
                    parts.rewind();
                    let gone = self.sent.iter().flat_map(|s| s.iter()).map(|r| &r.name);
                    let named = self.selection.names.iter().chain(self.notes.keys());
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
                }
            }
        }
        parts.finish()
    }

    /// The next part of a refused response, as it is in `target`.
    pub(crate) fn plan_retry(&mut self, setting: &Setting<'_>) -> Option<Plan> {
        while let Some(group) = self.retry.pop_front() {
            let mut plan = Plan {
                version: self.stated.unwrap_or_default(),
                ..Plan::default()
            };
            let mut cover = Cursor::new(setting.cover);
            for name in group.into_iter().filter(|n| self.selection.selects(n)) {
                match (setting.target.get(&name), self.notes.get(&name)) {
                    (Some(resource), Some(Note::Rejected(version)))
                        if resource.version == *version => {}
                    (Some(resource), _) => {
                        let version = wire_version(resource, cover.seek(&name));
                        let sent = self.sent.as_ref().and_then(|s| s.get(&name));
                        if sent.is_some_and(|s| s.version == resource.version) {
                            self.notes.remove(&name);
                        } else {
                            self.notes
                                .insert(Arc::clone(&name), Note::Has(Some(version)));
                        }
                        plan.touched.push((name, false));
                        plan.items.push(Item {
                            version,
                            resource: Arc::clone(resource),
                        });
                    }
                    (None, _) => {
                        // Gone meanwhile, and nobody knows whether the client has it.
                        self.notes.insert(name, Note::Has(None));
                    }
                }
            }
            if !plan.items.is_empty() {
                return Some(plan);
            }
        }
        None
    }

    /// The client took the response in flight.
    pub(crate) fn accept(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.good = Some(trial);
        }
    }

    /// The client refused `response`: keeps what it blames from being sent again before it changes, and queues the
    /// rest. Returns the names, and whether they are known to be those to blame.
    pub(crate) fn reject(
        &mut self,
        response: &Response,
        rejection: &Rejection,
    ) -> (Vec<Arc<str>>, bool) {
        let content = &response.content;
        let whole = self.trial.take().is_some();
        let mut blamed: Vec<&Item> = content
            .items
            .iter()
            .filter(|i| mentions(&rejection.message, &i.resource.name))
            .collect();
        if blamed.is_empty() && content.items.len() == 1 && content.removed.is_empty() {
            blamed.extend(content.items.first());
        }
        let all = || {
            content
                .items
                .iter()
                .map(|i| Arc::clone(&i.resource.name))
                .chain(content.removed.iter().cloned())
        };
        if blamed.is_empty() {
            if whole {
                self.refused = Some(content.version);
            } else {
                let mut first: Vec<_> = all().collect();
                if first.len() > 1 {
                    let second = first.split_off(first.len() / 2);
                    self.retry.push_front(second);
                    self.retry.push_front(first);
                }
            }
            return (all().collect(), false);
        }
        let names: Vec<Arc<str>> = blamed
            .iter()
            .map(|i| Arc::clone(&i.resource.name))
            .collect();
        for item in &blamed {
            self.notes.insert(
                Arc::clone(&item.resource.name),
                Note::Rejected(item.resource.version),
            );
        }
        let rest: Vec<_> = all().filter(|n| !names.contains(n)).collect();
        if !whole && !rest.is_empty() {
            self.retry.push_front(rest);
        }
        (names, true)
    }
}

/// Builds a plan name by name, in ascending order.
struct Parts<'a> {
    watch: &'a Watch,
    setting: &'a Setting<'a>,
    plan: Plan,
    cover: Cursor<'a>,
    sent: Cursor<'a>,
}

impl<'a> Parts<'a> {
    /// Decides about one selected name that `target` has or lacks.
    fn consider(&mut self, name: &Arc<str>, target: Option<&Arc<Resource>>) {
        let watch = self.watch;
        let covered = watch.sent.is_some() && watch.covered.selects(name);
        let had = if covered { self.sent.seek(name) } else { None };
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
                let say = match note {
                    Some(Note::Asked) => {
                        self.plan.answer = true;
                        removable(self.setting) || self.setting.ty == TypeUrl::Route
                    }
                    Some(Note::Has(_) | Note::Rejected(_)) => removable(self.setting),
                    None => had.is_some() && removable(self.setting),
                };
                if say && self.setting.protocol == Protocol::Delta {
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

    /// Allows names to be considered from the first again.
    fn rewind(&mut self) {
        self.cover.at = 0;
        self.sent.at = 0;
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
            let selected = self
                .setting
                .target
                .iter()
                .filter(|r| watch.selection.selects(&r.name));
            self.plan.version = selected.fold(0, |sum, r| sum.wrapping_add(mixed(r)));
        }
        match self.setting.protocol {
            // What there is not is named; only a wildcard can have nothing to name.
            Protocol::Delta => {
                self.plan.answer =
                    watch.fresh && watch.selection.wildcard && watch.notes.is_empty();
            }
            Protocol::Sotw => self.plan.answer |= watch.fresh,
        }
        self.plan
    }
}

/// Looks up ascending names in a sorted set, faster than a search from the start each time.
struct Cursor<'a> {
    set: &'a [Arc<Resource>],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(set: Option<&'a ResourceSet>) -> Self {
        Self {
            set: set.map_or(&[], |s| &**s),
            at: 0,
        }
    }

    /// The resource of that name; names must not descend between calls.
    fn seek(&mut self, name: &str) -> Option<&'a Arc<Resource>> {
        let rest = &self.set[self.at..];
        let mut step = 1;
        while rest.get(step).is_some_and(|r| &*r.name < name) {
            step *= 2;
        }
        let low = if rest.first().is_some_and(|r| &*r.name < name) {
            step / 2
        } else {
            0
        };
        let high = rest.len().min(step + 1);
        self.at += low + rest[low..high].partition_point(|r| &*r.name < name);
        self.set.get(self.at).filter(|r| &*r.name == name)
    }
}

/// Whether the client is told that a resource is gone. Envoy drops routes with their listener and logs an error if
/// told earlier; extensions in use must not vanish under it (Istio: pilot/pkg/xds/delta.go neverRemoveDelta, 1.32).
fn removable(setting: &Setting<'_>) -> bool {
    setting.protocol == Protocol::Delta
        && !matches!(setting.ty, TypeUrl::Route | TypeUrl::Extension)
}

/// The version on the wire. An assignment's version covers its cluster: Envoy waits for the assignment again whenever
/// the cluster changes, and a reconnect in between must not look as if it had it.
fn wire_version(resource: &Resource, cluster: Option<&Arc<Resource>>) -> u64 {
    match cluster {
        Some(cluster) => resource.version ^ cluster.version.rotate_left(32),
        None => resource.version,
    }
}

fn mixed(resource: &Resource) -> u64 {
    (xxh3_64(resource.name.as_bytes()) ^ resource.version.rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Whether the message names the resource, not only another whose name contains it.
fn mentions(message: &str, name: &str) -> bool {
    let inside =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '|' | '_' | '-'));
    !name.is_empty()
        && message.match_indices(name).any(|(at, found)| {
            let after = &message[at + found.len()..];
            let mut tail = after.chars();
            let next = tail.next();
            // A dot or colon may end the sentence, or continue the name.
            let continues = matches!(next, Some('.' | ':')) && inside(tail.next());
            !inside(message[..at].chars().next_back()) && !inside(next) && !continues
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_mentioned_only_as_a_whole() {
        let message = "Error adding/updating listener(s) 0.0.0.0_80: no filter; outbound|80||a.b: bad cluster.";
        assert!(mentions(message, "0.0.0.0_80"));
        assert!(mentions(message, "outbound|80||a.b"));
        assert!(mentions(message, "cluster"));
        for other in [
            "0.0.0.0_8",
            "outbound|80||a",
            "80||a.b",
            "",
            "Outbound|80||a.b",
        ] {
            assert!(!mentions(message, other), "{other}");
        }
    }

    #[test]
    fn cursor_finds_what_a_search_finds() {
        let set = ResourceSet::new((0..50).map(|i| {
            Arc::new(Resource::from_bytes(
                format!("{:03}", i * 2),
                bytes::Bytes::from_static(b"x"),
            ))
        }));
        for step in [1, 2, 3, 7, 40] {
            let mut cursor = Cursor::new(Some(&set));
            for i in (0..110).step_by(step) {
                let name = format!("{i:03}");
                assert_eq!(cursor.seek(&name), set.get(&name), "{name} by {step}");
                assert_eq!(cursor.seek(&name), set.get(&name), "{name} again");
            }
        }
    }
}
