//! Frames of SPDY/3.1, as far as port forwarding needs them. Windows are not kept, as clients do not keep them either.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::headers::{Headers, Reader, Writer};

/// The largest frame that is read.
pub const LARGEST: usize = 1 << 20;
/// What comes before the content of a frame.
const HEAD: usize = 8;
/// What marks a frame of control, with the version.
const CONTROL: u16 = 0x8003;
const OPEN: u16 = 1;
const REPLY: u16 = 2;
const RESET: u16 = 3;
const PING: u16 = 6;
const END: u16 = 7;
/// The flag of the last frame of a side of a stream.
const LAST: u8 = 1;
/// Why a stream is not taken.
const REFUSED: u32 = 3;

/// What cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpdyError {
    /// A frame, or headers, of too many bytes.
    #[error("a frame is too large")]
    TooLarge,
    /// A frame of another version.
    #[error("a frame is not of SPDY/3")]
    Version,
    /// A frame that is too short for what it is.
    #[error("a frame is too short")]
    Short,
    /// Headers that are none.
    #[error("headers cannot be read")]
    Headers,
}

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// The other side opens a stream.
    Open {
        /// Its number.
        stream: u32,
        /// Its headers.
        headers: Headers,
        /// Whether the other side sends nothing on it.
        last: bool,
    },
    /// Data of a stream.
    Data {
        /// Its number.
        stream: u32,
        /// The data.
        data: Bytes,
        /// Whether nothing follows.
        last: bool,
    },
    /// A stream is given up.
    Reset {
        /// Its number.
        stream: u32,
    },
    /// The other side wants this number back.
    Ping {
        /// The number.
        id: u32,
    },
    /// The other side opens no more streams.
    End,
    /// What leads to nothing here.
    Other,
}

/// Reads the frames of a connection.
#[derive(Default)]
pub struct Decoder {
    pending: BytesMut,
    headers: Reader,
}

impl Decoder {
    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When it is none of SPDY/3, or too large. Nothing that follows can be read.
    pub fn pop(&mut self) -> Result<Option<Frame>, SpdyError> {
        let Some(head) = self.pending.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, d, flags, length @ ..] = *head;
        let length = length
            .into_iter()
            .fold(0, |sum, byte| (sum << 8) | usize::from(byte));
        if length > LARGEST {
            return Err(SpdyError::TooLarge);
        }
        if self.pending.len() < HEAD + length {
            return Ok(None);
        }
        self.pending.advance(HEAD);
        let content = self.pending.split_to(length).freeze();
        let last = flags & LAST != 0;
        if a & 0x80 == 0 {
            return Ok(Some(Frame::Data {
                stream: u32::from_be_bytes([a, b, c, d]),
                data: content,
                last,
            }));
        }
        if u16::from_be_bytes([a, b]) != CONTROL {
            return Err(SpdyError::Version);
        }
        let kind = u16::from_be_bytes([c, d]);
        self.control(kind, &content, last).map(Some)
    }

    fn control(&mut self, kind: u16, content: &[u8], last: bool) -> Result<Frame, SpdyError> {
        let first = || -> Result<u32, SpdyError> {
            let first = content.first_chunk().ok_or(SpdyError::Short)?;
            Ok(u32::from_be_bytes(*first) & 0x7fff_ffff)
        };
        Ok(match kind {
            OPEN => Frame::Open {
                stream: first()?,
                // Behind the stream that it belongs to, its priority and a number.
                headers: self
                    .headers
                    .read(content.get(10..).ok_or(SpdyError::Short)?)?,
                last,
            },
            RESET => Frame::Reset { stream: first()? },
            PING => Frame::Ping { id: first()? },
            END => Frame::End,
            // The state of the compression goes through all headers.
            REPLY | 8 => {
                self.headers
                    .read(content.get(4..).ok_or(SpdyError::Short)?)?;
                Frame::Other
            }
            _ => Frame::Other,
        })
    }
}

/// Writes the frames of a connection.
#[derive(Debug, Default)]
pub struct Encoder {
    headers: Writer,
}

impl Encoder {
    /// Takes a stream that the other side has opened.
    pub fn reply(&mut self, stream: u32) -> Bytes {
        let mut content = BytesMut::new();
        content.put_u32(stream);
        self.headers.write(&[], &mut content);
        control(REPLY, 0, &content)
    }

    /// Opens a stream.
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)], last: bool) -> Bytes {
        let mut content = BytesMut::new();
        content.put_u32(stream);
        content.put_u32(0);
        content.put_u16(0);
        self.headers.write(headers, &mut content);
        control(OPEN, if last { LAST } else { 0 }, &content)
    }
}

/// Data of a stream, which has fewer bytes than the largest frame.
pub fn data(stream: u32, data: &[u8], last: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD + data.len());
    out.put_u32(stream & 0x7fff_ffff);
    put_length(if last { LAST } else { 0 }, data, &mut out);
    out.freeze()
}

/// Sends a number back.
pub fn ping(id: u32) -> Bytes {
    control(PING, 0, &id.to_be_bytes())
}

/// Does not take a stream.
pub fn refuse(stream: u32) -> Bytes {
    let mut content = [0; 8];
    content[..4].copy_from_slice(&stream.to_be_bytes());
    content[4..].copy_from_slice(&REFUSED.to_be_bytes());
    control(RESET, 0, &content)
}

fn control(kind: u16, flags: u8, content: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD + content.len());
    out.put_u16(CONTROL);
    out.put_u16(kind);
    put_length(flags, content, &mut out);
    out.freeze()
}

/// Flags, the length in three bytes, and the content.
fn put_length(flags: u8, content: &[u8], out: &mut BytesMut) {
    out.put_u32((u32::from(flags) << 24) | content.len() as u32);
    out.put_slice(content);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, SpdyError> {
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
    fn frames_are_read_however_they_are_cut() {
        let mut encoder = Encoder::default();
        let headers = [("streamtype", "data"), ("port", "15014")];
        let all = [
            encoder.open(1, &headers, true),
            encoder.open(3, &headers[..1], false),
            data(3, b"GET /", false),
            data(3, b"", true),
            ping(7),
            refuse(5),
            encoder.reply(9),
            control(END, 0, &[0; 8]),
        ];
        let owned = |headers: &[(&str, &str)]| -> Headers {
            let owned = headers.iter();
            owned
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect()
        };
        let open = |stream, headers: &[(&str, &str)], last| Frame::Open {
            stream,
            headers: owned(headers),
            last,
        };
        let of = |data: &'static [u8], last| Frame::Data {
            stream: 3,
            data: Bytes::from_static(data),
            last,
        };
        let expected = [
            open(1, &headers, true),
            open(3, &headers[..1], false),
            of(b"GET /", false),
            of(b"", true),
            Frame::Ping { id: 7 },
            Frame::Reset { stream: 5 },
            Frame::Other,
            Frame::End,
        ];
        for cut in [1, 3, 8, 1000] {
            assert_eq!(frames(&all.concat(), cut).unwrap(), expected, "{cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let refused = |bytes: &[u8]| frames(bytes, 100).unwrap_err();
        assert_eq!(refused(b"\x80\x02\0\x06\0\0\0\0"), SpdyError::Version);
        assert_eq!(refused(b"\x80\x03\0\x06\0\0\0\0"), SpdyError::Short);
        assert_eq!(refused(b"\x80\x03\0\x01\0\0\0\x01\0"), SpdyError::Short);
        assert_eq!(refused(b"\0\0\0\x01\0\xff\xff\xff"), SpdyError::TooLarge);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = frames(&bytes, 17);
        }
    }
}
