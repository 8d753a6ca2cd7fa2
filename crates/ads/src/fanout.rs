//! What streams share: differences, responses and name lists, each computed once.
//!
//! One change reaches a thousand streams of a view as the same pair of sets. The first stream computes the difference
//! and encodes the response; the others find both here. Responses hold the resources that they were computed from, so
//! the addresses that serve as keys cannot be reused while an entry lives; [`Fanout::sweep`] drops entries that were not
//! used recently.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::HashMap;
use xds::{ResourceSet, TypeUrl};

use crate::budget::Account;
use crate::change::Change;
use crate::content::Content;
use crate::names::{List, Names, Selection};
use crate::status::Status;

/// The most entries of one kind between two sweeps.
const LIMIT: usize = 4096;

/// A set by its content: its fingerprint and length.
type ByContent = (u64, usize);

#[derive(Debug)]
struct Kept<T> {
    value: Arc<T>,
    used: u64,
}

#[derive(Debug)]
struct Step {
    to: ResourceSet,
    change: Change,
    /// `to` and what is only in `from`, computed on demand.
    union: std::sync::OnceLock<ResourceSet>,
}

/// Everything that decides the next response of a type to a client that has accepted everything so far and asks for the
/// same names as before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ResponseKey {
    ty: TypeUrl,
    from: ByContent,
    to: ByContent,
    cover: Option<ByContent>,
    wildcard: bool,
    /// The address of the list, which [`PreparedResponse`] keeps alive.
    names: usize,
    revision: u64,
}

impl ResponseKey {
    pub(crate) fn new(
        ty: TypeUrl,
        [from, to]: [&ResourceSet; 2],
        cover: Option<&ResourceSet>,
        selection: &Selection,
        revision: u64,
    ) -> Self {
        Self {
            ty,
            from: by_content(from),
            to: by_content(to),
            cover: cover.map(by_content),
            wildcard: selection.wildcard,
            names: selection.names.address(),
            revision,
        }
    }
}

/// The next response of a type, if there is anything to send.
#[derive(Debug)]
pub(crate) struct PreparedResponse {
    pub(crate) content: Option<Arc<Content>>,
    /// Names in it that are new to the client or changed, and whether they are new.
    pub(crate) touched: Vec<(Arc<str>, bool)>,
    /// The names that it was prepared for.
    pub(crate) names: Names,
    /// How many names were examined to prepare it.
    pub(crate) work: u64,
}

#[derive(Debug, Default)]
struct Tables {
    epoch: u64,
    steps: HashMap<(ByContent, ByContent), Kept<Step>>,
    contents: HashMap<u64, Kept<Content>>,
    responses: HashMap<ResponseKey, Kept<PreparedResponse>>,
    names: HashMap<u64, Vec<Weak<List>>>,
    /// The number of entries of `names` at which dead lists are removed.
    names_limit: usize,
}

/// Shared by all streams of a server, or by those of one of its threads.
///
/// A thread asks its own first, whose lock is never contended: with a single one, every thread would wait whenever the
/// one that holds the lock is descheduled.
#[derive(Debug, Default)]
pub struct Fanout {
    tables: Mutex<Tables>,
    /// The server's, if this is a thread's.
    all: Option<Arc<Fanout>>,
}

/// A shared difference.
#[derive(Clone)]
pub(crate) struct SharedChange(Arc<Step>);

impl std::ops::Deref for SharedChange {
    type Target = Change;
    fn deref(&self) -> &Change {
        &self.0.change
    }
}

impl SharedChange {
    /// The newer set and what was only in the older one.
    pub(crate) fn union(&self) -> ResourceSet {
        let step = &self.0;
        step.union
            .get_or_init(|| step.to.and(step.change.removed.iter().cloned()))
            .clone()
    }
}

