//! An ADS stream over a connection of its own, encrypted or not.

use ads::server::{Frames, frame};
use bytes::Bytes;
use h2::client;
use h2::{RecvStream, SendStream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, TE};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::secure::Dialer;

/// Large enough that the server never waits for a window.
pub(crate) const WINDOW: u32 = 16 << 20;
/// As HTTP/2 has it if nothing is said: what a client that does not read keeps for it.
pub(crate) const SMALL_WINDOW: u32 = (1 << 16) - 1;

/// An open stream. Dropping it closes the connection.
pub(crate) struct Connection {
    send: SendStream<Bytes>,
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
    pub(crate) async fn open(dialer: &Dialer, delta: bool, window: u32) -> Result<Self, Error> {
        let (socket, tls) = dialer.dial().await?;
        let (client, driver) = match tls {
            Some(tls) => {
                let socket = tls.over(socket, &dialer.address).await?;
                handshake(socket, window).await?
            }
            None => handshake(socket, window).await?,
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
            response: Some(response),
            receive: None,
            frames: Frames::new(usize::MAX),
            driver,
        })
    }

    /// Sends one request message. Where the server has ended the stream, [`Self::receive`] says why.
    pub(crate) fn send(&mut self, message: &[u8]) {
        // It may end the stream before it has read anything, and what it said then is there to be received.
        let _ = self.send.send_data(frame(message), false);
    }

    /// The next response message.
    ///
    /// # Errors
    /// [`Error::Status`] when the server ends the stream, in whatever way.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, Error> {
        if let Some(response) = self.response.take() {
            let (head, body) = response.await?.into_parts();
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
                .map_err(|_| Error::Response("not a gRPC message"))?;
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
    window: u32,
) -> Result<(client::SendRequest<Bytes>, JoinHandle<()>), Error>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(window)
        .initial_connection_window_size(window)
        .enable_push(false);
    let (client, connection) = builder.handshake::<_, Bytes>(io).await?;
    let driver = tokio::spawn(async move {
        // Its error reaches the stream, which tells it.
        let _ = connection.await;
    });
    Ok((client, driver))
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
