//! What Istio's tests put in, as objects: configuration as it is, services that they hand to the model as ServiceEntries.

use serde_json::{Map, Value, json};

use super::text;

/// All objects of an input, for a proxy. `helped`: a helper of listener tests gives every service an instance at the
/// proxy, unrecorded: on port 8080.
pub(super) fn of(scenario: &Value, kube: &Value, proxy: &Value, helped: bool) -> Vec<Value> {
    let mut objects: Vec<Value> = scenario["configs"].as_array().cloned().unwrap_or_default();
    objects.extend(self::kube(kube));
    let list = |name: &str| scenario[name].as_array().cloned().unwrap_or_default();
    let (services, mut instances) = (list("services"), list("instances"));
    if helped && instances.is_empty() {
        instances.extend(services.iter().map(|service| {
            let name = &service["Ports"][0]["Name"];
            let endpoint =
                json!({ "Addresses": ["1.1.1.1"], "EndpointPort": 8080, "ServicePortName": name });
            json!({ "Endpoint": endpoint, "Service": service })
        }));
    }
    let entries = entries(&services, &instances, proxy);
    for object in objects.iter_mut().filter(|o| o["kind"] == "Sidecar") {
        see_moved(object, &services, proxy);
    }
    objects.extend(entries);
    objects
}

/// Lets a Sidecar see services in the namespace of the proxy as well, to where [`namespace`] may move them.
fn see_moved(sidecar: &mut Value, services: &[Value], proxy: &Value) {
    let to = text(&proxy["configNamespace"]);
    let egress = sidecar["spec"]["egress"].as_array_mut();
    for listener in egress.into_iter().flatten() {
        let Some(hosts) = listener["hosts"].as_array_mut() else {
            continue;
        };
        let moved = |host: &Value| {
            let (namespace, name) = host.as_str()?.split_once('/')?;
            let of = |s: &Value| s["Attributes"]["Namespace"] == namespace;
            services
                .iter()
                .any(of)
                .then(|| format!("{to}/{name}").into())
        };
        let more: Vec<Value> = hosts.iter().filter_map(moved).collect();
        hosts.extend(more);
    }
}

/// Objects of Kubernetes, of all clusters.
pub(super) fn kube(recorded: &Value) -> Vec<Value> {
    let clusters = recorded["byCluster"].as_object().into_iter().flatten();
    let lists = clusters.filter_map(|(_, list)| list.as_array());
    lists.flatten().map(|o| manifest(&o["object"])).collect()
}

/// An object as a manifest: recordings have some parts under the names of their Go fields.
fn manifest(object: &Value) -> Value {
    let mut out = Map::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "TypeMeta" => out.extend(value.as_object().cloned().unwrap_or_default()),
            "ObjectMeta" => drop(out.insert("metadata".into(), value.clone())),
            _ => {
                let mut chars = name.chars();
                let first = chars.next().into_iter().flat_map(char::to_lowercase);
                out.insert(first.chain(chars).collect(), value.clone());
            }
        }
    }
    let ports = out.get_mut("spec").and_then(|s| s.get_mut("ports"));
    for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
        if port["targetPort"] == 0
            && let Some(port) = port.as_object_mut()
        {
            port.remove("targetPort");
        }
    }
    Value::Object(out)
}

/// ServiceEntries that make the services and instances which a test handed to the model.
fn entries(services: &[Value], instances: &[Value], proxy: &Value) -> Vec<Value> {
    let mut distinct: Vec<&Value> = Vec::new();
    for service in services
        .iter()
        .chain(instances.iter().map(|i| &i["Service"]))
    {
        let same = |s: &&Value| {
            s["Hostname"] == service["Hostname"]
                && s["Attributes"]["Namespace"] == service["Attributes"]["Namespace"]
        };
        if !distinct.iter().any(same) {
            distinct.push(service);
        }
    }
    let entry = |(at, service): (usize, &&Value)| {
        let of_service: Vec<&Value> = instances
            .iter()
            .filter(|i| i["Service"]["Hostname"] == service["Hostname"])
            .map(|i| &i["Endpoint"])
            .collect();
        let namespace = namespace(service, &of_service, proxy);
        let entry = move |part: usize, spec: Value| {
            json!({
                "apiVersion": "networking.istio.io/v1",
                "kind": "ServiceEntry",
                "metadata": {
                    "name": format!("s{at:03}-{part}"),
                    "namespace": namespace,
                    "creationTimestamp": format!("2020-01-01T00:{:02}:{:02}Z", at / 60, at % 60),
                },
                "spec": spec,
            })
        };
        let specs = specs(service, &of_service);
        specs
            .into_iter()
            .enumerate()
            .map(move |(part, spec)| entry(part, spec))
    };
    distinct.iter().enumerate().flat_map(entry).collect()
}

