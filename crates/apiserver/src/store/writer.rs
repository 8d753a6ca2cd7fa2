//! The thread that writes: it commits what is waiting in one transaction, and drops what the ledger need not keep.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::disk::{
    BY_OBJECT, Disk, Entries, Entry, Head, KEY_OLDEST, KEY_REVISION, LEDGER, META, OBJECTS, failed,
    index_key, key, open_entry, seal,
};
use super::memory::{Event, EventKind, Memory, Stored};
use super::{Author, Expect, Keep, ObjectId, Op, ResourceName, StoreError, WriteError};

/// The most writes of one transaction.
const BATCH: usize = 1024;
/// The most revisions that are dropped in one transaction.
const DROP: usize = 2_000;
/// The ledger may be longer than wanted by this share, so that dropping is not done for each write.
const SLACK: usize = 50;

/// What a writer waits for.
pub(super) type Reply = oneshot::Sender<Written>;

/// What becomes of a write.
type Written = Result<Vec<Arc<Stored>>, WriteError>;

/// Operations that happen together or not at all.
pub(super) struct Write {
    pub(super) ops: Vec<Op>,
    pub(super) author: Author,
    pub(super) reply: Reply,
}

/// The state of the thread.
pub(super) struct Writer {
    pub(super) disk: Arc<Disk>,
    pub(super) memory: Arc<RwLock<Memory>>,
    pub(super) notify: watch::Sender<u64>,
    pub(super) ledger: Entries,
    pub(super) keep: Keep,
}

/// What a transaction did so far, before anybody may see it.
struct Batch {
    revision: u64,
    oldest: u64,
    time_ms: u64,
    events: Vec<Event>,
    entries: Vec<Entry>,
    /// Objects that were written: by key, as they will be.
    written: HashMap<(ResourceName, ObjectId), Option<Arc<Stored>>>,
}

