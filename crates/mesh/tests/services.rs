//! Services and endpoints against tables recorded from Istio's own tests.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::change::ServiceKey;
use model::mesh::read_mesh_networks;
use model::object::ObjectName;
use model::service::{Address, Endpoint, Health, Registry, Resolution, Service};
use model::settings::Features;
use model::{Change, Origin, Owner};
use pilothouse_mesh::scope::{ScopeKey, ScopeOf};
use pilothouse_mesh::services::{
    EndpointsOf, EntryServices, KubeService, PodOf, WorkloadOfEntry, host_of, name_of,
};
use serde_json::{Map, Value, json};
use testkit::{Score, Table, World, as_istiod, differences, settings};

/// The object without what is its zero in Go.
fn sparse(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(k, v)| (k, sparse(v)))
                .filter(|(_, v)| !is_zero(v))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(sparse).collect()),
        other => other,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn protocol(protocol: model::protocol::Protocol) -> &'static str {
    use model::protocol::Protocol::*;
    match protocol {
        Grpc => "GRPC",
        GrpcWeb => "GRPC-Web",
        Http => "HTTP",
        HttpProxy => "HTTP_PROXY",
        Http2 => "HTTP2",
        Https => "HTTPS",
        Tcp => "TCP",
        Tls => "TLS",
        Udp => "UDP",
        Mongo => "Mongo",
        Redis => "Redis",
        Mysql => "MySQL",
        Hbone => "HBONE",
        DoubleHbone => "DoubleHBONE",
        Unsupported => "UnsupportedProtocol",
    }
}

fn pairs(labels: &model::Labels) -> Map<String, Value> {
    let text = |(k, v): (&Arc<str>, &Arc<str>)| (k.to_string(), json!(**v));
    labels.iter().map(text).collect()
}

fn texts(list: &[Arc<str>]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}

/// A service in the fields of Istio's.
fn shown(service: &Service) -> Value {
    let vips: Map<String, Value> = service
        .cluster_vips
        .iter()
        .map(|(cluster, vips)| (cluster.to_string(), json!(texts(vips))))
        .collect();
    let port = |p: &model::service::Port| json!({"Name": *p.name, "Port": p.number, "Protocol": protocol(p.protocol)});
    let external_ports: Map<String, Value> = service
        .kube
        .external_ports
        .iter()
        .map(|(cluster, ports)| {
            let ports: Map<String, Value> = ports
                .iter()
                .map(|(a, b)| (a.to_string(), json!(b)))
                .collect();
            (cluster.to_string(), Value::Object(ports))
        })
        .collect();
    let passthrough: Map<String, Value> = service
        .passthrough_ports
        .iter()
        .map(|(a, b)| (a.to_string(), json!(b)))
        .collect();
    sparse(json!({
        "Attributes": {
            "ServiceRegistry": match service.registry {
                Registry::Kubernetes => "Kubernetes",
                Registry::External => "External",
            },
            "Name": *service.name,
            "Namespace": *service.namespace,
            "Labels": pairs(&service.labels),
            "LabelSelectors": pairs(&service.selector),
            "ClusterExternalPorts": external_ports,
            "PassthroughTargetPorts": passthrough,
            "K8sAttributes": {
                "Type": *service.kube.service_type,
                "ExternalName": *service.kube.external_name,
                "NodeLocal": service.kube.node_local,
                "ObjectName": *service.kube.object_name,
                "TrafficDistribution": service.kube.traffic_distribution as u8,
                "DNSConnectStrategy": u8::from(service.race_first_connect),
                "PublishNotReadyAddresses": service.kube.publish_not_ready,
            },
        },
        "Ports": service.ports.iter().map(port).collect::<Vec<_>>(),
        "ServiceAccounts": texts(&service.service_accounts),
        "Hostname": *service.host,
        "ClusterVIPs": {"Addresses": vips},
        "DefaultAddress": *service.default_address,
        "AutoAllocatedIPv4Address": service.auto_ipv4.map(|ip| ip.to_string()),
        "AutoAllocatedIPv6Address": service.auto_ipv6.map(|ip| ip.to_string()),
        "Resolution": match service.resolution {
            Resolution::ClientSide => 0,
            Resolution::Dns => 1,
            Resolution::Passthrough => 2,
            Resolution::DnsRoundRobin => 3,
            Resolution::Alias => 4,
            Resolution::DynamicDns => 5,
        },
        "MeshExternal": service.mesh_external,
    }))
}

