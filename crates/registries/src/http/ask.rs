//! Requests in the clear whose answers count whatever their status is.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, Method, Request, StatusCode};
use http_body_util::Full;
use tokio::time::timeout;

use super::HttpError;
use super::connection::{Connection, dial};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Default)]
pub(crate) struct Ask<'a> {
    /// The path with its query.
    pub(crate) target: &'a str,
    /// A form to post; without one it is a GET.
    pub(crate) form: Option<String>,
    /// Further headers.
    pub(crate) headers: &'a [(HeaderName, &'a str)],
}

impl Connection {
    /// Connects to `host:port`.
    pub(crate) async fn open(authority: &str) -> Result<Self, HttpError> {
        let name = authority.into();
        let stream = dial(authority, &name).await?;
        Self::over(stream, name).await
    }

    /// Asks, and reads at most `limit` bytes of the answer.
    pub(crate) async fn ask(
        &mut self,
        ask: Ask<'_>,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        let mut request = Request::builder()
            .uri(ask.target)
            .header(HOST, &*self.name)
            .header(ACCEPT, "*/*")
            .header(USER_AGENT, "pilothouse");
        for (name, value) in ask.headers {
            request = request.header(name, *value);
        }
        let request = match ask.form {
            Some(form) => request
                .method(Method::POST)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::from(form)),
            None => request.body(Full::default()),
        };
        let request = request.map_err(|_| HttpError::Path(ask.target.to_owned()))?;
        let name = self.name.clone();
        let exchange = async {
            self.is_open().await;
            let (head, body) = self.send(request).await?.into_parts();
            Ok((head.status, self.body(body, limit).await?))
        };
        let timed_out = |_| HttpError::TimedOut(name, PATIENCE);
        timeout(PATIENCE, exchange).await.map_err(timed_out)?
    }
}

/// Asks once, over a connection of its own.
pub(crate) async fn ask_once(
    authority: &str,
    ask: Ask<'_>,
    limit: usize,
) -> Result<(StatusCode, Bytes), HttpError> {
    Connection::open(authority).await?.ask(ask, limit).await
}
