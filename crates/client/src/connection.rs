//! An ADS stream over a connection of its own, encrypted or not.

use std::time::Duration;

use ads::server::{Frames, frame};
use bytes::Bytes;
use h2::client;
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::error::Error;
use crate::secure::Dialer;

/// Large enough that the server never waits for a window.
pub(crate) const WINDOW: u32 = 16 << 20;
/// As HTTP/2 has it if nothing is said: what a client that does not read keeps for it.
pub(crate) const SMALL_WINDOW: u32 = (1 << 16) - 1;

/// How much of what is sent may wait because the server does not read.
const MOST_UNHEARD: usize = 1 << 20;

/// What a server may cost, and when it counts as gone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What it may send before it is read.
    pub window: u32,
    /// The largest message that is taken.
    pub largest: usize,
    /// How often it is pinged, and how long it may take to answer.
    pub ping: Option<(Duration, Duration)>,
}

impl Limits {
    /// For a server that is measured or looked at.
    pub(crate) fn of_window(window: u32) -> Self {
        Self {
            window,
            largest: usize::MAX,
            ping: None,
        }
    }
}

/// An open stream. Dropping it closes the connection.
pub struct Connection {
    send: SendStream<Bytes>,
    /// What was sent since the server last had room for more.
    unheard: usize,
    response: Option<client::ResponseFuture>,
    receive: Option<RecvStream>,
    frames: Frames,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects and opens the stream.
    ///
    /// # Errors
    /// When the server cannot be reached, or what it is to be shown is of no use.
    pub async fn open(dialer: &Dialer, delta: bool, limits: Limits) -> Result<Self, Error> {
        let (socket, tls) = dialer.dial().await?;
        let (client, driver) = match tls {
            Some(tls) => {
                let socket = tls.over(socket, &dialer.address).await?;
                handshake(socket, limits).await?
            }
            None => handshake(socket, limits).await?,
        };
        let mut client = client.ready().await?;
        let method = if delta {
            "DeltaAggregatedResources"
        } else {
            "StreamAggregatedResources"
        };
        let (scheme, address) = (dialer.scheme(), &dialer.address);
        let mut request = Request::post(format!(
            "{scheme}://{address}/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}"
        ))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers");
        if let Some(token) = dialer.token()? {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let (response, send) = client.send_request(request.body(())?, false)?;
        Ok(Self {
            send,
            unheard: 0,
            response: Some(response),
            receive: None,
            frames: Frames::new(limits.largest),
            driver,
        })
    }

    /// Sends one request message. Where the server has ended the stream, [`Self::receive`] says why.
    pub fn send(&mut self, message: &[u8]) {
        let message = frame(message);
        self.send.reserve_capacity(message.len());
        self.unheard = match self.send.capacity() {
            0 => self.unheard.saturating_add(message.len()),
            _ => 0,
        };
        // It may end the stream before it has read anything, and what it said then is there to be received.
        let _ = self.send.send_data(message, false);
    }

    /// The next response message. May be dropped at any time without loss.
    ///
    /// # Errors
    /// [`Error::Status`] when the server ends the stream, in whatever way; [`Error::Response`] when it goes beyond a limit.
    pub async fn receive(&mut self) -> Result<Bytes, Error> {
        if self.unheard > MOST_UNHEARD {
            return Err(Error::Response("the server sends, and reads nothing"));
        }
        if let Some(response) = &mut self.response {
            let (head, body) = response.await?.into_parts();
            self.response = None;
            if let Some(status) = status(&head.headers) {
                return Err(status);
            }
            if !head.status.is_success() {
                return Err(Error::Status {
                    code: 2,
                    message: format!("HTTP status {}", head.status),
                });
            }
            self.receive = Some(body);
        }
        loop {
            let message = self
                .frames
                .pop()
                .map_err(|_| Error::Response("not a gRPC message, or one beyond the limit"))?;
            if let Some(message) = message {
                return Ok(message);
            }
            let ended = || Error::Status {
                code: 14,
                message: "stream ended without a status".to_owned(),
            };
            let body = self.receive.as_mut().ok_or_else(ended)?;
            match body.data().await {
                Some(data) => {
                    let data = data?;
                    body.flow_control().release_capacity(data.len())?;
                    self.frames.push(data);
                }
                None => {
                    let trailers = body.trailers().await?;
                    return Err(trailers.as_ref().and_then(status).unwrap_or_else(ended));
                }
            }
        }
    }
}

/// Speaks HTTP/2 over a socket.
async fn handshake<I>(
    io: I,
    limits: Limits,
) -> Result<(client::SendRequest<Bytes>, JoinHandle<()>), Error>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(limits.window)
        .initial_connection_window_size(limits.window)
        .enable_push(false);
    let (client, mut connection) = builder.handshake::<_, Bytes>(io).await?;
    let pings = limits.ping.zip(connection.ping_pong());
    let driver = tokio::spawn(async move {
        let silent = async {
            match pings {
                Some((pace, pings)) => silence(pings, pace).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Its error reaches the stream, which tells it.
            _ = connection => {}
            // The stream ends with the connection, which is dropped here.
            () = silent => {}
        }
    });
    Ok((client, driver))
}

/// Resolves when a ping is not answered in time: nobody is there any more, and no packet says so.
async fn silence(mut pings: PingPong, (interval, patience): (Duration, Duration)) {
    loop {
        sleep(interval).await;
        let answered = timeout(patience, pings.ping(Ping::opaque())).await;
        if !matches!(answered, Ok(Ok(_))) {
            return;
        }
    }
}

/// The gRPC status among headers, if there is one.
fn status(headers: &HeaderMap) -> Option<Error> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers
        .get("grpc-message")
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    Some(Error::Status { code, message })
}
