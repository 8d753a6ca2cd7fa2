//! Texts that are not UTF-8: what can be read of them, and what is closed.
//!
//! Documents without a damaged character are read. Of others, and of texts in UTF-16, nothing is used: what they are to protect
//! is closed, as in documents that are not YAML.

use std::borrow::Cow;
use std::path::Path as FilePath;
use std::sync::Arc;

use super::{Judge, Parsed, Reader, Validation, code, yaml};
use crate::diagnostic::{Diagnostic, Severity};

/// What begins a text in UTF-16, in either order of bytes.
const LITTLE_ENDIAN: [u8; 2] = [0xff, 0xfe];
const BIG_ENDIAN: [u8; 2] = [0xfe, 0xff];

/// Reads the objects of bytes that are not UTF-8, as [`parse_judged`](super::parse_judged) does.
pub fn parse_undecoded(
    bytes: &[u8],
    file: &Arc<FilePath>,
    validation: Validation,
    judge: &dyn Judge,
) -> Parsed {
    let wide = wide(bytes);
    let text = match &wide {
        Some(text) => Cow::Borrowed(text.as_str()),
        None => String::from_utf8_lossy(bytes),
    };
    let mut reader = Reader::new(&text, file, validation);
    reader.judge = judge;
    let message = match (&wide, std::str::from_utf8(bytes)) {
        (Some(_), _) => "the file is UTF-16, not UTF-8".to_owned(),
        (None, Err(error)) => format!("the file is not UTF-8 from byte {} on", error.valid_up_to()),
        (None, Ok(_)) => "the file is not UTF-8".to_owned(),
    };
    for part in yaml::parts(&text) {
        if wide.is_some() || part.text.contains(char::REPLACEMENT_CHARACTER) {
            reader.undecoded(&message, part.text, part.line);
        } else if let Some(document) = part.read() {
            reader.part = Some(part);
            reader.again = None;
            reader.document(document);
        }
    }
    if reader.parsed.documents.is_empty() {
        reader.undecoded(&message, "", 1);
    }
    reader.parsed
}

impl Reader<'_> {
    /// Refuses a document with what cannot be decoded, and closes what it is to protect. It is not quoted.
    fn undecoded(&mut self, message: &str, text: &str, line: u32) {
        let mut said = Diagnostic::new(code::SYNTAX, Severity::Error, message);
        said.origin = Some(self.origin(line));
        self.parsed.diagnostics.push(said);
        self.close_text(text, line);
    }
}

/// A text in UTF-16, with what cannot be read replaced.
fn wide(bytes: &[u8]) -> Option<String> {
    let (order, rest) = bytes.split_first_chunk::<2>()?;
    let unit: fn([u8; 2]) -> u16 = match *order {
        LITTLE_ENDIAN => u16::from_le_bytes,
        BIG_ENDIAN => u16::from_be_bytes,
        _ => return None,
    };
    let (pairs, _) = rest.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    Some(String::from_utf16_lossy(&units))
}
