//! Listing and reading manifests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use model::parse::{Parsed, Validation};
use model::{Diagnostic, Origin, Severity};
use xxhash_rust::xxh3::xxh3_64;

use super::code;
use disk::open::{self, Contents, OpenError, Root, Stamp};

pub use disk::open::LARGEST_FILE;

/// How deep folders may be nested.
const DEEPEST: usize = 32;

/// How many folders are listed that links lead to, with those below them: links can multiply a few without end.
const MOST_LINKED_FOLDERS: usize = 10_000;

/// How many entries such folders may have together.
const MOST_LINKED_ENTRIES: usize = 200_000;

/// Whether a file of this name is read: `*.yaml`, `*.yml` and `*.json` that are not hidden.
pub fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    !is_hidden(path) && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Whether a path, relative to the root of a folder, is hidden or below a hidden folder. Such entries are editors' and
/// Kubernetes' own: a mounted ConfigMap shows its files as links into `..data`.
pub(crate) fn is_below_hidden(below: &Path) -> bool {
    below
        .iter()
        .any(|part| part.as_encoded_bytes().starts_with(b"."))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Which folder stands at a path: another one under the same name differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// Where the disk knows it; numbers of inodes are used again.
    born: Option<SystemTime>,
}

impl Identity {
    pub(crate) fn at(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            born: meta.created().ok(),
        })
    }
}

/// What is below a folder.
#[derive(Default)]
pub(super) struct Listing {
    /// Manifests, sorted.
    pub(super) files: Vec<PathBuf>,
    /// Parts that cannot be listed, and may be soon.
    pub(super) trouble: Vec<Diagnostic>,
    /// Parts that are not listed, as long as they are what they are.
    pub(super) refused: Vec<Diagnostic>,
    /// Folders of which is not known what they hold.
    pub(super) unknown: Vec<PathBuf>,
    /// Folders that were found through links.
    linked_folders: usize,
    /// What is in these.
    linked_entries: usize,
}

impl Listing {
    /// Whether the file is neither there nor in a part that is not known.
    pub(super) fn lacks(&self, path: &Path) -> bool {
        let listed = |f: &PathBuf| f.as_path().cmp(path);
        self.files.binary_search_by(listed).is_err()
            && !self.unknown.iter().any(|folder| path.starts_with(folder))
    }

    fn trouble(&mut self, folder: &Path, error: &std::io::Error) {
        self.trouble.push(unreadable(folder, error.to_string()));
        self.unknown.push(folder.to_owned());
    }

    fn refuse_links(&mut self, root: &Root) {
        // Once is enough to say.
        if !self.unknown.iter().any(|folder| folder == root.named()) {
            let message = "links in it lead to more folders and files than are read".to_owned();
            self.refuse(root.named(), message);
        }
    }

    fn refuse(&mut self, folder: &Path, message: String) {
        self.refused.push(unreadable(folder, message));
        self.unknown.push(folder.to_owned());
    }
}

pub(super) fn list(root: &Path) -> Listing {
    let mut listing = Listing::default();
    match std::fs::metadata(root) {
        Ok(meta) if !meta.is_dir() => listing.files.push(root.to_owned()),
        Ok(_) => match Root::open(root) {
            Ok(opened) => {
                let mut above = Vec::new();
                list_folder(root, &opened, false, &mut above, &mut listing);
                listing.files.sort_unstable();
            }
            Err(error) => listing.trouble(root, &error),
        },
        Err(error) => listing.trouble(root, &error),
    }
    listing
}

