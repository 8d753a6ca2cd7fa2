//! Canaries: Ingresses that take a part of another's requests.
//!
//! Higress: pkg/ingress/kube/annotations/canary.go, 2.1.

use std::collections::BTreeMap;

use annotations::{Dialect, HeaderValue, Takes, Text};
use proto_istio::networking::HttpRouteDestination;

use super::backend::hundredths;
use super::draft::{Asks, Draft, Drafting};
use super::rules::Path;
use super::sound;

/// A canary of a path.
pub(super) struct Canary<'r, 'a, 'b> {
    pub(super) drafting: &'r Drafting<'r, 'a, 'b>,
    pub(super) takes: &'r Takes,
    pub(super) path: &'r Path,
}

/// What came of a canary.
pub(super) enum Applied {
    /// Requests are taken.
    Yes,
    /// There is nothing that it could take requests of.
    NoBase,
    /// It has no usable backend, or Envoy would refuse its route, as a sentence.
    NotUsable(String),
}

/// Weights of the canaries of a rule, in the order in which they came.
#[derive(Default)]
pub(super) struct Weights {
    total: Option<u32>,
    parts: Vec<(u32, Vec<HttpRouteDestination>)>,
}

impl Canary<'_, '_, '_> {
    /// Lets the canary take its part of the rule that asks the same.
    pub(super) fn apply(
        &self,
        drafts: &mut Vec<Draft>,
        by_asks: &BTreeMap<Asks, usize>,
        weights: &mut [Weights],
    ) -> Applied {
        let mut asks = Asks::new(self.path, self.drafting.rules);
        let Some(at) = by_asks.get(&asks.same()).copied() else {
            return Applied::NoBase;
        };
        let destinations = match self.drafting.destinations(self.path) {
            Ok(destinations) => destinations,
            Err(why) => return Applied::NotUsable(why),
        };
        let base = &mut drafts[at];
        if base.route.route.is_empty() {
            return Applied::NoBase;
        }
        base.others.push(super::key(self.drafting.ingress));
        match self.takes {
            Takes::Weight { weight, total } => {
                let weights = &mut weights[at];
                weights.total.get_or_insert(*total);
                weights.parts.push((*weight, destinations));
                return Applied::Yes;
            }
            Takes::Header { name, value } => {
                asks.headers.insert(name.clone(), header(value));
            }
            Takes::Cookie(name) => {
                let name = super::matching::quote(name);
                let pattern = format!(r"^(.*?;\s*)?({name}=always)(;.*)?$");
                asks.headers
                    .insert("cookie".into(), Text::Regex(pattern.into()));
            }
        }
        let mut canary = base.clone();
        let dialect = self.drafting.rules.annotated.dialect;
        canary.is_of_all = dialect == Dialect::Nginx && base.asks.is_catch_all();
        asks.ignore_case = base.asks.ignore_case;
        canary.asks = asks;
        canary.ingress = self.drafting.ingress.clone();
        canary.others.push(super::key(&base.ingress));
        canary.at.clone_from(&self.path.at);
        canary.route.route = destinations;
        canary
            .route
            .headers
            .clone_from(&self.drafting.policy.route.headers);
        if let Some(closed) = &self.drafting.policy.closed {
            canary.closed.get_or_insert_with(|| closed.clone());
        }
        if let Some(fault) = sound::fault(&canary) {
            return Applied::NotUsable(fault);
        }
        drafts.push(canary);
        Applied::Yes
    }
}

fn header(value: &HeaderValue) -> Text {
    match value {
        HeaderValue::Always => Text::Exact("always".into()),
        HeaderValue::Value(value) => {
            let value = super::matching::quote(value);
            Text::Regex(format!("always|{value}").into())
        }
        HeaderValue::Pattern(pattern) => Text::Regex(format!(".*{pattern}.*").into()),
    }
}

impl Weights {
    /// Gives each canary its share of the rule's requests, and what remains to the rule's own destinations.
    pub(super) fn settle(self, draft: &mut Draft) {
        let total = u64::from(self.total.unwrap_or(100).max(1));
        let mut room = 100;
        let mut added = Vec::new();
        for (weight, destinations) in self.parts {
            let share = i32::try_from(u64::from(weight) * 100 / total).unwrap_or(100);
            let share = share.min(room);
            room -= share;
            added.extend(scaled(destinations, share));
        }
        if added.is_empty() {
            return;
        }
        draft.route.route = scaled(std::mem::take(&mut draft.route.route), room);
        draft.route.route.extend(added);
    }
}

/// Destinations that share so many of a hundred.
fn scaled(destinations: Vec<HttpRouteDestination>, share: i32) -> Vec<HttpRouteDestination> {
    let weights: Vec<u32> = destinations
        .iter()
        .map(|to| u32::try_from(to.weight).unwrap_or(0))
        .collect();
    let mut shares = hundredths(&weights);
    for part in &mut shares {
        *part = *part * share / 100;
    }
    let missing = share - shares.iter().sum::<i32>();
    if let Some(first) = shares.first_mut() {
        *first += missing;
    }
    let pairs = destinations.into_iter().zip(shares);
    pairs
        .map(|(mut to, weight)| {
            to.weight = weight;
            to
        })
        .collect()
}
