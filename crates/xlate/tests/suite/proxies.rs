//! Proxies as they are in clusters: on nodes that are known or not, with addresses of one family or of two.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_xlate::View;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

/// A sidecar in namespace `shop`, by the addresses it states and what else its metadata say.
fn sidecar(world: &World, name: &str, addresses: &str, more: Value) -> Arc<View> {
    let first = addresses.split(',').next().unwrap();
    let mut metadata = json!({
        "NAMESPACE": "shop",
        "CLUSTER_ID": "Kubernetes",
        "INSTANCE_IPS": addresses,
    });
    let fields = metadata.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    world.view(&node(&json!({
        "id": format!("sidecar~{first}~{name}.shop~shop.svc.cluster.local"),
        "metadata": metadata,
    })))
}

fn resource(world: &World, view: &Arc<View>, ty: TypeUrl, name: &str) -> Option<Value> {
    let set = world.set(view, ty);
    let resource = set.get(name)?;
    Some(decode(ty.as_str(), &resource.body))
}

/// Every text of a kind of field, wherever it stands.
fn texts(value: &Value, key: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == key => {
                        found.insert(text.clone());
                    }
                    _ => texts(value, key, found),
                }
            }
        }
        _ => {}
    }
}

/// The addresses in a resource, one after the other; `None` where there is no such resource.
fn addresses(world: &World, view: &Arc<View>, ty: TypeUrl, name: &str) -> Option<String> {
    let mut found = BTreeSet::new();
    texts(&resource(world, view, ty, name)?, "address", &mut found);
    Some(Vec::from_iter(found).join(" "))
}

const LOCAL: &str = "
apiVersion: v1
kind: Service
metadata: {name: local, namespace: shop}
spec:
  clusterIP: 10.96.0.1
  internalTrafficPolicy: Local
  ports: [{port: 80, name: http}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: local, namespace: shop, labels: {kubernetes.io/service-name: local}}
addressType: IPv4
ports: [{port: 8080, name: http}]
endpoints:
- {addresses: [10.1.0.1], targetRef: {kind: Pod, name: local-1, namespace: shop}}
- {addresses: [10.1.0.2], targetRef: {kind: Pod, name: local-2, namespace: shop}}
- {addresses: [10.1.0.9]}
---
";

fn pod(name: &str, address: &str, on: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}}}
spec: {{nodeName: {on}, containers: [{{name: c, image: i}}]}}
status:
  phase: Running
  podIP: {address}
  podIPs: [{{ip: {address}}}]
  conditions: [{{type: Ready, status: 'True'}}]
---
"
    )
}

/// A proxy is on the node that it states, and a workload on that of its Pod. What is on no known node is local to what
/// is on no known node.
#[test]
fn local_traffic_stays_on_the_node_that_the_proxy_states() {
    let world = World::of(
        &[
            LOCAL.to_owned(),
            pod("local-1", "10.1.0.1", "n1"),
            pod("local-2", "10.1.0.2", "n2"),
            pod("client", "10.1.0.5", "n1"),
        ]
        .concat(),
    );
    for (name, address, metadata, expected) in [
        ("client", "10.1.0.5", json!({"NODE_NAME": "n1"}), "10.1.0.1"),
        ("client", "10.1.0.5", json!({"NODE_NAME": "n2"}), "10.1.0.2"),
        ("client", "10.1.0.5", json!({"NODE_NAME": "n3"}), ""),
        ("client", "10.1.0.5", json!({}), "10.1.0.9"),
        ("unknown", "10.1.0.6", json!({}), "10.1.0.9"),
        (
            "unknown",
            "10.1.0.6",
            json!({"NODE_NAME": "n2"}),
            "10.1.0.2",
        ),
    ] {
        let view = sidecar(&world, name, address, metadata.clone());
        let cluster = "outbound|80||local.shop.svc.cluster.local";
        let found = addresses(&world, &view, TypeUrl::Endpoint, cluster);
        assert_eq!(found.as_deref(), Some(expected), "{name} {metadata}");
    }
}

