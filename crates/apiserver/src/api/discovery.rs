//! What is served: versions, groups and kinds, in the old form and in the aggregated one.

use std::collections::BTreeSet;

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::{KUBERNETES, Response, body};
use crate::resource::{Catalog, Resource};
use crate::status::Failure;

/// The verbs of every kind.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// The verbs of what is behind an object.
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Groups whose objects are questions, not stored: `(group, kind, name in paths)`.
pub(super) const REVIEWS: [(&str, &str, &str); 4] = [
    (
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    ),
    (
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    ),
    (
        "authentication.k8s.io",
        "SelfSubjectReview",
        "selfsubjectreviews",
    ),
    ("authentication.k8s.io", "TokenReview", "tokenreviews"),
];

/// `/version`.
pub(super) fn version() -> Value {
    let (major, minor) = KUBERNETES;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{major}.{minor}.0+pilothouse-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("linux/{}", if std::env::consts::ARCH == "x86_64" { "amd64" } else { std::env::consts::ARCH }),
    })
}

/// Answers a discovery path.
pub(super) fn answer(
    catalog: &Catalog,
    parts: &[String],
    accept: &str,
) -> Result<Response, Failure> {
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    let ok = |value: Value| Ok(body::json(StatusCode::OK, &value));
    match words.as_slice() {
        [root @ ("api" | "apis")] => {
            if let Some(version) = aggregated_version(accept) {
                let core = *root == "api";
                let list = aggregated(catalog, core, version);
                let mut response = body::json(StatusCode::OK, &list);
                let kind = format!(
                    "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                );
                if let Ok(kind) = HeaderValue::from_str(&kind) {
                    response.headers_mut().insert(header::CONTENT_TYPE, kind);
                }
                response
                    .headers_mut()
                    .insert(header::VARY, HeaderValue::from_static("Accept"));
                return Ok(response);
            }
            if *root == "api" {
                return ok(
                    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
                );
            }
            let groups: Vec<Value> = groups(catalog)
                .filter(|(g, _)| !g.is_empty())
                .map(|(g, v)| group(&g, &v))
                .collect();
            ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let found = groups(catalog).find(|(g, _)| g == name);
            let (name, versions) = found.ok_or_else(Failure::no_path)?;
            let mut group = group(&name, &versions);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            ok(group)
        }
        ["api", version] => ok(resources(catalog, "", version)?),
        ["apis", group, version] => ok(resources(catalog, group, version)?),
        _ => Err(Failure::no_path()),
    }
}

fn aggregated_version(accept: &str) -> Option<&'static str> {
    let wants = |version: &str| {
        accept.split(',').any(|one| {
            let one = one.replace(' ', "");
            let parts: Vec<&str> = one.split(';').collect();
            parts.contains(&"as=APIGroupDiscoveryList")
                && parts.contains(&format!("v={version}").as_str())
        })
    };
    ["v2", "v2beta1"].into_iter().find(|v| wants(v))
}

/// The groups, those of Kubernetes itself before those of definitions: a name that both have means the former for kubectl,
/// which takes the first.
fn groups(catalog: &Catalog) -> impl Iterator<Item = (String, Vec<String>)> {
    let natives = catalog.all().filter(|resource| resource.native);
    let mut natives: BTreeSet<String> = natives.map(|r| r.group.to_string()).collect();
    natives.extend(REVIEWS.iter().map(|(group, ..)| (*group).to_owned()));
    let own = |(group, versions): (std::sync::Arc<str>, Vec<std::sync::Arc<str>>)| {
        (
            group.to_string(),
            versions.iter().map(ToString::to_string).collect(),
        )
    };
    // Each group once.
    let reviews: BTreeSet<&str> = REVIEWS.iter().map(|(group, ..)| *group).collect();
    let reviews = reviews.into_iter();
    let reviews = reviews.map(|group| (group.to_owned(), vec!["v1".to_owned()]));
    let mut all: Vec<_> = catalog
        .groups()
        .into_iter()
        .map(own)
        .chain(reviews)
        .collect();
    all.sort_by(|(a, of_a), (b, of_b)| {
        let by = |group: &String| !natives.contains(group);
        (by(a), a, of_a).cmp(&(by(b), b, of_b))
    });
    all.into_iter()
}

fn group(name: &str, versions: &[String]) -> Value {
    let of = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    let all: Vec<Value> = versions.iter().map(of).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Result<Value, Failure> {
    let mut list = Vec::new();
    for resource in served(catalog, group, version) {
        list.push(json!({
            "name": &*resource.plural,
            "singularName": &*resource.singular,
            "namespaced": resource.namespaced,
            "kind": &*resource.kind,
            "verbs": VERBS,
            "shortNames": resource.short_names.iter().map(|s| &**s).collect::<Vec<_>>(),
            "categories": resource.categories.iter().map(|s| &**s).collect::<Vec<_>>(),
        }));
        if resource.has_status {
            list.push(json!({
                "name": format!("{}/status", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": &*resource.kind,
                "verbs": STATUS_VERBS,
            }));
        }
        if resource.is("", "serviceaccounts") {
            list.push(json!({
                "name": "serviceaccounts/token",
                "singularName": "",
                "namespaced": true,
                "group": "authentication.k8s.io",
                "version": "v1",
                "kind": "TokenRequest",
                "verbs": ["create"],
            }));
        }
    }
    if version == "v1" {
        for (of, kind, plural) in REVIEWS {
            if of == group {
                list.push(json!({"name": plural, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind, "verbs": ["create"]}));
            }
        }
    }
    if list.is_empty() {
        return Err(Failure::no_path());
    }
    let name = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": list}),
    )
}

fn served<'c>(
    catalog: &'c Catalog,
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'c Resource> {
    let (group, version) = (group.to_owned(), version.to_owned());
    let of = move |r: &&Resource| *r.group == *group && r.version(&version).is_some();
    catalog.all().map(|r| &**r).filter(of)
}

fn aggregated(catalog: &Catalog, core: bool, version: &str) -> Value {
    let items: Vec<Value> = groups(catalog)
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|v| {
                    let mut kinds: Vec<Value> = served(catalog, &name, v).map(|r| kind(r, &name, v)).collect();
                    for (of, kind, plural) in REVIEWS {
                        if of == name {
                            kinds.push(json!({"resource": plural, "responseKind": {"group": name, "version": v, "kind": kind},
                                "scope": "Cluster", "singularResource": kind.to_lowercase(), "verbs": ["create"]}));
                        }
                    }
                    json!({"version": v, "resources": kinds, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() { json!({"creationTimestamp": null}) } else { json!({"name": name, "creationTimestamp": null}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items})
}

fn kind(resource: &Resource, group: &str, version: &str) -> Value {
    let response = json!({"group": group, "version": version, "kind": &*resource.kind});
    let mut entry = json!({
        "resource": &*resource.plural,
        "responseKind": response,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": VERBS,
    });
    let list =
        |names: &[std::sync::Arc<str>]| names.iter().map(|n| Value::from(&**n)).collect::<Vec<_>>();
    if !resource.short_names.is_empty() {
        entry["shortNames"] = list(&resource.short_names).into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = list(&resource.categories).into();
    }
    if resource.has_status {
        entry["subresources"] =
            json!([{"subresource": "status", "responseKind": response, "verbs": STATUS_VERBS}]);
    }
    if resource.is("", "serviceaccounts") {
        let response =
            json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"});
        entry["subresources"] =
            json!([{"subresource": "token", "responseKind": response, "verbs": ["create"]}]);
    }
    entry
}