impl Fanout {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One for the streams of one thread.
    pub fn of_thread(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::default(),
            all: Some(Arc::clone(self)),
        })
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Entries are inserted whole: a panic elsewhere leaves nothing half-made.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The difference between two sets.
    pub(crate) fn change(&self, from: &ResourceSet, to: &ResourceSet) -> SharedChange {
        let key = (by_content(from), by_content(to));
        {
            let mut tables = self.tables();
            let epoch = tables.epoch;
            if let Some(kept) = tables.steps.get_mut(&key) {
                kept.used = epoch;
                return SharedChange(Arc::clone(&kept.value));
            }
        }
        // Computed outside the lock: two streams may do it at once, which costs less than all waiting for one.
        let step = match &self.all {
            Some(all) => all.change(from, to).0,
            None => Arc::new(Step {
                change: Change::between(from, to),
                to: to.clone(),
                union: std::sync::OnceLock::new(),
            }),
        };
        let mut tables = self.tables();
        if tables.steps.len() >= LIMIT {
            tables.steps.clear();
        }
        let used = tables.epoch;
        let kept = tables
            .steps
            .entry(key)
            .or_insert(Kept { value: step, used });
        SharedChange(Arc::clone(&kept.value))
    }

    /// The response that another stream prepared for the same key, if any.
    pub(crate) fn prepared(
        &self,
        key: &ResponseKey,
        names: &Names,
    ) -> Option<Arc<PreparedResponse>> {
        {
            let mut tables = self.tables();
            let epoch = tables.epoch;
            if let Some(kept) = tables.responses.get_mut(key)
                && (names.is_empty() || names.same(&kept.value.names))
            {
                kept.used = epoch;
                return Some(Arc::clone(&kept.value));
            }
        }
        let response = self.all.as_ref()?.prepared(key, names)?;
        self.insert(*key, Arc::clone(&response));
        Some(response)
    }

    /// Keeps a prepared response for other streams.
    pub(crate) fn keep(&self, key: ResponseKey, value: Arc<PreparedResponse>) {
        if let Some(all) = &self.all {
            all.insert(key, Arc::clone(&value));
        }
        self.insert(key, value);
    }

    fn insert(&self, key: ResponseKey, value: Arc<PreparedResponse>) {
        let mut tables = self.tables();
        if tables.responses.len() >= LIMIT {
            tables.responses.clear();
        }
        let used = tables.epoch;
        tables.responses.insert(key, Kept { value, used });
    }

    /// The equal response of another stream if there is one, else this.
    pub(crate) fn content(&self, content: Content) -> Arc<Content> {
        if let Some(all) = &self.all {
            return all.content(content);
        }
        let key = content.fingerprint();
        let mut tables = self.tables();
        let used = tables.epoch;
        if tables.contents.len() >= LIMIT {
            tables.contents.clear();
        }
        match tables.contents.entry(key) {
            Entry::Occupied(mut entry) => {
                if *entry.get().value != content {
                    entry.get_mut().value = Arc::new(content);
                }
                entry.get_mut().used = used;
                Arc::clone(&entry.get().value)
            }
            Entry::Vacant(entry) => Arc::clone(
                &entry
                    .insert(Kept {
                        value: Arc::new(content),
                        used,
                    })
                    .value,
            ),
        }
    }

    /// The equal list of another stream if there is one, else this, charged to an account.
    ///
    /// # Errors
    /// When that exceeds the account's budget.
    pub(crate) fn names(
        &self,
        mut names: Names,
        account: Option<&Arc<Account>>,
    ) -> Result<Names, Status> {
        if let Some(all) = &self.all {
            return all.names(names, account);
        }
        if names.is_empty() {
            return Ok(names);
        }
        let mut tables = self.tables();
        let tables = &mut *tables;
        if tables.names.len() >= tables.names_limit.max(LIMIT) {
            // Sweeps come only once a second.
            let alive = |lists: &Vec<Weak<List>>| lists.iter().any(|l| l.strong_count() > 0);
            tables.names.retain(|_, lists| alive(lists));
            tables.names_limit = 2 * tables.names.len();
        }
        let lists = tables.names.entry(names.hash()).or_default();
        lists.retain(|l| l.strong_count() > 0);
        if let Some(found) = lists
            .iter()
            .filter_map(Names::upgrade)
            .find(|n| *n == names)
        {
            return Ok(found);
        }
        if let Some(account) = account {
            names.charge(account)?;
        }
        lists.push(names.downgrade());
        Ok(names)
    }

    /// Drops what was not used since the last but one call. To be called about once a second.
    pub fn sweep(&self) {
        let mut tables = self.tables();
        let tables = &mut *tables;
        let last = tables.epoch;
        tables.epoch += 1;
        tables.steps.retain(|_, kept| kept.used >= last);
        tables.contents.retain(|_, kept| kept.used >= last);
        tables.responses.retain(|_, kept| kept.used >= last);
        tables
            .names
            .retain(|_, lists| lists.iter().any(|l| l.strong_count() > 0));
    }
}

