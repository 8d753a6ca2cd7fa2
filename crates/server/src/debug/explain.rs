//! Which objects made a resource of a connected proxy, and which of its resources an object takes part in.
//!
//! What there is to try is tried away from the derive thread, over the snapshot that is served, in an engine that is
//! thrown away afterwards: one question at a time, and for a limited time.

use std::sync::Arc;
use std::time::Duration;

use ::explain::{Budget, Explainer, Target, type_of};
use apiserver::api::Query;
use http::StatusCode;
use mesh::view::ProxyKey;
use serde_json::Value;
use tokio::sync::Semaphore;
use xds::TypeUrl;

use super::over_xds::Rights;
use super::{PageError, connected};
use crate::http::Pages;

/// What is tried for one answer.
const BUDGET: Budget = Budget {
    objects: 100_000,
    time: Duration::from_secs(10),
};

/// Resources and parts of them that are explained at once.
const TARGETS: usize = 64;

/// Held by the question that is being answered.
static ASKING: Semaphore = Semaphore::const_new(1);

/// The page.
pub(super) async fn page(
    query: &str,
    pages: &Arc<Pages>,
    rights: &Rights,
) -> Result<Value, PageError> {
    let query = Query::parse(query);
    let bad = |message: &str| PageError::new(StatusCode::BAD_REQUEST, message);
    let proxy = query.get("proxyID");
    if proxy.is_empty() {
        let message =
            "which proxy? add ?proxyID=NAME.NAMESPACE; `pilothouse proxy-status` lists them";
        return Err(bad(message));
    }
    let ty = type_of(query.get("type"));
    if ty.is_none() && !query.has("object") {
        let message = "what? add &type=cluster|listener|route|endpoint|secret&name=NAME or &object=KIND/NAMESPACE/NAME";
        return Err(bad(message));
    }
    let parts = query.all("part").chain(std::iter::repeat(""));
    let targets = query.all("name").zip(parts).map(|(name, part)| Target {
        name: name.to_owned(),
        part: part.to_owned(),
    });
    let targets: Vec<Target> = targets.take(TARGETS).collect();
    let Ok(asking) = ASKING.try_acquire() else {
        let message = "another question is being answered; ask again";
        return Err(PageError::new(StatusCode::TOO_MANY_REQUESTS, message));
    };
    let (snapshot, node) = connected(pages, proxy, rights, |state, proxy| {
        (state.store().snapshot(), proxy.node)
    })
    .await?;
    let answer = tokio::task::spawn_blocking(move || {
        // Until it is answered, also if who asked is gone.
        let _asking = asking;
        let mut explainer = Explainer::new(snapshot, ProxyKey::new(node));
        match ty {
            Some(ty) => {
                let found = explainer.explain(ty, &targets, BUDGET);
                found.map(to_json).map_err(|unknown| unknown.to_string())
            }
            None => {
                let key = explainer.find_object(query.get("object"))?;
                let found = explainer.participation(&key, &TypeUrl::ALL);
                found
                    .map(to_json)
                    .ok_or_else(|| format!("there is no {key}"))
            }
        }
    });
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(message)) => Err(PageError::new(StatusCode::NOT_FOUND, message)),
        Err(_) => Err(PageError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "generation failed on what was tried",
        )),
    }
}

fn to_json(answer: impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
