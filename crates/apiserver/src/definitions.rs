//! CustomResourceDefinitions of kinds that are built in, for clusters that have none of them.
//!
//! Names, versions and columns are those under which the API serves the kinds itself; schemas are those by which it
//! prunes, with the limits that validation has. The Gateway API and the Multi-Cluster Services API are installed from
//! their own releases, which several controllers of a cluster share: their kinds are not printed.

use std::sync::Arc;

use model::kinds::{Kind, Scope};
use serde_json::{Value, json};
use validate::written::constrain;

use crate::resource::{Column, Resource, Schemas, Shows, built_in};

/// What people say of whoever made a definition.
const MANAGER: &str = "pilothouse";

/// Kinds of which there are definitions, by group and name.
pub fn kinds() -> Vec<Kind> {
    let defined = |kind: &&Kind| {
        let group = kind.group();
        group.ends_with(".istio.io") || group.ends_with(".higress.io")
    };
    let mut kinds: Vec<Kind> = Kind::ALL.iter().filter(defined).copied().collect();
    kinds.sort_by_key(|kind| (kind.group(), kind.name()));
    kinds
}

/// The definitions of these kinds.
pub fn definitions(kinds: &[Kind]) -> Vec<Value> {
    let schemas = Schemas::of_model();
    let of = |kind: &Kind| definition(*kind, &built_in(*kind, &schemas));
    kinds.iter().map(of).collect()
}

/// The definitions of all kinds that Kubernetes does not have by itself, those of the Gateway API included.
pub(crate) fn of_all() -> Vec<Value> {
    let schemas = Schemas::of_model();
    let all = Kind::ALL
        .iter()
        .map(|kind| (*kind, built_in(*kind, &schemas)));
    all.filter(|(_, resource)| !resource.native)
        .map(|(kind, resource)| definition(kind, &resource))
        .collect()
}

fn definition(kind: Kind, resource: &Resource) -> Value {
    let mut categories = resource.categories.clone();
    let part: Arc<str> = kind.group().replace('.', "-").into();
    categories.push(part);
    let mut names = json!({
        "kind": resource.kind,
        "listKind": resource.list_kind,
        "plural": resource.plural,
        "singular": resource.singular,
        "categories": categories,
    });
    if !resource.short_names.is_empty() {
        names["shortNames"] = resource.short_names.iter().map(|n| json!(n)).collect();
    }
    let versions = resource.versions.iter().map(|version| {
        let mut schema = version
            .schema
            .as_deref()
            .cloned()
            .unwrap_or_else(|| json!({"type": "object"}));
        constrain(kind, &mut schema);
        let columns = version.columns.iter().filter_map(column);
        json!({
            "name": version.name,
            "served": true,
            "storage": version.name == resource.storage,
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns.collect::<Vec<_>>(),
            "schema": {"openAPIV3Schema": schema},
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", kind.plural(), kind.group()),
            "labels": {"app.kubernetes.io/part-of": MANAGER},
        },
        "spec": {
            "group": kind.group(),
            "names": names,
            "scope": match kind.scope() {
                Scope::Namespaced => "Namespaced",
                Scope::Cluster => "Cluster",
            },
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

/// A column by a path; what is computed has no place in a definition.
fn column(column: &Column) -> Option<Value> {
    let Shows::Path(path) = &column.shows else {
        return None;
    };
    Some(json!({"name": column.name, "type": column.kind, "jsonPath": path}))
}
