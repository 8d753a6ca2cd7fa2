//! Watches a folder being edited, and each edit arriving at the proxies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::control;
use crate::http::Client;
use crate::shop::Block;
use crate::syncz::Row;

/// How often folder and proxies are looked at. What is reported does not depend on it: times are those of the file
/// system and of Pilothouse.
const INTERVAL: Duration = Duration::from_millis(20);
/// After this time without anything new, an edit is over.
const QUIET: Duration = Duration::from_millis(250);

/// An edit of the folder and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The files, by name.
    pub files: Vec<String>,
    /// When the last of them was written.
    pub at: SystemTime,
    /// What each proxy was sent; only proxies that were sent something.
    pub arrivals: Vec<Arrival>,
    /// What is wrong with objects after the edit and was not before.
    pub findings: Vec<String>,
}

/// What a proxy was sent and when it had it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Proxy.
    pub proxy: String,
    /// The types that it was sent (`routes`, ...).
    pub types: Vec<String>,
    /// From the edit on disk until the proxy acknowledged the last of them; `None` where it did not.
    pub took: Option<Duration>,
    /// What the proxy said if it refused.
    pub refused: Option<String>,
}

/// Looks at a folder and at Pilothouse's page about its proxies.
pub struct Watch {
    folder: PathBuf,
    client: Client,
    files: BTreeMap<String, (SystemTime, u64)>,
    rows: BTreeMap<String, Row>,
    findings: Vec<String>,
}

impl Watch {
    /// From the present state on.
    ///
    /// # Errors
    ///
    /// When folder or page cannot be read.
    pub async fn new(folder: &Path, block: Block) -> anyhow::Result<Self> {
        let mut client = Client::new(block.pages(), block.pages().to_string());
        let rows = by_name(control::syncz(&mut client).await?);
        let findings = control::findings(&mut client).await?;
        Ok(Self {
            folder: folder.to_owned(),
            client,
            files: files(folder)?,
            rows,
            findings,
        })
    }

    /// The next edit, when all that follows from it has happened.
    ///
    /// # Errors
    ///
    /// When folder or page cannot be read any more.
    pub async fn next(&mut self) -> anyhow::Result<Edit> {
        let (mut names, mut at) = loop {
            if let Some(found) = self.look()? {
                break found;
            }
            tokio::time::sleep(INTERVAL).await;
        };
        let mut quiet_since = SystemTime::now();
        let mut rows = self.rows.clone();
        while quiet_since.elapsed().unwrap_or_default() < QUIET {
            tokio::time::sleep(INTERVAL).await;
            let now = by_name(control::syncz(&mut self.client).await?);
            if let Some((more, later)) = self.look()? {
                names.extend(more);
                at = at.max(later);
                quiet_since = SystemTime::now();
            }
            if now != rows {
                rows = now;
                quiet_since = SystemTime::now();
            }
        }
        names.sort();
        names.dedup();
        let arrivals = arrivals(&self.rows, &rows, at);
        self.rows = rows;
        let findings = control::findings(&mut self.client).await?;
        let new = findings
            .iter()
            .filter(|f| !self.findings.contains(f))
            .cloned()
            .collect();
        self.findings = findings;
        Ok(Edit {
            files: names,
            at,
            arrivals,
            findings: new,
        })
    }

    /// The files that are not as they were, and when the last one was written.
    fn look(&mut self) -> anyhow::Result<Option<(Vec<String>, SystemTime)>> {
        let now = SystemTime::now();
        let found = files(&self.folder)?;
        let old = std::mem::replace(&mut self.files, found);
        let changed = self
            .files
            .iter()
            .filter(|(name, state)| old.get(*name) != Some(state));
        // A file that was moved here may be old; then the edit is as old as we can tell.
        let recent = |at: SystemTime| {
            if now.duration_since(at).is_ok_and(|age| age < QUIET) {
                at
            } else {
                now
            }
        };
        let mut names: Vec<String> = Vec::new();
        let mut at = None;
        for (name, (written, _)) in changed {
            names.push(name.clone());
            at = at.max(Some(recent(*written)));
        }
        names.extend(
            old.keys()
                .filter(|name| !self.files.contains_key(*name))
                .cloned(),
        );
        Ok((!names.is_empty()).then(|| (names, at.unwrap_or(now))))
    }
}

fn by_name(rows: Vec<Row>) -> BTreeMap<String, Row> {
    rows.into_iter()
        .map(|row| (row.proxy.clone(), row))
        .collect()
}

fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, (SystemTime, u64)>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let is_config = path
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        // Files may go while we look.
        if is_config && let Ok(metadata) = std::fs::metadata(&path) {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.insert(name, (metadata.modified()?, metadata.len()));
        }
    }
    Ok(found)
}

fn arrivals(
    before: &BTreeMap<String, Row>,
    after: &BTreeMap<String, Row>,
    at: SystemTime,
) -> Vec<Arrival> {
    let at = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_micros());
    let mut all = Vec::new();
    for (proxy, row) in after {
        let old = before.get(proxy);
        let sent: Vec<_> = row
            .types
            .iter()
            .filter(|(name, sync)| {
                let old = old.and_then(|o| o.types.get(*name));
                old.is_none_or(|o| (o.revision, &o.sent) != (sync.revision, &sync.sent))
            })
            .collect();
        if sent.is_empty() {
            continue;
        }
        let acked = sent
            .iter()
            .map(|(_, sync)| sync.acked_at.filter(|_| sync.acked));
        let last = acked.reduce(|a, b| Some(a?.max(b?))).flatten();
        all.push(Arrival {
            proxy: proxy.clone(),
            types: sent.iter().map(|(name, _)| (*name).clone()).collect(),
            took: last.map(|t| {
                Duration::from_micros(t.saturating_sub(u64::try_from(at).unwrap_or(u64::MAX)))
            }),
            refused: sent.iter().find_map(|(_, sync)| sync.refused.clone()),
        });
    }
    all
}