/// Lists a folder; `linked` says whether a link led to it.
fn list_folder(
    folder: &Path,
    root: &Root,
    linked: bool,
    above: &mut Vec<PathBuf>,
    listing: &mut Listing,
) {
    let entries =
        std::fs::canonicalize(folder).and_then(|real| Ok((std::fs::read_dir(folder)?, real)));
    let (entries, real) = match entries {
        Ok(entries) => entries,
        Err(error) => return listing.trouble(folder, &error),
    };
    if !root.holds(&real) {
        return listing.refuse(folder, OpenError::Outside(real).to_string());
    }
    // A link that leads back up would never end.
    if above.contains(&real) {
        return;
    }
    if above.len() > DEEPEST {
        let message = format!("folders are nested deeper than {DEEPEST}");
        return listing.refuse(folder, message);
    }
    listing.linked_folders += usize::from(linked);
    if listing.linked_folders > MOST_LINKED_FOLDERS {
        return listing.refuse_links(root);
    }
    above.push(real);
    for entry in entries {
        listing.linked_entries += usize::from(linked);
        if listing.linked_entries > MOST_LINKED_ENTRIES {
            listing.refuse_links(root);
            break;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listing.trouble(folder, &error);
                continue;
            }
        };
        let path = entry.path();
        if is_hidden(&path) {
            continue;
        }
        let kind = entry.file_type().ok();
        let is_link = kind.is_some_and(|kind| kind.is_symlink());
        let is_folder = kind.is_some_and(|kind| kind.is_dir()) || (is_link && path.is_dir());
        if is_folder {
            list_folder(&path, root, linked || is_link, above, listing);
        } else if is_manifest(&path) {
            listing.files.push(path);
        }
    }
    above.pop();
}

pub(super) fn texts(root: &Path) -> (Vec<(PathBuf, String)>, Vec<Diagnostic>) {
    let Listing {
        files,
        mut trouble,
        refused,
        ..
    } = list(root);
    trouble.extend(refused);
    let opened = root.is_dir().then(|| Root::open(root)).transpose();
    let mut texts = Vec::new();
    for path in files {
        let contents = match &opened {
            Ok(Some(root)) => root.read(&path, LARGEST_FILE),
            Ok(None) => open::read(&path, LARGEST_FILE),
            Err(error) => Err(OpenError::Io(error.kind().into())),
        };
        let text = contents
            .map_err(|error| error.to_string())
            .and_then(|c| String::from_utf8(c.bytes).map_err(|_| "the file is not UTF-8".into()));
        match text {
            Ok(text) => texts.push((path, text)),
            Err(message) => trouble.push(unreadable(&path, message)),
        }
    }
    (texts, trouble)
}

/// A file to read.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: Arc<Path>,
    /// Of what was read before; 0 for nothing.
    pub(super) hash: u64,
}

/// What came of reading a file.
pub(super) enum Outcome {
    /// It holds what it held.
    Same { stamp: Stamp },
    /// It holds something else.
    Text {
        stamp: Stamp,
        hash: u64,
        bytes: usize,
        parsed: Parsed,
    },
    /// It cannot be read.
    Failed(String),
}

/// Reads files of a folder, or the one file that the root is, on as many threads as help.
pub(super) fn read_all(
    root: &Path,
    wanted: &[Wanted],
    validation: Validation,
) -> Vec<(Arc<Path>, Outcome)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let opened = match wanted {
        [file] if &*file.path == root => Ok(None),
        _ => Root::open(root).map(Some),
    };
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(wanted.len().div_ceil(4));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(file) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let contents = match &opened {
                Ok(Some(root)) => root.read(&file.path, LARGEST_FILE),
                // The operator has named it.
                Ok(None) => open::read(&file.path, LARGEST_FILE),
                Err(error) => Err(OpenError::Io(error.kind().into())),
            };
            done.push((file.path.clone(), outcome(file, contents, validation)));
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

fn outcome(
    file: &Wanted,
    contents: Result<Contents, OpenError>,
    validation: Validation,
) -> Outcome {
    let Contents { bytes, stamp } = match contents {
        Ok(contents) => contents,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let hash = xxh3_64(&bytes).max(1);
    if hash == file.hash {
        return Outcome::Same { stamp };
    }
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(text) => validate::parse(text, &file.path, validation),
        Err(_) => validate::parse_undecoded(&bytes, &file.path, validation),
    };
    Outcome::Text {
        stamp,
        hash,
        bytes: bytes.len(),
        parsed,
    }
}

pub(super) fn unreadable(path: &Path, message: String) -> Diagnostic {
    about(
        path,
        Diagnostic::new(code::UNREADABLE, Severity::Error, message),
    )
}

/// The finding, about a file or folder as a whole.
pub(super) fn about(path: &Path, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.origin = Some(Origin::File {
        path: path.into(),
        line: 1,
    });
    diagnostic
}
