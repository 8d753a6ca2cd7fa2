//! The file: its tables, and how values are written.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, TableDefinition, TableError,
    WriteTransaction,
};
use xxhash_rust::xxh3::xxh3_64;

use super::backend::{Medium, Watched};
use super::memory::Memory;
use super::{Author, ObjectId, ResourceName, StoreError, load};

/// Object key to checksum and JSON.
pub(super) const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// Revision to checksum, head and JSON.
pub(super) const LEDGER: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ledger");
/// Object key and revision: which revisions are an object's.
pub(super) const BY_OBJECT: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by-object");
/// Numbers about the file.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The format that is written.
pub(super) const FORMAT: u64 = 1;

pub(super) const KEY_FORMAT: &str = "format";
pub(super) const KEY_REVISION: &str = "revision";
/// The oldest revision of which the whole state can be told.
pub(super) const KEY_OLDEST: &str = "oldest";

/// Bytes of the file that the database keeps in memory. Objects are read from [`Memory`], so that this is for writes and for the
/// ledger; the database's own default, 1 GiB, would hold the whole file once more after a start has read all of it.
const CACHE: usize = 32 << 20;

/// The database. After a failure it takes nothing more until it is opened again.
pub(super) struct Disk {
    medium: Arc<dyn Medium>,
    db: RwLock<Option<Database>>,
    /// Whether a sync failed and nothing was written anew since.
    unsynced: Arc<AtomicBool>,
}

/// What is known of each revision of the ledger without reading it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) revision: u64,
    pub(super) time_ms: u64,
    pub(super) bytes: u32,
}

/// The revisions of the ledger, oldest first, that were not compacted.
pub(super) type Entries = VecDeque<Entry>;

/// What the ledger says of a revision besides the object.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Head {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Milliseconds since the epoch.
    pub(super) time_ms: u64,
    /// The revision of the object before; 0 where it was absent.
    pub(super) before: u64,
    pub(super) deleted: bool,
    pub(super) author: Author,
}

impl Head {
    pub(super) fn id(&self) -> ObjectId {
        ObjectId::new(&self.namespace, &self.name)
    }

    pub(super) fn key(&self) -> Vec<u8> {
        key(&self.resource.as_str().into(), &self.id())
    }
}

/// The key of an object in the file. No part may hold a NUL, and none does: names are checked before.
pub(super) fn key(resource: &ResourceName, id: &ObjectId) -> Vec<u8> {
    [resource.as_str(), &*id.namespace, &*id.name]
        .join("\0")
        .into_bytes()
}

/// Resource, namespace and name of a key.
pub(super) fn split_key(key: &[u8]) -> Result<(&str, &str, &str), StoreError> {
    let text = std::str::from_utf8(key).map_err(|_| damaged("a key is no text"))?;
    let mut parts = text.split('\0');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(resource), Some(namespace), Some(name)) => Ok((resource, namespace, name)),
        _ => Err(damaged("a key has no three parts")),
    }
}

/// A key of the table of revisions by object.
pub(super) fn index_key(key: &[u8], revision: u64) -> Vec<u8> {
    let mut all = Vec::with_capacity(key.len() + 9);
    all.extend_from_slice(key);
    all.push(0);
    all.extend_from_slice(&revision.to_be_bytes());
    all
}

/// Puts a checksum before a value.
pub(super) fn seal(parts: &[&[u8]]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + parts.iter().map(|p| p.len()).sum::<usize>());
    value.extend_from_slice(&[0; 8]);
    for part in parts {
        value.extend_from_slice(part);
    }
    let sum = xxh3_64(&value[8..]).to_be_bytes();
    value[..8].copy_from_slice(&sum);
    value
}

/// The value behind its checksum.
pub(super) fn unseal(sealed: &[u8], what: impl Fn() -> String) -> Result<&[u8], StoreError> {
    let (sum, value) = sealed
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged(format!("{} is cut off", what())))?;
    if xxh3_64(value).to_be_bytes() == *sum {
        Ok(value)
    } else {
        Err(damaged(format!("the checksum of {} is wrong", what())))
    }
}

