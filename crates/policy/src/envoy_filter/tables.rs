//! Patching as Istio's own tests recorded it, when the recordings are there.

use std::sync::Arc;

use base64::Engine;
use model::object::ObjectName;
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value as Field};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use proto_istio::networking::envoy_filter::EnvoyConfigObjectMatch;
use proto_istio::networking::envoy_filter::patch::Operation;
use serde_json::{Value, json};

use super::patch::{AnyPatch, Patch};
use super::select::Selected;
use super::{Context, cluster, extension, listener, route};
use descriptors::json::from_bytes;
use descriptors::pool;
use testkit::cases;

const TABLE: &str = "core-envoyfilter";

/// A message as Go prints its structs: fields by their names in the definition, choices by the names of Go.
fn go(descriptor: &MessageDescriptor, value: &Value) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (key, value) in value.as_object().into_iter().flatten() {
        let (field, value) = match descriptor.get_field_by_name(key) {
            Some(field) => (field, value),
            None => {
                let Some((choice, value)) = value.as_object().and_then(|c| c.iter().next()) else {
                    continue;
                };
                let named = |f: &prost_reflect::FieldDescriptor| camel(f.name()) == *choice;
                let field = descriptor.fields().find(named);
                (field.unwrap_or_else(|| panic!("no {choice}")), value)
            }
        };
        if value.is_null() {
            continue;
        }
        let one = |value: &Value| scalar(&field.kind(), value);
        let value = match value {
            Value::Array(items) if field.is_list() => Field::List(items.iter().map(one).collect()),
            Value::Object(entries) if field.is_map() => {
                let Kind::Message(entry) = field.kind() else {
                    unreachable!("a map's entries are messages");
                };
                let kind = entry.map_entry_value_field().kind();
                let entry = |(key, value): (&String, &Value)| {
                    let key = prost_reflect::MapKey::String(key.clone());
                    (key, scalar(&kind, value))
                };
                Field::Map(entries.iter().map(entry).collect())
            }
            value => one(value),
        };
        message.set_field(&field, value);
    }
    message
}

fn scalar(kind: &Kind, value: &Value) -> Field {
    match kind {
        Kind::Message(message) => Field::Message(go(message, value)),
        Kind::Enum(_) => Field::EnumNumber(value.as_i64().unwrap() as i32),
        Kind::String => Field::String(value.as_str().unwrap().to_owned()),
        Kind::Bool => Field::Bool(value.as_bool().unwrap()),
        Kind::Bytes => {
            let text = value.as_str().unwrap();
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Field::Bytes(bytes.unwrap().into())
        }
        Kind::Double => Field::F64(value.as_f64().unwrap()),
        Kind::Uint32 => Field::U32(value.as_u64().unwrap() as u32),
        Kind::Int32 => Field::I32(value.as_i64().unwrap() as i32),
        Kind::Int64 => Field::I64(value.as_i64().unwrap()),
        Kind::Uint64 => Field::U64(value.as_u64().unwrap()),
        other => panic!("{other:?} is not in the recordings"),
    }
}