/// A recorded service without what depends on when it was recorded.
fn recorded(mut service: Value) -> Value {
    if let Some(fields) = service.as_object_mut() {
        fields.remove("CreationTime");
        fields.remove("ResourceVersion");
    }
    sparse(service)
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let (hosts, port) = match &endpoint.address {
        Address::Socket { hosts, port } => (texts(hosts), *port),
        Address::Unix(path) => (vec![&**path], 0),
    };
    sparse(json!({
        "Addresses": hosts,
        "EndpointPort": port,
        "ServicePortName": *endpoint.port_name,
        "LegacyClusterPortKey": endpoint.service_port,
        "Labels": pairs(&endpoint.labels),
        "ServiceAccount": *endpoint.service_account,
        "Network": *endpoint.network,
        "Locality": {
            "Label": endpoint.locality.to_string(),
            "ClusterID": *endpoint.cluster,
        },
        "LbWeight": endpoint.weight,
        "TLSMode": if endpoint.mutual_tls { "istio" } else { "disabled" },
        "Namespace": *endpoint.namespace,
        "WorkloadName": *endpoint.workload,
        "HealthStatus": match endpoint.health {
            Health::Unknown => 0,
            Health::Healthy => 1,
            Health::Unhealthy => 2,
            Health::Draining => 3,
            Health::Terminating => 4,
        },
    }))
}

/// The objects of a recording: names there are of Go tests, not of Kubernetes.
fn manifest(cfg: &Value, kind: &str) -> (String, ObjectName) {
    let mut object = cfg.clone();
    object["apiVersion"] = json!("networking.istio.io/v1");
    object["kind"] = json!(kind);
    let metadata = &mut object["metadata"];
    let lower = |value: &Value, absent: &str| match value.as_str() {
        None | Some("") => absent.to_owned(),
        Some(text) => text.to_owned(),
    };
    let (name, namespace) = (
        lower(&metadata["name"], "x"),
        lower(&metadata["namespace"], "x"),
    );
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(namespace);
    (object.to_string(), ObjectName::new(namespace, name))
}

#[test]
fn service_entries_become_the_services_that_istio_makes_of_them() {
    let Some(table) = Table::load("serviceentry-conversion") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("serviceentry.convertServices") {
        let (yaml, name) = manifest(&case["in"]["cfg"], "ServiceEntry");
        let mut settings = settings("");
        let mut features = (*settings.features).clone();
        features.canonical_external = case["in"]["canonicalServiceForMeshExternal"] == true;
        // Recordings leave the status out. The test put addresses into that of objects with this name.
        features.ip_auto_allocate = name.name.contains("AutoAssigned");
        settings.features = features.into();
        let mut world = World::new(settings);
        world.put(&yaml);
        if let Some(annotations) = case["in"]["nsAnnotations"].as_object() {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": *name.namespace, "annotations": annotations},
            });
            world.put(&namespace.to_string());
        }
        let got: Vec<Value> = world
            .get(&EntryServices(name))
            .iter()
            .map(|s| shown(s))
            .collect();
        let wanted = case["out"].as_array().cloned().unwrap_or_default();
        let wanted: Vec<Value> = wanted.into_iter().map(recorded).collect();
        let found = differences(&json!(wanted), &json!(got));
        score.count(case["test"].as_str().unwrap(), &found);
    }
    score.all_as_recorded();
}

