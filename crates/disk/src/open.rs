//! Opening and reading files that were put into a folder, or named by the operator.
//!
//! Only regular files are read, up to a limit, and opening one never waits: a pipe, a device or an endless file is an
//! error that says what it is. A file of a folder stays below the folder's root, whatever links lead to it; what is
//! checked is what is opened, also while somebody swaps links.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// The largest file that is read, in bytes. A larger one is refused whole.
pub const LARGEST_FILE: u64 = 64 << 20;

/// A mounted ConfigMap swaps the folder that its files point into; so often a link is followed anew.
const ATTEMPTS: usize = 8;

/// A file written twice within the grain of the disk's clock looks unchanged, so young files are read again.
const YOUNG: Duration = Duration::from_millis(50);

/// Why a file is not read. Who put it there can act.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a regular file.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// A link, or a link on the way, leads out of the folder.
    #[error("it leads to {}, which is outside the folder", .0.display())]
    Outside(PathBuf),
    /// A link to a file that is not there.
    #[error("it is a dangling link")]
    Nowhere,
    /// Larger than is read.
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// By what a file is known to be unchanged. A copy that preserves times changes the inode or the time of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of what stands at a path, links followed; `None` where nothing does.
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::of)
    }

    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether the file may change without a change of the stamp.
    pub fn is_young(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
            return true;
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        changed.elapsed().map_or(true, |age| age < YOUNG)
    }
}

/// What was read.
#[derive(Debug)]
pub struct Contents {
    /// All of the file.
    pub bytes: Vec<u8>,
    /// Of the file when it was opened.
    pub stamp: Stamp,
}

/// Reads a file that the operator has named. Links are followed wherever they lead.
///
/// # Errors
///
/// When it is no regular file, has more than `limit` bytes, or cannot be read.
pub fn read(path: &Path, limit: u64) -> Result<Contents, OpenError> {
    // Opening a device can have effects, so what it is comes first.
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        return Err(OpenError::NotRegular(name_of(FileType::from_raw_mode(
            meta.mode(),
        ))));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    take(file, limit)
}

/// Reads a text that the operator has named, as [`read`] does.
///
/// # Errors
///
/// As those of [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, OpenError> {
    let bytes = read(path, limit)?.bytes;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8").into())
}

/// The root of a folder, as it stands on disk at the moment.
#[derive(Debug)]
pub struct Root {
    /// As the operator has named it.
    named: PathBuf,
    /// Without links.
    real: PathBuf,
    folder: OwnedFd,
}

impl Root {
    /// Opens the folder at `path`, which may be a link that the operator has made.
    ///
    /// # Errors
    ///
    /// When it is not there, is no folder, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let real = std::fs::canonicalize(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&real, flags, Mode::empty())?;
        let named = path.to_owned();
        Ok(Self {
            named,
            real,
            folder,
        })
    }

    /// As the operator has named it.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Whether a path without links is the root's or below it.
    pub fn holds(&self, real: &Path) -> bool {
        real.starts_with(&self.real)
    }

    /// Reads a file below the root. Links are followed as long as they stay there.
    ///
    /// # Errors
    ///
    /// When it leads out of the folder, is no regular file, has more than `limit` bytes, or cannot be read.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Contents, OpenError> {
        let mut attempt = 1;
        loop {
            match self.open_file(path) {
                Ok(file) => return take(file, limit),
                Err(OpenError::Io(error)) if is_swapped(&error) && attempt < ATTEMPTS => {
                    // What is gone is not looked for again.
                    std::fs::symlink_metadata(path)?;
                    attempt += 1;
                }
                Err(OpenError::Io(error))
                    if error.kind() == io::ErrorKind::NotFound && is_link(path) =>
                {
                    return Err(OpenError::Nowhere);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes to the file itself, or where its links lead.
    fn open_file(&self, path: &Path) -> Result<OwnedFd, OpenError> {
        if let Ok(below) = path.strip_prefix(&self.named)
            && below
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        {
            match self.open_below(below) {
                // There are links on the way.
                Err(OpenError::Io(error)) if is_swapped(&error) => {}
                other => return other,
            }
        }
        let real = std::fs::canonicalize(path)?;
        match real.strip_prefix(&self.real) {
            Ok(below) => self.open_below(below),
            Err(_) => Err(OpenError::Outside(real)),
        }
    }

    /// Goes from the root to a file without following any link: one that is there is an error.
    fn open_below(&self, below: &Path) -> Result<OwnedFd, OpenError> {
        let mut names = below.iter();
        let Some(mut name) = names.next() else {
            return Err(OpenError::NotRegular(name_of(FileType::Directory)));
        };
        let mut above: Option<OwnedFd> = None;
        for next in names {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = above.as_ref().unwrap_or(&self.folder);
            let folder = rustix::fs::openat(folder, name, flags, Mode::empty());
            above = Some(folder.map_err(io::Error::from)?);
            name = next;
        }
        let folder = above.as_ref().unwrap_or(&self.folder);
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = FileType::from_raw_mode(stat.map_err(io::Error::from)?.st_mode);
        match kind {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(io::Error::from(rustix::io::Errno::LOOP).into()),
            _ => return Err(OpenError::NotRegular(name_of(kind))),
        }
        let flags =
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty());
        Ok(file.map_err(io::Error::from)?)
    }
}

/// Whether a link seems to have been swapped while it was followed.
fn is_swapped(error: &io::Error) -> bool {
    let swapped = [
        rustix::io::Errno::NOENT,
        rustix::io::Errno::NOTDIR,
        rustix::io::Errno::LOOP,
    ];
    swapped
        .iter()
        .any(|e| error.raw_os_error() == Some(e.raw_os_error()))
}

fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

fn take(file: OwnedFd, limit: u64) -> Result<Contents, OpenError> {
    let file = File::from(file);
    let meta = file.metadata()?;
    if !meta.is_file() {
        let kind = FileType::from_raw_mode(meta.mode());
        return Err(OpenError::NotRegular(name_of(kind)));
    }
    if meta.len() > limit {
        return Err(OpenError::TooLarge(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
    // It may grow meanwhile.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(OpenError::TooLarge(limit));
    }
    let stamp = Stamp::of(&meta);
    Ok(Contents { bytes, stamp })
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of no known kind",
    }
}

#[cfg(test)]
mod tests;
