//! Slots numbered by `u32`, reused after removal.
//!
//! They are in chunks: one long vector would take twice the memory while it grows, and up to half of it would never be used.

use std::ops::{Index, IndexMut};

/// The number of slots in a chunk is two to this power.
const CHUNK_BITS: u32 = 8;
const CHUNK: usize = 1 << CHUNK_BITS;

pub(crate) struct Slab<T> {
    /// All but the last are full.
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            *self.slot_mut(id).expect(LIVE) = Some(item);
            return id;
        }
        let is_full = self.chunks.last().is_none_or(|last| last.len() == CHUNK);
        if is_full {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        chunk.push(Some(item));
        u32::try_from(at * CHUNK + chunk.len() - 1)
            .expect("fewer than 2^32 slots: each takes 100 bytes")
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        let item = self.slot_mut(id).and_then(Option::take).expect(LIVE);
        self.free.push(id);
        item
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slot_mut(id)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots() - self.free.len()
    }

    /// What the slots take, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Option<T>>()
            + self.chunks.capacity() * size_of::<Vec<Option<T>>>()
            + self.free.capacity() * size_of::<u32>()
    }

    fn slots(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    fn slot_mut(&mut self, id: u32) -> Option<&mut Option<T>> {
        let (chunk, at) = place(id);
        self.chunks.get_mut(chunk)?.get_mut(at)
    }
}

/// The chunk of a slot, and its place there.
fn place(id: u32) -> (usize, usize) {
    ((id >> CHUNK_BITS) as usize, id as usize & (CHUNK - 1))
}

const LIVE: &str = "an id is held only while its slot is live";

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        let (chunk, at) = place(id);
        self.chunks[chunk][at].as_ref().expect(LIVE)
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        self.slot_mut(id).and_then(Option::as_mut).expect(LIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_on_over_chunks_and_are_used_again() {
        let mut slab = Slab::new();
        let count = 3 * CHUNK as u32 + 1;
        let ids: Vec<u32> = (0..count).map(|n| slab.insert(n)).collect();
        assert_eq!(ids, (0..count).collect::<Vec<u32>>());
        assert!(ids.iter().all(|id| slab[*id] == *id));
        assert_eq!(slab.remove(300), 300);
        assert_eq!(slab.get_mut(300), None);
        assert_eq!(slab.get_mut(count), None);
        assert_eq!(slab.len(), count as usize - 1);
        assert_eq!(slab.insert(7), 300);
        slab[300] += 1;
        assert_eq!(slab[300], 8);
        assert_eq!(slab.len(), count as usize);
    }
}
