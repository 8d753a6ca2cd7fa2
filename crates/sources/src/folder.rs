//! The objects of a folder of manifests, file by file, and what changes when files do.
//!
//! No clock and no watching here: [`Folder::scan`] compares the disk with what is known. A file that cannot be read, or
//! a document in it, changes nothing: the last good version of its objects stays in force until the file is repaired or
//! says something else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use model::kinds::AnyObject;
use model::parse::{Validation, parse};
use model::{Change, Diagnostic, ObjectKey, Origin, Severity, SourceId};
use xxhash_rust::xxh3::xxh3_64;

/// The largest file that is read. A larger one is refused whole.
pub const LARGEST_FILE: u64 = 64 << 20;

/// Codes of what a folder finds.
pub mod code {
    /// A file or folder that cannot be read.
    pub const UNREADABLE: &str = "PIL0010";
    /// One object in two files.
    pub const TWICE: &str = "PIL0011";
}

/// A folder and what it held when it was last looked at.
#[derive(Debug)]
pub struct Folder {
    id: SourceId,
    root: PathBuf,
    validation: Validation,
    files: BTreeMap<PathBuf, File>,
    /// What was told: of an object that stands in two files, the first by path.
    told: BTreeMap<ObjectKey, AnyObject>,
    trouble: Vec<Diagnostic>,
}

#[derive(Debug, Default)]
struct File {
    stamp: Option<(SystemTime, u64)>,
    hash: u64,
    /// By position in the file; a refused document keeps its last good object.
    documents: Vec<Kept>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone)]
struct Kept {
    key: Option<ObjectKey>,
    object: Option<AnyObject>,
}

impl Folder {
    /// A folder that was not looked at yet.
    pub fn new(id: SourceId, root: impl Into<PathBuf>, validation: Validation) -> Self {
        Self {
            id,
            root: root.into(),
            validation,
            files: BTreeMap::new(),
            told: BTreeMap::new(),
            trouble: Vec::new(),
        }
    }

    /// The name of the source.
    pub fn id(&self) -> &SourceId {
        &self.id
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Compares the disk with what is known and returns what to tell: exactly the objects that differ.
    pub fn scan(&mut self) -> Vec<Change> {
        self.trouble.clear();
        let mut found = Vec::new();
        let complete = list(&self.root, &mut found, &mut self.trouble, 0);
        found.sort();
        found.dedup();
        let mut touched = false;
        if complete {
            let before = self.files.len();
            self.files
                .retain(|path, _| found.binary_search(path).is_ok());
            touched |= before != self.files.len();
        }
        let stale: Vec<PathBuf> = found
            .into_iter()
            .filter(|path| self.is_stale(path))
            .collect();
        touched |= !stale.is_empty();
        for (path, read) in read_all(&stale, self.validation) {
            self.take(path, read);
        }
        if touched {
            self.difference()
        } else {
            Vec::new()
        }
    }

    /// Everything that is wrong with the folder's files.
    pub fn findings(&self) -> Vec<Diagnostic> {
        let mut all: Vec<Diagnostic> = self.trouble.clone();
        all.extend(
            self.files
                .values()
                .flat_map(|f| f.diagnostics.iter().cloned()),
        );
        all.extend(self.doubles());
        all
    }

    fn is_stale(&self, path: &Path) -> bool {
        let stamp = std::fs::metadata(path)
            .ok()
            .and_then(|m| Some((m.modified().ok()?, m.len())));
        // A file written twice within the clock's grain looks unchanged, so young files are read again.
        let young = stamp.is_none_or(|(at, _)| at.elapsed().is_ok_and(|age| age.as_millis() < 50));
        self.files
            .get(path)
            .is_none_or(|f| young || f.stamp != stamp)
    }

    fn take(&mut self, path: PathBuf, read: Read) {
        let file = self.files.entry(path.clone()).or_default();
        match read {
            Read::Text {
                stamp,
                hash,
                parsed,
            } => {
                file.stamp = stamp;
                if let Some(parsed) = parsed.filter(|_| hash != file.hash || file.hash == 0) {
                    file.hash = hash;
                    file.documents = keep_last_good(&file.documents, parsed.documents);
                    file.diagnostics = parsed.diagnostics;
                }
            }
            Read::Failed(message) => {
                file.hash = 0;
                file.diagnostics = vec![unreadable(&path, message)];
            }
        }
    }

    /// What has to be told so that the store holds what the files hold.
    fn difference(&mut self) -> Vec<Change> {
        let mut now: BTreeMap<&ObjectKey, &AnyObject> = BTreeMap::new();
        for kept in self.files.values().flat_map(|f| &f.documents) {
            if let (Some(key), Some(object)) = (&kept.key, &kept.object) {
                now.entry(key).or_insert(object);
            }
        }
        let mut changes = Vec::new();
        for (key, object) in &now {
            let same = self.told.get(key).is_some_and(|told| {
                told.means_the_same(object) && told.meta().origin == object.meta().origin
            });
            if !same {
                changes.push(Change::Put(self.id.clone(), (*object).clone()));
            }
        }
        for key in self.told.keys().filter(|key| !now.contains_key(key)) {
            changes.push(Change::Delete(self.id.clone(), key.clone()));
        }
        self.told = now
            .into_iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        changes
    }

    /// Objects that stand in two places: the first by path, then by position, is in force.
    fn doubles(&self) -> Vec<Diagnostic> {
        let mut first: BTreeMap<&ObjectKey, &Origin> = BTreeMap::new();
        let mut found = Vec::new();
        for object in self
            .files
            .values()
            .flat_map(|f| &f.documents)
            .filter_map(|d| d.object.as_ref())
        {
            let Some((key, _)) = self.told.get_key_value(&object.key()) else {
                continue;
            };
            let origin = &object.meta().origin;
            match first.get(key) {
                None => {
                    first.insert(key, origin);
                }
                Some(winner) => {
                    let message = format!("{key} stands in {winner} already; this one is not used");
                    let mut diagnostic = Diagnostic::new(code::TWICE, Severity::Warning, message)
                        .about(key.clone(), origin.clone());
                    diagnostic.help = Some("remove one of the two".into());
                    found.push(diagnostic);
                }
            }
        }
        found
    }
}

/// A refused document keeps the object of its key, or failing that of its position, from the last good version.
fn keep_last_good(before: &[Kept], documents: Vec<model::parse::Document>) -> Vec<Kept> {
    let mut after: Vec<Kept> = documents
        .into_iter()
        .map(|d| Kept {
            key: d.key,
            object: d.object,
        })
        .collect();
    let good: Vec<ObjectKey> = after
        .iter()
        .filter(|k| k.object.is_some())
        .filter_map(|k| k.key.clone())
        .collect();
    let breaks_off = after
        .last()
        .is_some_and(|k| k.key.is_none() && k.object.is_none());
    for at in 0..after.len() {
        if after[at].object.is_some() {
            continue;
        }
        let last = match &after[at].key {
            Some(key) => before
                .iter()
                .find(|k| k.key.as_ref() == Some(key) && k.object.is_some()),
            None => before
                .get(at)
                .filter(|k| k.key.as_ref().is_none_or(|key| !good.contains(key))),
        };
        if let Some(last) = last {
            after[at] = last.clone();
        }
    }
    // A text that breaks off hides the documents behind the break: what stood there stays, too.
    if breaks_off {
        let known: Vec<ObjectKey> = after.iter().filter_map(|k| k.key.clone()).collect();
        let hidden = before
            .iter()
            .filter(|k| k.key.as_ref().is_some_and(|key| !known.contains(key)));
        after.extend(hidden.cloned());
    }
    after
}

enum Read {
    Text {
        stamp: Option<(SystemTime, u64)>,
        hash: u64,
        parsed: Option<model::parse::Parsed>,
    },
    Failed(String),
}

/// Reads files on as many threads as help.
fn read_all(paths: &[PathBuf], validation: Validation) -> Vec<(PathBuf, Read)> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(paths.len().div_ceil(4))
        .max(1);
    if threads == 1 {
        return paths
            .iter()
            .map(|p| (p.clone(), read(p, validation)))
            .collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(path) =
                paths.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
            {
                done.push((path.clone(), read(path, validation)));
            }
            done
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().unwrap_or_default())
            .collect()
    })
}

