//! A client that does not answer costs what one response costs, however much changes.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::{Arc, Weak};

use pilothouse_ads::{Action, Fanout, Protocol, Response, Stream};
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use xds::{Published, Resource, ResourceSet, TypeUrl};

fn revision(n: u64) -> Arc<Published> {
    let mut published = Published::new(n);
    let body = n.to_be_bytes().to_vec().repeat(1_000);
    let cluster = Arc::new(Resource::from_bytes("a", body.into()));
    published.set(TypeUrl::Cluster, ResourceSet::new([cluster]));
    Arc::new(published)
}

fn sent(out: Vec<Action>) -> Option<Response> {
    let mut sent = out.into_iter().filter_map(|o| match o {
        Action::Send(response) => Some(response),
        _ => None,
    });
    let first = sent.next();
    assert!(sent.next().is_none(), "one response at a time");
    first
}

fn request(nonce: String) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node {
            id: "n".into(),
            ..Node::default()
        }),
        type_url: TypeUrl::Cluster.as_str().into(),
        response_nonce: nonce,
        ..DeltaDiscoveryRequest::default()
    }
}

#[test]
fn what_a_silent_client_was_not_sent_is_not_kept() {
    let fanout = Fanout::new();
    let mut stream = Stream::new(Protocol::Delta, Arc::clone(&fanout));
    stream.on_published(revision(1));
    let first = sent(stream.on_request(request(String::new()))).unwrap();

    let mut passed: Vec<Weak<Resource>> = Vec::new();
    for n in 2..=1_000 {
        let published = revision(n);
        let set = published.get(TypeUrl::Cluster).unwrap();
        passed.push(Arc::downgrade(set.get("a").unwrap()));
        assert!(sent(stream.on_published(published)).is_none());
    }
    // What all streams share is let go when nobody asks for it.
    (0..3).for_each(|_| fanout.sweep());
    let kept = passed.iter().filter(|p| p.strong_count() > 0).count();
    assert_eq!(kept, 1, "the newest");

    let nonce = format!("{:016x}", first.nonce);
    let next = sent(stream.on_request(request(nonce))).unwrap();
    assert_eq!(
        next.content.items[0].resource.body[..8],
        1_000_u64.to_be_bytes()
    );
    assert!(first.asked, "the client had just subscribed");
    assert!(!next.asked, "it follows from a change");
    assert_eq!((first.revision, next.revision), (1, 1_000));
}
