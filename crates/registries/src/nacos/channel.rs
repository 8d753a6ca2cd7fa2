//! A connection to a Nacos server over gRPC: calls, and the stream on which the server asks.
//!
//! Servers know a client by its connection, so that calls and the stream have to share one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::credentials::Proof;
use super::message::{self, Answer};
use super::payload::{FrameError, Frames, Payload};
use crate::http::octets;

/// How long a connection may take to be there.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a server may send before it is read.
const WINDOW: u32 = 1 << 20;
/// What all streams together may.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// How much of what is said to a server may wait because it does not listen.
const MOST_UNHEARD: usize = 1 << 20;

/// Nacos: `NacosException.UN_REGISTER`; the server does not know the connection, yet or any more.
const UNREGISTERED: i64 = 301;
/// Nacos: `NacosException.NO_RIGHT`.
const FORBIDDEN: i64 = 403;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The connection is of no use.
    #[error("{0}")]
    Broken(Arc<str>),
    /// The server does not know the connection.
    #[error("the server does not know the connection")]
    Unregistered,
    /// Credentials are missing, wrong, or of the past.
    #[error("the server refuses the credentials: {0}")]
    Forbidden(Arc<str>),
    /// The server does not do what it is asked, or says more than is read.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl CallError {
    fn broken(what: impl std::fmt::Display) -> Self {
        Self::Broken(what.to_string().into())
    }

    fn refused(what: impl std::fmt::Display) -> Self {
        Self::Refused(what.to_string().into())
    }
}

/// Makes calls over a connection.
#[derive(Clone)]
pub(super) struct Caller {
    send: SendRequest<Bytes>,
    authority: Arc<str>,
}

/// A connection, with the stream on which the server asks.
pub(super) struct Channel {
    /// For calls.
    pub(super) caller: Caller,
    send: SendStream<Bytes>,
    /// What was said since the server last had room for more.
    unheard: usize,
    opening: Option<client::ResponseFuture>,
    receive: Option<RecvStream>,
    frames: Frames,
    _driver: AbortOnDropHandle<()>,
}

impl Channel {
    /// Connects to `host:port`, asks whether there is a Nacos, and says who we are.
    pub(super) async fn open(authority: &str) -> Result<Self, CallError> {
        timeout(CONNECTING, Self::connect(authority))
            .await
            .map_err(|_| CallError::broken(format!("{authority} does not answer")))?
    }

    async fn connect(authority: &str) -> Result<Self, CallError> {
        let unreachable = |e| CallError::broken(format!("cannot connect to {authority}: {e}"));
        let socket = TcpStream::connect(authority).await.map_err(unreachable)?;
        // Acknowledgements are small, and the next push waits for them.
        let _ = socket.set_nodelay(true);
        let (send, connection) = client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(16 << 10)
            .enable_push(false)
            .handshake::<_, Bytes>(socket)
            .await
            .map_err(CallError::broken)?;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // Its error reaches calls and the stream.
            let _ = connection.await;
        }));
        let caller = Caller {
            send,
            authority: authority.into(),
        };
        caller
            .call("ServerCheckRequest", &json!({}), &Proof::none())
            .await?;
        let (opening, send) = caller.open("BiRequestStream/requestBiStream").await?;
        let mut channel = Self {
            caller,
            send,
            unheard: 0,
            opening: Some(opening),
            receive: None,
            frames: Frames::default(),
            _driver: driver,
        };
        let setup = json!({
            "clientVersion": concat!("pilothouse:v", env!("CARGO_PKG_VERSION")),
            "labels": {"source": "sdk", "module": "naming"},
            "tenant": "",
            "abilities": {},
        });
        channel.say("ConnectionSetupRequest", &setup)?;
        Ok(channel)
    }

    /// Sends a message on the stream.
    pub(super) fn say(&mut self, kind: &str, json: &Value) -> Result<(), CallError> {
        let message = Payload::new(kind, Proof::none().headers, json.to_string().into());
        let message = message.frame();
        self.send.reserve_capacity(message.len());
        self.unheard = match self.send.capacity() {
            0 => self.unheard + message.len(),
            _ => 0,
        };
        if self.unheard > MOST_UNHEARD {
            return Err(CallError::broken("the server asks and does not listen"));
        }
        self.send
            .send_data(message, false)
            .map_err(CallError::broken)
    }

    /// The next message on the stream. May be dropped at any time without loss. One that is too large is skipped, with a word.
    pub(super) async fn hear(&mut self) -> Result<Payload, CallError> {
        if let Some(opening) = &mut self.opening {
            let response = opening.await.map_err(CallError::broken)?;
            self.opening = None;
            if let Some(status) = status(response.headers()) {
                return Err(CallError::broken(status));
            }
            self.receive = Some(response.into_body());
        }
        loop {
            match self.frames.pop() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error @ FrameError::TooLarge(_)) => {
                    tracing::warn!(server = &*self.caller.authority, %error, "A push of Nacos is not read.");
                    continue;
                }
                Err(error) => return Err(CallError::broken(error)),
            }
            let ended = || CallError::broken("the server ended the stream");
            let receive = self.receive.as_mut().ok_or_else(ended)?;
            let data = octets(receive).await.ok_or_else(ended)?;
            self.frames.push(data.map_err(CallError::broken)?);
        }
    }
}

