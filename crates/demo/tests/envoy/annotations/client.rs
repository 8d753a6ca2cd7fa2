//! How requests of cases are sent: each over a connection of its own, from the address that it names.
//!
//! `get`, `post`, ... is the method with the path. Beside it a request has `host`, `headers`, `body` or `length` (of a body of `x`),
//! `chunked`, `from` (the end of the client's address), `tls` (`true`, or `{cert, newest}`), and `http2`.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use demo::shop::Block;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Frame};
use hyper::{HeaderMap, Method, Request, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, version};

use super::world::Certificates;
use crate::rotation::Anyone;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The ports of the gateway, and what clients have.
pub(super) struct Door {
    pub(super) block: Block,
    pub(super) plain: u16,
    pub(super) tls: u16,
    pub(super) certificates: Certificates,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) took: Duration,
    /// The version of TLS, and the cipher.
    pub(super) version: Option<String>,
    pub(super) cipher: Option<String>,
}

impl Door {
    /// Whether both ports are served.
    pub(super) async fn is_open(&self) -> bool {
        for tls in [false, true] {
            let request = json!({"get": "/", "tls": tls});
            match self.send(&request, "door.test", "door", None).await {
                Ok(answer) if answer.status == 200 => {}
                _ => return false,
            }
        }
        true
    }

    /// Sends a request; `host` is asked unless it names another.
    pub(super) async fn send(
        &self,
        request: &Value,
        host: &str,
        id: &str,
        cookie: Option<&str>,
    ) -> anyhow::Result<Answer> {
        tokio::time::timeout(PATIENCE, self.exchange(request, host, id, cookie))
            .await
            .context("no answer in time")?
    }

    async fn exchange(
        &self,
        request: &Value,
        host: &str,
        id: &str,
        cookie: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let host = request["host"].as_str().unwrap_or(host);
        let is_tls = request["tls"].is_object() || request["tls"] == true;
        let is_http2 = request["http2"] == true;
        let IpAddr::V4(gateway) = self.block.gateway().ip() else {
            anyhow::bail!("the gateway has no IPv4 address");
        };
        let from = request["from"].as_str().unwrap_or("30.1");
        let (third, fourth) = from.split_once('.').context("from")?;
        let from = Ipv4Addr::new(127, gateway.octets()[1], third.parse()?, fourth.parse()?);
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        let port = if is_tls { self.tls } else { self.plain };
        let stream = socket.connect(SocketAddr::from((gateway, port))).await?;
        stream.set_nodelay(true)?;
        let sent = Sent {
            request,
            host,
            id,
            cookie,
            is_http2,
        };
        let start = Instant::now();
        let mut answer = match is_tls {
            false => sent.over(stream).await?,
            true => {
                let stream = self
                    .secured(stream, &request["tls"], host, is_http2)
                    .await?;
                let session = stream.get_ref().1;
                let version = session.protocol_version().map(|v| format!("{v:?}"));
                let cipher = session
                    .negotiated_cipher_suite()
                    .map(|c| format!("{:?}", c.suite()));
                let answer = sent.over(stream).await?;
                Answer {
                    version,
                    cipher,
                    ..answer
                }
            }
        };
        answer.took = start.elapsed();
        Ok(answer)
    }

    async fn secured(
        &self,
        stream: TcpStream,
        stated: &Value,
        host: &str,
        is_http2: bool,
    ) -> anyhow::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = match stated["newest"].as_str() {
            Some("1.2") => &[&version::TLS12][..],
            _ => &[&version::TLS12, &version::TLS13][..],
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
        let pair = match stated["cert"].as_str() {
            Some("client") => Some(&self.certificates.client),
            Some("stranger") => Some(&self.certificates.stranger),
            _ => None,
        };
        let mut config = match pair {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::from_pem_slice(pair.chain.as_bytes())?;
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
                config.with_client_auth_cert(vec![chain], key)?
            }
        };
        let protocol: &[u8] = if is_http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?)
    }
}

/// A request to be sent.
struct Sent<'r> {
    request: &'r Value,
    host: &'r str,
    id: &'r str,
    cookie: Option<&'r str>,
    is_http2: bool,
}

type Body = BoxBody<Bytes, Infallible>;

/// A body that does not say how long it is.
struct Unmeasured(Option<Bytes>);

impl HttpBody for Unmeasured {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Cx<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|text| Ok(Frame::data(text))))
    }
}

impl Sent<'_> {
    async fn over<S>(&self, stream: S) -> anyhow::Result<Answer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request = self.request()?;
        let stream = TokioIo::new(stream);
        let response = if self.is_http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await?
        };
        let (head, body) = response.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
            took: Duration::ZERO,
            version: None,
            cipher: None,
        })
    }

    fn request(&self) -> anyhow::Result<Request<Body>> {
        const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];
        let stated = METHODS
            .iter()
            .find_map(|m| Some((m, self.request[m].as_str()?)));
        let (method, path) = stated.context("a request without a method")?;
        let uri = match self.is_http2 {
            true => format!("http://{}{path}", self.host),
            false => path.to_owned(),
        };
        let mut request = Request::builder()
            .method(Method::from_bytes(method.to_uppercase().as_bytes())?)
            .uri(uri)
            .header("x-id", self.id);
        if !self.is_http2 {
            request = request.header(header::HOST, self.host);
        }
        let headers = self.request["headers"].as_object();
        for (name, value) in headers.into_iter().flatten() {
            request = request.header(name, value.as_str().context("a header")?);
        }
        if let Some(cookie) = self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let text = match self.request["length"].as_u64() {
            Some(length) => "x".repeat(usize::try_from(length)?),
            None => self.request["body"].as_str().unwrap_or_default().to_owned(),
        };
        let body = match self.request["chunked"] == true {
            false => Full::new(Bytes::from(text)).boxed(),
            true => Unmeasured(Some(Bytes::from(text))).boxed(),
        };
        Ok(request.body(body)?)
    }
}
