//! Which files to look at, and when, as events of the disk come in.
//!
//! A file that somebody is writing is left alone until it is closed, so that what is read is whole. Where no close is
//! told, a pause stands for it. No clock here: callers say what time it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use notify::event::{
    AccessKind, AccessMode, CreateKind, Event, EventKind, ModifyKind, RemoveKind, RenameMode,
};

use crate::folder::{is_below_hidden, is_manifest};

/// How long events are gathered: one save is several, and a file that is gone may be about to come back.
const GATHER: Duration = Duration::from_millis(2);

/// After so long without anything to do, a file that is whole is looked at at once.
const QUIET: Duration = Duration::from_millis(20);

/// How long a file must rest that is written and never closed.
const REST: Duration = Duration::from_millis(50);

/// A new folder is looked at again: what came into it before it was watched made no event.
const NEW_FOLDER: Duration = Duration::from_millis(100);

/// What is to be looked at.
#[derive(Debug)]
pub(super) struct Pending {
    /// As the operator has named it, and as paths are told.
    root: PathBuf,
    /// Under which names events tell of it.
    names: Vec<PathBuf>,
    /// Whole files.
    ready: BTreeSet<PathBuf>,
    /// Files that somebody is writing, and when they last did.
    writing: BTreeMap<PathBuf, Instant>,
    /// When to look at everything.
    all: Option<Instant>,
    /// Whether the root itself was replaced.
    replaced: bool,
    /// When the first of what is ready became so.
    since: Option<Instant>,
    /// Whether all that is ready came after quiet, and whole.
    at_once: bool,
    /// When there was something to do last.
    busy: Option<Instant>,
}

/// What to do.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Work {
    /// Look at everything but these.
    pub(super) all_except: Option<BTreeSet<PathBuf>>,
    /// Look at these.
    pub(super) files: BTreeSet<PathBuf>,
    /// The root must be watched anew, before anything is looked at.
    pub(super) replaced: bool,
    /// When it was known that there is something to look at, if an event told.
    pub(super) since: Option<Instant>,
}

impl Pending {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            names: vec![root.to_owned()],
            ready: BTreeSet::new(),
            writing: BTreeMap::new(),
            all: None,
            replaced: false,
            since: None,
            at_once: true,
            busy: None,
        }
    }

    /// Under which names events tell of the root from now on.
    pub(super) fn named(&mut self, names: Vec<PathBuf>) {
        self.names = names;
    }

    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &Event, now: Instant) {
        if !matters(event.kind) {
            return;
        }
        if event.need_rescan() {
            self.lost(now);
        }
        for path in &event.paths {
            let mut names = self.names.iter();
            let Some(below) = names.find_map(|name| path.strip_prefix(name).ok()) else {
                // The root may be a part of a mounted ConfigMap, whose link stands beside it.
                let beside = |name: &PathBuf| path.parent() == name.parent();
                if path.ends_with("..data") && self.names.iter().any(beside) {
                    self.lost(now);
                }
                continue;
            };
            if below.as_os_str().is_empty() {
                let root = self.root.clone();
                if is_manifest(&root) {
                    self.note_path(&root, event.kind, now);
                } else {
                    // Its own end, or another thing under its name.
                    self.replaced = true;
                    self.everything(now);
                }
            } else if !below.parent().is_some_and(is_below_hidden) {
                let path = self.root.join(below);
                self.note_path(&path, event.kind, now);
            }
        }
    }

    /// Events were lost, and with them perhaps new folders: all is watched and looked at anew.
    pub(super) fn lost(&mut self, now: Instant) {
        self.replaced = true;
        self.everything(now);
    }

    fn note_path(&mut self, path: &Path, kind: EventKind, now: Instant) {
        let manifest = is_manifest(path);
        match kind {
            EventKind::Access(_) if manifest => self.whole(path, now),
            EventKind::Access(_) => {}
            EventKind::Modify(ModifyKind::Name(RenameMode::To)) if manifest => {
                self.whole(path, now);
            }
            // Both names were told of before.
            EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => {}
            EventKind::Create(CreateKind::Folder) if is_passed_over(path) => {}
            EventKind::Create(CreateKind::Folder) => {
                self.everything(now);
                self.all = Some(now + NEW_FOLDER);
                self.since.get_or_insert(now);
            }
            EventKind::Remove(RemoveKind::Folder) => self.everything(now),
            kind if is_written(kind) => {
                if manifest {
                    self.ready.remove(path);
                    self.writing.insert(path.to_owned(), now);
                }
            }
            _ if manifest => {
                self.ready(path, now);
                self.at_once = false;
            }
            _ if is_passed_over(path) => {}
            // A folder moved, or the link swapped that a mounted ConfigMap's files point through.
            _ => self.everything(now),
        }
    }

    /// A file stands there as it is meant to.
    fn whole(&mut self, path: &Path, now: Instant) {
        self.at_once &= self.busy.is_none_or(|busy| busy + QUIET <= now);
        self.ready(path, now);
    }

    fn ready(&mut self, path: &Path, now: Instant) {
        self.writing.remove(path);
        self.ready.insert(path.to_owned());
        self.since.get_or_insert(now);
    }

    /// Looks at everything soon.
    pub(super) fn everything(&mut self, now: Instant) {
        let soon = now + GATHER;
        self.all = Some(self.all.map_or(soon, |at| at.min(soon)));
    }

    /// When there is something to do, if nothing else happens.
    pub(super) fn due(&self) -> Option<Instant> {
        let gather = match self.at_once {
            true => Duration::ZERO,
            false => GATHER,
        };
        let ready = self.since.map(|at| at + gather);
        let rested = self.writing.values().min().map(|at| *at + REST);
        [ready, rested, self.all].into_iter().flatten().min()
    }

    /// What there is to do by now.
    pub(super) fn take(&mut self, now: Instant) -> Work {
        let rested: Vec<PathBuf> = self
            .writing
            .iter()
            .filter(|(_, at)| **at + REST <= now)
            .map(|(path, _)| path.clone())
            .collect();
        for path in rested {
            self.writing.remove(&path);
            self.ready.insert(path);
        }
        let since = self.since.take();
        self.at_once = true;
        self.busy = Some(now);
        let all = self.all.take_if(|at| *at <= now).is_some();
        Work {
            all_except: all.then(|| self.writing.keys().cloned().collect()),
            files: std::mem::take(&mut self.ready),
            replaced: std::mem::take(&mut self.replaced),
            since,
        }
    }
}

