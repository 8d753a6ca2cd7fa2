//! Records of ZooKeeper: numbers, texts and lists, one behind the other.

use std::sync::Arc;

/// A record ends early, or says what it cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record that cannot be read")]
pub(super) struct Malformed;

/// Reads a record.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// 32 bits.
    pub(super) fn int(&mut self) -> Result<i32, Malformed> {
        let octets = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(i32::from_be_bytes(octets))
    }

    /// 64 bits.
    pub(super) fn long(&mut self) -> Result<i64, Malformed> {
        let octets = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(i64::from_be_bytes(octets))
    }

    /// Octets with their length; none where it is negative.
    pub(super) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    /// A text.
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.buffer()?).map_err(|_| Malformed)
    }

    /// A list of at most so many texts.
    pub(super) fn texts(&mut self, most: usize) -> Result<Vec<Arc<str>>, Malformed> {
        let length = usize::try_from(self.int()?).unwrap_or(0);
        // Each has a length of its own, so that a count alone makes nobody set room aside.
        if length > most || length > self.0.len() / 4 {
            return Err(Malformed);
        }
        (0..length).map(|_| self.text().map(Arc::from)).collect()
    }
}

/// Writes a record behind its length.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// An empty record.
    pub(super) fn new() -> Self {
        Self(vec![0; 4])
    }

    /// 32 bits.
    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// 64 bits.
    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A truth value.
    pub(super) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    /// Octets with their length.
    pub(super) fn buffer(mut self, octets: &[u8]) -> Self {
        // What is written is paths and passwords.
        let length = i32::try_from(octets.len()).unwrap_or(i32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.extend(octets);
        self
    }

    /// The record as it is sent.
    pub(super) fn frame(mut self) -> Vec<u8> {
        let length = i32::try_from(self.0.len() - 4).unwrap_or(i32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let frame = Writer::new()
            .int(-7)
            .long(1 << 40)
            .bool(true)
            .buffer("ä".as_bytes())
            .frame();
        let mut reader = Reader(&frame);
        assert_eq!(reader.int().unwrap() as usize, frame.len() - 4);
        assert_eq!((reader.int(), reader.long()), (Ok(-7), Ok(1 << 40)));
        assert_eq!(
            (reader.take(1).unwrap(), reader.text()),
            (&[1][..], Ok("ä"))
        );
        assert_eq!(reader.int(), Err(Malformed));
    }

    #[test]
    fn lists_hold_what_they_say() {
        for (record, texts) in [
            (
                &[0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 0][..],
                Ok(vec!["a", ""]),
            ),
            (&[0xff, 0xff, 0xff, 0xff], Ok(vec![])),
            (
                &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                Err(Malformed),
            ),
            (&[0, 0, 0, 2, 0, 0, 0, 0], Err(Malformed)),
            (&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0], Err(Malformed)),
            (&[0, 0, 0, 1, 0, 0, 0, 1, 0xff], Err(Malformed)),
            (&[0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff], Err(Malformed)),
        ] {
            let read = Reader(record).texts(2);
            let read = read
                .as_ref()
                .map(|t| t.iter().map(|t| &**t).collect::<Vec<_>>());
            assert_eq!(read.map_err(|e| *e), texts, "{record:?}");
        }
    }
}
