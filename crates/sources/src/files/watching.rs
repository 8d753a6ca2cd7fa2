//! Being told by the system what happens to a folder.
//!
//! Where the system does not tell, as when its limit of watches is reached, that is said, and the folder is looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{Diagnostic, Origin, Severity};
use notify::{Config, ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::pending;
use crate::folder::{Identity, code};

/// Events that may wait. More than that are a storm, after which everything is looked at.
const EVENTS: usize = 4096;

/// What was noticed besides events.
#[derive(Debug, Default)]
struct Noticed {
    /// Events found no room.
    dropped: AtomicBool,
    /// The system has lost events, and with them perhaps new folders.
    lost: AtomicBool,
    /// A new folder could not be watched.
    limited: AtomicBool,
}

/// A folder that is watched, as far as the system lets it be.
pub(super) struct Watching {
    watcher: Option<RecommendedWatcher>,
    noticed: Arc<Noticed>,
    /// As the operator has named it.
    root: PathBuf,
    /// From the root of the file system on, links not followed.
    absolute: PathBuf,
    /// Without links, when it was watched last.
    real: Option<PathBuf>,
    identity: Option<Identity>,
    /// Why the folder is not watched, or not all of it.
    trouble: Option<String>,
}

impl Watching {
    /// Begins to watch; events come from the receiver.
    pub(super) fn start(root: &Path) -> (Self, mpsc::Receiver<Event>) {
        let (tell, events) = mpsc::channel::<Event>(EVENTS);
        let noticed = Arc::new(Noticed::default());
        let noting = noticed.clone();
        let handler = move |event: notify::Result<Event>| {
            let event = event.unwrap_or_else(|error| {
                let limited = matches!(error.kind, ErrorKind::MaxFilesWatch);
                noting.limited.fetch_or(limited, Ordering::Relaxed);
                lost()
            });
            if event.need_rescan() {
                noting.lost.store(true, Ordering::Relaxed);
            }
            if pending::matters(event.kind) && tell.try_send(event).is_err() {
                noting.dropped.store(true, Ordering::Relaxed);
            }
        };
        // A link to a folder elsewhere must not make that be watched.
        let config = Config::default().with_follow_symlinks(false);
        let (watcher, trouble) = match RecommendedWatcher::new(handler, config) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(reason(&error.kind))),
        };
        let mut watching = Self::with(root, watcher, noticed, trouble);
        watching.renew();
        (watching, events)
    }

    fn with(
        root: &Path,
        watcher: Option<RecommendedWatcher>,
        noticed: Arc<Noticed>,
        trouble: Option<String>,
    ) -> Self {
        Self {
            watcher,
            noticed,
            root: root.to_owned(),
            // Without a working folder there is nothing better.
            absolute: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()),
            real: None,
            identity: None,
            trouble,
        }
    }

    /// Tells nothing by itself, and says `trouble`.
    #[cfg(test)]
    pub(super) fn deaf(root: &Path, trouble: Option<&str>) -> Self {
        Self::with(root, None, Arc::default(), trouble.map(str::to_owned))
    }

    /// Watches the folder that now stands at the root, and where it stands, to see another one take its place.
    pub(super) fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let real = std::fs::canonicalize(&self.absolute).ok();
        if let Some(watched) = std::mem::replace(&mut self.real, real) {
            let _ = watcher.unwatch(&watched);
        }
        self.identity = Identity::at(&self.absolute);
        self.trouble = None;
        self.noticed.limited.store(false, Ordering::Relaxed);
        let parents = [Some(&self.absolute), self.real.as_ref()];
        for parent in parents.into_iter().flatten().filter_map(|p| p.parent()) {
            // Not essential: without it a replaced folder is found by looking.
            let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
        }
        if let Some(real) = &self.real
            && let Err(error) = watcher.watch(real, RecursiveMode::Recursive)
            // One that is gone again is looked for anyway.
            && !matches!(error.kind, ErrorKind::PathNotFound)
        {
            self.trouble = Some(reason(&error.kind));
        }
    }

    /// Under which names events tell of the root.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = self.real.iter().cloned().collect();
        names.push(self.absolute.clone());
        names
    }

    /// Whether another folder stands at the root than the one that is watched.
    pub(super) fn is_elsewhere(&self) -> bool {
        Identity::at(&self.absolute) != self.identity
    }

    /// Whether events were dropped since this was asked last.
    pub(super) fn has_dropped(&self) -> bool {
        self.noticed.dropped.swap(false, Ordering::Relaxed)
    }

    /// Whether the system has lost events since this was asked last.
    pub(super) fn has_lost(&self) -> bool {
        self.noticed.lost.swap(false, Ordering::Relaxed)
    }

    /// What to say where the system does not tell of everything.
    pub(super) fn trouble(&self) -> Option<Diagnostic> {
        let limited = self.noticed.limited.load(Ordering::Relaxed);
        let limit = || limited.then(|| reason(&ErrorKind::MaxFilesWatch));
        let why = self.trouble.clone().or_else(limit)?;
        let message = format!("changes are not told by the system, so the folder is polled: {why}");
        let mut said = Diagnostic::new(code::UNWATCHED, Severity::Warning, message);
        said.origin = Some(Origin::File {
            path: self.root.as_path().into(),
            line: 1,
        });
        Some(said)
    }
}

/// An event that stands for those that were lost.
pub(super) fn lost() -> Event {
    Event::new(notify::EventKind::Other).set_flag(notify::event::Flag::Rescan)
}

fn reason(error: &ErrorKind) -> String {
    match error {
        ErrorKind::MaxFilesWatch => {
            "the limit of watches is reached (sysctl fs.inotify.max_user_watches)".to_owned()
        }
        ErrorKind::Io(error) if error.raw_os_error() == Some(EMFILE) => {
            "the limit of inotify instances or of open files is reached (sysctl \
             fs.inotify.max_user_instances, ulimit -n)"
                .to_owned()
        }
        ErrorKind::Io(error) => error.to_string(),
        ErrorKind::Generic(words) => words.clone(),
        other => format!("{other:?}"),
    }
}

const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();
