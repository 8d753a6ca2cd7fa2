//! The Gateway API: whatever changed, in whatever order, what is derived piece by piece equals what is derived from
//! nothing: objects, findings, statuses, and what proxies get.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::Node;
use model::settings::{Features, Settings};
use model::{AnyObject, Change, Diagnostic, Kind, ObjectKey, Owner};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{World, node, settings};
use xds::TypeUrl;

/// Each object in its versions: what it is in, and its spec.
struct Drawn {
    kind: &'static str,
    version: &'static str,
    metadata: &'static str,
    specs: &'static [&'static str],
}

const GATEWAY: &str = "gateway.networking.k8s.io/v1";
const TRIED: &str = "gateway.networking.x-k8s.io/v1alpha1";

macro_rules! drawn {
    ($($kind:literal $version:expr, $metadata:literal: [$($spec:literal),+ $(,)?];)+) => {
        &[$(Drawn { kind: $kind, version: $version, metadata: $metadata, specs: &[$($spec),+] }),+]
    };
}

const OBJECTS: &[Drawn] = drawn! {
    "GatewayClass" GATEWAY, "name: istio": [
        "spec: {controllerName: istio.io/gateway-controller}",
        "spec: {controllerName: example.com/other}",
    ];
    "Gateway" GATEWAY, "name: gate, namespace: one": [
        "spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}], allowedListeners: {namespaces: {from: All}}}",
        "spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}, {name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}}]}",
        "spec: {gatewayClassName: nginx, listeners: [{name: http, port: 80, protocol: HTTP}]}",
        "spec: {gatewayClassName: istio, addresses: [{type: Hostname, value: gate.one.svc.cluster.local}], listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}, kinds: [{kind: HTTPRoute}]}}, {name: tcp, port: 9000, protocol: TCP}, {name: pass, port: 8443, protocol: TLS, tls: {mode: Passthrough}}]}",
    ];
    "ListenerSet" GATEWAY, "name: more, namespace: two": [
        "spec: {parentRef: {name: gate, namespace: one}, listeners: [{name: more, port: 8080, protocol: HTTP}]}",
        "spec: {parentRef: {name: gate, namespace: one}, listeners: [{name: http, port: 80, protocol: HTTP}, {name: tls, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: one}]}}]}",
    ];
    "HTTPRoute" GATEWAY, "name: web, namespace: one": [
        "spec: {parentRefs: [{name: gate}], rules: [{backendRefs: [{name: s0, port: 80}]}]}",
        "spec: {parentRefs: [{name: gate, sectionName: http}], hostnames: [a.example.com], rules: [{matches: [{path: {value: /a}}], backendRefs: [{name: s0, port: 80, weight: 3}, {name: s1, namespace: two, port: 80, weight: 1}]}]}",
        "spec: {parentRefs: [{name: gate, port: 8080}, {group: '', kind: Service, name: s0}], hostnames: [b.com, a.example.com], rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: x, value: why}]}}], backendRefs: [{name: absent, port: 80}]}]}",
    ];
    "HTTPRoute" GATEWAY, "name: api, namespace: two, creationTimestamp: '2026-01-01T00:00:00Z'": [
        "spec: {parentRefs: [{name: gate, namespace: one}], hostnames: [a.example.com], rules: [{matches: [{path: {type: Exact, value: /a}}], backendRefs: [{name: s1, port: 80}]}]}",
        "spec: {parentRefs: [{kind: ListenerSet, name: more}, {name: gate, namespace: one, sectionName: absent}], rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]}",
        "spec: {parentRefs: [{group: '', kind: Service, name: s0, namespace: one, port: 80}], rules: [{backendRefs: [{name: s1, port: 80}]}]}",
    ];
    "GRPCRoute" GATEWAY, "name: grpc, namespace: one": [
        "spec: {parentRefs: [{name: gate}], hostnames: [a.example.com], rules: [{matches: [{method: {service: S}}], backendRefs: [{name: s0, port: 80}]}]}",
        "spec: {parentRefs: [{name: gate}], rules: [{backendRefs: [{name: s1, namespace: two, port: 80}]}]}",
    ];
    "TCPRoute" GATEWAY, "name: tcp, namespace: one": [
        "spec: {parentRefs: [{name: gate, sectionName: tcp}], rules: [{backendRefs: [{name: s0, port: 80}]}]}",
        "spec: {parentRefs: [{name: gate}, {group: '', kind: Service, name: s0}], rules: [{backendRefs: [{name: s1, namespace: two, port: 80}]}]}",
    ];
    "TLSRoute" GATEWAY, "name: tls, namespace: one": [
        "spec: {parentRefs: [{name: gate}], hostnames: [t.example.com], rules: [{backendRefs: [{name: s0, port: 80}]}]}",
    ];
    "ReferenceGrant" GATEWAY, "name: grant, namespace: two": [
        "spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: one}], to: [{group: '', kind: Service}]}",
        "spec: {from: [{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: one}, {group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: one}], to: [{group: '', kind: Service, name: s1}]}",
    ];
    "ReferenceGrant" GATEWAY, "name: secrets, namespace: one": [
        "spec: {from: [{group: gateway.networking.k8s.io, kind: ListenerSet, namespace: two}], to: [{group: '', kind: Secret}]}",
    ];
    "BackendTLSPolicy" GATEWAY, "name: tls, namespace: one": [
        "spec: {targetRefs: [{group: '', kind: Service, name: s0}], validation: {hostname: s.example.com, wellKnownCACertificates: System}}",
        "spec: {targetRefs: [{group: '', kind: Service, name: s0, sectionName: http}], validation: {hostname: s.example.com, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}",
    ];
    "XBackendTrafficPolicy" TRIED, "name: lb, namespace: one": [
        "spec: {targetRefs: [{group: '', kind: Service, name: s0}], sessionPersistence: {type: Cookie, sessionName: c}}",
    ];
    "XBackend" TRIED, "name: out, namespace: one": [
        "spec: {type: ExternalHostname, port: {port: 443}, protocol: HTTP, externalHostname: {hostname: out.example.com}}",
    ];
    "Service" "v1", "name: s0, namespace: one": [
        "spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}",
        "spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 81}, {name: tcp, port: 9000}]}",
    ];
    "Service" "v1", "name: s1, namespace: two": ["spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}"];
    "Service" "v1", "name: gate-istio, namespace: one": [
        "spec: {type: LoadBalancer, clusterIP: 10.0.0.3, ports: [{name: http, port: 80}]}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}",
        "spec: {clusterIP: 10.0.0.3, ports: [{name: http, port: 80}, {name: tcp, port: 9000}]}",
    ];
    "Service" "v1", "name: gate, namespace: one": [
        "spec: {clusterIP: 10.0.0.4, externalIPs: [192.0.2.7], ports: [{name: http, port: 80}]}",
    ];
    "EndpointSlice" "discovery.k8s.io/v1", "name: gate-istio, namespace: one, labels: {kubernetes.io/service-name: gate-istio}": [
        "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1]}]\nports: [{name: http, port: 80}]",
    ];
    "Namespace" "v1", "name: two": ["metadata: {name: two, labels: {team: a}}", "metadata: {name: two}"];
    "ConfigMap" "v1", "name: ca, namespace: one": ["data: {ca.crt: no certificate}", "data: {other: x}"];
    "Secret" "v1", "name: cert, namespace: one": ["type: kubernetes.io/tls\ndata: {tls.crt: bm8=, tls.key: bm8=}"];
    // With the name of an object that is derived.
    "VirtualService" "networking.istio.io/v1", "name: one~gate~a.example.com, namespace: two": [
        "spec: {hosts: [written.example.com], http: [{route: [{destination: {host: s1}}]}]}",
    ];
};