/// An endpoint of a ServiceEntry serves every port of it, so that ports which are served elsewhere stand in entries of
/// their own.
fn specs(service: &Value, endpoints: &[&Value]) -> Vec<Value> {
    let ports = ports(service);
    let served_alike = self::endpoints(service, endpoints).iter().all(|e| {
        e["ports"]
            .as_object()
            .is_some_and(|p| p.len() == ports.len())
    });
    if served_alike {
        return vec![spec(service, ports, endpoints)];
    }
    let one = |port: Value| {
        let of_port = endpoints.iter().copied();
        let of_port: Vec<&Value> = of_port
            .filter(|e| e["ServicePortName"] == port["name"])
            .collect();
        spec(service, vec![port], &of_port)
    };
    ports.into_iter().map(one).collect()
}

/// The namespace of a service. The model finds the services of a proxy by address alone where a test hands them to it;
/// a ServiceEntry must stand in the namespace of the proxy.
fn namespace(service: &Value, endpoints: &[&Value], proxy: &Value) -> String {
    let of_proxy = |e: &&Value| {
        let ips = proxy["ips"].as_array();
        ips.is_some_and(|ips| ips.contains(&e["Addresses"][0]))
    };
    let recorded = text(&service["Attributes"]["Namespace"]);
    if endpoints.iter().any(of_proxy) {
        text(&proxy["configNamespace"])
    } else if recorded.is_empty() {
        "default".to_owned()
    } else {
        recorded
    }
}

fn spec(service: &Value, ports: Vec<Value>, endpoints: &[&Value]) -> Value {
    let mut spec = json!({
        "hosts": [service["Hostname"]],
        "ports": ports,
        "resolution": resolution(service),
        "location": if service["MeshExternal"] == true { "MESH_EXTERNAL" } else { "MESH_INTERNAL" },
    });
    let address = text(&service["DefaultAddress"]);
    if !["0.0.0.0", "::", ""].contains(&address.as_str()) {
        spec["addresses"] = json!([address]);
    }
    if !endpoints.is_empty() {
        spec["endpoints"] = json!(self::endpoints(service, endpoints));
    }
    spec
}

fn ports(service: &Value) -> Vec<Value> {
    let ports = service["Ports"].as_array().into_iter().flatten();
    ports
        .map(|p| {
            let mut port = json!({ "number": p["Port"], "name": p["Name"] });
            let protocol = text(&p["Protocol"]);
            if !protocol.starts_with("Unsupported") && !protocol.is_empty() {
                port["protocol"] = protocol.into();
            }
            port
        })
        .collect()
}

/// Istio numbers how a service's endpoints are found.
fn resolution(service: &Value) -> &'static str {
    match service["Resolution"].as_u64() {
        Some(1) => "DNS",
        Some(2) => "NONE",
        Some(3) => "DNS_ROUND_ROBIN",
        _ => "STATIC",
    }
}

/// The endpoints of a service; one of each address and locality, with all its ports.
fn endpoints(service: &Value, recorded: &[&Value]) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    for endpoint in recorded {
        let mut entry = json!({ "address": endpoint["Addresses"][0], "ports": {} });
        if endpoint["Locality"]["Label"].is_string() {
            entry["locality"] = endpoint["Locality"]["Label"].clone();
        }
        if endpoint["LbWeight"].is_u64() {
            entry["weight"] = endpoint["LbWeight"].clone();
        }
        if endpoint["TLSMode"].is_string() {
            entry["labels"] = json!({ "security.istio.io/tlsMode": endpoint["TLSMode"] });
        }
        // Where Istio reads the mode of endpoints that the proxy does not choose among, none is not `disabled`.
        if resolution(service) == "NONE" && endpoint["TLSMode"].is_null() {
            entry["labels"] = json!({ "security.istio.io/tlsMode": "istio" });
        }
        let port = text(&endpoint["ServicePortName"]);
        let same = |e: &&mut Value| {
            e["address"] == entry["address"]
                && e["locality"] == entry["locality"]
                && e["ports"].get(&port).is_none()
        };
        match entries.iter_mut().find(same) {
            Some(known) => known["ports"][port] = endpoint["EndpointPort"].clone(),
            None => {
                entry["ports"][port] = endpoint["EndpointPort"].clone();
                entries.push(entry);
            }
        }
    }
    entries
}
