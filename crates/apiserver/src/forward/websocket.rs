//! A WebSocket as a way for bytes: its messages are binary, and where one ends means nothing.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// The largest frame that is read.
pub const LARGEST: usize = 1 << 20;
/// The largest frame that only says something of the connection.
const LARGEST_CONTROL: usize = 125;
/// What is read at once, and kept for a side that does not read.
const PIECE: usize = 32 << 10;
/// Frames that wait to be written.
const WAITING: usize = 8;
/// How long the last may take to be written to a client that does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the answer to a key is made with.
const SALT: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const CONTINUED: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// `Sec-WebSocket-Accept` to a key.
pub(super) fn accept(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, SALT].concat()))
}

/// What cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WebSocketError {
    /// Clients mask what they send.
    #[error("a frame is not masked")]
    Unmasked,
    /// A frame of too many bytes.
    #[error("a frame is too large")]
    TooLarge,
    /// A frame of text, or of a kind that is not known.
    #[error("a frame is not of bytes")]
    Kind,
}

/// What a frame of a client says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Bytes.
    Data(Bytes),
    /// To be sent back.
    Ping(Bytes),
    /// The answer to what nobody has asked.
    Pong,
    /// The end.
    Close,
}

/// Reads the frames of a client.
#[derive(Debug, Default)]
pub struct Decoder(BytesMut);

impl Decoder {
    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When it is none that a client of this protocol sends. Nothing that follows can be read.
    pub fn pop(&mut self) -> Result<Option<Frame>, WebSocketError> {
        let mut head = &self.0[..];
        let (Some(first), Some(second)) = (take::<1>(&mut head), take::<1>(&mut head)) else {
            return Ok(None);
        };
        let kind = first[0] & 0x0f;
        if second[0] & 0x80 == 0 {
            return Err(WebSocketError::Unmasked);
        }
        let stated: Option<u64> = match second[0] & 0x7f {
            126 => take(&mut head).map(|len| u64::from(u16::from_be_bytes(len))),
            127 => take(&mut head).map(u64::from_be_bytes),
            len => Some(u64::from(len)),
        };
        let Some(len) = stated else {
            return Ok(None);
        };
        let most = if kind < CLOSE {
            LARGEST
        } else {
            LARGEST_CONTROL
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= most);
        let len = len.ok_or(WebSocketError::TooLarge)?;
        let Some(mask) = take::<4>(&mut head) else {
            return Ok(None);
        };
        if head.len() < len {
            return Ok(None);
        }
        let start = self.0.len() - head.len();
        self.0.advance(start);
        let mut content = self.0.split_to(len);
        let mask = mask.into_iter().cycle();
        content
            .iter_mut()
            .zip(mask)
            .for_each(|(byte, mask)| *byte ^= mask);
        let content = content.freeze();
        Ok(Some(match kind {
            CONTINUED | BINARY => Frame::Data(content),
            PING => Frame::Ping(content),
            PONG => Frame::Pong,
            CLOSE => Frame::Close,
            _ => return Err(WebSocketError::Kind),
        }))
    }
}

/// The first bytes, taken off.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// A frame of a server.
fn frame(kind: u8, content: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(10 + content.len());
    out.put_u8(0x80 | kind);
    match content.len() {
        len @ 0..126 => out.put_u8(len as u8),
        len @ 126..=0xffff => {
            out.put_u8(126);
            out.put_u16(len as u16);
        }
        len => {
            out.put_u8(127);
            out.put_u64(len as u64);
        }
    }
    out.put_slice(content);
    out.freeze()
}

/// What goes through the WebSocket of a connection. It ends when either side does.
pub(super) fn inside<S>(connection: S) -> DuplexStream
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (near, far) = tokio::io::duplex(PIECE);
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(connection);
        let (from, to) = tokio::io::split(far);
        let (send, queue) = mpsc::channel(WAITING);
        let outwards = send.clone();
        tokio::select! {
            () = inwards(reader, to, send) => {}
            () = pack(from, outwards) => {}
            () = write(writer, queue, is_close) => {}
        }
    });
    near
}

/// Takes what the client sends out of its frames.
async fn inwards(
    mut reader: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    send: mpsc::Sender<Bytes>,
) {
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; PIECE]);
    loop {
        let read = match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        decoder.push(&buffer[..read]);
        loop {
            let done = match decoder.pop() {
                Ok(None) => break,
                Ok(Some(Frame::Data(data))) => to.write_all(&data).await.is_ok(),
                Ok(Some(Frame::Ping(said))) => send.send(frame(PONG, &said)).await.is_ok(),
                Ok(Some(Frame::Pong)) => true,
                Ok(Some(Frame::Close)) | Err(_) => false,
            };
            if !done {
                return;
            }
        }
    }
}

/// Puts what is sent to the client into frames.
async fn pack(mut from: impl AsyncRead + Unpin, send: mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if send.send(frame(BINARY, &buffer[..read])).await.is_err() {
            return;
        }
    }
    let end = async {
        let _ = send.send(frame(CLOSE, &1000u16.to_be_bytes())).await;
        // What waits is written, or the client is gone.
        send.closed().await;
    };
    let _ = tokio::time::timeout(PATIENCE, end).await;
}

fn is_close(frame: &Bytes) -> bool {
    frame.first() == Some(&(0x80 | CLOSE))
}

/// Writes what waits, up to what is the last.
pub(super) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
    is_last: fn(&Bytes) -> bool,
) {
    while let Some(bytes) = queue.recv().await {
        let written = writer.write_all(&bytes).await.is_ok() && writer.flush().await.is_ok();
        if !written || is_last(&bytes) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame as a client sends it.
    fn of_client(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = frame(kind, content).to_vec();
        bytes[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        let at = bytes.len() - content.len();
        let masked = content.iter().zip(mask.into_iter().cycle());
        let masked: Vec<u8> = masked.map(|(byte, mask)| byte ^ mask).collect();
        bytes.truncate(at);
        [bytes, mask.to_vec(), masked].concat()
    }

    fn frames(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, WebSocketError> {
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            decoder.push(piece);
            while let Some(frame) = decoder.pop()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn a_key_is_answered_as_the_specification_says() {
        let accepted = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        for size in [0, 1, 125, 126, 70_000] {
            let content = vec![7; size];
            let said = &content[..size.min(100)];
            let bytes = [
                of_client(BINARY, &content),
                of_client(PING, said),
                of_client(CONTINUED, b"more"),
                of_client(PONG, b""),
                of_client(CLOSE, b""),
            ];
            let expected = [
                Frame::Data(content.clone().into()),
                Frame::Ping(Bytes::copy_from_slice(said)),
                Frame::Data(Bytes::from_static(b"more")),
                Frame::Pong,
                Frame::Close,
            ];
            for cut in [1, 7, 100_000] {
                assert_eq!(frames(&bytes.concat(), cut).unwrap(), expected);
            }
        }
    }

    #[test]
    fn what_clients_do_not_send_is_refused() {
        let refused = |bytes: &[u8]| frames(bytes, 100).unwrap_err();
        assert_eq!(refused(&frame(BINARY, b"a")), WebSocketError::Unmasked);
        assert_eq!(refused(&of_client(1, b"text")), WebSocketError::Kind);
        assert_eq!(refused(b"\x89\xfe\0\xff\0\0\0\0"), WebSocketError::TooLarge);
        let endless = b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(refused(endless), WebSocketError::TooLarge);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = frames(&bytes, 13);
        }
    }
}
