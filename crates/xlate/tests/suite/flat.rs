//! The work that one change makes does not grow with the mesh: counted, not timed.

use std::sync::Arc;

use model::node::Node;
use model::{Change, Owner};
use pilothouse_xlate::View;
use serde_json::json;
use testkit::{World, node};
use xds::{ResourceSet, TypeUrl};

const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// What the engine does.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Work {
    evaluations: u64,
    validations: u64,
    reads: u64,
}

struct Mesh {
    world: World,
    view: Arc<View>,
    services: usize,
    /// Services of a namespace.
    each: usize,
}

impl Mesh {
    /// Every second service has a rule; a proxy sees its own namespace, which is the first.
    fn new(services: usize, each: usize) -> Self {
        let mut yaml = String::from(
            "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default, namespace: istio-system}\nspec: {egress: [{hosts: ['./*']}]}\n",
        );
        for index in 0..services {
            yaml += &service(index, each, 1);
            if index % 2 == 0 {
                yaml += &rule(index, each, 1);
            }
        }
        let world = World::of(&yaml);
        let node: Arc<Node> = node(&json!({
            "id": "sidecar~13.0.0.1~client-0.n0~n0.svc.cluster.local",
            "metadata": {"NAMESPACE": "n0", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0"},
        }));
        let view = world.view(&node);
        let mut mesh = Mesh {
            world,
            view,
            services,
            each,
        };
        for ty in TYPES {
            mesh.world.engine.root(&mesh.view.set(ty));
        }
        mesh.pull();
        mesh
    }

    fn pull(&mut self) -> [ResourceSet; 4] {
        let sets = TYPES.map(|ty| self.world.set(&self.view, ty));
        self.world.engine.collect();
        sets
    }

    /// The work for one change, and how many resources it altered.
    fn cost(&mut self, yaml: &str) -> (Work, usize) {
        let before = self.pull();
        let start = self.world.engine.stats();
        self.world.put(yaml);
        let after = self.pull();
        let end = self.world.engine.stats();
        let mut altered = 0;
        for (before, after) in before.iter().zip(&after) {
            after.since(before, |_, _| altered += 1);
        }
        let work = Work {
            evaluations: end.runs - start.runs,
            validations: end.validated - start.validated,
            reads: end.reads - start.reads,
        };
        (work, altered)
    }
}

fn name(index: usize, each: usize) -> (String, String) {
    (format!("s{index}"), format!("n{}", index / each))
}

fn service(index: usize, each: usize, last: usize) -> String {
    let (name, namespace) = name(index, each);
    let (a, b) = (index / 250, index % 250 + 1);
    format!(
        "\n---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  hosts: [{name}.{namespace}.svc.cluster.local]\n  addresses: [10.{a}.{b}.1]\n  location: MESH_INTERNAL\n  \
         resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints:\n  \
         - {{address: 11.{a}.{b}.{last}, labels: {{app: {name}}}}}\n"
    )
}

fn rule(index: usize, each: usize, connections: usize) -> String {
    let (name, namespace) = name(index, each);
    format!(
        "\n---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{host: {name}, trafficPolicy: {{connectionPool: {{tcp: {{maxConnections: {connections}}}}}}}}}\n"
    )
}

fn route(index: usize, each: usize) -> String {
    let (name, namespace) = name(index, each);
    format!(
        "\n---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{hosts: [{name}], http: [{{timeout: 3s, route: [{{destination: {{host: {name}}}}}]}}]}}\n"
    )
}

/// A small mesh and a large one.
fn meshes(small: usize, large: usize, each: usize) -> [Mesh; 2] {
    [Mesh::new(small, each), Mesh::new(large, each)]
}

/// Makes a change in both, and returns how many resources it altered.
fn compare([small, large]: &mut [Mesh; 2], change: impl Fn(usize) -> String) -> usize {
    assert!(large.services >= 8 * small.services);
    let ((a, altered), (b, also)) = (
        small.cost(&change(small.each)),
        large.cost(&change(large.each)),
    );
    assert_eq!(
        a, b,
        "with {} and with {} services",
        small.services, large.services
    );
    assert_eq!(altered, also);
    altered
}

#[test]
fn a_proxy_that_sees_everything_pays_for_what_changes_alone() {
    let mut meshes = meshes(50, 400, 1_000);
    let altered = compare(&mut meshes, |each| service(5, each, 7));
    assert_eq!(altered, 1, "the assignment of a service without rules");
    let altered = compare(&mut meshes, |each| service(6, each, 7));
    assert_eq!(altered, 1, "the assignment of a service with a rule");
    let altered = compare(&mut meshes, |each| rule(6, each, 9));
    assert_eq!(altered, 1, "the cluster that a rule is about");
}

#[test]
fn a_proxy_that_sees_its_namespace_does_not_pay_for_others() {
    type Change = fn(usize) -> String;
    fn new(like: usize, each: usize) -> String {
        let text = service(like, each, 7).replace(&format!("s{like}"), "new");
        text.replace("[10.", "[9.")
    }
    let mut meshes = meshes(40, 320, 10);
    let own: [(Change, usize); 4] = [
        (|each| service(5, each, 7), 1),
        (|each| rule(6, each, 9), 1),
        (|each| route(5, each), 1),
        // A cluster, an assignment, and the route configuration of the port.
        (|each| new(5, each), 3),
    ];
    for (change, expected) in own {
        assert_eq!(compare(&mut meshes, change), expected);
    }
    let foreign: [Change; 4] = [
        |each| service(25, each, 7),
        |each| rule(26, each, 9),
        |each| route(25, each),
        |each| new(25, each),
    ];
    for change in foreign {
        assert_eq!(compare(&mut meshes, change), 0);
    }
}

/// The objects of a Service in a cluster, whose endpoint ends in a number.
fn in_cluster(index: usize, vip: usize, last: usize) -> String {
    let (a, b) = (index / 250, index % 250 + 1);
    format!(
        "\n---\napiVersion: v1\nkind: Service\nmetadata: {{name: k{index}, namespace: n0}}\n\
         spec: {{clusterIP: 10.{vip}.{a}.{b}, ports: [{{name: http, port: 80}}]}}\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
         metadata: {{name: k{index}, namespace: n0, labels: {{kubernetes.io/service-name: k{index}}}}}\n\
         endpoints: [{{addresses: [12.{a}.{b}.{last}]}}]\nports: [{{name: http, port: 80}}]\n"
    )
}

/// The work for one endpoint of a remote cluster, in a mesh with so many services in two clusters.
fn remote_cost(services: usize) -> (Work, usize) {
    let west = Owner {
        cluster: Some("west".into()),
        ..Owner::new(20, "kubernetes:west")
    };
    let mut mesh = Mesh::new(1, 1);
    let put = |owner: &Owner, yaml: &str| -> Vec<Change> {
        let objects = World::objects(yaml).into_iter();
        objects.map(|o| Change::Put(owner.clone(), o)).collect()
    };
    for index in 0..services {
        let own = Owner::new(10, "kubernetes");
        mesh.world.apply(put(&own, &in_cluster(index, 96, 1)));
        mesh.world.apply(put(&west, &in_cluster(index, 97, 2)));
    }
    let before = mesh.pull();
    let start = mesh.world.engine.stats();
    mesh.world.apply(put(&west, &in_cluster(3, 97, 3)));
    let after = mesh.pull();
    let end = mesh.world.engine.stats();
    let mut altered = 0;
    for (before, after) in before.iter().zip(&after) {
        after.since(before, |_, _| altered += 1);
    }
    let work = Work {
        evaluations: end.runs - start.runs,
        validations: end.validated - start.validated,
        reads: end.reads - start.reads,
    };
    (work, altered)
}

#[test]
fn an_endpoint_of_a_remote_cluster_costs_what_it_alters() {
    let (small, altered) = remote_cost(10);
    let (large, also) = remote_cost(100);
    assert_eq!(small, large);
    assert_eq!((altered, also), (1, 1));
}
