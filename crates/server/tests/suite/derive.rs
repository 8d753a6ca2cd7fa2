//! The derive thread by itself: what it finds, and for whom.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod wanted;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use model::certificate::{PrivateKey, WorkloadCertificate};
use model::jwks::{FetchedKeys, KeySource};
use model::module::{FetchedModule, Module, ModuleSource, Pull};
use model::node::Node;
use model::parse::{Validation, parse};
use model::trust::MeshRoots;
use model::{Change, Kind, ObjectKey, Owner};
use pilothouse_server::derive::{Derive, OriginLimits, State, Subscription, Totals};
use serde_json::json;
use xds::{Published, Resource, ResourceSet, TypeUrl};

/// Where proxies come from.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A thread under test, with the messages of what it found new.
struct Running {
    derive: Derive,
    told: Arc<Mutex<Vec<String>>>,
    totals: Arc<Mutex<Totals>>,
}

impl Running {
    fn start() -> Self {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let totals: Arc<Mutex<Totals>> = Arc::default();
        let (tell, count) = (told.clone(), totals.clone());
        let settings = Arc::new(testkit::settings(""));
        let (derive, _thread) = Derive::start(settings, OriginLimits::default(), move |batch| {
            let mut told = tell.lock().unwrap();
            told.extend(batch.found.iter().map(ToString::to_string));
            *count.lock().unwrap() = batch.findings;
        })
        .unwrap();
        Self {
            derive,
            told,
            totals,
        }
    }

    async fn put(&self, yaml: &str) -> ObjectKey {
        let parsed = parse(yaml, &Arc::from(Path::new("a.yaml")), Validation::Warn);
        let objects: Vec<_> = parsed.objects().cloned().collect();
        let key = objects[0].key();
        let changes = objects.into_iter().map(|o| Change::Put(source(), o));
        self.derive
            .change(changes.collect(), Instant::now())
            .await
            .unwrap();
        key
    }

    /// What was told since this was last asked.
    async fn told(&self) -> Vec<String> {
        // Behind everything that was said before.
        self.derive.ask(|_| ()).await.unwrap();
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    fn errors(&self) -> i64 {
        self.totals.lock().unwrap().errors
    }

    /// The findings, each with the ids of its proxies.
    async fn page(&self) -> Vec<(&'static str, Vec<String>)> {
        let rows = self.derive.ask(|state| state.findings()).await.unwrap();
        let ids = |nodes: &[Arc<Node>]| nodes.iter().map(|n| n.id.to_string()).collect();
        rows.iter()
            .map(|row| (row.finding.code, ids(&row.proxies)))
            .collect()
    }
}

/// A ServiceEntry.
fn service(name: usize) -> Vec<Change> {
    let yaml = format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: s{name}, namespace: shop}}\n\
         spec: {{hosts: [s{name}.example.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}\n"
    );
    let parsed = parse(&yaml, &Arc::from(Path::new("a.yaml")), Validation::Warn);
    let objects = parsed.objects().cloned();
    objects.map(|o| Change::Put(source(), o)).collect()
}

#[tokio::test]
async fn a_source_that_floods_is_taken_in_few_batches_and_made_to_wait() {
    const ROOM: usize = 64;
    let (entered, mut batches) = tokio::sync::mpsc::unbounded_channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (derive, _thread) = Derive::start(
        Arc::new(testkit::settings("")),
        OriginLimits::default(),
        move |batch| {
            entered.send(batch.changes.objects.len()).unwrap();
            // Goes on when the test says so, and freely once the test has dropped its end.
            _ = held.recv();
        },
    )
    .unwrap();
    derive.change(service(0), Instant::now()).await.unwrap();
    assert_eq!(batches.recv().await, Some(1));

    // The thread is busy: what fits is kept, and the next one waits.
    for name in 1..=ROOM {
        derive.change(service(name), Instant::now()).await.unwrap();
    }
    let mut waits = Box::pin(derive.change(service(ROOM + 1), Instant::now()));
    tokio::select! {
        biased;
        _ = &mut waits => panic!("nothing makes the source wait"),
        () = std::future::ready(()) => {}
    }
    release.send(()).unwrap();
    assert_eq!(batches.recv().await, Some(ROOM), "one batch");
    waits.await.unwrap();
    drop(release);
    assert_eq!(batches.recv().await, Some(1));
    let known = derive.ask(|state| state.store().snapshot().tables.count(Kind::ServiceEntry));
    assert_eq!(known.await.unwrap(), ROOM + 2, "nothing is lost");
}

