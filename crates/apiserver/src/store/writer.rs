//! The thread that writes: it commits what is waiting in one transaction.
//!
//! After a failure the database takes nothing more. The thread then opens the file again, checks all of it, and writes once,
//! until that succeeds; meanwhile writes are refused and reads go on.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::compact::Ledger;
use super::disk::{
    BY_OBJECT, Disk, Entry, Head, KEY_REVISION, LEDGER, META, OBJECTS, damaged, failed, index_key,
    key, open_entry, seal,
};
use super::memory::{Event, EventKind, Memory, Stored};
use super::{Author, Expect, ObjectId, Op, ResourceName, StoreError, WriteError};

/// The most writes of one transaction.
const BATCH: usize = 1024;

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
    /// Why nothing can be written.
    pub(super) fault: watch::Sender<Option<Arc<str>>>,
    /// Whether it is because the disk is full.
    pub(super) full: bool,
    pub(super) ledger: Ledger,
    pub(super) pace: Pace,
    /// When the file was opened again last.
    pub(super) mended: Option<Instant>,
}

/// How soon a file that failed is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long to wait first, and how long a file has to do for it to be tried at once.
    pub(super) first: Duration,
    /// How long to wait at most; each time twice as long.
    pub(super) most: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            most: Duration::from_secs(5),
        }
    }
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
        while let Some(first) = queue.blocking_recv() {
            let mut writes = vec![first];
            while writes.len() < BATCH
                && let Ok(next) = queue.try_recv()
            {
                writes.push(next);
            }
            self.commit(writes);
            if self.fault.borrow().is_none()
                && let Err(error) = self.compact()
            {
                self.fails(&error);
            }
            if self.mend(&mut queue).is_none() {
                return;
            }
        }
    }

    /// Notes that the file does not take what is written.
    fn fails(&mut self, error: &StoreError) {
        self.full = matches!(error, StoreError::Full(_));
        let told = in_words(error);
        tracing::error!(error = %told, "The store cannot write and will be reopened.");
        self.fault.send_replace(Some(told));
    }

    /// Opens the file again until it can be written; `None` when the last sender is gone.
    fn mend(&mut self, queue: &mut mpsc::Receiver<Write>) -> Option<()> {
        let mut wait = self.pace.first;
        loop {
            let Some(why) = self.fault.borrow().clone() else {
                return Some(());
            };
            let until = Instant::now() + wait;
            wait = (wait * 2).min(self.pace.most);
            while Instant::now() < until {
                match queue.try_recv() {
                    Ok(write) => {
                        let told: Arc<str> = format!("{why}; retrying").into();
                        let refused = match self.full {
                            true => WriteError::Full(told),
                            false => WriteError::Disk(told),
                        };
                        let _ = write.reply.send(Err(refused));
                    }
                    Err(mpsc::error::TryRecvError::Empty) => {
                        std::thread::sleep(self.pace.first.min(Duration::from_millis(10)));
                    }
                    Err(mpsc::error::TryRecvError::Disconnected) => return None,
                }
            }
            self.try_to_mend();
        }
    }

    fn try_to_mend(&mut self) {
        match self.reopen() {
            Ok(()) => tracing::info!("The store can write again."),
            Err(error) => {
                self.full = matches!(error, StoreError::Full(_));
                self.fault.send_replace(Some(in_words(&error)));
            }
        }
    }

    /// Reads the whole file anew and writes to it. What was acknowledged must be there; what failed may be.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.mended = Some(Instant::now());
        let (memory, entries) = self.disk.reopen()?;
        let known = self
            .memory
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .revision;
        if memory.revision < known {
            let found = memory.revision;
            return Err(damaged(format!(
                "revision {known} was written, and the file ends with {found}"
            )));
        }
        let transaction = self.disk.write()?;
        {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(KEY_REVISION, memory.revision).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        let revision = memory.revision;
        self.ledger.replace(entries);
        *self.memory.write().unwrap_or_else(PoisonError::into_inner) = memory;
        self.fault.send_replace(None);
        self.notify.send_replace(revision);
        Ok(())
    }

    fn commit(&mut self, writes: Vec<Write>) {
        let mut batch = {
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            Batch {
                revision: memory.revision,
                oldest: memory.oldest,
                time_ms: self.ledger.now_ms(),
                events: Vec::new(),
                entries: Vec::new(),
                written: HashMap::new(),
            }
        };
        let before = batch.revision;
        let mut replies = Vec::with_capacity(writes.len());
        let outcome = self.transact(writes, &mut batch, &mut replies);
        if let Err(error) = outcome {
            self.fails(&error);
            // Soon after the last time it is left to `mend`, so that writes that cannot succeed do not make the file be read
            // without end.
            if self.mended.is_none_or(|at| at.elapsed() > self.pace.first) {
                self.try_to_mend();
            }
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            let kept = batch.revision > before && memory.revision == batch.revision;
            drop(memory);
            let told = refused(&error);
            for (reply, result) in replies {
                // A commit can fail after all of it was written; then it is on disk, as was found just now.
                let _ = reply.send(if kept { result } else { Err(told.clone()) });
            }
            return;
        }
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
            replies.extend(all.map(|write| (write.reply, Err(refused(error)))));
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
        let transaction = self.disk.write()?;
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
                                replies.push((write.reply, Err(refused(&error))));
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
}

/// The tables that a write changes.
pub(super) struct Tables<'t> {
    objects: Table<'t, &'static [u8], &'static [u8]>,
    ledger: Table<'t, u64, &'static [u8]>,
    by_object: Table<'t, &'static [u8], ()>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
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

    pub(super) fn head(&self, revision: u64) -> Result<Option<Head>, StoreError> {
        let value = self.ledger.get(revision).map_err(failed)?;
        let value = value.map(|value| open_entry(value.value(), revision).map(|(head, _)| head));
        value.transpose()
    }

    pub(super) fn remove(&mut self, key: &[u8], revision: u64) -> Result<(), StoreError> {
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

/// What is told to whoever wrote.
fn refused(error: &StoreError) -> WriteError {
    let told = in_words(error);
    match error {
        StoreError::Full(_) => WriteError::Full(told),
        _ => WriteError::Disk(told),
    }
}

/// An error with what is behind it.
fn in_words(error: &StoreError) -> Arc<str> {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}").into(),
        None => error.to_string().into(),
    }
}
