//! Large files, which are read beside the folder and told in parts: what changes elsewhere in it later waits for neither.
//!
//! What protects may move into a large file from another one, so nothing is taken away before the large files that were
//! known to have changed by then are read and told. What changes in the same look as a large file, and does not protect, is
//! told after it: the file may hold its policy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::parse::Validation;
use model::{Change, Kind, ObjectKey};

use super::Folder;
use super::disk::{self, Outcome, Wanted};

/// A file of more bytes is large.
const LARGE: u64 = 1 << 20;

/// How many objects of large files are told together.
const PART: usize = 2_000;

/// The same in bytes of their files.
const PART_BYTES: usize = 2 << 20;

/// Which large files are to be read.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeSet<Arc<Path>>,
    under_way: BTreeSet<Arc<Path>>,
    /// Whether the current look has found any.
    grew: bool,
    /// What is told after those that are under way, or of which parts are left.
    held: BTreeSet<ObjectKey>,
    /// What is told after those that are waiting.
    held_for_waiting: BTreeSet<ObjectKey>,
}

impl Queue {
    /// Takes a file that is to be read, where it is a large one. `named` says that it has changed, and not only that it looks so.
    pub(super) fn takes(&mut self, path: &Arc<Path>, named: bool) -> bool {
        let is_large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > LARGE);
        if is_large && (named || !self.under_way.contains(path)) {
            self.waiting.insert(path.clone());
            self.grew = true;
        }
        is_large
    }

    /// Drops files that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Path) -> bool) {
        self.waiting.retain(|path| is_there(path));
        self.under_way.retain(|path| is_there(path));
    }

    /// What is known of a file is newer than what is being read of it.
    pub(super) fn forget(&mut self, path: &Path) {
        self.waiting.remove(path);
        self.under_way.remove(path);
    }

    /// Takes out of `keys`, where a look has found large files, what is to be told after them.
    pub(super) fn hold_beside(&mut self, keys: &mut BTreeSet<ObjectKey>) {
        if std::mem::take(&mut self.grew) {
            let held = keys.iter().filter(|key| !protects(key.kind));
            self.held_for_waiting.extend(held.cloned());
            keys.retain(|key| protects(key.kind));
        }
    }

    /// Whether something is held back that has nothing to wait for any more, once no parts are left.
    fn releases(&self) -> bool {
        let is_next = self.waiting.is_empty() && !self.held_for_waiting.is_empty();
        self.under_way.is_empty() && (is_next || !self.held.is_empty())
    }

    /// Takes one object out of what [`Queue::releases`] speaks of.
    fn release(&mut self) -> Option<ObjectKey> {
        if !self.under_way.is_empty() {
            return None;
        }
        if self.waiting.is_empty() {
            self.held.append(&mut self.held_for_waiting);
        }
        self.held.pop_first()
    }
}

/// Whether objects of a kind may restrict what others allow.
fn protects(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AuthorizationPolicy
            | Kind::BackendTlsPolicy
            | Kind::DestinationRule
            | Kind::EnvoyFilter
            | Kind::HigressWasmPlugin
            | Kind::PeerAuthentication
            | Kind::RequestAuthentication
            | Kind::Sidecar
            | Kind::TrafficExtension
            | Kind::WasmPlugin
    )
}

/// Large files, to be read without the folder.
#[derive(Debug)]
pub struct Apart {
    root: PathBuf,
    wanted: Vec<Wanted>,
    validation: Validation,
}

/// What came of reading them.
pub struct ReadApart(Vec<(Arc<Path>, Outcome)>);

impl Apart {
    /// Reads them.
    pub fn read(self) -> ReadApart {
        ReadApart(disk::read_all(&self.root, &self.wanted, self.validation))
    }
}

impl Folder {
    /// From now on large files are read apart, and told in parts.
    pub fn read_large_files_apart(&mut self) {
        self.queue.get_or_insert_default();
    }

    /// The large files to be read next; none while others are read or told.
    pub fn apart(&mut self) -> Option<Apart> {
        if self.has_more() {
            return None;
        }
        let queue = self.queue.as_mut()?;
        if queue.waiting.is_empty() || !queue.under_way.is_empty() {
            return None;
        }
        queue.under_way = std::mem::take(&mut queue.waiting);
        queue.held.append(&mut queue.held_for_waiting);
        let hash = |path: &Arc<Path>| self.files.get(path).map_or(0, |file| file.hash);
        let wanted = queue.under_way.iter().map(|path| Wanted {
            hash: hash(path),
            path: path.clone(),
        });
        Some(Apart {
            root: self.root.clone(),
            wanted: wanted.collect(),
            validation: self.validation,
        })
    }

    /// Takes in what was read apart, but for files of which something newer is known. It is told by [`Folder::part`].
    pub fn take_apart(&mut self, read: ReadApart) {
        let queue = self.queue.get_or_insert_default();
        let under_way = std::mem::take(&mut queue.under_way);
        for (path, outcome) in read.0 {
            if under_way.contains(&path) {
                let before = std::mem::take(&mut self.touched);
                self.take(path, outcome);
                let touched = std::mem::replace(&mut self.touched, before);
                let keys = touched.into_iter();
                self.later
                    .extend(keys.map(|key| (!protects(key.kind), key)));
            }
        }
    }

