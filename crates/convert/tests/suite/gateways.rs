//! Gateways and ListenerSets: whatever changed, in whatever order, what is made of them and told of them piece by piece
//! is what it is from nothing; and a change costs what it touches.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::settings::Settings;
use model::{AnyObject, Change, Kind, ObjectKey, ObjectName, Owner};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{World, settings};

const NAMESPACES: [&str; 2] = ["one", "two"];
const CLASSES: [&str; 4] = ["istio", "istio-waypoint", "istio-remote", "other"];
const PROTOCOLS: [&str; 4] = ["HTTP", "HTTPS", "TCP", "UDP"];
const HOSTS: [Option<&str>; 3] = [None, Some("a.example.com"), Some("*.example.com")];

/// A listener: protocol, port, host, namespace of its certificate, and from where routes may attach.
type Listener = (usize, u16, usize, usize, usize);

#[derive(Clone, Debug)]
enum Step {
    Gateway(usize, usize, usize, Vec<Listener>),
    Set(usize, Vec<Listener>),
    Namespace(usize, bool),
    Secret(usize, Option<bool>),
    Roots(bool),
    Grant(bool, bool),
    Service(Option<bool>),
    Endpoints(bool),
    Class(Option<bool>),
    Route(usize, usize),
    Gone(usize),
    Settings(bool),
}

fn listeners() -> impl Strategy<Value = Vec<Listener>> {
    let listener = (
        0..PROTOCOLS.len(),
        80..82u16,
        0..HOSTS.len(),
        0..2usize,
        0..5usize,
    );
    proptest::collection::vec(listener, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..CLASSES.len(), 0..3usize, 0..4usize, listeners())
            .prop_map(|(class, address, allowed, listeners)| Step::Gateway(class, address, allowed, listeners)),
        4 => (0..3usize, listeners()).prop_map(|(name, listeners)| Step::Set(name, listeners)),
        2 => (0..2usize, any::<bool>()).prop_map(|(name, team)| Step::Namespace(name, team)),
        2 => (0..2usize, proptest::option::of(any::<bool>())).prop_map(|(at, good)| Step::Secret(at, good)),
        1 => any::<bool>().prop_map(Step::Roots),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(sets, there)| Step::Grant(sets, there)),
        2 => proptest::option::of(any::<bool>()).prop_map(Step::Service),
        1 => any::<bool>().prop_map(Step::Endpoints),
        1 => proptest::option::of(any::<bool>()).prop_map(Step::Class),
        2 => (0..2usize, 0..2usize).prop_map(|(kind, section)| Step::Route(kind, section)),
        2 => (0..8usize).prop_map(Step::Gone),
        1 => any::<bool>().prop_map(Step::Settings),
    ]
}

