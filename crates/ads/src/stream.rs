//! One stream of either protocol, without a socket.
//!
//! Whatever happens, the stream then looks at every type in pushing order and sends what is due and allowed. Allowed
//! is one unanswered response per type, so a slow client gets the newest state when it has answered, never a queue.
//!
//! Order keeps traffic whole while configuration changes (make before break):
//! - clusters go before assignments, listeners before routes;
//! - listeners and routes wait until new clusters are taken and their assignments have arrived ([`Stream::waits`]);
//! - clusters and assignments that are gone stay with the client until listeners and routes no longer name them;
//! - a changed cluster makes its assignment be sent again, because Envoy waits for it
//!   (Istio: pilot/pkg/xds/delta.go forceEDSPush, 1.32, which sends all of them).

mod subscribe;

use std::collections::BTreeMap;
use std::sync::Arc;

use xds::{ByType, Published, ResourceSet, TypeUrl, Types};

use crate::action::{Action, Event, Response};
use crate::budget::Account;
use crate::content::parse_hex;
use crate::fanout::Fanout;
use crate::limits::Limits;
use crate::request::Request;
use crate::status::{Code, Status};
use crate::watch::{Note, Setting, Watch};

/// The variant of the xDS protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// Differences.
    Delta,
    /// State of the world.
    Sotw,
}

/// A report of the health of the workload, which is not answered. The first request of a proxy may be one, without a node.
///
/// Istio: pilot/pkg/xds/ads.go handleWorkloadHealthcheck, 1.32.
const HEALTH: &str = "type.googleapis.com/istio.v1.HealthInformation";

/// One stream: feed it requests and revisions, do what it says.
#[derive(Debug)]
pub struct Stream {
    protocol: Protocol,
    fanout: Arc<Fanout>,
    /// As they are for what was published at its most: a client still names what it was sent before.
    limits: Limits,
    account: Option<Arc<Account>>,
    published: Option<Arc<Published>>,
    watches: ByType<Option<Box<Watch>>>,
    /// Types of which a response was not answered yet.
    flying: Types,
    /// Types of which nothing is to be sent until their set changes or the client says something about them.
    settled: Types,
    last_nonce: u64,
    prepared: u64,
    work: u64,
    introduced: bool,
    /// New clusters that were sent and whose assignments have not been taken, with the nonce of that response:
    /// assignments that were sent before it do not count. One that is no longer published stays until the client has
    /// let go of it: published again before that, it is not sent again, and its assignment is still awaited.
    warming: BTreeMap<Arc<str>, u64>,
    /// The clusters that were sent when `warming` was last looked through for those that the client has let go of.
    warmed: Option<ResourceSet>,
    /// The adapter ran out of patience; holds until clusters are sent again.
    released: bool,
    /// The client has shown that it does not ask for assignments at all.
    aloof: bool,
    /// A request is worked on that asks for something else than before.
    asking: bool,
}

impl Stream {
    /// A stream on which nothing happened, with the usual limits.
    pub fn new(protocol: Protocol, fanout: Arc<Fanout>) -> Self {
        Self::with_limits(protocol, fanout, Limits::default())
    }

    /// A stream on which nothing happened.
    pub fn with_limits(protocol: Protocol, fanout: Arc<Fanout>, limits: Limits) -> Self {
        Self {
            protocol,
            fanout,
            limits,
            account: None,
            published: None,
            watches: Default::default(),
            flying: Types::default(),
            settled: Types::default(),
            last_nonce: 0,
            prepared: 0,
            work: 0,
            introduced: false,
            warming: BTreeMap::new(),
            warmed: None,
            released: false,
            aloof: false,
            asking: false,
        }
    }

    /// The stream, with what it holds and shares with no other charged to an account.
    #[must_use]
    pub fn charged_to(mut self, account: Arc<Account>) -> Self {
        self.account = Some(account);
        self
    }

