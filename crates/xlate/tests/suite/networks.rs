//! What proxies of several clusters and networks reach: gateways between networks, and services that clusters share.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use mesh::network_gateways::WantedAddresses;
use model::mesh::read_mesh_networks;
use model::settings::{Features, Settings};
use model::{Change, Owner};
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

const REVIEWS: &str = "outbound|80||reviews.shop.svc.cluster.local";
const SHARED: &str = "outbound|80||reviews.shop.svc.clusterset.local";

/// A Service with one Pod that takes mutual TLS.
fn reviews(vip: &str, ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: reviews, namespace: shop}}
spec: {{clusterIP: {vip}, selector: {{app: reviews}}, ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {{name: reviews-x, namespace: shop, labels: {{kubernetes.io/service-name: reviews}}}}
endpoints: [{{addresses: [{ip}], targetRef: {{kind: Pod, name: reviews-0, namespace: shop}}}}]
ports: [{{name: http, port: 8080}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: reviews-0, namespace: shop, labels: {{app: reviews, security.istio.io/tlsMode: istio}}}}
spec: {{serviceAccountName: reviews}}
status: {{podIP: {ip}, phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}
"
    )
}

/// The system namespace of a cluster in a network.
fn network(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: istio-system, labels: {{topology.istio.io/network: {name}}}}}}}"
    )
}

/// A gateway Service of a network at an address (`ip: ...` or `hostname: ...`).
fn gateway(name: &str, address: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: eastwest, namespace: istio-system, labels: {{topology.istio.io/network: {name}}}}}, \
         spec: {{type: LoadBalancer, clusterIP: 10.0.9.9, ports: [{{name: tls, port: 15443}}]}}, \
         status: {{loadBalancer: {{ingress: [{{{address}}}]}}}}}}"
    )
}

fn owner(cluster: Option<&str>) -> Owner {
    Owner {
        cluster: cluster.map(Into::into),
        ..Owner::new(10, "kubernetes")
    }
}

fn put(world: &mut World, cluster: Option<&str>, objects: &[String]) {
    let objects = World::objects(&objects.join("\n---\n")).into_iter();
    world.apply(objects.map(|o| Change::Put(owner(cluster), o)));
}

/// The configured cluster and `west`, each with reviews.
fn two(settings: Settings) -> World {
    let mut world = World::new(settings);
    put(&mut world, None, &[reviews("10.0.0.1", "10.1.0.1")]);
    put(&mut world, Some("west"), &[reviews("10.0.0.2", "10.2.0.1")]);
    world
}

fn with_features(on: &[&str]) -> Settings {
    let on = on
        .iter()
        .map(|name| ((*name).to_owned(), "true".to_owned()));
    Settings {
        features: Arc::new(Features::from_env(on)),
        ..settings("")
    }
}

