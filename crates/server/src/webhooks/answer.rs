//! What is answered to each request.

use std::sync::Arc;
use std::time::Instant;

use admission::{Reason, Response, Review, judge};
use bytes::Bytes;
use http::StatusCode;

use super::injector::{Injector, Outcome};
use crate::http::Pages;
use crate::metrics::Metrics;

/// The body and status of an answer.
#[derive(Debug)]
pub struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn said(status: StatusCode, why: &str) -> Self {
        Self {
            status,
            body: format!("{why}\n").into_bytes(),
        }
    }

    fn review(asked: Option<&Review>, response: &Response) -> Self {
        Self {
            status: StatusCode::OK,
            body: Review::answer(asked, response),
        }
    }

    /// The status, and the body as text.
    pub fn into_parts(self) -> (StatusCode, String) {
        (
            self.status,
            String::from_utf8_lossy(&self.body).into_owned(),
        )
    }
}

/// What is served.
pub struct Service {
    metrics: Arc<Metrics>,
    injector: Arc<Injector>,
    /// Whether what was there at start is served.
    ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Service {
    /// Injection by an injector, and validation.
    pub fn new(
        metrics: Arc<Metrics>,
        injector: Arc<Injector>,
        ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            metrics,
            injector,
            ready: Box::new(ready),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        (self.ready)()
    }

    /// Answers a request that has no body that can be read.
    pub(super) fn no_body(&self, path: &str, status: StatusCode, why: &str) -> Answer {
        let metrics = &self.metrics.webhooks;
        if is_injection(path) {
            metrics.injections.inc();
            metrics.injection_failures.inc();
        } else {
            metrics
                .http_errors
                .with_label_values(&[status.as_str()])
                .inc();
        }
        tracing::info!(path, "A request of a webhook has no body: {why}.");
        Answer::said(status, why)
    }

    /// Waits a moment for what a request to this path needs, where it is not there yet.
    pub async fn settle(&self, path: &str) {
        if is_injection(path) {
            self.injector.settle().await;
        }
    }

    /// Answers a request to `/inject` or `/validate`, or below.
    pub async fn answer(self: &Arc<Self>, path: &str, content_type: &str, body: Bytes) -> Answer {
        if body.is_empty() {
            return self.no_body(path, StatusCode::BAD_REQUEST, "no body found");
        }
        if content_type.split(';').next().map(str::trim) != Some("application/json") {
            let why = "invalid Content-Type, want `application/json`";
            return self.no_body(path, StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
        }
        let (service, asked) = (self.clone(), path.to_owned());
        // Templates and rules may take a while; a panic is this request's alone.
        let work = move || match is_injection(&asked) {
            true => service.inject(&asked, &body),
            false => service.validate(&body),
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(_) => {
                self.metrics.internal_errors.inc();
                if is_injection(path) {
                    self.metrics.webhooks.injection_failures.inc();
                }
                tracing::error!(path, "A webhook panicked.");
                Answer::said(StatusCode::INTERNAL_SERVER_ERROR, "the webhook panicked")
            }
        }
    }

    fn validate(&self, body: &[u8]) -> Answer {
        let review = match Review::read(body) {
            Ok(review) => review,
            Err(fault) => {
                let why = format!("could not decode body: {fault}");
                return Answer::review(None, &Response::refused(why));
            }
        };
        let request = &review.request;
        let judgement = judge(request);
        let [group, version, resource] = request.resource.each_ref().map(String::as_str);
        let metrics = &self.metrics.webhooks;
        match judgement.reason {
            // What has no place in a label, a client could choose without end.
            _ if !is_known(group, resource) => {}
            Some(_) if request.dry_run => {}
            Some(reason) => metrics
                .failed
                .with_label_values(&[group, version, resource, reason.name()])
                .inc(),
            None => metrics
                .passed
                .with_label_values(&[group, version, resource])
                .inc(),
        }
        if judgement.reason == Some(Reason::Invalid) {
            let message = judgement.response.message.as_deref().unwrap_or_default();
            tracing::info!(
                kind = request.kind,
                namespace = request.namespace,
                name = request.name,
                dry_run = request.dry_run,
                "{message}"
            );
        }
        Answer::review(Some(&review), &judgement.response)
    }

    fn inject(&self, path: &str, body: &[u8]) -> Answer {
        let metrics = &self.metrics.webhooks;
        metrics.injections.inc();
        let begun = Instant::now();
        let answer = self.injected(path, body);
        metrics
            .injection_time
            .observe(begun.elapsed().as_secs_f64());
        if answer.status == StatusCode::OK {
            metrics.injected.inc();
        }
        answer
    }

    fn injected(&self, path: &str, body: &[u8]) -> Answer {
        let metrics = &self.metrics.webhooks;
        let failed = |asked: Option<&Review>, why: String| {
            metrics.injection_failures.inc();
            tracing::warn!(path, "A pod cannot be injected: {why}.");
            Answer::review(asked, &Response::refused(why))
        };
        let review = match Review::read(body) {
            Ok(review) => review,
            Err(fault) => return failed(None, fault.to_string()),
        };
        let request = &review.request;
        match self.injector.inject(request, path) {
            Outcome::Injected(response) => Answer::review(Some(&review), &response),
            Outcome::Skipped(response) => {
                metrics.injections_skipped.inc();
                Answer::review(Some(&review), &response)
            }
            Outcome::Refused(why) => failed(Some(&review), why),
            Outcome::NotConfigured(why) => {
                metrics.injection_failures.inc();
                tracing::warn!(path, "A pod cannot be injected: {why}.");
                Answer::said(StatusCode::SERVICE_UNAVAILABLE, &why)
            }
        }
    }
}

fn is_injection(path: &str) -> bool {
    path == "/inject" || path.starts_with("/inject/")
}

/// Whether a kind that is known has these names.
fn is_known(group: &str, resource: &str) -> bool {
    let mut kinds = model::Kind::ALL.iter();
    kinds.any(|kind| kind.group() == group && kind.plural() == resource)
}

/// Whether a server is ready, as its pages say.
pub(crate) fn readiness(pages: &Arc<Pages>) -> impl Fn() -> bool + Send + Sync + use<> {
    let pages = Arc::downgrade(pages);
    move || {
        let pages = pages.upgrade();
        pages.is_some_and(|pages| pages.ready.load(std::sync::atomic::Ordering::Acquire))
    }
}
