//! Services, endpoints and Pods of several clusters.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use mesh::services::{EndpointsOf, InNamespace, KubeService, host_of};
use model::change::ServiceKey;
use model::{Change, ObjectName, Owner};
use testkit::World;

/// A Service with one Pod, which its slice names, and the Pod's Node; of one name in every cluster.
fn cart(vip: &str, ip: &str, zone: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: cart, namespace: shop}}
spec: {{clusterIP: {vip}, selector: {{app: cart}}, ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {{name: cart-x, namespace: shop, labels: {{kubernetes.io/service-name: cart}}}}
endpoints: [{{addresses: [{ip}], targetRef: {{kind: Pod, name: cart-0, namespace: shop}}}}]
ports: [{{name: http, port: 8080}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: cart-0, namespace: shop, labels: {{app: cart}}}}
spec: {{nodeName: n1, serviceAccountName: cart}}
status: {{podIP: {ip}, phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}
---
apiVersion: v1
kind: Node
metadata: {{name: n1, labels: {{topology.kubernetes.io/zone: {zone}}}}}
spec: {{}}
"
    )
}

fn put(world: &mut World, owner: &Owner, yaml: &str) {
    let objects = World::objects(yaml).into_iter();
    world.apply(objects.map(|o| Change::Put(owner.clone(), o)));
}

fn west() -> Owner {
    Owner {
        cluster: Some("west".into()),
        ..Owner::new(20, "kubernetes:west")
    }
}

/// Address, cluster and zone of each endpoint.
fn endpoints(world: &World) -> Vec<(String, String, String)> {
    let key = ServiceKey {
        namespace: "shop".into(),
        host: host_of(&ObjectName::new("shop", "cart"), "cluster.local"),
    };
    let all = world.get(&EndpointsOf(key));
    let shown = all.iter().map(|e| {
        let labels = e.labels.get("topology.istio.io/cluster");
        assert_eq!(labels, Some(e.cluster.as_str()), "the labels agree");
        let zone = e.locality.zone.to_string();
        (e.address.primary().to_owned(), e.cluster.to_string(), zone)
    });
    shown.collect()
}

fn row(ip: &str, cluster: &str, zone: &str) -> (String, String, String) {
    (ip.to_owned(), cluster.to_owned(), zone.to_owned())
}

#[test]
fn a_service_of_two_clusters_is_one_with_the_addresses_and_endpoints_of_both() {
    let mut world = World::default();
    let own = Owner::new(10, "kubernetes");
    put(&mut world, &own, &cart("10.0.0.1", "10.1.0.1", "a"));
    assert_eq!(endpoints(&world), [row("10.1.0.1", "Kubernetes", "a")]);
    put(&mut world, &west(), &cart("10.0.0.2", "10.1.0.2", "b"));
    let wanted = [
        row("10.1.0.1", "Kubernetes", "a"),
        row("10.1.0.2", "west", "b"),
    ];
    assert_eq!(endpoints(&world), wanted);
    let service = world.get(&KubeService(ObjectName::new("shop", "cart")));
    let vips = &service.as_ref().as_ref().unwrap().cluster_vips;
    let vips: Vec<_> = vips.iter().map(|(c, ips)| (c.as_str(), &*ips[0])).collect();
    assert_eq!(vips, [("Kubernetes", "10.0.0.1"), ("west", "10.0.0.2")]);
    assert_eq!(world.get(&InNamespace("shop".into())).len(), 1);

    world.apply([Change::Gone(own)]);
    assert_eq!(endpoints(&world), [row("10.1.0.2", "west", "b")]);
    assert_eq!(world.get(&InNamespace("shop".into())).len(), 1);
    world.apply([Change::Gone(west())]);
    assert_eq!(endpoints(&world), []);
    assert!(world.get(&InNamespace("shop".into())).is_empty());
}
