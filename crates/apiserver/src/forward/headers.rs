//! Blocks of headers of SPDY/3: one stream of zlib through all frames of a direction, with a dictionary that both sides know.
//!
//! What is written is not compressed, which readers take as well.

use std::sync::OnceLock;

use bytes::{BufMut, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::spdy::SpdyError;

/// How far back what is compressed may refer.
const WINDOW: usize = 32 << 10;
/// The largest block, before it is compressed.
const LARGEST: usize = 16 << 10;
/// The most headers.
const MOST: usize = 64;
/// The dictionary: words with their lengths, and a tail without.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200+OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not \
    Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov \
    Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,\
    application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8\
    charset=iso-8859-1,utf-,*,enq=0.";

/// What both sides know.
fn dictionary() -> &'static [u8] {
    static DICTIONARY: OnceLock<Vec<u8>> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let mut bytes = Vec::new();
        for word in WORDS.split(' ') {
            let word = word.replace('+', " ");
            bytes.put_u32(word.len() as u32);
            bytes.put_slice(word.as_bytes());
        }
        bytes.put_slice(TAIL.as_bytes());
        bytes
    })
}

/// Names, which are in small letters, and values.
pub type Headers = Vec<(String, String)>;

/// Reads the blocks of a direction, in order.
pub struct Reader {
    state: Box<DecompressorOxide>,
    /// What was read last, as what follows refers to it.
    window: Box<[u8]>,
    at: usize,
    begun: bool,
}

impl Default for Reader {
    fn default() -> Self {
        let known = dictionary();
        let mut window = vec![0; WINDOW].into_boxed_slice();
        window[..known.len()].copy_from_slice(known);
        Self {
            state: Box::default(),
            window,
            at: known.len(),
            begun: false,
        }
    }
}

impl Reader {
    /// The headers of the next block.
    ///
    /// # Errors
    /// When it is none, or too large.
    pub fn read(&mut self, block: &[u8]) -> Result<Headers, SpdyError> {
        let mut rest = if self.begun {
            block
        } else {
            self.begin(block)?
        };
        let mut text = Vec::new();
        loop {
            let flags = TINFL_FLAG_HAS_MORE_INPUT;
            let (status, taken, made) =
                decompress(&mut self.state, rest, &mut self.window, self.at, flags);
            let made = self.window.get(self.at..self.at + made);
            let made = made.ok_or(SpdyError::Headers)?;
            text.extend_from_slice(made);
            if text.len() > LARGEST {
                return Err(SpdyError::TooLarge);
            }
            self.at = (self.at + made.len()) % WINDOW;
            rest = rest.get(taken..).ok_or(SpdyError::Headers)?;
            match status {
                TINFLStatus::NeedsMoreInput => return parse(&text),
                TINFLStatus::HasMoreOutput if taken > 0 || !made.is_empty() => {}
                _ => return Err(SpdyError::Headers),
            }
        }
    }

    /// Passes over what a stream of zlib begins with.
    fn begin<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], SpdyError> {
        let (head, rest) = block.split_at_checked(2).ok_or(SpdyError::Headers)?;
        if head[0] & 0x0f != 8 {
            return Err(SpdyError::Headers);
        }
        self.begun = true;
        if head[1] & 0x20 == 0 {
            return Ok(rest);
        }
        // The checksum of the dictionary, of which there is one.
        rest.get(4..).ok_or(SpdyError::Headers)
    }
}

fn parse(mut text: &[u8]) -> Result<Headers, SpdyError> {
    let count = number(&mut text)?;
    if count > MOST {
        return Err(SpdyError::TooLarge);
    }
    let mut headers = Headers::with_capacity(count);
    for _ in 0..count {
        headers.push((word(&mut text)?, word(&mut text)?));
    }
    match text {
        [] => Ok(headers),
        _ => Err(SpdyError::Headers),
    }
}