    /// Whether there is more to tell of large files, or after them.
    pub fn has_more(&self) -> bool {
        !self.later.is_empty() || self.queue.as_ref().is_some_and(Queue::releases)
    }

    /// The next part of what is to be told of large files, and after them.
    pub fn part(&mut self) -> Vec<Change> {
        let released = self.later.is_empty();
        let (mut keys, mut bytes) = (BTreeSet::new(), 0);
        while keys.len() < PART && bytes < PART_BYTES {
            let next = if released {
                self.queue.as_mut().and_then(Queue::release)
            } else {
                self.later.pop_first().map(|(_, key)| key)
            };
            let Some(key) = next else {
                break;
            };
            bytes += self.bytes_of(&key);
            keys.insert(key);
        }
        self.settle(keys, released)
    }

    /// Holds back an object that is gone, where large files are not read and told yet that may hold it.
    pub(super) fn holds_back(&mut self, key: &ObjectKey, released: bool) -> bool {
        let Some(queue) = &mut self.queue else {
            return false;
        };
        if released {
            // It was there again, and is gone again, since.
            return queue.held_for_waiting.contains(key);
        }
        if !queue.waiting.is_empty() {
            queue.held_for_waiting.insert(key.clone());
            return true;
        }
        let holds = !queue.under_way.is_empty() || !self.later.is_empty();
        if holds {
            queue.held.insert(key.clone());
        }
        holds
    }

    /// About how much of its file an object is.
    fn bytes_of(&self, key: &ObjectKey) -> usize {
        let known = self.known.get(key);
        let place = known.and_then(|known| known.places.in_force());
        let file = place.and_then(|(path, _)| self.files.get(path));
        file.map_or(0, |file| file.bytes / file.documents.len().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{denying, entry, folder, names};
    use super::*;

    /// A file of more than 1 MiB, of 2,500 objects.
    fn large(port: u16) -> String {
        let padding = "x".repeat(400);
        let object = |n: usize| format!("---\n{}# {padding}\n", entry(&format!("e{n:04}"), port));
        (0..2_500).map(object).collect()
    }

    #[test]
    fn large_files_are_read_apart_and_told_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let named = |name: &str| BTreeSet::from([path(name)]);
        std::fs::write(path("a.yaml"), entry("one", 80)).unwrap();
        let mut folder = folder(dir.path());
        assert_eq!(names(&folder.scan()), ["+one"]);
        folder.read_large_files_apart();
        std::fs::write(path("b.yaml"), large(80)).unwrap();
        assert_eq!(names(&folder.look(&named("b.yaml"))), [""; 0]);
        let apart = folder.apart().unwrap();
        // One reading at a time, and a look at everything begins no other.
        assert_eq!(names(&folder.scan()), [""; 0]);
        assert!(folder.apart().is_none());
        std::fs::write(path("a.yaml"), entry("one", 81)).unwrap();
        assert_eq!(names(&folder.look(&named("a.yaml"))), ["+one"]);
        folder.take_apart(apart.read());
        assert_eq!(folder.part().len(), 2_000);
        // What is told already is not told again.
        std::fs::write(path("c.yaml"), entry("e2400", 80)).unwrap();
        assert_eq!(names(&folder.look(&named("c.yaml"))), ["+e2400"]);
        assert!(folder.has_more());
        assert_eq!(folder.part().len(), 499);
        assert!(!folder.has_more() && folder.apart().is_none());
        std::fs::remove_file(path("c.yaml")).unwrap();
        assert_eq!(folder.look(&named("c.yaml")).len(), 0);
    }

    #[test]
    fn large_objects_are_told_a_few_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        let mut folder = folder(dir.path());
        assert_eq!(folder.scan().len(), 0);
        folder.read_large_files_apart();
        let padding = "x".repeat(1 << 20);
        let object = |n: usize| format!("---\n{}# {padding}\n", entry(&format!("e{n}"), 80));
        std::fs::write(&path, (0..5).map(object).collect::<String>()).unwrap();
        assert_eq!(folder.look(&BTreeSet::from([path])).len(), 0);
        let read = folder.apart().unwrap().read();
        folder.take_apart(read);
        assert_eq!(names(&folder.part()), ["+e0", "+e1"]);
        assert_eq!(names(&folder.part()), ["+e2", "+e3"]);
        assert_eq!(names(&folder.part()), ["+e4"]);
        assert!(!folder.has_more());
    }

