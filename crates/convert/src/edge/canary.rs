//! Canaries: Ingresses that take a part of another's requests.
//!
//! Higress: pkg/ingress/kube/annotations/canary.go, 2.1. ingress-nginx: rootfs/etc/nginx/lua/balancer.lua, 1.15.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::{Dialect, HeaderValue, Takes, Text};
use model::re2::quote;
use model::{Kind, ObjectName};
use proto_istio::networking::{Headers, HttpRouteDestination};

use super::backend::hundredths;
use super::draft::{Asks, Draft, Drafting};
use super::limits;
use super::policy::OF_CERTIFICATES;
use super::rules::Path;
use super::sound;

/// A canary of a path.
pub(super) struct Canary<'r, 'a, 'b> {
    pub(super) drafting: &'r Drafting<'r, 'a, 'b>,
    pub(super) stated: &'r annotations::Canary,
    pub(super) path: &'r Path,
}

/// What came of a canary.
pub(super) enum Applied {
    /// Requests are taken.
    Yes,
    /// There is nothing that it could take requests of.
    NoBase,
    /// What it could take requests of is a rule of this Ingress, of another namespace.
    NotOwned(ObjectName),
    /// There is no room for its routes.
    OverLimit,
    /// It has no usable backend, or Envoy would refuse its route, as a sentence.
    NotUsable(String),
}

/// Weights of the canaries of a rule, in the order in which they came.
#[derive(Default)]
pub(super) struct Weights {
    total: Option<u32>,
    parts: Vec<(u32, Vec<HttpRouteDestination>)>,
}

/// A header of requests by which they are told apart.
struct Sign {
    name: Arc<str>,
    text: Text,
    /// Whether those that have it are the canary's; otherwise they stay, whatever follows.
    taken: bool,
}

impl Canary<'_, '_, '_> {
    /// Lets the canary take its part of the rule that asks the same.
    pub(super) fn apply(
        &self,
        drafts: &mut Vec<Draft>,
        by_asks: &BTreeMap<Asks, usize>,
        weights: &mut [Weights],
        room: &mut usize,
    ) -> Applied {
        let asks = Asks::new(self.path, self.drafting.rules);
        let Some(at) = by_asks.get(&asks.same()).copied() else {
            return Applied::NoBase;
        };
        let of = &drafts[at].ingress;
        if of.namespace != self.drafting.ingress.namespace {
            return Applied::NotOwned(of.clone());
        }
        let mut others = Vec::new();
        let destinations = match self.drafting.destinations(self.path, &mut others) {
            Ok(destinations) => destinations,
            Err(fault) => return Applied::NotUsable(fault.sentence),
        };
        if drafts[at].route.route.is_empty() {
            return Applied::NoBase;
        }
        let mut base = drafts[at].clone();
        // Other canaries of the rule are no reason for the routes of this one.
        base.others.retain(|other| other.kind != Kind::Ingress);
        base.others.extend(others.iter().cloned());
        let (mut signed, mut shares) = (Vec::new(), Vec::new());
        let mut weight = 0;
        for takes in &self.stated.takes {
            if let Takes::Weight {
                weight: share,
                total,
            } = takes
            {
                weight += destinations.iter().map(weight_of).sum::<usize>();
                shares.push((*share, *total));
            }
            for sign in self.signs(takes) {
                let mut draft = match sign.taken {
                    true => self.taken(&base, destinations.clone()),
                    false => base.clone(),
                };
                draft.asks = asks.clone();
                draft.asks.ignore_case = base.asks.ignore_case;
                draft.asks.headers.insert(sign.name, sign.text);
                draft.is_of_all = self.is_nginx() && base.asks.is_catch_all();
                if let Some(fault) = sound::fault(&draft) {
                    return Applied::NotUsable(fault);
                }
                weight += draft.weight();
                signed.push(draft);
            }
        }
        let Some(left) = room.checked_sub(weight) else {
            return Applied::OverLimit;
        };
        *room = left;
        drafts[at].others.push(super::key(self.drafting.ingress));
        drafts[at].others.extend(others);
        for (share, total) in shares {
            let weights = &mut weights[at];
            weights.total.get_or_insert(total);
            weights.parts.push((share, destinations.clone()));
        }
        drafts.extend(signed);
        Applied::Yes
    }

    /// The base's rule as the canary has it. With nginx's dialect only the backend is another.
    fn taken(&self, base: &Draft, destinations: Vec<HttpRouteDestination>) -> Draft {
        let mut draft = base.clone();
        draft.ingress = self.drafting.ingress.clone();
        draft.others.push(super::key(&base.ingress));
        draft.at = self.path.at.to_string();
        draft.route.route = destinations;
        if !self.is_nginx() {
            draft.route.headers = self.headers(base);
        }
        if let Some(closed) = &self.drafting.policy.closed {
            draft.closed.get_or_insert_with(|| closed.clone());
        }
        draft
    }

    /// The canary's own changes of headers, and what the base says of certificates of clients: no client may say that itself.
    fn headers(&self, base: &Draft) -> Option<Headers> {
        let mut own = self.drafting.policy.route.headers.clone();
        let request = base.route.headers.as_ref().and_then(|h| h.request.as_ref());
        let of_certificates = |name: &str| name.starts_with(OF_CERTIFICATES);
        let removed = request.into_iter().flat_map(|request| &request.remove);
        for name in removed.filter(|name| of_certificates(name)) {
            let request = own.get_or_insert_default().request.get_or_insert_default();
            request.remove.push(name.clone());
        }
        let set = request.into_iter().flat_map(|request| &request.set);
        for (name, value) in set.filter(|(name, _)| of_certificates(name)) {
            let request = own.get_or_insert_default().request.get_or_insert_default();
            request.set.insert(name.clone(), value.clone());
        }
        own
    }

    fn is_nginx(&self) -> bool {
        self.drafting.rules.annotated.dialect == Dialect::Nginx
    }

    fn signs(&self, takes: &Takes) -> Vec<Sign> {
        let sign = |name: &Arc<str>, text, taken| Sign {
            name: name.clone(),
            text,
            taken,
        };
        let cookie = |name: &str, value: &str, taken| {
            let name = quote(name);
            let pattern = format!(r"^(.*?;\s*)?({name}={value})(;.*)?$");
            sign(&"cookie".into(), Text::Regex(pattern.into()), taken)
        };
        let never = |sign| self.is_nginx().then_some(sign);
        match takes {
            Takes::Weight { .. } => Vec::new(),
            Takes::Header { name, value } => {
                let stays = sign(name, Text::Exact("never".into()), false);
                let taken = sign(name, header(value, self.is_nginx()), true);
                let stays = never(stays).filter(|_| *value == HeaderValue::Always);
                std::iter::once(taken).chain(stays).collect()
            }
            Takes::Cookie(name) => {
                let taken = cookie(name, "always", true);
                let stays = never(cookie(name, "never", false));
                std::iter::once(taken).chain(stays).collect()
            }
        }
    }
}

