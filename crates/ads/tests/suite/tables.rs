//! The protocol as tables of lines: `tests/tables/*.txt`, run without a socket.
//!
//! ```text
//! == name of the case
//! publish cds a=1 b=2; eds a=x     a revision: these sets, the others as before (`cds` alone: an empty set)
//! > cds +a -b                      delta request: subscribe, unsubscribe
//! > cds a b                        state of the world request: all names
//! > cds ack                        answers the newest response of the type; `nack: words` refuses it
//! > eds +a ~                       `~` states all that the client has and its versions, `~a=?` a version of another server
//! > cds stale                      answers another response
//! reconnect                        a new stream; the client keeps what it has (`losing eds`: not the newest response)
//! patience                         the adapter's time limit passes
//! < cds #1 a=1 b=2 -c              expected: a response, its nonce, resources and what is gone
//! ! ack cds #1                     expected: an event
//! ```
//! `UPDATE_GOLDEN=1` rewrites the expected lines.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use pilothouse_ads::{Action, Ask, Event, Fanout, Protocol, Rejection, Request, Stream};
use proto_envoy::envoy::config::core::v3::Node;
use xds::{Published, Resource, ResourceSet, TypeUrl};

struct Case {
    protocol: Protocol,
    fanout: Arc<Fanout>,
    stream: Stream,
    published: Published,
    introduced: bool,
    nonces: BTreeMap<TypeUrl, u64>,
    /// What the client has: name to version as told.
    held: BTreeMap<TypeUrl, BTreeMap<String, u64>>,
    /// `held` before the newest response.
    before: BTreeMap<TypeUrl, BTreeMap<String, u64>>,
}

