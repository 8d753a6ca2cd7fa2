//! Backup and restore.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::disk::{BY_OBJECT, Disk, LEDGER, META, OBJECTS, failed};
use super::{FILE, StoreError};

/// Copies every table, as one moment has them, to a new file. Returns the revision of the copy.
pub(super) fn backup(disk: &Disk, to: &Path) -> Result<u64, StoreError> {
    // A file that is there already is never written over.
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(to)
        .map_err(StoreError::Folder)?;
    let from = disk.db.begin_read().map_err(failed)?;
    let db = Database::create(to).map_err(failed)?;
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
    Ok(revision)
}

/// Makes the store of a data folder that has none from a backup, after reading all of it. Returns its revision.
///
/// # Errors
///
/// When the backup is damaged, or the folder has a store already.
pub fn restore(data: &Path, from: &Path) -> Result<u64, StoreError> {
    std::fs::create_dir_all(data).map_err(StoreError::Folder)?;
    let target = data.join(FILE);
    if target.exists() {
        let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(StoreError::Folder(exists));
    }
    let part = data.join("restore.part");
    std::fs::copy(from, &part).map_err(StoreError::Folder)?;
    let revision = {
        let (_disk, memory, _) = Disk::open(&part)?;
        memory.revision()
    };
    std::fs::File::open(&part)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&part, &target))
        .and_then(|()| std::fs::File::open(data)?.sync_all())
        .map_err(StoreError::Folder)?;
    Ok(revision)
}
