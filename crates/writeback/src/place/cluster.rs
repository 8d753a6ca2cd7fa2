//! The API of a cluster, over kube-rs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, header};
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
        answer(status, &body.to_bytes())
    }
}

impl Transport for ClusterPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&self, asked: ApiRequest) -> BoxFuture<'_, Result<Value, WriteError>> {
        Box::pin(self.transmit(asked))
    }
}