fn listeners_json(listeners: &[Listener]) -> Vec<Value> {
    let one = |(index, (protocol, port, host, secret, from)): (usize, &Listener)| {
        let mut listener = json!({
            "name": format!("l{index}"), "protocol": PROTOCOLS[*protocol], "port": port,
        });
        if let Some(host) = HOSTS[*host] {
            listener["hostname"] = json!(host);
        }
        if PROTOCOLS[*protocol] == "HTTPS" {
            let certificate = json!({"name": "cert", "namespace": NAMESPACES[*secret]});
            listener["tls"] = json!({"certificateRefs": [certificate]});
        }
        let namespaces = [
            json!({}),
            json!({"from": "All"}),
            json!({"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}),
            json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}),
            json!({"from": "Selector", "selector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}}),
        ];
        listener["allowedRoutes"] = json!({"namespaces": namespaces[*from]});
        listener
    };
    listeners.iter().enumerate().map(one).collect()
}

/// The kind of an object of the Gateway API, with what it holds.
fn of_api(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

fn secret(namespace: &str, good: bool, (certificate, key): &(String, String)) -> Value {
    let key = if good { key } else { "" };
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": namespace},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    })
}

fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
    let name = ObjectName::new(namespace, name);
    ObjectKey { kind, name }
}

/// What a step does: an object that comes, or one that goes.
fn document(step: &Step, pair: &(String, String)) -> Result<Value, ObjectKey> {
    Ok(match step {
        Step::Gateway(class, address, allowed, listeners) => {
            let addresses = [
                json!([]),
                json!([{"type": "Hostname", "value": "edge"}]),
                json!([{"type": "Odd", "value": "x"}]),
            ];
            let allowed = [
                json!("None"),
                json!("Same"),
                json!("All"),
                json!("Selector"),
            ][*allowed]
                .clone();
            let mut spec = json!({
                "gatewayClassName": CLASSES[*class], "listeners": listeners_json(listeners), "addresses": addresses[*address],
                "allowedListeners": {"namespaces": {"from": allowed, "selector": {"matchLabels": {"team": "a"}}}},
            });
            if *address == 0 {
                let roots = json!([{"group": "", "kind": "ConfigMap", "name": "roots"}]);
                spec["tls"] =
                    json!({"frontend": {"default": {"validation": {"caCertificateRefs": roots}}}});
            }
            of_api("Gateway", "one", "g", spec)
        }
        Step::Set(name, listeners) => {
            let parent = json!({"name": "g", "namespace": "one"});
            let spec = json!({"parentRef": parent, "listeners": listeners_json(listeners)});
            of_api(
                "ListenerSet",
                NAMESPACES[name % 2],
                &format!("s{name}"),
                spec,
            )
        }
        Step::Namespace(name, team) => {
            let labels = if *team {
                json!({"team": "a"})
            } else {
                json!({})
            };
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[*name], "labels": labels}})
        }
        Step::Secret(at, None) => return Err(key(Kind::Secret, NAMESPACES[*at], "cert")),
        Step::Secret(at, Some(good)) => secret(NAMESPACES[*at], *good, pair),
        Step::Roots(false) => return Err(key(Kind::ConfigMap, "one", "roots")),
        Step::Roots(true) => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "roots", "namespace": "one"},
            "data": {"ca.crt": pair.0},
        }),
        Step::Grant(_, false) => return Err(key(Kind::ReferenceGrant, "two", "g")),
        Step::Grant(sets, true) => {
            let group = "gateway.networking.k8s.io";
            let kind = if *sets { "ListenerSet" } else { "Gateway" };
            let mut grant = of_api(
                "ReferenceGrant",
                "two",
                "g",
                json!({
                    "from": [{"group": group, "kind": kind, "namespace": "one"}], "to": [{"group": "", "kind": "Secret"}],
                }),
            );
            grant["apiVersion"] = json!(format!("{group}/v1beta1"));
            grant
        }
        Step::Service(None) => return Err(key(Kind::Service, "one", "edge")),
        Step::Service(Some(balanced)) => {
            let ingress = if *balanced {
                json!([{"ip": "192.0.2.1"}])
            } else {
                json!([])
            };
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "edge", "namespace": "one"},
                "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80}]},
                "status": {"loadBalancer": {"ingress": ingress}},
            })
        }
        Step::Endpoints(ready) => json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "edge-1", "namespace": "one", "labels": {"kubernetes.io/service-name": "edge"}},
            "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": ready}}],
            "ports": [{"name": "http", "port": 8080}],
        }),
        Step::Class(None) => return Err(key(Kind::GatewayClass, "", "istio")),
        Step::Class(Some(ours)) => {
            let controller = if *ours {
                "istio.io/gateway-controller"
            } else {
                "example.com/other"
            };
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "istio"},
                "spec": {"controllerName": controller},
            })
        }
        Step::Route(parent, section) => {
            let parent = match parent {
                0 => json!({"name": "g", "sectionName": format!("l{section}")}),
                _ => json!({"kind": "ListenerSet", "name": "s0"}),
            };
            of_api("HTTPRoute", "one", "r", json!({"parentRefs": [parent]}))
        }
        Step::Gone(which) => {
            return Err(match which {
                0 => key(Kind::KubeGateway, "one", "g"),
                1 => key(Kind::Namespace, "", "one"),
                2 => key(Kind::Namespace, "", "two"),
                3 => key(Kind::EndpointSlice, "one", "edge-1"),
                4 => key(Kind::HttpRoute, "one", "r"),
                n => key(
                    Kind::ListenerSet,
                    NAMESPACES[(n - 5) % 2],
                    &format!("s{}", n - 5),
                ),
            });
        }
        Step::Settings(_) => json!({}),
    })
}

