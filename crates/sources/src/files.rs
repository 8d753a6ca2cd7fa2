//! A folder of manifests as a source: watched, and told from the moment it changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Change;
use notify::{RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::folder::Folder;
use crate::{Said, Sink};

/// How long events are gathered: an editor's write is several.
const GATHER: Duration = Duration::from_millis(2);

/// Without any event the folder is looked at this often: some file systems tell nothing.
const LOOK: Duration = Duration::from_secs(30);

/// After trouble (a folder that is gone) it is looked at sooner.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Watching is not possible.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {path}")]
pub struct WatchError {
    /// What was to be watched.
    pub path: PathBuf,
    /// Why not. Operators can act: the folder must exist, and the system's limit of watches suffice.
    #[source]
    pub reason: notify::Error,
}

/// Tells what the folder holds, then each change, until `stop`.
///
/// # Errors
///
/// When the folder is there at start and cannot be watched. One that is not there is an error to show, and waited for.
pub async fn run(mut folder: Folder, out: Sink, stop: CancellationToken) -> Result<(), WatchError> {
    let (tell, mut events) = mpsc::channel::<()>(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|e| e.kind.is_access()) {
            return;
        }
        // A full channel holds an event already, which will make the folder be looked at.
        let _ = tell.try_send(());
    })
    .map_err(|reason| WatchError {
        path: folder.root().to_owned(),
        reason,
    })?;
    if folder.root().exists() {
        watch(&mut watcher, folder.root())?;
    }

    let id = folder.id().clone();
    let mut first = true;
    loop {
        let scanned = tokio::task::spawn_blocking(move || {
            let changes = folder.scan();
            let findings = folder.findings();
            (folder, changes, findings)
        })
        .await;
        let (back, mut changes, findings) = match scanned {
            Ok(scanned) => scanned,
            // The runtime is going down, or reading panicked, which the panic's own report tells.
            Err(_) => return Ok(()),
        };
        folder = back;
        let trouble = findings
            .iter()
            .any(|d| d.code == crate::folder::code::UNREADABLE);
        if out
            .send(Said::Findings(id.clone(), findings))
            .await
            .is_err()
        {
            return Ok(());
        }
        if std::mem::take(&mut first) {
            changes.push(Change::Synced(id.clone()));
        }
        if !changes.is_empty() && out.send(Said::Changes(changes)).await.is_err() {
            return Ok(());
        }
        let pause = if trouble { LOOK_AGAIN } else { LOOK };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            event = events.recv() => {
                if event.is_none() {
                    return Ok(());
                }
                tokio::time::sleep(GATHER).await;
                while events.try_recv().is_ok() {}
            }
            () = tokio::time::sleep(pause) => {
                if trouble {
                    // The folder may be a new one under the old name. An error tells that it is not there yet.
                    let _ = watch(&mut watcher, folder.root());
                }
            }
        }
    }
}

fn watch(watcher: &mut notify::RecommendedWatcher, path: &Path) -> Result<(), WatchError> {
    watcher
        .watch(path, RecursiveMode::Recursive)
        .map_err(|reason| WatchError {
            path: path.to_owned(),
            reason,
        })
}
