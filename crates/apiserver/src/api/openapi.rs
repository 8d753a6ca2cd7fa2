//! OpenAPI v3: what `kubectl explain` shows and what clients ask before they patch. Older clients ask for [`v2`].

mod v2;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{KUBERNETES, Response, body};
use crate::patch::PatchKind;
use crate::resource::{Catalog, Resource};
use crate::schema;
use crate::status::Failure;

/// The documents of the catalog as it is, by group and version.
#[derive(Default)]
pub(super) struct Cache(Mutex<Documents>);

#[derive(Default)]
struct Documents {
    serial: Option<u64>,
    documents: BTreeMap<String, (Bytes, u64)>,
    /// The document of v2 in JSON and in protobuf, once it was asked for.
    old: Option<[Bytes; 2]>,
}

impl Cache {
    /// Answers `/openapi/v2`.
    pub(super) fn answer_old(&self, catalog: &Catalog, accept: &str) -> Response {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.serial != Some(catalog.serial) {
            *made = make(catalog);
        }
        let [json, protobuf] = made.old.get_or_insert_with(|| {
            let document = v2::document(catalog);
            [document.to_string().into(), v2::encode(&document).into()]
        });
        let (asked, answered) = (v2::PROTOBUF, v2::PROTOBUF[1]);
        if !asked.iter().any(|kind| accept.contains(kind)) {
            return body::bytes(StatusCode::OK, json.clone());
        }
        let mut response = body::bytes(StatusCode::OK, protobuf.clone());
        let kind = HeaderValue::from_static(answered);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// Answers `/openapi/v3` (`None`) or a path below it.
    pub(super) fn answer(
        &self,
        catalog: &Catalog,
        which: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.serial != Some(catalog.serial) {
            *made = make(catalog);
        }
        let Some(which) = which else {
            let paths: Map<String, Value> = made
                .documents
                .iter()
                .map(|(path, (_, hash))| {
                    let url = format!("/openapi/v3/{path}?hash={hash:016X}");
                    (path.clone(), json!({"serverRelativeURL": url}))
                })
                .collect();
            return Ok(body::json(StatusCode::OK, &json!({"paths": paths})));
        };
        let (document, hash) = made.documents.get(which).ok_or_else(Failure::no_path)?;
        let mut response = body::bytes(StatusCode::OK, document.clone());
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash:016X}\"")) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        Ok(response)
    }
}

fn make(catalog: &Catalog) -> Documents {
    let mut documents = BTreeMap::new();
    for (group, versions) in catalog.groups() {
        for version in versions {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let text = Bytes::from(document(catalog, &group, &version).to_string());
            let hash = xxh3_64(&text);
            documents.insert(path, (text, hash));
        }
    }
    Documents {
        serial: Some(catalog.serial),
        documents,
        old: None,
    }
}

/// The name of a schema: the group turned round, the version, the kind.
fn schema_name(resource: &Resource, version: &str) -> String {
    let group = if resource.group.is_empty() {
        "core"
    } else {
        &resource.group
    };
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{}", parts.join("."), resource.kind)
}

fn document(catalog: &Catalog, group: &str, version: &str) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    schemas.insert(OBJECT_META.to_owned(), schema::OBJECT_META.clone());
    for resource in catalog.all().filter(|r| *r.group == *group) {
        let Some(served) = resource.version(version) else {
            continue;
        };
        let gvk = json!({"group": group, "version": version, "kind": &*resource.kind});
        let mut schema = served
            .schema
            .as_deref()
            .cloned()
            .unwrap_or_else(|| json!({"type": "object"}));
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        schema["properties"]["apiVersion"] = json!({"type": "string", "description": "Version of the API that the object is written in."});
        schema["properties"]["kind"] =
            json!({"type": "string", "description": "Kind of the object."});
        schema["properties"]["metadata"] = json!({"description": "Name, labels and what else is said of every object.",
            "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}], "default": {}});
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        let name = schema_name(resource, version);
        schemas.insert(name.clone(), schema);
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let root = if resource.namespaced {
            format!("{root}/namespaces/{{namespace}}")
        } else {
            root
        };
        let list = format!("{root}/{}", resource.plural);
        paths.insert(format!("{list}/{{name}}"), one_path(resource, &gvk, &name));
        let answer = answers(&name);
        paths.insert(list, json!({
            "get": {"x-kubernetes-action": "list", "x-kubernetes-group-version-kind": gvk, "responses": answer},
            "post": {"x-kubernetes-action": "post", "x-kubernetes-group-version-kind": gvk, "parameters": write_parameters(), "responses": answer},
        }));
    }
    let (major, minor) = KUBERNETES;
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{major}.{minor}.0")},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn answers(name: &str) -> Value {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    json!({"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}})
}

fn write_parameters() -> Value {
    let text = |name: &str, about: &str| json!({"name": name, "in": "query", "description": about, "schema": {"type": "string"}});
    json!([
        text("dryRun", "All: nothing is kept."),
        text("fieldManager", "Who writes."),
        text(
            "fieldValidation",
            "Strict, Warn or Ignore: what becomes of fields that are not known."
        ),
    ])
}

fn one_path(resource: &Resource, gvk: &Value, name: &str) -> Value {
    let answer = answers(name);
    let accepted = PatchKind::accepted(resource.native).into_iter();
    let content: Map<String, Value> = accepted
        .map(|kind| (kind.to_owned(), json!({"schema": {"type": "object"}})))
        .collect();
    let operation = |action: &str| json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "responses": answer});
    let mut patch = operation("patch");
    patch["parameters"] = write_parameters();
    patch["requestBody"] = json!({"required": true, "content": content});
    let mut put = operation("put");
    put["parameters"] = write_parameters();
    json!({"get": operation("get"), "put": put, "patch": patch, "delete": operation("delete")})
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
