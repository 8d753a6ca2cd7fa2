//! Slots numbered by `u32`, reused after removal.

use std::ops::{Index, IndexMut};

pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(item);
            return id;
        }
        self.slots.push(Some(item));
        u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 slots: each takes 100 bytes")
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        let item = self.slots[id as usize].take().expect(LIVE);
        self.free.push(id);
        item
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// What the slots take, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}

const LIVE: &str = "an id is held only while its slot is live";

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        self.slots[id as usize].as_ref().expect(LIVE)
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        self.slots[id as usize].as_mut().expect(LIVE)
    }
}
