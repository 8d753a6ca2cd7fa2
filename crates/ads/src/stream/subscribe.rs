//! What requests change of a subscription.

use std::sync::Arc;

use xds::TypeUrl;

use super::{Protocol, Stream};
use crate::action::{Action, Event};
use crate::content::parse_hex;
use crate::names::{Names, Selection};
use crate::request::Ask;
use crate::status::{Code, Status};
use crate::watch::{Note, Watch};

/// Everything, as a name.
const WILDCARD: &str = "*";

impl Stream {
    /// Applies the subscription part of a request; `answers` tells whether it answers a response. Returns whether the
    /// client waits for an answer.
    pub(super) fn subscribe(
        &mut self,
        ty: TypeUrl,
        ask: Ask,
        answers: bool,
        out: &mut Vec<Action>,
    ) -> bool {
        if ask.says_nothing() && self.watches[ty].is_some() {
            return false;
        }
        let before = self.watches[ty].as_deref().map(|w| w.selection.clone());
        let subscribed = match (self.protocol, ask) {
            (
                Protocol::Delta,
                Ask::Delta {
                    subscribe,
                    unsubscribe,
                    initial,
                },
            ) => self.subscribe_delta(ty, &subscribe, &unsubscribe, initial),
            (Protocol::Sotw, Ask::Sotw { names }) => self.subscribe_sotw(ty, names, answers),
            _ => Err(Status::new(
                Code::InvalidArgument,
                "request of the other protocol variant",
            )),
        };
        if let Err(status) = subscribed.and_then(|()| self.within_limits(ty)) {
            out.push(Action::End(status));
            return false;
        }
        let Some(watch) = self.watches[ty].as_deref() else {
            return false;
        };
        if !before.is_some_and(|b| b.same(&watch.selection)) {
            out.push(Action::Event(Event::Subscribed {
                ty,
                selection: watch.selection.clone(),
            }));
        }
        watch.asks()
    }

    /// Whether what the stream holds of names is within its limits.
    fn within_limits(&self, ty: TypeUrl) -> Result<(), Status> {
        let Some(watch) = self.watches[ty].as_deref() else {
            return Ok(());
        };
        self.limits.names(watch.selection.names.len())?;
        self.limits.names(watch.notes.len())?;
        let watches = self.watches.values().flatten();
        let bytes = watches.map(|w| w.selection.names.bytes() + w.notes.bytes());
        self.limits.bytes(bytes.sum())
    }

    /// Costs what the request says, and not what was asked for before.
    fn subscribe_delta(
        &mut self,
        ty: TypeUrl,
        subscribe: &[String],
        unsubscribe: &[String],
        initial: Vec<(String, String)>,
    ) -> Result<(), Status> {
        let first = self.watches[ty].is_none();
        self.settled.remove(ty);
        let (fanout, account) = (Arc::clone(&self.fanout), self.account.clone());
        let watch = self.watches[ty].get_or_insert_default();
        watch.fresh |= first;
        let mut wildcard = watch.selection.wildcard;
        if first && subscribe.is_empty() {
            // Never having named anything means everything, where that is possible.
            wildcard = ty.wildcard();
        }
        let mut names: Vec<Arc<str>> = Vec::with_capacity(subscribe.len());
        for name in subscribe {
            if name == WILDCARD {
                wildcard = true;
                continue;
            }
            self.limits.name(name)?;
            let name: Arc<str> = name.as_str().into();
            if watch.sent.is_some() {
                // Not covered by what was sent; or asked for again, and may have been forgotten.
                watch.notes.insert(Arc::clone(&name), Note::Asked);
            }
            names.push(name);
        }
        if first {
            self.limits.names(initial.len())?;
            for (name, version) in initial {
                self.limits.name(&name)?;
                let name: Arc<str> = name.into();
                watch
                    .notes
                    .insert(Arc::clone(&name), Note::Has(parse_hex(&version)));
                // Istio: pilot/pkg/xds/delta.go deltaWatchedResources, 1.32: what the client has, it wants.
                if !wildcard {
                    names.push(name);
                }
            }
        }
        let gone: Vec<&str> = unsubscribe.iter().map(String::as_str).collect();
        wildcard &= !gone.contains(&WILDCARD);
        names.sort_unstable();
        for name in &gone {
            let named = names.binary_search_by(|n| (**n).cmp(name)).is_ok();
            if named || watch.selection.names.contains(name) {
                watch.notes.remove(name);
                if wildcard && watch.sent.is_some() {
                    // Still covered by the wildcard, but the client has dropped it.
                    watch.notes.insert((*name).into(), Note::Asked);
                }
            }
        }
        self.work += (names.len() + gone.len() + watch.selection.names.chunks()) as u64;
        let edited = watch.selection.names.edited(&names, &gone);
        let names = match edited.same(&watch.selection.names) {
            true => edited,
            false => fanout.names(edited, account.as_ref())?,
        };
        if wildcard && !watch.selection.wildcard && watch.sent.is_some() {
            watch.uncovered = true;
            watch.owes = true;
        }
        watch.select(Selection { wildcard, names });
        Ok(())
    }

