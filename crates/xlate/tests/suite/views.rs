//! Which proxies share what: keys of types let in what that type reads, and no more.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use model::node::Node;
use pilothouse_xlate::View;
use serde_json::{Value, json};
use testkit::{World, node};
use xds::{Resource, TypeUrl};

const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// A namespace of services; `endpoint` instances of each, one after the other on different nodes.
fn shop(workloads: usize) -> World {
    let mut yaml = String::new();
    for workload in 0..workloads {
        let _ = write!(
            yaml,
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: s{workload}, namespace: shop}}\n\
             spec:\n  hosts: [s{workload}.shop.svc.cluster.local]\n  addresses: [10.1.{workload}.1]\n  location: MESH_INTERNAL\n  \
             resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}, {{number: 9000, name: tcp, protocol: TCP}}]\n  \
             endpoints: [{}]\n",
            (0..4)
                .map(|n| format!(
                    "{{address: 10.2.{workload}.{n}, labels: {{app: s{workload}, version: v{n}}}}}"
                ))
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    World::of(&yaml)
}

/// No endpoint has this address, so that a proxy has the labels that it states.
const NO_ENDPOINT: usize = 9;

fn pod(workload: usize, machine: usize, other: &Value) -> Arc<Node> {
    let mut metadata = json!({
        "NAME": format!("s{workload}-6b8f7d9c5-x{machine}"), "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes",
        "NODE_NAME": format!("worker-{machine}"), "SERVICE_ACCOUNT": format!("s{workload}"),
        "WORKLOAD_NAME": format!("s{workload}"), "ISTIO_VERSION": "1.31.0",
        "LABELS": {
            "app": format!("s{workload}"), "pod-template-hash": format!("6b8f{workload}"),
            "service.istio.io/canonical-name": format!("s{workload}"),
        },
    });
    let (all, other) = (metadata.as_object_mut(), other.as_object());
    if let (Some(all), Some(other)) = (all, other) {
        all.extend(other.clone());
    }
    node(&json!({
        "id": format!("sidecar~10.2.{workload}.{machine}~s{workload}-6b8f7d9c5-x{machine}.shop~shop.svc.cluster.local"),
        "cluster": format!("s{workload}.shop"),
        "metadata": metadata,
    }))
}

/// What is made for the proxies of so many workloads on so many nodes.
struct Made {
    /// Distinct resources that calls go out by, in memory.
    outbound: usize,
    /// Distinct resources that calls come in by.
    inbound: usize,
    /// Evaluations of all queries, but for those of single proxies and workloads.
    leaves: u64,
}

/// Queries that run once for each proxy, workload or key of one.
const OF_WORKLOADS: [&str; 10] = [
    "ViewOf",
    "OneView",
    "TheOne<",
    "TypeSet",
    "roots::Made",
    "InboundClusters",
    "inbound::Listeners",
    "InboundListener",
    "parts::SidePartsOf",
    "services::",
];

fn made(workloads: usize, machines: usize) -> Made {
    let world = shop(40);
    let mut resources: BTreeSet<(bool, *const Resource)> = BTreeSet::new();
    let mut kept: Vec<Arc<Resource>> = Vec::new();
    for workload in 0..workloads {
        for machine in 0..machines {
            let view = world.view(&pod(workload, machine, &json!({})));
            for ty in TYPES {
                for resource in &world.set(&view, ty) {
                    let inbound = resource.name.starts_with("inbound")
                        || &*resource.name == "virtualInbound"
                        || &*resource.name == "InboundPassthroughCluster";
                    resources.insert((inbound, Arc::as_ptr(resource)));
                    kept.push(resource.clone());
                }
            }
        }
    }
    let stats = world.engine.stats();
    let leaves = stats.queries.iter();
    let leaves = leaves.filter(|q| !OF_WORKLOADS.iter().any(|w| q.name.contains(w)));
    let inbound = resources.iter().filter(|(inbound, _)| *inbound).count();
    Made {
        outbound: resources.len() - inbound,
        inbound,
        leaves: leaves.map(|q| q.runs).sum(),
    }
}

#[test]
fn what_workloads_call_by_is_made_once_for_a_namespace() {
    let (few, many) = (made(2, 1), made(20, 4));
    assert_eq!(few.outbound, many.outbound);
    assert_eq!(
        few.leaves, many.leaves,
        "evaluations that no workload needs"
    );
    assert!(many.inbound <= 10 * few.inbound, "{}", many.inbound);
}

