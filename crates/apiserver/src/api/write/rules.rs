//! What an update may change and what it may not.

use serde_json::Value;

use crate::api::Call;
use crate::object::{map_mut, meta, meta_mut, set_meta};
use crate::resource::Resource;
use crate::schema::prune;
use crate::status::{Cause, Failure};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Refuses a write over another object than the one that is meant.
pub(super) fn check_identity(resource: &Resource, old: &Value, new: &Value) -> Result<(), Failure> {
    let name = meta(old, "name");
    let found = meta(new, "name");
    if found != name {
        let cause = Cause::invalid("metadata.name", &found.into(), "field is immutable");
        return Err(Failure::invalid(resource, name, vec![cause]));
    }
    let (uid, asked) = (meta(old, "uid"), meta(new, "uid"));
    if !asked.is_empty() && asked != uid {
        let why =
            format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}");
        return Err(Failure::conflict(resource, name, &why));
    }
    Ok(())
}

/// Keeps what an update may not change: what the API sets, and the part that is written apart.
pub(super) fn keep_parts(call: &Call<'_>, old: &Value, object: &mut Value) {
    if call.status_only {
        let status = object.get("status").cloned();
        let managed = object["metadata"]["managedFields"].clone();
        *object = old.clone();
        // Who writes a status is not told of unknown fields beside it that were stored before.
        prune(object, call.resource.schema(&call.version));
        let map = map_mut(object);
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
        if !managed.is_null() {
            set_meta(object, "managedFields", managed);
        }
    } else if call.resource.has_status {
        let map = map_mut(object);
        match old.get("status") {
            Some(status) => map.insert("status".to_owned(), status.clone()),
            None => map.remove("status"),
        };
    }
    const KEPT: [&str; 6] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ];
    for field in KEPT {
        match old["metadata"].get(field) {
            Some(value) => set_meta(object, field, value.clone()),
            None => {
                meta_mut(object).remove(field);
            }
        }
    }
    if call.resource.is("", "namespaces") && !call.finalize {
        object["spec"] = old["spec"].clone();
    }
}

/// Whether more than metadata and status differ.
pub(super) fn wanted_differs(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut map = object.as_object().cloned().unwrap_or_default();
        for field in ["metadata", "status", "apiVersion", "kind"] {
            map.remove(field);
        }
        map
    };
    rest(old) != rest(new)
}

/// Refuses changes of what may not change.
pub(super) fn check_immutable(
    resource: &Resource,
    old: &Value,
    new: &Value,
) -> Result<(), Failure> {
    let mut causes = Vec::new();
    let forbidden = |field: &str, message: &str| Cause {
        reason: "FieldValueForbidden",
        field: field.to_owned(),
        message: format!("Forbidden: {message}"),
    };
    if resource.is("", "configmaps") || resource.is("", "secrets") {
        if old["immutable"] == true {
            if new["immutable"] != true {
                causes.push(forbidden(
                    "immutable",
                    "field is immutable when `immutable` is set",
                ));
            }
            for field in ["data", "binaryData"] {
                if old[field] != new[field] {
                    causes.push(forbidden(
                        field,
                        "field is immutable when `immutable` is set",
                    ));
                }
            }
        }
        if resource.is("", "secrets") && old["type"] != new["type"] {
            causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
        }
    }
    let binds = resource.is(RBAC, "rolebindings") || resource.is(RBAC, "clusterrolebindings");
    if binds && old["roleRef"] != new["roleRef"] {
        let detail = "cannot change roleRef";
        causes.push(Cause::invalid("roleRef", &new["roleRef"], detail));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid(resource, meta(old, "name"), causes))
    }
}