/// Where a proxy of a cluster and network gets its endpoints of a cluster of Envoy: address and port, sorted.
fn endpoints(world: &World, cluster: &str, network: &str, name: &str) -> Vec<String> {
    let node = node(&json!({
        "id": "sidecar~10.3.0.9~client.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": cluster, "NETWORK": network},
    }));
    let set = world.set(&world.view(&node), TypeUrl::Endpoint);
    let Some(resource) = set.get(name) else {
        return vec!["no cluster".to_owned()];
    };
    let message = decode(TypeUrl::Endpoint.as_str(), &resource.body);
    let groups = message["endpoints"].as_array().cloned().unwrap_or_default();
    let members = groups
        .iter()
        .flat_map(|g| g["lb_endpoints"].as_array().cloned().unwrap_or_default());
    let mut found: Vec<String> = members
        .map(|m| {
            let address = &m["endpoint"]["address"]["socket_address"];
            let host = address["address"].as_str().unwrap_or_default();
            format!("{host}:{}", address["port_value"])
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_gateway_of_a_remote_cluster_is_the_way_into_its_network() {
    let mut world = two(settings(""));
    put(&mut world, None, &[network("north")]);
    put(&mut world, Some("west"), &[network("south")]);
    let from_north = |world: &World| endpoints(world, "Kubernetes", "north", REVIEWS);
    let from_south = |world: &World| endpoints(world, "west", "south", REVIEWS);
    // Without a gateway a network is entered as if it were one's own.
    assert_eq!(from_north(&world), ["10.1.0.1:8080", "10.2.0.1:8080"]);

    put(&mut world, Some("west"), &[gateway("south", "ip: 1.1.1.1")]);
    assert_eq!(from_north(&world), ["1.1.1.1:15443", "10.1.0.1:8080"]);
    assert_eq!(from_south(&world), ["10.1.0.1:8080", "10.2.0.1:8080"]);

    // The label of the other cluster's namespace does not concern this one.
    put(&mut world, Some("west"), &[network("far")]);
    assert_eq!(from_north(&world), ["10.1.0.1:8080", "10.2.0.1:8080"]);
}

#[test]
fn a_gateway_known_by_name_is_where_the_name_was_found() {
    let mut world = two(settings(""));
    put(&mut world, None, &[network("north")]);
    let lb = gateway("south", "hostname: lb.example.com");
    put(&mut world, Some("west"), &[network("south"), lb]);
    let wanted: Vec<String> = world
        .get(&WantedAddresses)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(wanted, ["lb.example.com"]);
    let from_north = |world: &World| endpoints(world, "Kubernetes", "north", REVIEWS);
    assert_eq!(from_north(&world), ["10.1.0.1:8080", "10.2.0.1:8080"]);
    let mut found = |ips: &[&str]| {
        let ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        world.apply([Change::Addresses("lb.example.com".into(), Some(ips))]);
        from_north(&world)
    };
    let both = ["1.1.1.1:15443", "1.1.1.2:15443", "10.1.0.1:8080"];
    assert_eq!(found(&["1.1.1.1", "1.1.1.2"]), both);
    // Of the other family is none that the proxy can reach.
    assert_eq!(found(&["fd00::1"]), ["10.1.0.1:8080"]);
    world.apply([Change::Gone(owner(Some("west")))]);
    assert!(world.get(&WantedAddresses).is_empty());
}

#[test]
fn mesh_networks_name_clusters_and_their_services() {
    let text = "{networks: {south: {endpoints: [{fromRegistry: west}], \
                gateways: [{registryServiceName: eastwest.istio-system.svc.cluster.local, port: 4443}]}, \
                north: {endpoints: [{fromCidr: 10.1.0.0/16}], gateways: [{address: 2.2.2.2, port: 15443}]}}}";
    let networks = read_mesh_networks(text, &std::path::Path::new("networks.yaml").into());
    let mut world = two(Settings {
        networks: Arc::new(networks.value.unwrap()),
        ..settings("")
    });
    let unlabelled = gateway("\"\"", "ip: 1.1.1.1");
    put(&mut world, Some("west"), std::slice::from_ref(&unlabelled));
    // The service of that name in another cluster is none.
    put(
        &mut world,
        None,
        &[unlabelled.replace("1.1.1.1", "9.9.9.9")],
    );
    let from_north = endpoints(&world, "Kubernetes", "north", REVIEWS);
    assert_eq!(from_north, ["1.1.1.1:4443", "10.1.0.1:8080"]);
    let from_south = endpoints(&world, "west", "south", REVIEWS);
    assert_eq!(from_south, ["10.2.0.1:8080", "2.2.2.2:15443"]);
}

#[test]
fn a_gateway_of_the_gateway_api_may_lead_into_a_network() {
    let mut world = two(settings(""));
    put(&mut world, None, &[network("north")]);
    let gateway = |class: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, \
             metadata: {{name: eastwest, namespace: istio-system, labels: {{topology.istio.io/network: south}}}}, \
             spec: {{gatewayClassName: {class}, addresses: [{{value: 1.1.1.1}}, {{type: Hostname, value: lb.example.com}}], listeners: [\
             {{name: tls, port: 15443, protocol: TLS, tls: {{mode: Passthrough}}}}, {{name: other, port: 443, protocol: TLS, tls: {{mode: Passthrough}}}}, \
             {{name: stated, port: 444, protocol: TLS, tls: {{options: {{gateway.istio.io/listener-protocol: auto-passthrough}}}}}}]}}}}"
        )
    };
    let remote = [network("south"), gateway("istio")];
    put(&mut world, Some("west"), &remote);
    let from_north = |world: &World| endpoints(world, "Kubernetes", "north", REVIEWS);
    let through = ["1.1.1.1:15443", "1.1.1.1:444", "10.1.0.1:8080"];
    assert_eq!(from_north(&world), through);
    // What stands for a gateway elsewhere counts in the configured cluster only.
    put(&mut world, Some("west"), &[gateway("istio-remote")]);
    assert_eq!(from_north(&world), ["10.1.0.1:8080", "10.2.0.1:8080"]);
    put(&mut world, None, &[gateway("istio-remote")]);
    assert_eq!(from_north(&world), through);
}

fn export() -> String {
    "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: reviews, namespace: shop}}".to_owned()
}

fn import(ip: &str) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {{name: reviews, namespace: shop}}, \
         spec: {{type: ClusterSetIP, ips: [{ip}], ports: [{{name: http, port: 80}}]}}}}"
    )
}

/// What proxies of the configured cluster and of `west` get of a host.
fn seen(world: &World, name: &str) -> [Vec<String>; 2] {
    ["Kubernetes", "west"].map(|cluster| endpoints(world, cluster, "", name))
}

