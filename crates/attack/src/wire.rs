//! HTTP/2 by hand: frames, request heads without Huffman coding, and the cutting of what comes back into frames.
//!
//! A client library would refuse to send most of what is sent here.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Kinds of frames.
pub const DATA: u8 = 0;
/// A request head, or what comes back of one.
pub const HEADERS: u8 = 1;
/// Gives up a stream.
pub const RST_STREAM: u8 = 3;
/// What the sender allows.
pub const SETTINGS: u8 = 4;
/// Asks for an answer.
pub const PING: u8 = 6;
/// The connection ends.
pub const GOAWAY: u8 = 7;
/// More may be sent.
pub const WINDOW_UPDATE: u8 = 8;
/// More of a head.
pub const CONTINUATION: u8 = 9;

/// The last frame of a stream; for SETTINGS and PING, that it is an answer.
pub const END_STREAM: u8 = 1;
/// The head is whole.
pub const END_HEADERS: u8 = 4;

/// What every connection begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload that a server must take.
pub const LARGEST: usize = 16_384;

/// A frame as it goes over the wire.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(9 + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// Preface and settings: an initial window for each stream and, beyond the default, for the connection.
pub fn hello(window: u32) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    let mut settings = vec![0, 2, 0, 0, 0, 0, 0, 4];
    settings.extend_from_slice(&window.to_be_bytes());
    out.extend(frame(SETTINGS, 0, 0, &settings));
    if let Some(more) = window.checked_sub(65_535).filter(|more| *more > 0) {
        out.extend(frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes()));
    }
    out
}

/// A length of HPACK with a prefix of seven bits.
fn length(n: usize, out: &mut Vec<u8>) {
    if n < 127 {
        out.push(n as u8);
        return;
    }
    out.push(127);
    let mut rest = n - 127;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// A header that the server does not keep.
pub fn header(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    length(name.len(), out);
    out.extend_from_slice(name.as_bytes());
    length(value.len(), out);
    out.extend_from_slice(value);
}

/// A header that the server keeps in its table, of less than 127 octets each.
pub fn kept_header(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.push(0x40);
    length(name.len(), out);
    out.extend_from_slice(name.as_bytes());
    length(value.len(), out);
    out.extend_from_slice(value);
}

/// The pseudo headers of a request.
pub fn request(method: &str, scheme: &str, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    header(":method", method.as_bytes(), &mut out);
    header(":scheme", scheme.as_bytes(), &mut out);
    header(":path", path.as_bytes(), &mut out);
    header(":authority", b"localhost", &mut out);
    out
}

/// The head of a call of delta ADS.
pub fn ads() -> Vec<u8> {
    call("DeltaAggregatedResources")
}

/// The head of a call of a method of ADS.
pub fn call(method: &str) -> Vec<u8> {
    let path = format!("/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
    let mut out = request("POST", "http", &path);
    header("content-type", b"application/grpc", &mut out);
    header("te", b"trailers", &mut out);
    out
}

/// A message with the head that gRPC puts before it.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + body.len());
    out.push(0);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A frame that came.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its kind.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// The rest.
    pub payload: Bytes,
}

/// Cuts what comes into frames.
#[derive(Debug)]
pub struct Frames<R> {
    from: R,
    came: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// Reads from a connection.
    pub fn new(from: R) -> Self {
        Self {
            from,
            came: BytesMut::new(),
        }
    }

    /// The next frame; `None` at the end of the connection.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(head) = self.came.get(..9) {
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let (kind, flags) = (head[3], head[4]);
                let stream = u32::from_be_bytes([head[5] & 127, head[6], head[7], head[8]]);
                if self.came.len() >= 9 + len {
                    self.came.advance(9);
                    let payload = self.came.split_to(len).freeze();
                    return Ok(Some(Frame {
                        kind,
                        flags,
                        stream,
                        payload,
                    }));
                }
            }
            self.came.reserve(16 << 10);
            if self.from.read_buf(&mut self.came).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test that cannot go on fails.
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_cut_as_they_were_put_together() {
        let mut wire = frame(DATA, END_STREAM, 3, b"abc");
        wire.extend(frame(PING, 0, 0, &[7; 8]));
        let mut frames = Frames::new(&wire[..]);
        let first = frames.next().await.unwrap().unwrap();
        assert_eq!((first.kind, first.flags, first.stream), (DATA, 1, 3));
        assert_eq!(&first.payload[..], b"abc");
        assert_eq!(frames.next().await.unwrap().unwrap().kind, PING);
        assert!(frames.next().await.unwrap().is_none());
    }

    #[test]
    fn long_lengths_are_written_as_hpack_has_it() {
        let mut out = Vec::new();
        length(1337, &mut out);
        // 1337 - 127 = 1210 = 9 * 128 + 58.
        assert_eq!(out, [127, 58 | 128, 9]);
    }
}
