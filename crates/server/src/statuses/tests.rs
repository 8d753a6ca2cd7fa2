use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::edge::RemoteIngress;
use model::object::Origin;
use model::settings::Settings;
use model::{Change, Owner};
use testkit::{World, settings};

use super::*;
use crate::derive::{Derive, OriginLimits};

const GATEWAY: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: gate, namespace: shop, uid: g, generation: 1}, spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}}";

fn route(name: &str, generation: i64, path: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: {name}, namespace: shop, uid: {name}, generation: {generation}}}, spec: {{parentRefs: [{{name: gate}}], rules: [{{matches: [{{path: {{value: {path}}}}}]}}]}}}}"
    )
}

fn key(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey {
        kind,
        name: model::ObjectName::new("shop", name),
    }
}

/// The newest wants, once there are others than before.
async fn next(wanted: &mut watch::Receiver<Wanted>) -> Wanted {
    let changed = tokio::time::timeout(Duration::from_secs(60), wanted.changed());
    changed.await.unwrap().unwrap();
    wanted.borrow_and_update().clone()
}

/// A book of what a revision writes, and what derives its statuses.
struct Deriving {
    book: Arc<Book>,
    derive: Derive,
    thread: JoinHandle<()>,
    owner: Owner,
}

impl Deriving {
    fn start(revision: &str) -> Self {
        Self::with(revision, settings(""))
    }

    fn with(revision: &str, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let nothing = store::Store::new(settings.clone()).snapshot();
        let book = Arc::new(Book::new(nothing, "istio-system", revision));
        let seen = book.clone();
        let (derive, thread) = Derive::start(settings, OriginLimits::default(), move |batch| {
            seen.see(batch)
        })
        .unwrap();
        Self {
            book,
            derive,
            thread,
            owner: Owner::new(0, "api"),
        }
    }

    async fn put(&self, yaml: &str) {
        self.say(puts(&self.owner, yaml)).await;
    }

    async fn say(&self, changes: Vec<Change>) {
        self.derive.change(changes, Instant::now()).await.unwrap();
    }

    fn end(self) {
        drop(self.derive);
        self.thread.join().unwrap();
    }
}

/// The objects of a text, as their owner tells them.
fn puts(owner: &Owner, yaml: &str) -> Vec<Change> {
    let objects = World::objects(yaml).into_iter().map(|mut object| {
        object.set_origin(Origin::Source(owner.source.clone()));
        Change::Put(owner.clone(), object)
    });
    objects.collect()
}

/// What is said of the Ingresses of the clusters east and west: whether their status is written.
fn remotes(east: bool, west: bool) -> Change {
    let said = |writes_status| RemoteIngress {
        classes: "nginx".into(),
        namespaces: "".into(),
        writes_status,
    };
    let all = [("east".into(), said(east)), ("west".into(), said(west))];
    Change::RemoteIngresses(Arc::new(all.into()))
}

#[tokio::test]
async fn ingresses_of_remote_clusters_are_written_where_they_are_and_nowhere_else() {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.edge_classes = "nginx".into();
    features.edge_addresses = "192.0.2.1".into();
    settings.features = features.into();
    let api = Deriving::with("", settings);
    let of = |cluster: &str| crate::remotes::owner(0, &cluster.into());
    let (east, west) = (of("east"), of("west"));
    let mut here = api.book.write_to(&api.owner.source).ingresses;
    let mut there = api.book.write_to_remote(&east);
    let ingress = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: shop, uid: u}, \
                   spec: {ingressClassName: nginx, rules: [{host: a.test}]}}";
    let owners = [&api.owner, &east, &west];
    let mut all: Vec<Change> = owners.iter().flat_map(|o| puts(o, ingress)).collect();
    all.push(remotes(true, false));
    api.say(all).await;
    let names =
        |wanted: Wanted| -> Vec<String> { wanted.keys().map(ToString::to_string).collect() };
    assert_eq!(names(next(&mut here).await), ["Ingress shop/a"]);
    assert_eq!(
        names(next(&mut there).await),
        ["Ingress shop/a (cluster east)"]
    );
    assert!(api.book.write_to_remote(&west).borrow().is_empty());

    // Another source that tells of the same cluster is not the place.
    let other = Owner {
        cluster: east.cluster.clone(),
        ..Owner::new(0, "other")
    };
    assert!(api.book.write_to_remote(&other).borrow().is_empty());
    let mut there = api.book.write_to_remote(&east);
    assert_eq!(there.borrow_and_update().size(), 1);
    api.say(vec![remotes(false, false)]).await;
    assert!(next(&mut there).await.is_empty());
    assert!(!here.has_changed().unwrap());
    api.end();
}

#[tokio::test]
async fn an_edit_changes_what_is_wanted_of_what_it_touches() {
    let api = Deriving::start("");
    let mut to_write = api.book.write_to(&api.owner.source).gateways;
    let elsewhere = Owner::new(0, "folder").source;
    let all = [GATEWAY, &route("a", 1, "/a"), &route("b", 1, "/b")].join("\n---\n");
    api.put(&all).await;
    let first = next(&mut to_write).await;
    assert_eq!(first.size(), 3);
    let names: Vec<&str> = first[&key(Kind::KubeGateway, "gate")]
        .fields
        .iter()
        .map(|field| field.name)
        .collect();
    assert_eq!(
        names,
        [
            "addresses",
            "attachedListenerSets",
            "conditions",
            "listeners"
        ]
    );
    api.put(&route("a", 2, "/c")).await;
    let second = next(&mut to_write).await;
    let (a, b) = (key(Kind::HttpRoute, "a"), key(Kind::HttpRoute, "b"));
    assert_eq!((first[&a].generation, second[&a].generation), (1, 2));
    // What the edit does not touch is the same value, not an equal one.
    assert!(Arc::ptr_eq(&first[&b], &second[&b]));
    assert_eq!(api.book.all().len(), 3);
    let gone = Change::Delete(api.owner.clone(), a.clone());
    let deleted = api.derive.change(vec![gone], Instant::now());
    deleted.await.unwrap();
    let third = next(&mut to_write).await;
    assert!(!third.contains_key(&a) && third.contains_key(&b));
    let gate = &third[&key(Kind::KubeGateway, "gate")];
    assert_eq!(gate.fields[3].value[0]["attachedRoutes"], 1);
    // Objects of folders get none written.
    assert!(api.book.write_to(&elsewhere).gateways.borrow().is_empty());
    api.end();
}

