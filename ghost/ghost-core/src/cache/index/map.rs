//! A hash map over a slab, by linear hashing.
//!
//! Cells with the same bucket form a chain through a field of theirs, so an entry costs four to
//! eight bytes beside its cell. The map grows and shrinks by one bucket at a time: no insertion
//! has to move all entries while others wait for the lock.

use std::mem::size_of;

use super::slab::{added_capacity, reserve, Cell, Slab, NONE};

/// A cell that is found by a key. While it is in use, [`Cell::link`] is the rest of its chain.
pub(super) trait Keyed: Cell {
    type Key: Copy + Eq;

    fn key(&self) -> Self::Key;

    fn next(&self) -> u32;

    /// The low bits choose a bucket.
    fn hash(key: Self::Key) -> u64;
}

/// Cells by key.
#[derive(Debug)]
pub(super) struct Map<T> {
    pub(super) cells: Slab<T>,
    /// The first cell of each bucket.
    heads: Vec<u32>,
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self { cells: Slab::default(), heads: Vec::new() }
    }
}

impl<T: Keyed> Map<T> {
    pub(super) fn find(&self, key: T::Key) -> Option<u32> {
        let mut slot = *self.heads.get(self.bucket(key))?;
        while slot != NONE {
            let cell = &self.cells[slot];
            if cell.key() == key {
                return Some(slot);
            }
            slot = cell.next();
        }
        None
    }

    /// The cell of this key, new if there is none.
    pub(super) fn find_or_insert(&mut self, key: T::Key, new: impl FnOnce() -> T) -> u32 {
        self.find(key).unwrap_or_else(|| self.insert(new()))
    }

    /// Insert a cell whose key is new.
    pub(super) fn insert(&mut self, cell: T) -> u32 {
        if self.cells.len() >= self.heads.len() {
            self.split();
        }
        let slot = self.cells.insert(cell);
        self.chain(slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> T {
        let next = self.cells[slot].next();
        let bucket = self.bucket(self.cells[slot].key());
        let mut at = self.heads[bucket];
        if at == slot {
            self.heads[bucket] = next;
        } else {
            while at != NONE && self.cells[at].next() != slot {
                at = self.cells[at].next();
            }
            if at != NONE {
                *self.cells[at].link() = next;
            }
        }
        let cell = self.cells.remove(slot);
        // Two at a time: one would leave half of the buckets of a map that becomes empty.
        for _ in 0..2 {
            if self.heads.len() > 1 && self.heads.len() > 2 * self.cells.len() {
                self.merge();
            }
        }
        cell
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.cells.bytes() + self.heads.capacity() * size_of::<u32>()
    }

    /// The bytes that it holds in addition once `cells` more are inserted.
    pub(super) fn growth(&self, cells: usize) -> usize {
        let heads = added_capacity(&self.heads, cells) * size_of::<u32>();
        self.cells.growth(cells).saturating_add(heads)
    }

    fn bucket(&self, key: T::Key) -> usize {
        let buckets = self.heads.len();
        let mask = buckets.next_power_of_two() - 1;
        let bucket = usize::try_from(T::hash(key) & mask as u64).unwrap_or(0);
        // Buckets of the upper half that are not there yet are still in the lower half.
        if bucket < buckets {
            bucket
        } else {
            bucket & (mask >> 1)
        }
    }

    fn chain(&mut self, slot: u32) {
        let bucket = self.bucket(self.cells[slot].key());
        *self.cells[slot].link() = self.heads[bucket];
        self.heads[bucket] = slot;
    }

    fn chain_all(&mut self, mut slot: u32) {
        while slot != NONE {
            let next = self.cells[slot].next();
            self.chain(slot);
            slot = next;
        }
    }

    /// Add a bucket, with its part of the bucket that held its cells so far.
    fn split(&mut self) {
        let added = self.heads.len();
        reserve(&mut self.heads, 1);
        self.heads.push(NONE);
        if added > 0 {
            let lower = added - (1 << added.ilog2());
            let cells = std::mem::replace(&mut self.heads[lower], NONE);
            self.chain_all(cells);
        }
    }

    /// Remove the last bucket.
    fn merge(&mut self) {
        let cells = self.heads.pop().unwrap_or(NONE);
        self.chain_all(cells);
        if self.heads.len() <= self.heads.capacity() / 4 {
            self.heads.shrink_to((self.heads.len() * 2).next_power_of_two().max(4));
        }
    }
}
