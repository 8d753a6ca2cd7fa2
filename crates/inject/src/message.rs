//! Messages as templates see them: structs with Go's names, and methods that work on nil too.
// Go: google.golang.org/protobuf, protoc-gen-go.

use std::borrow::Cow;
use std::rc::Rc;

use gotemplate::{Fault, IntType, List, Map, Object, Type, Value};
use prost::Name;
use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value as Held,
};

use crate::numbers;

/// A message, or a nil pointer to one.
pub(crate) struct Message {
    name: String,
    of: MessageDescriptor,
    pub(crate) message: Option<DynamicMessage>,
}

impl Message {
    /// A message of the mesh's.
    pub(crate) fn of<M: prost::Message + Name>(message: &M) -> Option<Self> {
        let of = proto_istio::descriptors().get_message_by_name(&M::full_name())?;
        let bytes = message.encode_to_vec();
        let message = DynamicMessage::decode(of.clone(), bytes.as_slice()).ok()?;
        Some(Self::new(of, Some(message)))
    }

    fn new(of: MessageDescriptor, message: Option<DynamicMessage>) -> Self {
        Self {
            name: format!("*{}", go_type(&of)),
            of,
            message,
        }
    }

    /// The value of a field by the name of it in Go.
    fn get(&self, go: &str) -> Option<Value> {
        let field = self.of.fields().find(|f| go_name(f.name()) == go)?;
        Some(self.value(&field))
    }

    fn value(&self, field: &FieldDescriptor) -> Value {
        let held = self.message.as_ref();
        if !field.is_list()
            && !field.is_map()
            && let Kind::Message(of) = field.kind()
        {
            let held = held.filter(|m| m.has_field(field));
            let held = held.and_then(|m| m.get_field(field).as_message().cloned());
            return Value::Object(Rc::new(Self::new(of, held)));
        }
        match held {
            Some(message) => made(&message.get_field(field), field),
            None => made(&Held::default_value_for_field(field), field),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.of.full_name() == name
    }

    fn number(&self, field: &str) -> i128 {
        let held = self
            .message
            .as_ref()
            .and_then(|m| m.get_field_by_name(field));
        match held.as_deref() {
            Some(Held::I64(number)) => (*number).into(),
            Some(Held::I32(number)) => (*number).into(),
            _ => 0,
        }
    }

    /// The length of time, if it is one.
    pub(crate) fn duration(&self) -> Option<i128> {
        let is = self.is("google.protobuf.Duration");
        is.then(|| self.number("seconds") * 1_000_000_000 + self.number("nanos"))
    }
}

/// Go's name of a field.
fn go_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    let mut up = true;
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.peek().is_some_and(char::is_ascii_lowercase) => up = true,
            c if up => {
                out.push(c.to_ascii_uppercase());
                up = false;
            }
            c => out.push(c),
        }
    }
    out
}

/// Go's name of a type: the last part of its package, and the names it is nested in.
fn go_type(of: &MessageDescriptor) -> String {
    go_type_name(of.full_name(), of.package_name())
}

fn go_type_name(full: &str, package: &str) -> String {
    let short = match package {
        "google.protobuf" if full.ends_with("Value") => "wrapperspb",
        "google.protobuf" if full.ends_with("Duration") => "durationpb",
        other => other.rsplit('.').next().unwrap_or(other),
    };
    let name = full.strip_prefix(package).unwrap_or(full);
    format!("{short}.{}", name.trim_start_matches('.').replace('.', "_"))
}

