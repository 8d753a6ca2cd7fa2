//! The file: a head, then frames, each with a checksum. All numbers are little-endian.
//!
//! A frame is one byte for its kind, four for the length of what it holds, that, and eight of a hash over all before.
//! Frames refer to resources and sets by counting: the first is 0. What they say holds from the next [`Frame::Commit`]
//! on, so a file that ends in the middle of a save still holds the save before.

use std::io;

use thiserror::Error;
use xds::TypeUrl;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// How every file begins.
const MAGIC: &[u8; 16] = b"pilothouse warm\n";
/// The version of this format.
pub(crate) const FORMAT: u32 = 1;
/// Types that are kept.
pub(crate) const TYPES: [TypeUrl; 5] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
    TypeUrl::NameTable,
];
/// In place of the number of a set: the type was not asked for.
const NONE: u32 = u32::MAX;

/// Whether resources of a type are written. Secrets are not, nor extension configurations, which may hold the
/// credentials of a registry. Of the others those with hashes of passwords are left out.
pub fn is_kept(ty: TypeUrl) -> bool {
    TYPES.contains(&ty)
}

/// What made the resources: of another origin they are not served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Version of the program.
    pub program: String,
    /// Hash over the settings and the names of the sources.
    pub settings: u64,
}

/// Why what is on disk is not served.
#[derive(Debug, Error)]
pub enum Ignored {
    /// The system refuses to read it.
    #[error("it cannot be read")]
    Unreadable(#[source] io::Error),
    /// It is larger than the limit.
    #[error("it has {0} bytes, more than the limit")]
    TooLarge(u64),
    /// It is something else.
    #[error("it is not a state file")]
    Foreign,
    /// It is of another version of the format.
    #[error("its format is version {0}; this program reads version {FORMAT}")]
    OtherFormat(u32),
    /// Another version of the program wrote it.
    #[error("it was written by version {0}")]
    OtherProgram(String),
    /// It was made under other settings or of other sources.
    #[error("it was made under other settings or from other sources")]
    OtherSettings,
    /// It is damaged.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
}

impl Ignored {
    /// A word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Ignored::Unreadable(_) => "unreadable",
            Ignored::TooLarge(_) => "too_large",
            Ignored::Foreign => "foreign",
            Ignored::OtherFormat(_) => "format",
            Ignored::OtherProgram(_) => "program",
            Ignored::OtherSettings => "settings",
            Ignored::Damaged { .. } => "damaged",
        }
    }
}

/// Something that the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    /// The next resource.
    Resource { name: &'a str, body: &'a [u8] },
    /// The next set: `base` with some resources, by number, put in, and some names taken out.
    Set {
        base: Option<u32>,
        put: Vec<u32>,
        removed: Vec<&'a str>,
    },
    /// What a view has, in the order of [`TYPES`].
    View {
        view: u32,
        sets: [Option<u32>; TYPES.len()],
    },
    /// A view is gone.
    Gone { view: u32 },
    /// A node has a view.
    Node {
        exact: u128,
        kind: u128,
        addresses: u64,
        view: u32,
    },
    /// A node is gone.
    Left { exact: u128 },
    /// Everything before holds together, as of a time in seconds since 1970.
    Commit { at: u64 },
}

/// Writes the head.
pub(crate) fn put_head(origin: &Origin, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(MAGIC);
    put_u32(FORMAT, out);
    put_bytes(origin.program.as_bytes(), out);
    out.extend_from_slice(&origin.settings.to_le_bytes());
    let hash = xxh3_64(&out[start..]);
    out.extend_from_slice(&hash.to_le_bytes());
}

/// Reads the head and returns what follows it.
pub(crate) fn take_head<'a>(file: &'a [u8], origin: &Origin) -> Result<Cursor<'a>, Ignored> {
    let mut rest = Cursor { file, at: 0 };
    if rest.take(MAGIC.len()) != Some(MAGIC) {
        return Err(Ignored::Foreign);
    }
    let torn = Ignored::Damaged {
        at: file.len(),
        what: "it ends within its head",
    };
    let Some(format) = rest.u32() else {
        return Err(torn);
    };
    if format != FORMAT {
        return Err(Ignored::OtherFormat(format));
    }
    let (program, settings) = (rest.bytes(), rest.u64());
    let end = rest.at;
    let (Some(program), Some(settings), Some(hash)) = (program, settings, rest.u64()) else {
        return Err(torn);
    };
    if xxh3_64(&file[..end]) != hash {
        return Err(Ignored::Damaged {
            at: 0,
            what: "the checksum of its head is wrong",
        });
    }
    if program != origin.program.as_bytes() {
        let found = String::from_utf8_lossy(program).into_owned();
        return Err(Ignored::OtherProgram(found));
    }
    if settings != origin.settings {
        return Err(Ignored::OtherSettings);
    }
    Ok(rest)
}

