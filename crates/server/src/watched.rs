//! Files that are read again when what they hold changes.

use std::path::PathBuf;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_128;

/// How often files are looked at.
pub(crate) const EVERY: Duration = Duration::from_secs(2);

/// Files, with what they held when they were last looked at.
pub(crate) struct Watched {
    files: Vec<PathBuf>,
    every: Duration,
    seen: Vec<Option<u128>>,
}

impl Watched {
    /// As they are now, looked at `every` so often.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>, every: Duration) -> Self {
        let files: Vec<PathBuf> = files.into_iter().collect();
        let seen = look(&files);
        Self { files, every, seen }
    }

    /// Waits until a file is not what it was.
    pub(crate) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(self.every).await;
            let files = self.files.clone();
            // A disk that hangs keeps nobody else waiting.
            let Ok(now) = tokio::task::spawn_blocking(move || look(&files)).await else {
                continue;
            };
            if now != self.seen {
                self.seen = now;
                return;
            }
        }
    }
}

fn look(files: &[PathBuf]) -> Vec<Option<u128>> {
    let hash = |file: &PathBuf| std::fs::read(file).ok().map(|bytes| xxh3_128(&bytes));
    files.iter().map(hash).collect()
}
