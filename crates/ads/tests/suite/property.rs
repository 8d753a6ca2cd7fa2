//! Under any interleaving of changes, delays, lost connections and refusals a client ends with exactly what the server
//! has; and while nothing is lost or refused, no route ever names a cluster that the client cannot use.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use pilothouse_ads::{Action, Ask, Fanout, Protocol, Rejection, Request, Response, Stream};
use proptest::prelude::*;
use proto_envoy::envoy::config::core::v3::Node;
use xds::{Published, Resource, ResourceSet, TypeUrl};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    /// A consistent configuration: clusters with contents and assignments, listeners, and where each route leads.
    Publish(Config),
    /// The server sees the client's next request.
    ToServer,
    /// The client sees the server's next response.
    ToClient,
    /// The connection breaks; everything on the way is lost.
    Break,
    /// The adapter's time limit passes.
    Patience,
}

#[derive(Clone)]
struct Config {
    /// Cluster and assignment content for each name; bit 0 of the first tells whether it exists.
    clusters: [(u8, u8); 6],
    /// Listener content for each name, likewise; and the cluster to which its route leads.
    listeners: [(u8, u8); 6],
    /// Which of them are refused by the client.
    bad: u8,
}

impl std::fmt::Debug for Config {
    /// On one line, also in proptest's report.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} {:?} bad {:06b}",
            self.clusters, self.listeners, self.bad
        )
    }
}

