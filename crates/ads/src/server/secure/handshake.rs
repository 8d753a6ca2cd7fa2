//! One handshake, bounded in octets; its time is bounded by whoever waits for it.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::CertificateDer;

use super::super::socket::Socket;
use super::Tls;
use super::stream::TlsStream;
use super::threads::Turns;

/// What a client may send before its handshake is over: a hello, its certificates and a signature, each of which has 64 KiB at
/// most by itself.
const OCTETS: usize = 96 << 10;

/// Why a handshake came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client went away.
    #[error("the client went away")]
    Gone,
    /// The client did not finish in time.
    #[error("the client did not finish in time")]
    Slow,
    /// The client's certificate was refused.
    #[error("the client's certificate was refused")]
    Certificate,
    /// What the client sent is not TLS, or not what is asked for.
    #[error("the client does not speak TLS as it must")]
    Protocol,
}

impl HandshakeError {
    /// One word, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            HandshakeError::Gone => "gone",
            HandshakeError::Slow => "slow",
            HandshakeError::Certificate => "certificate",
            HandshakeError::Protocol => "protocol",
        }
    }
}

/// A handshake that came to nothing, with what the library says to that.
#[derive(Debug)]
pub(in super::super) struct Failure {
    pub(in super::super) error: HandshakeError,
    pub(in super::super) cause: Option<rustls::Error>,
}

impl From<HandshakeError> for Failure {
    fn from(error: HandshakeError) -> Self {
        Self { error, cause: None }
    }
}

impl From<rustls::Error> for Failure {
    fn from(cause: rustls::Error) -> Self {
        let error = match cause {
            rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidCertRevocationList(_) => {
                HandshakeError::Certificate
            }
            _ => HandshakeError::Protocol,
        };
        Self {
            error,
            cause: Some(cause),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        HandshakeError::Gone.into()
    }
}

/// Shakes hands.
pub(in super::super) async fn shake(
    io: Socket,
    tls: &Tls,
    turns: &Turns,
) -> Result<TlsStream<Socket>, Failure> {
    // Who says nothing costs no more than a socket.
    io.readable().await?;
    let mut left = OCTETS;
    let turn = turns.take().await;
    let mut stream = TlsStream::new(io, Arc::clone(&tls.config))?;
    let first = poll_fn(|cx| Poll::Ready(pass(&mut stream, &mut left, cx))).await;
    turn.pass_on().await;
    if let Poll::Ready(done) = first {
        done?;
    } else {
        poll_fn(|cx| pass(&mut stream, &mut left, cx)).await?;
    }
    Ok(stream)
}

/// Goes on with a handshake as far as it gets.
fn pass(
    stream: &mut TlsStream<Socket>,
    left: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    loop {
        let written = stream.write_records(cx)?;
        if !stream.session.is_handshaking() {
            return written.map(Ok);
        }
        ready!(read(stream, left, cx))?;
        stream.take_in(cx)?;
    }
}

/// Reads all that is there, before any of it costs anything: who has gone meanwhile is not answered.
fn read(
    stream: &mut TlsStream<Socket>,
    left: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    let mut some = false;
    loop {
        match stream.read_records(cx) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(HandshakeError::Gone.into())),
            Poll::Ready(Ok(count)) => {
                some = true;
                let rest = left.checked_sub(count).ok_or(HandshakeError::Protocol);
                *left = rest.map_err(Failure::from)?;
            }
            // The library takes no more before it has looked at that.
            Poll::Ready(Err(_)) if some => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending if some => return Poll::Ready(Ok(())),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// The certificates that the client showed, its own first.
pub(in super::super) fn certificates(stream: &TlsStream<Socket>) -> Arc<[CertificateDer<'static>]> {
    let shown = stream.session.peer_certificates().unwrap_or_default();
    shown.iter().cloned().collect()
}
