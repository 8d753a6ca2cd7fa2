//! Fields of Istio's kinds, by their descriptors: those that an example has not, with values of their types.

use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{Change, values};

/// The messages of Istio's kinds.
const MESSAGES: [(&str, &str); 15] = [
    ("VirtualService", "istio.networking.v1alpha3.VirtualService"),
    (
        "DestinationRule",
        "istio.networking.v1alpha3.DestinationRule",
    ),
    ("Gateway", "istio.networking.v1alpha3.Gateway"),
    ("ServiceEntry", "istio.networking.v1alpha3.ServiceEntry"),
    ("Sidecar", "istio.networking.v1alpha3.Sidecar"),
    ("WorkloadEntry", "istio.networking.v1alpha3.WorkloadEntry"),
    ("WorkloadGroup", "istio.networking.v1alpha3.WorkloadGroup"),
    ("EnvoyFilter", "istio.networking.v1alpha3.EnvoyFilter"),
    ("ProxyConfig", "istio.networking.v1beta1.ProxyConfig"),
    (
        "AuthorizationPolicy",
        "istio.security.v1beta1.AuthorizationPolicy",
    ),
    (
        "PeerAuthentication",
        "istio.security.v1beta1.PeerAuthentication",
    ),
    (
        "RequestAuthentication",
        "istio.security.v1beta1.RequestAuthentication",
    ),
    ("Telemetry", "istio.telemetry.v1alpha1.Telemetry"),
    ("WasmPlugin", "istio.extensions.v1alpha1.WasmPlugin"),
    (
        "TrafficExtension",
        "istio.extensions.v1alpha1.TrafficExtension",
    ),
];

/// How deep messages are drawn within one another.
const DEPTH: u8 = 3;

/// The message of an object's spec, if it is of one of Istio's kinds.
pub(super) fn message(object: &Map<String, Value>) -> Option<MessageDescriptor> {
    let version = object["apiVersion"].as_str()?;
    version.contains("istio.io/").then_some(())?;
    let (_, name) = MESSAGES.iter().find(|(kind, _)| object["kind"] == *kind)?;
    descriptors::pool().get_message_by_name(name)
}

impl Change<'_> {
    /// Sets fields that a message has not, here and in what it holds.
    pub(super) fn add_fields(&mut self, message: &MessageDescriptor, value: &mut Value) {
        let Value::Object(fields) = value else {
            return;
        };
        for (name, inner) in fields.iter_mut() {
            let known = message.get_field_by_json_name(name);
            let Some(field) = known.or_else(|| message.get_field_by_name(name)) else {
                continue;
            };
            let Kind::Message(of) = field.kind() else {
                continue;
            };
            match inner {
                _ if field.is_map() || is_written_otherwise(&of) => {}
                Value::Array(items) => items.iter_mut().for_each(|item| self.add_fields(&of, item)),
                inner => self.add_fields(&of, inner),
            }
        }
        let all: Vec<FieldDescriptor> = message.fields().collect();
        if all.is_empty() || !self.draw.chance(self.harm) {
            return;
        }
        let field = self.draw.of(&all).clone();
        if !fields.contains_key(field.json_name()) {
            let value = self.value(&field, DEPTH);
            fields.insert(field.json_name().to_owned(), value);
        }
    }

    fn value(&mut self, field: &FieldDescriptor, depth: u8) -> Value {
        if field.is_map() {
            let (name, one) = (values::name(self.draw), json!("x"));
            let text = values::harmful(field.name(), &one, self.around, self.draw);
            return json!({ name: text });
        }
        let one = self.single(field, depth);
        match field.cardinality() {
            Cardinality::Repeated => json!([one]),
            _ => one,
        }
    }

    fn single(&mut self, field: &FieldDescriptor, depth: u8) -> Value {
        let kind = match field.kind() {
            Kind::Message(message) => return self.drawn(field.name(), &message, depth),
            Kind::Enum(all) => {
                let names: Vec<String> = all.values().map(|v| v.name().to_owned()).collect();
                return self.draw.of(&names).clone().into();
            }
            kind => kind,
        };
        let like = match kind {
            Kind::String | Kind::Bytes => json!("x"),
            Kind::Bool => return json!(self.draw.chance(50)),
            _ => json!(1),
        };
        values::harmful(field.json_name(), &like, self.around, self.draw)
    }

    fn drawn(&mut self, name: &str, message: &MessageDescriptor, depth: u8) -> Value {
        let like = match message.full_name() {
            "google.protobuf.Duration" => json!("1s"),
            "google.protobuf.Struct" | "google.protobuf.Value" => return json!({ "a": "b" }),
            "google.protobuf.BoolValue" => return json!(self.draw.chance(50)),
            "google.protobuf.StringValue" => json!("x"),
            other if other.starts_with("google.protobuf.") => json!(1),
            _ => {
                let mut fields = Map::new();
                let all: Vec<FieldDescriptor> = message.fields().collect();
                for _ in 0..self.draw.below(4) {
                    if depth == 0 || all.is_empty() {
                        break;
                    }
                    let field = self.draw.of(&all).clone();
                    let value = self.value(&field, depth - 1);
                    fields.insert(field.json_name().to_owned(), value);
                }
                return Value::Object(fields);
            }
        };
        values::harmful(name, &like, self.around, self.draw)
    }
}

/// Whether JSON has another form for a message than its fields.
fn is_written_otherwise(message: &MessageDescriptor) -> bool {
    message.full_name().starts_with("google.protobuf.")
}