#[test]
fn endpoints_written_into_service_entries_are_those_of_istio() {
    let Some(table) = Table::load("serviceentry-conversion") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("serviceentry.convertServiceEntryToInstances") {
        let (yaml, name) = manifest(&case["in"]["cfg"], "ServiceEntry");
        let mut settings = settings("");
        settings.features = Features::from_env(as_istiod()).into();
        settings.cluster = case["in"]["clusterID"].as_str().unwrap_or_default().into();
        let mut world = World::new(settings);
        world.put(&yaml);
        let service = &case["in"]["service"];
        let host = service["Hostname"].as_str().unwrap();
        let services = world.get(&EntryServices(name.clone()));
        let same = services.iter().filter(|s| *s.host == *host).count();
        let all = world.get(&EndpointsOf(ServiceKey {
            namespace: name.namespace,
            host: host.into(),
        }));
        // Each address of the entry brings its endpoints once; the recording is of one of them.
        let each = all.len() / same.max(1);
        let mut wanted: Vec<Value> = case["out"].as_array().cloned().unwrap_or_default();
        if service["Resolution"] == 3 {
            // Only the first of each port is kept once services of one host are merged.
            let mut seen = std::collections::BTreeSet::new();
            wanted.retain(|i| seen.insert(i["ServicePort"]["Port"].to_string()));
        }
        let each = if service["Resolution"] == 3 {
            all.len()
        } else {
            each
        };
        let got: Vec<Value> = all.iter().take(each).map(endpoint).collect();
        let wanted: Vec<Value> = wanted
            .into_iter()
            .map(|mut i| sparse(i["Endpoint"].take()))
            .collect();
        let found = differences(&json!(wanted), &json!(got));
        score.count(case["test"].as_str().unwrap(), &found);
    }
    score.all_as_recorded();
}

#[test]
fn workload_entries_become_the_workloads_that_istio_makes_of_them() {
    let Some(table) = Table::load("serviceentry-conversion") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("serviceentry.convertWorkloadEntryToWorkloadInstance") {
        let input = &case["in"];
        let cfg = json!({
            "metadata": {
                "name": input["meta"]["Name"], "namespace": input["meta"]["Namespace"],
                "labels": input["meta"]["Labels"], "annotations": input["meta"]["Annotations"],
            },
            "spec": input["we"],
        });
        let (yaml, name) = manifest(&cfg, "WorkloadEntry");
        let mut settings = settings("");
        settings.cluster = input["clusterID"].as_str().unwrap_or_default().into();
        // The function that names networks by address is the mesh networks here.
        if case["test"]
            .as_str()
            .is_some_and(|test| test.contains("from_cb"))
        {
            let networks = r#"{networks: {cb-network1: {endpoints: [{fromCidr: 0.0.0.0/0}]}}}"#;
            let read = read_mesh_networks(networks, &Path::new("networks.yaml").into());
            settings.networks = Arc::new(read.value.unwrap());
        }
        let mut world = World::new(settings);
        world.put(&yaml);
        let workload = world.get(&WorkloadOfEntry(name.clone()));
        let workload = workload.as_ref().as_ref().unwrap();
        let mut got = endpoint(&workload.endpoint);
        // The recording keeps the scheme until a port is looked for.
        if let Address::Unix(path) = &workload.endpoint.address {
            got["Addresses"] = json!([format!("unix://{path}")]);
        }
        let wanted = sparse(case["out"]["Endpoint"].clone());
        // Objects of Kubernetes have a name; the one that `manifest` gives is not compared.
        if !input["meta"]["Name"].is_string() {
            got.as_object_mut().unwrap().remove("WorkloadName");
        }
        let mut found = differences(&wanted, &got);
        let named = case["out"]["DNSServiceEntryOnly"] == true;
        if named != workload.named {
            found.push(format!("named: wanted {named}"));
        }
        score.count(case["test"].as_str().unwrap(), &found);
    }
    score.all_as_recorded();
}