fn config() -> impl Strategy<Value = Config> {
    let pairs = || prop::array::uniform6((0u8..6, 0u8..6));
    (pairs(), pairs(), 0u8..64).prop_map(|(clusters, listeners, bad)| Config {
        clusters,
        listeners,
        bad,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => config().prop_map(Step::Publish),
        8 => Just(Step::ToServer),
        8 => Just(Step::ToClient),
        1 => Just(Step::Break),
        1 => Just(Step::Patience),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Temper {
    protocol: Protocol,
    refuses: bool,
    /// Refuses responses whole; else takes the good parts.
    atomic: bool,
    /// Names what it refuses.
    explains: bool,
    breaks: bool,
}

fn temper() -> impl Strategy<Value = Temper> {
    let protocol = prop_oneof![Just(Protocol::Delta), Just(Protocol::Sotw)];
    (protocol, any::<[bool; 4]>()).prop_map(|(protocol, [refuses, atomic, explains, breaks])| {
        Temper {
            protocol,
            refuses,
            atomic,
            explains,
            breaks,
        }
    })
}

#[derive(Default)]
struct Held {
    subscribed: bool,
    names: BTreeSet<String>,
    resources: BTreeMap<String, (u64, Vec<u8>)>,
    nonce: String,
}

/// A client that behaves as Envoy does.
struct Client {
    temper: Temper,
    held: BTreeMap<TypeUrl, Held>,
    node: Option<Box<Node>>,
    /// It asks for listeners once its clusters are ready.
    ready: bool,
    requests: VecDeque<Request>,
}

fn hex(v: u64) -> String {
    format!("{v:016x}")
}

fn bad(body: &[u8]) -> bool {
    body.starts_with(b"bad")
}

impl Client {
    fn new(temper: Temper) -> Self {
        let held = TYPES.into_iter().map(|t| (t, Held::default())).collect();
        let mut client = Self {
            temper,
            held,
            node: None,
            ready: false,
            requests: VecDeque::new(),
        };
        client.connect();
        client
    }

    fn connect(&mut self) {
        self.requests.clear();
        self.node = Some(Box::new(Node {
            id: "n".into(),
            ..Node::default()
        }));
        for ty in TYPES {
            let held = self.held.get_mut(&ty).unwrap();
            held.nonce.clear();
            held.subscribed = false;
            if ty == TypeUrl::Cluster
                || ty == TypeUrl::Listener && self.ready
                || !held.names.is_empty()
            {
                let names = held.names.iter().cloned().collect();
                self.ask(ty, names, vec![], None);
            }
        }
    }

    /// Sends a request; `subscribe` and `unsubscribe` were applied already.
    fn ask(
        &mut self,
        ty: TypeUrl,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
        answer: Option<Option<String>>,
    ) {
        let held = self.held.get_mut(&ty).unwrap();
        let first = !std::mem::replace(&mut held.subscribed, true);
        let ask = match self.temper.protocol {
            Protocol::Delta => Ask::Delta {
                subscribe,
                unsubscribe,
                initial: match first {
                    true => held
                        .resources
                        .iter()
                        .map(|(n, (v, _))| (n.clone(), hex(*v)))
                        .collect(),
                    false => vec![],
                },
            },
            Protocol::Sotw => Ask::Sotw {
                names: held.names.iter().cloned().collect(),
            },
        };
        let nonce = match self.temper.protocol {
            Protocol::Delta if answer.is_none() => String::new(),
            _ => held.nonce.clone(),
        };
        let rejection = answer
            .flatten()
            .map(|message| Rejection { code: 3, message });
        self.requests.push_back(Request {
            node: self.node.take(),
            type_url: ty.as_str().to_owned(),
            nonce,
            rejection,
            holds: false,
            ask,
        });
    }

    fn on_response(&mut self, response: &Response) {
        let content = &response.content;
        let ty = content.ty;
        let temper = self.temper;
        let held = self.held.get_mut(&ty).unwrap();
        held.nonce = hex(response.nonce);
        let wildcard = matches!(ty, TypeUrl::Cluster | TypeUrl::Listener);
        let refused: Vec<&str> = content
            .items
            .iter()
            .filter(|i| temper.refuses && bad(&i.resource.body))
            .map(|i| &*i.resource.name)
            .collect();
        if refused.is_empty() || !temper.atomic {
            if temper.protocol == Protocol::Sotw && wildcard {
                held.resources
                    .retain(|n, _| content.items.iter().any(|i| *i.resource.name == **n));
            }
            for item in &content.items {
                let name = &*item.resource.name;
                if !refused.contains(&name) && (wildcard || held.names.contains(name)) {
                    held.resources
                        .insert(name.to_owned(), (item.version, item.resource.body.to_vec()));
                }
            }
            for name in &content.removed {
                held.resources.remove(&**name);
            }
        }
        let answer = match refused.is_empty() {
            true => None,
            false if temper.explains => Some(format!("cannot take {}", refused.join(", "))),
            false => Some("cannot take something".to_owned()),
        };
        self.ask(ty, vec![], vec![], Some(answer));
        match ty {
            TypeUrl::Cluster => self.follow(ty, TypeUrl::Endpoint),
            TypeUrl::Listener => self.follow(ty, TypeUrl::Route),
            _ => {}
        }
        let assignments = &self.held[&TypeUrl::Endpoint];
        if !self.ready
            && assignments
                .names
                .iter()
                .all(|n| assignments.resources.contains_key(n))
        {
            self.ready = true;
            self.ask(TypeUrl::Listener, vec![], vec![], None);
        }
    }

    /// Asks for what the resources of `parent` need, and gives up the rest.
    fn follow(&mut self, parent: TypeUrl, child: TypeUrl) {
        let wanted: BTreeSet<String> = self.held[&parent].resources.keys().cloned().collect();
        let held = self.held.get_mut(&child).unwrap();
        let new: Vec<String> = wanted.difference(&held.names).cloned().collect();
        let old: Vec<String> = held.names.difference(&wanted).cloned().collect();
        for name in &old {
            held.resources.remove(name);
        }
        held.names = wanted;
        if !new.is_empty() || !old.is_empty() {
            self.ask(child, new, old, None);
        }
    }
}

struct World {
    temper: Temper,
    fanout: Arc<Fanout>,
    published: Published,
    stream: Stream,
    responses: VecDeque<Response>,
    client: Client,
    /// Nothing that could break the order happened.
    calm: bool,
    /// What happened, for the reader of a failure.
    log: Vec<String>,
}

impl World {
    fn new(temper: Temper, fanout: Arc<Fanout>) -> Self {
        Self {
            temper,
            stream: Stream::new(temper.protocol, Arc::clone(&fanout)),
            fanout,
            published: Published::new(0),
            responses: VecDeque::new(),
            client: Client::new(temper),
            calm: true,
            log: vec![],
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(config) => {
                let out = self.publish(config);
                self.take(out);
            }
            Step::ToServer => {
                if let Some(request) = self.client.requests.pop_front() {
                    self.log.push(format!(
                        "  to server {} {} {:?}",
                        request.type_url.rsplit('.').next().unwrap(),
                        request.nonce,
                        request.ask
                    ));
                    let out = self.stream.on_request(request);
                    self.take(out);
                }
            }
            Step::ToClient => {
                if let Some(response) = self.responses.pop_front() {
                    self.log.push(format!(
                        "    client gets {} #{}",
                        response.content.ty, response.nonce
                    ));
                    self.client.on_response(&response);
                    self.check_order();
                }
            }
            Step::Break if self.temper.breaks => {
                self.calm = false;
                self.responses.clear();
                self.stream = Stream::new(self.temper.protocol, Arc::clone(&self.fanout));
                let out = self.stream.on_published(Arc::new(self.published.clone()));
                self.take(out);
                self.client.connect();
            }
            Step::Patience if self.stream.waits() => {
                self.calm = false;
                let out = self.stream.on_patience_lost();
                self.take(out);
            }
            Step::Break | Step::Patience => {}
        }
    }

    fn publish(&mut self, config: &Config) -> Vec<Action> {
        let resource = |name: &str, body: String| Arc::new(Resource::from_bytes(name, body.into()));
        let word = |at: usize| {
            if config.bad >> at & 1 == 1 {
                "bad"
            } else {
                "good"
            }
        };
        let all =
            |alive: &[(u8, u8); 6]| (0..6).filter(|i| alive[*i].0 & 1 == 1).collect::<Vec<_>>();
        let clusters = all(&config.clusters);
        // A route leads somewhere, and a listener has its route.
        let listeners = if clusters.is_empty() {
            vec![]
        } else {
            all(&config.listeners)
        };
        let make = |which: &[usize], body: &dyn Fn(usize) -> String| {
            ResourceSet::new(which.iter().map(|i| resource(NAMES[*i], body(*i))))
        };
        let sets = [
            make(&clusters, &|i| {
                format!("{} {}", word(i), config.clusters[i].0)
            }),
            make(&clusters, &|i| format!("good {}", config.clusters[i].1)),
            make(&listeners, &|i| format!("good {}", config.listeners[i].0)),
            make(&listeners, &|i| {
                let to = clusters[usize::from(config.listeners[i].1) % clusters.len()];
                format!("{} to {}", word(5 - i), NAMES[to])
            }),
        ];
        self.published.revision += 1;
        for (ty, set) in TYPES.into_iter().zip(sets) {
            self.published.set(ty, set);
        }
        self.log.push(format!("PUBLISH {config:?}"));
        self.stream.on_published(Arc::new(self.published.clone()))
    }

    fn take(&mut self, out: Vec<Action>) {
        for out in out {
            match out {
                Action::Send(response) => {
                    let items: Vec<_> = response
                        .content
                        .items
                        .iter()
                        .map(|i| {
                            format!(
                                "{}={}",
                                i.resource.name,
                                String::from_utf8_lossy(&i.resource.body)
                            )
                        })
                        .collect();
                    self.log.push(format!(
                        "send {} #{} {:?} -{:?}",
                        response.content.ty, response.nonce, items, response.content.removed
                    ));
                    self.responses.retain(|r| {
                        assert_ne!(
                            r.content.ty, response.content.ty,
                            "two responses of one type in flight"
                        );
                        true
                    });
                    self.responses.push_back(response);
                }
                Action::Event(_) => {}
                Action::Extra(request) => panic!("asked others for {}", request.type_url),
                Action::End(status) => panic!("ended: {status}"),
            }
        }
    }

    /// Every route of the client leads to a cluster that it has, with an assignment.
    fn check_order(&self) {
        if !self.calm || self.temper.refuses {
            return;
        }
        let held = |ty| &self.client.held[&ty].resources;
        for (route, (_, body)) in held(TypeUrl::Route) {
            let to = std::str::from_utf8(body)
                .unwrap()
                .rsplit(' ')
                .next()
                .unwrap();
            assert!(
                held(TypeUrl::Cluster).contains_key(to),
                "route {route} leads to {to}, which is no cluster"
            );
            assert!(
                held(TypeUrl::Endpoint).contains_key(to),
                "route {route} leads to {to}, which has no endpoints\n{}",
                self.log.join("\n")
            );
        }
    }

    /// Lets everything arrive.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.client.requests.is_empty() {
                self.step(&Step::ToServer);
            } else if !self.responses.is_empty() {
                self.step(&Step::ToClient);
            } else if self.stream.waits() {
                self.step(&Step::Patience);
            } else {
                return;
            }
        }
        panic!("the client and the server never come to rest");
    }

    fn check_end(&self) {
        for ty in TYPES {
            let held = &self.client.held[&ty];
            let set = self.published.get(ty).unwrap();
            let wildcard = matches!(ty, TypeUrl::Cluster | TypeUrl::Listener);
            let removes =
                wildcard || self.temper.protocol == Protocol::Delta && ty != TypeUrl::Route;
            for resource in set
                .iter()
                .filter(|r| wildcard || held.names.contains(&*r.name))
            {
                if self.temper.refuses && bad(&resource.body) {
                    continue;
                }
                let has = held
                    .resources
                    .get(&*resource.name)
                    .map(|(_, body)| &body[..]);
                assert_eq!(
                    has,
                    Some(&resource.body[..]),
                    "{ty} {}\n{}",
                    resource.name,
                    self.log.join("\n")
                );
            }
            for name in held.resources.keys().filter(|_| removes) {
                // Clusters that refused routes may still use stay.
                let stays =
                    self.temper.refuses && matches!(ty, TypeUrl::Cluster | TypeUrl::Endpoint);
                assert!(
                    stays || set.get(name).is_some(),
                    "{ty} {name} is gone and the client still has it\n{}",
                    self.log.join("\n")
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_ends_with_the_servers_set(
        temper in temper(),
        steps in prop::collection::vec(step(), 0..60),
        mut last in config(),
        heals in any::<bool>(),
    ) {
        let fanout = Fanout::new();
        let mut world = World::new(temper, Arc::clone(&fanout));
        // Another client of the same view, that takes everything at once: what is made for it is there for the first.
        let placid = Temper { refuses: false, breaks: false, ..temper };
        let mut other = World::new(placid, fanout);
        for step in &steps {
            if matches!(step, Step::Publish(_)) {
                other.step(step);
                other.settle();
            }
            world.step(step);
        }
        // Without a name whole sets are refused as they are: only better content can help.
        if heals || temper.protocol == Protocol::Sotw && !temper.explains {
            last.bad = 0;
        }
        let heals = last.bad == 0;
        other.step(&Step::Publish(last.clone()));
        other.settle();
        other.check_end();
        world.step(&Step::Publish(last));
        world.settle();
        world.check_end();
        if heals {
            world.temper.refuses = false;
            world.check_end();
        }
    }
}
