//! What generation sees of namespaces that `discoverySelectors` of mesh config leave out.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::change::Owner;
use model::kinds::Kind;
use model::{AnyObject, Change, Namespace, SourceId};
use pilothouse_store::Store;
use pilothouse_store::input::Input;
use testkit::{World, settings};

/// Who holds the objects of a cluster; `None` for the configured one.
fn owner(cluster: Option<&str>) -> Owner {
    Owner {
        source: SourceId {
            rank: 0,
            name: Arc::from("test"),
        },
        cluster: cluster.map(Into::into),
    }
}

fn namespace(name: &str, labels: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {labels}}}\n---\n")
}

/// A service and a rule for it.
fn content(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: a, namespace: {namespace}}}
spec: {{ports: [{{port: 80, name: http}}]}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: a, namespace: {namespace}}}
spec: {{host: a}}
---
"
    )
}

fn put(yaml: &str) -> Vec<Change> {
    put_in(None, yaml)
}

fn put_in(cluster: Option<&str>, yaml: &str) -> Vec<Change> {
    let put = |object: AnyObject| Change::Put(owner(cluster), object);
    World::objects(yaml).into_iter().map(put).collect()
}

fn set(mesh: &str) -> Vec<Change> {
    vec![Change::Settings(Arc::new(settings(mesh)))]
}

/// What there is of Services and of DestinationRules, by namespace.
fn seen(store: &Store) -> String {
    let snapshot = store.snapshot();
    let of = |kind: Kind| {
        let names = snapshot.tables.iter_any(kind);
        let names: Vec<String> = names.map(|o| o.key().name.namespace.to_string()).collect();
        names.join(" ")
    };
    let (services, rules) = (of(Kind::Service), of(Kind::DestinationRule));
    assert_eq!(services, rules);
    services
}

const ON: &str = "discoverySelectors: [{matchLabels: {mesh: 'on'}}]";

#[test]
fn a_namespace_is_seen_with_all_it_holds_or_not_at_all() {
    let both = namespace("member", "{mesh: 'on'}") + &namespace("other", "{mesh: 'off'}");
    for (mesh, expected) in [
        ("", "member other unlabelled"),
        ("discoverySelectors: []", "member other unlabelled"),
        ("discoverySelectors: [{}]", "member other unlabelled"),
        (ON, "member"),
        (
            "discoverySelectors: [{matchLabels: {mesh: 'on'}}, {matchLabels: {mesh: 'off'}}]",
            "member other",
        ),
        (
            "discoverySelectors: [{matchLabels: {mesh: 'on', a: b}}]",
            "",
        ),
        (
            "discoverySelectors: [{matchExpressions: [{key: mesh, operator: NotIn, values: ['on']}]}]",
            "other unlabelled",
        ),
        (
            "discoverySelectors: [{matchExpressions: [{key: mesh, operator: Exists}]}]",
            "member other",
        ),
        // Every namespace has a label with its name, also where no Namespace says so.
        (
            "discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: unlabelled}}]",
            "unlabelled",
        ),
    ] {
        let mut store = Store::new(Arc::new(settings(mesh)));
        let objects =
            both.clone() + &content("member") + &content("other") + &content("unlabelled");
        store.apply(put(&objects));
        assert_eq!(seen(&store), expected, "{mesh}");
        assert_eq!(store.snapshot().tables.count(Kind::Namespace), 2, "{mesh}");
    }
}

#[test]
fn namespaces_come_and_go_with_labels_and_selectors() {
    let mut store = Store::new(Arc::new(settings(ON)));
    let gone = |kind: Kind, name: &str, namespace: &str| {
        let name = model::ObjectName::new(namespace, name);
        Change::Delete(owner(None), model::ObjectKey { kind, name })
    };
    for (batch, expected) in [
        // What lies in a namespace may come before the Namespace.
        (put(&content("a")), ""),
        (put(&namespace("a", "{mesh: 'on'}")), "a"),
        (
            put(&(content("b") + &namespace("b", "{mesh: 'on'}"))),
            "a b",
        ),
        (put(&namespace("a", "{mesh: 'off'}")), "b"),
        (set(""), "a b"),
        (set(ON), "b"),
        (put(&namespace("a", "{mesh: 'on'}")), "a b"),
        (vec![gone(Kind::Namespace, "b", "")], "a"),
        // What is deleted while it is out of sight does not come back.
        (
            vec![
                gone(Kind::Service, "a", "b"),
                gone(Kind::DestinationRule, "a", "b"),
            ],
            "a",
        ),
        (set(""), "a"),
    ] {
        let text = format!("{batch:?}");
        store.apply(batch);
        assert_eq!(seen(&store), expected, "{text}");
    }
}

