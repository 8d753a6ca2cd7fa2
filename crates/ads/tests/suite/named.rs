//! Resources that are asked for in other ways than by their names, as those of gRPC libraries.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use pilothouse_ads::{Action, Ask, Fanout, Protocol, Request, Response, Stream};
use proto_envoy::envoy::config::core::v3::Node;
use xds::{Published, Resource, ResourceSet, SubscriptionRule, TypeUrl};

const TYPE: TypeUrl = TypeUrl::Listener;

/// Two ports of a service under its host, one under its short name, and one of a server.
fn listeners(body: &'static str) -> Arc<Published> {
    let of = |name: &str, wildcard: bool, alias: Option<&str>| {
        let rule = SubscriptionRule {
            wildcard,
            alias: alias.map(Arc::from),
        };
        let resource = Resource::from_bytes(name, body.into());
        Arc::new(resource.with_subscription_rule(Arc::new(rule)))
    };
    let mut published = Published::new(1);
    published.set(
        TYPE,
        ResourceSet::new([
            of("cart.shop:80", true, Some("cart.shop")),
            of("cart.shop:90", true, Some("cart.shop")),
            of("cart:80", false, Some("cart")),
            of("inbound", false, None),
        ]),
    );
    Arc::new(published)
}

fn request(ask: Ask, nonce: Option<u64>) -> Request {
    Request {
        node: Some(Box::new(Node {
            id: "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local".into(),
            ..Node::default()
        })),
        type_url: TYPE.as_str().to_owned(),
        nonce: nonce
            .map(|nonce| format!("{nonce:016x}"))
            .unwrap_or_default(),
        rejection: None,
        holds: false,
        ask,
    }
}

fn sent(actions: Vec<Action>) -> Option<Response> {
    actions.into_iter().find_map(|action| match action {
        Action::Send(response) => Some(response),
        _ => None,
    })
}

fn names(response: &Response) -> Vec<String> {
    let items = response.content.items.iter();
    items.map(|item| item.resource.name.to_string()).collect()
}

fn all(names: &[&str]) -> Ask {
    Ask::Sotw {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn a_name_that_stands_for_several_is_answered_with_all() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["cart.shop"], &["cart.shop:80", "cart.shop:90"]),
        (&["cart.shop:90"], &["cart.shop:90"]),
        (&["cart", "inbound"], &["cart:80", "inbound"]),
        (&["nothing"], &[]),
        (&[], &["cart.shop:80", "cart.shop:90"]),
    ];
    for (asked, wanted) in cases {
        let mut stream = Stream::new(Protocol::Sotw, Fanout::new());
        stream.on_published(listeners("a"));
        let response = sent(stream.on_request(request(all(asked), None))).unwrap();
        assert_eq!(names(&response), wanted, "{asked:?}");
        stream.on_request(request(all(asked), Some(response.nonce)));
        let again = sent(stream.on_published(listeners("b")));
        let again = again.as_ref().map(names).unwrap_or_default();
        assert_eq!(again, wanted, "{asked:?}, changed");
    }
}

#[test]
fn delta_clients_are_told_that_the_name_itself_is_nothing() {
    let subscribe = |names: &[&str]| Ask::Delta {
        subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        unsubscribe: Vec::new(),
        initial: Vec::new(),
    };
    let mut stream = Stream::new(Protocol::Delta, Fanout::new());
    stream.on_published(listeners("a"));
    let asked = subscribe(&["cart.shop", "cart:80"]);
    let response = sent(stream.on_request(request(asked, None))).unwrap();
    assert_eq!(
        names(&response),
        ["cart.shop:80", "cart.shop:90", "cart:80"]
    );
    let removed: Vec<&str> = response.content.removed.iter().map(|n| &**n).collect();
    assert_eq!(removed, ["cart.shop"]);
    stream.on_request(request(subscribe(&[]), Some(response.nonce)));
    let changed = sent(stream.on_published(listeners("b"))).unwrap();
    assert_eq!(names(&changed), ["cart.shop:80", "cart.shop:90", "cart:80"]);
    stream.on_request(request(subscribe(&[]), Some(changed.nonce)));
    let mut nothing = Published::new(3);
    nothing.set(TYPE, ResourceSet::default());
    let gone = sent(stream.on_published(Arc::new(nothing))).unwrap();
    let removed: Vec<&str> = gone.content.removed.iter().map(|n| &**n).collect();
    assert_eq!(removed, ["cart.shop:80", "cart.shop:90", "cart:80"]);
}
