//! Backup and restore.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Database, ReadableTable, StorageBackend};

use super::backend::StoreFile;
use super::disk::{BY_OBJECT, Disk, LEDGER, META, OBJECTS, failed};
use super::{FILE, MARKS, StoreError};
use disk::private::{self, Draft, Gate, open_gate};

/// Copies every table, as one moment has them, to a new file. Returns the revision of the copy.
pub(super) fn backup(disk: &Disk, to: &Path, gate: &Gate<'_>) -> Result<u64, StoreError> {
    let draft = Draft::begin_with(to, gate).map_err(StoreError::Folder)?;
    let file = private::open(draft.path()).map_err(StoreError::Folder)?;
    let revision = backup_to(disk, FileBackend::new(file).map_err(failed)?)?;
    // A file that is there already is never written over.
    draft.create().map_err(StoreError::Folder)?;
    Ok(revision)
}

/// Copies every table, as one moment has them, to an empty backend.
pub(super) fn backup_to(disk: &Disk, backend: impl StorageBackend) -> Result<u64, StoreError> {
    let from = disk.read()?;
    let db = Database::builder()
        .create_with_backend(backend)
        .map_err(failed)?;
    let transaction = db.begin_write().map_err(failed)?;
    let revision;
    {
        macro_rules! copy {
            ($table:expr) => {{
                let source = from.open_table($table).map_err(failed)?;
                let mut target = transaction.open_table($table).map_err(failed)?;
                for item in source.iter().map_err(failed)? {
                    let (key, value) = item.map_err(failed)?;
                    target.insert(key.value(), value.value()).map_err(failed)?;
                }
                source
            }};
        }
        copy!(OBJECTS);
        copy!(LEDGER);
        copy!(BY_OBJECT);
        let meta = copy!(META);
        let value = meta.get(super::disk::KEY_REVISION).map_err(failed)?;
        revision = value.map_or(0, |v| v.value());
    }
    transaction.commit().map_err(failed)?;
    db.close().map_err(failed)?;
    Ok(revision)
}

/// Makes the store of a data folder that has none from a backup, after reading all of it. Returns its revision.
///
/// # Errors
///
/// When the backup is damaged, or the folder has a store already.
pub fn restore(data: &Path, from: &Path) -> Result<u64, StoreError> {
    restore_with(data, from, &open_gate)
}

pub(super) fn restore_with(data: &Path, from: &Path, gate: &Gate<'_>) -> Result<u64, StoreError> {
    private::data_folder(data, MARKS).map_err(StoreError::Folder)?;
    let target = data.join(FILE);
    if target.exists() {
        let exists = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(StoreError::Folder(exists));
    }
    let draft = copy(from, &target, gate).map_err(StoreError::Folder)?;
    let revision = {
        let medium = StoreFile(draft.path().to_owned());
        let (_disk, memory, _) = Disk::open(Arc::new(medium))?;
        memory.revision()
    };
    draft.create().map_err(StoreError::Folder)?;
    Ok(revision)
}

fn copy<'g>(from: &Path, to: &Path, gate: &'g Gate<'g>) -> io::Result<Draft<'g>> {
    let mut from = File::open(from)?;
    let mut draft = Draft::begin_with(to, gate)?;
    let mut chunk = vec![0; 256 << 10];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(draft),
            n => draft.write_all(chunk.get(..n).unwrap_or_default())?,
        }
    }
}