    #[test]
    fn what_is_read_of_a_large_file_counts_only_while_nothing_newer_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        let named = BTreeSet::from([path.clone()]);
        let mut folder = folder(dir.path());
        std::fs::write(&path, large(80)).unwrap();
        assert_eq!(folder.scan().len(), 2_500);
        folder.read_large_files_apart();
        std::fs::write(&path, large(81)).unwrap();
        assert_eq!(folder.look(&named).len(), 0);
        let read = folder.apart().unwrap().read();
        std::fs::write(&path, entry("e0000", 82)).unwrap();
        assert_eq!(folder.look(&named).len(), 2_500);
        folder.take_apart(read);
        assert!(!folder.has_more());
        // Nor of one that is gone.
        std::fs::write(&path, large(83)).unwrap();
        assert_eq!(folder.look(&named).len(), 0);
        let read = folder.apart().unwrap().read();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(names(&folder.look(&named)), ["-e0000"]);
        folder.take_apart(read);
        assert!(!folder.has_more());
        assert_eq!(folder.findings(), []);
    }

    /// All parts that are left.
    fn rest(folder: &mut Folder) -> Vec<String> {
        let mut told = Vec::new();
        while folder.has_more() {
            assert!(folder.apart().is_none());
            told.extend(names(&folder.part()));
        }
        told
    }

    #[test]
    fn a_policy_that_moves_into_a_large_file_is_never_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.yaml"), denying("DENY")).unwrap();
        let mut folder = folder(dir.path());
        assert_eq!(names(&folder.scan()), ["+p"]);
        folder.read_large_files_apart();
        std::fs::remove_file(path("a.yaml")).unwrap();
        let text = format!("{}---\n{}", large(80), denying("DENY"));
        std::fs::write(path("b.yaml"), text).unwrap();
        std::fs::write(path("c.yaml"), entry("beside", 80)).unwrap();
        assert_eq!(names(&folder.scan()), [""; 0]);
        let read = folder.apart().unwrap().read();
        folder.take_apart(read);
        // What protects is in the first part, and what changed beside the large file comes after it.
        let first = names(&folder.part());
        assert_eq!(first.len(), 2_000);
        assert!(first.contains(&"+p".to_owned()));
        let told = rest(&mut folder);
        assert_eq!(told.len(), 502);
        assert!(
            told.iter()
                .all(|change| change.starts_with("+e") || change == "+beside")
        );
        assert_eq!(told.last().unwrap(), "+beside");
    }

    #[test]
    fn what_protects_and_changes_beside_a_large_file_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut folder = folder(dir.path());
        assert_eq!(folder.scan().len(), 0);
        folder.read_large_files_apart();
        std::fs::write(path("a.yaml"), denying("DENY")).unwrap();
        std::fs::write(path("b.yaml"), large(80)).unwrap();
        assert_eq!(names(&folder.scan()), ["+p"]);
    }

    #[test]
    fn a_large_file_that_is_renamed_keeps_its_objects_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.yaml"), large(80)).unwrap();
        let mut folder = folder(dir.path());
        assert_eq!(folder.scan().len(), 2_500);
        folder.read_large_files_apart();
        std::fs::rename(path("a.yaml"), path("b.yaml")).unwrap();
        let both = BTreeSet::from([path("a.yaml"), path("b.yaml")]);
        assert_eq!(names(&folder.look(&both)), [""; 0]);
        let read = folder.apart().unwrap().read();
        folder.take_apart(read);
        let told = rest(&mut folder);
        assert_eq!(told.len(), 2_500);
        assert!(told.iter().all(|change| change.starts_with('+')));
    }

    #[test]
    fn a_deletion_waits_for_the_large_files_before_it_and_for_no_later_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let named = |name: &str| BTreeSet::from([path(name)]);
        std::fs::write(path("a.yaml"), entry("one", 80)).unwrap();
        let mut folder = folder(dir.path());
        assert_eq!(names(&folder.scan()), ["+one"]);
        folder.read_large_files_apart();
        std::fs::write(path("b.yaml"), large(80)).unwrap();
        assert_eq!(names(&folder.look(&named("b.yaml"))), [""; 0]);
        let read = folder.apart().unwrap().read();
        std::fs::remove_file(path("a.yaml")).unwrap();
        assert_eq!(names(&folder.look(&named("a.yaml"))), [""; 0]);
        std::fs::write(path("c.yaml"), large(80)).unwrap();
        assert_eq!(names(&folder.look(&named("c.yaml"))), [""; 0]);
        folder.take_apart(read);
        let told = rest(&mut folder);
        assert_eq!(told.len(), 2_501);
        assert_eq!(told.last().unwrap(), "-one");
        assert!(folder.apart().is_some());
    }

    #[test]
    fn a_deletion_is_told_after_a_large_file_that_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.yaml"), entry("one", 80)).unwrap();
        let mut folder = folder(dir.path());
        assert_eq!(names(&folder.scan()), ["+one"]);
        folder.read_large_files_apart();
        std::fs::remove_file(path("a.yaml")).unwrap();
        std::fs::write(path("b.yaml"), large(80)).unwrap();
        assert_eq!(names(&folder.scan()), [""; 0]);
        let apart = folder.apart().unwrap();
        std::fs::remove_file(path("b.yaml")).unwrap();
        folder.take_apart(apart.read());
        assert_eq!(rest(&mut folder), ["-one"]);
    }
}