impl Case {
    fn new(protocol: Protocol) -> Self {
        let fanout = Fanout::new();
        Self {
            protocol,
            stream: Stream::new(protocol, Arc::clone(&fanout)),
            fanout,
            published: Published::new(0),
            introduced: false,
            nonces: BTreeMap::new(),
            held: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    fn run(&mut self, line: &str) -> Vec<String> {
        let out = match line.split_once(' ').unwrap_or((line, "")) {
            ("publish", sets) => self.publish(sets),
            (">", request) => {
                let request = self.request(request);
                self.stream.on_request(request)
            }
            ("reconnect", loss) => {
                if let Some(ty) = loss.strip_prefix("losing ").map(parse_type) {
                    self.held
                        .insert(ty, self.before.remove(&ty).unwrap_or_default());
                }
                self.stream = Stream::new(self.protocol, Arc::clone(&self.fanout));
                self.introduced = false;
                self.nonces.clear();
                self.stream.on_published(Arc::new(self.published.clone()))
            }
            ("patience", _) => {
                assert!(self.stream.waits(), "nothing is held back");
                self.stream.on_patience_lost()
            }
            _ => panic!("cannot read {line:?}"),
        };
        out.into_iter().map(|o| self.show(o)).collect()
    }

    fn publish(&mut self, sets: &str) -> Vec<Action> {
        self.published.revision += 1;
        for set in sets.split(';') {
            let mut words = set.split_whitespace();
            let ty = parse_type(words.next().expect("a type"));
            let resources = words.map(|w| {
                let (name, body) = w.split_once('=').expect("name=body");
                Arc::new(Resource::from_bytes(name, body.to_owned().into()))
            });
            self.published.set(ty, ResourceSet::new(resources));
        }
        self.stream.on_published(Arc::new(self.published.clone()))
    }

    fn request(&mut self, text: &str) -> Request {
        let (text, mut rejection) = match text.split_once(" nack:") {
            Some((text, words)) => (
                text,
                Some(Rejection {
                    code: 3,
                    message: words.trim().to_owned(),
                }),
            ),
            None => (text, None),
        };
        let mut words = text.split_whitespace();
        let mut type_url = words.next().expect("a type").to_owned();
        let ty = TypeUrl::parse_short(&type_url);
        if let Some(ty) = ty {
            type_url = ty.as_str().to_owned();
        }
        let newest = ty
            .and_then(|t| self.nonces.get(&t))
            .copied()
            .unwrap_or_default();
        let mut nonce = if rejection.is_some() {
            format!("{newest:016x}")
        } else {
            String::new()
        };
        let (mut names, mut subscribe, mut unsubscribe, mut initial) =
            (vec![], vec![], vec![], vec![]);
        let mut node = Some(Node {
            id: "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local".into(),
            ..Node::default()
        });
        for word in words {
            match word {
                "ack" => nonce = format!("{newest:016x}"),
                "stale" => nonce = format!("{:016x}", newest + 1000),
                "foreign-nonce" => nonce = "abc".into(),
                "anonymous" => node = None,
                "~" => {
                    let held = self
                        .held
                        .get(&ty.expect("a known type"))
                        .into_iter()
                        .flatten();
                    initial.extend(held.map(|(n, v)| (n.clone(), format!("{v:016x}"))));
                }
                _ => match word.split_at(1) {
                    ("+", name) => subscribe.push(name.to_owned()),
                    ("-", name) => unsubscribe.push(name.to_owned()),
                    ("~", name) => {
                        initial.push((
                            name.split_once('=').expect("~name=?").0.to_owned(),
                            "2026-08-22/7".to_owned(),
                        ));
                    }
                    _ => names.push(word.to_owned()),
                },
            }
        }
        if self.introduced {
            node = None;
        }
        self.introduced |= node.is_some();
        let ask = match self.protocol {
            Protocol::Delta => Ask::Delta {
                subscribe,
                unsubscribe,
                initial,
            },
            Protocol::Sotw => Ask::Sotw { names },
        };
        Request {
            node: node.map(Box::new),
            type_url,
            nonce,
            rejection: rejection.take(),
            holds: false,
            ask,
        }
    }

    fn show(&mut self, out: Action) -> String {
        match out {
            Action::Send(response) => {
                let content = &response.content;
                self.nonces.insert(content.ty, response.nonce);
                let held = self.held.entry(content.ty).or_default();
                self.before.insert(content.ty, held.clone());
                let mut line = format!("< {} #{}", content.ty.label().to_owned(), response.nonce);
                for item in &content.items {
                    held.insert(item.resource.name.to_string(), item.version);
                    let body = String::from_utf8_lossy(&item.resource.body);
                    write!(line, " {}={body}", item.resource.name).unwrap();
                }
                for name in &content.removed {
                    held.remove(&**name);
                    write!(line, " -{name}").unwrap();
                }
                line
            }
            Action::Extra(request) => format!("! extra {}", request.type_url),
            Action::Event(event) => format!("! {}", show_event(&event)),
            Action::End(status) => format!("! end {status}"),
        }
    }
}

fn show_event(event: &Event) -> String {
    let short = |ty: &TypeUrl| ty.label().to_owned();
    match event {
        Event::Subscribed { ty, selection } => {
            let mut line = format!("subscribed {}", short(ty));
            if selection.wildcard {
                line += " *";
            }
            for name in selection.names.iter() {
                line += " ";
                line += name;
            }
            if selection.is_empty() {
                line + " nothing"
            } else {
                line
            }
        }
        Event::Ack { ty, nonce, .. } => format!("ack {} #{nonce}", short(ty)),
        Event::Nack {
            ty,
            nonce,
            resources,
            blamed,
            ..
        } => {
            let kind = if *blamed { "blames" } else { "blames one of" };
            format!("nack {} #{nonce} {kind} {}", short(ty), resources.join(" "))
        }
        Event::Holds { ty, .. } => format!("holds {}", short(ty)),
        Event::Stale { ty } => format!("stale {}", short(ty)),
        Event::Health { healthy, message } => {
            format!("health {healthy} {message}").trim_end().to_owned()
        }
    }
}

fn parse_type(short: &str) -> TypeUrl {
    TypeUrl::parse_short(short).expect("a short type name")
}

fn run_table(file: &str, protocol: Protocol) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tables")
        .join(file);
    let table = std::fs::read_to_string(&path).unwrap();
    let mut case = Case::new(protocol);
    let mut actual = String::new();
    for line in table.lines() {
        match line.trim() {
            "" => actual.push('\n'),
            l if l.starts_with("== ") => {
                case = Case::new(protocol);
                writeln!(actual, "{l}").unwrap();
            }
            l if l.starts_with('#') => writeln!(actual, "{l}").unwrap(),
            l if l.starts_with(['<', '!']) => {}
            l => {
                writeln!(actual, "{l}").unwrap();
                for out in case.run(l) {
                    writeln!(actual, "    {out}").unwrap();
                }
            }
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &actual).unwrap();
        return;
    }
    for (at, (want, got)) in table.lines().zip(actual.lines()).enumerate() {
        assert_eq!(got.trim(), want.trim(), "{}:{}", path.display(), at + 1);
    }
    assert_eq!(
        actual.lines().count(),
        table.lines().count(),
        "{} has lines too many or too few",
        path.display()
    );
}

#[test]
fn delta_streams_follow_their_table() {
    run_table("delta.txt", Protocol::Delta);
}

#[test]
fn state_of_the_world_streams_follow_their_table() {
    run_table("sotw.txt", Protocol::Sotw);
}
