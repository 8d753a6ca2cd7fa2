//! The embedded store: every object, and the ledger of what was done to them, in one file.
//!
//! Reads are answered from memory. Writes go through one thread that commits what is waiting in one transaction and
//! answers when it is on disk. A write names the revision it expects, so concurrent writers cannot overwrite each other
//! unseen. Nothing here knows of HTTP or of kinds.

mod backend;
mod compact;
mod copy;
mod disk;
#[cfg(test)]
mod faults;
mod history;
mod load;
mod memory;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use ::disk::private;

use compact::{Clock, Ledger};
pub use copy::restore;
pub use history::{Record, Version};
pub use memory::{Event, EventKind, Memory, Stored};
use writer::Pace;

/// The name of the file in the data folder.
pub const FILE: &str = "store.redb";

/// By what a data folder of ours is known.
const MARKS: &[&str] = &[FILE, crate::pki::FOLDER];

/// Group and plural of a resource: `virtualservices.networking.istio.io`, `services`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

impl ResourceName {
    /// The name of a resource by its two parts.
    pub fn new(plural: &str, group: &str) -> Self {
        if group.is_empty() {
            Self(plural.into())
        } else {
            Self(format!("{plural}.{group}").into())
        }
    }

    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ResourceName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which object of a resource: namespace (empty for cluster scope) and name, ordered in this way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectId {
    /// Empty for objects of cluster scope.
    pub namespace: Arc<str>,
    /// Unique within resource and namespace.
    pub name: Arc<str>,
}

impl ObjectId {
    /// An id from its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// What must be so for a write to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// The object has this revision.
    Revision(u64),
}

/// One write.
#[derive(Clone, Debug)]
pub struct Op {
    /// What kind of object.
    pub resource: ResourceName,
    /// Which.
    pub id: ObjectId,
    /// What it is written over.
    pub expect: Expect,
    /// The object, whose `metadata.resourceVersion` is set by the store; `None` deletes.
    pub put: Option<Value>,
}

/// Who wrote, for the ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Author {
    /// The user as authenticated.
    pub user: Arc<str>,
    /// The program, as it calls itself.
    pub manager: Arc<str>,
    /// The verb: `create`, `patch`, `rollback`, ...
    pub verb: Arc<str>,
}

/// Why a write did not happen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The object of the write at this position has another revision, or is gone. Retry.
    #[error("the object of write {0} has changed")]
    Changed(usize),
    /// The object of the write at this position exists. The user's to settle.
    #[error("the object of write {0} already exists")]
    Exists(usize),
    /// The disk is full. The operator's to settle. What was not acknowledged may be written or not; a read tells.
    #[error("the store cannot write: {0}")]
    Full(Arc<str>),
    /// The disk does not take it. The operator's to settle. What was not acknowledged may be written or not; a read tells.
    #[error("the store cannot write: {0}")]
    Disk(Arc<str>),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store cannot be opened or read. The operator's to settle.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data folder cannot be made or read.
    #[error("cannot use the data folder")]
    Folder(#[source] std::io::Error),
    /// Another process has the file open.
    #[error("the store is in use by another process")]
    InUse,
    /// The file does not hold what was written to it.
    #[error("the store is damaged: {0}; restore it from a backup (pilothouse restore)")]
    Damaged(String),
    /// The file is of a format that this program does not know.
    #[error("the store has format {found}, and this program reads up to {known}")]
    Format {
        /// The file's.
        found: u64,
        /// The newest that is read.
        known: u64,
    },
    /// There is no room on the disk.
    #[error("the disk of the store is full")]
    Full(#[source] std::io::Error),
    /// Any other failure of the database.
    #[error("the store cannot be read: {0}")]
    Database(String),
}

/// How much of the ledger is kept. The newest revision of each object is kept in any case.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// At most so many revisions.
    pub revisions: usize,
    /// None older than this.
    pub age: Duration,
    /// At most so many bytes of them.
    pub bytes: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            revisions: 100_000,
            age: Duration::from_secs(30 * 24 * 3600),
            bytes: 1 << 30,
        }
    }
}

/// How objects were that are not now as they were; `None`: absent.
pub(crate) type Past = BTreeMap<ObjectId, Option<Arc<Stored>>>;

/// An open store; clones share it.
#[derive(Clone)]
pub struct Store {
    folder: Arc<Path>,
    disk: Arc<disk::Disk>,
    memory: Arc<RwLock<Memory>>,
    writes: mpsc::Sender<writer::Write>,
    revision: watch::Receiver<u64>,
    fault: watch::Receiver<Option<Arc<str>>>,
}

impl Store {
    /// Refuses a data folder that [`Store::open`] would refuse for what it is, and changes nothing.
    ///
    /// # Errors
    ///
    /// When the folder is open to others and not ours, or cannot be looked at.
    pub fn check(data: &Path) -> Result<(), StoreError> {
        private::check_data_folder(data, MARKS).map_err(StoreError::Folder)
    }

    /// Opens the store of a data folder, making it where there is none.
    ///
    /// # Errors
    ///
    /// When the file is in use, damaged or of an unknown format.
    pub fn open(data: &Path, keep: Keep) -> Result<Self, StoreError> {
        // Secrets are stored as they are, so the folder is its owner's alone.
        private::data_folder(data, MARKS).map_err(StoreError::Folder)?;
        let file = data.join(FILE);
        if !file.exists() {
            // A database that is half made cannot be opened, so it is made aside.
            let draft = private::Draft::begin(&file).map_err(StoreError::Folder)?;
            disk::Disk::open(Arc::new(backend::StoreFile(draft.path().to_owned())))?;
            match draft.create() {
                // Another process was first, and is asked below.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => made.map_err(StoreError::Folder)?,
            }
        }
        let medium = Arc::new(backend::StoreFile(file));
        let store = Self::open_on(data, medium, keep, Clock::system(), Pace::default())?;
        // The folder is this process's now.
        private::sweep(data);
        Ok(store)
    }

