//! Requests to registries over HTTP, with limits of time and size. Connections are kept and used again; over TLS, where a
//! server speaks HTTP/2, many requests share one.

mod ask;
mod connection;
mod shared;

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
pub(crate) use shared::octets;
use shared::{Lent, Lines};

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
    lines: Lines,
}

/// A new connection.
enum Opened {
    Single(Connection),
    Lent(Lent),
}

/// What asking alone led to.
enum Asked {
    Answered(Answer),
    /// There is a connection that others use as well.
    Lent(Lent),
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
            lines: Lines::default(),
        }))
    }

    /// The server, as it is shown.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Whether many requests share a connection, as far as the server has answered yet.
    pub fn shares_connections(&self) -> bool {
        self.0.lines.is_any()
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
        let lent = match self.0.lines.lend() {
            Some(lent) => lent,
            // Boxed: connecting takes much more than to wait for an answer, as thousands do.
            None => match Box::pin(self.ask_alone(path, limit)).await? {
                Asked::Answered(answer) => return Ok(answer),
                Asked::Lent(lent) => lent,
            },
        };
        self.ask_over(lent, path, limit).await
    }

    /// Asks over a connection that nobody else uses, or opens one that others may.
    async fn ask_alone(&self, path: &str, limit: usize) -> Result<Asked, HttpError> {
        // One that was kept may have been closed meanwhile.
        while let Some(mut kept) = self.0.take() {
            if !kept.is_open().await {
                continue;
            }
            match kept.send(self.request(path)?).await {
                Ok(response) => return self.answer(kept, response, path, limit).await,
                Err(_) => break,
            }
        }
        match self.open().await? {
            Opened::Lent(lent) => Ok(Asked::Lent(lent)),
            Opened::Single(mut connection) => {
                let response = connection.send(self.request(path)?).await?;
                self.answer(connection, response, path, limit).await
            }
        }
    }

    /// Asks over a connection that others use as well.
    async fn ask_over(
        &self,
        mut lent: Lent,
        path: &str,
        limit: usize,
    ) -> Result<Answer, HttpError> {
        let name = &self.0.name;
        let answer = lent.send(self.shared_request(path)?, name)?.await;
        let answer = answer.map_err(|error| shared::broken(name, error))?;
        let (head, body) = answer.into_parts();
        self.succeeded(head.status, path)?;
        let body = shared::whole(body, limit, name).await?;
        Ok(Answer {
            headers: head.headers,
            body,
        })
    }

    fn shared_request(&self, path: &str) -> Result<Request<()>, HttpError> {
        let mut request = self.request(path)?.map(drop);
        let whole = format!("https://{}{path}", self.0.name).parse();
        *request.uri_mut() = whole.map_err(|_| HttpError::Path(path.to_owned()))?;
        request.headers_mut().remove(HOST);
        Ok(request)
    }

    fn succeeded(&self, status: StatusCode, path: &str) -> Result<(), HttpError> {
        if status == StatusCode::OK {
            return Ok(());
        }
        let path = path.split('?').next().unwrap_or(path).to_owned();
        Err(HttpError::Status(self.0.name.clone(), status, path))
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
    ) -> Result<Asked, HttpError> {
        let (head, body) = response.into_parts();
        self.succeeded(head.status, path)?;
        let body = connection.body(body, limit).await?;
        self.0.keep(connection);
        Ok(Asked::Answered(Answer {
            headers: head.headers,
            body,
        }))
    }

    async fn open(&self) -> Result<Opened, HttpError> {
        let Server { tls, host, port } = &self.0.server;
        let name = &self.0.name;
        if !tls {
            let stream = connection::dial((&**host, *port), name).await?;
            let connection = Connection::over(stream, name.clone()).await?;
            return Ok(Opened::Single(connection));
        }
        let lines = &self.0.lines;
        // One after the other: whoever waits may find room on the one that was opened meanwhile.
        let _turn = lines.turn().await;
        if let Some(lent) = lines.lend() {
            return Ok(Opened::Lent(lent));
        }
        let stream = connection::dial((&**host, *port), name).await?;
        let no_tls = |error: String| HttpError::Tls(name.clone(), error);
        let server = ServerName::try_from(host.to_string());
        let server = server.map_err(|error| no_tls(error.to_string()))?;
        let connecting = self.connector()?.connect(server, stream);
        let stream = tokio::time::timeout(CONNECT, connecting)
            .await
            .map_err(|_| no_tls(format!("nothing in {CONNECT:?}")))?
            .map_err(|error| no_tls(error.to_string()))?;
        if stream.get_ref().1.alpn_protocol() == Some(shared::PROTOCOL) {
            return Ok(Opened::Lent(lines.add(stream, name).await?));
        }
        let connection = Connection::over(stream, name.clone()).await?;
        Ok(Opened::Single(connection))
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
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![shared::PROTOCOL.to_vec(), b"http/1.1".to_vec()];
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
