//! Listing and reading manifests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use model::parse::{Parsed, Validation};
use model::{Diagnostic, Origin, Severity};
use xxhash_rust::xxh3::xxh3_64;

use super::code;

/// The largest file that is read, in bytes. A larger one is refused whole.
pub const LARGEST_FILE: u64 = 64 << 20;

/// How deep folders may be nested.
const DEEPEST: usize = 32;

/// A file written twice within the grain of the disk's clock looks unchanged, so young files are read again.
const YOUNG: Duration = Duration::from_millis(50);

/// Whether a file of this name is read: `*.yaml`, `*.yml` and `*.json` that are not hidden.
pub fn is_manifest(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| is_hidden(&name.to_string_lossy()));
    let extension = path.extension().and_then(|e| e.to_str());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Hidden entries are editors' and Kubernetes' own: a mounted ConfigMap shows its files as links into `..data`.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// What is below a folder.
#[derive(Default)]
pub(super) struct Listing {
    /// Manifests, sorted.
    pub(super) files: Vec<PathBuf>,
    /// Parts that cannot be listed.
    pub(super) trouble: Vec<Diagnostic>,
    /// Whether everything could be listed, so that what is absent is gone.
    pub(super) complete: bool,
}

pub(super) fn list(root: &Path) -> Listing {
    let mut listing = Listing {
        complete: true,
        ..Listing::default()
    };
    if root.is_file() {
        listing.files.push(root.to_owned());
        return listing;
    }
    let mut above = Vec::new();
    list_folder(root, &mut above, &mut listing);
    listing.files.sort_unstable();
    listing
}

fn list_folder(folder: &Path, above: &mut Vec<PathBuf>, listing: &mut Listing) {
    let entries =
        std::fs::read_dir(folder).and_then(|entries| Ok((entries, std::fs::canonicalize(folder)?)));
    let (entries, real) = match entries {
        Ok(entries) => entries,
        Err(error) => {
            listing.trouble.push(unreadable(folder, error.to_string()));
            listing.complete = false;
            return;
        }
    };
    // A link that leads back up would never end.
    if above.contains(&real) {
        return;
    }
    if above.len() > DEEPEST {
        let message = format!("folders are nested deeper than {DEEPEST}");
        listing.trouble.push(unreadable(folder, message));
        return;
    }
    above.push(real);
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listing.trouble.push(unreadable(folder, error.to_string()));
                listing.complete = false;
                continue;
            }
        };
        let path = entry.path();
        if is_hidden(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if path.is_dir() {
            list_folder(&path, above, listing);
        } else if is_manifest(&path) {
            listing.files.push(path);
        }
    }
    above.pop();
}

/// Time and size, by which a file is known to be unchanged.
pub(super) fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// Whether a file of this stamp may change without a change of the stamp.
pub(super) fn is_young(stamp: Option<(SystemTime, u64)>) -> bool {
    stamp.is_none_or(|(at, _)| at.elapsed().map_or(true, |age| age < YOUNG))
}

/// A file to read.
pub(super) struct Wanted {
    pub(super) path: Arc<Path>,
    /// Of what was read before; 0 for nothing.
    pub(super) hash: u64,
}

/// What came of reading a file.
pub(super) enum Outcome {
    /// It holds what it held.
    Same { stamp: Option<(SystemTime, u64)> },
    /// It holds something else.
    Text {
        stamp: Option<(SystemTime, u64)>,
        hash: u64,
        parsed: Parsed,
    },
    /// It cannot be read.
    Failed(String),
}

/// Reads files on as many threads as help.
pub(super) fn read_all(wanted: &[Wanted], validation: Validation) -> Vec<(Arc<Path>, Outcome)> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(wanted.len().div_ceil(4));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(file) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((file.path.clone(), read(file, validation)));
        }
        done
    };
    if threads < 2 {
        return work();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().expect("reading does not panic"));
        }
        done
    })
}

fn read(file: &Wanted, validation: Validation) -> Outcome {
    let path = &file.path;
    let stamp = stamp(path);
    if let Some((_, size)) = stamp.filter(|(_, size)| *size > LARGEST_FILE) {
        return Outcome::Failed(format!(
            "the file has {size} bytes, more than {LARGEST_FILE}"
        ));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let hash = xxh3_64(&bytes).max(1);
    if hash == file.hash {
        return Outcome::Same { stamp };
    }
    match String::from_utf8(bytes) {
        Ok(text) => Outcome::Text {
            stamp,
            hash,
            parsed: validate::parse(&text, path, validation),
        },
        Err(error) => Outcome::Failed(format!(
            "the file is not UTF-8 from byte {} on",
            error.utf8_error().valid_up_to()
        )),
    }
}

pub(super) fn unreadable(path: &Path, message: String) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(code::UNREADABLE, Severity::Error, message);
    diagnostic.origin = Some(Origin::File {
        path: path.into(),
        line: 1,
    });
    diagnostic
}