/// Go's type of a value of a field.
fn item_type(kind: &Kind) -> Type {
    match kind {
        Kind::Double | Kind::Float => Type::Float64,
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Type::Int(IntType::Int32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Type::Int(IntType::Int64),
        Kind::Uint32 | Kind::Fixed32 => Type::Int(IntType::Uint32),
        Kind::Uint64 | Kind::Fixed64 => Type::Int(IntType::Uint64),
        Kind::Bool => Type::Bool,
        Kind::String | Kind::Bytes => Type::String,
        Kind::Message(of) => Type::Named(format!("*{}", go_type(of)).into()),
        Kind::Enum(of) => {
            let package = of.parent_file().package_name().to_owned();
            Type::Named(go_type_name(of.full_name(), &package).into())
        }
    }
}

fn made(held: &Held, field: &FieldDescriptor) -> Value {
    match held {
        Held::List(items) => {
            let kind = field.kind();
            let ty = item_type(&kind);
            if items.is_empty() {
                return Value::List(List::nil(ty));
            }
            let items = items.iter().map(|item| scalar(item, &kind));
            Value::List(List::new(ty, items.collect()))
        }
        Held::Map(entries) => {
            let Kind::Message(entry) = field.kind() else {
                return Value::Nil;
            };
            let kind = entry.map_entry_value_field().kind();
            let ty = item_type(&kind);
            if entries.is_empty() {
                return Value::Map(Map::nil(ty));
            }
            let entries = entries.iter().map(|(key, value)| {
                let key: Rc<str> = match key {
                    MapKey::String(text) => text.as_str().into(),
                    other => format!("{other:?}").into(),
                };
                (key, scalar(value, &kind))
            });
            Value::Map(Map::new(ty, entries.collect()))
        }
        one => scalar(one, &field.kind()),
    }
}

fn scalar(held: &Held, kind: &Kind) -> Value {
    match held {
        Held::Bool(truth) => Value::Bool(*truth),
        Held::I32(number) => Value::from(*number),
        Held::I64(number) => Value::from(*number),
        Held::U32(number) => Value::from(*number),
        Held::U64(number) => Value::Uint(*number, IntType::Uint64),
        Held::F32(number) => Value::Float(f64::from(*number)),
        Held::F64(number) => Value::Float(*number),
        Held::String(text) => Value::str(text),
        Held::Bytes(bytes) => Value::str(String::from_utf8_lossy(bytes)),
        Held::EnumNumber(number) => {
            let Kind::Enum(of) = kind else {
                return Value::from(*number);
            };
            let name = of.get_value(*number).map(|v| v.name().to_owned());
            let package = of.parent_file().package_name().to_owned();
            Value::named(
                &go_type_name(of.full_name(), &package),
                Value::from(*number),
                Some(&name.unwrap_or_else(|| number.to_string())),
            )
        }
        Held::Message(message) => {
            let of = message.descriptor();
            Value::Object(Rc::new(Message::new(of, Some(message.clone()))))
        }
        Held::List(_) | Held::Map(_) => Value::Nil,
    }
}

impl Object for Message {
    fn type_name(&self) -> &str {
        &self.name
    }

    fn is_nil(&self) -> bool {
        self.message.is_none()
    }

    fn field(&self, name: &str) -> Option<Value> {
        // A choice is a field of its own in Go, which templates ask for with the methods of its members.
        let mut fields = self.of.fields();
        let field = fields.find(|f| go_name(f.name()) == name)?;
        let chosen = field.containing_oneof();
        let is_choice = chosen.is_some_and(|of| !of.name().starts_with('_'));
        (!is_choice).then(|| self.value(&field))
    }

    fn method(&self, name: &str) -> Option<&[Type]> {
        let is_getter = name.strip_prefix("Get").is_some_and(|go| {
            let mut fields = self.of.fields();
            fields.any(|f| go_name(f.name()) == go)
        });
        let known =
            is_getter || name == "String" || name == "AsDuration" && self.duration().is_some();
        known.then_some(&[])
    }

    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, Fault> {
        if let Some(nanos) = self.duration().filter(|_| name == "AsDuration") {
            let number = i64::try_from(nanos).unwrap_or(i64::MAX);
            let text = numbers::duration(nanos);
            return Ok(Value::named(
                "time.Duration",
                Value::from(number),
                Some(&text),
            ));
        }
        if name == "String" {
            return Ok(Value::str(self.text().unwrap_or_default()));
        }
        let value = name.strip_prefix("Get").and_then(|go| self.get(go));
        value.ok_or_else(|| format!("there is no method {name}").into())
    }

    fn fields(&self) -> Vec<(Cow<'static, str>, Value)> {
        let fields = self.of.fields();
        fields
            .map(|f| (Cow::Owned(go_name(f.name())), self.value(&f)))
            .collect()
    }

    fn text(&self) -> Option<String> {
        let message = self.message.as_ref();
        Some(message.map_or_else(|| "<nil>".to_owned(), ToString::to_string))
    }

    fn json(&self) -> String {
        let message = self.message.as_ref();
        message.map_or_else(|| "null".to_owned(), to_json)
    }
}

/// A message as JSON in Istio's order of fields, escaped as Go does.
// Istio: pkg/util/protomarshal ToJSON, which is golang/protobuf's jsonpb.
pub(crate) fn to_json(message: &DynamicMessage) -> String {
    let json = serde_json::to_value(message).unwrap_or_default();
    let mut out = String::new();
    write(&mut out, &json, &message.descriptor());
    out
}

/// Fields that Istio's definition has in another place than their number says, and the field they follow.
const MOVED: [(&str, &str, &str); 4] = [
    (
        "istio.mesh.v1alpha1.ProxyConfig",
        "envoyMetricsServiceAddress",
        "statsdUdpAddress",
    ),
    (
        "istio.mesh.v1alpha1.ProxyConfig",
        "runtimeValues",
        "proxyMetadata",
    ),
    (
        "istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders",
        "setCurrentClientCertDetails",
        "forwardedClientCert",
    ),
    (
        "istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders",
        "server",
        "requestId",
    ),
];

fn in_order(of: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let mut fields: Vec<_> = of.fields().collect();
    for (message, moved, after) in MOVED {
        if message != of.full_name() {
            continue;
        }
        let place =
            |fields: &[FieldDescriptor], name| fields.iter().position(|f| f.json_name() == name);
        if let Some(from) = place(&fields, moved) {
            let field = fields.remove(from);
            let to = place(&fields, after).map_or(from, |at| at + 1);
            fields.insert(to, field);
        }
    }
    fields
}

fn write(out: &mut String, json: &serde_json::Value, of: &MessageDescriptor) {
    let Some(entries) = json.as_object() else {
        out.push_str(&crate::typed::any_to_json(json));
        return;
    };
    // Messages with a JSON form of their own have no fields of that form.
    if of.package_name() == "google.protobuf" {
        out.push_str(&crate::typed::any_to_json(json));
        return;
    }
    let mut separator = '{';
    for field in in_order(of) {
        let Some(value) = entries.get(field.json_name()) else {
            continue;
        };
        out.push(separator);
        separator = ',';
        crate::typed::write_text(out, field.json_name());
        out.push(':');
        match (field.kind(), value) {
            (Kind::Message(of), serde_json::Value::Array(items))
                if field.cardinality() == Cardinality::Repeated =>
            {
                let mut separator = '[';
                for item in items {
                    out.push(separator);
                    separator = ',';
                    write(out, item, &of);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            (Kind::Message(of), value) if !field.is_map() => write(out, value, &of),
            (_, value) => out.push_str(&crate::typed::any_to_json(value)),
        }
    }
    out.push_str(if separator == '{' { "{}" } else { "}" });
}
