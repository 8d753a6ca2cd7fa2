//! What Higress's own tests say of Knative's Ingresses, where the recordings are at hand.

use std::collections::BTreeMap;

use model::Kind;
use serde_json::{Value, json};
use testkit::{Score, World, differences, recording};

use crate::knative::world::{puts, served};

/// What a row expects, and what is found.
type Row = (Value, Value);
/// A test of the table, and how its rows are compared.
type Taken = (&'static str, fn(&Value) -> Vec<Row>);

const TESTS: [Taken; 7] = [
    ("TestNormalizeKWeightedCluster", |t| rows(t, weights)),
    ("TestConvertGatewaysForKIngress", gateways),
    ("TestExtractTLSSecretName", |t| rows(t, certificate)),
    ("TestKingressPathHeadersKey", |t| rows(t, headers)),
    ("TestMakeVirtualServiceRoute_Internal", |t| rows(t, route)),
    ("TestTransportLoadBalancerIngress", |t| rows(t, addresses)),
    ("TestUpdateStatusCondition", |t| rows(t, updated)),
];

fn rows(table: &Value, compared: fn(&Value) -> Row) -> Vec<Row> {
    let rows = table["cases"].as_array().unwrap();
    rows.iter().map(compared).collect()
}

#[test]
fn ingresses_become_what_higress_makes_of_them() {
    let Some(path) = recording("higress-tables/conversion.json") else {
        return;
    };
    let tables: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut score = Score::default();
    for (name, compared) in TESTS {
        let of_knative = |table: &&Value| {
            let source = table["source"].as_str().unwrap_or_default();
            table["test"] == name && source.contains("kingress")
        };
        let table = tables.iter().find(of_knative).unwrap();
        let compared = compared(table);
        assert!(!compared.is_empty(), "{name}");
        for (wanted, found) in compared {
            score.count(name, &differences(&wanted, &found));
        }
    }
    score.as_listed(include_str!("../../differences/knative.txt"));
}

fn ingress(name: &str, second: usize, spec: &Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap();
    json!({
        "apiVersion": "networking.internal.knative.dev/v1alpha1", "kind": "Ingress",
        "metadata": {
            "name": name, "namespace": namespace, "creationTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            "annotations": {"networking.knative.dev/ingress.class": "higress"},
        },
        "spec": spec,
    })
}

/// A world of documents, and of Services and Secrets as `Kind/namespace/name`.
fn made(documents: &[Value], around: &[&str], settings: model::settings::Settings) -> World {
    let mut world = World::new(settings);
    let around = around.iter().map(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        let mut object = json!({
            "apiVersion": "v1", "kind": parts[0], "metadata": {"namespace": parts[1], "name": parts[2]},
        });
        match parts[0] {
            "Service" => object["spec"] = json!({"ports": [{"name": "http", "port": 80}]}),
            _ => object["stringData"] = json!({"tls.crt": "C", "tls.key": "K"}),
        }
        object
    });
    let all: Vec<Value> = around.chain(documents.iter().cloned()).collect();
    for document in all {
        world.apply(puts(World::objects(&document.to_string())));
    }
    world
}

fn specs(world: &World, kind: Kind) -> BTreeMap<String, Value> {
    let snapshot = world.store.snapshot();
    let all = snapshot.tables.iter_any(kind);
    all.map(|object| (object.meta().name.name.to_string(), object.spec_json()))
        .collect()
}

/// The only VirtualService's routes without those of probes.
fn routes(world: &World) -> Vec<Value> {
    let services = specs(world, Kind::VirtualService);
    let routes = services
        .values()
        .flat_map(|service| service["http"].as_array().unwrap().clone());
    let is_probe = |route: &Value| !route["match"][0]["headers"]["k-network-hash"].is_null();
    routes.filter(|route| !is_probe(route)).collect()
}

fn one_path(path: Value) -> Value {
    json!({"rules": [{"hosts": ["a.test"], "http": {"paths": [path]}}]})
}

fn weights(row: &Value) -> Row {
    let stated = row["httpRoute"]["route"].as_array().unwrap();
    let splits = stated.iter().map(|to| {
        json!({"serviceNamespace": "test", "serviceName": "web", "servicePort": 80, "percent": to["weight"]})
    });
    let path = json!({"splits": splits.collect::<Vec<_>>()});
    let world = made(
        &[ingress("test/one", 0, &one_path(path))],
        &["Service/test/web"],
        served(""),
    );
    let found = routes(&world);
    let to = found[0]["route"].as_array().unwrap();
    // A weight that is not stated stands for all.
    let sum: u64 = match to.len() {
        1 => to[0]["weight"].as_u64().unwrap_or(100),
        _ => to.iter().filter_map(|to| to["weight"].as_u64()).sum(),
    };
    (json!(100), json!(sum))
}

