//! Objects as debug pages show them, and which kinds of them there are.

use std::collections::BTreeMap;

use convert::status::Status;
use model::civil::timestamp;
use model::object::Meta;
use model::{Derived, Kind, Labels, ObjectKey, template};
use serde_json::{Value, json};
use store::Snapshot;

/// `/debug/configz`: objects in force, all or those of a kind, with the statuses that they get. Secrets are told by name only.
pub(super) fn objects(snapshot: &Snapshot, kind: Option<&str>, statuses: Vec<Status>) -> Value {
    let statuses = statuses.into_iter().map(|s| (s.object, s.status));
    let mut statuses: BTreeMap<ObjectKey, Value> = statuses.collect();
    Kind::ALL
        .iter()
        .filter(|of| kind.is_none_or(|kind| of.name() == kind))
        .flat_map(|kind| snapshot.tables.iter_any(*kind))
        .map(|object| {
            let meta = object.meta();
            let mut metadata = json!({
                "name": &*meta.name.name,
                "namespace": &*meta.name.namespace,
                "labels": written(&meta.labels),
                "annotations": annotations(object.key().kind, written(&meta.annotations)),
            });
            for (field, value) in [
                ("uid", &meta.uid),
                ("resourceVersion", &meta.resource_version),
            ] {
                if !value.is_empty() {
                    metadata[field] = (&**value).into();
                }
            }
            if meta.generation > 0 {
                metadata["generation"] = meta.generation.into();
            }
            if let Some(created) = meta.created.time() {
                metadata["creationTimestamp"] = timestamp(created.0).into();
            }
            let mut shown = json!({
                "kind": object.key().kind.name(),
                "apiVersion": object.key().kind.api_version(),
                "metadata": metadata,
                "spec": object.spec_json(),
                "origin": meta.origin.to_string(),
            });
            if let Some(status) = statuses.remove(&object.key()) {
                shown["status"] = status;
            }
            if let Some(cluster) = &meta.name.cluster {
                shown["cluster"] = cluster.as_str().into();
            }
            if let Some(made) = &meta.derived {
                shown["derived"] = derived(made, snapshot);
            }
            shown
        })
        .collect()
}

/// `/debug/resourcesz`: the kinds that are read, each in the version that is preferred.
pub(super) fn kinds() -> Value {
    let row = |kind: &Kind| {
        json!({
            "group": kind.group(), "version": kind.versions().first(), "kind": kind.name(),
        })
    };
    Kind::ALL.iter().map(row).collect()
}

/// AuthorizationPolicies by namespace, in the order of their names.
pub(super) fn policies(snapshot: &Snapshot) -> Value {
    let mut namespaces: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for policy in snapshot.tables.iter_any(Kind::AuthorizationPolicy) {
        let Meta {
            name,
            annotations: all,
            ..
        } = policy.meta();
        let shown = json!({
            "name": &*name.name,
            "namespace": &*name.namespace,
            "annotations": annotations(Kind::AuthorizationPolicy, written(all)),
            "spec": policy.spec_json(),
        });
        let of_namespace = namespaces.entry(name.namespace.to_string()).or_default();
        of_namespace.push(shown);
    }
    json!({
        "namespace_to_policies": namespaces,
        "root_namespace": snapshot.settings.mesh.root_namespace,
    })
}

/// `/debug/mcsz`: services that clusters export and import, by cluster, namespace and name.
pub(super) fn shared_services(snapshot: &Snapshot) -> Value {
    let own = &snapshot.settings.cluster;
    let key = |meta: &Meta| {
        let cluster = meta.name.cluster.as_ref().unwrap_or(own).clone();
        (cluster, meta.name.namespace.clone(), meta.name.name.clone())
    };
    // Whether it is exported, and the address of its import.
    let mut all: BTreeMap<_, (bool, Option<String>)> = BTreeMap::new();
    for export in snapshot.tables.service_exports.iter() {
        all.entry(key(&export.meta)).or_default().0 = true;
    }
    for import in snapshot.tables.service_imports.iter() {
        let address = import.spec.ips.first().map(ToString::to_string);
        all.entry(key(&import.meta)).or_default().1 = address;
    }
    let rows = all
        .into_iter()
        .map(|((cluster, namespace, name), (exported, address))| {
            json!({
                "Cluster": cluster.as_str(),
                "Namespace": &*namespace,
                "Name": &*name,
                "Exported": exported,
                "ClusterSetVIP": address.unwrap_or_default(),
            })
        });
    rows.collect()
}

/// Labels or annotations as their author has written them.
fn written(pairs: &Labels) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(k, v)| (k.to_string(), template::written(v).into_owned()))
        .collect()
}

