//! Any bytes as what a control plane answers, in both variants of the protocol, and as what is kept of it on disk: no panic, what is
//! taken is within the limits, and who hears the same state again has nothing to tell.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mcp_client::book::{Book, Step};
use mcp_client::read::Read;
use mcp_client::wire::Response;
use mcp_client::{Limits, Reader, Topic, cache};
use model::parse::Validation;
use model::{Kind, Owner};

const TOPICS: [Topic; 3] = [
    Topic::Objects(Kind::AuthorizationPolicy),
    Topic::Objects(Kind::HttpRoute),
    Topic::MeshConfig,
];

fn limits() -> Limits {
    Limits {
        resources: 100,
        bytes: 1 << 16,
        ..Limits::default()
    }
}

fn check(topic: Topic, response: Response, is_whole: bool) {
    let mut book = Book::new(1, limits());
    let said = Read::of(topic, response, is_whole).said;
    let outcome = book.take(0, said.clone(), Duration::ZERO);
    assert!(book.entries(0).count() <= 100);
    assert!(book.entries(0).map(|entry| entry.body.len()).sum::<usize>() <= 1 << 16);
    if is_whole && outcome.refused.is_none() {
        let again = book.take(0, said, Duration::ZERO).steps;
        assert!(!again.iter().any(|step| matches!(step, Step::Put(_))));
    }
    let reader = Reader {
        owner: Owner::new(1, "xds:fuzz"),
        validation: Validation::Warn,
        revision: "".into(),
    };
    if let Topic::Objects(kind) = topic {
        reader.changes(kind, outcome.steps);
    }
}

fuzz_target!(|bytes: &[u8]| {
    for topic in TOPICS {
        for delta in [false, true] {
            if let Ok(response) = Response::read(bytes.to_vec().into(), delta, &limits()) {
                check(topic, response, !delta);
            }
        }
        let _ = cache::entries(bytes.to_vec().into(), topic, &limits());
    }
});