const TWO_FAMILIES: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, 'fd00::1']
  ipFamilies: [IPv4, IPv6]
  ports: [{port: 80, name: http}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec:
  clusterIP: 'fd00::5'
  clusterIPs: ['fd00::5', 10.96.0.5]
  ipFamilies: [IPv6, IPv4]
  ports: [{port: 3306, name: tcp}]
---
";

/// The addresses among the domains of `web`.
fn dialled(world: &World, view: &Arc<View>) -> String {
    let routes = resource(world, view, TypeUrl::Route, "80").unwrap();
    let hosts = routes["virtual_hosts"].as_array().unwrap().iter();
    let web = hosts.filter(|h| h["name"] == "web.shop.svc.cluster.local:80");
    let known = web.flat_map(|h| h["domains"].as_array().unwrap());
    let known = known.filter_map(Value::as_str);
    let dialled: Vec<&str> = known.filter(|d| !d.starts_with("web")).collect();
    dialled.join(" ")
}

/// What a proxy of both families knows a service by is of the family of the service's first address, unless services
/// have both.
#[test]
fn a_service_of_two_families_is_known_by_the_addresses_that_the_proxy_dials() {
    const BOTH: &str = "10.1.0.5,2001:db8::5";
    for (dual_stack, proxy, listener, bound, domains) in [
        (
            false,
            "10.1.0.5",
            "10.96.0.5_3306",
            "10.96.0.5",
            "10.96.0.1",
        ),
        (false, "2001:db8::5", "fd00::5_3306", "fd00::5", "[fd00::1]"),
        (false, BOTH, "fd00::5_3306", "fd00::5", "10.96.0.1"),
        (true, "10.1.0.5", "10.96.0.5_3306", "10.96.0.5", "10.96.0.1"),
        (
            true,
            BOTH,
            "fd00::5_3306",
            "10.96.0.5 fd00::5",
            "10.96.0.1 [fd00::1]",
        ),
    ] {
        let mut settings = settings("");
        let mut features = (*settings.features).clone();
        features.dual_stack = dual_stack;
        settings.features = Arc::new(features);
        let mut world = World::new(settings);
        world.put(TWO_FAMILIES);
        let view = sidecar(&world, "client", proxy, json!({"DNS_CAPTURE": "true"}));

        let found = addresses(&world, &view, TypeUrl::Listener, listener);
        assert_eq!(found.as_deref(), Some(bound), "{proxy} {dual_stack}");

        assert_eq!(dialled(&world, &view), domains, "{proxy} {dual_stack}");

        let table = resource(&world, &view, TypeUrl::NameTable, "").unwrap();
        let ips = &table["table"]["web.shop.svc.cluster.local"]["ips"];
        let ips: Vec<&str> = ips
            .as_array()
            .unwrap()
            .iter()
            .flat_map(Value::as_str)
            .collect();
        let answered = domains.replace(['[', ']'], "");
        assert_eq!(ips.join(" "), answered, "{proxy} {dual_stack}");
    }
}

/// A proxy of a cluster in which the service has no addresses dials that of another cluster, and calls it by that only
/// if it speaks its family.
#[test]
fn a_service_of_another_cluster_is_known_by_an_address_that_the_proxy_speaks() {
    let world = World::of(TWO_FAMILIES);
    for (proxy, domains) in [("10.1.0.5", "10.96.0.1"), ("2001:db8::5", "")] {
        let elsewhere = json!({"CLUSTER_ID": "elsewhere", "DNS_CAPTURE": "true"});
        let view = sidecar(&world, "client", proxy, elsewhere);
        assert_eq!(dialled(&world, &view), domains, "{proxy}");
        let table = resource(&world, &view, TypeUrl::NameTable, "").unwrap();
        let known = table["table"].get("web.shop.svc.cluster.local").is_some();
        assert_eq!(known, !domains.is_empty(), "{proxy}");
        let listener = addresses(&world, &view, TypeUrl::Listener, "fd00::5_3306");
        assert_eq!(listener.as_deref(), Some("fd00::5"), "{proxy}");
    }
}

const SERVED: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: entry, namespace: shop}
spec:
  hosts: [entry.example.com]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 7000, name: http, protocol: HTTP}]
  endpoints: [{address: 10.2.0.1}]
