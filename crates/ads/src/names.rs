//! What a client asks for of one type: sorted shared name lists and the selection made of them.
//!
//! A list is cut into chunks, and a chunk ends with a name whose hash says so. So equal lists are cut alike however they
//! came about, and a change makes the chunks anew in which it falls: it costs its own names, a chunk for each of them and
//! a pointer for every other chunk. The hash has a key of this process, so that nobody can pick names that make one long
//! chunk.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use xds::Resource;

use crate::budget::{Account, Charge};
use crate::status::Status;

/// Names of a chunk, on average: the root of what a long list has.
const CHUNK: u64 = 256;

/// What a name takes besides its text: its counters and place, and a note while the client waits for it.
const EACH: usize = 96;

/// Some neighbouring names of a list; never empty.
type Chunk = Arc<[Arc<str>]>;

#[derive(Default)]
pub(crate) struct List {
    chunks: Box<[Chunk]>,
    len: usize,
    bytes: usize,
    /// Over all names, whatever their order.
    hash: u64,
    charge: Option<Charge>,
}

impl PartialEq for List {
    /// Costs the names that the two do not share.
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Chunk, &Chunk)| Arc::ptr_eq(a, b) || a == b;
        self.hash == other.hash
            && self.len == other.len
            && self.chunks.len() == other.chunks.len()
            && self.chunks.iter().zip(&other.chunks).all(same)
    }
}

/// Sorted names without repetition. Clones share the list; streams that ask for the same names share one list through
/// [`Fanout`](crate::Fanout).
#[derive(Clone, Default)]
pub struct Names(Option<Arc<List>>);

fn hash(name: &str) -> u64 {
    SeedableRandomState::with_seed(0, SharedSeed::global_random()).hash_one(name)
}

fn ends_chunk(hash: u64) -> bool {
    (hash >> 32).is_multiple_of(CHUNK)
}

/// Takes names in ascending order.
#[derive(Default)]
struct Builder {
    chunks: Vec<Chunk>,
    open: Vec<Arc<str>>,
}

impl Builder {
    fn push(&mut self, name: Arc<str>, hash: u64) {
        self.open.push(name);
        if ends_chunk(hash) {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.chunks.push(self.open.drain(..).collect());
        }
    }

    fn finish(mut self, [len, bytes]: [usize; 2], hash: u64) -> Names {
        self.close();
        if self.chunks.is_empty() {
            return Names::default();
        }
        Names(Some(Arc::new(List {
            chunks: self.chunks.into(),
            len,
            bytes,
            hash,
            charge: None,
        })))
    }
}

impl Names {
    /// Sorts and removes repetitions.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut list: Vec<_> = names.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        let (len, mut bytes, mut sum) = (list.len(), 0, 0u64);
        let mut builder = Builder::default();
        for name in list {
            let hash = hash(&name);
            bytes += name.len();
            sum = sum.wrapping_add(hash);
            builder.push(name, hash);
        }
        builder.finish([len, bytes], sum)
    }

    /// This list with the names in `new` and without those in `gone`, which wins where a name is in both. They may come in
    /// any order, and name what is in the list already or is not.
    pub(crate) fn edited(&self, new: &[Arc<str>], gone: &[&str]) -> Self {
        let mut edits: Vec<(&str, Option<&Arc<str>>)> =
            gone.iter().map(|name| (*name, None)).collect();
        edits.extend(new.iter().map(|name| (&**name, Some(name))));
        // Stable: what is gone stands before what is new.
        edits.sort_by_key(|(name, _)| *name);
        edits.dedup_by_key(|(name, _)| *name);
        edits.retain(|(name, new)| self.contains(name) == new.is_none());
        if edits.is_empty() {
            return self.clone();
        }
        let Some(list) = self.0.as_deref() else {
            return Self::new(edits.iter().filter_map(|(_, new)| new.cloned()));
        };
        let (mut len, mut bytes, mut sum) = (list.len, list.bytes, list.hash);
        let mut builder = Builder::default();
        builder.chunks.reserve(list.chunks.len() + 1);
        let mut edits = &edits[..];
        for (at, chunk) in list.chunks.iter().enumerate() {
            let mine = match chunk.last() {
                Some(last) if at + 1 < list.chunks.len() => {
                    edits.partition_point(|(name, _)| *name <= &**last)
                }
                _ => edits.len(),
            };
            let (here, later) = edits.split_at(mine);
            edits = later;
            if here.is_empty() && builder.open.is_empty() {
                builder.chunks.push(Arc::clone(chunk));
                continue;
            }
            let mut here = here.iter().peekable();
            for name in chunk.iter() {
                while let Some((_, Some(new))) = here.next_if(|(edit, _)| *edit < &**name) {
                    let hash = hash(new);
                    (len, bytes, sum) = (len + 1, bytes + new.len(), sum.wrapping_add(hash));
                    builder.push(Arc::clone(new), hash);
                }
                let hash = hash(name);
                // It is in the list, so that an edit of it takes it out.
                if here.next_if(|(edit, _)| *edit == &**name).is_some() {
                    (len, bytes, sum) = (len - 1, bytes - name.len(), sum.wrapping_sub(hash));
                } else {
                    builder.push(Arc::clone(name), hash);
                }
            }
            for (_, new) in here {
                if let Some(new) = new {
                    let hash = hash(new);
                    (len, bytes, sum) = (len + 1, bytes + new.len(), sum.wrapping_add(hash));
                    builder.push(Arc::clone(new), hash);
                }
            }
        }
        builder.finish([len, bytes], sum)
    }

    /// Whether the name is in the list.
    pub fn contains(&self, name: &str) -> bool {
        let Some(list) = &self.0 else {
            return false;
        };
        let before = |chunk: &Chunk| chunk.last().is_some_and(|last| **last < *name);
        let at = list.chunks.partition_point(before);
        let chunk = list.chunks.get(at);
        chunk.is_some_and(|c| c.binary_search_by(|n| (**n).cmp(name)).is_ok())
    }

    /// The names, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        let chunks = self.0.iter().flat_map(|list| &list.chunks);
        chunks.flat_map(|chunk| chunk.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What the names are long, all together.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.bytes)
    }

    /// Whether both are the same list in memory.
    pub fn same(&self, other: &Names) -> bool {
        self.address() == other.address()
    }

    /// How many chunks it has, which every change of it costs.
    pub(crate) fn chunks(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.chunks.len())
    }

    /// Charges what the list takes, unless somebody else has it already.
    ///
    /// # Errors
    /// When that is too much.
    pub(crate) fn charge(&mut self, account: &Arc<Account>) -> Result<(), Status> {
        if let Some(list) = self.0.as_mut().and_then(Arc::get_mut) {
            list.charge = Some(account.charge(list.bytes + list.len * EACH)?);
        }
        Ok(())
    }

    /// Where the list is; 0 for the empty one.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |list| Arc::as_ptr(list).addr())
    }

    /// Equal for equal lists.
    pub(crate) fn hash(&self) -> u64 {
        self.0.as_ref().map_or(0, |list| list.hash)
    }

    pub(crate) fn downgrade(&self) -> Weak<List> {
        self.0.as_ref().map_or_else(Weak::new, Arc::downgrade)
    }

    pub(crate) fn upgrade(weak: &Weak<List>) -> Option<Names> {
        weak.upgrade().map(|list| Names(Some(list)))
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.0 == other.0
    }
}

