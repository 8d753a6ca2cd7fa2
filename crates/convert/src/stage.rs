//! Runs the translators after each batch and puts what they make into the store.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use incr::{Engine, KeyedMap, RootId, Stats};
use model::settings::Settings;
use model::{AnyObject, Change, Diagnostic, ObjectKey, Severity};
use store::{ChangeSet, Snapshot, Store};

use crate::outcome::{code, finding, owner};
use crate::root::{Given, Root};
use crate::status::{LiveStatuses, StatusChange};

/// What derived objects are made of, kept up to date with a store.
///
/// Work is in proportion to what a batch changes: the roots of the changed objects come or go, and of all roots only
/// those are looked at whose reads have changed.
pub struct Stage {
    engine: Engine<Snapshot>,
    roots: KeyedMap<Root, Live>,
    by_id: KeyedMap<RootId, Root>,
    /// The roots that make an object of that name, in order; the first one's is used.
    makers: KeyedMap<ObjectKey, Vec<(Root, AnyObject)>>,
    /// What is wrong with derived objects as others have their names.
    taken: KeyedMap<ObjectKey, Arc<[Diagnostic]>>,
    found: Vec<FindingsChange>,
    /// `None` where nobody asks for statuses.
    statuses: Option<LiveStatuses>,
    panics: u64,
}

/// A root that written objects ask for.
struct Live {
    id: RootId,
    /// How many objects do.
    objects: usize,
    outcome: Given,
}

/// What was found wrong with one thing before a batch and after it.
#[derive(Clone, PartialEq, Debug)]
pub struct FindingsChange {
    /// Before.
    pub before: Arc<[Diagnostic]>,
    /// After.
    pub after: Arc<[Diagnostic]>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            engine: Engine::new(),
            roots: KeyedMap::default(),
            by_id: KeyedMap::default(),
            makers: KeyedMap::default(),
            taken: KeyedMap::default(),
            found: Vec::new(),
            statuses: None,
            panics: 0,
        }
    }
}

/// The objects in force before a batch under the names that it may derive differently.
type Touched = BTreeMap<ObjectKey, Option<AnyObject>>;

impl Stage {
    /// A stage that keeps statuses as well; whoever has it takes them after each batch.
    pub fn with_statuses() -> Self {
        Self {
            statuses: Some(LiveStatuses::default()),
            ..Self::default()
        }
    }

    /// Applies a batch to the store, and then what is to be derived differently because of it, as one set of changes.
    /// Every batch of a store must go through the same stage.
    pub fn apply(
        &mut self,
        store: &mut Store,
        batch: impl IntoIterator<Item = Change>,
    ) -> ChangeSet {
        let before = store.snapshot();
        let mut changes = store.apply(batch);
        let snapshot = store.snapshot();
        let mut touched = Touched::new();
        for key in &changes.objects {
            self.take_in(key, &before, &snapshot, &mut touched);
        }
        let written = changes.objects.clone();
        let mut named = BTreeSet::new();
        let mut keys = changes.keys.clone();
        // What one stratum makes the next may read, so this ends as there is an end of strata.
        loop {
            self.engine.commit(keys);
            self.pull(&store.snapshot(), &mut touched);
            named.extend(touched.keys().cloned());
            let derived = self.amendments(std::mem::take(&mut touched));
            if derived.is_empty() {
                break;
            }
            let amended = store.amend(derived);
            keys = amended.keys.clone();
            changes.merge(amended);
        }
        self.engine.collect();
        let written = written.into_iter();
        named.extend(written.filter(|key| self.makers.contains_key(key)));
        for key in named {
            self.judge(store, key);
        }
        changes
    }

    /// What differs of the derived objects of these names.
    fn amendments(&self, touched: Touched) -> Vec<Change> {
        let changes = touched.into_iter().filter_map(|(key, before)| {
            let after = self.made(&key);
            match (before, after) {
                (Some(before), Some(after)) if before.means_the_same(after) => None,
                (None, None) => None,
                (_, Some(after)) => Some(Change::Put(owner(), after.clone())),
                (Some(_), None) => Some(Change::Delete(owner(), key)),
            }
        });
        changes.collect()
    }

    /// Derives the statuses that may have changed, at the snapshot that the last batch made; returns those that did. Costs
    /// nothing where nobody asked for statuses.
    pub fn take_statuses(&mut self, snapshot: &Snapshot) -> Vec<StatusChange> {
        let Some(statuses) = &mut self.statuses else {
            return Vec::new();
        };
        let (changes, panics) = statuses.pull(&self.engine, snapshot);
        self.panics += panics;
        self.engine.collect();
        changes
    }

    /// How what was found wrong has changed since this was last asked.
    pub fn take_findings(&mut self) -> Vec<FindingsChange> {
        std::mem::take(&mut self.found)
    }

    /// Everything that is found wrong with what is derived from, in order.
    pub fn current_findings(&self) -> Vec<Diagnostic> {
        let of_roots = self
            .roots
            .values()
            .flat_map(|live| live.outcome.findings().iter());
        let all = of_roots.chain(self.taken.values().flat_map(|found| found.iter()));
        let all: BTreeSet<&Diagnostic> = all.collect();
        all.into_iter().cloned().collect()
    }

    /// How often a derivation panicked; what it gave before stays in force.
    pub fn panics(&self) -> u64 {
        self.panics
    }

    /// Figures of the engine.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// The object that is derived under that name.
    fn made(&self, key: &ObjectKey) -> Option<&AnyObject> {
        let (_, object) = self.makers.get(key)?.first()?;
        Some(object)
    }