impl Caller {
    async fn open(
        &self,
        method: &str,
    ) -> Result<(client::ResponseFuture, SendStream<Bytes>), CallError> {
        let request = Request::post(format!("http://{}/{method}", self.authority))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(())
            .map_err(CallError::broken)?;
        let ready = self.send.clone().ready().await;
        let mut send = ready.map_err(CallError::broken)?;
        send.send_request(request, false).map_err(CallError::broken)
    }

    /// Asks, and waits for the answer, which says that all is well.
    pub(super) async fn call(
        &self,
        kind: &str,
        json: &Value,
        proof: &Proof,
    ) -> Result<Answer, CallError> {
        let message = Payload::new(kind, proof.headers.clone(), json.to_string().into());
        let answer = timeout(PATIENCE, self.exchange(message)).await;
        let silent = |_| CallError::broken(format!("{} does not answer", self.authority));
        let answer: Answer = message::read(answer.map_err(silent)??.json())
            .map_err(|error| CallError::refused(format!("the server sent {error}")))?;
        if answer.result_code == 200 {
            return Ok(answer);
        }
        let (code, said) = (answer.error_code, answer.message.as_deref().unwrap_or(""));
        // A line of a log, whatever a server says.
        let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
        Err(match code {
            UNREGISTERED => CallError::Unregistered,
            FORBIDDEN => CallError::Forbidden(said.into()),
            _ => CallError::refused(format!("the server answers {code} to {kind}: {said}")),
        })
    }

    async fn exchange(&self, message: Payload) -> Result<Payload, CallError> {
        let (response, mut send) = self.open("Request/request").await?;
        send.send_data(message.frame(), true)
            .map_err(CallError::broken)?;
        let (head, mut body) = response.await.map_err(CallError::broken)?.into_parts();
        if !head.status.is_success() {
            return Err(CallError::broken(format!("HTTP status {}", head.status)));
        }
        if let Some(status) = status(&head.headers) {
            return Err(CallError::refused(status));
        }
        let mut frames = Frames::default();
        loop {
            match frames.pop() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(CallError::refused(error)),
            }
            match octets(&mut body).await {
                Some(data) => frames.push(data.map_err(CallError::broken)?),
                None => {
                    let trailers = body.trailers().await.map_err(CallError::broken)?;
                    let said = trailers.as_ref().and_then(status);
                    let said = said.unwrap_or_else(|| "an answer without a message".to_owned());
                    return Err(CallError::refused(said));
                }
            }
        }
    }
}

/// What is wrong, by the gRPC status among headers.
fn status(headers: &HeaderMap) -> Option<String> {
    let code = headers.get("grpc-status")?.to_str().ok()?;
    let said = headers.get("grpc-message").and_then(|v| v.to_str().ok());
    let said: String = said.unwrap_or("").chars().take(200).collect();
    (code != "0").then(|| {
        format!(
            "gRPC status {}: {said}",
            code.chars().take(8).collect::<String>()
        )
    })
}
