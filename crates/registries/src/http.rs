//! Requests to registries over HTTP/1.1, with limits of time and size. Connections are kept and used again.

mod ask;
mod connection;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::Full;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

pub(crate) use ask::{Ask, ask_once};
use connection::CONNECT;
pub(crate) use connection::Connection;

/// Connections that are kept although nothing is asked over them.
const IDLE: usize = 16;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody takes connections.
    #[error("cannot connect to {0}: {1}")]
    Connect(Arc<str>, String),
    /// The certificate is not trusted, or there is no TLS.
    #[error("no TLS with {0}: {1}")]
    Tls(Arc<str>, String),
    /// The connection broke.
    #[error("no answer from {0}: {1}")]
    Broken(Arc<str>, String),
    /// Took too long.
    #[error("no answer from {0} in {1:?}")]
    TimedOut(Arc<str>, Duration),
    /// Larger than is read.
    #[error("the answer of {0} is larger than {1} bytes or was cut off")]
    TooLarge(Arc<str>, usize),
    /// What is asked makes no request.
    #[error("{0:?} is no path that can be asked for")]
    Path(String),
    /// Another status than success.
    #[error("{0} answered {1} to {2}")]
    Status(Arc<str>, StatusCode, String),
}

/// An answer with the status 200.
#[derive(Debug)]
pub struct Answer {
    /// Its headers.
    pub headers: HeaderMap,
    /// What it says.
    pub body: Bytes,
}

/// Where requests go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Over TLS, by the system's roots.
    pub tls: bool,
    /// A name or an address, an IPv6 address without brackets.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A client of one server. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    server: Server,
    name: Arc<str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    tls: OnceLock<TlsConnector>,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client that sends these headers with each request. It connects when it is asked something.
    pub fn new(server: Server, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        let name = server.to_string().into();
        Self(Arc::new(Shared {
            server,
            name,
            headers,
            tls: OnceLock::new(),
            idle: Mutex::default(),
        }))
    }

    /// The server, as it is shown.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Asks for a path with its query.
    ///
    /// # Errors
    ///
    /// When no answer with the status 200 comes within `time` and `limit` bytes.
    pub async fn get(&self, path: &str, time: Duration, limit: usize) -> Result<Answer, HttpError> {
        let asking = tokio::time::timeout(time, self.ask(path, limit));
        let timed_out = |_| HttpError::TimedOut(self.0.name.clone(), time);
        let answer = asking.await.map_err(timed_out).flatten();
        if !matches!(answer, Ok(_) | Err(HttpError::Status(..))) {
            // What lost this connection without a word has lost the others, too, and each would take as long to show it.
            self.0.forget();
        }
        answer
    }

    async fn ask(&self, path: &str, limit: usize) -> Result<Answer, HttpError> {
        let shared = &self.0;
        // One that was kept may have been closed meanwhile.
        while let Some(mut kept) = shared.take() {
            if !kept.is_open().await {
                continue;
            }
            match kept.send(self.request(path)?).await {
                Ok(response) => return self.answer(kept, response, path, limit).await,
                Err(_) => break,
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send(self.request(path)?).await?;
        self.answer(connection, response, path, limit).await
    }

    fn request(&self, path: &str) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::get(path)
            .header(HOST, &*self.0.name)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "pilothouse");
        for (name, value) in &self.0.headers {
            request = request.header(name, value);
        }
        let wrong = |_| HttpError::Path(path.to_owned());
        request.body(Full::default()).map_err(wrong)
    }

    async fn answer(
        &self,
        connection: Connection,
        response: http::Response<hyper::body::Incoming>,
        path: &str,
        limit: usize,
    ) -> Result<Answer, HttpError> {
        let name = &self.0.name;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let path = path.split('?').next().unwrap_or(path).to_owned();
            return Err(HttpError::Status(name.clone(), head.status, path));
        }
        let body = connection.body(body, limit).await?;
        self.0.keep(connection);
        Ok(Answer {
            headers: head.headers,
            body,
        })
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let Server { tls, host, port } = &self.0.server;
        let name = &self.0.name;
        let stream = connection::dial((&**host, *port), name).await?;
        if !tls {
            return Connection::over(stream, name.clone()).await;
        }
        let no_tls = |error: String| HttpError::Tls(name.clone(), error);
        let server = ServerName::try_from(host.to_string());
        let server = server.map_err(|error| no_tls(error.to_string()))?;
        let connecting = self.connector()?.connect(server, stream);
        let stream = tokio::time::timeout(CONNECT, connecting)
            .await
            .map_err(|_| no_tls(format!("nothing in {CONNECT:?}")))?
            .map_err(|error| no_tls(error.to_string()))?;
        Connection::over(stream, name.clone()).await
    }

    fn connector(&self) -> Result<&TlsConnector, HttpError> {
        if let Some(connector) = self.0.tls.get() {
            return Ok(connector);
        }
        let mut roots = RootCertStore::empty();
        // What cannot be read, others make up for; without any, every server is refused with a reason.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::Tls(self.0.name.clone(), error.to_string()))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Ok(self.0.tls.get_or_init(|| connector))
    }
}

impl Shared {
    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }

    fn forget(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
    }
}

/// A header with a secret, which does not show.
pub fn secret(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// The header of a user and a password.
pub fn basic(encoded: &str) -> Option<(HeaderName, HeaderValue)> {
    secret(AUTHORIZATION, &format!("Basic {encoded}"))
}

/// A text as a part of a path or of a query.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
