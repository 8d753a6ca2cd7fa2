//! The history of the store over HTTP: `/pilothouse/history`, `at`, `diff`, `rollback`, `export` and `backup`.
//!
//! For those who may do everything: the ledger shows and changes objects of every namespace.

mod left;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::{Api, Body, Request, Response};
use crate::object::{is_terminating, meta, meta_mut, new_uid, now, set_meta, time_text};
use crate::resource::Resource;
use crate::status::Failure;
use crate::store::{Author, Expect, ObjectId, Op, ResourceName, StoreError, WriteError};
use disk::private::FolderDraft;

type Key = (ResourceName, ObjectId);

/// An object that differs, as it was at each of two revisions.
type Difference = (Key, Option<Value>, Option<Value>);

fn unreadable(error: StoreError) -> Failure {
    Failure::internal(error.to_string())
}

fn ok(value: &Value) -> Response {
    crate::api::json(StatusCode::OK, value)
}

/// Answers a request for the ledger.
pub(crate) async fn answer(
    api: &Arc<Api>,
    request: &Request,
    what: &str,
) -> Result<Response, Failure> {
    if api.access().allow_all(&request.who).is_err() {
        let message = format!("User {:?} may not use the ledger", request.who.name);
        return Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    let post = request.method == http::Method::POST;
    if post != (what == "rollback") {
        return Err(Failure::method_not_allowed());
    }
    match what {
        "history" => history(api, request),
        "at" => at(api, request),
        "diff" => diff(api, request),
        "export" => Ok(ok(&list(state_at(api, None)?))),
        "rollback" => rollback(api, request).await,
        "backup" => backup(api).await,
        _ => Err(Failure::no_path()),
    }
}

/// The object that a request names, if it names one.
fn object(api: &Api, request: &Request) -> Result<Option<(Arc<Resource>, ObjectId)>, Failure> {
    let query = &request.query;
    if query.get("resource").is_empty() {
        return Ok(None);
    }
    let catalog = api.catalog();
    let resource = catalog.by_name(query.get("resource")).ok_or_else(|| {
        Failure::bad_request(format!("no kind is called {:?}", query.get("resource")))
    })?;
    let namespace = match query.get("namespace") {
        _ if !resource.namespaced => "",
        "" => "default",
        namespace => namespace,
    };
    Ok(Some((
        resource.clone(),
        ObjectId::new(namespace, query.get("name")),
    )))
}

fn revision(api: &Api, request: &Request, field: &str) -> Result<u64, Failure> {
    let text = request.query.get(field);
    let newest = api.store().read().revision();
    if text.is_empty() {
        return Ok(newest);
    }
    let revision: u64 = text
        .parse()
        .map_err(|_| Failure::bad_request(format!("{field} is no revision: {text:?}")))?;
    let oldest = api.store().oldest();
    if revision < oldest {
        return Err(Failure::expired(format!(
            "revision {revision} is not kept any more; the oldest is {oldest}"
        )));
    }
    if revision > newest {
        return Err(Failure::bad_request(format!(
            "there is no revision {revision} yet; the newest is {newest}"
        )));
    }
    Ok(revision)
}

fn history(api: &Api, request: &Request) -> Result<Response, Failure> {
    let limit = match request.query.get("limit") {
        "" => 50,
        text => text
            .parse()
            .map_err(|_| Failure::bad_request("limit is no number"))?,
    };
    let object = object(api, request)?;
    let of = object.as_ref().map(|(resource, id)| (resource.name(), id));
    let records = api.store().history(of, limit).map_err(unreadable)?;
    let records: Vec<Value> = records
        .iter()
        .map(|r| {
            let change = match (r.deleted, r.before) {
                (true, _) => "deleted",
                (false, 0) => "created",
                (false, _) => "changed",
            };
            json!({
                "revision": r.revision, "time": time_text(r.time_ms / 1000), "change": change,
                "resource": r.resource.as_str(), "namespace": &*r.id.namespace, "name": &*r.id.name,
                "user": &*r.author.user, "manager": &*r.author.manager, "verb": &*r.author.verb,
            })
        })
        .collect();
    let newest = api.store().read().revision();
    Ok(ok(
        &json!({"newest": newest, "oldest": api.store().oldest(), "records": records}),
    ))
}

/// Every object as it was at a revision, or as it is.
fn state_at(api: &Api, revision: Option<u64>) -> Result<BTreeMap<Key, Value>, Failure> {
    let mut state: BTreeMap<Key, Value> = {
        let memory = api.store().read();
        let names: Vec<ResourceName> = memory.resources().map(|(name, _)| name.clone()).collect();
        let of = |name: &ResourceName| {
            let all = memory.list(name, None, None);
            all.map(|(id, s)| ((name.clone(), id.clone()), s.value()))
                .collect::<Vec<_>>()
        };
        names.iter().flat_map(of).collect()
    };
    if let Some(revision) = revision {
        for (key, version) in api.store().changed_since(revision).map_err(unreadable)? {
            match version.and_then(|v| v.json) {
                Some(json) => state.insert(key, serde_json::from_slice(&json).unwrap_or_default()),
                None => state.remove(&key),
            };
        }
    }
    Ok(state)
}

fn list(state: BTreeMap<Key, Value>) -> Value {
    let items: Vec<Value> = state.into_values().collect();
    json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
}

fn at(api: &Api, request: &Request) -> Result<Response, Failure> {
    let revision = revision(api, request, "revision")?;
    let Some((resource, id)) = object(api, request)? else {
        return Ok(ok(&list(state_at(api, Some(revision))?)));
    };
    let found = api
        .store()
        .at(resource.name(), &id, revision)
        .map_err(unreadable)?;
    let json = found.ok_or_else(|| Failure::not_found(&resource, &id.name))?;
    Ok(ok(&serde_json::from_slice(&json).unwrap_or_default()))
}

/// Objects that differ between two revisions, as they were at each.
fn differences(api: &Api, from: u64, to: u64) -> Result<Vec<Difference>, Failure> {
    let (older, newer) = (from.min(to), from.max(to));
    let value = |json: Option<bytes::Bytes>| {
        json.map(|j| serde_json::from_slice::<Value>(&j).unwrap_or_default())
    };
    let mut all = Vec::new();
    for (key, version) in api.store().changed_since(older).map_err(unreadable)? {
        let then = value(version.and_then(|v| v.json));
        let later = value(api.store().at(&key.0, &key.1, newer).map_err(unreadable)?);
        if then != later {
            all.push(if from <= to {
                (key, then, later)
            } else {
                (key, later, then)
            });
        }
    }
    Ok(all)
}

fn shown(changes: &[Difference]) -> Vec<Value> {
    let one = |((resource, id), from, to): &Difference| json!({"resource": resource.as_str(), "namespace": &*id.namespace, "name": &*id.name, "from": from, "to": to});
    changes.iter().map(one).collect()
}

fn diff(api: &Api, request: &Request) -> Result<Response, Failure> {
    let (from, to) = (
        revision(api, request, "from")?,
        revision(api, request, "to")?,
    );
    Ok(ok(
        &json!({"from": from, "to": to, "changes": shown(&differences(api, from, to)?)}),
    ))
}

/// Puts objects back as they were, as a new revision: one that is named, or all that are configuration.
async fn rollback(api: &Arc<Api>, request: &Request) -> Result<Response, Failure> {
    let dry_run = request.dry_run()?;
    let to = revision(api, request, "revision")?;
    let only = object(api, request)?;
    let newest = api.store().read().revision();
    let mut changes = differences(api, newest, to)?;
    changes.retain(|(_, now, then)| !now.iter().chain(then).any(is_terminating));
    let left = match &only {
        Some((resource, id)) => {
            changes.retain(|((r, i), ..)| r == resource.name() && i == id);
            Vec::new()
        }
        None => left::take_out(api, &mut changes, to)?,
    };
    let catalog = api.catalog();
    let mut ops = Vec::new();
    for (key, now, then) in &mut changes {
        let expect = match now {
            Some(now) => Expect::Revision(meta(now, "resourceVersion").parse().unwrap_or(0)),
            None => Expect::Absent,
        };
        if let Some(then) = then {
            restore(
                now.as_ref(),
                then,
                catalog.by_key(&key.0).is_some_and(|r| r.has_generation),
            )?;
        }
        ops.push(Op {
            resource: key.0.clone(),
            id: key.1.clone(),
            expect,
            put: then.clone(),
        });
    }
    let mut answer = json!({"to": to, "changes": shown(&changes), "left": left, "dryRun": true});
    if dry_run || ops.is_empty() {
        return Ok(ok(&answer));
    }
    let count = ops.len();
    let author = Author {
        user: request.who.name.clone(),
        manager: request.manager().into(),
        verb: "rollback".into(),
    };
    let written = api.store().write(ops, author).await;
    let written = written.map_err(|error| match error {
        WriteError::Changed(_) | WriteError::Exists(_) => Failure::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("nothing was rolled back: {error}"),
        ),
        _ => Failure::of_store(&error),
    })?;
    api.reload_definitions();
    tracing::info!(to, objects = count, user = %request.who.name, "Objects were rolled back.");
    answer["dryRun"] = false.into();
    answer["revision"] = written.last().map(|s| s.revision).into();
    Ok(ok(&answer))
}

