//! Webhooks that change and judge what is written, asked as kube-apiserver asks them.
//!
//! Who changes objects is asked in turn, before anything is checked; who judges them is asked at once, when everything else has
//! been. Nobody is asked about webhook configurations, nor about what the store does by itself: emptying a namespace, deleting
//! what an object owned, going back to an older revision. What is asked at once, and for how long, is bounded.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook, 1.36.

mod client;
mod hook;
mod review;
mod rule;
mod service;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fetch::web::guard::Guard;
use futures::future::join_all;
use http::StatusCode;
use ipnet::IpNet;
use model::special::LOOPBACK;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Api, Call, admit, heavy};
use crate::object::{new_uid, set_meta};
use crate::patch::{PatchKind, patch};
use crate::status::Failure;
use hook::{Hook, Hooks};
use review::Answer;
pub use service::{OwnService, Roots};

/// How long a request may take, the calls of all webhooks included.
pub(super) const PATIENCE: Duration = Duration::from_secs(34);
/// Calls at once.
const CALLS: usize = 64;
/// Calls that may be made or waited for at once; requests that need more get 429.
const WAITING: usize = 1_024;
/// The largest object that a patch may make.
const LARGEST_PATCHED: usize = 3 << 20;

/// What webhooks are asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A request as webhooks are asked about it.
pub(super) struct Asked<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) operation: Operation,
    /// What is stored.
    pub(super) old: Option<&'a Value>,
}

/// Which places webhooks may be at.
#[derive(Clone)]
pub struct Reach {
    guard: Guard,
    own: Option<OwnService>,
}

impl Reach {
    /// Loopback may be called, link-local addresses and the metadata services of clouds only where `allowed` has them. Calls of
    /// the control plane's `own` Service come here.
    pub fn new(allowed: &[IpNet], own: Option<OwnService>) -> Self {
        let loopback = LOOPBACK.iter().filter_map(|net| net.parse().ok());
        let allowed: Vec<IpNet> = loopback.chain(allowed.iter().copied()).collect();
        Self {
            guard: Guard::new(&[], &allowed),
            own,
        }
    }
}

/// The webhooks of an API, and the room for calls.
pub(super) struct Webhooks {
    hooks: Hooks,
    calls: Semaphore,
    waiting: Semaphore,
    reach: RwLock<Arc<Reach>>,
}

impl Webhooks {
    pub(super) fn new() -> Self {
        Self {
            hooks: Hooks::new(),
            calls: Semaphore::new(CALLS),
            waiting: Semaphore::new(WAITING),
            reach: RwLock::new(Arc::new(Reach::new(&[], None))),
        }
    }

    pub(super) fn set_reach(&self, reach: Reach) {
        *self.reach.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(reach);
    }

    fn reach(&self) -> Arc<Reach> {
        let reach = self.reach.read().unwrap_or_else(PoisonError::into_inner);
        reach.clone()
    }
}

/// Why a call did not say yes.
enum Fault {
    /// It did not come about; the failure policy counts.
    Calling(String),
    /// The webhook, or what it answered, does not let the request be.
    Refused(Failure),
}

impl Fault {
    /// The failure of the request, unless it goes on without the webhook.
    fn failure(self, hook: &Hook) -> Option<Failure> {
        match self {
            Self::Refused(failure) => Some(failure),
            Self::Calling(why) => {
                let why = format!("failed calling webhook {:?}: {why}", hook.name);
                tracing::warn!(ignored = hook.ignore, "{why}.");
                (!hook.ignore).then(|| internal(&why))
            }
        }
    }
}

/// 500 with its cause, as kube-apiserver says it.
fn internal(why: &str) -> Failure {
    let mut failure = Failure::internal(format!("Internal error occurred: {why}"));
    failure.details = json!({"causes": [{"message": why}]});
    failure
}

fn timed_out() -> Failure {
    let message = "Timeout: request did not complete within requested timeout";
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
}