impl Writer {
    /// Works until the last sender is gone.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Write>) {
        let mut bytes: u64 = self.ledger.iter().map(|e| u64::from(e.bytes)).sum();
        while let Some(first) = queue.blocking_recv() {
            let mut writes = vec![first];
            while writes.len() < BATCH
                && let Ok(next) = queue.try_recv()
            {
                writes.push(next);
            }
            self.commit(writes, &mut bytes);
            if let Err(error) = self.compact(&mut bytes) {
                tracing::warn!(%error, "The ledger of the store cannot be shortened.");
            }
        }
    }

    fn commit(&mut self, writes: Vec<Write>, bytes: &mut u64) {
        let mut batch = {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            Batch {
                revision: memory.revision,
                oldest: memory.oldest,
                time_ms: now_ms(),
                events: Vec::new(),
                entries: Vec::new(),
                written: HashMap::new(),
            }
        };
        let mut replies = Vec::with_capacity(writes.len());
        let outcome = self.transact(writes, &mut batch, &mut replies);
        if let Err(error) = outcome {
            let told: Arc<str> = error.to_string().into();
            tracing::error!(error = %told, "The store cannot write.");
            for (reply, result) in replies {
                let _ = reply.send(result.and(Err(WriteError::Disk(told.clone()))));
            }
            return;
        }
        *bytes += batch
            .entries
            .iter()
            .map(|e| u64::from(e.bytes))
            .sum::<u64>();
        self.ledger.extend(batch.entries);
        if !batch.events.is_empty() {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            for event in batch.events {
                memory.apply(event);
            }
        }
        self.notify.send_replace(batch.revision);
        for (reply, result) in replies {
            let _ = reply.send(result);
        }
    }

    fn transact(
        &self,
        writes: Vec<Write>,
        batch: &mut Batch,
        replies: &mut Vec<(Reply, Written)>,
    ) -> Result<(), StoreError> {
        let mut all = writes.into_iter();
        let result = self.write_all(&mut all, batch, replies);
        if let Err(error) = &result {
            // Who was not reached yet is to be told as well.
            let told = WriteError::Disk(error.to_string().into());
            replies.extend(all.map(|write| (write.reply, Err(told.clone()))));
        }
        result
    }

    fn write_all(
        &self,
        writes: &mut impl Iterator<Item = Write>,
        batch: &mut Batch,
        replies: &mut Vec<(Reply, Written)>,
    ) -> Result<(), StoreError> {
        // The default durability: a commit returns when it is on disk.
        let transaction = self.db_write()?;
        {
            let mut tables = Tables::open(&transaction)?;
            for write in writes {
                match self.expected(&write.ops, batch) {
                    Err(error) => replies.push((write.reply, Err(error))),
                    Ok(()) => {
                        let written = self.apply(write.ops, &write.author, batch, &mut tables);
                        match written {
                            Ok(stored) => replies.push((write.reply, Ok(stored))),
                            Err(error) => {
                                let told = WriteError::Disk(error.to_string().into());
                                replies.push((write.reply, Err(told)));
                                return Err(error);
                            }
                        }
                    }
                }
            }
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(KEY_REVISION, batch.revision).map_err(failed)?;
        }
        if batch.events.is_empty() {
            transaction.abort().map_err(failed)
        } else {
            transaction.commit().map_err(failed)
        }
    }

    fn db_write(&self) -> Result<WriteTransaction, StoreError> {
        self.disk.db.begin_write().map_err(failed)
    }

    fn current(
        &self,
        resource: &ResourceName,
        id: &ObjectId,
        batch: &Batch,
    ) -> Option<Arc<Stored>> {
        match batch.written.get(&(resource.clone(), id.clone())) {
            Some(written) => written.clone(),
            None => {
                let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
                memory.get(resource, id).cloned()
            }
        }
    }

    fn expected(&self, ops: &[Op], batch: &Batch) -> Result<(), WriteError> {
        for (at, op) in ops.iter().enumerate() {
            let now = self.current(&op.resource, &op.id, batch);
            match (op.expect, now) {
                (Expect::Absent, None) => {}
                (Expect::Absent, Some(_)) => return Err(WriteError::Exists(at)),
                (Expect::Revision(wanted), Some(now)) if now.revision == wanted => {}
                (Expect::Revision(_), _) => return Err(WriteError::Changed(at)),
            }
        }
        Ok(())
    }

    fn apply(
        &self,
        ops: Vec<Op>,
        author: &Author,
        batch: &mut Batch,
        tables: &mut Tables<'_>,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        let mut all = Vec::with_capacity(ops.len());
        for op in ops {
            let before = self.current(&op.resource, &op.id, batch);
            batch.revision += 1;
            let revision = batch.revision;
            let kind = match (&op.put, &before) {
                (None, _) => EventKind::Deleted,
                (Some(_), None) => EventKind::Added,
                (Some(_), Some(_)) => EventKind::Modified,
            };
            let deleted = op.put.is_none();
            let last = || before.as_ref().map(|b| b.value()).unwrap_or_default();
            let mut object = op.put.unwrap_or_else(last);
            set_revision(&mut object, revision);
            let json = Bytes::from(object.to_string());
            let stored = Arc::new(Stored::new(revision, json.clone()));
            let head = Head {
                resource: op.resource.as_str().to_owned(),
                namespace: op.id.namespace.to_string(),
                name: op.id.name.to_string(),
                time_ms: batch.time_ms,
                before: before.as_ref().map_or(0, |b| b.revision),
                deleted,
                author: author.clone(),
            };
            let key = key(&op.resource, &op.id);
            if let Some(before) = &before
                && before.revision <= batch.oldest
            {
                // The revision that this one is written over is needed to tell how things were before.
                tables.keep_base(&head, &key, before, batch.time_ms)?;
            }
            if deleted {
                tables.objects.remove(&*key).map_err(failed)?;
            } else {
                let value = seal(&[&revision.to_be_bytes(), &json]);
                tables.objects.insert(&*key, &*value).map_err(failed)?;
            }
            let bytes = tables.log(revision, &head, &key, &json)?;
            batch.entries.push(Entry {
                revision,
                time_ms: batch.time_ms,
                bytes,
            });
            let now = (!deleted).then(|| stored.clone());
            let at = (op.resource.clone(), op.id.clone());
            batch.written.insert(at, now);
            batch.events.push(Event {
                kind,
                resource: op.resource,
                id: op.id,
                object: stored.clone(),
                before,
            });
            all.push(stored);
        }
        Ok(all)
    }

    /// Drops the oldest revisions while there are more than wanted.
    fn compact(&mut self, bytes: &mut u64) -> Result<(), StoreError> {
        let most = self.keep.revisions;
        let before =
            now_ms().saturating_sub(u64::try_from(self.keep.age.as_millis()).unwrap_or(u64::MAX));
        let slack = (most / SLACK).min(DROP);
        let old = |e: &Entry| e.time_ms.saturating_add(60_000) < before;
        let wanted = self.ledger.len() > most + slack
            || *bytes > self.keep.bytes + self.keep.bytes / SLACK as u64
            || self.ledger.front().is_some_and(old);
        if !wanted {
            return Ok(());
        }
        let transaction = self.db_write()?;
        let mut oldest = 0;
        let mut dropped = 0;
        let mut left = *bytes;
        {
            let mut tables = Tables::open(&transaction)?;
            for entry in self.ledger.iter().take(DROP) {
                let more = self.ledger.len() - dropped > most;
                if !(more || left > self.keep.bytes || entry.time_ms < before) {
                    break;
                }
                self.drop_revision(entry.revision, &mut tables)?;
                oldest = entry.revision;
                left -= u64::from(entry.bytes);
                dropped += 1;
            }
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(KEY_OLDEST, oldest).map_err(failed)?;
        }
        if dropped == 0 {
            return transaction.abort().map_err(failed);
        }
        transaction.commit().map_err(failed)?;
        self.ledger.drain(..dropped);
        *bytes = left;
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.oldest = oldest;
        Ok(())
    }

    /// Drops a revision, unless a later one of the same object needs it; and what only this one needed.
    fn drop_revision(&self, revision: u64, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let Some(head) = tables.head(revision)? else {
            return Ok(());
        };
        let key = head.key();
        if head.before != 0 {
            tables.remove(&key, head.before)?;
        }
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let now = memory.get(&head.resource.as_str().into(), &head.id());
        let is_newest = now.is_some_and(|now| now.revision == revision);
        drop(memory);
        if head.deleted || is_newest {
            tables.remove(&key, revision)?;
        }
        Ok(())
    }
}