fn number(text: &mut &[u8]) -> Result<usize, SpdyError> {
    let (number, rest) = text.split_first_chunk().ok_or(SpdyError::Headers)?;
    *text = rest;
    usize::try_from(u32::from_be_bytes(*number)).map_err(|_| SpdyError::Headers)
}

fn word(text: &mut &[u8]) -> Result<String, SpdyError> {
    let len = number(text)?;
    let (word, rest) = text.split_at_checked(len).ok_or(SpdyError::Headers)?;
    *text = rest;
    String::from_utf8(word.to_vec()).map_err(|_| SpdyError::Headers)
}

/// Writes the blocks of a direction, in order.
#[derive(Debug, Default)]
pub struct Writer {
    begun: bool,
}

impl Writer {
    /// The next block.
    pub fn write(&mut self, headers: &[(&str, &str)], out: &mut BytesMut) {
        let mut text = BytesMut::new();
        text.put_u32(headers.len() as u32);
        for part in headers.iter().flat_map(|(name, value)| [name, value]) {
            text.put_u32(part.len() as u32);
            text.put_slice(part.as_bytes());
        }
        if !std::mem::replace(&mut self.begun, true) {
            out.put_slice(&[0x78, 0x01]);
        }
        for part in text.chunks(usize::from(u16::MAX)) {
            stored(part, out);
        }
        // Readers hand on what they have when a block without content follows.
        stored(&[], out);
    }
}

/// A block that is not compressed, and not the last.
fn stored(part: &[u8], out: &mut BytesMut) {
    let len = part.len() as u16;
    out.put_u8(0);
    out.put_u16_le(len);
    out.put_u16_le(!len);
    out.put_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(id: &str) -> [(&'static str, String); 3] {
        [
            ("port", "15014".to_owned()),
            ("requestid", id.to_owned()),
            ("streamtype", "error".to_owned()),
        ]
    }

    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        // RFC 1950's checksum of it, with which every compressed stream begins.
        let (mut a, mut b) = (1u32, 0u32);
        for byte in dictionary() {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!(dictionary().len(), 1423);
        assert_eq!((b << 16) | a, ADLER);
    }

    const ADLER: u32 = 0xe3c6a7c2;

    #[test]
    fn what_clients_compress_is_read() {
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digits).collect()
        };
        let mut reader = Reader::default();
        // Of zlib with the dictionary, flushed after each block.
        for (id, block) in [
            (
                "0",
                "78f9e3c6a7c202253a48f95b044aabac86c0e0350132388b201196094ac88c06e0a45852949a980b2d6d5853417101000000ffff",
            ),
            ("1", "224eb7210edd00000000ffff"),
        ] {
            let read = reader.read(&bytes(block)).unwrap();
            let expected = headers(id).map(|(name, value)| (name.to_owned(), value));
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        for count in 0..3 {
            let mut block = BytesMut::new();
            let all = [("a", "b"), ("port", "15014"), ("c", "")];
            writer.write(&all[..count], &mut block);
            let read = reader.read(&block).unwrap();
            let expected = all[..count].iter();
            let expected: Headers = expected
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn what_is_no_block_or_too_large_is_refused() {
        for block in [
            &b""[..],
            b"\x78",
            b"\x79\x01",
            b"\x78\x01\x07",
            b"\x78\x01\0\0\0\xff\xff",
        ] {
            assert_eq!(Reader::default().read(block), Err(SpdyError::Headers));
        }
        let mut block = BytesMut::new();
        let long = "x".repeat(LARGEST);
        Writer::default().write(&[("a", &long)], &mut block);
        assert_eq!(Reader::default().read(&block), Err(SpdyError::TooLarge));
        let many = vec![("a", "b"); MOST + 1];
        let mut block = BytesMut::new();
        Writer::default().write(&many, &mut block);
        assert_eq!(Reader::default().read(&block), Err(SpdyError::TooLarge));
    }
}