impl Drawn {
    fn object(&self, spec: usize) -> AnyObject {
        let spec = self.specs[spec % self.specs.len()];
        let metadata = match spec.starts_with("metadata:") {
            true => String::new(),
            false => format!("metadata: {{{}}}\n", self.metadata),
        };
        let text = format!(
            "apiVersion: {}\nkind: {}\n{metadata}{spec}\n",
            self.version, self.kind
        );
        World::objects(&text).remove(0)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, usize),
    Delete(usize),
    Settings(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..OBJECTS.len(), 0..4usize).prop_map(|(object, spec)| Step::Put(object, spec)),
        4 => (0..OBJECTS.len()).prop_map(Step::Delete),
        1 => (0..3usize).prop_map(Step::Settings),
    ]
}

fn configured(which: usize) -> Settings {
    let mut settings = settings("");
    settings.features = Arc::new(Features {
        alpha_gateway_api: which != 1,
        gateway_api: which != 2,
        ..Features::default()
    });
    settings
}

/// Everything that can be seen of a world.
#[derive(PartialEq, Debug)]
struct Seen {
    objects: BTreeMap<String, Value>,
    findings: Vec<Diagnostic>,
    statuses: BTreeMap<ObjectKey, Value>,
    resources: Vec<(String, u64)>,
}

