//! A client's socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that does not acknowledge at once what it has read.
///
/// A proxy answers each response, and what acknowledges that answer can travel with the next response. Linux would send a
/// packet of its own as soon as the answer is read, which costs as much as a response does.
pub(super) struct Socket(TcpStream);

impl Socket {
    /// # Errors
    /// Those of the system: the socket is closed already, or there is no memory.
    pub(super) fn new(socket: std::net::TcpStream) -> io::Result<Self> {
        // Without it a response of several frames waits for the acknowledgement of its first.
        socket.set_nodelay(true)?;
        TcpStream::from_std(socket).map(Self)
    }

    /// Waits until there is something to read, or the end.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Makes the thread that knows it forget it.
    pub(super) fn detach(self) -> io::Result<std::net::TcpStream> {
        self.0.into_std()
    }

    /// Holds until the system has had to send such a packet after all, so it is said before each read.
    fn acknowledge_later(&self) {
        #[cfg(target_os = "linux")]
        // It is a wish; without it the socket works as well.
        let _ = SockRef::from(&self.0).set_tcp_quickack(false);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.0.poll_read_ready(cx))?;
        self.acknowledge_later();
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
