//! Frames as they are on the wire (RFC 9113, sections 4, 6 and 7).

/// Octets of a frame's head.
pub(crate) const HEAD: usize = 9;
/// The largest payload that we take: what HTTP/2 has if nothing is said.
pub(crate) const MAX_PAYLOAD: usize = 16_384;
/// What a client says first.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// Why a stream or a connection ends (RFC 9113, section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// As it should.
    NoError = 0,
    /// The client broke the protocol.
    Protocol = 1,
    /// More was sent than the window allowed.
    FlowControl = 3,
    /// A frame on a stream that has ended.
    StreamClosed = 5,
    /// A frame of a size that is not allowed.
    FrameSize = 6,
    /// Nothing was done with the stream; it can be tried again.
    RefusedStream = 7,
    /// It is not needed any more.
    Cancel = 8,
    /// Header compression is out of step.
    Compression = 9,
    /// The client does something too often.
    EnhanceYourCalm = 11,
}

/// What precedes each payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn parse(octets: &[u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, s1, s2, s3, s4] = *octets;
        Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]),
        }
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame.
pub(crate) fn put_head(kind: u8, flags: u8, stream: u32, len: usize, out: &mut Vec<u8>) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, s1, s2, s3, s4]);
}

pub(crate) fn put_reset(stream: u32, reason: Reason, out: &mut Vec<u8>) {
    put_head(RST_STREAM, 0, stream, 4, out);
    out.extend_from_slice(&(reason as u32).to_be_bytes());
}

pub(crate) fn put_go_away(last: u32, reason: Reason, out: &mut Vec<u8>) {
    put_head(GOAWAY, 0, 0, 8, out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(reason as u32).to_be_bytes());
}

pub(crate) fn put_window_update(stream: u32, more: u32, out: &mut Vec<u8>) {
    put_head(WINDOW_UPDATE, 0, stream, 4, out);
    out.extend_from_slice(&more.to_be_bytes());
}

pub(crate) fn put_ping(flags: u8, data: &[u8], out: &mut Vec<u8>) {
    put_head(PING, flags, 0, data.len(), out);
    out.extend_from_slice(data);
}

/// The payload without padding; `None` if there is more of it than there is payload.
pub(crate) fn unpadded(head: Head, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

/// A number of four octets; zero if there are fewer.
pub(crate) fn number(octets: &[u8]) -> u32 {
    octets.first_chunk().map_or(0, |o| u32::from_be_bytes(*o))
}
