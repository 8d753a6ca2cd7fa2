//! The API of a cluster, over kube-rs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::WriteError;
use super::rest::{ApiRequest, Transport, answer, shortened};

/// What a place may cost its API and us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most requests at once; others wait, first come, first served.
    pub requests: usize,
    /// How long an answer may take, with the wait before.
    pub timeout: Duration,
    /// Most bytes of an answer: an object in etcd has 1.5 MiB at most, a page 100 of them.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 64,
            timeout: Duration::from_secs(10),
            answer_bytes: 32 << 20,
        }
    }
}

/// The API of a cluster.
#[derive(Clone)]
pub struct ClusterPlace {
    name: Arc<str>,
    client: Client,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// The resources that have been written, such as `configmaps`.
    written: Arc<Mutex<BTreeSet<String>>>,
}

impl fmt::Debug for ClusterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterPlace")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl ClusterPlace {
    /// The API that a client reaches, under a name for people.
    pub fn new(name: impl Into<Arc<str>>, client: Client, limits: Limits) -> Self {
        Self {
            name: name.into(),
            client,
            limits,
            slots: Arc::new(Semaphore::new(limits.requests)),
            written: Arc::default(),
        }
    }

    /// Logs the first write of each kind, so that an operator sees what this process changes in the cluster.
    fn note(&self, method: &Method, uri: &Uri) {
        let Some(resource) = written(method, uri) else {
            return;
        };
        let mut known = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(resource.clone()) {
            drop(known);
            tracing::info!(place = %self.name, %resource, path = uri.path(), "The first object of a kind is written.");
        }
    }

    async fn transmit(&self, asked: ApiRequest) -> Result<Value, WriteError> {
        match tokio::time::timeout(self.limits.timeout, self.answer_to(asked)).await {
            Ok(result) => result,
            Err(_) => Err(WriteError::Unavailable(format!(
                "no answer within {:?}",
                self.limits.timeout
            ))),
        }
    }

    async fn answer_to(&self, asked: ApiRequest) -> Result<Value, WriteError> {
        let unavailable = |why: String| WriteError::Unavailable(shortened(&why));
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|e| unavailable(e.to_string()))?;
        let (method, uri) = (asked.method.clone(), asked.uri.clone());
        let body = asked.body.map(|b| b.to_string().into_bytes());
        let request = Request::builder()
            .method(asked.method)
            .uri(asked.uri)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, asked.content)
            .body(Body::from(body.unwrap_or_default()))
            .map_err(|e| WriteError::Refused(e.to_string()))?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|e| unavailable(e.to_string()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), self.limits.answer_bytes)
            .collect()
            .await
            .map_err(|e| unavailable(format!("the answer cannot be read: {e}")))?;
        let result = answer(status, &body.to_bytes());
        if result.is_ok()
            && let Ok(uri) = uri.parse()
        {
            self.note(&method, &uri);
        }
        result
    }
}

/// The resource that a request changes, such as `configmaps` or `ingresses/status`; none where it only asks.
fn written(method: &Method, uri: &Uri) -> Option<String> {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let is_dry = uri.query().is_some_and(|query| query.contains("dryRun"));
    let mut path = uri.path().trim_start_matches('/').split('/');
    let group = match path.next()? {
        "api" => "",
        _ => path.next()?,
    };
    // Reviews are created, and kept by nobody.
    let is_review = ["authentication.k8s.io", "authorization.k8s.io"].contains(&group);
    if is_read || is_dry || is_review {
        return None;
    }
    let mut path = path.skip(1).peekable();
    // `namespaces/shop/secrets/web`, or `namespaces/shop` itself.
    let mut resource = path.next()?;
    if resource == "namespaces" {
        let _namespace = path.next();
        resource = path.next().unwrap_or(resource);
    }
    let _name = path.next();
    Some(match path.next() {
        Some(part) => format!("{resource}/{part}"),
        None => resource.to_owned(),
    })
}

impl Transport for ClusterPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&self, asked: ApiRequest) -> BoxFuture<'_, Result<Value, WriteError>> {
        Box::pin(self.transmit(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_told_from_questions() {
        let of = |method: Method, uri: &'static str| written(&method, &Uri::from_static(uri));
        let is = |resource: &str| Some(resource.to_owned());
        let secrets = "/api/v1/namespaces/shop/secrets";
        assert_eq!(of(Method::POST, secrets), is("secrets"));
        assert_eq!(of(Method::GET, secrets), None);
        assert_eq!(
            of(Method::POST, "/api/v1/namespaces/shop/secrets?dryRun=All"),
            None
        );
        assert_eq!(
            of(
                Method::PUT,
                "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web/status"
            ),
            is("ingresses/status")
        );
        assert_eq!(
            of(
                Method::PATCH,
                "/apis/gateway.networking.k8s.io/v1/gatewayclasses/istio"
            ),
            is("gatewayclasses")
        );
        assert_eq!(
            of(
                Method::POST,
                "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            ),
            None
        );
    }
}