#[tokio::test]
async fn each_revision_writes_its_own() {
    let api = Deriving::start("canary");
    let mut to_write = api.book.write_to(&api.owner.source).gateways;
    let labelled = |revision: &str| {
        let labels = format!("metadata: {{labels: {{istio.io/rev: {revision}}},");
        route("a", 1, "/a").replace("metadata: {", &labels)
    };
    let namespace = |labels: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: shop, labels: {{{labels}}}}}}}"
        )
    };
    let all = [&namespace(""), GATEWAY, &labelled("canary")].join("\n---\n");
    api.put(&all).await;
    let (gate, a) = (key(Kind::KubeGateway, "gate"), key(Kind::HttpRoute, "a"));
    let own = |wanted: &Wanted| (wanted.contains_key(&gate), wanted.contains_key(&a));
    assert_eq!(own(&next(&mut to_write).await), (false, true));
    // What states no revision is of that of its namespace.
    api.put(&namespace("istio.io/rev: canary")).await;
    assert_eq!(own(&next(&mut to_write).await), (true, true));
    // A tag is another name of a revision.
    api.put(&namespace("istio.io/rev: prod")).await;
    assert_eq!(own(&next(&mut to_write).await), (false, true));
    api.put("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: istio-revision-tag-prod, labels: {istio.io/rev: canary, istio.io/tag: prod}}, webhooks: []}")
        .await;
    assert_eq!(own(&next(&mut to_write).await), (true, true));
    api.put(&labelled("other")).await;
    assert_eq!(own(&next(&mut to_write).await), (true, false));
    api.end();
}

/// A route with rules, by their paths, each a regular expression.
fn by_regex(rules: &[&[&str]]) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|paths| {
            let matches = paths
                .iter()
                .map(|path| format!("{{path: {{type: RegularExpression, value: '{path}'}}}}"));
            let matches: Vec<String> = matches.collect();
            format!("{{matches: [{}]}}", matches.join(", "))
        })
        .collect();
    let rules = rules.join(", ");
    route("a", 1, "/").replace("[{matches: [{path: {value: /}}]}]", &format!("[{rules}]"))
}

/// What is said of a route: whether it is accepted, why, and whether it is invalid in part.
fn said(wanted: &Wanted, of: &ObjectKey) -> (String, String, Option<String>) {
    let parent = &wanted[of].fields[0].value[0];
    let conditions = parent["conditions"].as_array().unwrap();
    let condition = |kind: &str| conditions.iter().find(|c| c["type"] == kind);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let accepted = condition("Accepted").unwrap();
    let partly = condition("PartiallyInvalid").map(|c| text(&c["message"]));
    (text(&accepted["status"]), text(&accepted["reason"]), partly)
}

#[tokio::test]
async fn what_envoy_would_refuse_of_a_route_is_said_in_its_status() {
    let api = Deriving::start("");
    let mut to_write = api.book.write_to(&api.owner.source).gateways;
    let proxy = testkit::node(&serde_json::json!({
        "id": "router~10.0.0.9~gate-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "PILOTHOUSE_GATEWAY": "gate"},
    }));
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    let subscription = api.derive.subscribe(proxy, here, None).await.unwrap();
    api.derive
        .want(subscription.proxy, xds::TypeUrl::Route)
        .unwrap();
    let a = key(Kind::HttpRoute, "a");
    for (rules, is_accepted) in [
        (&[&["/a"][..]][..], true),
        (&[&["/[a"]], false),
        (&[&["/[a", "/b"]], true),
        (&[&["/a"], &["/[b"]], true),
        (&[&["/a"], &["/b"]], true),
    ] {
        let objects = [GATEWAY, &by_regex(rules)].join("\n---\n");
        api.put(&objects).await;
        api.derive.ask(|_| ()).await.unwrap();
        let found = said(&to_write.borrow_and_update().clone(), &a);
        let expected = match is_accepted {
            true => ("True", "Accepted"),
            false => ("False", "UnsupportedValue"),
        };
        assert_eq!((&*found.0, &*found.1), expected, "{rules:?}");
        let mut paths = rules.iter().flat_map(|rule| rule.iter());
        let is_bad = paths.any(|path| path.contains('['));
        assert_eq!(
            found.2.is_some(),
            is_bad && is_accepted,
            "{rules:?}: {found:?}"
        );
        if let Some(message) = found.2 {
            let place = rules.len() - 1;
            let start =
                format!("Dropped Rule: rules[{place}].matches[0].path.value: not a regular");
            assert!(message.starts_with(&start), "{message}");
        }
    }
    api.put(&by_regex(&[&["/[a"]])).await;
    api.derive.ask(|_| ()).await.unwrap();
    assert_eq!(said(&to_write.borrow_and_update().clone(), &a).0, "False");
    // What the route says by itself is true without proxies as well.
    drop(subscription);
    api.derive.ask(|_| ()).await.unwrap();
    assert_eq!(said(&to_write.borrow_and_update().clone(), &a).0, "False");
    api.end();
}
