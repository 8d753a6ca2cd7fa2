//! One type on one stream: what the client asked for, what it has, and what it should get next.
//!
//! What the client has is kept as the set that the last response was made from, restricted to the selection that the
//! response covered, and a small table of names that deviate. Both parts are shared between streams, so a client that
//! holds a thousand resources costs two pointers here.

mod notes;
mod parts;
mod refusal;

use std::collections::VecDeque;
use std::sync::Arc;

use xds::{Cursor, ResourceSet, TypeUrl};

use crate::action::Response;
use crate::content::{Content, Item};
use crate::fanout::{Fanout, PreparedResponse, ResponseKey};
use crate::names::Selection;
use crate::stream::Protocol;
pub(crate) use notes::{Note, Notes};
use parts::{mixed, wire_version};

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
    /// Names that were looked at.
    pub(crate) work: u64,
}

impl Plan {
    /// Whether there is a response to send.
    pub(crate) fn sends(&self) -> bool {
        self.answer || !self.items.is_empty() || !self.removed.is_empty()
    }
}

/// The state of one type on one stream. What every response touches comes first.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What the last response was made from.
    pub(crate) sent: Option<ResourceSet>,
    /// What the client asks for.
    pub(crate) selection: Selection,
    /// What it asked for when the last response was made.
    pub(crate) covered: Selection,
    /// The response that was not answered yet.
    pub(crate) in_flight: Option<Response>,
    /// The nonce of the newest response.
    pub(crate) last_nonce: Option<u64>,
    /// Where the client deviates from `sent`, or is asked to.
    pub(crate) notes: Notes,
    /// The client's question was not answered, so a response must follow even if it is empty.
    pub(crate) fresh: bool,
    /// It asks for something that the last response did not cover, and that has no note.
    pub(crate) uncovered: bool,
    /// Everything is asked for anew, which is answered even if there is nothing to add: the answer paces who asks.
    pub(crate) owes: bool,
    /// Parts of a refused response that are to be sent again, each alone, to learn which of them are good.
    pub(crate) retry: VecDeque<Vec<Arc<str>>>,
    /// State of the world, whole sets: the set in flight.
    trial: Option<ResourceSet>,
    /// State of the world: version of what the client was sent last.
    pub(crate) stated: Option<u64>,
    /// State of the world: version that was refused without naming a resource.
    pub(crate) refused: Option<u64>,
    /// State of the world, whole sets: what the client accepted last.
    pub(crate) good: Option<ResourceSet>,
}

impl Watch {
    /// Whether the client waits for an answer to a request of its own.
    pub(crate) fn asks(&self) -> bool {
        self.fresh || self.notes.asked() || self.uncovered
    }

    /// Whether the client refused something that it would be sent otherwise.
    pub(crate) fn refuses(&self) -> bool {
        self.refused.is_some() || self.notes.rejected()
    }

    /// Whether responses must hold all that is selected: of clusters and listeners in state of the world, and of what
    /// is asked for as a whole, clients drop what is not in the response.
    fn whole(&self, protocol: Protocol, ty: TypeUrl) -> bool {
        protocol == Protocol::Sotw && (ty.whole() || self.selection.wildcard)
    }

    /// What decides about the next response, if that is nothing of this client alone: it has what it was sent, and asks
    /// for what it asked for.
    pub(crate) fn response_key(&self, setting: &Setting<'_>, revision: u64) -> Option<ResponseKey> {
        let sent = self.sent.as_ref()?;
        let plain = setting.protocol == Protocol::Delta
            && !self.fresh
            && self.notes.is_empty()
            && self.retry.is_empty()
            && self.covered.same(&self.selection)
            && sent != setting.target;
        let sets = [sent, setting.target];
        plain.then(|| ResponseKey::new(setting.ty, sets, setting.cover, &self.selection, revision))
    }

    /// Decides what the client is sent next, and takes it as sent.
    pub(crate) fn prepare(&mut self, setting: &Setting<'_>, revision: u64) -> PreparedResponse {
        let plan = match self.plan_retry(setting) {
            Some(plan) => plan,
            None => {
                let plan = self.plan(setting);
                self.commit(setting.target, &plan);
                plan
            }
        };
        let sends = plan.sends();
        let version = match setting.protocol {
            Protocol::Sotw => plan.version,
            Protocol::Delta => revision,
        };
        let content = || {
            Content::new(
                setting.ty,
                setting.protocol,
                plan.items,
                plan.removed,
                version,
            )
        };
        PreparedResponse {
            content: sends.then(|| setting.fanout.content(content())),
            touched: plan.touched,
            names: self.selection.names.clone(),
            work: plan.work,
        }
    }

    /// What the client should be sent next, if anything.
    fn plan(&self, setting: &Setting<'_>) -> Plan {
        if self.whole(setting.protocol, setting.ty) {
            self.plan_whole(setting)
        } else {
            self.plan_parts(setting)
        }
    }

    /// Records that the client was brought to `target`, by a response or because it had everything.
    fn commit(&mut self, target: &ResourceSet, plan: &Plan) {
        self.sent = Some(target.clone());
        self.covered = self.selection.clone();
        self.fresh = false;
        self.uncovered = false;
        self.owes = false;
        let selection = &self.selection;
        self.notes.retain(|name, note| match note {
            Note::Rejected(version) => {
                let resource = target.get(name);
                resource.is_some_and(|r| r.version == version && selection.takes(r))
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
        let change = self.sent.as_ref().filter(|sent| *sent != setting.target);
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
                all.any(|r| self.selection.takes(r))
            });
            if !touches {
                plan.version = stated;
                return plan;
            }
        }
        plan.work = setting.target.len() as u64;
        let mut items = Vec::new();
        for resource in setting.target.iter().filter(|r| self.selection.takes(r)) {
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
        plan.answer = !known || asks && self.sent.is_some();
        if plan.answer {
            plan.touched = match (&self.sent, change) {
                (Some(_), Some(change)) => {
                    let mine = change
                        .changed
                        .iter()
                        .filter(|(r, _)| self.selection.takes(r));
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

    /// The next part of a refused response, as it is in `target`.
    fn plan_retry(&mut self, setting: &Setting<'_>) -> Option<Plan> {
        while let Some(group) = self.retry.pop_front() {
            let mut plan = Plan {
                version: self.stated.unwrap_or_default(),
                ..Plan::default()
            };
            let mut cover = Cursor::new(setting.cover);
            plan.work = group.len() as u64;
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
}
