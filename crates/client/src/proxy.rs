//! One proxy without a socket: which requests it makes of which responses.
//!
//! As Envoy does: clusters first, then the assignments they name; listeners once those are there; then the routes that
//! listeners name. Every response is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use proto_envoy::google::rpc::Status;
use xds::TypeUrl;

use crate::learned::{Leads, Learned};
use crate::wire::{Entry, Message};

/// What is kept of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) version: Bytes,
    pub(crate) body: Bytes,
}

#[derive(Debug, Default)]
struct Subscription {
    asked: bool,
    answered: bool,
    /// Names asked for; empty for everything.
    names: BTreeSet<Arc<str>>,
    /// Names that no response has spoken of.
    waiting: BTreeSet<Arc<str>>,
    nonce: String,
    version: String,
    /// Resources that lead somewhere.
    leads: BTreeMap<Arc<str>, Leads>,
    /// What it has, to be said when it connects again.
    versions: BTreeMap<Arc<str>, Arc<str>>,
    kept: BTreeMap<Arc<str>, Kept>,
}

/// What a request says of the newest response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Taken,
    Refused,
}

/// The state of one proxy on one stream.
#[derive(Debug)]
pub(crate) struct Proxy {
    delta: bool,
    keep: bool,
    /// Whether versions are kept.
    remembers: bool,
    node: Option<Node>,
    learned: Arc<Learned>,
    subscriptions: BTreeMap<TypeUrl, Subscription>,
}

impl Proxy {
    /// A proxy that wants these types. `keep` keeps the resources.
    pub(crate) fn new(
        node: Node,
        delta: bool,
        keep: bool,
        types: &[TypeUrl],
        learned: Arc<Learned>,
    ) -> Self {
        let subscriptions = types
            .iter()
            .map(|t| (*t, Subscription::default()))
            .collect();
        Self {
            delta,
            keep,
            remembers: false,
            node: Some(node),
            learned,
            subscriptions,
        }
    }

    /// From here on versions are kept, and said when it connects again.
    pub(crate) fn remember(&mut self) {
        self.remembers = self.delta;
    }

    /// The proxy on a new connection: with what it has, if it remembers that, else from nothing.
    pub(crate) fn again(mut self, node: Node) -> Self {
        for subscription in self.subscriptions.values_mut() {
            if self.remembers {
                subscription.asked = false;
                subscription.answered = false;
                subscription.waiting.clear();
                subscription.nonce.clear();
            } else {
                *subscription = Subscription::default();
            }
        }
        self.node = Some(node);
        self
    }

    /// The first requests.
    pub(crate) fn start(&mut self) -> Vec<Vec<u8>> {
        let resumes = self.subscriptions.values().any(|s| !s.versions.is_empty());
        if resumes {
            return self.resume();
        }
        let mut out = Vec::new();
        let after_clusters = self.subscriptions.contains_key(&TypeUrl::Cluster);
        for ty in [TypeUrl::Cluster, TypeUrl::NameTable, TypeUrl::Listener] {
            if self.subscriptions.contains_key(&ty) && !(ty == TypeUrl::Listener && after_clusters)
            {
                out.push(self.request(ty, None, vec![], vec![]));
            }
        }
        out
    }

    /// The first requests of a proxy that has its configuration already: everything it was subscribed to, at once.
    ///
    /// Nothing need be sent to it, so it asks for one assignment more that there is not: the answer shows that the server
    /// has taken in all that was said before.
    fn resume(&mut self) -> Vec<Vec<u8>> {
        let types: Vec<TypeUrl> = self.subscriptions.keys().copied().collect();
        let last = |ty: &TypeUrl| *ty == TypeUrl::Endpoint;
        let mut out = Vec::new();
        for ty in types
            .iter()
            .filter(|t| !last(t))
            .chain(types.iter().filter(|t| last(t)))
        {
            let Some(subscription) = self.subscriptions.get_mut(ty) else {
                continue;
            };
            let mut names: Vec<Arc<str>> = subscription.names.iter().cloned().collect();
            subscription.answered = true;
            if *ty == TypeUrl::Endpoint {
                let probe: Arc<str> = "no-such-cluster".into();
                subscription.waiting.insert(Arc::clone(&probe));
                names.push(probe);
            } else if names.is_empty() && !ty.wildcard() {
                continue;
            }
            out.push(self.request(*ty, None, names, vec![]));
        }
        out
    }