fn by_content(set: &ResourceSet) -> ByContent {
    (set.fingerprint(), set.len())
}

#[cfg(test)]
mod tests {
    use xds::Resource;

    use super::*;
    use crate::stream::Protocol;

    fn set(names: &[&'static str]) -> ResourceSet {
        ResourceSet::new(
            names
                .iter()
                .map(|n| Arc::new(Resource::from_bytes(*n, n.as_bytes().into()))),
        )
    }

    #[test]
    fn equal_work_is_done_once_and_forgotten_when_unused() {
        let fanout = Fanout::default();
        let (a, b) = (set(&["x"]), set(&["x", "y"]));
        let first = fanout.change(&a, &b);
        assert!(Arc::ptr_eq(&first.0, &fanout.change(&a, &b).0));
        assert_eq!(fanout.change(&b, &a).union(), b);

        let content = || {
            let item = |r: &Arc<Resource>| crate::Item {
                resource: Arc::clone(r),
                version: r.version,
            };
            Content::new(
                TypeUrl::Cluster,
                Protocol::Delta,
                b.iter().map(item).collect(),
                vec![],
                0,
            )
        };
        let first = fanout.content(content());
        assert!(Arc::ptr_eq(&first, &fanout.content(content())));
        fanout.sweep();
        assert!(Arc::ptr_eq(&first, &fanout.content(content())));
        fanout.sweep();
        fanout.sweep();
        assert_eq!(Arc::strong_count(&first), 1);
        assert!(fanout.tables().steps.is_empty());
    }

    #[test]
    fn threads_share_what_one_of_them_computed() {
        let all = Fanout::new();
        let (one, other) = (all.of_thread(), all.of_thread());
        let (a, b) = (set(&["x"]), set(&["x", "y"]));
        let step = one.change(&a, &b);
        assert!(Arc::ptr_eq(&step.0, &other.change(&a, &b).0));
        let key = ResponseKey::new(TypeUrl::Cluster, [&a, &b], None, &Selection::default(), 1);
        let response = || {
            Arc::new(PreparedResponse {
                content: None,
                touched: vec![],
                names: Names::default(),
                work: 0,
            })
        };
        one.keep(key, response());
        let found = other.prepared(&key, &Names::default()).unwrap();
        assert!(Arc::ptr_eq(
            &found,
            &one.prepared(&key, &Names::default()).unwrap()
        ));
        let all_sweep = || [&all, &one, &other].iter().for_each(|f| f.sweep());
        (0..3).for_each(|_| all_sweep());
        assert_eq!(Arc::strong_count(&found), 1);
        assert!(other.tables().steps.is_empty());
    }

    #[test]
    fn equal_name_lists_are_one_list() {
        let fanout = Fanout::default();
        let list = || Names::new(["b".into(), "a".into(), "a".into()]);
        let first = fanout.names(list(), None).unwrap();
        assert!(first.same(&fanout.names(list(), None).unwrap()));
        assert_eq!(first.len(), 2);
        drop(first);
        fanout.sweep();
        assert!(fanout.tables().names.is_empty());
    }
}
