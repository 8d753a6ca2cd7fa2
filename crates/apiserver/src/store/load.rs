//! Reading all of the file at the start, which checks all of it.
//!
//! Objects and ledger are read at the same time: they are of one state, since nobody writes yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use redb::ReadableTable;

use super::disk::{
    Disk, Entries, Entry, Head, KEY_OLDEST, KEY_REVISION, LEDGER, META, OBJECTS, damaged, failed,
    open_entry, split_key, unseal,
};
use super::memory::{EVENTS, Event, EventKind, Memory, Rows, Stored};
use super::{ObjectId, ResourceName, StoreError};

/// What the ledger told.
struct Ledger {
    entries: Entries,
    /// Revisions that watches may start from, oldest first; JSON only of those that are not the newest of their object.
    latest: Vec<(u64, Head, Bytes)>,
}

/// Everything that is stored, and what is known of each revision.
pub(super) fn load(disk: &Disk) -> Result<(Memory, Entries), StoreError> {
    let mut memory = Memory::default();
    {
        let transaction = disk.read()?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let number = |key| -> Result<u64, StoreError> {
            let value = meta.get(key).map_err(failed)?;
            Ok(value.map_or(0, |v| v.value()))
        };
        memory.revision = number(KEY_REVISION)?;
        memory.oldest = number(KEY_OLDEST)?;
    }
    let (newest, oldest) = (memory.revision, memory.oldest);
    let (objects, ledger) = std::thread::scope(|scope| {
        let ledger = scope.spawn(|| read_ledger(disk, newest, oldest));
        let objects = read_objects(disk, &mut memory);
        (objects, ledger.join())
    });
    objects?;
    // A file of which the structure is broken can make the database panic where it finds it.
    let ledger = ledger.map_err(|_| damaged("the ledger has a broken structure"))??;
    remember(disk, &mut memory, ledger.latest)?;
    Ok((memory, ledger.entries))
}

fn read_objects(disk: &Disk, memory: &mut Memory) -> Result<(), StoreError> {
    let transaction = disk.read()?;
    let objects = transaction.open_table(OBJECTS).map_err(failed)?;
    let mut table: Option<(ResourceName, Rows)> = None;
    let mut namespace: Arc<str> = "".into();
    for item in objects.iter().map_err(failed)? {
        let (key, value) = item.map_err(failed)?;
        let (resource, of, name) = split_key(key.value())?;
        // Keys are in order, so that texts and tables are made once each.
        if *namespace != *of {
            namespace = of.into();
        }
        let id = ObjectId {
            namespace: namespace.clone(),
            name: name.into(),
        };
        let what = || format!("{resource} {of}/{name}");
        let value = unseal(value.value(), what)?;
        let (revision, json) = value
            .split_first_chunk::<8>()
            .ok_or_else(|| damaged(format!("{} is cut off", what())))?;
        let stored = Stored::new(u64::from_be_bytes(*revision), Bytes::copy_from_slice(json));
        match &mut table {
            Some((known, rows)) if known.as_str() == resource => rows.push((id, Arc::new(stored))),
            _ => {
                if let Some((known, rows)) = table.take() {
                    memory.fill(known, rows);
                }
                table = Some((resource.into(), vec![(id, Arc::new(stored))]));
            }
        }
    }
    if let Some((known, rows)) = table {
        memory.fill(known, rows);
    }
    Ok(())
}

fn read_ledger(disk: &Disk, newest: u64, oldest: u64) -> Result<Ledger, StoreError> {
    let transaction = disk.read()?;
    let ledger = transaction.open_table(LEDGER).map_err(failed)?;
    let first_event = newest.saturating_sub(EVENTS as u64);
    let mut read = Ledger {
        entries: Entries::new(),
        latest: Vec::new(),
    };
    let mut expected = None;
    for item in ledger.iter().map_err(failed)? {
        let (revision, value) = item.map_err(failed)?;
        let (revision, value) = (revision.value(), value.value());
        let (head, json) = open_entry(value, revision)?;
        if revision <= oldest {
            // Kept because a later revision was written over it.
            continue;
        }
        if expected.is_some_and(|e| e != revision) {
            return Err(damaged(format!("a revision before {revision} is missing")));
        }
        expected = Some(revision + 1);
        read.entries.push_back(Entry {
            revision,
            time_ms: head.time_ms,
            bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
        });
        if revision > first_event {
            let json = Bytes::copy_from_slice(json);
            read.latest.push((revision, head, json));
        }
    }
    if expected.is_some_and(|e| e != newest + 1) {
        return Err(damaged("the newest revision is missing"));
    }
    Ok(read)
}

/// Makes events of the latest revisions, sharing objects with what is stored.
fn remember(
    disk: &Disk,
    memory: &mut Memory,
    latest: Vec<(u64, Head, Bytes)>,
) -> Result<(), StoreError> {
    let transaction = disk.read()?;
    let ledger = transaction.open_table(LEDGER).map_err(failed)?;
    let mut known: BTreeMap<u64, Arc<Stored>> = BTreeMap::new();
    for (revision, head, json) in latest {
        let resource = ResourceName::from(head.resource.as_str());
        let id = head.id();
        let now = memory.get(&resource, &id);
        let object = match now.filter(|now| now.revision == revision) {
            Some(now) => now.clone(),
            None => Arc::new(Stored::new(revision, json)),
        };
        let before = match known.remove(&head.before) {
            Some(before) => Some(before),
            None if head.before == 0 => None,
            None => {
                let value = ledger.get(head.before).map_err(failed)?;
                let stored = value.map(|value| {
                    let (_, json) = open_entry(value.value(), head.before)?;
                    Ok(Stored::new(head.before, Bytes::copy_from_slice(json)))
                });
                stored.transpose()?.map(Arc::new)
            }
        };
        if !head.deleted {
            known.insert(revision, object.clone());
        }
        memory.remember(Event {
            kind: match (head.deleted, head.before) {
                (true, _) => EventKind::Deleted,
                (false, 0) => EventKind::Added,
                (false, _) => EventKind::Modified,
            },
            resource,
            id,
            object,
            before,
        });
    }
    Ok(())
}
