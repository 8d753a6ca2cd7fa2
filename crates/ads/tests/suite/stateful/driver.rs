//! A client that says anything, made from bytes: what it asks for is known, and so is what it may cost.
//!
//! Shared by the property in this folder and by the fuzz target `ads`. After every step it holds that:
//! - the stream's selection is the client's, and no response follows another that is not answered;
//! - what the stream looked at is in proportion to the octets that came, to what was sent and published, and not to what was
//!   asked for before;
//! - the stream holds no more bytes of names than came, and no more than its limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_ads::{Action, Code, Event, Fanout, Limits, Protocol, Request, Response, Stream};
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use proto_envoy::google::rpc;
use xds::{Published, Resource, ResourceSet, TypeUrl};

const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// Resources of each type at most.
const PUBLISHED: usize = 60;

/// The limits of the streams that are driven.
pub(crate) fn limits() -> Limits {
    Limits {
        names_per_type: 20_000,
        name_bytes: 100,
        bytes_per_stream: 400_000,
        ..Limits::default()
    }
}

/// What the client asks for of a type.
#[derive(Default)]
struct Asked {
    seen: bool,
    wildcard: bool,
    names: BTreeSet<String>,
    nonce: String,
    in_flight: Option<Response>,
}

/// What one request says.
#[derive(Default)]
struct Say {
    subscribe: Vec<String>,
    unsubscribe: Vec<String>,
    initial: Vec<String>,
    nonce: String,
    refusal: Option<String>,
}

struct Driver<'a> {
    bytes: std::slice::Iter<'a, u8>,
    protocol: Protocol,
    stream: Stream,
    fanout: Arc<Fanout>,
    published: Published,
    contents: BTreeMap<usize, u8>,
    asked: [Asked; 4],
    last_nonce: u64,
    introduced: bool,
    refused: bool,
    ended: bool,
    /// Octets that came on this stream.
    octets: usize,
    /// Work that is allowed for what came, was sent and was published.
    allowed: u64,
}

/// Does what the bytes say, and panics where something does not hold.
pub(crate) fn drive(bytes: &[u8]) {
    let mut bytes = bytes.iter();
    let protocol = match bytes.next() {
        Some(first) if first % 2 == 0 => Protocol::Delta,
        Some(_) => Protocol::Sotw,
        None => return,
    };
    let fanout = Fanout::new();
    let mut driver = Driver {
        bytes,
        protocol,
        stream: Stream::with_limits(protocol, fanout.clone(), limits()),
        fanout,
        published: Published::new(0),
        contents: BTreeMap::new(),
        asked: Default::default(),
        last_nonce: 0,
        introduced: false,
        refused: false,
        ended: false,
        octets: 0,
        allowed: 0,
    };
    driver.publish();
    while let Some(step) = driver.bytes.next().copied() {
        driver.step(step);
    }
}

fn name(number: usize) -> String {
    format!("n{number}")
}