    fn open_on(
        data: &Path,
        medium: Arc<dyn backend::Medium>,
        keep: Keep,
        clock: Clock,
        pace: Pace,
    ) -> Result<Self, StoreError> {
        let (disk, memory, ledger) = disk::Disk::open(medium)?;
        let disk = Arc::new(disk);
        let (notify, revision) = watch::channel(memory.revision());
        let (ailing, fault) = watch::channel(None);
        let memory = Arc::new(RwLock::new(memory));
        let (writes, queue) = mpsc::channel(4096);
        let writer = writer::Writer {
            disk: disk.clone(),
            memory: memory.clone(),
            notify,
            fault: ailing,
            full: false,
            ledger: Ledger::new(ledger, keep, clock),
            pace,
            mended: None,
        };
        std::thread::Builder::new()
            .name("api-store".into())
            .spawn(move || writer.run(queue))
            .map_err(StoreError::Folder)?;
        Ok(Self {
            folder: data.into(),
            disk,
            memory,
            writes,
            revision,
            fault,
        })
    }

    /// Why nothing can be written now; none while the last attempt to write succeeded.
    pub fn fault(&self) -> Option<Arc<str>> {
        self.fault.borrow().clone()
    }

    /// Tells when the store cannot write any more, and when it can again.
    pub fn faults(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.fault.clone()
    }

    /// Has the writer look at a file that could not be read.
    fn suspect<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Database(_) | StoreError::Full(_)) = &read {
            let (reply, _) = oneshot::channel();
            let nothing = writer::Write {
                ops: Vec::new(),
                author: Author::default(),
                reply,
            };
            // A queue that is full has writes that find out as well.
            let _ = self.writes.try_send(nothing);
        }
        read
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is stored, for a moment. Not to be held across an `await`.
    pub fn read(&self) -> RwLockReadGuard<'_, Memory> {
        // The lock is poisoned only if applying a committed batch panicked; what it guards is replaced whole.
        self.memory
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Tells when there is a newer revision.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.clone()
    }

    /// Writes all of `ops`, or none. Resolves when they are on disk.
    ///
    /// # Errors
    ///
    /// When an object is not as expected, or the disk does not take it.
    pub async fn write(
        &self,
        ops: Vec<Op>,
        author: Author,
    ) -> Result<Vec<Arc<Stored>>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let write = writer::Write { ops, author, reply };
        self.writes
            .send(write)
            .await
            .map_err(|_| WriteError::Closed)?;
        answer.await.map_err(|_| WriteError::Closed)?
    }

    /// What was done, newest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn history(
        &self,
        of: Option<(&ResourceName, &ObjectId)>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.suspect(history::records(&self.disk, of, limit))
    }

    /// The oldest revision of which the whole state is known.
    pub fn oldest(&self) -> u64 {
        self.read().oldest()
    }

    /// Every object that is not now as it was at `revision`, with how it was (`None`: absent).
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn changed_since(
        &self,
        revision: u64,
    ) -> Result<BTreeMap<(ResourceName, ObjectId), Option<Version>>, StoreError> {
        let read = history::changed_since(&self.disk, revision, None);
        self.suspect(read).map(|(all, _)| all)
    }

    /// What was different at `revision` among the objects of a resource. The memory that comes with it is what it is
    /// different from.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn past(
        &self,
        resource: &ResourceName,
        revision: u64,
    ) -> Result<(RwLockReadGuard<'_, Memory>, Past), StoreError> {
        {
            let memory = self.read();
            let mut past = Past::new();
            if memory.undo(resource, revision, &mut past) {
                return Ok((memory, past));
            }
        }
        let read = history::changed_since(&self.disk, revision, Some(resource));
        let (all, newest) = self.suspect(read)?;
        let stored = |version: Version| {
            let json = version.json?;
            Some(Arc::new(Stored::new(version.revision, json)))
        };
        let mut past: Past = all
            .into_iter()
            .map(|((_, id), version)| (id, version.and_then(stored)))
            .collect();
        let memory = self.read();
        // What was written since the file was read.
        if newest < memory.revision() && !memory.undo(resource, newest, &mut past) {
            return Err(StoreError::Database(
                "more was written than is remembered".to_owned(),
            ));
        }
        Ok((memory, past))
    }

    /// One object as it was at `revision`; `None` where it was absent.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn at(
        &self,
        resource: &ResourceName,
        id: &ObjectId,
        revision: u64,
    ) -> Result<Option<Bytes>, StoreError> {
        if let Some(version) = self.suspect(history::at(&self.disk, resource, id, revision))? {
            return Ok(version.json);
        }
        let memory = self.read();
        let now = memory.get(resource, id);
        Ok(now
            .filter(|stored| stored.revision <= revision)
            .map(|stored| stored.json.clone()))
    }

    /// Copies the store, as it is now, to a new file. Writers go on.
    ///
    /// # Errors
    ///
    /// When the file exists or cannot be written.
    pub fn backup(&self, to: &Path) -> Result<u64, StoreError> {
        self.suspect(copy::backup(&self.disk, to, &private::open_gate))
    }
}

#[cfg(test)]
mod tests;