    fn subscribe_sotw(
        &mut self,
        ty: TypeUrl,
        names: Vec<String>,
        answers: bool,
    ) -> Result<(), Status> {
        self.work += names.len() as u64;
        let first = self.watches[ty].is_none();
        let named = names.iter().any(|n| n != WILDCARD);
        let everything = names.iter().any(|n| n == WILDCARD);
        if first && names.is_empty() && !ty.wildcard() {
            return Ok(());
        }
        let (fanout, account) = (Arc::clone(&self.fanout), self.account.clone());
        let watch = self.watches[ty].get_or_insert_default();
        if first {
            watch.fresh = true;
        } else if !answers && watch.in_flight.is_none() && watch.sent.is_some() {
            // No response is known to the client: it starts over.
            watch.fresh = true;
            watch.covered = Selection::default();
            watch.uncovered = true;
        }
        if !first && !everything && lists_same(&names, &watch.selection) {
            // Every answer repeats the names: the usual case costs no copy of them.
            return Ok(());
        }
        self.limits.names(names.len())?;
        names.iter().try_for_each(|name| self.limits.name(name))?;
        // An empty list goes on with everything; once something was named it gives everything up.
        let goes_on = first || watch.selection.wildcard && watch.selection.names.is_empty();
        let wildcard = everything || names.is_empty() && goes_on;
        let names = match named {
            true => Names::new(names.into_iter().filter(|n| n != WILDCARD).map(Into::into)),
            false => Names::default(),
        };
        let names = fanout.names(names, account.as_ref())?;
        if !watch.covered.names.iter().all(|n| names.contains(n)) {
            // What is given up is forgotten at once, so that it counts as new when it is asked for again.
            let kept = watch
                .covered
                .names
                .iter()
                .filter(|n| names.contains(n))
                .cloned();
            watch.covered.names = fanout.names(Names::new(kept), account.as_ref())?;
            watch.notes.retain(|n, _| wildcard || names.contains(n));
        }
        watch.select(Selection { wildcard, names });
        let (asked, covered) = (&watch.selection, &watch.covered);
        watch.uncovered =
            asked.wildcard && !covered.wildcard || asked.names.iter().any(|n| !covered.selects(n));
        Ok(())
    }
}

/// Whether the list says what the selection says. Clients repeat it in any order.
fn lists_same(names: &[String], selection: &Selection) -> bool {
    if selection.wildcard || names.is_empty() || names.len() != selection.names.len() {
        return false;
    }
    let same =
        |names: &mut dyn Iterator<Item = &str>| names.eq(selection.names.iter().map(|n| &**n));
    same(&mut names.iter().map(String::as_str)) || {
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        same(&mut sorted.into_iter())
    }
}

impl Watch {
    /// Changes the selection; an equal one leaves the shared list in place.
    fn select(&mut self, selection: Selection) {
        if self.selection != selection {
            self.selection = selection;
        }
    }
}
