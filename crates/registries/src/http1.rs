//! Requests over HTTP/1, with limits of time and size.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How long connecting and each answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// Nobody takes connections.
    #[error("cannot connect to {0}")]
    Connect(String),
    /// The connection broke, or does not speak HTTP.
    #[error("no answer from {0}")]
    Broken(String),
    /// Too slow.
    #[error("no answer from {0} in time")]
    TimedOut(String),
    /// Too much.
    #[error("the answer of {0} is larger than {1} bytes or was cut off")]
    TooLarge(String, usize),
    /// Something of the request is no part of HTTP.
    #[error("a request to {0} cannot be written")]
    Unwritable(String),
}

/// A connection that is kept.
pub(crate) struct Connection {
    authority: String,
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

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
        let connect = async {
            let socket = TcpStream::connect(authority)
                .await
                .map_err(|_| HttpError::Connect(authority.to_owned()))?;
            http1::handshake(TokioIo::new(socket))
                .await
                .map_err(|_| HttpError::Broken(authority.to_owned()))
        };
        let (sender, connection) = timeout(PATIENCE, connect)
            .await
            .map_err(|_| HttpError::TimedOut(authority.to_owned()))??;
        let driver = tokio::spawn(async move {
            // Its error reaches whoever asks.
            let _ = connection.await;
        });
        Ok(Self {
            authority: authority.to_owned(),
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    /// Asks, and reads at most `limit` bytes of the answer. After an error the connection is of no use.
    pub(crate) async fn ask(
        &mut self,
        ask: Ask<'_>,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        let authority = &self.authority;
        let mut request = Request::builder()
            .uri(ask.target)
            .header(HOST, authority)
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
        let request = request.map_err(|_| HttpError::Unwritable(authority.clone()))?;
        let broken = |_| HttpError::Broken(authority.clone());
        let exchange = async {
            self.sender.ready().await.map_err(broken)?;
            let response = self.sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), limit).collect().await;
            let body = body.map_err(|_| HttpError::TooLarge(authority.clone(), limit))?;
            Ok((status, body.to_bytes()))
        };
        timeout(PATIENCE, exchange)
            .await
            .map_err(|_| HttpError::TimedOut(authority.clone()))?
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