struct Tables<'t> {
    objects: Table<'t, &'static [u8], &'static [u8]>,
    ledger: Table<'t, u64, &'static [u8]>,
    by_object: Table<'t, &'static [u8], ()>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            objects: transaction.open_table(OBJECTS).map_err(failed)?,
            ledger: transaction.open_table(LEDGER).map_err(failed)?,
            by_object: transaction.open_table(BY_OBJECT).map_err(failed)?,
        })
    }

    fn log(
        &mut self,
        revision: u64,
        head: &Head,
        key: &[u8],
        json: &[u8],
    ) -> Result<u32, StoreError> {
        let head = serde_json::to_vec(head).map_err(|e| StoreError::Database(e.to_string()))?;
        let value = seal(&[&head, json]);
        self.ledger.insert(revision, &*value).map_err(failed)?;
        let index = index_key(key, revision);
        self.by_object.insert(&*index, ()).map_err(failed)?;
        Ok(u32::try_from(value.len()).unwrap_or(u32::MAX))
    }

    /// Puts a revision back that was dropped when it was the newest of its object.
    fn keep_base(
        &mut self,
        next: &Head,
        key: &[u8],
        base: &Stored,
        time_ms: u64,
    ) -> Result<(), StoreError> {
        if self.ledger.get(base.revision).map_err(failed)?.is_some() {
            return Ok(());
        }
        let head = Head {
            before: 0,
            deleted: false,
            time_ms,
            author: Author::default(),
            ..next.clone()
        };
        self.log(base.revision, &head, key, &base.json)?;
        Ok(())
    }

    fn head(&self, revision: u64) -> Result<Option<Head>, StoreError> {
        let value = self.ledger.get(revision).map_err(failed)?;
        let value = value.map(|value| open_entry(value.value(), revision).map(|(head, _)| head));
        value.transpose()
    }

    fn remove(&mut self, key: &[u8], revision: u64) -> Result<(), StoreError> {
        self.ledger.remove(revision).map_err(failed)?;
        let index = index_key(key, revision);
        self.by_object.remove(&*index).map_err(failed)?;
        Ok(())
    }
}

fn set_revision(object: &mut Value, revision: u64) {
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.insert("resourceVersion".to_owned(), revision.to_string().into());
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
