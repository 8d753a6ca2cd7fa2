//! Lists.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::json;
use std::sync::Arc;

use super::{Api, Call, Response, body, output, table};
use crate::selector::Selector;
use crate::status::Failure;
use crate::store::{ObjectId, Stored};

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

/// Refuses revisions that are still to come, and those that cannot be had exactly.
fn check_revision(call: &Call<'_>, newest: u64) -> Result<(), Failure> {
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
            return Ok(());
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
    if matching == "Exact" {
        if revision == 0 {
            return Err(invalid(
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
        if revision != newest {
            return Err(Failure::expired(format!(
                "The provided resource version is too old to be listed exactly: {revision} (newest is {newest})"
            )));
        }
    }
    Ok(())
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
        let memory = self.store.read();
        let mut revision = memory.revision();
        let token = query.get("continue");
        let after = if token.is_empty() {
            check_revision(call, revision)?;
            None
        } else {
            let token = read_token(token)?;
            if memory.events_after(token.rv).is_none() {
                return Err(Failure::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
                ));
            }
            // Whoever watches from there learns what changed between the parts.
            revision = token.rv;
            Some(ObjectId::new(&token.namespace, &token.name))
        };
        let all = memory.list(
            call.resource.name(),
            call.namespace.as_deref(),
            after.as_ref(),
        );
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

fn read_token(token: &str) -> Result<Continue, Failure> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let read = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.ok_or_else(|| Failure::bad_request("continue key is not valid"))
}
