//! The objects of a folder of manifests, file by file, and what changes when files do.
//!
//! No clock and no watching here: [`Folder::scan`] compares the whole folder with what is known, [`Folder::look`] a few
//! files of it. The work after a change is that of the files that changed, whatever else the folder holds. A file that
//! cannot be read, or a document in it, changes nothing: the last good version of its objects stays in force until the
//! file is repaired or says something else. So it is when an empty folder takes the place of one that held something,
//! as when a volume is not mounted: see [`Folder::let_go`].

mod apart;
mod disk;
mod known;
mod last_good;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::kinds::AnyObject;
use model::parse::{Parsed, Validation};
use model::{Change, Diagnostic, ObjectKey, Owner, Severity, SourceId};

use ::disk::open::Stamp;
use apart::Queue;
use disk::{Outcome, Wanted};
use known::{Known, Place, Places};
use last_good::Stood;

pub use apart::{Apart, ReadApart};
pub(crate) use disk::{Identity, is_below_hidden};
pub use disk::{LARGEST_FILE, is_manifest};

/// Codes of what a folder finds.
pub mod code {
    /// A file or folder that cannot be read.
    pub const UNREADABLE: &str = "PIL0010";
    /// One object in two places.
    pub const TWICE: &str = "PIL0011";
    /// An object of which an older version is in force, because the file's is refused.
    pub const LAST_GOOD: &str = "PIL0012";
    /// An empty folder in the place of one that held something.
    pub const EMPTIED: &str = "PIL0014";
    /// A folder of which the system tells no events, so that it is looked at from time to time.
    pub const UNWATCHED: &str = "PIL0015";
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

/// What a folder or a file holds, for who looks at it once.
#[derive(Debug)]
pub struct Inspected {
    /// How many objects it has, also those that cannot be used.
    pub documents: usize,
    /// Those that can be used.
    pub objects: Vec<AnyObject>,
    /// What there is to say about them.
    pub findings: Vec<Diagnostic>,
}

/// Reads a folder or a file once to see what is wrong with it.
pub fn inspect(root: &Path, validation: Validation) -> Inspected {
    let id = SourceId {
        rank: 0,
        name: format!("files:{}", root.display()).into(),
    };
    let mut folder = Folder::new(id, root, validation);
    folder.scan();
    let documents = || folder.files.values().flat_map(|file| &file.documents);
    let objects = documents().filter_map(|document| document.object.clone());
    Inspected {
        documents: documents().count(),
        objects: objects.collect(),
        findings: folder.findings(),
    }
}

/// Reads the manifests of a folder, or the one file that the root is, as texts: sorted by path, and what cannot or may not be
/// read ([`code::UNREADABLE`]). The same files count as for a [`Folder`].
pub fn texts(root: &Path) -> (Vec<(PathBuf, String)>, Vec<Diagnostic>) {
    disk::texts(root)
}

/// A folder and what it held when it was last looked at. The root may also be a single file.
#[derive(Debug)]
pub struct Folder {
    owner: Owner,
    root: PathBuf,
    validation: Validation,
    files: BTreeMap<Arc<Path>, File>,
    /// Each object that stands in a file, or was told.
    known: HashMap<ObjectKey, Known>,
    /// Objects that stand in more than one place.
    doubled: BTreeSet<ObjectKey>,
    /// Objects whose places changed and that were not told yet.
    touched: BTreeSet<ObjectKey>,
    /// Those of large files, which are told in parts; before each whether it does not protect, so that what protects comes first.
    later: BTreeSet<(bool, ObjectKey)>,
    /// Large files to be read; `None` while they are read like others.
    queue: Option<Queue>,
    /// Parts that cannot be read, and may be soon.
    trouble: Vec<Diagnostic>,
    /// Parts that are not read, as long as they are what they are.
    refused: Vec<Diagnostic>,
    /// Which folder stood at the root when it was last taken over.
    identity: Option<Identity>,
    /// Whether it was replaced by an empty one, which is not believed.
    emptied: bool,
}

#[derive(Debug, Default)]
struct File {
    stamp: Option<Stamp>,
    hash: u64,
    /// How long it is.
    bytes: usize,
    /// By position in the file; a refused document keeps its last good object.
    documents: Vec<Stood>,
    diagnostics: Vec<Diagnostic>,
}

impl Folder {
    /// A folder that was not looked at yet.
    pub fn new(owner: impl Into<Owner>, root: impl Into<PathBuf>, validation: Validation) -> Self {
        Self {
            owner: owner.into(),
            root: root.into(),
            validation,
            files: BTreeMap::new(),
            known: HashMap::new(),
            doubled: BTreeSet::new(),
            touched: BTreeSet::new(),
            later: BTreeSet::new(),
            queue: None,
            trouble: Vec::new(),
            refused: Vec::new(),
            identity: None,
            emptied: false,
        }
    }

