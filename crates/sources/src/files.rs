//! A folder of manifests as a source: watched, and told from the moment it changes.

mod pending;
mod watching;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::{Change, Diagnostic, Owner};
use notify::Event;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::folder::{Folder, ReadApart};
use pending::{Pending, Work};
use source_api::{Part, Running, Sink, Source, SourceError, SourceEvent};
use watching::Watching;

/// Without any event the folder is looked at this often: some file systems tell nothing.
const LOOK: Duration = Duration::from_secs(30);

/// After trouble (a folder that is gone) it is looked at sooner.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often the folder is looked at where the system does not tell what happens to it.
const POLL: Duration = Duration::from_secs(2);

/// Looking takes no larger part of the time than one in this many.
const PART: u32 = 10;

/// How long what a folder held stays in force after an empty one has taken its place.
pub const EMPTY_GRACE: Duration = Duration::from_secs(300);

/// Why a folder is no longer told of.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Reading it panicked, which is a bug.
    #[error("reading {path} panicked")]
    Panicked {
        /// What was read.
        path: PathBuf,
    },
}

/// What a folder that is not there at the start stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absent {
    /// It holds nothing yet.
    Empty,
    /// Nothing is known of it until it is there.
    Unknown,
}

/// How a folder is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What it stands for when it is not there at the start.
    pub absent: Absent,
    /// How long what it held stays in force after an empty folder has taken its place; [`EMPTY_GRACE`] unless told
    /// otherwise.
    pub empty_grace: Duration,
}

/// A folder as a source.
pub struct FilesSource {
    /// What is reported.
    pub folder: Folder,
    /// How.
    pub options: Options,
}

impl Source for FilesSource {
    fn owner(&self) -> &Owner {
        self.folder.owner()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        let Self { folder, options } = *self;
        Box::pin(async move {
            let run = run(folder, options, out, stop);
            run.await.map_err(SourceError::new)
        })
    }
}

/// Tells what the folder holds, then each change, until `stop`.
///
/// One that is not there, or that the system does not tell of, is a finding to show, and looked at from time to time.
///
/// # Errors
///
/// When reading it panics.
async fn run(
    folder: Folder,
    options: Options,
    out: Sink,
    stop: CancellationToken,
) -> Result<(), FilesError> {
    let (watching, events) = Watching::start(folder.root());
    tell_of(folder, options, out, stop, watching, events).await
}

/// As [`run`], with what tells of events.
async fn tell_of(
    folder: Folder,
    options: Options,
    out: Sink,
    stop: CancellationToken,
    mut watching: Watching,
    mut events: mpsc::Receiver<Event>,
) -> Result<(), FilesError> {
    let mut pending = Pending::new(folder.root());
    pending.named(watching.names());
    let mut telling = Telling {
        folder: Some(folder),
        options,
        out,
        reading: None,
        read: None,
        has_more: false,
        part: None,
        findings: None,
        synced: false,
        emptied: None,
        took: Duration::ZERO,
    };
    let everything = Work {
        all_except: Some(BTreeSet::new()),
        ..Work::default()
    };
    let mut troubled = telling.tell(everything, watching.trouble()).await?;
    let mut renewed = Instant::now();
    loop {
        let look = match (troubled, watching.trouble()) {
            (true, _) => LOOK_AGAIN,
            (false, Some(_)) => POLL,
            (false, None) => LOOK,
        };
        let looking = Instant::now() + look.max(telling.took * PART);
        let waiting = (&mut pending, &mut events, &watching);
        if !wait(&mut telling, waiting, looking, &stop).await {
            return Ok(());
        }
        let now = Instant::now();
        if now >= looking {
            pending.everything(looking);
        }
        if watching.has_lost() {
            pending.lost(now);
        }
        let work = pending.take(now + Duration::from_millis(1));
        let retry = watching.trouble().is_some() && renewed.elapsed() >= LOOK;
        let elsewhere = work.all_except.is_some() && watching.is_elsewhere();
        if work.replaced || troubled || retry || elsewhere {
            // It may be another folder under the old name, or be there at last.
            watching.renew();
            pending.named(watching.names());
            renewed = Instant::now();
        }
        troubled = telling.tell(work, watching.trouble()).await?;
    }
}