#[test]
fn endpoints_that_are_not_exported_stay_in_their_cluster() {
    let (own, far) = ("10.1.0.1:8080", "10.2.0.1:8080");
    let mut world = two(with_features(&["ENABLE_MCS_SERVICE_DISCOVERY"]));
    assert_eq!(seen(&world, REVIEWS), [vec![own], vec![far]]);
    put(&mut world, Some("west"), &[export()]);
    assert_eq!(seen(&world, REVIEWS), [vec![own, far], vec![far]]);

    let mut world = two(with_features(&[
        "ENABLE_MCS_SERVICE_DISCOVERY",
        "ENABLE_MCS_AUTO_EXPORT",
    ]));
    assert_eq!(seen(&world, REVIEWS), [vec![own, far], vec![own, far]]);
    put(&mut world, None, &[export()]);
    assert_eq!(seen(&world, REVIEWS), [vec![own, far], vec![own, far]]);
    // Without the flag, exports do not count.
    assert_eq!(
        seen(&two(settings("")), REVIEWS),
        [vec![own, far], vec![own, far]]
    );
}

#[test]
fn a_service_that_clusters_import_has_a_host_of_its_own() {
    let (own, far) = ("10.1.0.1:8080", "10.2.0.1:8080");
    let flags = [
        "ENABLE_MCS_HOST",
        "ENABLE_MCS_SERVICE_DISCOVERY",
        "ENABLE_MCS_CLUSTER_LOCAL",
    ];
    let mut world = two(with_features(&flags));
    let none = || vec!["no cluster".to_owned()];
    assert_eq!(seen(&world, SHARED), [none(), none()]);
    put(&mut world, None, &[import("10.9.0.1")]);
    assert_eq!(seen(&world, SHARED), [vec![own], vec![far]]);
    // A cluster that exports without importing gives others nothing.
    put(&mut world, Some("west"), &[export()]);
    assert_eq!(seen(&world, SHARED), [vec![own], vec![far]]);
    put(&mut world, Some("west"), &[import("10.9.0.2")]);
    assert_eq!(seen(&world, SHARED), [vec![own, far], vec![far]]);
    // The host of the cluster's own domain is of the cluster.
    assert_eq!(seen(&world, REVIEWS), [vec![own], vec![far]]);
    assert_eq!(vips(&world, "Kubernetes"), ["10.9.0.1"]);
    assert_eq!(vips(&world, "west"), ["10.9.0.2"]);

    world.apply([Change::Gone(owner(None))]);
    assert_eq!(seen(&world, SHARED), [vec![far], vec![far]]);
    world.apply([Change::Gone(owner(Some("west")))]);
    assert_eq!(seen(&world, SHARED), [none(), none()]);
}

/// What a proxy of a cluster resolves the shared host to.
fn vips(world: &World, cluster: &str) -> Vec<String> {
    let node = node(&json!({
        "id": "sidecar~10.3.0.9~client.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": cluster, "DNS_CAPTURE": "true"},
    }));
    let set = world.set(&world.view(&node), TypeUrl::NameTable);
    let table = decode(
        TypeUrl::NameTable.as_str(),
        &set.iter().next().unwrap().body,
    );
    let info = &table["table"]["reviews.shop.svc.clusterset.local"];
    // The short name is that of the cluster's own service.
    assert_eq!(info["shortname"], Value::Null);
    let ips = info["ips"].as_array().into_iter().flatten();
    ips.map(|ip| ip.as_str().unwrap().to_owned()).collect()
}

#[test]
fn workload_entries_of_a_remote_cluster_serve_its_services_and_any_service_entry() {
    let mut world = two(settings(""));
    let entry = "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: vm, namespace: shop, labels: {app: reviews}}, \
                 spec: {address: 10.2.9.9}}";
    let external = "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: vms, namespace: shop}, spec: \
                    {hosts: [vms.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], \
                    workloadSelector: {labels: {app: reviews}}}}";
    put(&mut world, None, &[external.to_owned()]);
    put(&mut world, Some("west"), &[entry.to_owned()]);
    let vm = "10.2.9.9:80";
    let all = ["10.1.0.1:8080", "10.2.0.1:8080", vm];
    assert_eq!(endpoints(&world, "Kubernetes", "", REVIEWS), all);
    let vms = "outbound|80||vms.example.com";
    let all = ["10.1.0.1:80", "10.2.0.1:80", vm];
    assert_eq!(endpoints(&world, "Kubernetes", "", vms), all);
    // It is of its own cluster only.
    world.apply([Change::Gone(owner(Some("west")))]);
    assert_eq!(
        endpoints(&world, "Kubernetes", "", REVIEWS),
        ["10.1.0.1:8080"]
    );
}