#[tokio::test]
async fn a_change_passes_a_storm_of_proxies_after_a_bounded_part_of_it() {
    const STORM: usize = 3_000;
    const TURN: usize = 256;
    let (entered, mut batches) = tokio::sync::mpsc::unbounded_channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (derive, _thread) = Derive::start(
        Arc::new(testkit::settings("")),
        OriginLimits::default(),
        move |batch| {
            entered
                .send((batch.changes.objects.len(), batch.proxies))
                .unwrap();
            _ = held.recv();
        },
    )
    .unwrap();
    derive.change(service(0), Instant::now()).await.unwrap();
    assert_eq!(batches.recv().await, Some((1, 0)));

    // The thread is busy. Thousands connect, and behind them all comes a change.
    let mut context = Context::from_waker(Waker::noop());
    let connect =
        |n: usize| Box::pin(derive.subscribe(proxy(&format!("p{n}"), "shop"), PEER, None));
    let mut storm: Vec<_> = (0..STORM).map(connect).collect();
    for proxy in &mut storm {
        assert!(proxy.as_mut().poll(&mut context).is_pending());
    }
    derive.change(service(1), Instant::now()).await.unwrap();
    drop(release);
    let (_, connected) = batches.recv().await.unwrap();
    assert!(
        connected <= TURN,
        "{connected} proxies were worked on before the change"
    );
    let mut taken = Vec::new();
    for proxy in storm {
        taken.push(proxy.await.unwrap());
    }
    assert_eq!(derive.connected(), STORM as u64, "nobody is lost");
    drop(taken);
    assert_eq!(derive.connected(), 0);
}

#[tokio::test]
async fn a_proxy_whose_stream_ends_while_it_is_introduced_is_forgotten() {
    let running = Running::start();
    let derive = &running.derive;
    let proxies = || derive.ask(|state| state.proxies().count());
    let mut context = Context::from_waker(Waker::noop());
    // The thread is busy meanwhile, and does not answer too soon.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut busy = Box::pin(derive.ask(move |_| _ = wait.recv()));
    assert!(busy.as_mut().poll(&mut context).is_pending());
    let mut joins = Box::pin(derive.subscribe(proxy("a", "shop"), PEER, None));
    assert!(joins.as_mut().poll(&mut context).is_pending());
    drop(go);
    // The answer is there, and nobody takes it.
    assert_eq!(proxies().await.unwrap(), 1);
    drop(joins);
    assert_eq!(proxies().await.unwrap(), 0);
    assert_eq!(derive.connected(), 0);
}

#[tokio::test]
async fn invented_places_are_refused_and_real_ones_are_not() {
    let running = Running::start();
    let derive = &running.derive;
    for name in 0..3 {
        derive.change(service(name), Instant::now()).await.unwrap();
    }
    let join = |namespace: String, from: u8| {
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, from));
        derive.subscribe(proxy("p", &namespace), from, None)
    };
    // One address invents namespaces, and then many do.
    let mut streams = Vec::new();
    for n in 0..100 {
        streams.extend(join(format!("invented-{n}"), 1).await.ok());
    }
    assert_eq!(streams.len(), 8);
    for n in 100..400 {
        streams.extend(join(format!("invented-{n}"), (n / 10) as u8).await.ok());
    }
    assert_eq!(streams.len(), 64);
    let refused = join("invented-again".to_owned(), 200).await.err().unwrap();
    assert!(
        refused.to_string().contains("\"invented-again\""),
        "{refused}"
    );
    // Who is where others are is always taken, and so is a namespace that has objects.
    assert!(join("invented-0".to_owned(), 1).await.is_ok());
    streams.extend(join("shop".to_owned(), 200).await.ok());
    assert_eq!(streams.len(), 65);
    assert_eq!(derive.ask(State::views).await.unwrap(), 65);

    // Places of a namespace that there is: one address leaves as much as it has to others.
    let at = |n: usize, from: u8| {
        let mut node = Node::clone(&proxy("p", "shop"));
        node.locality.region = format!("region-{n}").into();
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, from));
        derive.subscribe(Arc::new(node), from, None)
    };
    drop(streams);
    let mut streams = Vec::new();
    for n in 0..1000 {
        streams.extend(at(n, 1).await.ok());
    }
    let first = streams.len();
    for n in 1000..2000 {
        streams.extend(at(n, 2).await.ok());
    }
    // 64, and 8 for the one namespace.
    assert_eq!((first, streams.len()), (36, 54));
    drop(streams);
    assert_eq!(derive.ask(State::views).await.unwrap(), 0);
    assert!(at(0, 1).await.is_ok());

    // While sources are read nothing is known: who comes then is judged when they have been.
    derive.hold().unwrap();
    let mut streams = Vec::new();
    for n in 0..100 {
        streams.push(join(format!("invented-{n}"), 1).await.unwrap());
    }
    streams.push(join("shop".to_owned(), 1).await.unwrap());
    derive.let_go().unwrap();
    while derive.ask(|state| state.proxies().count()).await.unwrap() > 9 {}
    assert_eq!(derive.ask(State::views).await.unwrap(), 9);
    let mut context = Context::from_waker(Waker::noop());
    let ended = |stream: &mut Subscription| {
        while let Poll::Ready(next) = stream.published.poll_next(&mut context) {
            if next.is_none() {
                return true;
            }
        }
        false
    };
    assert_eq!(streams.iter_mut().map(ended).filter(|e| *e).count(), 92);
}