fn configured(waypoints: bool) -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.ambient_waypoints = waypoints;
    settings.features = Arc::new(features);
    settings
}

fn made(world: &World) -> BTreeMap<String, Value> {
    let snapshot = world.store.snapshot();
    let gateways = snapshot.tables.iter_any(Kind::Gateway);
    let shown = gateways.map(|object| {
        let derived = format!("{:?}", object.meta().derived);
        (
            object.key().to_string(),
            json!([object.spec_json(), derived]),
        )
    });
    shown.collect()
}

fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(18),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(steps in proptest::collection::vec(step(), 1..16)) {
        let source = Owner::new(0, "test");
        let pair = pair();
        let mut current = configured(false);
        let mut world = World::new(current.clone());
        let mut there: BTreeMap<ObjectKey, AnyObject> = BTreeMap::new();
        for step in &steps {
            let change = match (step, document(step, &pair)) {
                (Step::Settings(waypoints), _) => {
                    current = configured(*waypoints);
                    Change::Settings(Arc::new(current.clone()))
                }
                (_, Ok(document)) => {
                    let object = World::objects(&document.to_string()).remove(0);
                    there.insert(object.key(), object.clone());
                    Change::Put(source.clone(), object)
                }
                (_, Err(key)) => {
                    there.remove(&key);
                    Change::Delete(source.clone(), key)
                }
            };
            world.apply([change]);
            let mut fresh = World::new(current.clone());
            fresh.apply(there.values().cloned().map(|o| Change::Put(source.clone(), o)));
            prop_assert_eq!(made(&world), made(&fresh));
            prop_assert_eq!(&world.statuses, &fresh.statuses);
            prop_assert_eq!(world.stage.panics(), 0);
        }
    }
}

#[test]
fn a_renewed_certificate_derives_no_listener_and_no_route() {
    let mut world = World::new(configured(false));
    let gateway = Step::Gateway(0, 0, 0, vec![(1, 80, 0, 0, 0)]);
    for step in [gateway, Step::Roots(true), Step::Route(0, 0)] {
        world.put(&document(&step, &pair()).unwrap().to_string());
    }
    world.put(&secret("one", true, &pair()).to_string());
    let served = |world: &World| world.store.snapshot().tables.count(Kind::Gateway);
    assert_eq!(served(&world), 1);
    let before = world.stage.stats().runs;
    let changes = world.put(&secret("one", true, &pair()).to_string());
    // The Secret, of which nothing else is known than that it is good.
    assert_eq!(changes.objects.len(), 1);
    assert_eq!(world.stage.stats().runs - before, 1);
    world.put(&secret("one", false, &pair()).to_string());
    assert_eq!(served(&world), 0);
}

#[test]
fn authorities_are_refused_with_a_list_of_revoked_certificates_that_is_none() {
    let pair = pair();
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g", "namespace": "one"},
        "spec": {
            "gatewayClassName": "istio",
            "listeners": [{
                "name": "web", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "cert"}]},
            }],
            "tls": {"frontend": {"default": {"validation": {
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "roots"}],
            }}}},
        },
    });
    let roots = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "roots", "namespace": "one"}, "data": data,
        })
    };
    let mut world = World::new(configured(false));
    world.put(&gateway.to_string());
    world.put(&secret("one", true, &pair).to_string());
    let served = |world: &World| world.store.snapshot().tables.count(Kind::Gateway);
    world.put(&roots(json!({"ca.crt": pair.0})).to_string());
    assert_eq!(served(&world), 1);
    world.put(&roots(json!({"ca.crt": pair.0, "ca.crl": "text"})).to_string());
    assert_eq!(served(&world), 0);
}