    /// Starts and ends roots as an object has come, changed or gone.
    fn take_in(
        &mut self,
        key: &ObjectKey,
        before: &Snapshot,
        after: &Snapshot,
        touched: &mut Touched,
    ) {
        if let Some(statuses) = &mut self.statuses {
            let is_there = after.tables.get_any(key.kind, &key.name).is_some();
            statuses.take_in(&mut self.engine, key, is_there);
        }
        let roots = |snapshot: &Snapshot| {
            let mut roots = BTreeSet::new();
            if let Some(object) = snapshot.tables.get_any(key.kind, &key.name) {
                Root::of(&object, &mut |root| _ = roots.insert(root));
            }
            roots
        };
        let (before, after) = (roots(before), roots(after));
        for root in after.difference(&before) {
            match self.roots.get_mut(root) {
                Some(live) => live.objects += 1,
                None => {
                    let id = root.register(&mut self.engine);
                    self.by_id.insert(id, root.clone());
                    let live = Live {
                        id,
                        objects: 1,
                        outcome: Given::default(),
                    };
                    self.roots.insert(root.clone(), live);
                }
            }
        }
        for root in before.difference(&after) {
            let Some(live) = self.roots.get_mut(root) else {
                continue;
            };
            live.objects -= 1;
            if live.objects > 0 {
                continue;
            }
            let (id, outcome) = (live.id, live.outcome.clone());
            self.roots.remove(root);
            self.by_id.remove(&id);
            self.engine.release(id);
            self.replace(root, &outcome, &Given::default(), touched);
        }
    }

    /// Derives what may have changed.
    fn pull(&mut self, snapshot: &Snapshot, touched: &mut Touched) {
        if let Some(statuses) = &mut self.statuses {
            statuses.begin();
        }
        for id in self.engine.changed_roots() {
            let Some(root) = self.by_id.get(&id).cloned() else {
                if let Some(statuses) = &mut self.statuses {
                    statuses.note(id);
                }
                continue;
            };
            let pulled = catch_unwind(AssertUnwindSafe(|| root.pull(&self.engine, snapshot)));
            let Ok(after) = pulled else {
                self.panics += 1;
                continue;
            };
            let Some(live) = self.roots.get_mut(&root) else {
                continue;
            };
            let before = std::mem::replace(&mut live.outcome, after.clone());
            if !after.is(&before) {
                self.replace(&root, &before, &after, touched);
            }
        }
    }

    /// A root gives something else.
    fn replace(&mut self, root: &Root, before: &Given, after: &Given, touched: &mut Touched) {
        for made in before.objects() {
            let key = made.key();
            self.touch(&key, touched);
            if let Some(makers) = self.makers.get_mut(&key) {
                makers.retain(|(maker, _)| maker != root);
                if makers.is_empty() {
                    self.makers.remove(&key);
                }
            }
        }
        for made in after.objects() {
            let key = made.key();
            self.touch(&key, touched);
            let makers = self.makers.entry(key).or_default();
            let at = makers.partition_point(|(maker, _)| maker < root);
            makers.insert(at, (root.clone(), made.clone()));
        }
        self.note(before.findings(), after.findings());
    }

    fn touch(&self, key: &ObjectKey, touched: &mut Touched) {
        if !touched.contains_key(key) {
            touched.insert(key.clone(), self.made(key).cloned());
        }
    }

    fn note(&mut self, before: &Arc<[Diagnostic]>, after: &Arc<[Diagnostic]>) {
        if before != after {
            self.found.push(FindingsChange {
                before: before.clone(),
                after: after.clone(),
            });
        }
    }

    /// Finds which of the objects of a name are not used.
    fn judge(&mut self, store: &Store, key: ObjectKey) {
        let makers = self.makers.get(&key).map(Vec::as_slice).unwrap_or_default();
        let owner = owner();
        let written = store.versions(&key).map(|(by, _)| by);
        let written = written.take_while(|by| **by != owner).next();
        let unused = match written {
            Some(_) => makers,
            None => makers.get(1..).unwrap_or_default(),
        };
        let unused = unused.iter().filter_map(|(_, object)| {
            let derived = object.meta().derived.as_ref()?;
            let message = match written {
                Some(by) => {
                    format!("the {key} derived from it is not used: {by} has one of that name")
                }
                None => format!(
                    "the {key} derived from it is not used: another is derived under that name"
                ),
            };
            let (code, severity) = (code::NAME_TAKEN, Severity::Warning);
            Some(finding(
                derived.from.first()?,
                code,
                severity,
                String::new(),
                message,
            ))
        });
        let after: Arc<[Diagnostic]> = unused.collect();
        let before = match after.is_empty() {
            true => self.taken.remove(&key),
            false => self.taken.insert(key, after.clone()),
        };
        self.note(&before.unwrap_or_default(), &after);
    }
}

/// A store with what is derived in it.
pub struct Loaded {
    /// The objects, written and derived.
    pub store: Store,
    /// What keeps the derived ones up to date.
    pub stage: Stage,
    /// What was found wrong with what is derived from, with where it was read from.
    pub findings: Vec<Diagnostic>,
}

/// A store of these objects, and what is derived from them: for whoever evaluates a state and not its changes.
pub fn load(settings: Arc<Settings>, changes: impl IntoIterator<Item = Change>) -> Loaded {
    let mut store = Store::new(settings);
    let mut stage = Stage::default();
    stage.apply(&mut store, changes);
    let snapshot = store.snapshot();
    let findings = stage.current_findings().into_iter();
    Loaded {
        findings: findings.map(|found| snapshot.placed(found)).collect(),
        store,
        stage,
    }
}
