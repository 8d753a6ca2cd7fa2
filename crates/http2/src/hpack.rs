//! Header compression (RFC 7541): all of it for what clients send, the least of it for what they are sent.

mod huffman;

use std::borrow::Cow;
use std::collections::VecDeque;

/// What a client's dynamic table may hold, as HTTP/2 has it if nothing is said.
const TABLE: usize = 4096;
/// What an entry counts beside its octets.
const ENTRY: usize = 32;

/// The static table, from index 1.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// A header block that cannot be read; the connection is lost with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Invalid;

#[derive(Debug)]
struct Entry {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + ENTRY
    }
}

/// Reads the header blocks of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            limit: TABLE,
        }
    }
}

impl Decoder {
    /// Gives `field` each field of a block, in order. What comes before an invalid field is given.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Invalid> {
        let mut input = Input(block);
        let mut fields = false;
        while let Some(first) = input.0.first().copied() {
            if first & 0xe0 == 0x20 {
                // A change of the table's size, which may only be at the beginning.
                let size = input.integer(5)?;
                if fields || size > TABLE {
                    return Err(Invalid);
                }
                self.limit = size;
                self.shrink();
                continue;
            }
            fields = true;
            if first & 0x80 != 0 {
                let index = input.integer(7)?;
                let (name, value) = self.entry(index)?;
                field(name, value);
                continue;
            }
            let keeps = first & 0x40 != 0;
            let index = input.integer(if keeps { 6 } else { 4 })?;
            let name = match index {
                0 => input.string()?,
                index => Cow::Borrowed(self.entry(index)?.0),
            };
            let value = input.string()?;
            field(&name, &value);
            if keeps {
                let entry = Entry {
                    name: name.into(),
                    value: value.into(),
                };
                self.insert(entry);
            }
        }
        Ok(())
    }

    /// What the table holds, as HTTP/2 counts it.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Invalid> {
        let at = index.checked_sub(1).ok_or(Invalid)?;
        if let Some((name, value)) = STATIC.get(at) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(at - STATIC.len()).ok_or(Invalid)?;
        Ok((&entry.name, &entry.value))
    }

    fn insert(&mut self, entry: Entry) {
        self.size += entry.size();
        self.entries.push_front(entry);
        // One that is larger than the table empties it.
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.size > self.limit
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn octet(&mut self) -> Result<u8, Invalid> {
        let (first, rest) = self.0.split_first().ok_or(Invalid)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number that begins in the last `bits` bits of the next octet.
    fn integer(&mut self, bits: u32) -> Result<usize, Invalid> {
        let mask = (1 << bits) - 1;
        let mut value = usize::from(self.octet()?) & mask;
        if value < mask {
            return Ok(value);
        }
        // Nothing here is as large as four octets more can say.
        for shift in [0, 7, 14, 21] {
            let octet = self.octet()?;
            value += usize::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Invalid)
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>, Invalid> {
        let coded = self.0.first().is_some_and(|first| first & 0x80 != 0);
        let len = self.integer(7)?;
        let (octets, rest) = self.0.split_at_checked(len).ok_or(Invalid)?;
        self.0 = rest;
        if !coded {
            return Ok(Cow::Borrowed(octets));
        }
        let mut text = Vec::with_capacity(len + len / 2);
        match huffman::decode(octets, &mut text) {
            true => Ok(Cow::Owned(text)),
            false => Err(Invalid),
        }
    }
}

/// Appends a field that no table remembers.
pub(crate) fn put_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    put_string(name, out);
    put_string(value, out);
}

/// Appends the status of a response.
pub(crate) fn put_status(status: http::StatusCode, out: &mut Vec<u8>) {
    let text = status.as_str();
    let whole = |entry: &(&str, &str)| *entry == (":status", text);
    match STATIC.iter().position(whole) {
        Some(at) => out.push(0x80 | (at + 1) as u8),
        None => put_field(b":status", text.as_bytes(), out),
    }
}

fn put_string(text: &[u8], out: &mut Vec<u8>) {
    let mut len = text.len();
    if len < 0x7f {
        out.push(len as u8);
    } else {
        out.push(0x7f);
        len -= 0x7f;
        while len >= 0x80 {
            out.push(0x80 | (len & 0x7f) as u8);
            len >>= 7;
        }
        out.push(len as u8);
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fields = Vec<(String, String)>;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Invalid> {
        let mut fields = Vec::new();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        decoder.decode(block, |n, v| fields.push((text(n), text(v))))?;
        Ok(fields)
    }

    fn fields(list: &[(&str, &str)]) -> Fields {
        list.iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn the_examples_of_the_specification_are_read() {
        // RFC 7541, C.3: three requests on one connection, without Huffman code; C.4 has the same with it.
        let begins = [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ];
        let mut second = begins.to_vec();
        second.push(("cache-control", "no-cache"));
        let mut plain = Decoder::default();
        let mut block = vec![0x82, 0x86, 0x84, 0x41, 0x0f];
        block.extend(b"www.example.com");
        assert_eq!(decoded(&mut plain, &block), Ok(fields(&begins)));
        let mut block = vec![0x82, 0x86, 0x84, 0xbe, 0x58, 0x08];
        block.extend(b"no-cache");
        assert_eq!(decoded(&mut plain, &block), Ok(fields(&second)));
        assert_eq!(plain.size, 110);

        let mut coded = Decoder::default();
        let block = [
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab,
            0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&mut coded, &block), Ok(fields(&begins)));
        let block = [
            0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf,
        ];
        assert_eq!(decoded(&mut coded, &block), Ok(fields(&second)));
    }

    #[test]
    fn the_table_keeps_to_its_limit() {
        let mut decoder = Decoder::default();
        let mut block = vec![0x40];
        put_string(b"name", &mut block);
        put_string(&[b'v'; 1000], &mut block);
        for _ in 0..10 {
            decoder.decode(&block, |_, _| {}).unwrap();
        }
        assert_eq!((decoder.entries.len(), decoder.size), (3, 3 * 1036));
        // One that is larger than the table, and a smaller table.
        let mut large = vec![0x40];
        put_string(b"name", &mut large);
        put_string(&[b'v'; 5000], &mut large);
        decoder.decode(&large, |_, _| {}).unwrap();
        assert_eq!((decoder.entries.len(), decoder.size), (0, 0));
        decoder.decode(&block, |_, _| {}).unwrap();
        decoder.decode(&[0x20], |_, _| {}).unwrap();
        assert_eq!((decoder.entries.len(), decoder.size), (0, 0));
    }

    #[test]
    fn bad_blocks_are_refused() {
        let bad: [&[u8]; 8] = [
            &[0x80],                               // index 0
            &[0xbe],                               // an entry that there is not
            &[0xff],                               // the number is cut off
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], // a number too large
            &[0x3f, 0xe2, 0x1f],                   // a table of 4,097 octets
            &[0x82, 0x20],                         // a change of its size after a field
            &[0x00, 0x05, b'a'],                   // a string that is cut off
            &[0x00, 0x81, 0x00, 0x00],             // bad Huffman code
        ];
        for block in bad {
            let result = Decoder::default().decode(block, |_, _| {});
            assert_eq!(result, Err(Invalid), "{block:02x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(name in "[a-z-]{1,200}", value in ".{0,300}", status in 200u16..600) {
            let mut block = Vec::new();
            let status = http::StatusCode::from_u16(status).unwrap();
            put_status(status, &mut block);
            put_field(name.as_bytes(), value.as_bytes(), &mut block);
            let expected = fields(&[(":status", status.as_str()), (&name, &value)]);
            prop_assert_eq!(decoded(&mut Decoder::default(), &block), Ok(expected));
        }

        #[test]
        fn nothing_panics(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6)) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let _ = decoder.decode(&block, |_, _| {});
                prop_assert!(decoder.size <= TABLE);
            }
        }
    }
}
