//! A folder of manifests as a source: watched, and told from the moment it changes.

mod pending;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Change, Diagnostic};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::folder::Folder;
use crate::{Said, Sink};
use pending::{Pending, Work};

/// Without any event the folder is looked at this often: some file systems tell nothing.
const LOOK: Duration = Duration::from_secs(30);

/// After trouble (a folder that is gone) it is looked at sooner.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Events that may wait. More than that are a storm, after which everything is looked at.
const EVENTS: usize = 4096;

/// Why a folder is no longer told of.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// It cannot be watched. Operators can act: it must exist, and the system's limit of watches suffice.
    #[error("cannot watch {path}")]
    Watch {
        /// What was to be watched.
        path: PathBuf,
        /// Why not.
        #[source]
        reason: notify::Error,
    },
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

/// Tells what the folder holds, then each change, until `stop`.
///
/// # Errors
///
/// When the folder is there at start and cannot be watched, or reading it panics. One that is not there is an error to
/// show, and looked for.
pub async fn run(
    folder: Folder,
    absent: Absent,
    out: Sink,
    stop: CancellationToken,
) -> Result<(), FilesError> {
    let root = folder.root().to_owned();
    let (tell, mut events) = mpsc::channel::<Event>(EVENTS);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error means that events were lost.
        let event = event.unwrap_or_else(|_| lost());
        if pending::matters(event.kind) {
            // A full channel is emptied into a look at everything.
            let _ = tell.try_send(event);
        }
    })
    .map_err(|reason| cannot_watch(&root, reason))?;
    let watched = watch(&mut watcher, &root);
    if root.exists() {
        watched?;
    }

    let mut pending = Pending::new(&root);
    let mut telling = Telling {
        folder: Some(folder),
        absent,
        out,
        findings: None,
        synced: false,
    };
    let everything = Work {
        all_except: Some(BTreeSet::new()),
        ..Work::default()
    };
    let mut troubled = telling.tell(everything).await?;
    loop {
        let look = if troubled { LOOK_AGAIN } else { LOOK };
        let looking = Instant::now() + look;
        loop {
            let due = pending.due().map_or(looking, |due| due.min(looking));
            // A timer counts whole milliseconds: one that is due already would take another.
            if events.is_empty() && due <= Instant::now() {
                break;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = telling.out.closed() => return Ok(()),
                event = events.recv() => {
                    let Some(event) = event else { return Ok(()) };
                    let now = Instant::now();
                    if events.len() + 1 >= EVENTS {
                        pending.everything(now);
                    }
                    pending.note(&event, now);
                    while let Ok(event) = events.try_recv() {
                        pending.note(&event, now);
                    }
                }
                () = tokio::time::sleep_until(due.into()) => break,
            }
        }
        let now = Instant::now();
        if now >= looking {
            pending.everything(looking);
        }
        let work = pending.take(now + Duration::from_millis(1));
        if work.replaced || troubled {
            // It may be another folder under the old name. An error tells that it is not there yet.
            let _ = watcher.unwatch(&root);
            let _ = watch(&mut watcher, &root);
        }
        troubled = telling.tell(work).await?;
    }
}

/// Reads and speaks.
struct Telling {
    /// Absent while it is read.
    folder: Option<Folder>,
    absent: Absent,
    out: Sink,
    /// What was said last.
    findings: Option<Vec<Diagnostic>>,
    synced: bool,
}

impl Telling {
    /// Does some work and tells what came of it; whether there is trouble with the folder.
    async fn tell(&mut self, work: Work) -> Result<bool, FilesError> {
        let Some(mut folder) = self.folder.take() else {
            return Ok(false);
        };
        let path = folder.root().to_owned();
        let start = Instant::now();
        let noticed = work.since.unwrap_or(start);
        let (folder, mut changes, findings, is_there) = tokio::task::spawn_blocking(move || {
            let is_there = folder.root().exists();
            let mut changes = folder.look(&work.files);
            if let Some(unfinished) = &work.all_except {
                changes.extend(folder.scan_except(unfinished));
            }
            let findings = folder.findings();
            (folder, changes, findings, is_there)
        })
        .await
        .map_err(|_| FilesError::Panicked { path })?;
        let id = folder.id().clone();
        let troubled = folder.is_troubled();
        self.folder = Some(folder);
        // Who no longer listens is found out by the caller.
        if self.findings.as_ref() != Some(&findings) {
            self.findings = Some(findings.clone());
            let _ = self.out.send(Said::Findings(id.clone(), findings)).await;
        }
        let is_read = is_there || !troubled || self.absent == Absent::Empty;
        if is_read && !std::mem::replace(&mut self.synced, true) {
            changes.push(Change::Synced(id));
        }
        if !changes.is_empty() {
            let said = Said::Read {
                changes,
                noticed,
                took: start.elapsed(),
            };
            let _ = self.out.send(said).await;
        }
        Ok(troubled)
    }
}

/// An event that stands for those that were lost.
fn lost() -> Event {
    Event::new(notify::EventKind::Other).set_flag(notify::event::Flag::Rescan)
}

/// Watches the folder, and where it stands, to see another one take its place.
fn watch(watcher: &mut RecommendedWatcher, root: &Path) -> Result<(), FilesError> {
    if let Some(parent) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
        // Not essential: without it a replaced folder is found by looking.
        let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
    }
    watcher
        .watch(root, RecursiveMode::Recursive)
        .map_err(|reason| cannot_watch(root, reason))
}

fn cannot_watch(root: &Path, reason: notify::Error) -> FilesError {
    FilesError::Watch {
        path: root.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests;