#[test]
fn kubernetes_services_become_the_services_that_istio_makes_of_them() {
    let Some(table) = Table::load("kube-service-conversion") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("kube.ConvertService") {
        let input = &case["in"];
        let mut object = input["svc"].clone();
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Service");
        let mut settings = settings("");
        settings.cluster = input["clusterID"].as_str().unwrap().into();
        settings.domain = input["domainSuffix"].as_str().unwrap().into();
        let mut mesh = (*settings.mesh).clone();
        mesh.trust_domain = input["trustDomain"].as_str().unwrap().to_owned();
        settings.mesh = mesh.into();
        let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        let name = ObjectName::new(text("namespace"), text("name"));
        let mut world = World::new(settings);
        world.put(&object.to_string());
        let service = world.get(&KubeService(name));
        let got = shown(service.as_ref().as_ref().unwrap());
        let found = differences(&recorded(case["out"].clone()), &got);
        score.count(case["test"].as_str().unwrap(), &found);
    }
    for case in table.of("kube.ServiceHostname") {
        let text = |key: &str| case["in"][key].as_str().unwrap();
        let name = ObjectName::new(text("namespace"), text("name"));
        let host = host_of(&name, text("domainSuffix"));
        let mut found = differences(&case["out"], &json!(*host));
        if name_of(&host, text("domainSuffix")) != Some(name) {
            found.push(format!("{host} leads to no Service"));
        }
        score.count(case["test"].as_str().unwrap(), &found);
    }
    score.all_as_recorded();
}

#[test]
fn the_endpoint_of_a_pod_names_the_deployment_that_made_it() {
    let world = World::of(
        "{apiVersion: v1, kind: Pod, metadata: {name: cart-5d8f-x2x7, namespace: shop, generateName: cart-5d8f-, labels: {pod-template-hash: 5d8f}, \
         ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-5d8f, uid: u, controller: true}]}, spec: {}, status: {podIP: 10.0.0.1}}",
    );
    let endpoint = world.get(&PodOf(ObjectName::new("shop", "cart-5d8f-x2x7")));
    let endpoint = endpoint.as_ref().as_ref().unwrap();
    assert_eq!(&*endpoint.workload, "cart");
}

/// Endpoints of every source at one address: what of them is left.
fn endpoints_at(allowed: &str, address: &str) -> [usize; 4] {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.local_endpoints = allowed.into();
    settings.features = features.into();
    let mut world = World::new(settings);
    let names = "resolution: DNS";
    let of = |host: &str, spec: &str| {
        format!(
            "---\n{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: {host}, namespace: evil}}, spec: \
             {{hosts: ['{host}.example'], ports: [{{number: 80, name: http, protocol: HTTP}}], {spec}}}}}\n"
        )
    };
    world.put(
        &[
            of("stated", &format!("resolution: STATIC, endpoints: [{{address: '{address}'}}]")),
            of("selected", "resolution: STATIC, workloadSelector: {labels: {app: w}}"),
            of("named", &format!("{names}, endpoints: [{{address: '{address}'}}]")),
            format!(
                "---\n{{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {{name: w, namespace: evil}}, spec: \
                 {{address: '{address}', labels: {{app: w}}}}}}\n\
                 ---\n{{apiVersion: v1, kind: Service, metadata: {{name: sliced, namespace: evil}}, spec: \
                 {{clusterIP: 10.9.0.1, ports: [{{name: http, port: 80}}]}}}}\n\
                 ---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {{name: sliced, namespace: evil, \
                 labels: {{kubernetes.io/service-name: sliced}}}}, ports: [{{name: http, port: 80}}], \
                 endpoints: [{{addresses: ['{address}']}}]}}\n"
            ),
        ]
        .concat(),
    );
    let hosts = [
        "stated.example",
        "selected.example",
        "named.example",
        "sliced.evil.svc.cluster.local",
    ];
    hosts.map(|host| {
        let key = ServiceKey {
            namespace: "evil".into(),
            host: host.into(),
        };
        world.get(&EndpointsOf(key)).len()
    })
}

