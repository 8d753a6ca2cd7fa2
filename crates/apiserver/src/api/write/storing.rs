//! What is decided goes into the store; a definition also into the catalog of what is served.

use std::sync::Arc;

use http::StatusCode;
use model::object::{ObjectKey, ObjectName};
use serde_json::{Value, json};

use crate::api::{Api, Call, Response, body};
use crate::object::{map_mut, meta};
use crate::resource::definition;
use crate::status::Failure;
use crate::store::{Author, Expect, ObjectId, Op, Stored, WriteError};

/// The largest object that is stored, as etcd's default.
const LARGEST_OBJECT: usize = 1_572_864;

impl Api {
    /// A definition that is stored is served: its names and schema are taken up, and its status says so. `old` is what it
    /// is to replace.
    pub(super) fn extend_definition(
        &self,
        call: &Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        if !defines(call) {
            return Ok(());
        }
        let mut causes = definition::faults(object, old);
        causes.extend(definition::taken(object, &self.catalog()));
        let status = crate::resource::conditions_of(object);
        let spec = map_mut(&mut object["spec"]);
        spec.insert("names".to_owned(), status["acceptedNames"].clone());
        spec.entry("conversion")
            .or_insert(json!({"strategy": "None"}));
        object["status"] = status;
        if let Some(old) = old {
            causes.extend(definition::change_faults(old, object));
        }
        if causes.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid(
            &call.resource,
            meta(object, "name"),
            causes,
        ))
    }

    /// The answer to a write that was done.
    pub(super) fn written(
        &self,
        call: &Call<'_>,
        status: StatusCode,
        stored: &Stored,
        mut warnings: Vec<String>,
    ) -> Response {
        if let (Some(kind), Some(elsewhere)) = (call.resource.model, self.elsewhere.get()) {
            let object = stored.value();
            let namespace = call.namespace.as_deref().unwrap_or_default();
            let name = ObjectName::new(namespace, meta(&object, "name"));
            if let Some(other) = elsewhere(&ObjectKey { kind, name }) {
                warnings.push(format!(
                    "this object is stored and not used: {other} has it as well, and is used in its place"
                ));
            }
        }
        let mut response = body::bytes(status, call.output(stored));
        body::warn(&mut response, &warnings);
        response
    }

    /// Writes an object, unless it is only tried.
    pub(super) async fn put(
        &self,
        call: &Call<'_>,
        expect: Expect,
        mut object: Value,
    ) -> Result<Arc<Stored>, Failure> {
        object["apiVersion"] = call.resource.api_version(&call.resource.storage).into();
        let size = object.to_string().len();
        if size > LARGEST_OBJECT {
            let message =
                format!("the object has {size} bytes, and at most {LARGEST_OBJECT} are stored");
            return Err(Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                message,
            ));
        }
        let name = meta(&object, "name").to_owned();
        let id = call.id(&name);
        if call.dry_run {
            self.check_expected(call, &id, expect)?;
            return Ok(Arc::new(Stored::unsaved(&object)));
        }
        let op = Op {
            resource: call.resource.name().clone(),
            id,
            expect,
            put: Some(object),
        };
        let stored = self.write(call, op).await?;
        if defines(call) {
            self.change_catalog(|catalog| catalog.define(&stored.value()));
        }
        Ok(stored)
    }

    fn check_expected(
        &self,
        call: &Call<'_>,
        id: &ObjectId,
        expect: Expect,
    ) -> Result<(), Failure> {
        match (expect, self.stored(&call.resource, id)) {
            (Expect::Absent, Some(_)) => Err(Failure::already_exists(&call.resource, &id.name)),
            (Expect::Revision(wanted), found)
                if found.as_ref().is_none_or(|f| f.revision != wanted) =>
            {
                Err(Failure::modified(&call.resource, &id.name))
            }
            _ => Ok(()),
        }
    }

    /// Takes an object out of the store, unless it is only tried.
    pub(in crate::api) async fn remove(
        &self,
        call: &Call<'_>,
        old: &Arc<Stored>,
    ) -> Result<Arc<Stored>, Failure> {
        let value = old.value();
        let id = ObjectId::new(meta(&value, "namespace"), meta(&value, "name"));
        if call.dry_run {
            return Ok(old.clone());
        }
        let op = Op {
            resource: call.resource.name().clone(),
            id,
            expect: Expect::Revision(old.revision),
            put: None,
        };
        let stored = self.write(call, op).await?;
        if defines(call) {
            let spec = &value["spec"];
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
            self.change_catalog(|catalog| catalog.forget(&group, &plural));
        }
        Ok(stored)
    }

    pub(in crate::api) async fn write(
        &self,
        call: &Call<'_>,
        op: Op,
    ) -> Result<Arc<Stored>, Failure> {
        let name = op.id.name.clone();
        let author = Author {
            user: call.who().name.clone(),
            manager: call.request.manager().into(),
            verb: call.request.method.as_str().to_ascii_lowercase().into(),
        };
        match self.store.write(vec![op], author).await {
            Ok(stored) => stored
                .into_iter()
                .next()
                .ok_or_else(|| Failure::internal("the store wrote nothing")),
            Err(WriteError::Exists(_)) => Err(Failure::already_exists(&call.resource, &name)),
            Err(WriteError::Changed(_)) => Err(Failure::modified(&call.resource, &name)),
            Err(error) => Err(Failure::of_store(&error)),
        }
    }
}

/// Whether the call is about definitions of kinds.
fn defines(call: &Call<'_>) -> bool {
    call.resource
        .is("apiextensions.k8s.io", "customresourcedefinitions")
}
