//! Our own store, through the API in front of it: what we write is validated, audited and kept in its history like what
//! comes over HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apiserver::access::{MASTERS, Who};
use apiserver::api::{Api, Request};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::Value;

use writeback::place::{ApiRequest, MANAGER, Transport, WriteError, answer};

/// How long the store may take: a disk that hangs keeps nobody waiting for ever.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The API over our own store.
#[derive(Clone)]
pub struct EmbeddedPlace {
    api: Arc<Api>,
    who: Who,
}

impl fmt::Debug for EmbeddedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedPlace").finish_non_exhaustive()
    }
}

impl EmbeddedPlace {
    /// The store behind an API, written by the user `system:pilothouse`.
    pub fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            who: Who::new("system:pilothouse", &[MASTERS]),
        }
    }

    async fn transmit(&self, asked: ApiRequest) -> Result<Value, WriteError> {
        let mut request = Request::new(asked.method, &asked.uri, self.who.clone());
        request.user_agent = MANAGER.to_owned();
        if let Some(body) = asked.body {
            request = request.with_body(asked.content, body.to_string());
        }
        let done = async {
            let response = self.api.handle(request).await;
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|e| WriteError::Unavailable(e.to_string()))?;
            answer(status, &body.to_bytes())
        };
        tokio::time::timeout(TIMEOUT, done)
            .await
            .unwrap_or_else(|_| {
                Err(WriteError::Unavailable(format!(
                    "the store does not answer within {TIMEOUT:?}"
                )))
            })
    }
}

impl Transport for EmbeddedPlace {
    fn name(&self) -> &str {
        "the store of this server"
    }

    fn send(&self, asked: ApiRequest) -> BoxFuture<'_, Result<Value, WriteError>> {
        Box::pin(self.transmit(asked))
    }
}