/// The head and the object of a sealed ledger entry.
pub(super) fn open_entry(sealed: &[u8], revision: u64) -> Result<(Head, &[u8]), StoreError> {
    let what = || format!("revision {revision}");
    let value = unseal(sealed, what)?;
    let mut heads = serde_json::Deserializer::from_slice(value).into_iter::<Head>();
    match heads.next() {
        Some(Ok(head)) => {
            let object = value.get(heads.byte_offset()..).unwrap_or_default();
            Ok((head, object))
        }
        _ => Err(damaged(format!("{} has no head", what()))),
    }
}

fn closed() -> StoreError {
    StoreError::Database("the file is being opened again after a failure".to_owned())
}

pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

pub(super) fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Corrupted(what) => StoreError::Damaged(what),
        redb::Error::DatabaseAlreadyOpen => StoreError::InUse,
        redb::Error::Io(error) if is_full(error.kind()) => StoreError::Full(error),
        other => StoreError::Database(other.to_string()),
    }
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

impl Disk {
    /// Opens the file and reads all of it, which checks all of it.
    pub(super) fn open(medium: Arc<dyn Medium>) -> Result<(Self, Memory, Entries), StoreError> {
        let disk = Self {
            medium,
            db: RwLock::new(None),
            unsynced: Arc::default(),
        };
        let (memory, entries) = disk.reopen()?;
        Ok((disk, memory, entries))
    }

    /// Closes the file if it is open, opens it and reads all of it.
    pub(super) fn reopen(&self) -> Result<(Memory, Entries), StoreError> {
        // A file of which the structure is broken can make the database panic where it finds it.
        let done = catch_unwind(AssertUnwindSafe(|| self.open_and_read()));
        let done = done.unwrap_or_else(|_| Err(damaged("the file has a broken structure")));
        if done.is_err() {
            // Nobody works on what could not be read.
            self.put(None);
        }
        done
    }

    fn put(&self, db: Option<Database>) {
        let mut place = self.db.write().unwrap_or_else(PoisonError::into_inner);
        // The old one is closed first: a file is locked by whoever has it open.
        *place = None;
        *place = db;
    }

    fn open_and_read(&self) -> Result<(Memory, Entries), StoreError> {
        self.put(None);
        let backend = Watched::over(self.medium.open()?, &self.unsynced)
            .map_err(|error| failed(redb::StorageError::Io(error)))?;
        let db = match Database::builder()
            .set_cache_size(CACHE)
            .create_with_backend(backend)
        {
            Ok(db) => db,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse),
            Err(DatabaseError::Storage(redb::StorageError::Io(error)))
                if error.kind() == ErrorKind::InvalidData =>
            {
                return Err(damaged(error.to_string()));
            }
            Err(error) => return Err(failed(error)),
        };
        self.put(Some(db));
        self.prepare()?;
        load::load(self)
    }

    /// What is there now.
    pub(super) fn read(&self) -> Result<ReadTransaction, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let db = db.as_ref().ok_or_else(closed)?;
        db.begin_read().map_err(failed)
    }

    /// A transaction of the one writer.
    pub(super) fn write(&self) -> Result<WriteTransaction, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        let db = db.as_ref().ok_or_else(closed)?;
        db.begin_write().map_err(failed)
    }

    /// Makes the tables of a new file, and refuses a format that is not known.
    fn prepare(&self) -> Result<(), StoreError> {
        match self.format()? {
            Some(FORMAT) => return Ok(()),
            Some(found) => {
                let known = FORMAT;
                return Err(StoreError::Format { found, known });
            }
            None => {}
        }
        let transaction = self.write()?;
        {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(KEY_FORMAT, FORMAT).map_err(failed)?;
            meta.insert(KEY_REVISION, 0).map_err(failed)?;
            meta.insert(KEY_OLDEST, 0).map_err(failed)?;
            transaction.open_table(OBJECTS).map_err(failed)?;
            transaction.open_table(LEDGER).map_err(failed)?;
            transaction.open_table(BY_OBJECT).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// What the file says of its format; `None` where it is new. Reading it writes nothing, so that a start waits for no
    /// disk.
    fn format(&self) -> Result<Option<u64>, StoreError> {
        let transaction = self.read()?;
        let meta = match transaction.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let found = meta.get(KEY_FORMAT).map_err(failed)?;
        Ok(found.map(|v| v.value()))
    }
}
