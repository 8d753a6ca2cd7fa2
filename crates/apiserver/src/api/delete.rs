//! Deleting objects, and what goes with them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::webhooks::{Asked, Operation};
use super::{Api, Call, Response, body, read_delete_options};
use crate::object::{is_terminating, meta, meta_list, meta_mut, now, set_meta};
use crate::status::Failure;
use crate::store::{Author, Expect, Op, Stored};

/// What a client says of a deletion, in the body or in the query.
#[derive(Clone, Debug, Default)]
struct Options {
    uid: String,
    revision: String,
    orphan: bool,
}

impl Options {
    fn read(call: &Call<'_>) -> Result<Self, Failure> {
        let mut options = Self::default();
        if !call.request.body.is_empty() {
            let body = read_delete_options(call.request)?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            options.uid = text(&body["preconditions"]["uid"]);
            options.revision = text(&body["preconditions"]["resourceVersion"]);
            options.orphan =
                body["propagationPolicy"] == "Orphan" || body["orphanDependents"] == true;
        }
        if call.request.query.get("propagationPolicy") == "Orphan" {
            options.orphan = true;
        }
        Ok(options)
    }
}

impl Api {
    pub(super) async fn delete(self: &Arc<Self>, call: &Call<'_>) -> Result<Response, Failure> {
        let options = Options::read(call)?;
        let name = call.name.as_deref().unwrap_or_default();
        let mut warnings = Vec::new();
        let (stored, gone) = loop {
            let Some(old) = self.stored(&call.resource, &call.id(name)) else {
                let found = self.deleted_unstored(call, name)?;
                self.renew_account(call, name).await?;
                break (found, true);
            };
            warnings.clear();
            match self.delete_one(call, &old, &options, &mut warnings).await {
                Err(failure)
                    if failure.reason == "Conflict"
                        && options.uid.is_empty()
                        && options.revision.is_empty() => {}
                other => break other?,
            }
        };
        let mut response = match gone {
            true => body::json(StatusCode::OK, &deleted(call, &stored)),
            false => body::bytes(StatusCode::OK, call.output(&stored)),
        };
        body::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Deletes an object, or asks those who have a say in it; whether it is gone.
    async fn delete_one(
        self: &Arc<Self>,
        call: &Call<'_>,
        old: &Arc<Stored>,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> Result<(Arc<Stored>, bool), Failure> {
        let mut object = old.value();
        let name = meta(&object, "name").to_owned();
        let uid = meta(&object, "uid").to_owned();
        if !options.uid.is_empty() && options.uid != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {uid}",
                options.uid
            );
            return Err(Failure::conflict(&call.resource, &name, &why));
        }
        if !options.revision.is_empty() && options.revision != old.revision.to_string() {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {}",
                options.revision, old.revision
            );
            return Err(Failure::conflict(&call.resource, &name, &why));
        }
        let is_namespace = call.resource.is("", "namespaces");
        if is_namespace && name == "default" {
            return Err(Failure::forbidden(
                &call.resource,
                &name,
                "this namespace may not be deleted",
            ));
        }
        let asked = Asked {
            call,
            operation: Operation::Delete,
            old: Some(&object),
        };
        self.mutate(&asked, &mut Value::Null, warnings).await?;
        self.judge(&asked, &Value::Null, warnings).await?;
        let waits = is_namespace || !meta_list(&object, "finalizers").is_empty();
        if !waits {
            let stored = self.remove(call, old).await?;
            if !call.dry_run {
                self.renew_account(call, &name).await?;
                self.release_dependents(&uid, options.orphan).await;
                let resource = &call.resource;
                if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
                    self.remove_objects_of(&object).await;
                }
            }
            return Ok((stored, true));
        }
        if is_terminating(&object) {
            return Ok((old.clone(), false));
        }
        set_meta(&mut object, "deletionTimestamp", now());
        set_meta(&mut object, "deletionGracePeriodSeconds", 0);
        if call.resource.has_generation {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            set_meta(&mut object, "generation", generation + 1);
        }
        if is_namespace {
            object["status"] = json!({"phase": "Terminating"});
        }
        if call.dry_run {
            return Ok((Arc::new(Stored::unsaved(&object)), false));
        }
        let op = Op {
            resource: call.resource.name().clone(),
            id: call.id(&name),
            expect: Expect::Revision(old.revision),
            put: Some(object),
        };
        let stored = self.write(call, op).await?;
        if is_namespace {
            self.finish_namespace(&name);
        }
        Ok((stored, false))
    }

    pub(super) async fn delete_collection(
        self: &Arc<Self>,
        call: &Call<'_>,
    ) -> Result<Response, Failure> {
        let options = Options::read(call)?;
        let listed = self.listed(call)?;
        let (mut items, mut warnings) = (Vec::new(), Vec::new());
        for old in &listed.objects {
            if self.expected(call, old) == Expect::Absent {
                continue;
            }
            match self.delete_one(call, old, &options, &mut warnings).await {
                Ok((stored, _)) => items.push(stored.value()),
                // Gone already, or changed since: whoever did that was first.
                Err(failure) if matches!(failure.reason, "NotFound" | "Conflict") => {}
                Err(failure) => return Err(failure),
            }
        }
        let list = json!({
            "kind": &*call.resource.list_kind,
            "apiVersion": call.resource.api_version(&call.version),
            "metadata": {"resourceVersion": listed.revision.to_string()},
            "items": items,
        });
        let mut response = body::json(StatusCode::OK, &list);
        body::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Deletes what the object that is gone owned alone, or lets it go on by itself.
    pub(super) async fn release_dependents(&self, uid: &str, orphan: bool) {
        let mut owners = vec![uid.to_owned()];
        while let Some(uid) = owners.pop() {
            let dependents: Vec<_> = {
                let memory = self.store.read();
                let keys = memory.dependents(&uid);
                keys.filter_map(|(r, id)| Some((r.clone(), id.clone(), memory.get(r, id)?.clone())))
                    .collect()
            };
            for (resource, id, stored) in dependents {
                let mut object = stored.value();
                let mut left = object["metadata"]["ownerReferences"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                left.retain(|owner| owner["uid"] != *uid);
                let goes = left.is_empty() && !orphan;
                let waits = goes && !meta_list(&object, "finalizers").is_empty();
                let own = meta(&object, "uid").to_owned();
                let put = if waits {
                    set_meta(&mut object, "deletionTimestamp", now());
                    Some(object)
                } else if goes {
                    owners.push(own);
                    None
                } else {
                    if left.is_empty() {
                        meta_mut(&mut object).remove("ownerReferences");
                    } else {
                        set_meta(&mut object, "ownerReferences", left);
                    }
                    Some(object)
                };
                let op = Op {
                    resource,
                    id,
                    expect: Expect::Revision(stored.revision),
                    put,
                };
                let author = Author {
                    user: "system:owner".into(),
                    manager: "pilothouse".into(),
                    verb: "delete".into(),
                };
                if let Err(error) = self.store.write(vec![op], author).await {
                    tracing::debug!(%error, "A dependent object changed while its owner was deleted.");
                }
            }
        }
    }

    /// Deletes the objects of a kind whose definition is gone.
    async fn remove_objects_of(&self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        // A kind that is built in is served without its definition.
        if self.catalog().find(&group, &plural).is_some() {
            return;
        }
        let resource = crate::store::ResourceName::new(&plural, &group);
        let all: Vec<_> = {
            let memory = self.store.read();
            memory
                .list(&resource, None, None)
                .map(|(id, s)| (id.clone(), s.revision))
                .collect()
        };
        for (id, revision) in all {
            let op = Op {
                resource: resource.clone(),
                id,
                expect: Expect::Revision(revision),
                put: None,
            };
            let author = Author {
                user: "system:definition".into(),
                manager: "pilothouse".into(),
                verb: "delete".into(),
            };
            if let Err(error) = self.store.write(vec![op], author).await {
                tracing::warn!(%error, "An object of a deleted kind could not be deleted.");
            }
        }
    }
}

fn deleted(call: &Call<'_>, stored: &Stored) -> Value {
    let object = stored.value();
    let mut details = json!({"name": meta(&object, "name"), "kind": &*call.resource.plural, "uid": meta(&object, "uid")});
    if !call.resource.group.is_empty() {
        details["group"] = (*call.resource.group).into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
