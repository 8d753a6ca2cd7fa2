//! Creating and changing objects.

mod rules;
mod storing;

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use rules::{check_identity, check_immutable, keep_parts, wanted_differs};

use super::sent::{Duplicates, Sent, validate_fields};
use super::webhooks::{Asked, Operation};
use super::{Api, Call, Response, admit};
use crate::apply::{self, Writer};
use crate::object::{
    is_terminating, map_mut, meta, meta_list, meta_mut, new_suffix, new_uid, now, set_meta,
};
use crate::patch::{PatchKind, patch};
use crate::resource::Resource;
use crate::schema::{prune, zero_nulls};
use crate::status::{Cause, Failure};
use crate::store::{Expect, ObjectId, Stored};

/// How often a patch is tried again over what others wrote meanwhile.
const TRIES: usize = 6;

/// How an update is to be understood.
struct Update<'o> {
    old: &'o Arc<Stored>,
    /// Managed fields are in the object already.
    applied: bool,
    /// The duplicate fields of the body that was sent.
    duplicates: &'o Duplicates,
}

impl Api {
    pub(super) async fn create(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let Sent {
            value: mut object,
            duplicates,
        } = Sent::read(call.request)?;
        self.check_shape(call, &mut object)?;
        let mut warnings = Vec::new();
        let stored = self
            .create_object(call, object, false, &duplicates, &mut warnings)
            .await?;
        Ok(self.written(call, StatusCode::CREATED, &stored, warnings))
    }