    /// Whose objects these are.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether some part of the folder cannot be read now, and may be soon.
    pub fn is_troubled(&self) -> bool {
        !self.trouble.is_empty()
    }

    /// Whether another, empty folder stands in the root's place, and what the former one held is still in force.
    pub fn is_emptied(&self) -> bool {
        self.emptied
    }

    /// From now on the root is empty if it looks empty.
    pub fn let_go(&mut self) {
        self.identity = None;
    }

    /// Compares the disk with what is known and returns what to tell: exactly the objects that differ, by key.
    pub fn scan(&mut self) -> Vec<Change> {
        self.scan_except(&BTreeSet::new())
    }

    /// As [`Folder::scan`], but leaves files alone that somebody is writing.
    pub fn scan_except(&mut self, unfinished: &BTreeSet<PathBuf>) -> Vec<Change> {
        let listing = disk::list(&self.root);
        self.trouble = listing.trouble.clone();
        self.refused = listing.refused.clone();
        let identity = Identity::at(&self.root);
        let replaced = self.identity.is_some() && identity != self.identity;
        let empty = listing.files.is_empty() && listing.unknown.is_empty();
        self.emptied = replaced && empty && !self.files.is_empty();
        if self.emptied {
            let message =
                "an empty folder has taken the place of this one; what was in it stays in force";
            let help = "put its files back, or a single one; an empty folder is believed after --config-empty-grace";
            let said = Diagnostic::new(code::EMPTIED, Severity::Error, message).help(help);
            self.trouble.push(disk::about(&self.root, said));
            return self.settle_touched();
        }
        if !listing.unknown.contains(&self.root) {
            self.identity = identity;
        }
        let known = self.files.keys();
        let gone: Vec<Arc<Path>> = known.filter(|p| listing.lacks(p)).cloned().collect();
        for path in gone {
            self.remove(&path);
        }
        if let Some(queue) = &mut self.queue {
            queue.retain(|path| !listing.lacks(path));
        }
        let files = listing.files.into_iter();
        self.read(
            files.filter(|path| !unfinished.contains(path)).collect(),
            false,
        );
        self.settle_touched()
    }

    /// Compares some files with what is known of them, whatever their times and sizes say, and returns what to tell.
    /// Paths that are no manifests of the folder are passed over.
    pub fn look(&mut self, paths: &BTreeSet<PathBuf>) -> Vec<Change> {
        let ours = paths.iter().filter(|path| self.is_ours(path)).cloned();
        let (there, gone): (Vec<PathBuf>, Vec<PathBuf>) =
            ours.partition(|path| path.symlink_metadata().is_ok());
        // Files go one by one when their folder does; that is trouble and not a wish.
        let identity = Identity::at(&self.root);
        if identity.is_some() && (self.identity.is_none() || identity == self.identity) {
            for path in gone {
                self.remove(&path);
            }
        }
        self.read(there, true);
        self.settle_touched()
    }

    fn is_ours(&self, path: &Path) -> bool {
        match path.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => !path.is_dir(),
            Ok(below) => !is_below_hidden(below) && is_manifest(below),
            Err(_) => false,
        }
    }

    /// Everything that is wrong with the folder's files.
    pub fn findings(&self) -> Vec<Diagnostic> {
        let files = self.files.values().flat_map(|f| &f.diagnostics);
        let mut all: Vec<Diagnostic> = self
            .trouble
            .iter()
            .chain(&self.refused)
            .chain(files)
            .cloned()
            .collect();
        all.extend(self.doubled.iter().flat_map(|key| self.doubles(key)));
        all
    }

    /// Reads files: all of them with `named`, else those whose stamps differ.
    fn read(&mut self, paths: Vec<PathBuf>, named: bool) {
        let mut queue = self.queue.take();
        let mut wanted = Vec::new();
        for path in paths {
            let known = self.files.get(path.as_path());
            let same = known.is_some_and(|known| {
                let stamp = Stamp::at(&path);
                stamp.is_some_and(|s| !s.is_young()) && stamp == known.stamp
            });
            if same && !named {
                continue;
            }
            let hash = known.map_or(0, |f| f.hash);
            let path: Arc<Path> = path.into();
            if let Some(queue) = &mut queue {
                if queue.takes(&path, named) {
                    continue;
                }
                queue.forget(&path);
            }
            wanted.push(Wanted { hash, path });
        }
        self.queue = queue;
        for (path, outcome) in disk::read_all(&self.root, &wanted, self.validation) {
            self.take(path, outcome);
        }
    }