/// What a destination of a rule weighs about.
fn weight_of(to: &HttpRouteDestination) -> usize {
    use prost::Message;
    to.encoded_len() + limits::DESTINATION_BYTES
}

fn header(value: &HeaderValue, nginx: bool) -> Text {
    match value {
        HeaderValue::Always => Text::Exact("always".into()),
        HeaderValue::Value(value) if nginx => Text::Exact(value.clone()),
        HeaderValue::Value(value) => {
            let value = quote(value);
            Text::Regex(format!("always|{value}").into())
        }
        HeaderValue::Pattern(pattern) if nginx => Text::Regex(format!(".*(?:{pattern}).*").into()),
        HeaderValue::Pattern(pattern) => Text::Regex(format!(".*{pattern}.*").into()),
    }
}

impl Weights {
    /// Gives each canary its share of the rule's requests, and what remains to the rule's own destinations.
    pub(super) fn settle(self, draft: &mut Draft) {
        let total = u64::from(self.total.unwrap_or(100).max(1));
        // Of a hundred, unless that makes another share of a canary's.
        let even = |(weight, _): &(u32, _)| u64::from(*weight) * 100 % total == 0;
        let whole = match self.parts.iter().all(even) {
            true => 100,
            false => total.min(MOST),
        };
        let mut room = i32::try_from(whole).unwrap_or(100);
        let mut added = Vec::new();
        for (weight, destinations) in self.parts {
            let share = i32::try_from(u64::from(weight) * whole / total).unwrap_or(room);
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

/// What weights sum up to at most.
const MOST: u64 = 1_000_000;

/// Destinations that share so much.
fn scaled(destinations: Vec<HttpRouteDestination>, share: i32) -> Vec<HttpRouteDestination> {
    let weights: Vec<u32> = destinations
        .iter()
        .map(|to| u32::try_from(to.weight).unwrap_or(0))
        .collect();
    let mut shares = hundredths(&weights);
    for part in &mut shares {
        *part = i32::try_from(i64::from(*part) * i64::from(share) / 100).unwrap_or(share);
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