/// Waits until there is something to tell, at the latest until the folder is to be looked at; `false` where nobody wants it any more.
async fn wait(
    telling: &mut Telling,
    (pending, events, watching): (&mut Pending, &mut mpsc::Receiver<Event>, &Watching),
    looking: Instant,
    stop: &CancellationToken,
) -> bool {
    loop {
        let due = pending.due().map_or(looking, |due| due.min(looking));
        // A timer counts whole milliseconds: one that is due already would take another.
        if events.is_empty() && due <= Instant::now() {
            return true;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = telling.out.closed() => return false,
            event = events.recv(), if !events.is_closed() || !events.is_empty() => {
                let Some(event) = event else { continue };
                let now = Instant::now();
                pending.note(&event, now);
                while let Ok(event) = events.try_recv() {
                    pending.note(&event, now);
                }
                if watching.has_dropped() {
                    pending.everything(now);
                }
            }
            read = end_of(&mut telling.reading), if telling.reading.is_some() => {
                telling.reading = None;
                telling.read = Some(read);
                return true;
            }
            part = telling.out.part(), if telling.has_more => {
                telling.part = Some(part);
                return true;
            }
            () = tokio::time::sleep_until(due.into()) => return true,
        }
    }
}

/// What comes of reading large files, where that is under way.
async fn end_of(reading: &mut Option<JoinHandle<ReadApart>>) -> Result<ReadApart, JoinError> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// Reads and speaks.
struct Telling {
    /// Absent while it is read.
    folder: Option<Folder>,
    options: Options,
    out: Sink,
    /// Large files that are being read, beside the folder.
    reading: Option<JoinHandle<ReadApart>>,
    /// What came of that, until it is taken in.
    read: Option<Result<ReadApart, JoinError>>,
    /// Whether there is more to tell of large files.
    has_more: bool,
    /// The turn of the next part of it.
    part: Option<Part>,
    /// What was said last.
    findings: Option<Vec<Diagnostic>>,
    synced: bool,
    /// Since when an empty folder has been in the place of the one that is told of.
    emptied: Option<Instant>,
    /// How long looking at everything took last.
    took: Duration,
}

impl Telling {
    /// Does some work and tells what came of it; whether there is trouble with the folder.
    async fn tell(
        &mut self,
        work: Work,
        unwatched: Option<Diagnostic>,
    ) -> Result<bool, FilesError> {
        let Some(mut folder) = self.folder.take() else {
            return Ok(false);
        };
        let path = folder.root().to_owned();
        let start = Instant::now();
        let noticed = work.since.unwrap_or(start);
        let everything = work.all_except.is_some();
        let grace = self.options.empty_grace;
        let over = self.emptied.is_some_and(|since| since.elapsed() >= grace) || grace.is_zero();
        let read = self.read.take().transpose();
        let read = read.map_err(|_| FilesError::Panicked { path: path.clone() })?;
        let (part, synced) = (self.part.take(), self.synced);
        let tells_part = part.is_some();
        let (mut folder, mut changes, mut findings, is_there) =
            tokio::task::spawn_blocking(move || {
                let is_there = folder.root().exists();
                if over {
                    folder.let_go();
                }
                // Nobody is served before everything is read once.
                if synced {
                    folder.read_large_files_apart();
                }
                if let Some(read) = read {
                    folder.take_apart(read);
                }
                let mut changes = folder.look(&work.files);
                if tells_part {
                    changes.extend(folder.part());
                }
                if let Some(unfinished) = &work.all_except {
                    changes.extend(folder.scan_except(unfinished));
                }
                let findings = folder.findings();
                (folder, changes, findings, is_there)
            })
            .await
            .map_err(|_| FilesError::Panicked { path })?;
        let owner = folder.owner().clone();
        let troubled = folder.is_troubled();
        self.emptied = folder
            .is_emptied()
            .then(|| self.emptied.unwrap_or_else(Instant::now));
        if everything {
            self.took = start.elapsed();
        }
        self.has_more = folder.has_more();
        if let Some(apart) = folder.apart() {
            self.reading = Some(tokio::task::spawn_blocking(move || apart.read()));
        }
        self.folder = Some(folder);
        findings.extend(unwatched);
        // Who no longer listens is found out by the caller.
        if self.findings.as_ref() != Some(&findings) {
            self.findings = Some(findings.clone());
            let id = owner.source.clone();
            let _ = self.out.send(SourceEvent::Findings(id, findings)).await;
        }
        let is_read = is_there || !troubled || self.options.absent == Absent::Empty;
        if is_read && !std::mem::replace(&mut self.synced, true) {
            changes.extend(owner.collections().map(Change::Synced));
        }
        if !changes.is_empty() {
            let said = SourceEvent::Read {
                changes,
                noticed,
                took: start.elapsed(),
            };
            let _ = self.out.send_in(part, said).await;
        }
        Ok(troubled)
    }
}

#[cfg(test)]
mod tests;