---
apiVersion: v1
kind: Service
metadata: {name: first, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80, name: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: second, namespace: shop}
spec: {clusterIP: 10.96.0.2, ports: [{port: 80, name: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: shop}
spec: {clusterIP: 10.96.0.3, selector: {app: vm}, ports: [{port: 80, name: http, targetPort: web}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: first, namespace: shop, labels: {kubernetes.io/service-name: first}}
addressType: IPv4
ports: [{port: 8080, name: http}]
endpoints: [{addresses: [10.1.0.1]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: second, namespace: shop, labels: {kubernetes.io/service-name: second}}
addressType: IPv4
ports: [{port: 8081, name: http}]
endpoints: [{addresses: [10.2.0.1]}]
---
";

/// What ServiceEntries have at any of its addresses a proxy serves; of Services that select nothing only what they have
/// at the first one, and only while its Pod is known. A port that is only named, where nothing says which it is, is 0.
#[test]
fn a_proxy_serves_what_is_at_its_addresses() {
    let world = World::of(&(SERVED.to_owned() + &pod("client", "10.1.0.1", "n1")));
    let vm = |more: Value| {
        let mut metadata = json!({"LABELS": {"app": "vm"}});
        let fields = metadata.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        metadata
    };
    let web =
        json!({"POD_PORTS": r#"[{"name": "web", "containerPort": 8085, "protocol": "TCP"}]"#});
    for (name, addresses, metadata, expected) in [
        ("client", "10.1.0.1", json!({}), "inbound|8080||"),
        (
            "client",
            "10.1.0.1,10.2.0.1",
            json!({}),
            "inbound|7000|| inbound|8080||",
        ),
        (
            "client",
            "10.2.0.1,10.1.0.1",
            json!({}),
            "inbound|7000|| inbound|8081||",
        ),
        ("unknown", "10.1.0.1", json!({}), ""),
        ("unknown", "10.2.0.1", json!({}), "inbound|7000||"),
        ("unknown", "10.3.0.1", vm(json!({})), "inbound|0||"),
        ("unknown", "10.3.0.1", vm(web), "inbound|8085||"),
    ] {
        let view = sidecar(&world, name, addresses, metadata);
        let clusters = world.set(&view, TypeUrl::Cluster);
        let inbound = clusters.iter().map(|r| &*r.name);
        let inbound: Vec<&str> = inbound.filter(|n| n.starts_with("inbound|")).collect();
        assert_eq!(inbound.join(" "), expected, "{name} {addresses}");
    }
}

#[test]
fn a_gateway_listens_at_the_address_that_it_states_for_its_machine() {
    let world = World::of(
        "{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: web, namespace: shop}, spec: {selector: {role: web}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [a.example.com]}]}}",
    );
    let listening = |stated: Value| {
        let mut metadata = json!({"NAMESPACE": "shop", "LABELS": {"role": "web"}});
        let fields = metadata.as_object_mut().unwrap();
        fields.extend(stated.as_object().unwrap().clone());
        let view = world.view(&node(&json!({
            "id": "router~10.0.0.9~web.shop~shop.svc.cluster.local",
            "metadata": metadata,
        })));
        let listener = resource(&world, &view, TypeUrl::Listener, "0.0.0.0_8080").unwrap();
        listener["address"]["socket_address"]["address"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(listening(json!({})), "0.0.0.0");
    let stated = |address: &str| json!({ "PILOTHOUSE_LISTEN_ADDRESS": address });
    assert_eq!(listening(stated("127.0.0.1")), "127.0.0.1");
    assert_eq!(listening(stated("no address")), "0.0.0.0");
}

/// The first try on one machine: the backend has the address that the gateway states.
#[test]
fn a_gateway_at_loopback_has_the_labels_that_it_states() {
    let world = World::of(
        "{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: front, namespace: shop}, spec: {selector: {app: front}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ['*']}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: backend, namespace: shop}, spec: {hosts: [backend.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 127.0.0.1, labels: {app: backend}}, {address: 10.0.0.9}]}}",
    );
    let listens = |address: &str| {
        let view = world.view(&node(&json!({
            "id": format!("router~{address}~front.shop~shop.svc.cluster.local"),
            "metadata": {"NAMESPACE": "shop", "INSTANCE_IPS": address, "LABELS": {"app": "front"}},
        })));
        resource(&world, &view, TypeUrl::Listener, "0.0.0.0_8080").is_some()
    };
    assert!(listens("127.0.0.1"));
    assert!(listens("10.0.0.8"));
    // At an address of its own the endpoint says what the workload is.
    assert!(!listens("10.0.0.9"));
}

/// Where DNS is captured, hosts that nothing knows are asked of the agent, by the cluster and by the filters before it.
#[test]
fn hosts_that_nothing_knows_are_resolved_by_the_agent() {
    let world = World::new(settings(
        "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}",
    ));
    let asked = |metadata: Value| {
        let view = sidecar(&world, "client", "10.1.0.5", metadata);
        let cluster = resource(&world, &view, TypeUrl::Cluster, "AllowAnyDynamicDNSCluster");
        let mut of_cluster = BTreeSet::new();
        texts(&cluster.unwrap(), "address", &mut of_cluster);
        let of_listener = addresses(&world, &view, TypeUrl::Listener, "virtualOutbound").unwrap();
        for address in &of_cluster {
            assert!(of_listener.contains(address), "{of_listener}");
        }
        Vec::from_iter(of_cluster).join(" ")
    };
    assert_eq!(asked(json!({})), "");
    assert_eq!(asked(json!({"DNS_CAPTURE": "true"})), "127.0.0.1");
    for (stated, address) in [
        ("127.0.0.2:53", "127.0.0.2"),
        ("[::1]:15053", "::1"),
        ("localhost:53", "127.0.0.1"),
        ("dns.example:53", "127.0.0.1"),
    ] {
        let metadata = json!({"DNS_CAPTURE": "true", "DNS_PROXY_ADDR": stated});
        assert_eq!(asked(metadata), address, "{stated}");
    }
}
