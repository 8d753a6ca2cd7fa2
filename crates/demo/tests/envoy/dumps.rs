//! Envoy's own account of its configuration against Pilothouse's of what it sent.

use std::collections::{BTreeMap, BTreeSet};

use demo::mesh::{Mesh, Proxy};
use demo::{admin, control};
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value;

/// Resources by kind and name.
type Resources = BTreeMap<(&'static str, String), Value>;

/// Everything a proxy was sent is what it has, and nothing else.
pub(crate) async fn assert_has_what_was_sent(mesh: &Mesh, proxy: &Proxy) {
    let sent = control::config_dump(mesh.block().pages(), &proxy.id())
        .await
        .unwrap();
    let has = admin::config_dump(proxy.admin).await.unwrap();
    let (sent, mut has) = (resources(&sent), resources(&has));
    // Envoy lists the endpoints of clusters that carry their own, too.
    has.retain(|key, _| key.0 != "endpoint" || sent.contains_key(key));
    let names = |set: &Resources| set.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&has), names(&sent), "{}: names differ", proxy.name);
    assert!(
        has.keys().any(|(kind, _)| *kind == "cluster"),
        "{} has no cluster at all",
        proxy.name
    );
    for (key, value) in &sent {
        assert_eq!(
            &has[key], value,
            "{}: {key:?} is not what was sent",
            proxy.name
        );
    }
}

/// The dynamic resources of a dump. Endpoints are sets of addresses: Envoy tells them with its own additions.
fn resources(dump: &Value) -> Resources {
    let mut found = Resources::new();
    for section in dump["configs"].as_array().unwrap() {
        for cluster in list(section, "dynamic_active_clusters", "dynamicActiveClusters") {
            add(&mut found, "cluster", &cluster["cluster"]);
        }
        for listener in list(section, "dynamic_listeners", "dynamicListeners") {
            let state = listener.get("active_state").or(listener.get("activeState"));
            add(
                &mut found,
                "listener",
                &state.unwrap_or_else(|| panic!("not active: {listener}"))["listener"],
            );
        }
        for route in list(section, "dynamic_route_configs", "dynamicRouteConfigs") {
            add(
                &mut found,
                "route",
                route
                    .get("route_config")
                    .or(route.get("routeConfig"))
                    .unwrap(),
            );
        }
        for endpoint in list(
            section,
            "dynamic_endpoint_configs",
            "dynamicEndpointConfigs",
        ) {
            let value = endpoint
                .get("endpoint_config")
                .or(endpoint.get("endpointConfig"))
                .unwrap();
            let name = value
                .get("cluster_name")
                .or(value.get("clusterName"))
                .unwrap()
                .as_str()
                .unwrap();
            let mut addresses = BTreeSet::new();
            collect_addresses(value, &mut addresses);
            found.insert(
                ("endpoint", name.to_owned()),
                addresses.into_iter().collect(),
            );
        }
    }
    found
}

fn list<'a>(section: &'a Value, snake: &str, camel: &str) -> impl Iterator<Item = &'a Value> {
    section
        .get(snake)
        .or(section.get(camel))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn add(found: &mut Resources, kind: &'static str, value: &Value) {
    let value = normal(value);
    let name = value["name"].as_str().unwrap().to_owned();
    found.insert((kind, name), value);
}

/// One spelling of field names, numbers, durations and defaults: that of a message read and written again.
fn normal(value: &Value) -> Value {
    let mut fields = value.as_object().unwrap().clone();
    let url = fields.remove("@type").unwrap();
    let name = url.as_str().unwrap().rsplit('/').next().unwrap();
    let descriptor = descriptors::pool().get_message_by_name(name).unwrap();
    let message = DynamicMessage::deserialize(descriptor, Value::Object(fields)).unwrap();
    let options = SerializeOptions::new().skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

fn collect_addresses(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(socket) = map.get("socket_address").or(map.get("socketAddress")) {
                let port = socket
                    .get("port_value")
                    .or(socket.get("portValue"))
                    .unwrap();
                found.insert(format!("{}:{port}", socket["address"].as_str().unwrap()));
            }
            map.values().for_each(|v| collect_addresses(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| collect_addresses(v, found)),
        _ => {}
    }
}
