//! Whatever changed, in whatever order, what is derived of the Gateway API piece by piece equals what is derived of it from
//! nothing: objects, findings and statuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::settings::Settings;
use model::{AnyObject, Change, Diagnostic, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_convert::status;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{World, settings};

const NAMESPACES: [&str; 2] = ["one", "two"];
const NAMES: [&str; 3] = ["a", "a-b", "b"];
const HOSTS: [&str; 4] = [
    "*.example.com",
    "a.example.com",
    "b.example.com",
    "other.test",
];
const ROUTES: [(Kind, &str); 5] = [
    (Kind::HttpRoute, "HTTPRoute"),
    (Kind::GrpcRoute, "GRPCRoute"),
    (Kind::TlsRoute, "TLSRoute"),
    (Kind::TcpRoute, "TCPRoute"),
    (Kind::UdpRoute, "UDPRoute"),
];

/// What listens: name, port, protocol, host and from where routes may attach.
const LISTENERS: [(&str, u16, &str, Option<&str>, &str); 6] = [
    ("any", 80, "HTTP", None, "All"),
    ("wide", 80, "HTTP", Some("*.example.com"), "Same"),
    ("one", 80, "HTTP", Some("a.example.com"), "Selector"),
    ("other", 81, "HTTP", Some("other.test"), "All"),
    ("tls", 443, "TLS", Some("*.example.com"), "All"),
    ("tcp", 90, "TCP", None, "All"),
];

/// Group, kind, name, section and port.
type Parent = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<u16>,
);

/// What routes attach to.
const PARENTS: [Parent; 7] = [
    ("gateway.networking.k8s.io", "Gateway", "a", None, None),
    (
        "gateway.networking.k8s.io",
        "Gateway",
        "a",
        Some("wide"),
        None,
    ),
    ("gateway.networking.k8s.io", "Gateway", "b", None, Some(80)),
    ("gateway.networking.k8s.io", "ListenerSet", "a", None, None),
    ("", "Service", "a", None, None),
    ("", "Service", "a", None, Some(80)),
    ("networking.istio.io", "ServiceEntry", "a", None, None),
];

#[derive(Clone, Debug)]
struct Route {
    kind: usize,
    at: Place,
    created: Option<u8>,
    parents: Vec<(usize, usize)>,
    hosts: Vec<usize>,
    /// Name and namespace of a Service, and its weight.
    backends: Vec<(usize, usize, u8)>,
}

/// Namespace and name.
type Place = (usize, usize);