/// Annotations as they are shown. kubectl keeps objects as they were applied in one, and so all that a Secret holds: of
/// Secrets, names alone are shown, and that one of no object.
fn annotations(kind: Kind, mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    all.remove("kubectl.kubernetes.io/last-applied-configuration");
    if kind == Kind::Secret {
        for value in all.values_mut() {
            *value = format!("({} bytes, redacted)", value.len());
        }
    }
    all
}

/// What an object was derived from.
fn derived(made: &Derived, snapshot: &Snapshot) -> Value {
    let from = made.from.iter().map(|key| {
        let mut shown = json!({
            "kind": key.kind.name(),
            "name": &*key.name.name,
            "namespace": &*key.name.namespace,
            "at": snapshot.place_of(key).map(|at| at.to_string()),
        });
        if let Some(cluster) = &key.name.cluster {
            shown["cluster"] = cluster.as_str().into();
        }
        shown
    });
    json!({ "by": made.by, "from": from.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use testkit::World;

    use super::*;

    #[test]
    fn annotations_of_a_secret_do_not_tell_what_it_holds() {
        let all = || {
            let pairs = [
                (
                    "kubectl.kubernetes.io/last-applied-configuration",
                    "{data: secret}",
                ),
                ("note", "secret"),
            ];
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        };
        let shown = annotations(Kind::Secret, all());
        assert_eq!(shown["note"], "(6 bytes, redacted)");
        assert_eq!(shown.len(), 1);
        let shown = annotations(Kind::ConfigMap, all());
        assert_eq!((shown.len(), shown["note"].as_str()), (1, "secret"));
    }

    const OBJECTS: &str = r#"
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy,
 metadata: {name: allow, namespace: shop, uid: u-1, resourceVersion: "43", generation: 2, annotations: {istio.io/dry-run: "true"}},
 spec: {action: ALLOW}}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: deny, namespace: istio-system}, spec: {action: DENY}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: web, namespace: shop}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: web, namespace: shop},
 spec: {type: ClusterSetIP, ips: [10.1.2.3], ports: [{port: 80}]}}
"#;

    #[test]
    fn objects_are_told_with_what_their_api_says_of_them() {
        let snapshot = World::of(OBJECTS).store.snapshot();
        let key = |name: &str| ObjectKey {
            kind: Kind::AuthorizationPolicy,
            name: model::ObjectName::new("shop", name),
        };
        let status = json!({ "observedGeneration": 2 });
        let statuses = vec![Status {
            object: key("allow"),
            status: status.clone(),
        }];
        let all = objects(&snapshot, Some("AuthorizationPolicy"), statuses);
        let all = all.as_array().unwrap();
        assert_eq!(all.len(), 2);
        let named = |name: &str| all.iter().find(|o| o["metadata"]["name"] == name).unwrap();
        let allow = &named("allow");
        assert_eq!(allow["metadata"]["uid"], "u-1");
        assert_eq!(allow["metadata"]["resourceVersion"], "43");
        assert_eq!(allow["metadata"]["generation"], 2);
        assert_eq!(allow["status"], status);
        assert!(named("deny")["metadata"].get("uid").is_none());
        assert!(named("deny").get("status").is_none());
    }

    #[test]
    fn policies_are_told_by_namespace() {
        let snapshot = World::of(OBJECTS).store.snapshot();
        let shown = policies(&snapshot);
        assert_eq!(shown["root_namespace"], "istio-system");
        let of_shop = &shown["namespace_to_policies"]["shop"];
        assert_eq!(of_shop[0]["name"], "allow");
        assert_eq!(of_shop[0]["annotations"]["istio.io/dry-run"], "true");
        assert_eq!(
            shown["namespace_to_policies"]["istio-system"][0]["spec"]["action"],
            "DENY"
        );
    }

    #[test]
    fn a_service_is_exported_and_imported() {
        let snapshot = World::of(OBJECTS).store.snapshot();
        let expected = json!([{
            "Cluster": "Kubernetes", "Namespace": "shop", "Name": "web", "Exported": true, "ClusterSetVIP": "10.1.2.3",
        }]);
        assert_eq!(shared_services(&snapshot), expected);
        let kinds = kinds();
        let has = |group: &str, kind: &str| {
            let mut all = kinds.as_array().unwrap().iter();
            all.any(|k| k["group"] == group && k["kind"] == kind && k["version"] == "v1")
        };
        assert!(
            has("networking.istio.io", "Gateway") && has("gateway.networking.k8s.io", "Gateway")
        );
    }
}
