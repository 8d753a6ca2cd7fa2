//! The property that everything rests on: whatever changed, in whatever order, what is derived piece by piece equals
//! what is derived from nothing, byte for byte.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod objects;
mod property;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Engine, RootId};
use mesh::view::ProxyKey;
use model::Owner;
use model::change::Change;
use model::node::Node;
use model::object::ObjectKey;
use pilothouse_xlate::findings::FindingsOfMesh;
use pilothouse_xlate::{View, ViewOf};
use proptest::prelude::*;
use serde_json::json;
use store::Snapshot;
use testkit::{World, node};
use xds::{Resource, ResourceSet, TypeUrl};

use objects::{Pick, pick};
use script::Step;

/// The proxies that may come and go.
fn proxies() -> Vec<Arc<Node>> {
    let metadata = |namespace: &str, more: serde_json::Value| {
        let mut all = json!({
            "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0",
            "LABELS": {"app": "a", "istio": "ingressgateway"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        all
    };
    let described = [
        (
            "sidecar~10.9.0.1~pod-0.one~one.svc.cluster.local",
            metadata("one", json!({})),
        ),
        (
            "sidecar~10.9.0.2~pod-1.two~two.svc.cluster.local",
            metadata("two", json!({"DNS_CAPTURE": "true", "NETWORK": "north"})),
        ),
        (
            "sidecar~10.9.0.3~pod-2.one~one.svc.cluster.local",
            metadata("one", json!({"INTERCEPTION_MODE": "NONE"})),
        ),
        (
            "router~10.9.0.4~gateway-0.one~one.svc.cluster.local",
            metadata("one", json!({})),
        ),
        (
            "sidecar~10.9.0.1~n0.one~one.svc.cluster.local",
            metadata(
                "one",
                json!({"CLUSTER_ID": "remote", "DNS_CAPTURE": "true"}),
            ),
        ),
        (
            "sidecar~10.9.0.2~n1.two~two.svc.cluster.local",
            metadata("two", json!({"CLUSTER_ID": "west", "NETWORK": "south"})),
        ),
        (
            "sidecar~10.9.0.5~stock-0.one~one.svc.cluster.local",
            metadata("one", json!({"PILOTHOUSE_CERTIFICATES": "ads"})),
        ),
        (
            "router~127.0.0.1~n0-local.one~one.svc.cluster.local",
            metadata("one", json!({"PILOTHOUSE_GATEWAY": "n0"})),
        ),
        (HIGRESS, metadata("one", json!({}))),
    ];
    let locality = json!({"region": "r0", "zone": "z"});
    described
        .into_iter()
        .map(|(id, metadata)| {
            // Secrets are for who has proven to be of their namespace.
            let token = format!("sa:{}:gateway", metadata["NAMESPACE"].as_str().unwrap());
            let mut described =
                json!({"id": id, "metadata": metadata, "locality": locality, "token": token});
            if id == HIGRESS {
                described["extensions"] = json!(HIGRESS_EXTENSIONS);
            }
            node(&described)
        })
        .collect()
}

/// A gateway that can do what only Higress's Envoy can.
const HIGRESS: &str = "router~10.9.0.6~gateway-1.one~one.svc.cluster.local";
const HIGRESS_EXTENSIONS: [&str; 9] = [
    "envoy.clusters.aggregate",
    "envoy.filters.connection_pools.http.dubbo_tcp",
    "envoy.filters.http.basic_auth",
    "envoy.filters.http.golang",
    "envoy.filters.http.http_dubbo_transcoder",
    "envoy.filters.http.lua",
    "envoy.filters.http.mcp_sse_stateful_session",
    "envoy.filters.http.rbac",
    "envoy.filters.http.router",
];

/// A connected proxy: what is kept alive for it.
struct Connected {
    of_node: RootId,
    view: Arc<View>,
    sets: Vec<RootId>,
}

/// A world whose proxies stay connected while it changes.
#[derive(Default)]
struct Served {
    world: World,
    connected: BTreeMap<usize, Connected>,
}

impl Served {
    fn toggle(&mut self, proxy: usize, node: &Arc<Node>) {
        if let Some(gone) = self.connected.remove(&proxy) {
            self.release(gone);
            return;
        }
        let of_node = self.world.engine.root(&ViewOf(ProxyKey::new(node.clone())));
        let view = self.world.view(node);
        let sets = self.hold(&view);
        self.connected.insert(
            proxy,
            Connected {
                of_node,
                view,
                sets,
            },
        );
    }

    fn step(&mut self, step: &Step, proxies: &[Arc<Node>]) {
        if let Step::Toggle(proxy) = step {
            self.toggle(usize::from(*proxy), &proxies[usize::from(*proxy)]);
        } else {
            self.world.apply(step.changes());
        }
    }

    fn hold(&mut self, view: &Arc<View>) -> Vec<RootId> {
        let root = |ty| self.world.engine.root(&view.set(ty));
        let mut roots: Vec<RootId> = TypeUrl::ALL.into_iter().map(root).collect();
        roots.push(self.world.engine.root(&view.findings()));
        roots
    }

    fn release(&mut self, gone: Connected) {
        for root in gone.sets.into_iter().chain([gone.of_node]) {
            assert!(self.world.engine.release(root));
        }
        self.world.engine.collect();
    }

    /// Moves proxies whose view changed, and gives what each gets.
    fn pull(&mut self, proxies: &[Arc<Node>]) -> BTreeMap<(usize, TypeUrl), ResourceSet> {
        self.world.engine.changed_roots();
        let mut got = BTreeMap::new();
        let connected: Vec<usize> = self.connected.keys().copied().collect();
        for proxy in connected {
            let view = self.world.view(&proxies[proxy]);
            if *view != *self.connected[&proxy].view {
                let sets = self.hold(&view);
                let of_node = self
                    .world
                    .engine
                    .root(&ViewOf(ProxyKey::new(proxies[proxy].clone())));
                let now = Connected {
                    of_node,
                    view: view.clone(),
                    sets,
                };
                let before = self.connected.insert(proxy, now);
                self.release(before.expect("the proxy is connected"));
            }
            for ty in TypeUrl::ALL {
                got.insert((proxy, ty), self.world.set(&view, ty));
            }
            self.world.get(&view.findings());
        }
        got
    }
}

fn from_nothing(snapshot: &Snapshot, node: &Arc<Node>, ty: TypeUrl) -> ResourceSet {
    derived(&Engine::new(), snapshot, node, ty)
}

fn derived(
    engine: &Engine<Snapshot>,
    snapshot: &Snapshot,
    node: &Arc<Node>,
    ty: TypeUrl,
) -> ResourceSet {
    let viewed = engine.get(snapshot, &ViewOf(ProxyKey::new(node.clone())));
    ResourceSet::clone(&engine.get(snapshot, &viewed.view.set(ty)))
}

/// The first resource in which two sets differ.
fn differing(a: &ResourceSet, b: &ResourceSet) -> Option<String> {
    if a != b {
        let mut found = None;
        b.since(a, |a, b| {
            found = found.take().or(Some(format!("{a:?} against {b:?}")))
        });
        return found.or(Some("fingerprints".to_owned()));
    }
    let same = |(a, b): &(&Arc<Resource>, &Arc<Resource>)| {
        a.name == b.name && a.version == b.version && a.body == b.body
    };
    let (a, b) = a.iter().zip(b).find(|pair| !same(pair))?;
    Some(format!("{a:?} against {b:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_events_does_not_change_what_is_sent(
        (one, other) in proptest::collection::btree_map(any::<(u8, u8, u8)>(), pick(), 1..16)
            .prop_map(|picks| {
                // The last of one name wins, so each name may be there only once.
                let mut named: BTreeMap<String, Pick> = BTreeMap::new();
                for pick in picks.into_values() {
                    named.insert(format!("{:?}", key(&pick)), pick);
                }
                named.into_values().collect::<Vec<_>>()
            })
            .prop_flat_map(|picks| (Just(picks.clone()), Just(picks).prop_shuffle()))
    ) {
        let world = |picks: &[Pick]| {
            let mut world = World::default();
            for pick in picks {
                world.put(&pick.yaml());
            }
            world
        };
        let (one, other) = (world(&one), world(&other));
        for node in proxies() {
            for ty in TypeUrl::ALL {
                let a = from_nothing(&one.store.snapshot(), &node, ty);
                let b = from_nothing(&other.store.snapshot(), &node, ty);
                prop_assert_eq!(differing(&a, &b), None, "{}", ty);
            }
        }
    }
}

fn key(pick: &Pick) -> ObjectKey {
    World::objects(&pick.yaml())[0].key()
}

#[test]
fn an_unrelated_change_runs_no_generation() {
    let proxies = proxies();
    let mut served = Served::default();
    served.world.put(&objects::shop());
    for (at, proxy) in proxies.iter().enumerate() {
        served.toggle(at, proxy);
    }
    let before = served.pull(&proxies);
    let runs = served.world.engine.stats().runs;
    let unrelated = [
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: one}, data: {a: b}}",
        "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: one}, stringData: {a: b}}",
    ];
    for yaml in unrelated {
        served.world.put(yaml);
        assert_eq!(served.world.engine.changed_roots(), []);
    }
    // The same again, but for what only people read.
    served.world.put(&objects::shop());
    assert_eq!(served.world.engine.changed_roots(), []);
    assert_eq!(served.pull(&proxies), before);
    assert_eq!(served.world.engine.stats().runs, runs);
}

#[test]
fn a_change_of_endpoints_alone_changes_endpoints_alone() {
    let proxies = proxies();
    let mut served = Served::default();
    served.world.put(&objects::shop());
    served.toggle(0, &proxies[0]);
    let before = served.pull(&proxies);
    served
        .world
        .put(&objects::shop().replace("10.8.0.1", "10.8.0.9"));
    let after = served.pull(&proxies);
    for ty in TypeUrl::ALL {
        let same = before[&(0, ty)] == after[&(0, ty)];
        assert_eq!(same, ty != TypeUrl::Endpoint, "{ty}");
    }
    let changed = before[&(0, TypeUrl::Endpoint)]
        .iter()
        .zip(after[&(0, TypeUrl::Endpoint)].iter())
        .filter(|(a, b)| a.version != b.version);
    assert_eq!(changed.count(), 1);
}

#[test]
fn two_sources_with_one_key_give_the_same_whoever_speaks_first() {
    let put = |rank, name, yaml: &str| {
        Change::Put(Owner::new(rank, name), World::objects(yaml)[0].clone())
    };
    let low = objects::shop();
    let high = objects::shop().replace("10.8.0.1", "10.8.0.9");
    let mut one = World::default();
    one.apply([put(0, "files", &low), put(1, "api", &high)]);
    let mut other = World::default();
    other.apply([put(1, "api", &high), put(0, "files", &low)]);
    let node = &proxies()[0];
    for ty in TypeUrl::ALL {
        let a = from_nothing(&one.store.snapshot(), node, ty);
        let b = from_nothing(&other.store.snapshot(), node, ty);
        assert_eq!(differing(&a, &b), None);
    }
}

/// A Service with one Pod, and the slices of the Service with it and without.
const WEB: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: one}
spec: {clusterIP: 10.7.0.7, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: machines, namespace: one}
spec:
  hosts: [machines.example.com]
  addresses: [10.7.0.8]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: machine}}