#[derive(Clone, Debug)]
enum Step {
    Route(Box<Route>),
    NoRoute(usize, Place),
    Gateway(Place, usize, Vec<usize>),
    NoGateway(Place),
    ListenerSet(Place, Option<Vec<usize>>),
    Class(Option<bool>),
    Service(Place, Option<Option<&'static str>>),
    Entry(Place, Option<Vec<usize>>),
    /// From which namespace HTTPRoutes may refer to Services.
    Grant(usize, Option<usize>),
    Namespace(usize, Option<bool>),
    Settings(bool, bool),
}

fn place() -> impl Strategy<Value = Place> + Clone {
    (0..NAMESPACES.len(), 0..NAMES.len())
}

fn route() -> impl Strategy<Value = Route> {
    (
        0..ROUTES.len() + 4,
        place(),
        proptest::option::of(0..3u8),
        vec((0..PARENTS.len(), 0..NAMESPACES.len()), 0..3),
        vec(0..HOSTS.len(), 0..3),
        vec((0..NAMES.len(), 0..NAMESPACES.len(), 0..2u8), 0..3),
    )
        .prop_map(|(kind, at, created, parents, hosts, backends)| Route {
            // Most are of HTTP requests.
            kind: if kind < ROUTES.len() { kind } else { kind % 2 },
            at,
            created,
            parents,
            hosts,
            backends,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let listeners = || vec(0..LISTENERS.len(), 0..4);
    let waypoint = prop_oneof![Just(None), Just(Some("a")), Just(Some("none"))];
    prop_oneof![
        8 => route().prop_map(|route| Step::Route(Box::new(route))),
        2 => (0..ROUTES.len(), place()).prop_map(|(kind, at)| Step::NoRoute(kind, at)),
        4 => (place(), 0..3usize, listeners()).prop_map(|(at, class, of)| Step::Gateway(at, class, of)),
        1 => place().prop_map(Step::NoGateway),
        2 => (place(), proptest::option::of(listeners())).prop_map(|(at, of)| Step::ListenerSet(at, of)),
        1 => proptest::option::of(any::<bool>()).prop_map(Step::Class),
        3 => (place(), proptest::option::of(waypoint)).prop_map(|(at, label)| Step::Service(at, label)),
        2 => (place(), proptest::option::of(vec(0..HOSTS.len(), 1..3)))
            .prop_map(|(at, hosts)| Step::Entry(at, hosts)),
        1 => (0..NAMESPACES.len(), proptest::option::of(0..NAMESPACES.len()))
            .prop_map(|(of, from)| Step::Grant(of, from)),
        1 => (0..NAMESPACES.len(), proptest::option::of(any::<bool>()))
            .prop_map(|(name, label)| Step::Namespace(name, label)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(api, ambient)| Step::Settings(api, ambient)),
    ]
}

fn document(api: &str, kind: &str, (namespace, name): Place, spec: Value) -> Value {
    json!({
        "apiVersion": api, "kind": kind,
        "metadata": {"name": NAMES[name], "namespace": NAMESPACES[namespace]}, "spec": spec,
    })
}

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

impl Route {
    fn document(&self) -> Value {
        let (kind, name) = ROUTES[self.kind];
        let api = match kind {
            Kind::TcpRoute | Kind::UdpRoute => "gateway.networking.k8s.io/v1alpha2",
            _ => GATEWAY_API,
        };
        let parents = self.parents.iter().map(|(parent, namespace)| {
            let (group, kind, name, section, port) = PARENTS[*parent];
            let mut reference = json!({
                "group": group, "kind": kind, "name": name, "namespace": NAMESPACES[*namespace],
            });
            if let Some(section) = section {
                reference["sectionName"] = json!(section);
            }
            if let Some(port) = port {
                reference["port"] = json!(port);
            }
            reference
        });
        let backends = self.backends.iter().map(|(name, namespace, weight)| {
            json!({
                "name": NAMES[*name], "namespace": NAMESPACES[*namespace], "port": 80, "weight": weight,
            })
        });
        let rule = json!({"backendRefs": backends.collect::<Vec<_>>()});
        let mut spec = json!({"parentRefs": parents.collect::<Vec<_>>(), "rules": [rule]});
        if !matches!(kind, Kind::TcpRoute | Kind::UdpRoute) {
            spec["hostnames"] = self.hosts.iter().map(|host| json!(HOSTS[*host])).collect();
        }
        let mut document = document(api, name, self.at, spec);
        if let Some(created) = self.created {
            let created = format!("2026-01-01T00:00:0{created}Z");
            document["metadata"]["creationTimestamp"] = json!(created);
        }
        document
    }
}

fn listeners(of: &[usize]) -> Value {
    let mut of = of.to_vec();
    of.sort_unstable();
    of.dedup();
    let listeners = of.into_iter().map(|listener| {
        let (name, port, protocol, host, from) = LISTENERS[listener];
        let mut namespaces = json!({"from": from});
        if from == "Selector" {
            namespaces["selector"] = json!({"matchLabels": {"routes": "yes"}});
        }
        let mut listener = json!({
            "name": name, "port": port, "protocol": protocol, "allowedRoutes": {"namespaces": namespaces},
        });
        if let Some(host) = host {
            listener["hostname"] = json!(host);
        }
        if protocol == "TLS" {
            listener["tls"] = json!({"mode": "Passthrough"});
        }
        listener
    });
    listeners.collect()
}

fn key(kind: Kind, (namespace, name): Place) -> ObjectKey {
    ObjectKey {
        kind,
        name: ObjectName::new(NAMESPACES[namespace], NAMES[name]),
    }
}

fn cluster_scoped(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey {
        kind,
        name: ObjectName::new("", name),
    }
}

/// What a step does: an object that comes, or one that goes.
fn change(step: &Step) -> Result<Value, ObjectKey> {
    Ok(match step {
        Step::Route(route) => route.document(),
        Step::NoRoute(kind, at) => return Err(key(ROUTES[*kind].0, *at)),
        Step::Gateway(at, class, of) => {
            let class = ["istio", "mine", "absent"][*class];
            let spec = json!({
                "gatewayClassName": class, "listeners": listeners(of),
                "allowedListeners": {"namespaces": {"from": "All"}},
            });
            document(GATEWAY_API, "Gateway", *at, spec)
        }
        Step::NoGateway(at) => return Err(key(Kind::KubeGateway, *at)),
        Step::ListenerSet(at, None) => return Err(key(Kind::ListenerSet, *at)),
        Step::ListenerSet(at, Some(of)) => {
            let parent = json!({"name": "a", "namespace": "one"});
            let spec = json!({"parentRef": parent, "listeners": listeners(of)});
            document(GATEWAY_API, "ListenerSet", *at, spec)
        }
        Step::Class(None) => return Err(cluster_scoped(Kind::GatewayClass, "mine")),
        Step::Class(Some(ours)) => {
            let controller = if *ours {
                "istio.io/gateway-controller"
            } else {
                "other.test/controller"
            };
            json!({
                "apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": "mine"},
                "spec": {"controllerName": controller},
            })
        }
        Step::Service(at, None) => return Err(key(Kind::Service, *at)),
        Step::Service(at, Some(waypoint)) => {
            let spec = json!({"clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80}]});
            let mut service = document("v1", "Service", *at, spec);
            if let Some(waypoint) = waypoint {
                service["metadata"]["labels"] = json!({"istio.io/use-waypoint": waypoint});
            }
            service
        }
        Step::Entry(at, None) => return Err(key(Kind::ServiceEntry, *at)),
        Step::Entry(at, Some(hosts)) => {
            let hosts: Vec<&str> = hosts.iter().map(|host| HOSTS[*host]).collect();
            let ports = json!([{"name": "http", "number": 80, "protocol": "HTTP"}]);
            let spec = json!({"hosts": hosts, "ports": ports, "resolution": "DNS"});
            document("networking.istio.io/v1", "ServiceEntry", *at, spec)
        }
        Step::Grant(of, None) => return Err(key(Kind::ReferenceGrant, (*of, 0))),
        Step::Grant(of, Some(from)) => {
            let from = json!([{
                "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": NAMESPACES[*from],
            }]);
            let spec = json!({"from": from, "to": [{"group": "", "kind": "Service"}]});
            document(
                "gateway.networking.k8s.io/v1beta1",
                "ReferenceGrant",
                (*of, 0),
                spec,
            )
        }
        Step::Namespace(name, None) => {
            return Err(cluster_scoped(Kind::Namespace, NAMESPACES[*name]));
        }
        Step::Namespace(name, Some(allowed)) => {
            let labels = if *allowed {
                json!({"routes": "yes"})
            } else {
                json!({"istio.io/use-waypoint": "b"})
            };
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": NAMESPACES[*name], "labels": labels},
            })
        }
        Step::Settings(..) => Value::Null,
    })
}

fn configured(gateway_api: bool, ambient: bool) -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.gateway_api = gateway_api;
    features.ambient = ambient;
    settings.features = features.into();
    settings
}

/// Everything that can be seen of a world.
#[derive(PartialEq, Debug)]
struct Seen {
    objects: BTreeMap<String, Value>,
    findings: Vec<Diagnostic>,
    statuses: Vec<Value>,
}

fn seen(world: &World) -> Seen {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
    let objects = kinds
        .into_iter()
        .flat_map(|kind| snapshot.tables.iter_any(kind));
    let shown = |object: AnyObject| {
        let meta = object.meta();
        let meta = format!("{:?} {:?}", meta.derived, meta.created);
        (object.key().to_string(), json!([object.spec_json(), meta]))
    };
    Seen {
        objects: objects.map(shown).collect(),
        findings: world.stage.current_findings(),
        statuses: status::all(&snapshot)
            .iter()
            .map(status::Status::document)
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(18),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(steps in vec(step(), 1..24)) {
        let source = Owner::new(0, "test");
        let mut current = configured(true, false);
        let mut world = World::new(current.clone());
        let mut there: BTreeMap<ObjectKey, AnyObject> = BTreeMap::new();
        for step in &steps {
            let changes: Vec<Change> = match (step, change(step)) {
                (Step::Settings(api, ambient), _) => {
                    current = configured(*api, *ambient);
                    vec![Change::Settings(Arc::new(current.clone()))]
                }
                (_, Ok(document)) => World::objects(&document.to_string()).into_iter().map(|object| {
                    there.insert(object.key(), object.clone());
                    Change::Put(source.clone(), object)
                }).collect(),
                (_, Err(key)) => {
                    there.remove(&key);
                    vec![Change::Delete(source.clone(), key)]
                }
            };
            world.apply(changes);
            let mut fresh = World::new(current.clone());
            fresh.apply(there.values().cloned().map(|o| Change::Put(source.clone(), o)));
            prop_assert_eq!(seen(&world), seen(&fresh));
            prop_assert_eq!(world.stage.panics(), 0);
        }
    }
}