/// Makes an older version of an object the next version of it.
fn restore(now_is: Option<&Value>, then: &mut Value, has_generation: bool) -> Result<(), Failure> {
    match now_is {
        Some(current) => {
            for field in ["uid", "creationTimestamp"] {
                set_meta(then, field, current["metadata"][field].clone());
            }
            if has_generation {
                let generation = current["metadata"]["generation"].as_i64().unwrap_or(0);
                set_meta(then, "generation", generation + 1);
            }
        }
        None => {
            let uid = new_uid().map_err(|e| Failure::internal(e.to_string()))?;
            set_meta(then, "uid", uid);
            set_meta(then, "creationTimestamp", now());
            if has_generation {
                set_meta(then, "generation", 1);
            }
        }
    }
    meta_mut(then).remove("resourceVersion");
    Ok(())
}

/// Sends a copy of the store, as one moment has it.
async fn backup(api: &Arc<Api>) -> Result<Response, Failure> {
    let store = api.store().clone();
    let failed =
        |e: &dyn std::fmt::Display| Failure::internal(format!("no backup could be made: {e}"));
    let copy = tokio::task::spawn_blocking(move || -> Result<std::fs::File, StoreError> {
        let draft = FolderDraft::begin(&store.folder().join("backup"));
        let folder = draft.map_err(StoreError::Folder)?;
        let path = folder.path().join("backup");
        store.backup(&path)?;
        // The name goes with the folder; the content stays as long as it is read.
        std::fs::File::open(&path).map_err(StoreError::Folder)
    });
    let file = copy
        .await
        .map_err(|e| failed(&e))?
        .map_err(|e| failed(&e))?;
    let (send, pieces) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut file = file;
        let mut chunk = vec![0; 256 << 10];
        while let Ok(n) = file.read(&mut chunk) {
            if n == 0
                || send
                    .blocking_send(bytes::Bytes::copy_from_slice(&chunk[..n]))
                    .is_err()
            {
                return;
            }
        }
    });
    Ok(http::Response::new(Body::Pieces(pieces)))
}