fn read(path: &Path, validation: Validation) -> Read {
    let stamp = match std::fs::metadata(path) {
        Ok(meta) if meta.len() > LARGEST_FILE => {
            return Read::Failed(format!(
                "the file has {} bytes, more than {LARGEST_FILE}",
                meta.len()
            ));
        }
        Ok(meta) => meta.modified().ok().map(|at| (at, meta.len())),
        Err(error) => return Read::Failed(error.to_string()),
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Read::Failed(error.to_string()),
    };
    let hash = xxh3_64(&bytes).max(1);
    match String::from_utf8(bytes) {
        Ok(text) => {
            let shown: Arc<Path> = path.into();
            Read::Text {
                stamp,
                hash,
                parsed: Some(parse(&text, &shown, validation)),
            }
        }
        Err(error) => Read::Failed(format!(
            "the file is not UTF-8 from byte {} on",
            error.utf8_error().valid_up_to()
        )),
    }
}

fn unreadable(path: &Path, message: String) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(code::UNREADABLE, Severity::Error, message);
    diagnostic.origin = Some(Origin::File {
        path: path.into(),
        line: 1,
    });
    diagnostic
}

/// Manifests below a folder; false if some part of it could not be listed, so that absence proves nothing.
fn list(dir: &Path, found: &mut Vec<PathBuf>, trouble: &mut Vec<Diagnostic>, depth: usize) -> bool {
    const DEEPEST: usize = 32;
    if depth > DEEPEST {
        trouble.push(unreadable(
            dir,
            format!("folders are nested deeper than {DEEPEST}"),
        ));
        return true;
    }
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            trouble.push(unreadable(dir, error.to_string()));
            return false;
        }
    };
    let mut complete = true;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        // Hidden entries are editors' and Kubernetes' own (`..data` of a mounted ConfigMap).
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            complete &= list(&path, found, trouble, depth + 1);
        } else if path
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
        {
            found.push(path);
        }
    }
    complete
}

#[cfg(test)]
mod tests;
