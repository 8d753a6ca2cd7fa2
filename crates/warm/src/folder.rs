//! The folder that the file lies in: one process at a time has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::format::{Ignored, Origin};
use crate::kept::{Kept, load};

/// The file, and the one that becomes it when it is whole.
const FILE: &str = "served";
const PART: &str = "served.part";
const LOCK: &str = "lock";

/// Why a folder cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The operator can act: it cannot be made, or not be written.
    #[error("the folder cannot be used")]
    Io(#[from] io::Error),
    /// Another process has it; it may end soon.
    #[error("the folder is in use by another process")]
    Taken,
}

/// A folder that this process alone uses; it is let go when this is dropped, or the process ends in any way.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is not there, for this user alone.
    ///
    /// # Errors
    ///
    /// Those of the system, and when another process has it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        let lock = create(&path.join(LOCK), false)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Taken),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was saved last; `None` if nothing was.
    ///
    /// # Errors
    ///
    /// When what is there is not to be served.
    pub fn load(&self, origin: &Origin, limit: u64) -> Result<Option<Kept>, Ignored> {
        let path = self.path.join(FILE);
        let size = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Ignored::Unreadable(error)),
        };
        if size > limit {
            return Err(Ignored::TooLarge(size));
        }
        // It may have grown since it was measured.
        let mut file = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let opened = File::open(&path).map_err(Ignored::Unreadable)?;
        let mut limited = opened.take(limit + 1);
        limited
            .read_to_end(&mut file)
            .map_err(Ignored::Unreadable)?;
        let size = file.len() as u64;
        if size > limit {
            return Err(Ignored::TooLarge(size));
        }
        load(&file, origin).map(Some)
    }

    /// A new file, which takes the place of the other one when it is whole ([`Folder::replace`]).
    pub(crate) fn begin(&self) -> io::Result<File> {
        create(&self.path.join(PART), true)
    }

    /// Removes a new file that could not be written, so that it takes no room on a disk that may be full.
    pub(crate) fn give_up(&self) {
        // Where this fails the next attempt overwrites it.
        let _ = fs::remove_file(self.path.join(PART));
    }

    /// Puts a new file in place.
    pub(crate) fn replace(&self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(self.path.join(PART), self.path.join(FILE))?;
        File::open(&self.path)?.sync_all()
    }
}

fn create(path: &Path, empty: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(empty)
        .mode(0o600)
        .open(path)
}