    /// Takes in a request.
    pub fn on_request(&mut self, request: impl Into<Request>) -> Vec<Action> {
        let request = request.into();
        if !self.introduced {
            match &request.node {
                Some(node) if !node.id.is_empty() => self.introduced = true,
                _ if request.type_url == HEALTH => return Vec::new(),
                _ => {
                    return vec![Action::End(Status::new(
                        Code::InvalidArgument,
                        "missing node information",
                    ))];
                }
            }
        }
        if request.type_url == HEALTH {
            let refused = request.rejection;
            return vec![Action::Event(Event::Health {
                healthy: refused.is_none(),
                message: refused.map(|r| r.message).unwrap_or_default(),
            })];
        }
        let Some(ty) = TypeUrl::parse(&request.type_url) else {
            return vec![Action::Extra(Box::new(request))];
        };
        let mut out = Vec::new();
        self.asking = self.answered(ty, &request, &mut out)
            && self.subscribe(ty, request.ask, !request.nonce.is_empty(), &mut out);
        if matches!(out.last(), Some(Action::End(_))) {
            return out;
        }
        self.pump(&mut out);
        self.asking = false;
        out
    }

    /// Takes in the newest revision.
    pub fn on_published(&mut self, published: Arc<Published>) -> Vec<Action> {
        for ty in TypeUrl::ALL {
            let before = self.published.as_ref().and_then(|p| p.get(ty));
            let same = match (before, published.get(ty)) {
                (Some(before), Some(now)) => before.same(now),
                (None, None) => true,
                _ => false,
            };
            if !same {
                self.settled.remove(ty);
            }
        }
        self.limits = self.limits.raised_for(published.bytes());
        self.published = Some(published);
        let mut out = Vec::new();
        self.pump(&mut out);
        out
    }

    /// Whether something is held back until new clusters are ready. Clients that never take the assignments would
    /// hold it for ever: call [`Stream::on_patience_lost`] when this stays true for too long.
    pub fn waits(&self) -> bool {
        let due = |w: &Watch| w.in_flight.is_none() && (w.asks() || !w.retry.is_empty());
        TypeUrl::ALL.into_iter().any(|ty| {
            !self.settled.contains(ty)
                && self.held(ty)
                && (self.pending(ty) || self.watches[ty].as_deref().is_some_and(due))
        })
    }

    /// Sends what is held back.
    pub fn on_patience_lost(&mut self) -> Vec<Action> {
        self.released = true;
        self.aloof = self.watches[TypeUrl::Endpoint].is_none();
        self.warming.clear();
        let mut out = Vec::new();
        self.pump(&mut out);
        out
    }

    /// How often what to send was worked out here, and not found among what other streams have sent.
    pub fn prepared(&self) -> u64 {
        self.prepared
    }

    /// How many names were looked at to take in requests and to work out what to send: what the stream has cost.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Bytes of the names that the client asks for or said that it has. The names it asks for are shared with streams
    /// that ask for the same.
    pub fn name_bytes(&self) -> usize {
        let watches = self.watches.values().flatten();
        watches
            .map(|w| w.selection.names.bytes() + w.notes.bytes())
            .sum()
    }

    /// What the client may say, as things are now.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many responses wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Takes the answer to a response, if this is one. False if the rest of the request is to be ignored.
    fn answered(&mut self, ty: TypeUrl, request: &Request, out: &mut Vec<Action>) -> bool {
        let Some(watch) = self.watches[ty].as_deref_mut() else {
            return true;
        };
        if request.nonce.is_empty() {
            return true;
        }
        let nonce = parse_hex(&request.nonce);
        if nonce.is_none() || nonce != watch.last_nonce {
            out.push(Action::Event(Event::Stale { ty }));
            // A delta request is said once, so its subscriptions count whatever it answers; a state-of-the-world
            // client repeats them with the newest nonce.
            return self.protocol == Protocol::Delta;
        }
        let Some(response) = watch.in_flight.take() else {
            return true;
        };
        self.flying.remove(ty);
        let nonce = response.nonce;
        let content = &response.content;
        out.push(Action::Event(match &request.rejection {
            None => {
                watch.accept();
                Event::Ack {
                    ty,
                    nonce,
                    version: content.version,
                }
            }
            Some(rejection) => {
                self.settled.remove(ty);
                self.work += content.items.len() as u64;
                let (resources, blamed) = watch.reject(&response, rejection);
                Event::Nack {
                    ty,
                    nonce,
                    code: rejection.code,
                    message: rejection.message.clone(),
                    resources,
                    blamed,
                }
            }
        }));
        let arrived = match ty {
            TypeUrl::Endpoint => true,
            TypeUrl::Cluster => request.rejection.is_some(),
            _ => false,
        };
        if arrived && !self.warming.is_empty() {
            for name in content
                .items
                .iter()
                .map(|i| &i.resource.name)
                .chain(&content.removed)
            {
                if self.warming.get(name).is_some_and(|since| nonce >= *since) {
                    self.warming.remove(name);
                }
            }
        }
        true
    }

