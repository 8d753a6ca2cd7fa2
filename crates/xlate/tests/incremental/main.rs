//! The property that everything rests on: whatever changed, in whatever order, what is derived piece by piece equals
//! what is derived from nothing, byte for byte.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Engine, RootId};
use mesh::view::ProxyKey;
use model::change::{Change, ServiceKey, ShardKey};
use model::node::Node;
use model::object::ObjectKey;
use model::service::{Address, Endpoint};
use model::{Hostname, Owner};
use objects::{Pick, pick};
use pilothouse_xlate::View;
use pilothouse_xlate::ViewOf;
use pilothouse_xlate::findings::FindingsOfMesh;
use proptest::prelude::*;
use serde_json::json;
use store::Snapshot;
use testkit::{World, node};
use xds::{Resource, ResourceSet, TypeUrl};

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
    ];
    described
        .into_iter()
        .map(|(id, metadata)| node(&json!({"id": id, "metadata": metadata})))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<Pick>),
    Delete(Pick),
    Shard {
        service: u8,
        shard: u8,
        endpoints: Vec<u8>,
    },
    Toggle(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::collection::vec(pick(), 1..4).prop_map(Step::Put),
        3 => pick().prop_map(Step::Delete),
        1 => (0..3u8, 0..2u8, proptest::collection::vec(0..4u8, 0..3))
            .prop_map(|(service, shard, endpoints)| Step::Shard { service, shard, endpoints }),
        2 => (0..4usize).prop_map(Step::Toggle),
    ]
}

fn shard_change(service: u8, shard: u8, endpoints: &[u8]) -> Change {
    let endpoint = |index: &u8| Endpoint {
        address: Address::Socket {
            hosts: Arc::from([Arc::from(format!("10.7.0.{index}"))]),
            port: 8080,
        },
        port_name: Arc::from("http"),
        service_account: Arc::from(format!("spiffe://cluster.local/ns/one/sa/{}", index % 2)),
        ..Endpoint::default()
    };
    Change::Endpoints {
        owner: Owner::new(0, "consul"),
        service: ServiceKey {
            namespace: "one".into(),
            host: Hostname::from(format!("h{service}.example.com")),
        },
        shard: ShardKey {
            provider: Arc::from("Consul"),
            cluster: format!("c{shard}").into(),
        },
        list: endpoints.iter().map(endpoint).collect(),
    }
}

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
    let engine = Engine::new();
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
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 5, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_derived_piece_by_piece_equals_what_is_derived_from_nothing(
        steps in proptest::collection::vec(step(), 1..24)
    ) {
        let proxies = proxies();
        let mut served = Served::default();
        served.toggle(0, &proxies[0]);
        for step in &steps {
            match step {
                Step::Put(picks) => {
                    let yaml: Vec<String> = picks.iter().map(Pick::yaml).collect();
                    served.world.put(&yaml.join("\n---\n"));
                }
                Step::Delete(pick) => {
                    served.world.delete(&key(pick));
                }
                Step::Shard { service, shard, endpoints } => {
                    served.world.apply([shard_change(*service, *shard, endpoints)]);
                }
                Step::Toggle(proxy) => served.toggle(*proxy, &proxies[*proxy]),
            }
            let got = served.pull(&proxies);
            let snapshot = served.world.store.snapshot();
            for ((proxy, ty), set) in &got {
                let wanted = from_nothing(&snapshot, &proxies[*proxy], *ty);
                prop_assert_eq!(differing(set, &wanted), None, "{} of proxy {}", ty, proxy);
            }
            let fresh = Engine::new();
            for connected in served.connected.values() {
                let query = connected.view.findings();
                prop_assert_eq!(served.world.get(&query), fresh.get(&*snapshot, &query));
            }
            let of_mesh = served.world.get(&FindingsOfMesh);
            prop_assert_eq!(of_mesh, fresh.get(&*snapshot, &FindingsOfMesh));
        }
        let all: Vec<usize> = served.connected.keys().copied().collect();
        for proxy in all {
            served.toggle(proxy, &proxies[proxy]);
        }
        // Those of the mesh are nobody's root here.
        served.world.engine.collect();
        prop_assert_eq!(served.world.engine.stats().memos, 0);
    }

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