#[tokio::test]
async fn held_proxies_have_what_they_had_until_they_are_let_go() {
    let running = Running::start();
    let derive = &running.derive;
    let mut had = Published::new(0);
    let old = Arc::new(Resource::from_bytes("old", "body".into()));
    had.set(TypeUrl::Cluster, ResourceSet::new([old]));
    let had = Arc::new(had);
    derive.hold().unwrap();
    let known = derive.subscribe(proxy("a", "shop"), PEER, Some(had.clone()));
    let mut known = known.await.unwrap();
    let mut unknown = derive
        .subscribe(proxy("b", "shop"), PEER, None)
        .await
        .unwrap();
    for proxy in [known.proxy, unknown.proxy] {
        derive.want(proxy, TypeUrl::Cluster).unwrap();
    }
    derive.change(service(0), Instant::now()).await.unwrap();
    let counts = |state: &State| (state.from_disk(), state.views());
    assert_eq!(derive.ask(counts).await.unwrap(), (1, 0));
    assert!(Arc::ptr_eq(&known.published.newest(), &had));
    assert!(unknown.published.newest().get(TypeUrl::Cluster).is_none());

    derive.let_go().unwrap();
    // What is let go takes its turn behind what was said before.
    derive.ask(|_| ()).await.unwrap();
    assert_eq!(derive.ask(counts).await.unwrap(), (0, 1));
    for published in [&mut known.published, &mut unknown.published] {
        let published = published.newest();
        let clusters = published.get(TypeUrl::Cluster).unwrap();
        assert!(clusters.get("old").is_none());
        assert!(clusters.get("outbound|80||s0.example.com").is_some());
    }
    // What comes later waits for what is derived.
    let later = derive.subscribe(proxy("c", "shop"), PEER, Some(had)).await;
    let later = later.unwrap().published.newest();
    assert!(
        later
            .get(TypeUrl::Cluster)
            .is_some_and(|c| c.get("old").is_none())
    );
    assert_eq!(derive.ask(State::from_disk).await.unwrap(), 0);
}

#[tokio::test]
async fn a_held_proxy_that_leaves_is_forgotten() {
    let running = Running::start();
    let derive = &running.derive;
    derive.hold().unwrap();
    let mut had = Published::new(0);
    had.set(TypeUrl::Cluster, ResourceSet::default());
    let one = derive.subscribe(proxy("a", "shop"), PEER, Some(Arc::new(had)));
    drop(one.await.unwrap());
    assert_eq!(derive.ask(State::from_disk).await.unwrap(), 0);
    derive.let_go().unwrap();
    derive.ask(|_| ()).await.unwrap();
    assert_eq!(derive.ask(State::views).await.unwrap(), 0);
}

fn source() -> Owner {
    Owner::new(0, "test")
}

fn proxy(name: &str, namespace: &str) -> Arc<Node> {
    testkit::node(&json!({
        "id": format!("sidecar~10.0.0.1~{name}.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": {"NAMESPACE": namespace, "ISTIO_VERSION": "1.32.0"},
    }))
}

const TYPO: &str = "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: typo, namespace: shop}
spec: {action: DENY, rules: [{when: [{key: source.namspace, values: [a]}]}]}
";

#[tokio::test]
async fn findings_are_told_once_and_stand_while_a_proxy_has_them() {
    let running = Running::start();
    let key = running.put(TYPO).await;
    assert_eq!(running.told().await, [""; 0], "nobody has it");

    let one = running
        .derive
        .subscribe(proxy("one", "shop"), PEER, None)
        .await
        .unwrap();
    running.derive.want(one.proxy, TypeUrl::Listener).unwrap();
    let told = running.told().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("a.yaml:2: error[PIL0401]: AuthorizationPolicy shop/typo"),
        "{told:?}"
    );
    assert!(told[0].contains("spec.rules[0]"), "{told:?}");

    let two = running
        .derive
        .subscribe(proxy("two", "shop"), PEER, None)
        .await
        .unwrap();
    running.derive.want(two.proxy, TypeUrl::Listener).unwrap();
    let other = running
        .derive
        .subscribe(proxy("x", "other"), PEER, None)
        .await
        .unwrap();
    running.derive.want(other.proxy, TypeUrl::Listener).unwrap();
    assert_eq!(running.told().await, [""; 0]);
    let ids: Vec<String> = ["one", "two"]
        .iter()
        .map(|name| proxy(name, "shop").id.to_string())
        .collect();
    assert_eq!(running.page().await, [("PIL0401", ids)]);
    assert_eq!(running.errors(), 1);

    running
        .derive
        .change(vec![Change::Delete(source(), key)], Instant::now())
        .await
        .unwrap();
    assert_eq!(running.page().await, []);
    assert_eq!(running.errors(), 0);
    running.put(TYPO).await;
    assert_eq!(running.told().await.len(), 1, "it is new again");

    for subscription in [one, two, other] {
        drop(subscription);
    }
    assert_eq!(running.page().await, []);
}