impl Frame<'_> {
    /// Writes the frame.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(self.kind());
        put_u32(0, out);
        let body = out.len();
        match self {
            Frame::Resource { name, body } => {
                put_bytes(name.as_bytes(), out);
                out.extend_from_slice(body);
            }
            Frame::Set { base, put, removed } => {
                put_u32(base.unwrap_or(NONE), out);
                put_u32(put.len() as u32, out);
                put.iter().for_each(|n| put_u32(*n, out));
                removed.iter().for_each(|n| put_bytes(n.as_bytes(), out));
            }
            Frame::View { view, sets } => {
                put_u32(*view, out);
                sets.iter().for_each(|n| put_u32(n.unwrap_or(NONE), out));
            }
            Frame::Gone { view } => put_u32(*view, out),
            Frame::Node {
                exact,
                kind,
                addresses,
                view,
            } => {
                out.extend_from_slice(&exact.to_le_bytes());
                out.extend_from_slice(&kind.to_le_bytes());
                out.extend_from_slice(&addresses.to_le_bytes());
                put_u32(*view, out);
            }
            Frame::Left { exact } => out.extend_from_slice(&exact.to_le_bytes()),
            Frame::Commit { at } => out.extend_from_slice(&at.to_le_bytes()),
        }
        let len = (out.len() - body) as u32;
        out[start + 1..body].copy_from_slice(&len.to_le_bytes());
        let hash = xxh3_64(&out[start..]);
        out.extend_from_slice(&hash.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Resource { .. } => 1,
            Frame::Set { .. } => 2,
            Frame::View { .. } => 3,
            Frame::Gone { .. } => 4,
            Frame::Node { .. } => 5,
            Frame::Left { .. } => 6,
            Frame::Commit { .. } => 7,
        }
    }
}

fn put_u32(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_u32(bytes.len() as u32, out);
    out.extend_from_slice(bytes);
}

/// Reads from a place of the file on.
pub(crate) struct Cursor<'a> {
    file: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    /// The next frame; `None` at the end of the file, and where the file ends within a frame.
    pub(crate) fn frame(&mut self) -> Result<Option<Frame<'a>>, Ignored> {
        let start = self.at;
        let damaged = |what| Ignored::Damaged { at: start, what };
        let (Some(kind), Some(len)) = (self.take(1), self.u32()) else {
            return Ok(None);
        };
        let Some(body) = self.take(len as usize) else {
            return Ok(None);
        };
        let end = self.at;
        let Some(hash) = self.u64() else {
            return Ok(None);
        };
        let mut computed = Xxh3::new();
        computed.update(&self.file[start..end]);
        if computed.digest() != hash {
            return Err(damaged("a checksum is wrong"));
        }
        let mut body = Cursor { file: body, at: 0 };
        let frame = body.content(kind[0]);
        match frame {
            Some(frame) if body.at == body.file.len() => Ok(Some(frame)),
            _ => Err(damaged("a frame cannot be read")),
        }
    }

    fn content(&mut self, kind: u8) -> Option<Frame<'a>> {
        Some(match kind {
            1 => Frame::Resource {
                name: self.text()?,
                body: self.rest(),
            },
            2 => {
                let base = self.number()?;
                let count = self.u32()? as usize;
                let numbers = self.take(count.checked_mul(4)?)?;
                let (numbers, _) = numbers.as_chunks::<4>();
                let mut removed = Vec::new();
                while self.at < self.file.len() {
                    removed.push(self.text()?);
                }
                Frame::Set {
                    base,
                    put: numbers.iter().map(|n| u32::from_le_bytes(*n)).collect(),
                    removed,
                }
            }
            3 => {
                let view = self.u32()?;
                let mut sets = [None; TYPES.len()];
                for set in &mut sets {
                    *set = self.number()?;
                }
                Frame::View { view, sets }
            }
            4 => Frame::Gone { view: self.u32()? },
            5 => Frame::Node {
                exact: self.u128()?,
                kind: self.u128()?,
                addresses: self.u64()?,
                view: self.u32()?,
            },
            6 => Frame::Left {
                exact: self.u128()?,
            },
            7 => Frame::Commit { at: self.u64()? },
            _ => return None,
        })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.file.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn rest(&mut self) -> &'a [u8] {
        let rest = &self.file[self.at..];
        self.at = self.file.len();
        rest
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// A number of something that may not be there.
    fn number(&mut self) -> Option<Option<u32>> {
        self.u32().map(|n| (n != NONE).then_some(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let frames = [
            Frame::Resource {
                name: "outbound|80||a",
                body: b"body",
            },
            Frame::Set {
                base: Some(3),
                put: vec![0, 7],
                removed: vec!["", "b"],
            },
            Frame::View {
                view: 4,
                sets: [Some(0), None, Some(2), None, None],
            },
            Frame::Gone { view: 9 },
            Frame::Node {
                exact: 1 << 100,
                kind: 2,
                addresses: 3,
                view: 4,
            },
            Frame::Left { exact: 5 },
            Frame::Commit { at: 6 },
        ];
        let mut file = Vec::new();
        frames.iter().for_each(|f| f.put(&mut file));
        let mut cursor = Cursor { file: &file, at: 0 };
        for frame in frames {
            assert_eq!(cursor.frame().unwrap(), Some(frame));
        }
        assert_eq!(cursor.frame().unwrap(), None);
    }
}