/// Istio: the names that protoc-gen-go gives to fields.
fn camel(name: &str) -> String {
    name.split('_')
        .map(|part| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

fn matching(patch: &Value) -> EnvoyConfigObjectMatch {
    let stated = &patch["Match"];
    proto_istio::json::from_value(stated)
        .expect("a recorded match")
        .message
}

fn patch<T: Message + Name + Default + std::fmt::Debug>(
    at: usize,
    stated: &Value,
) -> Arc<Patch<T>> {
    let descriptor = pool().get_message_by_name(&T::full_name()).unwrap();
    let matching = matching(stated);
    let operation = stated["Operation"].as_i64().unwrap_or_default() as i32;
    Arc::new(Patch::new(
        (ObjectName::new("test", "test"), at),
        matching.context(),
        Operation::try_from(operation).unwrap(),
        matching.object_types,
        go(&descriptor, &stated["Value"]).transcode_to().unwrap(),
    ))
}

fn selected(efw: &Value) -> Selected {
    let mut patches = Vec::new();
    for (kind, list) in efw["Patches"].as_object().into_iter().flatten() {
        for (at, stated) in list.as_array().into_iter().flatten().enumerate() {
            patches.push(match kind.as_str() {
                "1" => AnyPatch::Listener(patch(at, stated)),
                "2" => AnyPatch::FilterChain(patch(at, stated)),
                "3" => AnyPatch::NetworkFilter(patch(at, stated)),
                "4" => AnyPatch::HttpFilter(patch(at, stated)),
                "5" => AnyPatch::RouteConfiguration(patch(at, stated)),
                "6" => AnyPatch::VirtualHost(patch(at, stated)),
                "7" => AnyPatch::HttpRoute(patch(at, stated)),
                "8" => AnyPatch::Cluster(patch(at, stated)),
                "9" => AnyPatch::ExtensionConfig(patch(at, stated)),
                "11" => AnyPatch::ListenerFilter(patch(at, stated)),
                other => panic!("applyTo {other} is not in the recordings"),
            });
        }
    }
    Selected::sort(patches.iter())
}

fn read<T: Message + Name + Default>(value: &Value) -> T {
    let descriptor = pool().get_message_by_name(&T::full_name()).unwrap();
    let message = DynamicMessage::deserialize(descriptor, value).unwrap();
    message.transcode_to().unwrap()
}

/// A message as the recording would show it, whichever names of fields that has.
fn shown<T: Message + Name>(message: &T) -> Value {
    from_bytes(&T::type_url(), &message.encode_to_vec())
}

fn context(value: &Value) -> Context {
    Context::try_from(value.as_i64().unwrap_or_default() as i32).unwrap()
}

fn hosts(value: &Value) -> Vec<&str> {
    let hosts = value.as_array().into_iter().flatten();
    hosts
        .filter_map(Value::as_str)
        .filter(|h| !h.is_empty())
        .collect()
}

fn compare<T: Message + Name + Default>(case: &Value, ours: Option<&T>) {
    let theirs = (!case["out"].is_null()).then(|| shown(&read::<T>(&case["out"])));
    assert_eq!(ours.map(shown), theirs, "{}", case["test"]);
}

fn compare_all<'a, T>(case: &Value, ours: impl Iterator<Item = &'a T>)
where
    T: Message + Name + Default + 'a,
{
    let ours: Vec<Value> = ours.map(shown).collect();
    let theirs = case["out"].as_array().into_iter().flatten();
    let theirs: Vec<Value> = theirs.map(|value| shown(&read::<T>(value))).collect();
    assert_eq!(json!(ours), json!(theirs), "{}", case["test"]);
}

#[test]
fn clusters_are_patched_as_recorded() {
    for case in cases(TABLE, "envoyfilter.ApplyClusterMerge") {
        let input = &case["in"];
        let patches = selected(&input["efw"]).clusters;
        let ours = cluster::apply(
            &patches,
            context(&input["pctx"]),
            read(&input["c"]),
            &hosts(&input["hosts"]),
            &mut Vec::new(),
        );
        compare::<Cluster>(&case, ours.as_ref());
    }
    for case in cases(TABLE, "envoyfilter.InsertedClusters") {
        let patches = selected(&case["in"]["efw"]).clusters;
        compare_all(
            &case,
            cluster::added(&patches, context(&case["in"]["pctx"])),
        );
    }
    for case in cases(TABLE, "envoyfilter.clusterMatch") {
        let input = &case["in"];
        let patch = patch::<Cluster>(0, &input["cp"]);
        let cluster: Cluster = read(&input["cluster"]);
        let found = cluster::matches(&patch, &cluster.name, &hosts(&input["hosts"]));
        assert_eq!(json!(found), case["out"], "{}", case["test"]);
    }
}

#[test]
fn listeners_are_patched_as_recorded() {
    for case in cases(TABLE, "envoyfilter.ApplyListenerPatches") {
        let input = &case["in"];
        let patches = selected(&input["efw"]).listeners;
        let context = context(&input["patchContext"]);
        let there = input["lis"].as_array().into_iter().flatten();
        let mut ours: Vec<Listener> = there
            .filter_map(|l| listener::apply(&patches, context, read(l), &mut Vec::new()))
            .collect();
        if input["skipAdds"] == false {
            ours.extend(listener::added(&patches, context).cloned());
        }
        compare_all(&case, ours.iter());
    }
}

#[test]
fn routes_are_patched_as_recorded() {
    let ports = |map: &Value, port: u32| match map[port.to_string()].as_object() {
        Some(stated) => stated.keys().map(|p| p.parse().unwrap()).collect(),
        None => vec![port],
    };
    for case in cases(TABLE, "envoyfilter.ApplyRouteConfigurationPatches") {
        let input = &case["in"];
        let place = route::RouteContext {
            context: context(&input["patchContext"]),
            service_ports: &|port| ports(&input["proxy"]["MergedGateway"]["PortMap"], port),
        };
        let mut config: RouteConfiguration = read(&input["routeConfiguration"]);
        route::apply(&selected(&input["efw"]).routes, &place, &mut config);
        compare(&case, Some(&config));
    }
    for case in cases(TABLE, "envoyfilter.routeConfigurationMatch") {
        let input = &case["in"];
        let place = route::RouteContext {
            context: context(&input["patchContext"]),
            service_ports: &|port| ports(&input["portMap"], port),
        };
        let patch = patch::<RouteConfiguration>(0, &input["rp"]);
        let name = input["rc"]["name"].as_str().unwrap_or_default();
        let found = place.matches(patch.route(), name);
        assert_eq!(json!(found), case["out"], "{}", case["test"]);
    }
}

#[test]
fn hosts_and_routes_match_as_recorded() {
    for case in cases(TABLE, "envoyfilter.virtualHostMatch") {
        // Here a virtual host is always one.
        if case["in"]["vh"].is_null() {
            continue;
        }
        let patch = patch::<VirtualHost>(0, &case["in"]["rp"]);
        let found = route::host_matches(&patch, &read(&case["in"]["vh"]));
        assert_eq!(json!(found), case["out"], "{}", case["test"]);
    }
    for case in cases(TABLE, "envoyfilter.routeMatch") {
        let patch = patch::<Route>(0, &case["in"]["rp"]);
        let wanted = patch.route().and_then(|m| m.vhost.as_ref()?.route.as_ref());
        let route = read(&case["in"]["httpRoute"]);
        let found = wanted.is_none_or(|wanted| route::route_matches(wanted, &route));
        assert_eq!(json!(found), case["out"], "{}", case["test"]);
    }
}

#[test]
fn extension_configurations_are_added_as_recorded() {
    for case in cases(TABLE, "envoyfilter.InsertedExtensionConfigurations") {
        let patches = selected(&case["in"]["efw"]).extensions;
        let asked = hosts(&case["in"]["names"]);
        let given = extension::added(&patches).map(|patch| &patch.value);
        let given = given.filter(|c| asked.contains(&c.name.as_str()));
        compare_all(&case, given);
    }
}