    /// Sends what is due and allowed.
    fn pump(&mut self, out: &mut Vec<Action>) {
        let due = |ty: TypeUrl| self.watches[ty].is_some() && !self.settled.contains(ty);
        if self.warming.is_empty() && !TypeUrl::ALL.into_iter().any(due) {
            return;
        }
        let Some(published) = self.published.clone() else {
            return;
        };
        if !self.warming.is_empty() {
            let clusters = self.watches[TypeUrl::Cluster].as_deref();
            let sent = clusters.and_then(|w| w.sent.as_ref());
            // What was added since is among what was sent.
            let same = |sent: &ResourceSet| self.warmed.as_ref().is_some_and(|w| w.same(sent));
            if !sent.is_some_and(same) {
                self.work += self.warming.len() as u64;
                self.warming
                    .retain(|name, _| sent.is_some_and(|set| set.get(name).is_some()));
                self.warmed = sent.cloned();
            }
        }
        // Once more from the first: what listeners and routes let go of may leave now.
        for ty in TypeUrl::ALL
            .into_iter()
            .chain([TypeUrl::Cluster, TypeUrl::Endpoint])
        {
            if let Some(set) = published.get(ty) {
                self.push(ty, set, &published, out);
            }
        }
    }

    fn push(
        &mut self,
        ty: TypeUrl,
        set: &ResourceSet,
        published: &Published,
        out: &mut Vec<Action>,
    ) {
        if self.settled.contains(ty) || self.flying.contains(ty) {
            return;
        }
        let Some(watch) = self.watches[ty].as_deref() else {
            return;
        };
        if self.held(ty) {
            return;
        }
        let target = self.target(ty, watch, set);
        let cover = (ty == TypeUrl::Endpoint)
            .then(|| self.clusters(published))
            .flatten();
        let (protocol, fanout) = (self.protocol, Arc::clone(&self.fanout));
        let setting = Setting {
            ty,
            protocol,
            fanout: &fanout,
            target: &target,
            cover: cover.as_ref(),
        };
        let Some(watch) = self.watches[ty].as_deref_mut() else {
            return;
        };
        let (first, stated) = (watch.sent.is_none(), !watch.notes.is_empty());
        let key = watch.response_key(&setting, published.revision);
        let prepared = match key.and_then(|k| fanout.prepared(&k, &watch.selection.names)) {
            Some(prepared) => {
                watch.sent = Some(target.clone());
                prepared
            }
            None => {
                self.prepared += 1;
                let prepared = Arc::new(watch.prepare(&setting, published.revision));
                self.work += prepared.work;
                if let Some(key) = key {
                    fanout.keep(key, Arc::clone(&prepared));
                }
                prepared
            }
        };
        // A refused response is tried again in parts, and what state of the world accepted last is kept apart.
        let rests = protocol == Protocol::Delta
            && target.same(set)
            && watch.retry.is_empty()
            && watch.notes.is_empty()
            && !watch.asks();
        if rests {
            self.settled.insert(ty);
        }
        let Some(content) = prepared.content.clone() else {
            out.extend((first && stated).then(|| holds(ty, published)));
            return;
        };
        self.last_nonce += 1;
        let nonce = self.last_nonce;
        if ty == TypeUrl::Cluster {
            self.rewarm(&prepared.touched, first, published);
        }
        let response = Response {
            nonce,
            revision: published.revision,
            asked: self.asking,
            content,
        };
        if let Some(watch) = self.watches[ty].as_deref_mut() {
            watch.last_nonce = Some(nonce);
            watch.in_flight = Some(response.clone());
            self.flying.insert(ty);
        }
        out.push(Action::Send(response));
    }