";
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: one, labels: {app: web}}
spec: {serviceAccountName: web-account, containers: [{name: web}]}
status: {phase: Running, podIP: 10.8.7.1, podIPs: [{ip: 10.8.7.1}], conditions: [{type: Ready, status: 'True'}]}
";
const MACHINE: &str = "
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: machine-0, namespace: one, labels: {app: machine}}
spec: {address: 10.8.7.2, serviceAccount: machine-account, labels: {app: machine}}
";

/// The slice of the Service with these endpoints.
fn slice(endpoints: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: web-0, namespace: one, labels: {{kubernetes.io/service-name: web}}}}\n\
         addressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints: [{endpoints}]\n"
    )
}

#[test]
fn a_service_that_loses_its_only_endpoint_and_gets_one_changes_endpoints_alone() {
    const ENDPOINT: &str = "{addresses: [10.8.7.1], conditions: {ready: true}, targetRef: {kind: Pod, name: web-0, namespace: one}}";
    let proxies = proxies();
    let mut served = Served::default();
    let (full, empty) = (slice(ENDPOINT), slice(""));
    let all = format!("{WEB}---{POD}---{MACHINE}---\n{full}");
    served.world.put(&all);
    served.toggle(0, &proxies[0]);
    served.toggle(3, &proxies[3]);
    let mut before = served.pull(&proxies);
    let has = |got: &BTreeMap<(usize, TypeUrl), ResourceSet>, account: &str| {
        let clusters = got[&(0, TypeUrl::Cluster)].iter();
        let mut bodies = clusters.map(|r| String::from_utf8_lossy(&r.body).into_owned());
        bodies.any(|body| body.contains(account))
    };
    assert!(has(&before, "sa/web-account") && has(&before, "sa/machine-account"));
    let key = |yaml| World::objects(yaml)[0].key();
    // Its endpoint goes before its Pod, or after it.
    let steps: [(&str, Option<&str>); 8] = [
        ("the slice is empty", Some(&empty)),
        ("it is full", Some(&full)),
        ("it is empty again", Some(&empty)),
        ("it is full again", Some(&full)),
        ("there is no Pod", None),
        ("there is a Pod", Some(POD)),
        ("there is no machine", None),
        ("there is a machine", Some(MACHINE)),
    ];
    for (what, yaml) in steps {
        match yaml {
            Some(yaml) => served.world.put(yaml),
            None if what.ends_with("Pod") => served.world.delete(&key(POD)),
            None => served.world.delete(&key(MACHINE)),
        };
        let after = served.pull(&proxies);
        let differ = |of: &&(usize, TypeUrl)| before[*of] != after[*of];
        let differing: Vec<_> = after.keys().filter(differ).collect();
        let endpoints = [(0, TypeUrl::Endpoint), (3, TypeUrl::Endpoint)];
        assert!(differing.contains(&&endpoints[0]), "{what}: {differing:?}");
        let others = differing.iter().filter(|of| !endpoints.contains(of));
        assert_eq!(others.count(), 0, "{what}: {differing:?}");
        before = after;
    }

    // Other identities than before count at once, and a service that is gone is forgotten.
    served
        .world
        .put(&POD.replace("web-account", "other-account"));
    let after = served.pull(&proxies);
    assert!(has(&after, "sa/other-account") && !has(&after, "sa/web-account"));
    for object in World::objects(WEB) {
        served.world.delete(&object.key());
    }
    assert!(served.world.store.snapshot().identities.is_empty());
}
