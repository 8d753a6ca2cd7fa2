//! What is to be written: frames of which some octets are ours and some are shared.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use smallvec::SmallVec;
use tokio::io::AsyncWrite;

/// Shared octets that are fewer than these are copied: a list of pieces costs the system more.
const COPIED: usize = 2048;

/// So many pieces go into one system call: a response of half a megabyte in frames of 16 KiB.
const PIECES: usize = 64;

#[derive(Debug)]
enum Piece {
    /// So many of the octets that are ours.
    Own(usize),
    Shared(Bytes),
}

/// Frames in the order of writing.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    own: Vec<u8>,
    /// How many of `own` are written.
    written: usize,
    pieces: Vec<Piece>,
    /// How many of `pieces` are written.
    done: usize,
}

impl WriteBuffer {
    /// Whether everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.done == self.pieces.len()
    }

    /// Octets of our own that are not written. What clients make us say without asking for anything is among them.
    pub(crate) fn own(&self) -> usize {
        self.own.len() - self.written
    }

    /// Octets of memory of our own.
    pub(crate) fn capacity(&self) -> usize {
        self.own.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Lets octets of our own be appended.
    pub(crate) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.own.len();
        write(&mut self.own);
        let more = self.own.len() - before;
        match self.pieces.get_mut(self.done..).and_then(<[_]>::last_mut) {
            Some(Piece::Own(len)) => *len += more,
            _ if more > 0 => self.pieces.push(Piece::Own(more)),
            _ => {}
        }
    }

    /// Appends shared octets.
    pub(crate) fn share(&mut self, octets: Bytes) {
        match octets.len() {
            0 => {}
            1..COPIED => self.put(|out| out.extend_from_slice(&octets)),
            _ => self.pieces.push(Piece::Shared(octets)),
        }
    }

    fn slices(&self) -> SmallVec<[IoSlice<'_>; PIECES]> {
        let mut own = self.own.get(self.written..).unwrap_or_default();
        let mut slices = SmallVec::new();
        for piece in self.pieces.iter().skip(self.done).take(PIECES) {
            slices.push(IoSlice::new(match piece {
                Piece::Own(len) => {
                    let (octets, rest) = own.split_at_checked(*len).unwrap_or((own, &[]));
                    own = rest;
                    octets
                }
                Piece::Shared(octets) => octets,
            }));
        }
        slices
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.get_mut(self.done) {
            let (len, part) = match piece {
                Piece::Own(len) => {
                    let part = count.min(*len);
                    self.written += part;
                    *len -= part;
                    (*len, part)
                }
                Piece::Shared(octets) => {
                    let part = count.min(octets.len());
                    octets.advance(part);
                    (octets.len(), part)
                }
            };
            count -= part;
            if len > 0 {
                self.compact();
                return;
            }
            self.done += 1;
        }
        self.clear();
    }

    /// Lets go of what is written when it is most of what is kept. A client may always leave something unread.
    fn compact(&mut self) {
        if self.written >= COPIED && self.written >= self.own() {
            self.own.drain(..self.written);
            self.written = 0;
        }
        if self.done >= PIECES && self.done * 2 >= self.pieces.len() {
            self.pieces.drain(..self.done);
            self.done = 0;
        }
    }

    fn clear(&mut self) {
        self.own.clear();
        self.pieces.clear();
        self.written = 0;
        self.done = 0;
    }

    /// Writes all; pending when the socket takes no more.
    pub(crate) fn poll_write<I: AsyncWrite + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let count = {
                let slices = self.slices();
                let io = Pin::new(&mut *io);
                match &*slices {
                    [one] => ready!(io.poll_write(cx, one))?,
                    _ => ready!(io.poll_write_vectored(cx, &slices))?,
                }
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        Pin::new(io).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few octets at a time, and as many calls as it was told.
    struct Narrow {
        got: Vec<u8>,
        calls: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(octets)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            if self.calls == 0 {
                return Poll::Pending;
            }
            self.calls -= 1;
            let octets: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
            let taken = octets.len().min(777);
            self.got.extend(&octets[..taken]);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn what_is_written_is_let_go_although_something_is_left() {
        let mut out = WriteBuffer::default();
        let mut io = Narrow {
            got: Vec::new(),
            calls: 0,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..10_000 {
            out.put(|o| o.extend_from_slice(&[1; 700]));
            while out.own() > 1000 {
                io.calls = 1;
                let _ = out.poll_write(&mut io, &mut cx);
            }
            assert!(!out.is_empty());
            let kept = out.capacity();
            assert!(kept < 16 << 10, "{kept} octets are kept");
        }
    }

    #[test]
    fn everything_arrives_in_order_however_little_is_taken() {
        let mut out = WriteBuffer::default();
        let mut expected = Vec::new();
        let mut io = Narrow {
            got: Vec::new(),
            calls: 0,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for round in 0u8..50 {
            let own = vec![round; usize::from(round % 5)];
            let shared = vec![100 + round; usize::from(round % 9) * COPIED / 4];
            out.put(|o| o.extend_from_slice(&own));
            out.put(|o| o.push(255));
            out.share(Bytes::from(shared.clone()));
            expected.extend(own);
            expected.push(255);
            expected.extend(shared);
            io.calls = usize::from(round % 3);
            let _ = out.poll_write(&mut io, &mut cx);
        }
        io.calls = usize::MAX;
        assert!(out.poll_write(&mut io, &mut cx).is_ready());
        assert_eq!(io.got, expected);
        assert!(out.is_empty() && out.own() == 0 && out.pieces.is_empty());
    }
}
