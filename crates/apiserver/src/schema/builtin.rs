//! Schemas of the kinds that are built in.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use model::kinds::Kind;
use serde_json::{Map, Value, json};

use super::proto::message_schema;

/// The tables of types, in the language that the head of the first explains.
const TYPES: [&str; 5] = [
    include_str!("kinds.txt"),
    include_str!("gateway-api.txt"),
    include_str!("higress.txt"),
    include_str!("knative.txt"),
    include_str!("stored.txt"),
];

struct Type<'t> {
    flags: &'t str,
    fields: Vec<Field<'t>>,
}

struct Field<'t> {
    name: &'t str,
    required: bool,
    kind: &'t str,
    extras: &'t str,
    about: &'t str,
}

static PARSED: LazyLock<HashMap<&'static str, Type<'static>>> = LazyLock::new(|| parse(TYPES));

fn parse(texts: [&'static str; 5]) -> HashMap<&'static str, Type<'static>> {
    let mut types = HashMap::new();
    let mut current: Option<(&str, Type<'_>)> = None;
    for line in texts.into_iter().flat_map(str::lines) {
        if let Some(head) = line.strip_prefix("type ") {
            types.extend(current.take());
            let (name, flags) = head.split_once(' ').unwrap_or((head, ""));
            let fields = Vec::new();
            current = Some((name, Type { flags, fields }));
        } else if let (Some(line), Some((_, of))) = (line.strip_prefix("  "), &mut current) {
            let (shape, about) = line.split_once(" # ").unwrap_or((line, ""));
            let mut words = shape.splitn(3, ' ');
            let name = words.next().unwrap_or_default();
            of.fields.push(Field {
                name: name.trim_end_matches('!'),
                required: name.ends_with('!'),
                kind: words.next().unwrap_or_default(),
                extras: words.next().unwrap_or_default(),
                about,
            });
        }
    }
    types.extend(current);
    types
}

fn of_type(kind: &str) -> Value {
    match kind {
        "string" => json!({"type": "string"}),
        "time" => json!({"type": "string", "format": "date-time", "nullable": true}),
        "int" => json!({"type": "integer", "format": "int64"}),
        "bool" => json!({"type": "boolean"}),
        "int-or-string" | "quantity" => json!({"x-kubernetes-int-or-string": true}),
        "number" => json!({"type": "number"}),
        "any" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        "free" => json!({"x-kubernetes-preserve-unknown-fields": true}),
        _ => {
            if let Some(item) = kind.strip_prefix("[]") {
                return json!({"type": "array", "items": of_type(item)});
            }
            if let Some(value) = kind.strip_prefix("map:") {
                return json!({"type": "object", "additionalProperties": of_type(value)});
            }
            match PARSED.get(kind) {
                Some(found) => of_fields(found),
                None => json!({"x-kubernetes-preserve-unknown-fields": true}),
            }
        }
    }
}

fn of_fields(of: &Type<'_>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &of.fields {
        let mut schema = of_type(field.kind);
        for extra in field.extras.split(' ').filter(|e| !e.is_empty()) {
            extend(&mut schema, extra);
        }
        if !field.about.is_empty() {
            schema["description"] = field.about.into();
        }
        if field.required {
            required.push(field.name);
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    for flag in of.flags.split(' ').filter(|f| !f.is_empty()) {
        match flag {
            "open" => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
            _ => extend(&mut schema, flag),
        }
    }
    schema
}

fn extend(schema: &mut Value, extra: &str) {
    let argument = |word: &str| {
        Some(
            extra
                .strip_prefix(word)?
                .strip_prefix('(')?
                .trim_end_matches(')'),
        )
    };
    let is_list = schema["type"] == "array";
    if let Some(value) = extra.strip_prefix('=') {
        schema["default"] = value.into();
    } else if let Some(keys) = argument("key") {
        schema["x-kubernetes-list-type"] = "map".into();
        schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
    } else if let Some(key) = argument("merge") {
        schema["x-kubernetes-patch-merge-key"] = key.into();
        schema["x-kubernetes-patch-strategy"] = "merge".into();
    } else if let Some(values) = argument("enum") {
        schema["enum"] = values.split('|').collect();
    } else if extra == "set" {
        schema["x-kubernetes-list-type"] = "set".into();
    } else if extra == "atomic" {
        let word = if is_list {
            "x-kubernetes-list-type"
        } else {
            "x-kubernetes-map-type"
        };
        schema[word] = "atomic".into();
    }
}

/// The schema of a kind that is not in the list of the model, by the name of its type in the table.
pub fn builtin(name: &str) -> Option<Arc<Value>> {
    PARSED.get(name).map(|found| Arc::new(of_fields(found)))
}

impl crate::resource::Schemas {
    /// The schemas of the kinds that generation reads.
    pub(crate) fn of_model() -> Self {
        let of = |kind: Kind| {
            let name = match kind {
                Kind::KubeGateway => "KubeGateway".to_owned(),
                Kind::XBackend
                | Kind::XBackendTrafficPolicy
                | Kind::XMesh
                | Kind::ServiceExport
                | Kind::ServiceImport => "OpenSpec".to_owned(),
                Kind::HigressWasmPlugin => "HigressWasmPlugin".to_owned(),
                Kind::KnativeIngress => "KnativeIngress".to_owned(),
                _ if kind.group().ends_with(".istio.io") => {
                    return Arc::new(istio(kind));
                }
                _ => kind.name().to_owned(),
            };
            builtin(&name).unwrap_or_default()
        };
        Self(Kind::ALL.iter().map(|kind| (*kind, of(*kind))).collect())
    }
}

/// The schema of one of Istio's kinds, whose spec is a message.
fn istio(kind: Kind) -> Value {
    let package = kind.group().trim_end_matches(".istio.io");
    let spec = ["v1alpha3", "v1beta1", "v1alpha1", "v1"]
        .iter()
        .find_map(|version| message_schema(&format!("istio.{package}.{version}.{}", kind.name())));
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = spec.unwrap_or_else(open);
    let mut schema = json!({"type": "object"});
    if let Some(about) = spec.get("description") {
        schema["description"] = about.clone();
    }
    schema["properties"] = json!({"spec": spec, "status": open()});
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maps and lists of a value that its schema has no fields for: kubectl warns of each when it makes a patch.
    fn unnamed(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let Value::Object(fields) = value else { return };
        if schema["additionalProperties"].is_object() {
            return;
        }
        for (name, value) in fields {
            let (at, schema) = (format!("{at}.{name}"), &schema["properties"][name]);
            match value {
                Value::Object(_) | Value::Array(_) if schema.is_null() => found.push(at),
                Value::Object(_) => unnamed(schema, value, &at, found),
                Value::Array(items) if schema["x-kubernetes-patch-merge-key"].is_string() => {
                    for item in items {
                        unnamed(&schema["items"], item, &at, found);
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn deployments_are_patched_without_warnings() {
        let container = r#"{
            "name": "c", "command": ["a"], "args": ["b"], "ports": [{"containerPort": 80}],
            "env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": 0.5}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 80, "httpHeaders": [{"name": "a", "value": "b"}]}},
            "livenessProbe": {"exec": {"command": ["a"]}},
            "lifecycle": {"preStop": {"exec": {"command": ["a"]}}},
            "volumeMounts": [{"name": "a", "mountPath": "/a"}]
        }"#;
        let pod = r#"{
            "containers": [CONTAINER], "initContainers": [CONTAINER],
            "affinity": {
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}]}}
            },
            "securityContext": {"supplementalGroups": [1], "seccompProfile": {"type": "RuntimeDefault"}},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
            "imagePullSecrets": [{"name": "a"}], "tolerations": [{"key": "a"}], "nodeSelector": {"a": "b"},
            "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a": "b"}}}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
                {"name": "b", "hostPath": {"path": "/"}},
                {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "d", "emptyDir": {}}
            ]
        }"#;
        let pod: Value = serde_json::from_str(&pod.replace("CONTAINER", container)).unwrap();
        let template = json!({
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": pod,
        });
        let spec = json!({
            "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": template,
        });
        let mut found = Vec::new();
        let schema = builtin("Deployment").unwrap();
        unnamed(&schema, &json!({"spec": spec}), "", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn every_type_that_is_named_is_there() {
        let known = [
            "string",
            "time",
            "int",
            "number",
            "bool",
            "int-or-string",
            "any",
            "free",
            "quantity",
        ];
        for (name, of) in PARSED.iter() {
            for field in &of.fields {
                let kind = field
                    .kind
                    .trim_start_matches("[]")
                    .trim_start_matches("map:");
                assert!(
                    known.contains(&kind) || PARSED.contains_key(kind),
                    "{name}.{}: {kind}",
                    field.name
                );
            }
        }
    }

    #[test]
    fn every_kind_of_the_model_has_a_schema() {
        let schemas = crate::resource::Schemas::of_model();
        for kind in Kind::ALL {
            let schema = &schemas.0[kind];
            assert!(schema["properties"].is_object(), "{kind:?}");
            if kind.group().ends_with(".istio.io") {
                assert!(
                    schema["properties"]["spec"]["properties"].is_object(),
                    "{kind:?}"
                );
            }
        }
    }

    #[test]
    fn fields_are_described_where_their_definitions_are() {
        let schemas = crate::resource::Schemas::of_model();
        let spec = &schemas.0[&Kind::VirtualService]["properties"]["spec"]["properties"];
        assert!(spec["gateways"]["description"].is_string());
        assert!(spec["http"]["items"]["description"].is_string());
        let spec = &schemas.0[&Kind::HttpRoute]["properties"]["spec"]["properties"];
        let matches = &spec["rules"]["items"]["properties"]["matches"]["items"];
        assert_eq!(matches["properties"]["path"]["type"], "object");
        assert!(matches["properties"]["path"]["description"].is_string());
    }

    #[test]
    fn service_ports_are_told_apart_as_kubernetes_does() {
        let service = builtin("Service").unwrap();
        let ports = &service["properties"]["spec"]["properties"]["ports"];
        assert_eq!(
            ports["x-kubernetes-list-map-keys"],
            json!(["port", "protocol"])
        );
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
        assert_eq!(ports["items"]["required"], json!(["port"]));
    }
}