/// Whether nobody is asked about objects of a kind: they say who is asked.
fn is_exempt(call: &Call<'_>) -> bool {
    let resource = &call.resource;
    *resource.group == *"admissionregistration.k8s.io"
}

impl Api {
    /// Says which places webhooks may be at.
    pub fn set_reach(&self, reach: Reach) {
        self.webhooks.set_reach(reach);
    }

    fn mutating(&self, call: &Call<'_>) -> Arc<[Arc<Hook>]> {
        match is_exempt(call) {
            true => Arc::new([]),
            false => self.webhooks.hooks.mutating(&self.store, &self.implied),
        }
    }

    /// Whether there are webhooks that might change an object.
    pub(super) fn has_mutating(&self, call: &Call<'_>) -> bool {
        !self.mutating(call).is_empty()
    }

    /// Has webhooks change an object; null where it is to be deleted. Returns whether any did.
    ///
    /// # Errors
    ///
    /// When one refuses the request, or cannot be called and must be.
    pub(super) async fn mutate(
        &self,
        asked: &Asked<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        let hooks = self.mutating(asked.call);
        let mut changed = false;
        // Webhooks that want to be asked again if one behind them changes the object, and those that have to be.
        let (mut asked_once, mut again) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..2 {
            let mut changed_now = false;
            for (index, hook) in hooks.iter().enumerate() {
                if round > 0 && !again.contains(&index) {
                    continue;
                }
                let Some(version) = hook.concerns(self, asked, object)? else {
                    continue;
                };
                let old = review::in_version(asked, asked.old_or_null(), version);
                let sent = review::in_version(asked, object, version);
                let asking = self.ask(hook, asked, version, (sent, old), true);
                let done = heavy::outside(asking).await;
                let patched = done.and_then(|answer| {
                    warnings.extend(answer.warnings);
                    apply(asked, hook, version, object, &answer.patch)
                });
                match patched {
                    Ok(true) => {
                        changed_now = true;
                        again.append(&mut asked_once);
                    }
                    Ok(false) => {}
                    Err(fault) => {
                        if let Some(failure) = fault.failure(hook) {
                            return Err(failure.with_warnings(warnings));
                        }
                        if asked.call.deadline <= Instant::now() {
                            return Err(timed_out());
                        }
                    }
                }
                if hook.again {
                    asked_once.insert(index);
                }
            }
            changed |= changed_now;
            if !changed_now {
                break;
            }
        }
        Ok(changed)
    }

    /// Has webhooks judge an object; null where it is to be deleted. Returns whether any was asked.
    ///
    /// # Errors
    ///
    /// When one refuses the request, or cannot be called and must be.
    pub(super) async fn judge(
        &self,
        asked: &Asked<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        if is_exempt(asked.call) {
            return Ok(false);
        }
        let hooks = self.webhooks.hooks.validating(&self.store, &self.implied);
        let mut concerned = Vec::new();
        for hook in hooks.iter() {
            if let Some(version) = hook.concerns(self, asked, object)? {
                concerned.push((hook, version));
            }
        }
        if concerned.is_empty() {
            return Ok(false);
        }
        let calls = concerned.iter().map(|(hook, version)| async move {
            let [object, old] = [object, asked.old_or_null()]
                .map(|value| review::in_version(asked, value, version));
            self.ask(hook, asked, version, (object, old), false).await
        });
        let mut first = None;
        let done = heavy::outside(join_all(calls)).await;
        for (done, (hook, _)) in done.into_iter().zip(&concerned) {
            let failure = match done {
                Ok(answer) => {
                    warnings.extend(answer.warnings);
                    None
                }
                Err(fault) => fault.failure(hook),
            };
            first = first.or(failure);
        }
        match first {
            Some(failure) => Err(failure.with_warnings(warnings)),
            None => Ok(true),
        }
    }