/// Whether the path is hidden, and not one of the links that a mounted ConfigMap's files point through.
fn is_passed_over(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with('.') && !name.starts_with(".."))
}

/// Whether an event of the kind tells anything: files that are only opened and read do not change.
pub(super) fn matters(kind: EventKind) -> bool {
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    kind == closed || !matches!(kind, EventKind::Access(_))
}

/// Whether the event tells of a file that may not be whole yet.
fn is_written(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(CreateKind::File | CreateKind::Any | CreateKind::Other)
            | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any)
    )
}

#[cfg(test)]
mod tests {
    use notify::event::DataChange;

    use super::*;

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const RENAME: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    fn files(work: &Work) -> Vec<&str> {
        work.files.iter().filter_map(|p| p.to_str()).collect()
    }

    #[test]
    fn a_file_is_looked_at_when_it_is_closed() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(
            &event(EventKind::Create(CreateKind::File), "/c/a.yaml"),
            start,
        );
        pending.note(&event(WRITE, "/c/a.yaml"), start);
        assert_eq!(pending.due(), Some(start + REST));
        assert_eq!(pending.take(start), Work::default());
        let closed = start + QUIET;
        pending.note(&event(CLOSE, "/c/a.yaml"), closed);
        assert_eq!(pending.due(), Some(closed));
        let work = pending.take(closed);
        assert_eq!(
            (files(&work), work.since),
            (vec!["/c/a.yaml"], Some(closed))
        );
        assert_eq!(pending.due(), None);
    }

    #[test]
    fn events_are_gathered_while_there_is_much_to_do_and_when_a_file_goes() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(&event(CLOSE, "/c/a.yaml"), start);
        assert_eq!(files(&pending.take(start)), ["/c/a.yaml"]);
        pending.note(&event(CLOSE, "/c/b.yaml"), start + GATHER);
        assert_eq!(pending.due(), Some(start + 2 * GATHER));
        assert_eq!(files(&pending.take(start + 2 * GATHER)), ["/c/b.yaml"]);

        let later = start + 2 * QUIET;
        let gone = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        pending.note(&event(gone, "/c/a.yaml"), later);
        pending.note(&event(CLOSE, "/c/b.yaml"), later);
        assert_eq!(pending.due(), Some(later + GATHER));
    }

    #[test]
    fn a_hidden_file_that_is_moved_is_nothing_to_look_at() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        let gone = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        pending.note(&event(gone, "/c/.part"), start);
        assert_eq!(pending.due(), None);
    }

    #[test]
    fn a_file_that_is_never_closed_is_looked_at_when_it_rests() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(&event(WRITE, "/c/a.yaml"), start);
        let later = start + REST / 2;
        pending.note(&event(WRITE, "/c/a.yaml"), later);
        assert_eq!(pending.take(start + REST), Work::default());
        assert_eq!(files(&pending.take(later + REST)), ["/c/a.yaml"]);
    }

    #[test]
    fn a_file_moved_into_place_is_looked_at_at_once() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(&event(RENAME, "/c/d/a.yaml"), start);
        assert_eq!(files(&pending.take(start + GATHER)), ["/c/d/a.yaml"]);
    }

    #[test]
    fn a_swapped_link_and_a_moved_folder_make_everything_be_looked_at() {
        for path in ["/c/..data", "/c/folder"] {
            let start = Instant::now();
            let mut pending = Pending::new(Path::new("/c"));
            pending.note(&event(WRITE, "/c/a.yaml"), start);
            pending.note(&event(RENAME, path), start);
            let work = pending.take(start + GATHER);
            let unfinished = BTreeSet::from([PathBuf::from("/c/a.yaml")]);
            assert_eq!(work.all_except, Some(unfinished), "{path}");
        }
    }

    #[test]
    fn what_is_no_manifest_and_what_stands_beside_the_folder_is_passed_over() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(&event(WRITE, "/c/.a.yaml.swp"), start);
        pending.note(&event(WRITE, "/c/readme.md"), start);
        pending.note(&event(CLOSE, "/other/a.yaml"), start);
        pending.note(&event(RENAME, "/cc"), start);
        assert_eq!(pending.due(), None);
    }

    #[test]
    fn a_root_that_is_replaced_is_watched_anew() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        pending.note(&event(RENAME, "/c"), start);
        let work = pending.take(start + GATHER);
        assert!(work.replaced && work.all_except.is_some());
    }

    #[test]
    fn events_of_hidden_folders_are_passed_over_but_for_the_link_of_a_mounted_config_map() {
        let start = Instant::now();
        // The root may itself be below hidden folders.
        let mut pending = Pending::new(Path::new("/.h/c"));
        for path in [
            "/.h/c/.backup/a.yaml",
            "/.h/c/..2026_x/a.yaml",
            "/.h/c/sub/.git/x/a.yaml",
        ] {
            for kind in [WRITE, CLOSE, RENAME, EventKind::Create(CreateKind::File)] {
                pending.note(&event(kind, path), start);
            }
        }
        pending.note(
            &event(EventKind::Create(CreateKind::Folder), "/.h/c/.git"),
            start,
        );
        assert_eq!(pending.due(), None);
        pending.note(&event(RENAME, "/.h/c/sub/..data"), start);
        assert_eq!(pending.due(), Some(start + GATHER));
    }

    #[test]
    fn paths_are_told_as_the_operator_has_named_the_root() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("./x/../c"));
        pending.named(vec!["/real/c".into(), "/cwd/./x/../c".into()]);
        for path in ["/real/c/sub/a.yaml", "/cwd/x/../c/b.yaml"] {
            pending.note(&event(CLOSE, path), start);
        }
        let work = pending.take(start + GATHER);
        assert_eq!(files(&work), ["./x/../c/b.yaml", "./x/../c/sub/a.yaml"]);
        pending.note(&event(RENAME, "/cwd/x/../c"), start);
        assert!(pending.take(start + GATHER).replaced);
    }

    #[test]
    fn lost_events_make_everything_be_watched_and_looked_at_anew() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/c"));
        let overflow = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        pending.note(&overflow, start);
        let work = pending.take(start + GATHER);
        assert!(work.replaced && work.all_except.is_some());
    }

    #[test]
    fn a_link_swapped_beside_the_root_makes_it_be_watched_anew() {
        let start = Instant::now();
        let mut pending = Pending::new(Path::new("/m/c"));
        pending.note(&event(RENAME, "/m/..data_tmp"), start);
        pending.note(&event(RENAME, "/..data"), start);
        assert_eq!(pending.due(), None);
        pending.note(&event(RENAME, "/m/..data"), start);
        assert!(pending.take(start + GATHER).replaced);
    }
}
