//! OpenAPI v2, which clients before Kubernetes 1.27 ask for: one document of every kind, in JSON or in the protobuf that
//! those clients read (gnostic's `openapi.v2.Document`).

use serde_json::{Map, Value, json};

use super::{OBJECT_META, schema_name};
use crate::api::KUBERNETES;
use crate::resource::{Catalog, Resource};

/// The type of the document in protobuf, by the name that clients ask with and the one that is answered.
pub(super) const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The document.
pub(super) fn document(catalog: &Catalog) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    definitions.insert(OBJECT_META.to_owned(), crate::schema::OBJECT_META.clone());
    for resource in catalog.all() {
        for version in &resource.versions {
            let name = schema_name(resource, &version.name);
            let gvk = json!([{"group": &*resource.group, "version": &*version.name, "kind": &*resource.kind}]);
            let mut schema = version
                .schema
                .as_deref()
                .map_or_else(|| json!({"type": "object"}), plain);
            if !schema["properties"].is_object() {
                schema["properties"] = json!({});
            }
            let properties = &mut schema["properties"];
            properties["apiVersion"] = json!({"type": "string", "description": "Version of the API that the object is written in."});
            properties["kind"] = json!({"type": "string", "description": "Kind of the object."});
            properties["metadata"] = json!({"$ref": format!("#/definitions/{OBJECT_META}"), "description": "Name, labels and what else is said of every object."});
            schema["x-kubernetes-group-version-kind"] = gvk.clone();
            definitions.insert(name, schema);
            let (path, operation) = patch(resource, &version.name, &gvk);
            paths.insert(path, operation);
        }
    }
    let (major, minor) = KUBERNETES;
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": format!("v{major}.{minor}.0")},
        "paths": paths,
        "definitions": definitions,
    })
}

/// Where a kind is patched: clients look there for whether they may ask for a dry run.
fn patch(resource: &Resource, version: &str, gvk: &Value) -> (String, Value) {
    let root = match &*resource.group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let place = match resource.namespaced {
        true => format!("{root}/namespaces/{{namespace}}"),
        false => root,
    };
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "type": "string"}))
        .collect();
    let operation = json!({"patch": {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk[0],
    }});
    (format!("{place}/{}/{{name}}", resource.plural), operation)
}

/// A schema without what the older language has no words for.
fn plain(schema: &Value) -> Value {
    const KEPT: [&str; 8] = [
        "description",
        "type",
        "format",
        "required",
        "enum",
        "default",
        "items",
        "additionalProperties",
    ];
    let Some(map) = schema.as_object() else {
        return json!({});
    };
    let mut out = Map::new();
    let open = map
        .get("x-kubernetes-preserve-unknown-fields")
        .is_some_and(|v| *v == true);
    for (key, value) in map {
        match key.as_str() {
            "items" | "additionalProperties" if value.is_object() => {
                out.insert(key.clone(), plain(value));
            }
            // Old clients would refuse what is not named.
            "properties" if open => {}
            "properties" => {
                let all = value.as_object().into_iter().flatten();
                let all = all.map(|(name, inner)| (name.clone(), plain(inner)));
                out.insert(key.clone(), Value::Object(all.collect()));
            }
            word if KEPT.contains(&word) || word.starts_with("x-kubernetes-") => {
                out.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    if map
        .get("x-kubernetes-int-or-string")
        .is_some_and(|v| *v == true)
    {
        out.insert("type".to_owned(), "string".into());
        out.insert("format".to_owned(), "int-or-string".into());
    }
    Value::Object(out)
}

/// A message as it is built. Numbers of fields are those of gnostic's OpenAPIv2.proto.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, mut value: usize) {
        while value > 0x7f {
            // The low seven bits, and that more come.
            self.0.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or(0));
    }

    fn bytes(&mut self, field: usize, bytes: &[u8]) {
        self.number(field << 3 | 2);
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: usize, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: usize, inner: Message) {
        self.bytes(field, &inner.0);
    }

    /// An entry of a map: a name and a message.
    fn named(&mut self, field: usize, name: &str, inner: Message) {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, inner);
        self.message(field, entry);
    }
}