const SCRIPT: &str = r#"
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: script, namespace: shop}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_INBOUND
      listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: envoy.filters.http.lua
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: ""}}
"#;

#[tokio::test]
async fn a_set_that_findings_have_read_is_published_when_it_is_asked_for() {
    let running = Running::start();
    running.put(SCRIPT).await;
    let mut one = running
        .derive
        .subscribe(proxy("one", "shop"), PEER, None)
        .await
        .unwrap();
    for ty in [TypeUrl::Cluster, TypeUrl::Listener] {
        running.derive.want(one.proxy, ty).unwrap();
        running.derive.ask(|_| ()).await.unwrap();
        let published = one.published.newest();
        assert!(published.get(ty).is_some(), "{ty}");
    }
}

/// As many ServiceEntries and VirtualServices that only their own namespace may see.
fn hidden(owner: &Owner, count: usize) -> Vec<Change> {
    let one = |at: usize| {
        format!(
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: s{at}, namespace: far}}\n\
             spec: {{hosts: [s{at}.far.com], exportTo: [.], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}\n\
             ---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: v{at}, namespace: far}}\n\
             spec: {{hosts: [s{at}.far.com], exportTo: [.], http: [{{route: [{{destination: {{host: s{at}.far.com}}}}]}}]}}\n"
        )
    };
    let yaml: String = (0..count).map(one).collect();
    let parsed = parse(&yaml, &Arc::from(Path::new("far.yaml")), Validation::Warn);
    let objects = parsed.objects().cloned();
    objects.map(|o| Change::Put(owner.clone(), o)).collect()
}

#[tokio::test]
async fn proxies_get_nothing_when_a_source_comes_restarts_and_goes_whose_objects_they_do_not_see() {
    const COUNT: usize = 500;
    let running = Running::start();
    let derive = &running.derive;
    derive.change(service(0), Instant::now()).await.unwrap();
    let mut near = derive
        .subscribe(proxy("a", "shop"), PEER, None)
        .await
        .unwrap();
    let mut far = derive
        .subscribe(proxy("b", "far"), PEER, None)
        .await
        .unwrap();
    for ty in [
        TypeUrl::Cluster,
        TypeUrl::Endpoint,
        TypeUrl::Listener,
        TypeUrl::Route,
    ] {
        derive.want(near.proxy, ty).unwrap();
        derive.want(far.proxy, ty).unwrap();
    }
    derive.ask(|_| ()).await.unwrap();
    let (before, first) = (near.published.newest(), far.published.newest());

    let other = Owner::new(20, "other");
    let say = async |changes: Vec<Change>| {
        derive.change(changes, Instant::now()).await.unwrap();
        derive.ask(|_| ()).await.unwrap();
    };
    let count = async || {
        let known = derive.ask(|state| state.store().snapshot().tables.count(Kind::VirtualService));
        known.await.unwrap()
    };
    say(hidden(&other, COUNT)).await;
    assert_eq!(count().await, COUNT);
    let with = far.published.newest();
    assert!(!Arc::ptr_eq(&with, &first), "those who see them are told");
    let mut again: Vec<Change> = other.collections().map(Change::Restart).collect();
    again.extend(hidden(&other, COUNT));
    again.extend(other.collections().map(Change::Synced));
    say(again).await;
    assert!(
        Arc::ptr_eq(&far.published.newest(), &with),
        "nothing differs"
    );
    say(vec![Change::Gone(other)]).await;
    assert_eq!(count().await, 0);
    let clusters = |published: &Published| published.get(TypeUrl::Cluster).map(ResourceSet::len);
    assert_eq!(clusters(&far.published.newest()), clusters(&first));
    assert!(
        Arc::ptr_eq(&near.published.newest(), &before),
        "it is told of nothing"
    );
}