#[test]
fn endpoints_on_the_machine_of_a_proxy_are_left_out_unless_their_namespace_may_have_them() {
    assert_eq!(endpoints_at("", "10.0.0.1"), [1, 1, 1, 1]);
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "0.0.0.0",
        "224.0.0.1",
        "100.100.100.200",
    ] {
        assert_eq!(endpoints_at("", address), [0; 4], "{address}");
        assert_eq!(endpoints_at("other", address), [0; 4], "{address}");
        assert_eq!(endpoints_at("other, evil", address), [1; 4], "{address}");
        assert_eq!(endpoints_at("*", address), [1; 4], "{address}");
    }
    // Only services whose names are resolved have endpoints by name.
    for name in [
        "localhost",
        "a.localhost",
        "LOCALHOST.",
        "127.1",
        "2130706433",
        "0x7f.1",
        "unix:///var/run/secrets/workload-spiffe-uds/socket",
    ] {
        assert_eq!(endpoints_at("", name)[2], 0, "{name}");
        assert_eq!(endpoints_at("evil", name)[2], 1, "{name}");
    }
    assert_eq!(endpoints_at("", "api.example.com")[2], 1);
}

#[test]
fn what_an_mcp_bridge_lists_itself_may_be_on_the_machine_of_a_proxy() {
    for (source, count) in [
        ("registry:static/a", 1),
        ("registry:dns/a", 1),
        ("registry:nacos2/a", 0),
        ("kubernetes:prod", 0),
    ] {
        let mut object = World::objects(
            "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: a, namespace: mcp, labels: \
             {higress-registry-type: static}}, spec: {hosts: [a.static], ports: [{number: 80, name: http}], \
             resolution: STATIC, endpoints: [{address: 127.0.0.1}]}}",
        )
        .pop()
        .unwrap();
        let owner = Owner::new(250, source);
        object.set_origin(Origin::Source(owner.source.clone()));
        let mut world = World::new(settings(""));
        world.apply(vec![Change::Put(owner, object)]);
        let key = ServiceKey {
            namespace: "mcp".into(),
            host: "a.static".into(),
        };
        assert_eq!(world.get(&EndpointsOf(key)).len(), count, "{source}");
    }
}

/// ServiceEntries for one host in three namespaces, one of which only its own sees.
const ONE_HOST: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: older, namespace: evil, creationTimestamp: '2010-01-01T00:00:00Z'}
spec: {hosts: [api.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: younger, namespace: bank, creationTimestamp: '2020-01-01T00:00:00Z'}
spec: {hosts: [api.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: private, namespace: shop, creationTimestamp: '2030-01-01T00:00:00Z'}
spec: {hosts: [api.example], exportTo: ['.'], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
";

#[test]
fn sidecars_and_gateways_take_a_host_from_the_service_entry_of_their_own_namespace() {
    let mut world = World::new(settings(""));
    world.put(ONE_HOST);
    let of = [
        ("bank", "bank"),
        ("shop", "shop"),
        ("evil", "evil"),
        ("third", "evil"),
    ];
    for (namespace, wanted) in of {
        for gateway in [false, true] {
            let scope = world.get(&ScopeOf(ScopeKey {
                namespace: namespace.into(),
                sidecar: None,
                gateway,
            }));
            let service = scope.service("api.example").unwrap();
            assert_eq!(*service.namespace, *wanted, "{namespace} {gateway}");
        }
    }
}

#[test]
fn the_host_of_everything_makes_no_service() {
    let mut world = World::new(settings(""));
    world.put(
        "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: all, namespace: evil}, spec: \
         {hosts: ['*', '*.', '*.evil.example'], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}}",
    );
    let services = world.get(&EntryServices(ObjectName::new("evil", "all")));
    let hosts: Vec<&str> = services
        .iter()
        .map(|service| service.host.as_str())
        .collect();
    assert_eq!(hosts, ["*.evil.example"]);
}