/// Any value, as text of YAML, which JSON is.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, value.to_string().as_bytes());
    any
}

fn extensions(of: &Value, field: usize, to: &mut Message) {
    let all = of.as_object().into_iter().flatten();
    for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
        to.named(field, name, any(value));
    }
}

fn schema(of: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &of["$ref"]);
    message.text(2, &of["format"]);
    message.text(4, &of["description"]);
    if let Some(default) = of.get("default") {
        message.message(5, any(default));
    }
    for name in of["required"].as_array().into_iter().flatten() {
        message.text(19, name);
    }
    for value in of["enum"].as_array().into_iter().flatten() {
        message.message(20, any(value));
    }
    match &of["additionalProperties"] {
        inner @ Value::Object(_) => {
            let mut item = Message::default();
            item.message(1, schema(inner));
            message.message(21, item);
        }
        Value::Bool(true) => message.bytes(21, &[2 << 3, 1]),
        _ => {}
    }
    if of["type"].is_string() {
        let mut ty = Message::default();
        ty.text(1, &of["type"]);
        message.message(22, ty);
    }
    if of["items"].is_object() {
        let mut items = Message::default();
        items.message(1, schema(&of["items"]));
        message.message(23, items);
    }
    if let Some(properties) = of["properties"].as_object() {
        let mut all = Message::default();
        for (name, inner) in properties {
            all.named(1, name, schema(inner));
        }
        message.message(25, all);
    }
    extensions(of, 31, &mut message);
    message
}

fn path(of: &Value) -> Message {
    let patch = &of["patch"];
    let mut operation = Message::default();
    for parameter in patch["parameters"].as_array().into_iter().flatten() {
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        // It stands within three choices: a parameter, none of the body, of the query.
        let wrapped = [3, 2, 1].into_iter().fold(query, |inner, field| {
            let mut outer = Message::default();
            outer.message(field, inner);
            outer
        });
        operation.message(8, wrapped);
    }
    let mut response = Message::default();
    response.text(1, &patch["responses"]["200"]["description"]);
    let mut value = Message::default();
    value.message(1, response);
    let mut responses = Message::default();
    responses.named(1, "200", value);
    operation.message(9, responses);
    extensions(patch, 13, &mut operation);
    let mut item = Message::default();
    item.message(8, operation);
    item
}

/// The document in protobuf.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    let mut paths = Message::default();
    for (name, item) in document["paths"].as_object().into_iter().flatten() {
        paths.named(2, name, path(item));
    }
    let mut definitions = Message::default();
    for (name, inner) in document["definitions"].as_object().into_iter().flatten() {
        definitions.named(1, name, schema(inner));
    }
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    message.message(2, info);
    message.message(8, paths);
    message.message(9, definitions);
    message.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_protobuf_has_it() {
        let mut message = Message::default();
        message.text(1, &"2.0".into());
        message.named(31, "x", any(&json!([1])));
        let wanted = b"\x0a\x032.0\xfa\x01\x0a\x0a\x01x\x12\x05\x12\x03[1]";
        assert_eq!(message.0, wanted);
        let mut long = Message::default();
        long.bytes(1, &[0; 300]);
        assert_eq!(long.0[..3], [0x0a, 0xac, 0x02]);
    }

    #[test]
    fn every_kind_is_in_the_document() {
        let catalog = Catalog::default();
        let document = document(&catalog);
        let route = &document["definitions"]["io.istio.networking.v1.VirtualService"];
        assert_eq!(
            route["x-kubernetes-group-version-kind"][0]["kind"],
            "VirtualService"
        );
        assert!(route["properties"]["spec"]["properties"]["hosts"].is_object());
        let service = &document["definitions"]["core.v1.Service"];
        let ports = &service["properties"]["spec"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
        assert!(encode(&document).len() > 10_000);
    }
}
