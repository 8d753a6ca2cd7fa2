//! Messages of Nacos over gRPC: an envelope with a type, headers, and JSON.
// Nacos: api/src/main/proto/nacos_grpc_service.proto, 2.3.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// The largest message that is read: what Nacos's own clients take.
pub(super) const LARGEST: usize = 10 << 20;
/// A flag and a length stand before each message.
const PREFIX: usize = 5;

/// What is said of a message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    /// The name of the message, as `ServiceListRequest`.
    #[prost(string, tag = "3")]
    pub(super) kind: String,
    /// Tokens and signatures.
    #[prost(btree_map = "string, string", tag = "7")]
    pub(super) headers: BTreeMap<String, String>,
    /// Who sends it. Servers read it from the connection.
    #[prost(string, tag = "8")]
    pub(super) client: String,
}

/// The content of a message: `google.protobuf.Any`, which holds JSON here.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Body {
    /// Not used.
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    /// JSON.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// A message.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Payload {
    /// What it is.
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<Metadata>,
    /// What it says.
    #[prost(message, optional, tag = "3")]
    pub(super) body: Option<Body>,
}

impl Payload {
    /// A message of a kind, that says `json`.
    pub(super) fn new(kind: &str, headers: BTreeMap<String, String>, json: Vec<u8>) -> Self {
        Self {
            metadata: Some(Metadata {
                kind: kind.to_owned(),
                headers,
                client: String::new(),
            }),
            body: Some(Body {
                type_url: String::new(),
                value: json.into(),
            }),
        }
    }

    /// The message as it is sent.
    pub(super) fn frame(&self) -> Bytes {
        let length = self.encoded_len();
        let mut out = BytesMut::with_capacity(PREFIX + length);
        out.put_u8(0);
        // What is sent is small: names and numbers.
        out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        out.put(self.encode_to_vec().as_slice());
        out.freeze()
    }

    /// The name of the message.
    pub(super) fn kind(&self) -> &str {
        self.metadata.as_ref().map_or("", |m| &m.kind)
    }

    /// What it says.
    pub(super) fn json(&self) -> &[u8] {
        self.body.as_ref().map_or(&[], |b| &b.value)
    }
}

/// Why the octets of a stream are no messages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// Compression was not offered.
    #[error("the server compresses messages, which was not asked for")]
    Compressed,
    /// It is skipped; what follows can be read.
    #[error("a message of {0} bytes, larger than {LARGEST}")]
    TooLarge(usize),
    /// No envelope.
    #[error("a message is no Payload")]
    Malformed,
}

/// Octets of a stream, as they come.
#[derive(Default)]
pub(super) struct Frames {
    waiting: BytesMut,
    /// What of a message that is too large has yet to come.
    skip: usize,
}

impl Frames {
    /// Takes in octets.
    pub(super) fn push(&mut self, mut octets: Bytes) {
        let skipped = self.skip.min(octets.len());
        octets.advance(skipped);
        self.skip -= skipped;
        self.waiting.extend_from_slice(&octets);
    }

    /// The next message, where it is there.
    pub(super) fn pop(&mut self) -> Result<Option<Payload>, FrameError> {
        let Some((prefix, rest)) = self.waiting.split_at_checked(PREFIX) else {
            return Ok(None);
        };
        if prefix[0] != 0 {
            return Err(FrameError::Compressed);
        }
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if length > LARGEST {
            let there = rest.len().min(length);
            self.skip = length - there;
            self.waiting.advance(PREFIX + there);
            return Err(FrameError::TooLarge(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.waiting.advance(PREFIX);
        let message = self.waiting.split_to(length).freeze();
        if self.waiting.is_empty() {
            // A large one is not kept for small ones to come.
            self.waiting = BytesMut::new();
        }
        let read = Payload::decode(message).map_err(|_| FrameError::Malformed)?;
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_in_pieces_of_any_size() {
        let message = Payload::new("A", BTreeMap::new(), b"{}".to_vec());
        let octets = [message.frame(), message.frame()].concat();
        for size in 1..octets.len() {
            let mut frames = Frames::default();
            let mut read = 0;
            for piece in octets.chunks(size) {
                frames.push(Bytes::copy_from_slice(piece));
                while let Some(found) = frames.pop().unwrap() {
                    assert_eq!(found, message);
                    read += 1;
                }
            }
            assert_eq!(read, 2, "pieces of {size}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_skipped_and_never_held() {
        let mut frames = Frames::default();
        let length = LARGEST + 1;
        let head = [&[0][..], &(length as u32).to_be_bytes()].concat();
        frames.push(Bytes::from(head));
        assert_eq!(frames.pop(), Err(FrameError::TooLarge(length)));
        let mut left = length;
        while left > 0 {
            let piece = left.min(60_000);
            frames.push(Bytes::from(vec![7; piece]));
            assert_eq!(frames.pop(), Ok(None));
            assert!(frames.waiting.is_empty());
            left -= piece;
        }
        let message = Payload::new("A", BTreeMap::new(), Vec::new());
        frames.push(message.frame());
        assert_eq!(frames.pop(), Ok(Some(message)));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for (octets, error) in [
            (&[1, 0, 0, 0, 0][..], FrameError::Compressed),
            (&[0, 0, 0, 0, 1, 0xff], FrameError::Malformed),
        ] {
            let mut frames = Frames::default();
            frames.push(Bytes::from_static(octets));
            assert_eq!(frames.pop(), Err(error));
        }
    }
}