/// Names are others by intent: those of Higress are those of Kubernetes' Ingresses, too.
fn gateways(table: &Value) -> Vec<Row> {
    let mut found = Vec::new();
    for row in table["cases"].as_array().unwrap() {
        let inputs = row["inputConfig"].as_array().unwrap();
        let ingresses = inputs.iter().enumerate().map(|(second, input)| {
            let mut spec = input["config"]["spec"].clone();
            spec.as_object_mut().unwrap().remove("@type");
            for rule in spec["rules"].as_array_mut().unwrap() {
                for path in rule["http"]["paths"].as_array_mut().unwrap() {
                    for split in path["splits"].as_array_mut().unwrap() {
                        let backend = split["ingressBackend"].take();
                        let split = split.as_object_mut().unwrap();
                        split.remove("ingressBackend");
                        split.extend(backend.as_object().unwrap().clone());
                    }
                }
            }
            let meta = &input["config"]["meta"];
            let name = format!(
                "{}/{}",
                meta["namespace"].as_str().unwrap(),
                meta["name"].as_str().unwrap()
            );
            ingress(&name, second, &spec)
        });
        let around = [
            "Secret/wakanda/foo-com",
            "Secret/wakanda/test-com",
            "Service/wakanda/test-service",
        ];
        let world = made(&ingresses.collect::<Vec<_>>(), &around, served(""));
        let gateways = specs(&world, Kind::Gateway);
        for (host, wanted) in row["expect"].as_object().unwrap() {
            let mut servers = wanted["spec"]["servers"].clone();
            for server in servers.as_array_mut().unwrap() {
                let name = server["port"]["name"].as_str().unwrap();
                server["port"]["name"] = json!(name.strip_suffix("-kingress"));
                if let Some(name) = server["tls"]["credentialName"].as_str() {
                    let secret = name.rsplit_once("__/").unwrap().1;
                    server["tls"] = json!({
                        "mode": "SIMPLE", "credentialName": format!("kubernetes-gateway://{secret}"),
                    });
                } else {
                    server.as_object_mut().unwrap().remove("tls");
                }
            }
            let of_host = |gateway: &&Value| gateway["servers"][0]["hosts"][0] == **host;
            let gateway = gateways.values().find(of_host).unwrap();
            found.push((servers, gateway["servers"].clone()));
        }
    }
    found
}

fn certificate(row: &Value) -> Row {
    let input = &row["input"];
    let host = match input["host"].as_str().unwrap() {
        "" => "a.test",
        host => host,
    };
    let mut tls = input["tls"].as_array().cloned().unwrap_or_default();
    for entry in &mut tls {
        entry["secretNamespace"] = json!("test");
    }
    let split = json!({"serviceNamespace": "test", "serviceName": "web", "servicePort": 80});
    let spec = json!({
        "tls": tls, "rules": [{"hosts": [host], "http": {"paths": [{"splits": [split]}]}}],
    });
    let around = [
        "Service/test/web",
        "Secret/test/test-secret",
        "Secret/test/test1-secret",
    ];
    let world = made(&[ingress("test/one", 0, &spec)], &around, served(""));
    let gateways = specs(&world, Kind::Gateway);
    let gateway = gateways.values().next().unwrap();
    let name = gateway["servers"][1]["tls"]["credentialName"].as_str();
    let found = name
        .and_then(|name| name.rsplit('/').next())
        .unwrap_or_default();
    (row["expect"].clone(), json!(found))
}

/// Headers tell paths apart: two with the same are one, whose names and values are the key.
fn headers(row: &Value) -> Row {
    let path = json!({
        "headers": row["headers"].as_object().cloned().unwrap_or_default(),
        "splits": [{"serviceNamespace": "test", "serviceName": "web", "servicePort": 80}],
    });
    let mut spec = one_path(path.clone());
    spec["rules"][0]["http"]["paths"] = json!([path, path]);
    let world = made(
        &[ingress("test/one", 0, &spec)],
        &["Service/test/web"],
        served(""),
    );
    let found = routes(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    let headers = found[0]["match"][0]["headers"].as_object();
    let key: String = headers
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("\0{name}={}", value["exact"].as_str().unwrap()))
        .collect();
    (row["want"].clone(), json!(key))
}

/// A VirtualService has one host, which its routes need not ask for again.
fn route(row: &Value) -> Row {
    let mut splits = row["input"]["splits"].clone();
    for split in splits.as_array_mut().unwrap() {
        let backend = split["ingressBackend"].take();
        let split = split.as_object_mut().unwrap();
        split.remove("ingressBackend");
        split.extend(backend.as_object().unwrap().clone());
    }
    let service = "Service/test-ns/revision-service";
    let spec = one_path(json!({"splits": splits}));
    let world = made(&[ingress("test-ns/one", 0, &spec)], &[service], served(""));
    let mut wanted = row["expect"].clone();
    wanted.as_object_mut().unwrap().remove("match");
    let mut found = routes(&world)[0].clone();
    for field in ["name", "match"] {
        found.as_object_mut().unwrap().remove(field);
    }
    (wanted, found)
}

fn reached(stated: &[Value]) -> Value {
    let mut settings = served("");
    let mut features = settings.features.as_ref().clone();
    features.edge_addresses = "".into();
    features.edge_service = "edge/gateway".into();
    settings.features = features.into();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "edge", "name": "gateway"},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]},
        "status": {"loadBalancer": {"ingress": stated}},
    });
    let split = json!({"serviceNamespace": "test", "serviceName": "web", "servicePort": 80});
    let one = ingress("test/one", 0, &one_path(json!({"splits": [split]})));
    let world = made(&[service, one], &["Service/test/web"], settings);
    let status = world.statuses.values().next().unwrap();
    status["publicLoadBalancer"]["ingress"].clone()
}

/// Each entry has the name of the Service within the cluster as well.
fn addresses(row: &Value) -> Row {
    let stated = row["input"].as_array().cloned().unwrap_or_default();
    let found = reached(&stated);
    let entries = found.as_array().unwrap().iter().map(|entry| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        json!({"ip": text("ip"), "domain": text("domain")})
    });
    let entries: Vec<Value> = entries
        .filter(|e| e["ip"] != "" || e["domain"] != "")
        .collect();
    let found = match entries.is_empty() {
        true => Value::Null,
        false => json!(entries),
    };
    (row["expect"].clone(), found)
}

/// Whether the status is another than that which is there.
fn updated(row: &Value) -> Row {
    let incoming = row["incoming"].as_array().unwrap();
    let found = match row["existing"]["ingress"].as_array() {
        None => true,
        Some(existing) => reached(existing) != reached(incoming),
    };
    (row["wantShouldUpd"].clone(), json!(found))
}