    /// What the client should have: the published set, and for a while what is still named by something.
    fn target(&self, ty: TypeUrl, watch: &Watch, set: &ResourceSet) -> ResourceSet {
        let users = ty.named_by();
        match &watch.sent {
            Some(sent) if !users.is_empty() && sent != set => {
                let change = self.fanout.change(sent, set);
                if !change.removed.is_empty() && users.iter().any(|user| self.unsettled(*user)) {
                    change.union()
                } else {
                    set.clone()
                }
            }
            _ => set.clone(),
        }
    }

    /// Whether the client may still use an older state of the type than the published one.
    fn unsettled(&self, ty: TypeUrl) -> bool {
        let Some(watch) = self.watches[ty].as_deref() else {
            return false;
        };
        watch.in_flight.is_some() || !watch.retry.is_empty() || watch.refuses() || self.pending(ty)
    }

    /// Whether the client was sent the type and something of it has changed since.
    fn pending(&self, ty: TypeUrl) -> bool {
        let set = self.published.as_deref().and_then(|p| p.get(ty));
        let (Some(watch), Some(set)) = (self.watches[ty].as_deref(), set) else {
            return false;
        };
        let Some(sent) = &watch.sent else {
            return !watch.selection.is_empty();
        };
        if sent == set {
            return false;
        }
        let change = self.fanout.change(sent, set);
        change
            .changed
            .iter()
            .map(|(r, _)| r)
            .chain(&change.removed)
            .any(|r| watch.selection.takes(r))
    }

    /// Whether pushes of the type wait for clusters.
    fn held(&self, ty: TypeUrl) -> bool {
        let waits = ty.waits_for_clusters() && !self.released;
        waits
            && (self.warms()
                || self.flying.contains(TypeUrl::Cluster)
                || self.assignments_are_late())
    }

    /// Whether a cluster that listeners and routes may name waits for its assignment.
    fn warms(&self) -> bool {
        let Some(published) = self.published.as_deref() else {
            return false;
        };
        let has = |ty, name: &str| published.get(ty).is_some_and(|set| set.get(name).is_some());
        self.warming
            .keys()
            .any(|name| has(TypeUrl::Cluster, name) && has(TypeUrl::Endpoint, name))
    }

    /// Whether there are assignments that the client lacks and cannot be sent yet.
    fn assignments_are_late(&self) -> bool {
        if !self.flying.contains(TypeUrl::Endpoint) || self.settled.contains(TypeUrl::Endpoint) {
            return false;
        }
        let set = self
            .published
            .as_deref()
            .and_then(|p| p.get(TypeUrl::Endpoint));
        let (Some(watch), Some(set)) = (self.watches[TypeUrl::Endpoint].as_deref(), set) else {
            return false;
        };
        match &watch.sent {
            Some(sent) if sent != set => {
                let change = self.fanout.change(sent, set);
                change
                    .changed
                    .iter()
                    .any(|(r, new)| *new && watch.selection.takes(r))
            }
            _ => false,
        }
    }

    /// The clusters that assignments belong to: those the client was sent, or will be.
    fn clusters(&self, published: &Published) -> Option<ResourceSet> {
        let watch = self.watches[TypeUrl::Cluster].as_deref();
        watch
            .and_then(|w| w.sent.as_ref())
            .or(published.get(TypeUrl::Cluster))
            .cloned()
    }

    /// Clusters go out: their assignments must follow.
    fn rewarm(&mut self, touched: &[(Arc<str>, bool)], first: bool, published: &Published) {
        self.released = false;
        let Some(assignments) = published.get(TypeUrl::Endpoint) else {
            return;
        };
        let mut watch = self.watches[TypeUrl::Endpoint].as_deref_mut();
        let warms = !first && (watch.is_some() || !self.aloof);
        for (name, new) in touched
            .iter()
            .filter(|(name, _)| assignments.get(name).is_some())
        {
            if let Some(watch) = &mut watch
                && watch.sent.is_some()
                && watch.covered.selects(name)
                && watch.selection.selects(name)
            {
                watch.notes.insert(Arc::clone(name), Note::Asked);
                self.settled.remove(TypeUrl::Endpoint);
            }
            if *new && warms {
                self.warming.insert(Arc::clone(name), self.last_nonce);
            }
        }
    }
}

/// Reports that the client reconnected with current versions of everything it subscribes to.
fn holds(ty: TypeUrl, published: &Published) -> Action {
    let revision = published.revision;
    Action::Event(Event::Holds { ty, revision })
}
