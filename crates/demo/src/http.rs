//! A small HTTP client: one connection, one request at a time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Method, Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client of one address that keeps its connection.
pub struct Client {
    address: SocketAddr,
    host: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// A client that has not connected yet; `host` goes into the header of that name.
    pub fn new(address: SocketAddr, host: impl Into<String>) -> Self {
        Self {
            address,
            host: host.into(),
            sender: None,
        }
    }

    /// Asks with GET.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, path, &[]).await
    }

    /// Asks. Connects again where the other side closed the connection after the answer before.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.send_body(method, path, headers, Bytes::new()).await
    }

    /// [`Client::send`] with a body.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub async fn send_body(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Reply> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into()))?;
        let result = tokio::time::timeout(PATIENCE, self.exchange(request)).await;
        let result =
            result.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {PATIENCE:?}")));
        if result.is_err() {
            self.sender = None;
        }
        result.with_context(|| format!("http://{}{path} at {}", self.host, self.address))
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Reply> {
        let mut kept = self.sender.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => {
                let stream = TcpStream::connect(self.address).await?;
                stream.set_nodelay(true)?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                sender
            }
        };
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        self.sender = Some(sender);
        Ok(Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }
}

/// Asks once.
///
/// # Errors
///
/// When there is no answer.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<Reply> {
    Client::new(address, address.to_string()).get(path).await
}
