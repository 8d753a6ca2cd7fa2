//! Whatever a client says, in whatever order: a stream stays right, and costs what was said.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod driver;

use std::sync::Arc;

use pilothouse_ads::{Action, Ask, Code, Fanout, Limits, Protocol, Request, Stream};
use proptest::prelude::*;
use proto_envoy::envoy::config::core::v3::Node;
use xds::{Published, Resource, ResourceSet, TypeUrl};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_is_right_and_costs_what_was_said(bytes in prop::collection::vec(any::<u8>(), 0..250)) {
        driver::drive(&bytes);
    }
}

fn request(ty: TypeUrl, ask: Ask) -> Request {
    Request {
        node: Some(Box::new(Node {
            id: "n".into(),
            ..Node::default()
        })),
        type_url: ty.as_str().to_owned(),
        nonce: String::new(),
        rejection: None,
        holds: false,
        ask,
    }
}

fn delta(subscribe: Vec<String>, unsubscribe: Vec<String>) -> Request {
    let ask = Ask::Delta {
        subscribe,
        unsubscribe,
        initial: vec![],
    };
    request(TypeUrl::Endpoint, ask)
}

fn published() -> Arc<Published> {
    let resource = |n: usize| Arc::new(Resource::from_bytes(name(n), "body".into()));
    let mut published = Published::new(1);
    published.set(TypeUrl::Endpoint, ResourceSet::new((0..1000).map(resource)));
    Arc::new(published)
}

fn name(number: usize) -> String {
    format!("outbound|80||service-{number}.shop.svc.cluster.local")
}

/// Acknowledges what was sent last, with a small request in the same go.
fn acknowledge(stream: &mut Stream, out: &[Action], mut next: Request) -> Vec<Action> {
    if let Some(Action::Send(response)) = out.iter().find(|o| matches!(o, Action::Send(_))) {
        next.nonce = format!("{:016x}", response.nonce);
    }
    stream.on_request(next)
}

/// What a hundred small requests cost a stream that asks for so many names.
fn small_requests_after(names: usize) -> u64 {
    let mut stream = Stream::new(Protocol::Delta, Fanout::new());
    stream.on_published(published());
    let mut out = Vec::new();
    for part in (0..names).collect::<Vec<_>>().chunks(20_000) {
        let request = delta(part.iter().map(|n| name(*n)).collect(), vec![]);
        out = acknowledge(&mut stream, &out, request);
    }
    let before = stream.work();
    for n in 0..100 {
        let request = match n % 4 {
            0 => delta(vec![name(names + n)], vec![]),
            1 => delta(vec![], vec![name(names + n - 1)]),
            2 => delta(vec![name(n)], vec![]),
            _ => delta(vec![], vec![name(1_000_000)]),
        };
        out = acknowledge(&mut stream, &out, request);
    }
    stream.work() - before
}

#[test]
fn a_small_request_costs_little_whatever_was_asked_for_before() {
    let (few, many) = (small_requests_after(100), small_requests_after(200_000));
    assert!(few < 1_000, "{few}");
    // A pointer for each chunk of 256, a hundred times.
    assert!(many < 100 * 200_000 / 128, "{many}");
}

