//! A module in what was downloaded: as it is, compressed with gzip, or in an archive of tar.
//!
//! What comes out is bounded whatever the input says of itself.
//!
//! Istio: pkg/wasm/httpfetcher.go unboxIfPossible, pkg/wasm/imagefetcher.go extractWasmPluginBinary, 1.32.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

/// What a module begins with.
const WASM: &[u8] = b"\0asm";
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Blocks of archives.
const BLOCK: usize = 512;
/// What archives say of themselves in a header.
const USTAR: &[u8] = b"ustar";
/// The file of an image.
const PLUGIN: &str = "plugin.wasm";
/// Compressed archives of compressed modules are the most that is there.
const LAYERS: usize = 3;

/// Why there is no module in something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadModule {
    /// Neither a module nor anything that one may be in.
    #[error("is no Wasm module")]
    NoModule,
    /// It cannot be decompressed.
    #[error("is not compressed as it says")]
    Corrupt,
    /// An archive ends early, or its lengths make no sense.
    #[error("is a damaged archive")]
    BadArchive,
    /// An archive without a module.
    #[error("is an archive without plugin.wasm")]
    NotInArchive,
    /// More than is taken.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
}

/// The module in some bytes, if it has no more than `largest` of them.
///
/// # Errors
///
/// When there is none. Who made it can act.
pub fn unbox(bytes: &Bytes, largest: usize) -> Result<Bytes, BadModule> {
    let mut bytes = bytes.clone();
    for _ in 0..=LAYERS {
        if bytes.starts_with(WASM) {
            return match bytes.len() > largest {
                true => Err(BadModule::TooLarge(largest)),
                false => Ok(bytes),
            };
        }
        bytes = if bytes.starts_with(GZIP) {
            inflate(&bytes, largest)?
        } else if is_archive(&bytes) {
            from_archive(&bytes)?
        } else {
            return Err(BadModule::NoModule);
        };
    }
    Err(BadModule::NoModule)
}

/// An archive is a little larger than the module in it.
fn inflate(bytes: &[u8], largest: usize) -> Result<Bytes, BadModule> {
    let limit = largest.saturating_add(64 * BLOCK);
    let mut out = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(limit as u64 + 1);
    reader
        .read_to_end(&mut out)
        .map_err(|_| BadModule::Corrupt)?;
    match out.len() > limit {
        true => Err(BadModule::TooLarge(largest)),
        false => Ok(out.into()),
    }
}

fn is_archive(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(USTAR)
}

/// The file `plugin.wasm` of an archive, else its only one that ends in `.wasm`.
fn from_archive(bytes: &Bytes) -> Result<Bytes, BadModule> {
    let mut other = None;
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        let size = size(header).ok_or(BadModule::BadArchive)?;
        let start = at + BLOCK;
        let end = start.checked_add(size).ok_or(BadModule::BadArchive)?;
        let content = (end <= bytes.len()).then(|| bytes.slice(start..end));
        let content = content.ok_or(BadModule::BadArchive)?;
        let name = name(header);
        // Whatever is no plain file is passed over with what it holds.
        if matches!(header[156], b'0' | 0) {
            if name.rsplit('/').next() == Some(PLUGIN) {
                return Ok(content);
            }
            if name.ends_with(".wasm") {
                other = match other {
                    None => Some(Some(content)),
                    Some(_) => Some(None),
                };
            }
        }
        at = end
            .checked_next_multiple_of(BLOCK)
            .ok_or(BadModule::BadArchive)?;
    }
    other.flatten().ok_or(BadModule::NotInArchive)
}

fn name(header: &[u8]) -> String {
    let field = &header[..100];
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The length of an entry's content: octal digits, or a binary number.
fn size(header: &[u8]) -> Option<usize> {
    let field = &header[124..136];
    if field[0] & 0x80 != 0 {
        let number = &field[4..];
        let whole = field[1..4].iter().all(|b| *b == 0) && field[0] == 0x80;
        let value = number.iter().fold(0_u64, |sum, b| sum << 8 | u64::from(*b));
        return usize::try_from(value).ok().filter(|_| whole);
    }
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(['\0', ' ']);
    match digits.is_empty() {
        true => Some(0),
        false => usize::from_str_radix(digits, 8).ok(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// An archive of files.
    pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, content) in files {
            let mut header = [0_u8; BLOCK];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[156] = b'0';
            header[257..262].copy_from_slice(USTAR);
            out.extend(header);
            out.extend(*content);
            out.resize(out.len().next_multiple_of(BLOCK), 0);
        }
        out.resize(out.len() + 2 * BLOCK, 0);
        out
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn of(bytes: Vec<u8>) -> Result<Bytes, BadModule> {
        unbox(&bytes.into(), 1000)
    }

    #[test]
    fn a_module_is_found_in_what_it_may_be_in() {
        let module = Ok(Bytes::from_static(MODULE));
        let in_image = archive(&[
            ("README.md", b"x"),
            ("./plugin.wasm", MODULE),
            ("b.wasm", b"b"),
        ]);
        for bytes in [
            MODULE.to_vec(),
            gzip(MODULE),
            in_image.clone(),
            gzip(&in_image),
            gzip(&archive(&[("main.wasm", MODULE)])),
            gzip(&archive(&[("plugin.wasm", &gzip(MODULE))])),
        ] {
            assert_eq!(of(bytes), module);
        }
    }

    #[test]
    fn what_holds_none_is_refused_with_the_reason() {
        let mut cut = archive(&[("plugin.wasm", &[0; 600])]);
        cut.truncate(700);
        let mut odd = archive(&[("plugin.wasm", MODULE)]);
        odd[124..136].fill(b'9');
        let several = archive(&[("a.wasm", MODULE), ("b.wasm", MODULE)]);
        let nested = gzip(&gzip(&gzip(&gzip(MODULE))));
        for (bytes, why) in [
            (b"<html>".to_vec(), BadModule::NoModule),
            (Vec::new(), BadModule::NoModule),
            (GZIP.to_vec(), BadModule::Corrupt),
            (archive(&[("readme", b"x")]), BadModule::NotInArchive),
            (several, BadModule::NotInArchive),
            (archive(&[("plugin.wasm", b"text")]), BadModule::NoModule),
            (cut, BadModule::BadArchive),
            (odd, BadModule::BadArchive),
            (nested, BadModule::NoModule),
            ([MODULE, &[0; 1000]].concat(), BadModule::TooLarge(1000)),
            // A megabyte of zeros in a kilobyte.
            (gzip(&vec![0; 1 << 20]), BadModule::TooLarge(1000)),
        ] {
            assert_eq!(of(bytes), Err(why));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_more_than_is_taken(bytes: Vec<u8>, largest in 0_usize..2000) {
            for bytes in [archive(&[("plugin.wasm", &bytes)]), gzip(&bytes), bytes] {
                if let Ok(module) = unbox(&bytes.into(), largest) {
                    proptest::prop_assert!(module.len() <= largest);
                }
            }
        }
    }
}
