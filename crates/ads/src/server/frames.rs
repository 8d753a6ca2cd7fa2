//! gRPC framing: a flag byte, four bytes of length, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::status::{Code, Status};

/// A message's flag and length.
pub(super) const HEADER: usize = 5;

/// Puts a frame around a message.
pub fn frame(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + message.len());
    out.put_u8(0);
    out.put_u32(message.len() as u32);
    out.put_slice(message);
    out.freeze()
}

/// Cuts incoming data into messages; also of use to clients. A message within one piece of data is not copied.
#[derive(Debug)]
pub struct Frames {
    max: usize,
    whole: Bytes,
    partial: BytesMut,
}

impl Frames {
    /// Refuses messages of more than `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            whole: Bytes::new(),
            partial: BytesMut::new(),
        }
    }

    /// Takes messages of up to `max` bytes, or as large as before.
    pub(super) fn allow(&mut self, max: usize) {
        self.max = self.max.max(max);
    }

    /// Takes in a piece; [`Frames::pop`] must have returned `None` since the last one.
    pub fn push(&mut self, data: Bytes) {
        if self.partial.is_empty() {
            self.whole = data;
        } else {
            self.partial.extend_from_slice(&data);
        }
    }

    /// The next complete message.
    ///
    /// # Errors
    /// The client's: a compressed message, or one that is too large.
    pub fn pop(&mut self) -> Result<Option<Bytes>, Status> {
        let pending: &[u8] = if self.whole.is_empty() {
            &self.partial
        } else {
            &self.whole
        };
        let Some((header, rest)) = pending.split_first_chunk() else {
            self.keep();
            return Ok(None);
        };
        let len = self.body(header)?;
        if rest.len() < len {
            self.keep();
            return Ok(None);
        }
        Ok(Some(if self.whole.is_empty() {
            self.partial.advance(HEADER);
            let message = self.partial.split_to(len).freeze();
            if self.partial.is_empty() {
                // Streams live for days and rarely send more than an acknowledgement.
                self.partial = BytesMut::new();
            }
            message
        } else {
            self.whole.advance(HEADER);
            self.whole.split_to(len)
        }))
    }

    /// How many bytes the message has that begins so.
    ///
    /// # Errors
    /// As of [`Frames::pop`].
    pub(super) fn body(&self, header: &[u8; HEADER]) -> Result<usize, Status> {
        let [flag, length @ ..] = *header;
        if flag != 0 {
            return Err(Status::new(
                Code::Unimplemented,
                "compressed requests are not supported",
            ));
        }
        let len = u32::from_be_bytes(length) as usize;
        if len > self.max {
            let message = format!(
                "request of {len} bytes is larger than the limit of {}",
                self.max
            );
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        Ok(len)
    }

    /// How many bytes are missing of the message that is kept in part, if there is one with a good header.
    pub(super) fn lacks(&self) -> Option<usize> {
        let len = self.body(self.partial.first_chunk()?).ok()?;
        (HEADER + len).checked_sub(self.partial.len())
    }

    /// Keeps the beginning of a message until the rest comes.
    fn keep(&mut self) {
        if !self.whole.is_empty() {
            self.partial.extend_from_slice(&self.whole);
            self.whole = Bytes::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn too_large_and_compressed_messages_are_refused() {
        let mut frames = Frames::new(3);
        frames.push(frame(b"1234"));
        assert_eq!(frames.pop().unwrap_err().code, Code::ResourceExhausted);
        let mut frames = Frames::new(3);
        frames.push(Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert_eq!(frames.pop().unwrap_err().code, Code::Unimplemented);
    }

    #[test]
    fn larger_messages_are_taken_once_they_are_allowed() {
        let mut frames = Frames::new(3);
        for max in [4, 1] {
            frames.allow(max);
            frames.push(frame(b"1234"));
            assert_eq!(frames.pop().unwrap().as_deref(), Some(&b"1234"[..]));
            assert_eq!(frames.pop().unwrap(), None);
        }
        frames.push(frame(b"12345"));
        assert_eq!(frames.pop().unwrap_err().code, Code::ResourceExhausted);
    }

    proptest! {
        #[test]
        fn messages_survive_any_cutting(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1usize..30, 1..20),
        ) {
            let mut wire = Bytes::from(messages.iter().flat_map(|m| frame(m)).collect::<Vec<u8>>());
            let mut frames = Frames::new(40);
            let mut got = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            while !wire.is_empty() {
                let n = cuts.next().unwrap().min(wire.len());
                frames.push(wire.split_to(n));
                while let Some(m) = frames.pop().unwrap() {
                    got.push(m.to_vec());
                }
            }
            prop_assert_eq!(got, messages);
        }

        #[test]
        fn arbitrary_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::new(64);
            frames.push(data.into());
            while let Ok(Some(_)) = frames.pop() {}
        }
    }
}