    /// Takes in a response, or refuses it, and returns the requests that follow.
    pub(crate) fn on_response(&mut self, message: Message, refused: bool) -> Vec<Vec<u8>> {
        let ty = message.ty;
        let Some(subscription) = self.subscriptions.get_mut(&ty) else {
            return Vec::new();
        };
        subscription.nonce = message.nonce;
        subscription.version = message.version;
        subscription.answered = true;
        if refused {
            return vec![self.request(ty, Some(Answer::Refused), vec![], vec![])];
        }
        if !self.delta {
            // What there is not is not spoken of, so any response must do as an answer.
            subscription.waiting.clear();
            if ty.wildcard() {
                subscription.leads.clear();
                subscription.kept.clear();
            }
        }
        for Entry {
            name,
            version,
            body,
        } in message.entries
        {
            let name = self.learned.name(&name);
            subscription.waiting.remove(&name);
            if matches!(ty, TypeUrl::Cluster | TypeUrl::Listener) {
                let leads = self.learned.leads(ty, &body);
                if leads.is_empty() {
                    subscription.leads.remove(&name);
                } else {
                    subscription.leads.insert(Arc::clone(&name), leads);
                }
            }
            if self.remembers {
                let version = self.learned.name(&version);
                subscription.versions.insert(Arc::clone(&name), version);
            }
            if self.keep {
                subscription.kept.insert(name, Kept { version, body });
            }
        }
        for name in &message.removed {
            let name = self.learned.name(name);
            subscription.waiting.remove(&name);
            subscription.leads.remove(&name);
            subscription.kept.remove(&name);
            subscription.versions.remove(&name);
        }
        let mut out = vec![self.request(ty, Some(Answer::Taken), vec![], vec![])];
        if matches!(ty, TypeUrl::Cluster | TypeUrl::Listener) {
            self.follow(&mut out);
        }
        let ready = |ty| {
            self.subscriptions
                .get(&ty)
                .is_none_or(|s: &Subscription| s.answered)
        };
        let late = |ty| {
            self.subscriptions
                .get(&ty)
                .is_some_and(|s: &Subscription| !s.waiting.is_empty())
        };
        let listeners = self
            .subscriptions
            .get(&TypeUrl::Listener)
            .is_some_and(|s| !s.asked);
        if listeners && ready(TypeUrl::Cluster) && !late(TypeUrl::Endpoint) {
            out.push(self.request(TypeUrl::Listener, None, vec![], vec![]));
        }
        out
    }

    /// Whether everything that was asked for has come.
    pub(crate) fn is_configured(&self) -> bool {
        self.subscriptions
            .iter()
            .all(|(ty, s)| s.waiting.is_empty() && (s.answered || !ty.wildcard()))
    }

    /// What was kept, by type.
    pub(crate) fn into_kept(self) -> BTreeMap<TypeUrl, BTreeMap<Arc<str>, Kept>> {
        self.subscriptions
            .into_iter()
            .map(|(ty, s)| (ty, s.kept))
            .collect()
    }

    /// Asks for what clusters and listeners lead to, and gives up what they no longer do.
    fn follow(&mut self, out: &mut Vec<Vec<u8>>) {
        let mut wanted: BTreeMap<TypeUrl, BTreeSet<Arc<str>>> = BTreeMap::new();
        for subscription in self.subscriptions.values() {
            for (ty, name) in subscription.leads.values().flat_map(|l| l.iter()) {
                wanted.entry(*ty).or_default().insert(Arc::clone(name));
            }
        }
        for ty in [
            TypeUrl::Endpoint,
            TypeUrl::Route,
            TypeUrl::Secret,
            TypeUrl::Extension,
        ] {
            let Some(subscription) = self.subscriptions.get_mut(&ty) else {
                continue;
            };
            let wanted = wanted.remove(&ty).unwrap_or_default();
            let new: Vec<_> = wanted.difference(&subscription.names).cloned().collect();
            let old: Vec<_> = subscription.names.difference(&wanted).cloned().collect();
            if new.is_empty() && old.is_empty() {
                continue;
            }
            subscription.waiting.extend(new.iter().cloned());
            for name in &old {
                subscription.waiting.remove(name);
                subscription.kept.remove(name);
                subscription.versions.remove(name);
            }
            subscription.names = wanted;
            out.push(self.request(ty, None, new, old));
        }
    }

    /// A request: an answer to the newest response, or a change of the subscription.
    fn request(
        &mut self,
        ty: TypeUrl,
        answer: Option<Answer>,
        subscribe: Vec<Arc<str>>,
        unsubscribe: Vec<Arc<str>>,
    ) -> Vec<u8> {
        let node = self.node.take();
        let Some(subscription) = self.subscriptions.get_mut(&ty) else {
            return Vec::new();
        };
        let first = !std::mem::replace(&mut subscription.asked, true);
        let error_detail = (answer == Some(Answer::Refused)).then(|| Status {
            code: 13,
            message: "refused by a simulated proxy".to_owned(),
            ..Status::default()
        });
        let strings = |names: Vec<Arc<str>>| names.iter().map(|n| n.to_string()).collect();
        if self.delta {
            let initial = if first {
                Some(&subscription.versions)
            } else {
                None
            };
            let response_nonce = if answer.is_some() {
                subscription.nonce.clone()
            } else {
                String::new()
            };
            let request = DeltaDiscoveryRequest {
                node,
                type_url: ty.as_str().to_owned(),
                resource_names_subscribe: strings(subscribe),
                resource_names_unsubscribe: strings(unsubscribe),
                response_nonce,
                initial_resource_versions: initial
                    .into_iter()
                    .flatten()
                    .map(|(name, version)| (name.to_string(), version.to_string()))
                    .collect(),
                error_detail,
                ..DeltaDiscoveryRequest::default()
            };
            request.encode_to_vec()
        } else {
            let request = DiscoveryRequest {
                node,
                type_url: ty.as_str().to_owned(),
                resource_names: subscription.names.iter().map(|n| n.to_string()).collect(),
                version_info: subscription.version.clone(),
                response_nonce: subscription.nonce.clone(),
                error_detail,
                ..DiscoveryRequest::default()
            };
            request.encode_to_vec()
        }
    }
}
