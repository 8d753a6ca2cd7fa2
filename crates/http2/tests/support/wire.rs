//! A client's end of a connection: what it says, read by read, and how much it takes in. Tests, the example and the fuzz
//! target have it in common.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What was read of a client, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Octets that were read.
    pub(crate) read: usize,
    /// All that was written.
    pub(crate) told: Vec<u8>,
}

/// Gives what the client says, an item at each read, and takes what it is told.
pub(crate) struct Wire {
    says: Box<dyn Iterator<Item = Vec<u8>>>,
    seen: Arc<Mutex<Seen>>,
    room: usize,
}

impl Wire {
    /// A client that says this, and takes in so many octets.
    pub(crate) fn new(says: impl Iterator<Item = Vec<u8>> + 'static, room: usize) -> Self {
        Self {
            // Nothing would be the end.
            says: Box::new(says.filter(|octets| !octets.is_empty())),
            seen: Arc::default(),
            room,
        }
    }

    /// To look at while it is used.
    pub(crate) fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }

    fn look<R>(&self, act: impl FnOnce(&mut Seen) -> R) -> R {
        act(&mut self.seen.lock().expect("nobody panics with it"))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(octets) = self.says.next() else {
            return Poll::Pending;
        };
        buf.put_slice(&octets);
        self.look(|seen| seen.read += octets.len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = octets.len().min(self.room);
        if taken == 0 {
            return Poll::Pending;
        }
        self.room -= taken;
        let octets = octets.iter().take(taken);
        self.look(|seen| seen.told.extend(octets));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
