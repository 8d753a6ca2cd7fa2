//! Lists.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;

use super::implied::with_implied;
use super::{Api, Call, Response, body, output, table};
use crate::selector::Selector;
use crate::status::Failure;
use crate::store::{ObjectId, Past, Stored};

/// Where the next part of a list starts.
#[derive(serde::Serialize, serde::Deserialize)]
struct Continue {
    /// The revision that the list says it is of: that of its first part.
    rv: u64,
    namespace: String,
    name: String,
}

/// A list, or a part of one.
pub(super) struct Listed {
    pub(super) revision: u64,
    pub(super) objects: Vec<Arc<Stored>>,
    next: Option<(Continue, Option<usize>)>,
}

/// The revision that is asked for exactly. Refuses those that are still to come, and those that are not known any more.
fn exact_revision(
    call: &Call<'_>,
    limit: usize,
    newest: u64,
    oldest: u64,
) -> Result<Option<u64>, Failure> {
    let query = &call.request.query;
    let (asked, matching) = (
        query.get("resourceVersion"),
        query.get("resourceVersionMatch"),
    );
    let invalid =
        |message: &str| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    match matching {
        "" | "NotOlderThan" | "Exact" => {}
        _ => {
            return Err(invalid(
                "resourceVersionMatch: Unsupported value: supported values: \"Exact\", \"NotOlderThan\"",
            ));
        }
    }
    if asked.is_empty() {
        if matching.is_empty() {
            return Ok(None);
        }
        return Err(invalid(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ));
    }
    let revision: u64 = asked.parse().map_err(|_| {
        Failure::bad_request(format!(
            "Invalid value: {asked:?}: resource version is no number"
        ))
    })?;
    if revision > newest {
        return Err(too_large(revision, newest));
    }
    if matching == "Exact" && revision == 0 {
        return Err(invalid(
            "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ));
    }
    // As clients that are older than the parameter mean it.
    let is_exact = matching == "Exact" || (matching.is_empty() && limit > 0 && revision > 0);
    if is_exact && revision < oldest {
        return Err(Failure::expired(format!(
            "The provided resource version is too old to be listed exactly: {revision} (oldest is {oldest})"
        )));
    }
    Ok(is_exact.then_some(revision))
}

/// 504: the revision is still to come.
pub(super) fn too_large(asked: u64, newest: u64) -> Failure {
    let message = format!("Too large resource version: {asked}, current: {newest}");
    let mut failure = Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
    failure.details = json!({"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
    failure
}

impl Api {
    pub(super) fn selector(call: &Call<'_>) -> Result<Selector, Failure> {
        let query = &call.request.query;
        Selector::parse(
            query.get("labelSelector"),
            query.get("fieldSelector"),
            &call.resource.plural,
            call.resource.native,
        )
    }

    pub(super) fn listed(&self, call: &Call<'_>) -> Result<Listed, Failure> {
        let selector = Self::selector(call)?;
        let query = &call.request.query;
        let limit: usize = match query.get("limit") {
            "" => 0,
            text => text
                .parse()
                .map_err(|_| Failure::bad_request("limit is no number"))?,
        };
        let (newest, oldest) = {
            let memory = self.store.read();
            (memory.revision(), memory.oldest())
        };
        let token = query.get("continue");
        let (exact, after) = if token.is_empty() {
            (exact_revision(call, limit, newest, oldest)?, None)
        } else {
            // Every part is of the moment of the first.
            let token = read_token(token)?;
            if token.rv < oldest {
                return Err(Failure::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
                ));
            }
            if token.rv > newest {
                return Err(Failure::bad_request("continue key is not valid"));
            }
            let after = ObjectId::new(&token.namespace, &token.name);
            (Some(token.rv), Some(after))
        };
        let name = call.resource.name();
        let (memory, past) = match exact {
            Some(revision) => {
                let past = self.store.past(name, revision);
                past.map_err(|e| Failure::internal(e.to_string()))?
            }
            None => (self.store.read(), Past::new()),
        };
        let revision = exact.unwrap_or_else(|| memory.revision());
        let namespace = call.namespace.as_deref();
        let all = as_of(
            memory.list(name, namespace, after.as_ref()),
            past.iter()
                .filter(|(id, _)| namespace.is_none_or(|n| *id.namespace == *n))
                .filter(|(id, _)| after.as_ref().is_none_or(|after| *id > after)),
        );
        let implied = self.implied.all(&memory, name, namespace, after.as_ref());
        let all = with_implied(all, &implied);
        let mut selected =
            all.filter(|(id, stored)| selector.is_empty() || selector.matches(id, stored));
        let mut objects = Vec::new();
        let mut last = None;
        for (id, stored) in selected.by_ref() {
            objects.push(stored.clone());
            if limit > 0 && objects.len() == limit {
                last = Some(id);
                break;
            }
        }
        let next = last.and_then(|id| {
            selected.next()?;
            // How many are left is told only where it costs nothing to say.
            let left = selector.is_empty().then(|| selected.count() + 1);
            let token = Continue {
                rv: revision,
                namespace: id.namespace.to_string(),
                name: id.name.to_string(),
            };
            Some((token, left))
        });
        Ok(Listed {
            revision,
            objects,
            next,
        })
    }

    pub(super) fn list(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let listed = self.listed(call)?;
        let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
        if let Some((token, left)) = &listed.next {
            let token = serde_json::to_vec(token).unwrap_or_default();
            metadata["continue"] = URL_SAFE_NO_PAD.encode(token).into();
            if let Some(left) = left {
                metadata["remainingItemCount"] = (*left).into();
            }
        }
        if let Some(form) = table::Form::asked(&call.request.accept) {
            let query = &call.request.query;
            let table = table::of(
                &listed.objects,
                &call.resource,
                &call.version,
                form,
                query,
                Some(metadata),
            );
            return Ok(body::json(StatusCode::OK, &table));
        }
        let size: usize = listed.objects.iter().map(|o| o.json.len() + 1).sum();
        let mut text = Vec::with_capacity(size + 256);
        let head = format!(
            "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{metadata},\"items\":[",
            call.resource.list_kind,
            call.resource.api_version(&call.version),
        );
        text.extend_from_slice(head.as_bytes());
        for (index, stored) in listed.objects.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&output(&call.resource, &call.version, stored));
        }
        text.extend_from_slice(b"]}");
        Ok(body::bytes(StatusCode::OK, text))
    }
}

/// What is now, with what was instead: both ordered by id.
fn as_of<'a>(
    now: impl Iterator<Item = (&'a ObjectId, &'a Arc<Stored>)>,
    past: impl Iterator<Item = (&'a ObjectId, &'a Option<Arc<Stored>>)>,
) -> impl Iterator<Item = (&'a ObjectId, &'a Arc<Stored>)> {
    let (mut now, mut past) = (now.peekable(), past.peekable());
    std::iter::from_fn(move || {
        loop {
            let Some((id, was)) = past.next_if(|(id, _)| now.peek().is_none_or(|(n, _)| id <= n))
            else {
                return now.next();
            };
            now.next_if(|(n, _)| *n == id);
            if let Some(was) = was {
                return Some((id, was));
            }
        }
    })
}

fn read_token(token: &str) -> Result<Continue, Failure> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.ok_or_else(|| Failure::bad_request("continue key is not valid"))
}