#[test]
fn a_stream_that_asks_for_too_much_ends_and_says_why() {
    let limits = Limits {
        names_per_type: 1000,
        name_bytes: 80,
        bytes_per_stream: 30_000,
        ..Limits::default()
    };
    let ends = |protocol, requests: Vec<Request>| {
        let mut stream = Stream::with_limits(protocol, Fanout::new(), limits);
        stream.on_published(published());
        for request in requests {
            if let Some(Action::End(status)) = stream.on_request(request).pop() {
                assert_eq!(status.code, Code::ResourceExhausted);
                return Some(status.message.into_owned());
            }
        }
        None
    };
    let short = |range: std::ops::Range<usize>| range.map(|n| format!("n{n}")).collect::<Vec<_>>();
    let sotw = |names| request(TypeUrl::Endpoint, Ask::Sotw { names });
    let said = |words: &str| Some(format!("the limit is {words}"));

    assert_eq!(
        ends(Protocol::Delta, vec![delta(short(0..1000), vec![])]),
        None
    );
    let parts = vec![
        delta(short(0..600), vec![]),
        delta(short(600..1001), vec![]),
    ];
    let many = said("1000 resource names of a type");
    assert_eq!(ends(Protocol::Delta, parts), many);
    assert_eq!(ends(Protocol::Sotw, vec![sotw(short(0..1001))]), many);
    // What is given up no longer counts.
    let moves = (0..20).flat_map(|n| {
        let names = short(n * 900..n * 900 + 900);
        [delta(names.clone(), vec![]), delta(vec![], names)]
    });
    assert_eq!(ends(Protocol::Delta, moves.collect()), None);
    let long = said("80 bytes of a resource name");
    assert_eq!(
        ends(Protocol::Delta, vec![delta(vec!["x".repeat(81)], vec![])]),
        long
    );
    assert_eq!(ends(Protocol::Sotw, vec![sotw(vec!["x".repeat(81)])]), long);
    let wide = |n: usize| (0..300).map(|i| format!("{n}-{i:070}")).collect::<Vec<_>>();
    let parts = vec![delta(wide(0), vec![]), delta(wide(1), vec![])];
    let bytes = said("30000 bytes of resource names on a stream");
    assert_eq!(ends(Protocol::Delta, parts), bytes);
    let initial = Ask::Delta {
        subscribe: vec![],
        unsubscribe: vec![],
        initial: short(0..1001)
            .into_iter()
            .map(|n| (n, "1".to_owned()))
            .collect(),
    };
    let first = request(TypeUrl::Cluster, initial);
    assert_eq!(ends(Protocol::Delta, vec![first]), many);
}

#[test]
fn names_of_what_was_published_pass_no_limit_even_when_it_is_gone() {
    let limits = Limits {
        names_per_type: 100,
        bytes_per_stream: 10_000,
        ..Limits::default()
    };
    let of = |count: usize| {
        // A resource has its name in its body.
        let resource = |n: usize| Arc::new(Resource::from_bytes(name(n), name(n).into()));
        let mut published = Published::new(1);
        published.set(
            TypeUrl::Endpoint,
            ResourceSet::new((0..count).map(resource)),
        );
        Arc::new(published)
    };
    let all: Vec<String> = (0..1000).map(name).collect();
    let is_over = |out: &[Action]| matches!(out.last(), Some(Action::End(_)));
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let asks = |names: Vec<String>| match protocol {
            Protocol::Delta => delta(names, vec![]),
            Protocol::Sotw => request(TypeUrl::Endpoint, Ask::Sotw { names }),
        };
        let mut stream = Stream::with_limits(protocol, Fanout::new(), limits);
        stream.on_published(of(1));
        assert!(is_over(&stream.on_request(asks(all.clone()))), "not sent");

        let mut stream = Stream::with_limits(protocol, Fanout::new(), limits);
        stream.on_published(of(1000));
        assert!(!is_over(&stream.on_request(asks(all.clone()))));
        stream.on_published(of(1));
        assert!(
            !is_over(&stream.on_request(asks(all.clone()))),
            "sent before"
        );
        let many = (0..50_000).map(name).collect();
        assert!(is_over(&stream.on_request(asks(many))));
    }
    // A client that comes back says which versions it has, beside what it asks for.
    let mut stream = Stream::with_limits(Protocol::Delta, Fanout::new(), limits);
    stream.on_published(of(1000));
    let has = all.iter().map(|name| (name.clone(), "1".to_owned()));
    let ask = Ask::Delta {
        subscribe: all.clone(),
        unsubscribe: vec![],
        initial: has.collect(),
    };
    assert!(!is_over(
        &stream.on_request(request(TypeUrl::Endpoint, ask))
    ));
}

#[test]
fn streams_that_come_to_ask_for_the_same_share_one_list() {
    let fanout = Fanout::new();
    let selection = |first: std::ops::Range<usize>, then: std::ops::Range<usize>| {
        let mut stream = Stream::new(Protocol::Delta, fanout.clone());
        stream.on_published(published());
        let mut last = None;
        for range in [first, then] {
            let out = stream.on_request(delta(range.map(name).collect(), vec![]));
            for out in out {
                if let Action::Event(pilothouse_ads::Event::Subscribed { selection, .. }) = out {
                    last = Some(selection);
                }
            }
        }
        last.unwrap()
    };
    let (a, b) = (
        selection(0..3000, 3000..5000),
        selection(4000..5000, 0..4000),
    );
    assert_eq!(a.names.len(), 5000);
    assert!(a.names.same(&b.names));
}