#[test]
fn a_label_that_nothing_reads_splits_no_view() {
    let mut world = shop(3);
    let labels = |hash: &str| json!({"LABELS": {"app": "s1", "pod-template-hash": hash}});
    let views = |world: &World| -> [Arc<View>; 2] {
        ["a", "b"].map(|hash| world.view(&pod(1, NO_ENDPOINT, &labels(hash))))
    };
    let [a, b] = views(&world);
    assert!(Arc::ptr_eq(&a, &b));
    world.put(
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: a, namespace: shop}\n\
         spec: {workloadSelector: {labels: {pod-template-hash: a}}, egress: [{hosts: ['./s1.shop.svc.cluster.local']}]}\n",
    );
    let [a, b] = views(&world);
    assert_ne!(a, b);
}

/// For each way in which two proxies may differ, objects by which they get something else: a key that lost the field could
/// not tell them apart.
#[test]
fn no_key_lacks_what_its_type_reads() {
    let labelled = |value: &str| json!({"LABELS": {"app": "s1", "side": value}});
    let object = |kind: &str, group: &str, spec: &str| {
        format!(
            "apiVersion: {group}\nkind: {kind}\nmetadata: {{name: x, namespace: shop}}\nspec: {spec}\n"
        )
    };
    let net = "networking.istio.io/v1";
    let cases: [(&str, String, [Value; 2], TypeUrl); 12] = [
        (
            "labels by which VirtualServices match",
            object(
                "VirtualService",
                net,
                "{hosts: [s2.shop.svc.cluster.local], http: [{match: [{sourceLabels: {side: b}}], fault: {abort: {httpStatus: 500, percentage: {value: 100}}}, route: [{destination: {host: s2.shop.svc.cluster.local}}]}, {route: [{destination: {host: s2.shop.svc.cluster.local}}]}]}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Route,
        ),
        (
            "labels by which DestinationRules select: clusters",
            object(
                "DestinationRule",
                net,
                "{host: s2.shop.svc.cluster.local, workloadSelector: {matchLabels: {side: b}}, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Cluster,
        ),
        (
            "labels by which DestinationRules select: routes",
            object(
                "DestinationRule",
                net,
                "{host: s2.shop.svc.cluster.local, workloadSelector: {matchLabels: {side: b}}, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x}}}}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Route,
        ),
        (
            "labels by which endpoints are ordered",
            object(
                "DestinationRule",
                net,
                "{host: s2.shop.svc.cluster.local, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}, loadBalancer: {localityLbSetting: {failoverPriority: [version]}}}}",
            ),
            [
                json!({"LABELS": {"version": "v1"}}),
                json!({"LABELS": {"version": "v2"}}),
            ],
            TypeUrl::Endpoint,
        ),
        (
            "labels by which Sidecars select",
            object(
                "Sidecar",
                net,
                "{workloadSelector: {labels: {side: b}}, egress: [{hosts: ['./s1.shop.svc.cluster.local']}]}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Cluster,
        ),
        (
            "labels by which EnvoyFilters select",
            object(
                "EnvoyFilter",
                "networking.istio.io/v1alpha3",
                "{workloadSelector: {labels: {side: b}}, configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {connect_timeout: 77s}}}]}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Cluster,
        ),
        (
            "labels by which policies select",
            object(
                "AuthorizationPolicy",
                "security.istio.io/v1",
                "{selector: {matchLabels: {side: b}}, action: DENY, rules: [{}]}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Listener,
        ),
        (
            "labels by which peers are authenticated",
            object(
                "PeerAuthentication",
                "security.istio.io/v1",
                "{selector: {matchLabels: {side: b}}, mtls: {mode: STRICT}}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Listener,
        ),
        (
            "labels by which Telemetry selects",
            object(
                "Telemetry",
                "telemetry.istio.io/v1",
                "{selector: {matchLabels: {side: b}}, tracing: [{disableSpanReporting: true}]}",
            ),
            [labelled("a"), labelled("b")],
            TypeUrl::Listener,
        ),
        (
            "interception",
            String::new(),
            [json!({}), json!({"INTERCEPTION_MODE": "NONE"})],
            TypeUrl::Listener,
        ),
        (
            "HTTP/1.0",
            String::new(),
            [json!({}), json!({"HTTP10": "1"})],
            TypeUrl::Listener,
        ),
        (
            "certificates",
            String::new(),
            [
                json!({}),
                json!({"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}),
            ],
            TypeUrl::Cluster,
        ),
    ];
    for (what, objects, [a, b], ty) in cases {
        let mut world = shop(4);
        if !objects.is_empty() {
            world.put(&objects);
        }
        let sets = [&a, &b].map(|said| world.set(&world.view(&pod(1, NO_ENDPOINT, said)), ty));
        assert_ne!(sets[0], sets[1], "{what}");
        // Whoever came first, each gets what it gets alone.
        for (said, shared) in [&a, &b].into_iter().zip(&sets) {
            let mut alone = shop(4);
            if !objects.is_empty() {
                alone.put(&objects);
            }
            assert_eq!(
                *shared,
                alone.set(&alone.view(&pod(1, NO_ENDPOINT, said)), ty),
                "{what}"
            );
        }
    }
}
