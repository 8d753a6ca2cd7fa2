//! The file: its tables, how values are written, and reading all of it at the start.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use xxhash_rust::xxh3::xxh3_64;

use super::memory::{EVENTS, Event, EventKind, Memory, Stored};
use super::{Author, ObjectId, ResourceName, StoreError};

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

/// The database.
pub(super) struct Disk {
    pub(super) db: Database,
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

pub(super) fn split_key(key: &[u8]) -> Result<(ResourceName, ObjectId), StoreError> {
    let text = std::str::from_utf8(key).map_err(|_| damaged("a key is no text"))?;
    let mut parts = text.split('\0');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(resource), Some(namespace), Some(name)) => {
            Ok((resource.into(), ObjectId::new(namespace, name)))
        }
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
pub(super) fn unseal<'a>(sealed: &'a [u8], what: &str) -> Result<&'a [u8], StoreError> {
    let (sum, value) = sealed
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged(format!("{what} is cut off")))?;
    if xxh3_64(value).to_be_bytes() == *sum {
        Ok(value)
    } else {
        Err(damaged(format!("the checksum of {what} is wrong")))
    }
}

/// The head and the object of a sealed ledger entry.
pub(super) fn open_entry(sealed: &[u8], revision: u64) -> Result<(Head, &[u8]), StoreError> {
    let what = format!("revision {revision}");
    let value = unseal(sealed, &what)?;
    let mut heads = serde_json::Deserializer::from_slice(value).into_iter::<Head>();
    match heads.next() {
        Some(Ok(head)) => {
            let object = value.get(heads.byte_offset()..).unwrap_or_default();
            Ok((head, object))
        }
        _ => Err(damaged(format!("{what} has no head"))),
    }
}

pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

pub(super) fn failed(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Corrupted(what) => StoreError::Damaged(what),
        redb::Error::DatabaseAlreadyOpen => StoreError::InUse,
        other => StoreError::Database(other.to_string()),
    }
}

impl Disk {
    /// Opens the file and reads all of it, which checks all of it.
    pub(super) fn open(path: &Path) -> Result<(Self, Memory, Entries), StoreError> {
        // A file of which the structure is broken can make the database panic where it finds it.
        catch_unwind(AssertUnwindSafe(|| Self::open_and_read(path))).unwrap_or_else(|_| {
            Err(damaged(format!(
                "{} has a broken structure",
                path.display()
            )))
        })
    }

    fn open_and_read(path: &Path) -> Result<(Self, Memory, Entries), StoreError> {
        let db = match Database::builder().create(path) {
            Ok(db) => db,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse),
            Err(DatabaseError::Storage(redb::StorageError::Io(error)))
                if error.kind() == std::io::ErrorKind::InvalidData =>
            {
                return Err(damaged(format!("{}: {error}", path.display())));
            }
            Err(error) => return Err(failed(error)),
        };
        let disk = Self { db };
        disk.prepare()?;
        let (memory, entries) = disk.load()?;
        Ok((disk, memory, entries))
    }

    /// Makes the tables of a new file, and refuses a format that is not known.
    fn prepare(&self) -> Result<(), StoreError> {
        let transaction = self.db.begin_write().map_err(failed)?;
        {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            let found = meta.get(KEY_FORMAT).map_err(failed)?.map(|v| v.value());
            match found {
                None => {
                    meta.insert(KEY_FORMAT, FORMAT).map_err(failed)?;
                    meta.insert(KEY_REVISION, 0).map_err(failed)?;
                    meta.insert(KEY_OLDEST, 0).map_err(failed)?;
                    transaction.open_table(OBJECTS).map_err(failed)?;
                    transaction.open_table(LEDGER).map_err(failed)?;
                    transaction.open_table(BY_OBJECT).map_err(failed)?;
                }
                Some(FORMAT) => {}
                Some(found) => {
                    let known = FORMAT;
                    return Err(StoreError::Format { found, known });
                }
            }
        }
        transaction.commit().map_err(failed)
    }

    fn load(&self) -> Result<(Memory, Entries), StoreError> {
        let transaction = self.db.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let number = |key| -> Result<u64, StoreError> {
            let value = meta.get(key).map_err(failed)?;
            Ok(value.map_or(0, |v| v.value()))
        };
        let mut memory = Memory::default();
        memory.revision = number(KEY_REVISION)?;
        memory.oldest = number(KEY_OLDEST)?;
        let objects = transaction.open_table(OBJECTS).map_err(failed)?;
        for item in objects.iter().map_err(failed)? {
            let (key, value) = item.map_err(failed)?;
            let (resource, id) = split_key(key.value())?;
            let what = format!("{resource} {}/{}", id.namespace, id.name);
            let value = unseal(value.value(), &what)?;
            let (revision, json) = value
                .split_first_chunk::<8>()
                .ok_or_else(|| damaged(format!("{what} is cut off")))?;
            let stored = Stored::new(u64::from_be_bytes(*revision), Bytes::copy_from_slice(json));
            memory.insert(resource, id, Arc::new(stored));
        }
        let entries = self.load_ledger(&mut memory)?;
        Ok((memory, entries))
    }

    /// Reads the ledger: what is known of each entry, and the newest as events.
    fn load_ledger(&self, memory: &mut Memory) -> Result<Entries, StoreError> {
        let transaction = self.db.begin_read().map_err(failed)?;
        let ledger = transaction.open_table(LEDGER).map_err(failed)?;
        let mut entries = Entries::new();
        let first_event = memory.revision.saturating_sub(EVENTS as u64);
        // What events replay from, and what was before them.
        let mut known: HashMap<u64, Arc<Stored>> = HashMap::new();
        let mut expected = None;
        for item in ledger.iter().map_err(failed)? {
            let (revision, value) = item.map_err(failed)?;
            let (revision, value) = (revision.value(), value.value());
            let (head, json) = open_entry(value, revision)?;
            let resource = ResourceName::from(head.resource.as_str());
            let id = head.id();
            let now = memory.get(&resource, &id);
            let stored = match now.filter(|now| now.revision == revision) {
                Some(now) => now.clone(),
                None => Arc::new(Stored::new(revision, Bytes::copy_from_slice(json))),
            };
            if revision <= memory.oldest {
                // Kept because a later revision was written over it.
                known.insert(revision, stored);
                continue;
            }
            if expected.is_some_and(|e| e != revision) {
                return Err(damaged(format!("a revision before {revision} is missing")));
            }
            expected = Some(revision + 1);
            entries.push_back(Entry {
                revision,
                time_ms: head.time_ms,
                bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
            });
            let before = known.remove(&head.before);
            if revision > first_event {
                memory.remember(Event {
                    kind: match (head.deleted, head.before) {
                        (true, _) => EventKind::Deleted,
                        (false, 0) => EventKind::Added,
                        (false, _) => EventKind::Modified,
                    },
                    resource,
                    id,
                    object: stored.clone(),
                    before,
                });
            }
            if !head.deleted {
                known.insert(revision, stored);
            }
        }
        if expected.is_some_and(|e| e != memory.revision + 1) {
            return Err(damaged("the newest revision is missing"));
        }
        Ok(entries)
    }
}
