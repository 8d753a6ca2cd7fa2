//! One connection over which requests go one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::HttpError;

/// How long connecting may take.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// What is read at once, and how large the headers of an answer may be. Each connection keeps so much.
const BUFFER: usize = 16 << 10;

/// A connection with what drives it. After an error it is of no use.
pub(crate) struct Connection {
    /// The server, as it is shown.
    pub(super) name: Arc<str>,
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

/// Connects to a server that is shown as `name`.
pub(super) async fn dial(to: impl ToSocketAddrs, name: &Arc<str>) -> Result<TcpStream, HttpError> {
    let failed = |error: String| HttpError::Connect(name.clone(), error);
    let stream = timeout(CONNECT, TcpStream::connect(to))
        .await
        .map_err(|_| failed(format!("nothing in {CONNECT:?}")))?
        .map_err(|error| failed(error.to_string()))?;
    // Requests are small, and each waits for its answer.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

impl Connection {
    /// Speaks HTTP over a stream.
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        name: Arc<str>,
    ) -> Result<Self, HttpError> {
        let broken = |error: hyper::Error| HttpError::Broken(name.clone(), error.to_string());
        let handshake = Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(broken)?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told.
            let _ = connection.await;
        });
        Ok(Self {
            name,
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    /// Whether another request may be sent.
    pub(super) async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, HttpError> {
        let sent = self.sender.send_request(request).await;
        sent.map_err(|error| HttpError::Broken(self.name.clone(), error.to_string()))
    }

    /// Reads at most `limit` bytes of an answer.
    pub(super) async fn body(&self, body: Incoming, limit: usize) -> Result<Bytes, HttpError> {
        whole(body, limit, &self.name).await
    }
}

/// Reads at most `limit` bytes of an answer of `name`.
pub(super) async fn whole(
    body: Incoming,
    limit: usize,
    name: &Arc<str>,
) -> Result<Bytes, HttpError> {
    let body = Limited::new(body, limit).collect().await;
    let body = body.map_err(|_| HttpError::TooLarge(name.clone(), limit))?;
    Ok(body.to_bytes())
}
