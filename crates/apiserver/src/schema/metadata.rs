//! The schema of `metadata`, which is the same for every kind.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// What is said of every object. Definitions of kinds may narrow names only.
// Kubernetes: apimachinery/pkg/apis/meta/v1/types.go, 1.36.
pub(crate) static OBJECT_META: LazyLock<Value> = LazyLock::new(object_meta);

fn object_meta() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let map = |about: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about});
    json!({"type": "object", "description": "What is said of every object.", "properties": {
        "name": text("Name, unique within kind and namespace."),
        "namespace": text("Namespace of the object."),
        "generateName": text("Beginning of a name that is made up where none is given."),
        "labels": map("Labels, by which objects are selected."),
        "annotations": map("Further notes, which nothing selects by."),
        "uid": text("Identity of the object, given once."),
        "resourceVersion": text("Revision in which the object was last written."),
        "generation": {"type": "integer", "format": "int64", "description": "Counts changes of what is wanted."},
        "creationTimestamp": {"type": "string", "format": "date-time", "description": "When the object was made."},
        "deletionTimestamp": {"type": "string", "format": "date-time", "description": "When its deletion was asked for."},
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64", "description": "Time to go."},
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
            "description": "Who has to agree before the object goes."},
        "ownerReferences": {"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "apiVersion": text("Version of the owner."), "kind": text("Kind of the owner."), "name": text("Name of the owner."), "uid": text("Identity of the owner."),
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"], "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
            "description": "Objects with which this one goes."},
        "managedFields": {"type": "array", "items": {"type": "object", "properties": {
                "manager": text("Who manages the fields."), "operation": text("How they came to be managed: Apply or Update."),
                "apiVersion": text("Version in which they were written."), "time": {"type": "string", "format": "date-time"},
                "fieldsType": text("Form of the fields."), "subresource": text("What of the object was written, where it was not all."),
                "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            "x-kubernetes-list-type": "atomic", "description": "Who manages which field."},
        "selfLink": text("Not used."),
    }})
}
