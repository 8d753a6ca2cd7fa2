//! What requests change of a subscription.

use std::sync::Arc;

use xlate::TypeUrl;

use super::{Protocol, Stream};
use crate::content::parse_hex;
use crate::names::{Names, Selection};
use crate::out::{Event, Out};
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
        out: &mut Vec<Out>,
    ) -> bool {
        if ask.says_nothing() && self.watches[ty as usize].is_some() {
            return false;
        }
        let before = self.watches[ty as usize]
            .as_deref()
            .map(|w| w.selection.clone());
        match (self.protocol, ask) {
            (
                Protocol::Delta,
                Ask::Delta {
                    subscribe,
                    unsubscribe,
                    initial,
                },
            ) => {
                self.subscribe_delta(ty, &subscribe, &unsubscribe, initial);
            }
            (Protocol::Sotw, Ask::Sotw { names }) => self.subscribe_sotw(ty, names, answers),
            _ => {
                out.push(Out::End(Status::new(
                    Code::InvalidArgument,
                    "request of the other protocol variant",
                )));
                return false;
            }
        }
        let Some(watch) = self.watches[ty as usize].as_deref() else {
            return false;
        };
        if !before.is_some_and(|b| b.same(&watch.selection)) {
            out.push(Out::Event(Event::Subscribed {
                ty,
                selection: watch.selection.clone(),
            }));
        }
        watch.asks()
    }

    fn subscribe_delta(
        &mut self,
        ty: TypeUrl,
        subscribe: &[String],
        unsubscribe: &[String],
        initial: Vec<(String, String)>,
    ) {
        let first = self.watches[ty as usize].is_none();
        self.settled.remove(ty);
        let fanout = Arc::clone(&self.fanout);
        let watch = self.watches[ty as usize].get_or_insert_default();
        watch.fresh |= first;
        let mut wildcard = watch.selection.wildcard;
        if first && subscribe.is_empty() {
            // Never having named anything means everything, where that is possible.
            wildcard = ty.wildcard();
        }
        let mut names: Vec<Arc<str>> = watch.selection.names.to_vec();
        for name in subscribe {
            if name == WILDCARD {
                wildcard = true;
                continue;
            }
            let name: Arc<str> = name.as_str().into();
            if watch.sent.is_some() && watch.covered.selects(&name) {
                // Asked again for what it should have: it may have forgotten.
                watch.notes.insert(Arc::clone(&name), Note::Asked);
            }
            names.push(name);
        }
        if first {
            for (name, version) in initial {
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
        if !unsubscribe.is_empty() {
            let mut dropped: Vec<&str> = unsubscribe.iter().map(String::as_str).collect();
            dropped.sort_unstable();
            wildcard &= dropped.binary_search(&WILDCARD).is_err();
            names.retain(|n| {
                let drop = dropped.binary_search(&&**n).is_ok();
                if drop {
                    watch.notes.remove(n);
                    if wildcard && watch.sent.is_some() {
                        // Still covered by the wildcard, but the client has dropped it.
                        watch.notes.insert(Arc::clone(n), Note::Asked);
                    }
                }
                !drop
            });
        }
        let names = if names.is_empty() {
            Names::default()
        } else {
            fanout.names(Names::new(names))
        };
        watch.select(Selection { wildcard, names });
    }

    fn subscribe_sotw(&mut self, ty: TypeUrl, names: Vec<String>, answers: bool) {
        let first = self.watches[ty as usize].is_none();
        let named = names.iter().any(|n| n != WILDCARD);
        let everything = names.iter().any(|n| n == WILDCARD);
        if first && names.is_empty() && !ty.wildcard() {
            return;
        }
        let fanout = Arc::clone(&self.fanout);
        let watch = self.watches[ty as usize].get_or_insert_default();
        if first {
            watch.fresh = true;
        } else if !answers && watch.in_flight.is_none() && watch.sent.is_some() {
            // No response is known to the client: it starts over.
            watch.fresh = true;
            watch.covered = Selection::default();
        }
        if !first && !everything && lists_same(&names, &watch.selection) {
            // Every answer repeats the names: the usual case costs no copy of them.
            return;
        }
        // An empty list goes on with everything; once something was named it gives everything up.
        let goes_on = first || watch.selection.wildcard && watch.selection.names.is_empty();
        let wildcard = everything || names.is_empty() && goes_on;
        let names = match named {
            true => Names::new(names.into_iter().filter(|n| n != WILDCARD).map(Into::into)),
            false => Names::default(),
        };
        let names = if names.is_empty() {
            Names::default()
        } else {
            fanout.names(names)
        };
        if !watch.covered.names.iter().all(|n| names.contains(n)) {
            // What is given up is forgotten at once, so that it counts as new when it is asked for again.
            let kept = watch
                .covered
                .names
                .iter()
                .filter(|n| names.contains(n))
                .cloned();
            watch.covered.names = fanout.names(Names::new(kept));
            watch.notes.retain(|n, _| wildcard || names.contains(n));
        }
        watch.select(Selection { wildcard, names });
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