#[test]
fn only_what_moves_is_touched() {
    let mut store = Store::new(Arc::new(settings(ON)));
    let on = namespace("a", "{mesh: 'on'}") + &content("a");
    store.apply(put(&(on + &namespace("b", "{}") + &content("b"))));

    let row = |kind: Kind, namespace: &str| {
        let name = model::ObjectName::new(Namespace::from(namespace), "a");
        Input::Row(kind, &name).key()
    };
    let labelled = store.apply(put(&namespace("b", "{mesh: 'on'}")));
    assert!(labelled.keys.contains(&row(Kind::Service, "b")));
    assert!(labelled.keys.contains(&row(Kind::DestinationRule, "b")));
    assert!(!labelled.keys.contains(&row(Kind::Service, "a")));

    let other = store.apply(put(&namespace("b", "{mesh: 'on', other: label}")));
    assert!(!other.keys.contains(&row(Kind::Service, "b")));
    assert_eq!(other.objects.len(), 1);

    // Out of sight, an edit is nobody's concern.
    store.apply(put(&namespace("b", "{}")));
    let edited = content("b").replace("80", "81");
    assert!(store.apply(put(&edited)).is_empty());
}

#[test]
fn a_namespace_of_a_remote_cluster_goes_by_its_own_labels() {
    let mut store = Store::new(Arc::new(settings(ON)));
    let service = content("a");
    let service = service.split("---").next().unwrap();
    let east = Some("east");
    let clusters = |store: &Store| {
        let snapshot = store.snapshot();
        let services = snapshot.tables.iter_any(Kind::Service);
        let names = services.map(|o| match o.key().name.cluster {
            Some(cluster) => cluster.to_string(),
            None => "own".to_owned(),
        });
        names.collect::<Vec<_>>().join(" ")
    };
    for (batch, expected) in [
        (put(service), ""),
        (put_in(east, service), ""),
        (put_in(east, &namespace("a", "{mesh: 'on'}")), "east"),
        (put(&namespace("a", "{mesh: 'on'}")), "own east"),
        (put_in(east, &namespace("a", "{}")), "own"),
        (vec![Change::Gone(owner(None))], ""),
        (set(""), "east"),
    ] {
        let text = format!("{batch:?}");
        store.apply(batch);
        assert_eq!(clusters(&store), expected, "{text}");
    }
}

#[test]
fn what_configures_the_control_plane_is_never_hidden() {
    let mut store = Store::new(Arc::new(settings(ON)));
    let object = |kind: &str, name: &str, namespace: &str, labels: &str| {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}\n---\n"
        )
    };
    let remote = "{istio/multiCluster: 'true'}";
    let objects = object("ConfigMap", "istio", "istio-system", "{}")
        + &object("ConfigMap", "istio", "elsewhere", "{}")
        + &object("Secret", "east", "istio-system", remote)
        + &object("Secret", "east", "elsewhere", remote)
        + &object("Secret", "other", "istio-system", "{}");
    store.apply(put(&objects));
    let west = object("ConfigMap", "west", "istio-system", "{}");
    store.apply(put_in(Some("west"), &west));
    let seen = |store: &Store| {
        let snapshot = store.snapshot();
        let kinds = [Kind::ConfigMap, Kind::Secret].into_iter();
        let all = kinds.flat_map(|kind| snapshot.tables.iter_any(kind).collect::<Vec<_>>());
        all.map(|o| o.key().to_string()).collect::<Vec<_>>()
    };
    let own = ["ConfigMap istio-system/istio", "Secret istio-system/east"];
    assert_eq!(seen(&store), own);
    store.apply(set(""));
    assert_eq!(seen(&store).len(), 6);
    store.apply(set(ON));
    assert_eq!(seen(&store), own);
}
