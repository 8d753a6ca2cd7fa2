//! What the database writes to: the file, or in tests something that fails.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use super::StoreError;
use disk::private;

/// Bytes that are rewritten at once.
const CHUNK: u64 = 1 << 20;

/// Where the bytes of a store are, to be opened any number of times.
pub(super) trait Medium: Debug + Send + Sync {
    /// Opens it, new and empty where there is none.
    fn open(&self) -> Result<Box<dyn StorageBackend>, StoreError>;
}

/// A file in a data folder.
#[derive(Debug)]
pub(super) struct StoreFile(pub(super) PathBuf);

impl Medium for StoreFile {
    fn open(&self) -> Result<Box<dyn StorageBackend>, StoreError> {
        let file = private::open(&self.0).map_err(StoreError::Folder)?;
        let backend = FileBackend::new(file).map_err(super::disk::failed)?;
        Ok(Box::new(backend))
    }
}

/// Hands on what the database does, and remembers a failed sync.
///
/// After one the system may keep in memory as clean what never reached the disk (fsync(2), on Linux). What is read then
/// is not what would be there after a power cut, so it is all written once more before it is trusted.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Box<dyn StorageBackend>,
    unsynced: Arc<AtomicBool>,
}

impl Watched {
    /// Over a backend; `unsynced` says that a sync failed before, and is cleared once everything is on disk.
    ///
    /// # Errors
    ///
    /// When what was not synced cannot be written once more.
    pub(super) fn over(
        inner: Box<dyn StorageBackend>,
        unsynced: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        if unsynced.load(Ordering::Acquire) {
            let length = inner.len()?;
            let mut chunk = Vec::new();
            let mut at = 0;
            while at < length {
                let size = CHUNK.min(length - at);
                chunk.resize(usize::try_from(size).unwrap_or(0), 0);
                inner.read(at, &mut chunk)?;
                inner.write(at, &chunk)?;
                at += size;
            }
            inner.sync_data()?;
            unsynced.store(false, Ordering::Release);
        }
        Ok(Self {
            inner,
            unsynced: unsynced.clone(),
        })
    }
}

impl StorageBackend for Watched {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.inner.sync_data();
        if synced.is_err() {
            self.unsynced.store(true, Ordering::Release);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