    fn take(&mut self, path: Arc<Path>, outcome: Outcome) {
        let file = self.files.entry(path.clone()).or_default();
        match outcome {
            Outcome::Same { stamp } => file.stamp = Some(stamp),
            Outcome::Failed(message) => {
                // What stands there is not known, so nothing of it is gone.
                file.stamp = None;
                file.hash = 0;
                file.diagnostics = vec![disk::unreadable(&path, message)];
            }
            Outcome::Text {
                stamp,
                hash,
                bytes,
                parsed,
            } => {
                let Parsed {
                    documents,
                    mut diagnostics,
                } = parsed;
                let before = std::mem::take(&mut file.documents);
                let documents = last_good::keep(&before, documents);
                diagnostics.extend(documents.iter().filter(|d| d.kept).filter_map(|d| {
                    let object = d.stood.object.as_ref()?;
                    let message = "the version read before stays in force";
                    let said = Diagnostic::new(code::LAST_GOOD, Severity::Warning, message);
                    Some(said.about(object.key(), object.meta().origin.clone()))
                }));
                let mut stood = Vec::with_capacity(documents.len());
                // Collecting would keep the memory of what was read, which takes ten times as much.
                stood.extend(documents.into_iter().map(|d| d.stood));
                let documents: Vec<Stood> = stood;
                self.replace(&path, &before, &documents);
                let file = File {
                    stamp: Some(stamp),
                    hash,
                    bytes,
                    diagnostics,
                    documents,
                };
                self.files.insert(path, file);
            }
        }
    }

    fn remove(&mut self, path: &Path) {
        if let Some(queue) = &mut self.queue {
            queue.forget(path);
        }
        if let Some((path, file)) = self.files.remove_entry(path) {
            self.replace(&path, &file.documents, &[]);
        }
    }

    /// Notes that a file holds other documents than before.
    fn replace(&mut self, path: &Arc<Path>, before: &[Stood], after: &[Stood]) {
        fn keys(documents: &[Stood]) -> impl Iterator<Item = (usize, ObjectKey)> {
            let objects = documents.iter().enumerate();
            objects.filter_map(|(at, d)| Some((at, d.object.as_ref()?.key())))
        }
        for (at, key) in keys(before) {
            if let Some(known) = self.known.get_mut(&key) {
                known.places.remove(&(path.clone(), at));
            }
            self.touched.insert(key);
        }
        for (at, key) in keys(after) {
            let known = self.known.entry(key.clone()).or_default();
            known.places.insert((path.clone(), at));
            self.touched.insert(key);
        }
    }

    fn object(&self, (path, at): &Place) -> Option<&AnyObject> {
        self.files.get(path)?.documents.get(*at)?.object.as_ref()
    }

    /// What has to be told at once so that the store holds what the files hold.
    fn settle_touched(&mut self) -> Vec<Change> {
        let mut keys = std::mem::take(&mut self.touched);
        if let Some(queue) = &mut self.queue {
            queue.hold_beside(&mut keys);
        }
        self.settle(keys, false)
    }

    /// What has to be told so that the store holds of these objects what the files hold. Objects that are gone are held back
    /// while large files are not read and told, unless they have waited for these (`released`).
    fn settle(&mut self, keys: BTreeSet<ObjectKey>, released: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for key in keys {
            let places = self.known.get(&key).map(|known| &known.places);
            let place = places.and_then(Places::in_force);
            let object = place.and_then(|place| self.object(place)).cloned();
            if places.is_some_and(Places::are_several) {
                self.doubled.insert(key.clone());
            } else {
                self.doubled.remove(&key);
            }
            let Some(object) = object else {
                let known = self.known.get(&key);
                let is_told = known.is_some_and(|known| known.told.is_some());
                if is_told && self.holds_back(&key, released) {
                    continue;
                }
                self.known.remove(&key);
                if is_told {
                    changes.push(Change::Delete(self.owner.clone(), key));
                }
                continue;
            };
            let Some(known) = self.known.get_mut(&key) else {
                continue;
            };
            let same = known.told.as_ref().is_some_and(|told| {
                told.means_the_same(&object) && told.meta().origin == object.meta().origin
            });
            if !same {
                known.told = Some(object.clone());
                changes.push(Change::Put(self.owner.clone(), object));
            }
        }
        if self.known.capacity() > 1024 && self.known.len() < self.known.capacity() / 4 {
            self.known.shrink_to(self.known.len() * 2);
        }
        changes
    }

    /// The places of an object that are not in force.
    fn doubles(&self, key: &ObjectKey) -> Vec<Diagnostic> {
        let Some(Known { places, .. }) = self.known.get(key) else {
            return Vec::new();
        };
        let place = places.in_force();
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

#[cfg(test)]
mod tests;
