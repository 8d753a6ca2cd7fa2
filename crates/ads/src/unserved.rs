//! Types that are not served get an empty response, so that no client waits for them.
//!
//! Without a response, an Envoy that reads runtime layers over ADS does not start, istioctl waits for half a minute, and an istiod
//! that reads configuration from here never becomes ready. Ending the stream instead would cost a proxy its other types.
//! Istio: pilot/pkg/xds/ads.go pushXds, 1.32, which does not respond.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::answer::Answer;
use crate::content::{hex, parse_hex};
use crate::limits::Limits;
use crate::request::{Ask, Request};
use crate::status::{Code, Status};

/// The most types of one stream: more than Istio, the Gateway API and Envoy have together.
const MOST: usize = 128;

/// Whether a type is written `group/version/Kind`, as objects are asked for over xDS.
pub(crate) fn is_kind(type_url: &str) -> bool {
    let mut parts = type_url.split('/');
    let three = (parts.next(), parts.next(), parts.next(), parts.next());
    matches!(three, (Some(a), Some(b), Some(c), None) if !(a.is_empty() || b.is_empty() || c.is_empty()))
}

/// The types that one stream requested and that are not served.
#[derive(Debug, Default)]
pub(crate) struct Unserved {
    types: BTreeMap<Box<str>, Last>,
    nonce: u64,
}

/// The last answer of a type.
#[derive(Debug)]
struct Last {
    nonce: u64,
    /// Hash of the names that were asked for; state of the world says them each time.
    asked: u64,
}

/// What follows from a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Whether the type is asked for for the first time.
    pub(crate) first: bool,
    /// The response, unless the request only acknowledges one.
    pub(crate) answer: Option<Answer>,
}

impl Unserved {
    /// Takes in a request.
    pub(crate) fn on_request(
        &mut self,
        request: &Request,
        limits: &Limits,
    ) -> Result<Outcome, Status> {
        let type_url = request.type_url.as_str();
        limits.name(type_url)?;
        let asked = asked(&request.ask);
        let last = self.types.get(type_url);
        let first = last.is_none();
        if last.is_some_and(|last| !self.is_due(last, asked, request)) {
            return Ok(Outcome::default());
        }
        if first && self.types.len() == MOST {
            let message = format!("the limit is {MOST} types that are not served");
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        self.nonce += 1;
        let nonce = self.nonce;
        self.types.insert(type_url.into(), Last { nonce, asked });
        let text = |value| String::from_utf8_lossy(&hex(value)).into_owned();
        let answer = Answer {
            type_url: type_url.to_owned(),
            version: text(0),
            nonce: text(nonce),
            removed: absent(&request.ask),
            ..Answer::default()
        };
        Ok(Outcome {
            first,
            answer: Some(answer),
        })
    }

    /// Whether a request for a type that was answered before asks for something.
    fn is_due(&self, last: &Last, asked: u64, request: &Request) -> bool {
        let answers = parse_hex(&request.nonce).filter(|nonce| *nonce <= self.nonce);
        match &request.ask {
            Ask::Delta { subscribe, .. } => answers.is_none() || !subscribe.is_empty(),
            Ask::Sotw { .. } => match answers {
                // An older answer: the client says again what it wants when it has seen the newest.
                Some(nonce) => nonce == last.nonce && asked != last.asked,
                None => true,
            },
        }
    }
}

/// Hash of the names of a state-of-the-world request, in whatever order.
fn asked(ask: &Ask) -> u64 {
    let Ask::Sotw { names } = ask else {
        return 0;
    };
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut hasher = FxHasher::default();
    names.hash(&mut hasher);
    hasher.finish()
}

/// The names that are reported to a delta client as removed: those it subscribes to and those it states that it has.
fn absent(ask: &Ask) -> Vec<String> {
    let Ask::Delta {
        subscribe, initial, ..
    } = ask
    else {
        return Vec::new();
    };
    let names = subscribe.iter().chain(initial.iter().map(|(name, _)| name));
    let names: BTreeSet<&String> = names.filter(|name| *name != "*").collect();
    names.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIME: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";

    fn sotw(nonce: &str, names: &[&str]) -> Request {
        Request {
            node: None,
            type_url: RUNTIME.to_owned(),
            nonce: nonce.to_owned(),
            rejection: None,
            holds: false,
            ask: Ask::Sotw {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            },
        }
    }

    fn delta(nonce: &str, subscribe: &[&str]) -> Request {
        Request {
            ask: Ask::Delta {
                subscribe: subscribe.iter().map(|name| (*name).to_owned()).collect(),
                unsubscribe: Vec::new(),
                initial: vec![("had".to_owned(), "1".to_owned())],
            },
            ..sotw(nonce, &[])
        }
    }

    /// The nonces of the answers, and the names that do not exist.
    fn answers(requests: &[Request]) -> Vec<Option<(String, Vec<String>)>> {
        let mut unserved = Unserved::default();
        let outcomes = requests
            .iter()
            .map(|request| unserved.on_request(request, &Limits::default()).unwrap());
        outcomes
            .map(|outcome| outcome.answer.map(|a| (a.nonce, a.removed)))
            .collect()
    }

    fn nonce(n: u64, removed: &[&str]) -> Option<(String, Vec<String>)> {
        let removed = removed.iter().map(|name| (*name).to_owned()).collect();
        Some((format!("{n:016x}"), removed))
    }

    #[test]
    fn state_of_the_world_is_answered_once_for_the_same_names() {
        let (one, two) = (format!("{:016x}", 1), format!("{:016x}", 2));
        let requests = [
            // Some clients begin with a nonce that nobody has sent.
            sotw("2026-11-28T19:22:44Z", &["a", "b"]),
            sotw(&one, &["b", "a"]),
            sotw(&one, &["a", "c"]),
            sotw(&one, &["d"]),
            sotw(&two, &["c", "a"]),
            sotw("", &["a"]),
        ];
        let expected = [
            nonce(1, &[]),
            None,
            nonce(2, &[]),
            None,
            None,
            nonce(3, &[]),
        ];
        assert_eq!(answers(&requests), expected);
    }

    #[test]
    fn delta_is_told_what_does_not_exist() {
        let one = format!("{:016x}", 1);
        let requests = [
            delta("", &["b", "*", "a"]),
            delta(&one, &[]),
            delta(&one, &["c"]),
        ];
        let expected = [nonce(1, &["a", "b", "had"]), None, nonce(2, &["c", "had"])];
        assert_eq!(answers(&requests), expected);
    }

    #[test]
    fn what_a_client_makes_a_stream_remember_is_bounded() {
        let mut unserved = Unserved::default();
        let mut ask = |type_url: String| {
            let request = Request {
                type_url,
                ..sotw("", &[])
            };
            let outcome = unserved.on_request(&request, &Limits::default());
            outcome.map(|outcome| outcome.first)
        };
        for n in 0..MOST {
            assert_eq!(ask(format!("a/b/{n}")), Ok(true));
        }
        assert_eq!(ask("a/b/0".to_owned()), Ok(false));
        let refused = ask("a/b/more".to_owned()).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        let refused = ask("x".repeat(5000)).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
    }

    #[test]
    fn kinds_have_a_group_and_a_version() {
        assert!(is_kind("networking.istio.io/v1/Gateway"));
        for other in ["istio.io/debug", "a//Gateway", "a/b/c/d", RUNTIME, ""] {
            assert!(!is_kind(other), "{other}");
        }
    }
}