    /// Whether the body is an object of the kind and namespace that the path names.
    fn check_shape(&self, call: &Call<'_>, object: &mut Value) -> Result<(), Failure> {
        if !object.is_object() {
            return Err(Failure::bad_request("the body is no object"));
        }
        let wanted = (
            call.resource.api_version(&call.version),
            &*call.resource.kind,
        );
        for (field, wanted) in [("apiVersion", wanted.0.as_str()), ("kind", wanted.1)] {
            let found = object[field].as_str().unwrap_or_default().to_owned();
            if found.is_empty() {
                object[field] = wanted.into();
            } else if found != wanted {
                return Err(Failure::bad_request(format!(
                    "the {field} in the data ({found}) does not match the expected {field} ({wanted})"
                )));
            }
        }
        if !matches!(object["metadata"], Value::Object(_) | Value::Null) {
            return Err(Failure::bad_request("metadata is no object"));
        }
        let namespace = meta(object, "namespace").to_owned();
        match &call.namespace {
            Some(wanted) if namespace.is_empty() => set_meta(object, "namespace", wanted.as_str()),
            Some(wanted) if *wanted != namespace => {
                return Err(Failure::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            Some(_) => {}
            None if !namespace.is_empty() => {
                meta_mut(object).remove("namespace");
            }
            None => {}
        }
        if call.resource.native {
            zero_nulls(object, call.resource.schema(&call.version));
        }
        for field in ["labels", "annotations"] {
            // The metadata of every kind is read into the same types.
            let texts = object["metadata"]
                .get_mut(field)
                .and_then(Value::as_object_mut);
            let values = texts.into_iter().flat_map(|map| map.values_mut());
            values.filter(|v| v.is_null()).for_each(|v| *v = "".into());
        }
        Ok(())
    }

    async fn create_object(
        &self,
        call: &Call<'_>,
        mut object: Value,
        applied: bool,
        duplicates: &Duplicates,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Stored>, Failure> {
        let resource = &call.resource;
        if !meta(&object, "resourceVersion").is_empty() {
            return Err(Failure::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.check_namespace(call, meta(&object, "name"))?;
        let metadata = meta_mut(&mut object);
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
            "generation",
            "uid",
            "creationTimestamp",
        ] {
            metadata.remove(field);
        }
        if resource.has_status && !resource.native {
            map_mut(&mut object).remove("status");
        }
        admit::take_in(call, &mut object, duplicates, warnings)?;
        let time = now();
        let writer = writer(call, &time);
        let record = |object: &mut Value| {
            if !applied {
                let schema = resource.schema(&call.version);
                apply::record(None, object, schema, &writer.as_writer());
            }
        };
        let asked = Asked {
            call,
            operation: Operation::Create,
            old: None,
        };
        // Fields that webhooks add are nobody's.
        let recorded = self.has_mutating(call);
        if recorded {
            record(&mut object);
            if self.mutate(&asked, &mut object, warnings).await? {
                self.check_shape(call, &mut object)?;
            }
        }
        self.identify(call, &mut object, &time)?;
        admit::check(call, &object, None, self.further.get(), warnings)?;
        self.extend_definition(call, &mut object, None)?;
        if !recorded {
            record(&mut object);
        }
        let judged = self.judge(&asked, &object, warnings).await?;
        if recorded || judged {
            // It took a while.
            self.check_namespace(call, meta(&object, "name"))?;
            self.check_served(call)?;
        }
        self.fill_token(call, &mut object, warnings).await?;
        self.put(call, Expect::Absent, object).await
    }

    /// Gives a new object its name, where it has none yet, and its identity.
    fn identify(&self, call: &Call<'_>, object: &mut Value, time: &str) -> Result<(), Failure> {
        let internal = |e: getrandom::Error| Failure::internal(e.to_string());
        if meta(object, "name").is_empty() && !meta(object, "generateName").is_empty() {
            let mut start = meta(object, "generateName").to_owned();
            start.truncate(start.floor_char_boundary(58));
            set_meta(object, "name", start + &new_suffix().map_err(internal)?);
        }
        if meta(object, "name").is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(&call.resource, "", vec![cause]));
        }
        set_meta(object, "uid", new_uid().map_err(internal)?);
        set_meta(object, "creationTimestamp", time);
        if call.resource.has_generation {
            set_meta(object, "generation", 1);
        }
        Ok(())
    }

    /// Refuses to write objects of a kind that is not served any more.
    fn check_served(&self, call: &Call<'_>) -> Result<(), Failure> {
        let catalog = self.catalog();
        let found = catalog.find(&call.resource.group, &call.resource.plural);
        found.map(|_| ()).ok_or_else(Failure::no_path)
    }

    /// Refuses objects in namespaces that are not there, or are going.
    fn check_namespace(&self, call: &Call<'_>, name: &str) -> Result<(), Failure> {
        let Some(namespace) = &call.namespace else {
            return Ok(());
        };
        let catalog = self.catalog();
        let Some(namespaces) = catalog.find("", "namespaces") else {
            return Ok(());
        };
        let found = self
            .stored(namespaces, &ObjectId::new("", namespace))
            .ok_or_else(|| Failure::not_found(namespaces, namespace))?;
        if is_terminating(&found.value()) {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            return Err(Failure::forbidden(&call.resource, name, &why));
        }
        Ok(())
    }

    pub(super) async fn update(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let Sent {
            value: mut object,
            duplicates,
        } = Sent::read(call.request)?;
        self.check_shape(call, &mut object)?;
        let name = call.name.as_deref().unwrap_or_default();
        let found = meta(&object, "name");
        if found != name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({found}) does not match the name on the URL ({name})"
            )));
        }
        let mut warnings = Vec::new();
        let mut tries = 0;
        let stored = loop {
            let old = self
                .writable(&call.resource, &call.id(name))
                .ok_or_else(|| Failure::not_found(&call.resource, name))?;
            let asked = meta(&object, "resourceVersion");
            let conditional = !asked.is_empty();
            if !conditional && !call.resource.native {
                let cause = Cause {
                    reason: "FieldValueInvalid",
                    field: "metadata.resourceVersion".to_owned(),
                    message: "Invalid value: 0x0: must be specified for an update".to_owned(),
                };
                return Err(Failure::invalid(&call.resource, name, vec![cause]));
            }
            warnings.clear();
            let update = Update {
                old: &old,
                applied: false,
                duplicates: &duplicates,
            };
            match self
                .change(call, update, object.clone(), &mut warnings)
                .await
            {
                Err(failure) if failure.reason == "Conflict" && !conditional && tries < TRIES => {
                    tries += 1
                }
                other => break other?,
            }
        };
        Ok(self.written(call, StatusCode::OK, &stored, warnings))
    }

    pub(super) async fn patch(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let request = call.request;
        let kind = PatchKind::of_content_type(&request.content_type)
            .filter(|kind| *kind != PatchKind::Strategic || call.resource.native)
            .ok_or_else(|| {
                Failure::unsupported_media_type(&PatchKind::accepted(call.resource.native))
            })?;
        let sent = Sent::read(request)?;
        let force = request.query.flag("force");
        if kind == PatchKind::Apply && request.query.get("fieldManager").is_empty() {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Failure::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                message,
            ));
        }
        if kind != PatchKind::Apply && force {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
            return Err(Failure::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                message,
            ));
        }
        let mut warnings = Vec::new();
        let mut tries = 0;
        let (status, stored) = loop {
            warnings.clear();
            let done = if kind == PatchKind::Apply {
                self.apply_once(call, &sent, force, &mut warnings).await
            } else {
                self.patch_once(call, kind, &sent, &mut warnings).await
            };
            match done {
                Err(Retry::Again(_)) if tries < TRIES => tries += 1,
                Err(Retry::Again(failure) | Retry::No(failure)) => return Err(failure),
                Ok(done) => break done,
            }
        };
        Ok(self.written(call, status, &stored, warnings))
    }

    async fn patch_once(
        &self,
        call: &Call<'_>,
        kind: PatchKind,
        sent: &Sent,
        warnings: &mut Vec<String>,
    ) -> Result<(StatusCode, Arc<Stored>), Retry> {
        let name = call.name.as_deref().unwrap_or_default();
        let old = self
            .writable(&call.resource, &call.id(name))
            .ok_or_else(|| Failure::not_found(&call.resource, name))?;
        let schema = call.resource.schema(&call.version);
        let mut object = standing(call, &old);
        patch(kind, &mut object, &sent.value, schema)?;
        self.check_shape(call, &mut object)?;
        let conditional = meta(&object, "resourceVersion") != old.revision.to_string();
        let update = Update {
            old: &old,
            applied: false,
            duplicates: &sent.duplicates,
        };
        let done = self.change(call, update, object, warnings).await;
        done.map(|stored| (StatusCode::OK, stored))
            .map_err(|f| Retry::of(f, conditional))
    }

    async fn apply_once(
        &self,
        call: &Call<'_>,
        sent: &Sent,
        force: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(StatusCode, Arc<Stored>), Retry> {
        let name = call.name.as_deref().unwrap_or_default();
        let mut config = sent.value.clone();
        self.check_shape(call, &mut config)?;
        if meta(&config, "name").is_empty() {
            set_meta(&mut config, "name", name);
        }
        if meta(&config, "name") != name {
            let message = format!(
                "the name of the object ({}) does not match the name on the URL ({name})",
                meta(&config, "name")
            );
            return Err(Failure::bad_request(message).into());
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Failure::bad_request("metadata.managedFields must be nil").into());
        }
        let schema = call.resource.schema(&call.version);
        // Unknown fields are reported of the configuration, and belong to nobody.
        let unknown = prune(&mut config, schema);
        validate_fields(call, &sent.duplicates, &unknown, warnings)?;
        let reported = Duplicates::default();
        crate::object::meta_mut(&mut config).remove("creationTimestamp");
        if call.status_only {
            map_mut(&mut config).retain(|key, _| {
                matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status")
            });
        } else if call.resource.has_status && !call.resource.native {
            map_mut(&mut config).remove("status");
        }
        let time = now();
        let writer = writer(call, &time);
        let old = self.stored(&call.resource, &call.id(name));
        match old {
            None if call.status_only => Err(Failure::not_found(&call.resource, name).into()),
            None => {
                if !meta(&config, "uid").is_empty() || !meta(&config, "resourceVersion").is_empty()
                {
                    return Err(Failure::not_found(&call.resource, name).into());
                }
                let empty = json!({"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {"name": name}});
                let merged = apply::apply(&empty, &config, schema, &writer.as_writer(), force)?;
                let done = self
                    .create_object(call, merged, true, &reported, warnings)
                    .await;
                match done {
                    Err(failure) if failure.reason == "AlreadyExists" => Err(Retry::Again(failure)),
                    other => Ok((StatusCode::CREATED, other?)),
                }
            }
            Some(old) => {
                let live = standing(call, &old);
                let conditional = !meta(&config, "resourceVersion").is_empty();
                let merged = apply::apply(&live, &config, schema, &writer.as_writer(), force)?;
                let update = Update {
                    old: &old,
                    applied: true,
                    duplicates: &reported,
                };
                let done = self.change(call, update, merged, warnings).await;
                done.map(|stored| (StatusCode::OK, stored))
                    .map_err(|f| Retry::of(f, conditional))
            }
        }
    }

    /// Writes `object` over an older version of itself.
    async fn change(
        &self,
        call: &Call<'_>,
        update: Update<'_>,
        mut object: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Stored>, Failure> {
        let resource = &call.resource;
        let mut old = update.old.value();
        old["apiVersion"] = object["apiVersion"].clone();
        let name = meta(&old, "name").to_owned();
        check_identity(resource, &old, &object)?;
        let asked = meta(&object, "resourceVersion").to_owned();
        if !asked.is_empty() && asked != update.old.revision.to_string() {
            return Err(Failure::modified(resource, &name));
        }
        keep_parts(call, &old, &mut object);
        admit::take_in(call, &mut object, update.duplicates, warnings)?;
        let time = now();
        let writer = writer(call, &time);
        let record = |object: &mut Value| {
            if !update.applied {
                let schema = resource.schema(&call.version);
                apply::record(Some(&old), object, schema, &writer.as_writer());
            }
        };
        let asked = Asked {
            call,
            operation: Operation::Update,
            old: Some(&old),
        };
        let recorded = self.has_mutating(call);
        if recorded {
            record(&mut object);
            if self.mutate(&asked, &mut object, warnings).await? {
                self.check_shape(call, &mut object)?;
                check_identity(resource, &old, &object)?;
                keep_parts(call, &old, &mut object);
            }
        }
        check_finalizers(resource, &old, &object)?;
        admit::check(call, &object, Some(&old), self.further.get(), warnings)?;
        check_immutable(resource, &old, &object)?;
        if resource.has_generation && wanted_differs(&old, &object) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            set_meta(&mut object, "generation", generation + 1);
        }
        self.extend_definition(call, &mut object, Some(&old))?;
        if !recorded {
            record(&mut object);
        }
        set_meta(
            &mut object,
            "resourceVersion",
            update.old.revision.to_string(),
        );
        self.judge(&asked, &object, warnings).await?;
        self.fill_token(call, &mut object, warnings).await?;
        if object == old {
            return Ok(update.old.clone());
        }
        let goes = is_terminating(&object) && meta_list(&object, "finalizers").is_empty();
        let namespace_goes = !resource.is("", "namespaces")
            || object["spec"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty);
        if goes && namespace_goes {
            return self.remove(call, update.old).await;
        }
        let expect = self.expected(call, update.old);
        self.put(call, expect, object).await
    }
}

/// An object as a patch finds it: in the version of the call and without fields that are not known, which an older program or an
/// older definition may have let in. They are not the client's fault, and are not reported.
fn standing(call: &Call<'_>, old: &Stored) -> Value {
    let mut object = old.value();
    object["apiVersion"] = call.resource.api_version(&call.version).into();
    prune(&mut object, call.resource.schema(&call.version));
    object
}

/// An object that is being deleted gets no new finalizers.
fn check_finalizers(resource: &Resource, old: &Value, object: &Value) -> Result<(), Failure> {
    if !is_terminating(old) {
        return Ok(());
    }
    let before = meta_list(old, "finalizers");
    let added: Vec<Value> = meta_list(object, "finalizers")
        .iter()
        .filter(|f| !before.contains(f))
        .map(|f| (*f).into())
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let cause = Cause {
        reason: "FieldValueForbidden",
        field: "metadata.finalizers".to_owned(),
        message: format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {}",
            Value::from(added)
        ),
    };
    Err(Failure::invalid(resource, meta(old, "name"), vec![cause]))
}

/// Whether a failed change is worth another try.
enum Retry {
    Again(Failure),
    No(Failure),
}

impl Retry {
    /// A change that others came before is tried again, unless the client said over which version it writes.
    fn of(failure: Failure, conditional: bool) -> Self {
        if failure.reason == "Conflict" && failure.code == StatusCode::CONFLICT && !conditional {
            Self::Again(failure)
        } else {
            Self::No(failure)
        }
    }
}

impl From<Failure> for Retry {
    fn from(failure: Failure) -> Self {
        Self::No(failure)
    }
}

/// Who writes, with what it takes to say so.
struct OwnedWriter<'c> {
    manager: &'c str,
    api_version: String,
    subresource: &'static str,
    time: &'c str,
}

impl OwnedWriter<'_> {
    fn as_writer(&self) -> Writer<'_> {
        Writer {
            manager: self.manager,
            api_version: &self.api_version,
            subresource: self.subresource,
            time: self.time,
        }
    }
}

fn writer<'c>(call: &'c Call<'_>, time: &'c str) -> OwnedWriter<'c> {
    OwnedWriter {
        manager: call.request.manager(),
        api_version: call.resource.api_version(&call.version),
        subresource: if call.status_only { "status" } else { "" },
        time,
    }
}
