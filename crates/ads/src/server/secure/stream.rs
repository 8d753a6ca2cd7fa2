//! A socket with TLS on it.
//!
//! What is written is copied once, into the records that are encrypted in place, and those go out together. No more than 64 KiB of
//! records are made ahead of a socket that takes none.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::socket::Socket;

/// A socket and its session.
pub(in super::super) struct TlsStream<I> {
    pub(super) io: I,
    pub(super) session: Box<ServerConnection>,
}

/// A socket with its session that no thread knows.
pub(in super::super) struct Detached {
    socket: std::net::TcpStream,
    session: Box<ServerConnection>,
}

impl TlsStream<Socket> {
    /// Makes the thread forget the socket.
    pub(in super::super) fn detach(self) -> io::Result<Detached> {
        Ok(Detached {
            socket: self.io.detach()?,
            session: self.session,
        })
    }
}

impl Detached {
    /// Makes this thread know the socket.
    pub(in super::super) fn attach(self) -> io::Result<TlsStream<Socket>> {
        Ok(TlsStream {
            io: Socket::new(self.socket)?,
            session: self.session,
        })
    }
}

/// A socket as the session sees it: it blocks where the socket is pending.
struct Blocking<'a, 'b, I> {
    io: &'a mut I,
    cx: &'a mut Context<'b>,
}

fn unless_pending<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn pending_if_blocked<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl<I: AsyncRead + Unpin> Read for Blocking<'_, '_, I> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        let mut octets = ReadBuf::new(octets);
        let polled = Pin::new(&mut *self.io).poll_read(self.cx, &mut octets);
        unless_pending(polled.map_ok(|()| octets.filled().len()))
    }
}

impl<I: AsyncWrite + Unpin> Write for Blocking<'_, '_, I> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        unless_pending(Pin::new(&mut *self.io).poll_write(self.cx, octets))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let io = Pin::new(&mut *self.io);
        unless_pending(match slices {
            [one] => io.poll_write(self.cx, one),
            _ => io.poll_write_vectored(self.cx, slices),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_pending(Pin::new(&mut *self.io).poll_flush(self.cx))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> TlsStream<I> {
    /// Before the handshake.
    pub(super) fn new(io: I, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let session = Box::new(ServerConnection::new(config)?);
        Ok(Self { io, session })
    }

    /// Reads what there is of records. Ready with 0 at the end.
    pub(super) fn read_records(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut io = Blocking {
            io: &mut self.io,
            cx,
        };
        pending_if_blocked(self.session.read_tls(&mut io))
    }

    /// Writes all records that there are; pending when the socket takes no more.
    pub(super) fn write_records(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let mut io = Blocking {
                io: &mut self.io,
                cx,
            };
            if ready!(pending_if_blocked(self.session.write_tls(&mut io)))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes in the records that were read. The client is told what is wrong with them.
    pub(super) fn take_in(&mut self, cx: &mut Context<'_>) -> Result<(), rustls::Error> {
        match self.session.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // Whether it arrives or not, this is the end.
                let _ = self.write_records(cx);
                Err(error)
            }
        }
    }

    /// Encrypts as much as there is room for, once all that was encrypted before is written.
    fn encrypt(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut ServerConnection) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.write_records(cx))?;
        let count = write(&mut self.session)?;
        // What the socket does not take is written first the next time.
        if let Poll::Ready(Err(error)) = self.write_records(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(count))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.session.reader().read(buf.initialize_unfilled()) {
                Ok(count) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client went without a word. HTTP/2 knows by itself what is whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.read_records(cx))?;
            self.take_in(cx)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if self.session.wants_write()
                && let Poll::Ready(Err(error)) = self.write_records(cx)
            {
                return Poll::Ready(Err(error));
            }
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.encrypt(cx, |session| session.writer().write(octets))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.encrypt(cx, |session| session.writer().write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_records(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It is said once, however often this is called.
        self.session.send_close_notify();
        ready!(self.write_records(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
