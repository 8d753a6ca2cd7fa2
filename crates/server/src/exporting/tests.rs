//! What one stream is told of one type, and what is derived for it.

use std::future::poll_fn;
use std::sync::Arc;

use ads::{Answer, Ask, Request};
use export::{Exported, Item, Items};
use model::{Change, Kind, Owner};
use proto_envoy::envoy::config::core::v3::Node;
use store::Store;
use testkit::{World, settings};

use super::keeper::Keeper;
use super::stream::View;
use super::watched::Watched;

const TYPE: &str = "networking.istio.io/v1/Sidecar";
const SIDECARS: Exported = Exported::Kind(Kind::Sidecar);

fn items(stated: &[(&str, u64)]) -> Items {
    let items = stated.iter().map(|(name, version)| {
        Arc::new(Item {
            name: (*name).into(),
            version: *version,
            revision: None,
            resource: prost_types::Any::default(),
        })
    });
    items.collect()
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn sotw(nonce: &str, asked: &[&str]) -> Request {
    Request {
        node: None,
        type_url: TYPE.to_owned(),
        nonce: nonce.to_owned(),
        rejection: None,
        holds: false,
        ask: Ask::Sotw {
            names: names(asked),
        },
    }
}

fn delta(
    nonce: &str,
    subscribe: &[&str],
    unsubscribe: &[&str],
    initial: &[(&str, u64)],
) -> Request {
    let initial = initial.iter();
    Request {
        ask: Ask::Delta {
            subscribe: names(subscribe),
            unsubscribe: names(unsubscribe),
            initial: initial
                .map(|(name, version)| ((*name).to_owned(), format!("{version:016x}")))
                .collect(),
        },
        ..sotw(nonce, &[])
    }
}

/// A client of one type.
struct Client {
    watched: Watched,
    last: String,
}

impl Client {
    fn new(first: Request) -> Self {
        let mut watched = Watched::new(Some(SIDECARS), &first);
        watched.on_request(first, true).unwrap();
        Self {
            watched,
            last: String::new(),
        }
    }

    fn say(&mut self, request: Request) {
        self.watched.on_request(request, false).unwrap();
    }

    /// The names that it gets, and those that are gone; `None` where there is no response.
    fn gets(&mut self, items: &Items) -> Option<(Vec<String>, Vec<String>)> {
        let answer = self.watched.answer(TYPE, items, &View::default())?;
        let Answer {
            nonce,
            resources,
            removed,
            ..
        } = answer;
        self.last = nonce;
        let names = resources.into_iter().map(|entry| entry.name);
        Some((names.collect(), removed))
    }
}

fn told(sent: &[&str], removed: &[&str]) -> Option<(Vec<String>, Vec<String>)> {
    Some((names(sent), names(removed)))
}

#[test]
fn state_of_the_world_has_all_of_a_kind_when_it_has_changed() {
    let one = items(&[("a/x", 1), ("b/y", 1)]);
    let two = items(&[("a/x", 2), ("b/y", 1)]);
    let mut client = Client::new(sotw("2026-11-28T19:22:44Z", &[]));
    assert_eq!(client.gets(&one), told(&["a/x", "b/y"], &[]));
    // What is not acknowledged is waited for.
    assert_eq!(client.gets(&two), None);
    let first = client.last.clone();
    client.say(sotw(&first, &[]));
    assert_eq!(client.gets(&one), None, "nothing has changed");
    assert_eq!(client.gets(&two), told(&["a/x", "b/y"], &[]));
    client.say(sotw(&first, &["a/*"]));
    assert_eq!(client.gets(&one), None, "an older response was meant");
    let last = client.last.clone();
    client.say(sotw(&last, &["a/*"]));
    assert_eq!(client.gets(&two), told(&["a/x"], &[]));
    let last = client.last.clone();
    client.say(sotw(&last, &["a/*"]));
    assert_eq!(
        client.gets(&items(&[("a/x", 2)])),
        None,
        "b is not asked for"
    );
    assert_eq!(client.gets(&items(&[])), told(&[], &[]));
}

#[test]
fn nothing_of_a_kind_is_an_answer() {
    let mut client = Client::new(sotw("", &[]));
    assert_eq!(client.gets(&items(&[])), told(&[], &[]));
}

#[test]
fn delta_has_what_differs_from_what_the_client_has() {
    let one = items(&[("a/x", 1), ("b/y", 1)]);
    let has = [("a/x", 1), ("c/z", 1)];
    let mut client = Client::new(delta("", &[], &[], &has));
    assert_eq!(client.gets(&one), told(&["b/y"], &["c/z"]));
    let last = client.last.clone();
    client.say(delta(&last, &[], &[], &[]));
    assert_eq!(client.gets(&one), None);
    let two = items(&[("a/x", 2)]);
    assert_eq!(client.gets(&two), told(&["a/x"], &["b/y"]));
    let last = client.last.clone();
    client.say(delta(&last, &[], &[], &[]));
    client.say(delta("", &["b/y", "a/x"], &[], &[]));
    assert_eq!(client.gets(&two), told(&["a/x"], &["b/y"]));
}

#[test]
fn delta_has_the_namespaces_that_are_asked_for() {
    let all = items(&[("a/x", 1), ("b/y", 1)]);
    let mut client = Client::new(delta("", &["a/*"], &[], &[]));
    assert_eq!(client.gets(&all), told(&["a/x"], &[]));
    let last = client.last.clone();
    client.say(delta(&last, &["b/*"], &["a/*"], &[]));
    assert_eq!(client.gets(&all), told(&["b/y"], &["a/x"]));
}

#[test]
fn the_mesh_configuration_needs_no_acknowledgement() {
    let first = sotw("", &[]);
    let mut watched = Watched::new(Some(Exported::MeshConfig), &first);
    watched.on_request(first, true).unwrap();
    for version in 1..4 {
        let items = items(&[("", version)]);
        let answer = watched.answer("core/v1alpha1/MeshConfig", &items, &View::default());
        assert!(answer.is_some());
    }
}

fn node(fields: &[(&str, &str)]) -> Node {
    let fields = fields.iter().map(|(key, value)| {
        let kind = prost_types::value::Kind::StringValue((*value).to_owned());
        ((*key).to_owned(), prost_types::Value { kind: Some(kind) })
    });
    Node {
        id: "sidecar~10.0.0.9~mcp-0.istio-system~istio-system.svc.cluster.local".to_owned(),
        metadata: Some(prost_types::Struct {
            fields: fields.collect(),
        }),
        ..Node::default()
    }
}

#[test]
fn a_client_sees_its_revision_and_the_versions_of_its_release() {
    let of = |fields: &[(&str, &str)]| View::of(Some(&node(fields)));
    let item = |revision: Option<&str>| Item {
        name: "a/x".into(),
        version: 1,
        revision: revision.map(Into::into),
        resource: prost_types::Any::default(),
    };
    let canary = of(&[("ISTIO_REVISION", "canary")]);
    assert!(canary.shows(&item(None)) && canary.shows(&item(Some("canary"))));
    assert!(!canary.shows(&item(Some("stable"))));
    assert!(View::default().shows(&item(Some("stable"))));

    const OLD: &str = "networking.istio.io/v1alpha3/Sidecar";
    let istiod = of(&[("ISTIO_VERSION", "65536.65536.65536")]);
    let release = of(&[("ISTIO_VERSION", "1.31.0")]);
    for view in [&istiod, &release] {
        assert_eq!(view.exported(TYPE), Some(SIDECARS));
        let filter = "networking.istio.io/v1alpha3/EnvoyFilter";
        let filters = Exported::Kind(Kind::EnvoyFilter);
        assert_eq!(view.exported(filter), Some(filters));
    }
    assert_eq!(istiod.exported(OLD), Some(SIDECARS));
    assert_eq!(release.exported(OLD), None);
}

#[tokio::test]
async fn what_a_stream_wants_is_derived_once_every_source_was_read() {
    let keeper = Keeper::start().unwrap();
    let mut store = Store::new(settings("").into());
    let owner = Owner::new(0, "test");
    let mut put = |name: &str| {
        let yaml = format!(
            "{{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {{name: {name}, namespace: a}}, spec: {{egress: [{{hosts: ['./*']}}]}}}}"
        );
        let objects = World::objects(&yaml).into_iter();
        let changed = store.apply(objects.map(|o| Change::Put(owner.clone(), o)));
        keeper.changed(store.snapshot(), &changed.keys);
    };
    put("x");
    let mut listener = keeper.listen();
    listener.want(SIDECARS);
    let first = poll_fn(|cx| listener.poll_next(cx)).await.unwrap();
    assert!(first.get(SIDECARS).is_none(), "nothing is read yet");
    keeper.begin();
    let second = poll_fn(|cx| listener.poll_next(cx)).await.unwrap();
    assert_eq!(second.get(SIDECARS).map(|items| items.len()), Some(1));
    put("other");
    let third = poll_fn(|cx| listener.poll_next(cx)).await.unwrap();
    assert_eq!(third.get(SIDECARS).map(|items| items.len()), Some(2));
    drop(listener);

    // Who comes when all had left is told of nothing that was known before.
    put("z");
    let mut listener = keeper.listen();
    listener.want(SIDECARS);
    let mut newest = poll_fn(|cx| listener.poll_next(cx)).await.unwrap();
    while newest.get(SIDECARS).is_none() {
        newest = poll_fn(|cx| listener.poll_next(cx)).await.unwrap();
    }
    assert_eq!(newest.get(SIDECARS).map(|items| items.len()), Some(3));
}
