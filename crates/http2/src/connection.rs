//! A connection with its socket and its calls, as one future.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::{self, Reason};
use crate::state::{BACKLOG, Fault, State};
use crate::write_buffer::WriteBuffer;
use crate::{Call, Service};

/// What one read takes.
const READ: usize = 64 << 10;
/// After so many rounds other tasks get their turn: a read full of what is dearest takes some milliseconds.
const ROUNDS: usize = 4;

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client broke the protocol, or asks too much; it was told, if it listens.
    #[error("{what} ({reason:?})")]
    Protocol {
        /// As the client was told.
        reason: Reason,
        /// In words.
        what: &'static str,
    },
    /// The socket's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Since when a client is awaited, in the time that the connection was [told](Connection::tell); `None` if it is not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    /// For the end of what it began: the connection itself, a frame, or a header block. One octet more changes nothing.
    pub unfinished: Option<u32>,
    /// For a call: there is none.
    pub call: Option<u32>,
    /// For room in its windows, for the piece of data that has waited longest. Less than enough room changes nothing.
    pub room: Option<u32>,
}

/// What connections of a thread use in turn.
struct Scratch {
    read: Box<[u8]>,
    out: WriteBuffer,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

fn scratch() -> Box<Scratch> {
    SCRATCH.take().unwrap_or_else(|| {
        Box::new(Scratch {
            read: vec![0; READ].into(),
            out: WriteBuffer::default(),
        })
    })
}

/// A client's connection; it ends with the client, or when it was [drained](Connection::drain).
///
/// `State` has what is seldom touched in front, where this has as well.
#[repr(C)]
#[derive(Debug)]
pub struct Connection<I, S: Service> {
    io: I,
    /// What the socket did not take, if there is something.
    unsent: Option<Box<WriteBuffer>>,
    reads: u32,
    over: bool,
    service: Box<S>,
    state: State<S::Call>,
}

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service + Unpin,
    S::Call: Unpin,
{
    /// Over a socket on which nothing was said, encrypted or not.
    pub fn new(io: I, service: S) -> Self {
        let mut first = Box::<WriteBuffer>::default();
        Self {
            state: State::new(&mut first),
            io,
            service: Box::new(service),
            unsent: Some(first),
            reads: 0,
            over: false,
        }
    }

    /// Takes no new calls, and ends with those that there are. To be polled afterwards.
    pub fn drain(&mut self) {
        self.state.drain(self.unsent.get_or_insert_default());
    }

    /// Asks the client for a sign of life. To be polled afterwards.
    pub fn ping(&mut self) {
        let out = self.unsent.get_or_insert_default();
        out.put(|out| frame::put_ping(0, b"alive? \n", out));
    }

    /// Counts how often something was heard of the client.
    pub fn reads(&self) -> u32 {
        self.reads
    }

    /// Tells the time, in any unit that goes up; [`Waits`] is in it.
    pub fn tell(&mut self, now: u32) {
        self.state.tell(now);
    }

    /// Since when the client is awaited.
    pub fn waits(&self) -> Waits {
        self.state.waits()
    }

    /// Octets of memory that are kept for this client alone: what it began, what calls did not take, its header table, and
    /// what is to be written without being shared.
    pub fn kept(&self) -> usize {
        self.state.kept() + self.unsent.as_ref().map_or(0, |out| out.capacity())
    }

    /// Reads once. Ready with false at the end.
    fn read(
        &mut self,
        buffer: &mut [u8],
        out: &mut WriteBuffer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Error>> {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            return Poll::Ready(Ok(false));
        }
        self.reads = self.reads.wrapping_add(1);
        let taken = self.state.receive(read.filled(), out, &mut *self.service);
        Poll::Ready(match taken {
            Ok(()) => Ok(true),
            Err(Fault(reason, what)) => {
                self.state.go_away(reason, out);
                // Whether it arrives or not, this is the end.
                let _ = out.poll_write(&mut self.io, cx);
                Err(Error::Protocol { reason, what })
            }
        })
    }

    fn turn(
        &mut self,
        buffer: &mut [u8],
        out: &mut WriteBuffer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        for _ in 0..ROUNDS {
            if self.over {
                ready!(out.poll_write(&mut self.io, cx))?;
                return Pin::new(&mut self.io).poll_shutdown(cx).map_err(Error::Io);
            }
            let mut blocked = out.poll_write(&mut self.io, cx)?.is_pending();
            let mut moved = false;
            if out.own() < BACKLOG
                && let Poll::Ready(open) = self.read(buffer, out, cx)?
            {
                if !open {
                    return Poll::Ready(Ok(()));
                }
                moved = true;
            }
            if !blocked {
                moved |= self.state.answer(out, cx);
                blocked = out.poll_write(&mut self.io, cx)?.is_pending();
            }
            if self.state.is_over() && !blocked {
                self.state.go_away(Reason::NoError, out);
                self.over = true;
                moved = true;
            }
            if !moved {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<I, S> Future for Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service + Unpin,
    S::Call: Unpin + Call,
{
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut scratch = scratch();
        let result = match this.unsent.take() {
            Some(mut out) => {
                let result = this.turn(&mut scratch.read, &mut out, cx);
                this.unsent = Some(out).filter(|out| !out.is_empty());
                result
            }
            None => {
                let result = this.turn(&mut scratch.read, &mut scratch.out, cx);
                if !scratch.out.is_empty() {
                    this.unsent = Some(Box::new(std::mem::take(&mut scratch.out)));
                }
                result
            }
        };
        SCRATCH.set(Some(scratch));
        result
    }
}
