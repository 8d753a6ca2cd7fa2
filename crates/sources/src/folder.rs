//! The objects of a folder of manifests, file by file, and what changes when files do.
//!
//! No clock and no watching here: [`Folder::scan`] compares the whole folder with what is known, [`Folder::look`] a few
//! files of it. The work after a change is that of the files that changed, whatever else the folder holds. A file that
//! cannot be read, or a document in it, changes nothing: the last good version of its objects stays in force until the
//! file is repaired or says something else.

mod disk;
mod last_good;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use model::kinds::AnyObject;
use model::parse::{Document, Parsed, Validation};
use model::{Change, Diagnostic, ObjectKey, Severity, SourceId};

use disk::{Outcome, Wanted};

pub use disk::{LARGEST_FILE, is_manifest};

/// Codes of what a folder finds.
pub mod code {
    /// A file or folder that cannot be read.
    pub const UNREADABLE: &str = "PIL0010";
    /// One object in two places.
    pub const TWICE: &str = "PIL0011";
    /// An object of which an older version is in force, because the file's is refused.
    pub const LAST_GOOD: &str = "PIL0012";
}

/// Reads a folder once: what it holds, and what there is to say about it.
pub fn load(root: &Path, validation: Validation) -> (Vec<Change>, Vec<Diagnostic>) {
    let id = SourceId {
        rank: 0,
        name: format!("files:{}", root.display()).into(),
    };
    let mut folder = Folder::new(id, root, validation);
    let changes = folder.scan();
    let findings = folder.findings();
    (changes, findings)
}

/// Reads a folder or a file once to see what is wrong with it: how many objects it holds, and what there is to say.
pub fn inspect(root: &Path, validation: Validation) -> (usize, Vec<Diagnostic>) {
    let id = SourceId {
        rank: 0,
        name: format!("files:{}", root.display()).into(),
    };
    let mut folder = Folder::new(id, root, validation);
    folder.scan();
    let documents = folder.files.values().map(|f| f.documents.len()).sum();
    (documents, folder.findings())
}

/// A folder and what it held when it was last looked at. The root may also be a single file.
#[derive(Debug)]
pub struct Folder {
    id: SourceId,
    root: PathBuf,
    validation: Validation,
    files: BTreeMap<Arc<Path>, File>,
    /// Where each object stands; see [`in_force`].
    places: HashMap<ObjectKey, BTreeSet<Place>>,
    /// Objects that stand in more than one place.
    doubled: BTreeSet<ObjectKey>,
    /// What is in force, as it was told.
    told: HashMap<ObjectKey, AnyObject>,
    /// Objects whose places changed and that were not told yet.
    touched: BTreeSet<ObjectKey>,
    trouble: Vec<Diagnostic>,
}

type Place = (Arc<Path>, usize);

#[derive(Debug, Default)]
struct File {
    stamp: Option<(SystemTime, u64)>,
    hash: u64,
    /// By position in the file; a refused document keeps its last good object.
    documents: Vec<Document>,
    diagnostics: Vec<Diagnostic>,
}

