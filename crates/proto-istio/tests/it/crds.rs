//! Messages against the schemas of Istio's custom resource definitions, field by field and both ways.

use std::collections::BTreeSet;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

/// The messages of `spec` and `status` of each kind.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "AuthorizationPolicy",
        "istio.security.v1beta1.AuthorizationPolicy",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "DestinationRule",
        "istio.networking.v1alpha3.DestinationRule",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "EnvoyFilter",
        "istio.networking.v1alpha3.EnvoyFilter",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "Gateway",
        "istio.networking.v1alpha3.Gateway",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "PeerAuthentication",
        "istio.security.v1beta1.PeerAuthentication",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "ProxyConfig",
        "istio.networking.v1beta1.ProxyConfig",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "RequestAuthentication",
        "istio.security.v1beta1.RequestAuthentication",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "ServiceEntry",
        "istio.networking.v1alpha3.ServiceEntry",
        "istio.networking.v1alpha3.ServiceEntryStatus",
    ),
    (
        "Sidecar",
        "istio.networking.v1alpha3.Sidecar",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "Telemetry",
        "istio.telemetry.v1alpha1.Telemetry",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "TrafficExtension",
        "istio.extensions.v1alpha1.TrafficExtension",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "VirtualService",
        "istio.networking.v1alpha3.VirtualService",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "WasmPlugin",
        "istio.extensions.v1alpha1.WasmPlugin",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "WorkloadEntry",
        "istio.networking.v1alpha3.WorkloadEntry",
        "istio.meta.v1alpha1.IstioStatus",
    ),
    (
        "WorkloadGroup",
        "istio.networking.v1alpha3.WorkloadGroup",
        "istio.meta.v1alpha1.IstioStatus",
    ),
];

/// Where the definitions themselves differ from Istio's messages.
const EXPECTED: &[&str] = &[
    // Second spellings of fields that have the other one too.
    "istio.networking.v1alpha3.HTTPRoute.mirror_percent is only in the schema",
    "istio.security.v1beta1.JWTRule.jwks_uri is only in the schema",
    // Fields of later definitions.
    "istio.networking.v1alpha3.EnvoyFilter.ListenerMatch.FilterChainMatch.transport_socket is only in the message",
    "istio.networking.v1alpha3.LoadBalancerSettings.backend_utilization is only in the message",
    "istio.networking.v1alpha3.ServerTLSSettings.ecdh_curves is only in the message",
    "istio.security.v1beta1.JWTRule.presence is only in the message",
    // The schema keeps unknown fields of a status.
    "istio.networking.v1alpha3.ServiceEntryStatus.addresses is only in the message",
];

#[test]
fn messages_have_the_fields_of_the_custom_resource_definitions() {
    let Some(shared) = testkit::recording("crds/istio-api.customresourcedefinitions.gen.yaml")
    else {
        return;
    };
    let mut differences = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for crd in crate::shared::documents(&shared) {
        let kind = crd["spec"]["names"]["kind"]
            .as_str()
            .expect("a definition names its kind");
        let (_, spec, status) = KINDS
            .iter()
            .find(|k| k.0 == kind)
            .unwrap_or_else(|| panic!("{kind} has no message"));
        seen.insert(kind.to_owned());
        for version in crd["spec"]["versions"]
            .as_array()
            .expect("a definition has versions")
        {
            let properties = &version["schema"]["openAPIV3Schema"]["properties"];
            compare(&message(spec), &properties["spec"], &mut differences);
            compare(&message(status), &properties["status"], &mut differences);
        }
    }
    assert_eq!(seen.len(), KINDS.len(), "each kind has a definition");
    let differences: Vec<&str> = differences.iter().map(String::as_str).collect();
    let mut expected = EXPECTED.to_vec();
    expected.sort_unstable();
    assert_eq!(differences, expected);
}

fn message(name: &str) -> MessageDescriptor {
    pilothouse_proto_istio::descriptors()
        .get_message_by_name(name)
        .unwrap_or_else(|| panic!("{name} exists"))
}

fn compare(message: &MessageDescriptor, schema: &Value, differences: &mut BTreeSet<String>) {
    let empty = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let names: BTreeSet<String> = message.fields().map(|f| f.json_name().to_owned()).collect();
    for name in properties.keys().filter(|n| !names.contains(n.as_str())) {
        differences.insert(format!(
            "{}.{name} is only in the schema",
            message.full_name()
        ));
    }
    for field in message.fields() {
        match properties.get(field.json_name()) {
            None => {
                differences.insert(format!("{} is only in the message", field.full_name()));
            }
            Some(property) => compare_field(&field, property, differences),
        }
    }
}

fn compare_field(field: &FieldDescriptor, property: &Value, differences: &mut BTreeSet<String>) {
    if field.is_map() {
        let entry = field.kind();
        let entry = entry.as_message().expect("a map's entries are messages");
        compare_value(
            &entry.map_entry_value_field(),
            &property["additionalProperties"],
            differences,
        );
    } else if field.is_list() {
        assert_eq!(property["type"], "array", "{}", field.full_name());
        compare_value(field, &property["items"], differences);
    } else {
        compare_value(field, property, differences);
    }
}

fn compare_value(field: &FieldDescriptor, schema: &Value, differences: &mut BTreeSet<String>) {
    let kind = field.kind();
    let expected: &[&str] = match &kind {
        Kind::Double | Kind::Float => &["number"],
        Kind::Bool => &["boolean"],
        Kind::String | Kind::Bytes => &["string"],
        Kind::Enum(values) => return compare_enum(field, values, schema, differences),
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Duration"
            | "google.protobuf.Timestamp"
            | "google.protobuf.StringValue" => &["string"],
            "google.protobuf.BoolValue" => &["boolean"],
            "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => &["number"],
            "google.protobuf.Struct" | "google.protobuf.Any" => &["object"],
            name if name.starts_with("google.protobuf.") => &["integer"],
            _ => return compare(message, schema, differences),
        },
        _ => &["integer"],
    };
    let int_or_string = schema["x-kubernetes-int-or-string"] == true && expected == ["integer"];
    if !int_or_string
        && !schema["type"]
            .as_str()
            .is_some_and(|t| expected.contains(&t))
    {
        differences.insert(format!("{} is not {}", field.full_name(), schema["type"]));
    }
}

fn compare_enum(
    field: &FieldDescriptor,
    values: &EnumDescriptor,
    schema: &Value,
    differences: &mut BTreeSet<String>,
) {
    let ours: BTreeSet<String> = values.values().map(|v| v.name().to_owned()).collect();
    let theirs: BTreeSet<String> = schema["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect();
    if ours != theirs {
        differences.insert(format!("{}: {ours:?} is not {theirs:?}", field.full_name()));
    }
}