fn seen(world: &World, proxies: &[Arc<Node>]) -> Seen {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
    let objects = kinds
        .into_iter()
        .flat_map(|kind| snapshot.tables.iter_any(kind));
    let objects = objects.map(|object| {
        let derived = format!("{:?}", object.meta().derived);
        let shown = json!([object.spec_json(), derived]);
        (object.key().to_string(), shown)
    });
    let mut resources = Vec::new();
    for proxy in proxies {
        let view = world.view(proxy);
        for ty in [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster] {
            let set = world.set(&view, ty);
            resources.extend(
                set.iter()
                    .map(|r| (format!("{ty:?} {}", r.name), r.version)),
            );
        }
    }
    Seen {
        objects: objects.collect(),
        findings: world.stage.current_findings(),
        statuses: world.statuses.clone(),
        resources,
    }
}

fn proxies() -> [Arc<Node>; 2] {
    let metadata =
        json!({"NAMESPACE": "one", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0"});
    let gateway = json!({"LABELS": {"gateway.networking.k8s.io/gateway-name": "gate"}});
    let described = |kind: &str, address: &str, more: &Value| {
        let mut metadata = metadata.clone();
        if let (Some(metadata), Some(more)) = (metadata.as_object_mut(), more.as_object()) {
            metadata.extend(more.clone());
        }
        let id = format!("{kind}~{address}~p.one~one.svc.cluster.local");
        node(&json!({"id": id, "metadata": metadata}))
    };
    [
        described("router", "10.1.0.1", &gateway),
        described("sidecar", "10.1.0.2", &json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        rng_seed: proptest::test_runner::RngSeed::Fixed(18),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(steps in proptest::collection::vec(step(), 1..14)) {
        let owner = Owner::new(0, "test");
        let proxies = proxies();
        let mut current = configured(0);
        let mut world = World::new(current.clone());
        let all = OBJECTS.iter().map(|drawn| drawn.object(0));
        let mut there: BTreeMap<ObjectKey, AnyObject> = all.map(|o| (o.key(), o)).collect();
        let put = |object: &AnyObject| Change::Put(owner.clone(), object.clone());
        world.apply(there.values().map(put));
        for step in &steps {
            let change = match step {
                Step::Put(object, spec) => {
                    let object = OBJECTS[*object].object(*spec);
                    there.insert(object.key(), object.clone());
                    put(&object)
                }
                Step::Delete(object) => {
                    let key = OBJECTS[*object].object(0).key();
                    there.remove(&key);
                    Change::Delete(owner.clone(), key)
                }
                Step::Settings(which) => {
                    current = configured(*which);
                    Change::Settings(Arc::new(current.clone()))
                }
            };
            world.apply([change]);
            let mut fresh = World::new(current.clone());
            fresh.apply(there.values().map(put));
            prop_assert_eq!(seen(&world, &proxies), seen(&fresh, &proxies));
            prop_assert_eq!(world.stage.panics(), 0);
        }
    }
}

#[test]
fn the_world_that_is_drawn_from_has_what_it_is_to_have() {
    let mut world = World::new(configured(0));
    let owner = Owner::new(0, "test");
    let all = OBJECTS.iter().map(|drawn| drawn.object(0));
    world.apply(all.map(|object| Change::Put(owner.clone(), object)));
    let tables = &world.store.snapshot().tables;
    assert!(tables.count(Kind::Gateway) >= 2);
    assert!(tables.count(Kind::VirtualService) >= 3);
    assert!(tables.count(Kind::DestinationRule) >= 1);
    let kinds: std::collections::BTreeSet<Kind> = world.statuses.keys().map(|k| k.kind).collect();
    assert!(kinds.len() >= 9, "{kinds:?}");
}