impl Folder {
    /// A folder that was not looked at yet.
    pub fn new(id: SourceId, root: impl Into<PathBuf>, validation: Validation) -> Self {
        Self {
            id,
            root: root.into(),
            validation,
            files: BTreeMap::new(),
            places: HashMap::new(),
            doubled: BTreeSet::new(),
            told: HashMap::new(),
            touched: BTreeSet::new(),
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

    /// Whether some part of the folder cannot be read.
    pub fn is_troubled(&self) -> bool {
        !self.trouble.is_empty()
    }

    /// Compares the disk with what is known and returns what to tell: exactly the objects that differ, by key.
    pub fn scan(&mut self) -> Vec<Change> {
        self.scan_except(&BTreeSet::new())
    }

    /// As [`Folder::scan`], but leaves files alone that somebody is writing.
    pub fn scan_except(&mut self, unfinished: &BTreeSet<PathBuf>) -> Vec<Change> {
        let listing = disk::list(&self.root);
        self.trouble = listing.trouble;
        if listing.complete {
            let gone: Vec<Arc<Path>> = self
                .files
                .keys()
                .filter(|path| {
                    listing
                        .files
                        .binary_search_by(|f| f.as_path().cmp(path))
                        .is_err()
                })
                .cloned()
                .collect();
            for path in gone {
                self.remove(&path);
            }
        }
        let files = listing.files.into_iter();
        self.read(files.filter(|path| !unfinished.contains(path)).collect());
        self.settle()
    }

    /// Compares some files with what is known of them, and returns what to tell.
    pub fn look(&mut self, paths: &BTreeSet<PathBuf>) -> Vec<Change> {
        let (there, gone): (Vec<PathBuf>, Vec<PathBuf>) =
            paths.iter().cloned().partition(|path| path.exists());
        // Files go one by one when their folder does; that is trouble and not a wish.
        if self.root.exists() {
            for path in gone {
                self.remove(&path);
            }
        }
        self.read(there);
        self.settle()
    }

    /// Everything that is wrong with the folder's files.
    pub fn findings(&self) -> Vec<Diagnostic> {
        let files = self.files.values().flat_map(|f| &f.diagnostics);
        let mut all: Vec<Diagnostic> = self.trouble.iter().chain(files).cloned().collect();
        all.extend(self.doubled.iter().flat_map(|key| self.doubles(key)));
        all
    }

    fn read(&mut self, paths: Vec<PathBuf>) {
        let wanted: Vec<Wanted> = paths
            .into_iter()
            .filter_map(|path| {
                let stamp = disk::stamp(&path);
                let known = self.files.get(path.as_path());
                let changed = known.is_none_or(|f| disk::is_young(stamp) || f.stamp != stamp);
                changed.then(|| Wanted {
                    path: path.into(),
                    hash: known.map_or(0, |f| f.hash),
                })
            })
            .collect();
        for (path, outcome) in disk::read_all(&wanted, self.validation) {
            self.take(path, outcome);
        }
    }

    fn take(&mut self, path: Arc<Path>, outcome: Outcome) {
        let file = self.files.entry(path.clone()).or_default();
        match outcome {
            Outcome::Same { stamp } => file.stamp = stamp,
            Outcome::Failed(message) => {
                // What stands there is not known, so nothing of it is gone.
                file.stamp = None;
                file.hash = 0;
                file.diagnostics = vec![disk::unreadable(&path, message)];
            }
            Outcome::Text {
                stamp,
                hash,
                parsed,
            } => {
                let Parsed {
                    documents,
                    mut diagnostics,
                } = parsed;
                let before = std::mem::take(&mut file.documents);
                let documents = last_good::keep(&before, documents);
                diagnostics.extend(documents.iter().filter(|d| d.kept).filter_map(|d| {
                    let object = d.document.object.as_ref()?;
                    let message = "the version read before stays in force";
                    let said = Diagnostic::new(code::LAST_GOOD, Severity::Warning, message);
                    Some(said.about(object.key(), object.meta().origin.clone()))
                }));
                let documents: Vec<Document> = documents.into_iter().map(|d| d.document).collect();
                *file = File {
                    stamp,
                    hash,
                    diagnostics,
                    documents: documents.clone(),
                };
                self.replace(&path, &before, &documents);
            }
        }
    }

    fn remove(&mut self, path: &Path) {
        if let Some((path, file)) = self.files.remove_entry(path) {
            self.replace(&path, &file.documents, &[]);
        }
    }

    /// Notes that a file holds other documents than before.
    fn replace(&mut self, path: &Arc<Path>, before: &[Document], after: &[Document]) {
        let keys = |documents: &[Document]| -> Vec<(usize, ObjectKey)> {
            let objects = documents.iter().enumerate();
            objects
                .filter_map(|(at, d)| Some((at, d.object.as_ref()?.key())))
                .collect()
        };
        for (at, key) in keys(before) {
            if let Some(places) = self.places.get_mut(&key) {
                places.remove(&(path.clone(), at));
            }
            self.touched.insert(key);
        }
        for (at, key) in keys(after) {
            let places = self.places.entry(key.clone()).or_default();
            places.insert((path.clone(), at));
            self.touched.insert(key);
        }
    }

    fn object(&self, (path, at): &Place) -> Option<&AnyObject> {
        self.files.get(path)?.documents.get(*at)?.object.as_ref()
    }

    /// What has to be told so that the store holds what the files hold.
    fn settle(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let places = self.places.get(&key);
            if places.is_some_and(|p| p.len() > 1) {
                self.doubled.insert(key.clone());
            } else {
                self.doubled.remove(&key);
            }
            let place = places.and_then(in_force);
            let Some(object) = place.and_then(|place| self.object(place)).cloned() else {
                self.places.remove(&key);
                if self.told.remove(&key).is_some() {
                    changes.push(Change::Delete(self.id.clone(), key));
                }
                continue;
            };
            let same = self.told.get(&key).is_some_and(|told| {
                told.means_the_same(&object) && told.meta().origin == object.meta().origin
            });
            if !same {
                self.told.insert(key, object.clone());
                changes.push(Change::Put(self.id.clone(), object));
            }
        }
        changes
    }

    /// The places of an object that are not in force.
    fn doubles(&self, key: &ObjectKey) -> Vec<Diagnostic> {
        let Some(places) = self.places.get(key) else {
            return Vec::new();
        };
        let place = in_force(places);
        let Some(winner) = place.and_then(|place| self.object(place)) else {
            return Vec::new();
        };
        let others = places.iter().filter(|other| Some(*other) != place);
        let objects = others.filter_map(|place| self.object(place));
        let say = |object: &AnyObject| {
            let winner = &winner.meta().origin;
            let message = format!("stands in {winner} too; this one is not used");
            Diagnostic::new(code::TWICE, Severity::Warning, message)
                .about(key.clone(), object.meta().origin.clone())
                .help("remove one of the two")
        };
        objects.map(say).collect()
    }
}

/// The place of an object that counts: in the first file that holds it the last document, as when the file is applied.
fn in_force(places: &BTreeSet<Place>) -> Option<&Place> {
    let (path, _) = places.first()?;
    places.iter().take_while(|(other, _)| other == path).last()
}

#[cfg(test)]
mod tests;