    /// Asks one webhook, whose answer allows the request. `objects`: what is to be stored, and what is.
    async fn ask(
        &self,
        hook: &Hook,
        asked: &Asked<'_>,
        version: &str,
        objects: (Value, Value),
        mutating: bool,
    ) -> Result<Answer, Fault> {
        if asked.call.dry_run && !hook.dry_runs {
            let message = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Fault::Refused(Failure::bad_request(message)));
        }
        let Some(review_version) = hook.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Fault::Calling(why.to_owned()));
        };
        let uid = new_uid().map_err(|e| Fault::Refused(Failure::internal(e.to_string())))?;
        let mut request = review::request(asked, &uid, version, &objects.0);
        (request["object"], request["oldObject"]) = objects;
        let review = review::review(review_version, request);
        let review = Bytes::from(review.to_string());
        let answer = self.call(hook, asked, review).await?;
        let answer = review::read(&answer, review_version, &uid, mutating);
        let mut answer = answer.map_err(Fault::Calling)?;
        if answer.allowed {
            return Ok(answer);
        }
        let warnings = std::mem::take(&mut answer.warnings);
        Err(Fault::Refused(
            answer.refusal(&hook.name).with_warnings(&warnings),
        ))
    }

    async fn call(&self, hook: &Hook, asked: &Asked<'_>, review: Bytes) -> Result<Bytes, Fault> {
        let webhooks = &self.webhooks;
        let _place = webhooks
            .waiting
            .try_acquire()
            .map_err(|_| Fault::Refused(Failure::too_many()))?;
        let left = asked
            .call
            .deadline
            .saturating_duration_since(Instant::now());
        let room = tokio::time::timeout(left, webhooks.calls.acquire()).await;
        let Ok(Ok(_room)) = room else {
            return Err(Fault::Refused(timed_out()));
        };
        let left = asked
            .call
            .deadline
            .saturating_duration_since(Instant::now());
        let patience = hook.timeout.min(left);
        let reach = webhooks.reach();
        let called = hook.client.call(&self.store, &reach, review, patience);
        called.await.map_err(Fault::Calling)
    }
}

/// Applies the patch of an answer; whether it changed anything.
fn apply(
    asked: &Asked<'_>,
    hook: &Hook,
    version: &str,
    object: &mut Value,
    operations: &Value,
) -> Result<bool, Fault> {
    let operations = match operations {
        Value::Null => return Ok(false),
        operations => operations,
    };
    let refused = |why: String| Fault::Refused(internal(&why));
    if object.is_null() {
        return Err(refused(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    }
    let mut patched = review::in_version(asked, object, version);
    patch(PatchKind::Json, &mut patched, operations, None).map_err(|e| {
        refused(format!(
            "the patch of webhook {:?} cannot be applied: {e}",
            hook.name
        ))
    })?;
    let own = &asked.call.version;
    let keeps_kind = patched["kind"] == object["kind"]
        && patched["apiVersion"] == asked.call.resource.api_version(version)
        && matches!(patched["metadata"], Value::Object(_) | Value::Null);
    if !patched.is_object() || !keeps_kind {
        let why = format!("webhook {:?} makes another kind of object of it", hook.name);
        return Err(refused(why));
    }
    if patched.to_string().len() > LARGEST_PATCHED {
        let why = format!(
            "webhook {:?} makes an object of more than {LARGEST_PATCHED} bytes",
            hook.name
        );
        return Err(refused(why));
    }
    patched["apiVersion"] = asked.call.resource.api_version(own).into();
    // Whose fields are whose was said before anybody was asked.
    match object["metadata"].get("managedFields") {
        Some(managed) => set_meta(&mut patched, "managedFields", managed.clone()),
        None => {
            crate::object::meta_mut(&mut patched).remove("managedFields");
        }
    }
    admit::form(asked.call, &mut patched);
    if patched == *object {
        return Ok(false);
    }
    *object = patched;
    Ok(true)
}
