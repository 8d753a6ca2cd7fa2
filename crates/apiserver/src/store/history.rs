//! Reading the ledger.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};

use super::disk::{
    BY_OBJECT, Disk, Head, KEY_OLDEST, LEDGER, META, damaged, failed, index_key, key, open_entry,
};
use super::{Author, ObjectId, ResourceName, StoreError};

/// A line of the history.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The revision.
    pub revision: u64,
    /// Milliseconds since the epoch.
    pub time_ms: u64,
    /// Of which resource.
    pub resource: ResourceName,
    /// Which object.
    pub id: ObjectId,
    /// The revision of the object before; 0 where it was absent.
    pub before: u64,
    /// Whether the object was deleted.
    pub deleted: bool,
    /// Who did it.
    pub author: Author,
}

/// An object at a revision.
#[derive(Clone, PartialEq, Debug)]
pub struct Version {
    /// Its revision.
    pub revision: u64,
    /// The object; `None` where it was absent.
    pub json: Option<Bytes>,
}

fn record(head: Head, revision: u64) -> Record {
    Record {
        revision,
        time_ms: head.time_ms,
        resource: head.resource.as_str().into(),
        id: head.id(),
        before: head.before,
        deleted: head.deleted,
        author: head.author,
    }
}

fn oldest(transaction: &ReadTransaction) -> Result<u64, StoreError> {
    let meta = transaction.open_table(META).map_err(failed)?;
    let value = meta.get(KEY_OLDEST).map_err(failed)?;
    Ok(value.map_or(0, |v| v.value()))
}

pub(super) fn records(
    disk: &Disk,
    of: Option<(&ResourceName, &ObjectId)>,
    limit: usize,
) -> Result<Vec<Record>, StoreError> {
    let transaction = disk.read()?;
    let oldest = oldest(&transaction)?;
    let ledger = transaction.open_table(LEDGER).map_err(failed)?;
    let mut all = Vec::new();
    if let Some((resource, id)) = of {
        let index = transaction.open_table(BY_OBJECT).map_err(failed)?;
        let key = key(resource, id);
        let (first, last) = (index_key(&key, oldest + 1), index_key(&key, u64::MAX));
        let range = index.range::<&[u8]>(&*first..=&*last).map_err(failed)?;
        for item in range.rev().take(limit) {
            let (at, _) = item.map_err(failed)?;
            let revision = revision_of(at.value())?;
            let value = ledger.get(revision).map_err(failed)?;
            let value = value.ok_or_else(|| damaged(format!("revision {revision} is missing")))?;
            all.push(record(open_entry(value.value(), revision)?.0, revision));
        }
        return Ok(all);
    }
    for item in ledger
        .range(oldest + 1..)
        .map_err(failed)?
        .rev()
        .take(limit)
    {
        let (revision, value) = item.map_err(failed)?;
        let head = open_entry(value.value(), revision.value())?.0;
        all.push(record(head, revision.value()));
    }
    Ok(all)
}

fn revision_of(index: &[u8]) -> Result<u64, StoreError> {
    let bytes = index.last_chunk::<8>();
    let bytes = bytes.ok_or_else(|| damaged("an index key is cut off"))?;
    Ok(u64::from_be_bytes(*bytes))
}

/// How objects were that were written since; `None`: absent.
pub(super) type Changed = BTreeMap<(ResourceName, ObjectId), Option<Version>>;

/// How the objects were at `revision` that were written after it; of one resource if one is given. With the newest
/// revision that was looked at.
pub(super) fn changed_since(
    disk: &Disk,
    revision: u64,
    of: Option<&ResourceName>,
) -> Result<(Changed, u64), StoreError> {
    let transaction = disk.read()?;
    let ledger = transaction.open_table(LEDGER).map_err(failed)?;
    let mut all = BTreeMap::new();
    let mut newest = revision;
    for item in ledger.range(revision + 1..).map_err(failed)? {
        let (at, value) = item.map_err(failed)?;
        newest = at.value();
        let head = open_entry(value.value(), newest)?.0;
        if of.is_some_and(|of| of.as_str() != head.resource) {
            continue;
        }
        let id = (head.resource.as_str().into(), head.id());
        // The first write after the revision tells what it was over.
        if let Entry::Vacant(place) = all.entry(id) {
            place.insert(match head.before {
                0 => None,
                before => Some(version(&ledger, before)?),
            });
        }
    }
    Ok((all, newest))
}

fn version(
    ledger: &impl ReadableTable<u64, &'static [u8]>,
    revision: u64,
) -> Result<Version, StoreError> {
    let value = ledger.get(revision).map_err(failed)?;
    let value = value.ok_or_else(|| damaged(format!("revision {revision} is missing")))?;
    let (head, json) = open_entry(value.value(), revision)?;
    let json = (!head.deleted).then(|| Bytes::copy_from_slice(json));
    Ok(Version { revision, json })
}

/// An object at `revision`, if the ledger tells; `None` where it has not been written since what the ledger knows.
pub(super) fn at(
    disk: &Disk,
    resource: &ResourceName,
    id: &ObjectId,
    revision: u64,
) -> Result<Option<Version>, StoreError> {
    let transaction = disk.read()?;
    let ledger = transaction.open_table(LEDGER).map_err(failed)?;
    let index = transaction.open_table(BY_OBJECT).map_err(failed)?;
    let key = key(resource, id);
    let (first, last) = (index_key(&key, 0), index_key(&key, revision));
    let mut range = index.range::<&[u8]>(&*first..=&*last).map_err(failed)?;
    if let Some(item) = range.next_back() {
        let (found, _) = item.map_err(failed)?;
        return version(&ledger, revision_of(found.value())?).map(Some);
    }
    // Written first after the revision, or last before what the ledger knows.
    let (first, last) = (index_key(&key, revision + 1), index_key(&key, u64::MAX));
    let mut range = index.range::<&[u8]>(&*first..=&*last).map_err(failed)?;
    Ok(range.next().map(|_| Version {
        revision: 0,
        json: None,
    }))
}