impl Driver<'_> {
    fn byte(&mut self) -> usize {
        self.bytes.next().copied().unwrap_or_default().into()
    }

    /// Some neighbouring names: a few, or thousands.
    fn names(&mut self) -> Vec<String> {
        let (start, count) = (self.byte(), self.byte());
        match count % 8 {
            0 => (start * 64..start * 64 + count * 16).map(name).collect(),
            few => (start..start + few).map(name).collect(),
        }
    }

    fn step(&mut self, step: u8) {
        let at = usize::from(step >> 4) % TYPES.len();
        match step & 15 {
            0..=2 => {
                let subscribe = self.names();
                self.say(
                    at,
                    Say {
                        subscribe,
                        ..Say::default()
                    },
                );
            }
            3 | 4 => {
                let unsubscribe = self.names();
                self.say(
                    at,
                    Say {
                        unsubscribe,
                        ..Say::default()
                    },
                );
            }
            5 => {
                let (subscribe, unsubscribe) = (self.names(), self.names());
                self.say(
                    at,
                    Say {
                        subscribe,
                        unsubscribe,
                        ..Say::default()
                    },
                );
            }
            6 => self.say(
                at,
                Say {
                    subscribe: vec!["*".into()],
                    ..Say::default()
                },
            ),
            7 => self.say(
                at,
                Say {
                    unsubscribe: vec!["*".into()],
                    ..Say::default()
                },
            ),
            8..=10 => self.answer(at, None),
            11 => {
                let words = match self.byte() {
                    0..80 => "no".to_owned(),
                    80..160 => format!("cannot take {}: bad", name(self.byte() % PUBLISHED)),
                    long => "n1 ".repeat(long),
                };
                self.answer(at, Some(words));
            }
            12 => {
                let nonce = format!("{:016x}", self.byte());
                let stale = nonce != self.asked[at].nonce;
                let subscribe = self.names();
                if stale && self.protocol == Protocol::Delta {
                    self.say(
                        at,
                        Say {
                            subscribe,
                            nonce,
                            ..Say::default()
                        },
                    );
                }
            }
            13 => self.publish(),
            14 if self.stream.waits() => {
                self.allowed += self.of_published();
                let out = self.stream.on_patience_lost();
                self.take(out);
            }
            14 => {}
            _ => self.reconnect(),
        }
    }

    /// Connects again; the types are asked for anew, with what the client may have.
    fn reconnect(&mut self) {
        self.stream = Stream::with_limits(self.protocol, self.fanout.clone(), limits());
        let asked = std::mem::take(&mut self.asked);
        (self.introduced, self.refused, self.ended) = (false, false, false);
        (self.last_nonce, self.octets, self.allowed) = (0, 0, 0);
        let out = self.stream.on_published(Arc::new(self.published.clone()));
        self.take(out);
        for (at, asked) in asked.into_iter().enumerate().filter(|(_, a)| a.seen) {
            let initial = asked.names.iter().take(100).cloned().collect();
            let subscribe = asked.names.into_iter().collect();
            self.say(
                at,
                Say {
                    subscribe,
                    initial,
                    ..Say::default()
                },
            );
        }
    }

    /// A new revision: some resource is there, is not, or has another content.
    fn publish(&mut self) {
        for _ in 0..self.byte() % 8 {
            let (which, content) = (self.byte() % PUBLISHED, self.byte() as u8);
            self.contents.insert(which, content);
        }
        self.published.revision += 1;
        for ty in TYPES {
            let alive = self.contents.iter().filter(|(_, content)| **content >= 40);
            let made = alive.map(|(which, content)| {
                let body = format!("{ty} {content}");
                Arc::new(Resource::from_bytes(name(*which), body.into()))
            });
            self.published.set(ty, ResourceSet::new(made));
        }
        // Once for what differs, and once for those who have yet to be sent anything.
        self.allowed += self.of_published();
        if !self.ended {
            let out = self.stream.on_published(Arc::new(self.published.clone()));
            self.take(out);
        }
    }

    fn of_published(&self) -> u64 {
        (8 * TYPES.len() * PUBLISHED) as u64
    }

    fn answer(&mut self, at: usize, refusal: Option<String>) {
        if self.asked[at].in_flight.take().is_none() {
            return;
        }
        self.refused |= refusal.is_some();
        let nonce = self.asked[at].nonce.clone();
        self.say(
            at,
            Say {
                nonce,
                refusal,
                ..Say::default()
            },
        );
    }

    /// Sends a request of this type.
    fn say(&mut self, at: usize, say: Say) {
        if self.ended {
            return;
        }
        let asked = &mut self.asked[at];
        if !asked.seen && say.subscribe.is_empty() {
            asked.wildcard = TYPES[at].wildcard();
        }
        let initial = match asked.seen {
            true => Vec::new(),
            false => say.initial,
        };
        asked.seen = true;
        for name in say.subscribe.iter().chain(&initial) {
            if name == "*" {
                asked.wildcard = true;
            } else {
                asked.names.insert(name.clone());
            }
        }
        for name in &say.unsubscribe {
            asked.names.remove(name);
        }
        asked.wildcard &= !say.unsubscribe.iter().any(|n| n == "*");
        let node = (!std::mem::replace(&mut self.introduced, true)).then(|| Node {
            id: "n".into(),
            ..Node::default()
        });
        let error_detail = say.refusal.map(|message| rpc::Status {
            code: 3,
            message,
            ..rpc::Status::default()
        });
        let type_url = TYPES[at].as_str().to_owned();
        let (request, octets): (Request, usize) = match self.protocol {
            Protocol::Delta => {
                let request = DeltaDiscoveryRequest {
                    node,
                    type_url,
                    resource_names_subscribe: say.subscribe,
                    resource_names_unsubscribe: say.unsubscribe,
                    initial_resource_versions: initial
                        .into_iter()
                        .map(|name| (name, "0".to_owned()))
                        .collect(),
                    response_nonce: say.nonce,
                    error_detail,
                    ..DeltaDiscoveryRequest::default()
                };
                let octets = request.encoded_len();
                (request.into(), octets)
            }
            Protocol::Sotw => {
                // The newest nonce goes with each request, and answers.
                asked.in_flight = None;
                let mut resource_names: Vec<String> = asked.names.iter().cloned().collect();
                if asked.wildcard && !resource_names.is_empty() {
                    resource_names.push("*".into());
                }
                let request = DiscoveryRequest {
                    node,
                    type_url,
                    resource_names,
                    response_nonce: asked.nonce.clone(),
                    error_detail,
                    ..DiscoveryRequest::default()
                };
                let octets = request.encoded_len();
                (request.into(), octets)
            }
        };
        self.octets += octets;
        // A pointer for each chunk of the names, of which there is one for each 256 on average.
        self.allowed += octets as u64 + (asked.names.len() / 64) as u64 + 16;
        // Whoever asks for everything, or refused something, has all that is published looked at.
        if self.protocol == Protocol::Sotw || self.refused || asked.wildcard {
            self.allowed += self.of_published();
        }
        let out = self.stream.on_request(request);
        self.take(out);
    }

    fn take(&mut self, out: Vec<Action>) {
        for out in out {
            match out {
                Action::Send(response) => {
                    assert!(response.nonce > self.last_nonce, "a nonce is used twice");
                    self.last_nonce = response.nonce;
                    let content = &response.content;
                    self.allowed += 2 * (content.items.len() + content.removed.len()) as u64;
                    let at = TYPES.iter().position(|ty| *ty == content.ty).unwrap();
                    let asked = &mut self.asked[at];
                    asked.nonce = format!("{:016x}", response.nonce);
                    assert!(
                        asked.in_flight.is_none(),
                        "two responses of one type in flight"
                    );
                    asked.in_flight = Some(response);
                }
                Action::Event(Event::Subscribed { ty, selection }) => {
                    let at = TYPES.iter().position(|t| *t == ty).unwrap();
                    let asked = &self.asked[at];
                    let names = selection.names.iter().map(|n| &**n);
                    assert!(names.eq(asked.names.iter().map(String::as_str)));
                    if self.protocol == Protocol::Delta {
                        assert_eq!(selection.wildcard, asked.wildcard);
                    }
                }
                Action::Event(_) => {}
                Action::Extra(request) => panic!("asked others for {}", request.type_url),
                Action::End(status) => {
                    assert_eq!(status.code, Code::ResourceExhausted, "{status}");
                    let bytes: usize = self.octets + 8 * PUBLISHED * TYPES.len();
                    let many = self.octets >= limits().names_per_type;
                    assert!(many || 2 * bytes > limits().bytes_per_stream, "{status}");
                    self.ended = true;
                }
            }
        }
        let work = self.stream.work();
        assert!(
            work <= self.allowed,
            "{work} names were looked at for {} octets, {} are allowed",
            self.octets,
            self.allowed
        );
        if !self.ended {
            let held = self.stream.name_bytes();
            // Notes are about what was said, or about what is published.
            assert!(
                held <= 2 * self.octets + 8 * PUBLISHED * TYPES.len(),
                "{held}"
            );
            assert!(held <= limits().bytes_per_stream, "{held}");
        }
    }
}