impl Eq for Names {}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// What a client asks for of one type.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Everything.
    pub wildcard: bool,
    /// These, also when [`Selection::wildcard`] holds: they stay when the wildcard is given up.
    pub names: Names,
}

impl Selection {
    /// Whether a resource of that name is asked for.
    pub fn selects(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Whether the subscription matches a resource: by name, by alias or by wildcard.
    pub fn takes(&self, resource: &Resource) -> bool {
        let Some(rule) = resource.subscription_rule() else {
            return self.selects(&resource.name);
        };
        let named = |name: &str| self.names.contains(name);
        self.wildcard && rule.wildcard
            || named(&resource.name)
            || rule.alias.as_deref().is_some_and(named)
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        !self.wildcard && self.names.is_empty()
    }

    /// Whether both ask for the same, judged cheaply: shared lists are recognised, equal copies are not.
    pub(crate) fn same(&self, other: &Selection) -> bool {
        self.wildcard == other.wildcard && self.names.same(&other.names)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn name(number: u16) -> Arc<str> {
        format!("outbound|80||s{number}").into()
    }

    #[test]
    fn an_edit_of_a_long_list_shares_what_it_does_not_touch() {
        let long = Names::new((0..50_000).map(name));
        let edited = long.edited(&[name(50_001)], &[&name(7)]);
        let (a, b) = (long.0.as_ref().unwrap(), edited.0.as_ref().unwrap());
        let shared = |c: &&Chunk| b.chunks.iter().any(|d| Arc::ptr_eq(c, d));
        let kept = a.chunks.iter().filter(shared).count();
        assert!(a.chunks.len() > 100, "{}", a.chunks.len());
        assert!(kept + 4 >= a.chunks.len(), "{kept} of {}", a.chunks.len());
        assert!(edited.contains(&name(50_001)) && !edited.contains(&name(7)));
        assert_eq!(edited.len(), long.len());
    }

    proptest! {
        #[test]
        fn edits_give_what_a_new_list_would(
            first in prop::collection::btree_set(0u16..2000, 0..1500),
            edits in prop::collection::vec(
                (prop::collection::vec(0u16..2000, 0..300), prop::collection::vec(0u16..2000, 0..300)),
                0..6,
            ),
        ) {
            let mut model: BTreeSet<Arc<str>> = first.into_iter().map(name).collect();
            let mut list = Names::new(model.iter().cloned());
            for (new, gone) in edits {
                let gone: Vec<Arc<str>> = gone.into_iter().map(name).collect();
                let new: Vec<Arc<str>> = new.into_iter().map(name).collect();
                model.extend(new.iter().cloned());
                for name in &gone {
                    model.remove(name);
                }
                let gone: Vec<&str> = gone.iter().map(|n| &**n).collect();
                list = list.edited(&new, &gone);
                let whole = Names::new(model.iter().cloned());
                prop_assert!(list.iter().eq(model.iter()));
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.bytes(), model.iter().map(|n| n.len()).sum::<usize>());
                prop_assert!(list == whole && list.hash() == whole.hash());
                prop_assert!(model.iter().all(|n| list.contains(n)));
            }
        }
    }
}
