//! Cells of one type, addressed by 32-bit numbers, in chunks.
//!
//! A number takes half of a pointer. A chunk never moves, so that growth copies nothing under a
//! lock; one whose cells are all free is returned, so that memory which one kind of cell needed
//! once is there for another kind.

use std::mem::{size_of, take};
use std::ops::{Index, IndexMut};

use super::list::Links;

/// No cell.
pub(super) const NONE: u32 = u32::MAX;
/// The most cells: their numbers leave a bit for others.
const MOST: usize = 1 << 30;

/// What a slab holds.
pub(super) trait Cell: Default {
    /// The cells of a chunk. Small chunks are returned sooner; of large ones there are fewer, so
    /// that the processor's cache holds what is known of them.
    const CHUNK: u32;

    /// A field that the slab may use while the cell is free.
    fn link(&mut self) -> &mut u32;
}

#[derive(Debug)]
struct Chunk<T> {
    /// Empty while the chunk is returned.
    cells: Box<[T]>,
    used: u32,
    /// The first free cell.
    free: u32,
    /// Among the chunks with a free cell, or, by `next` alone, among the returned ones.
    links: Links,
}

/// Cells, and which of them are free.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The first chunk with a free cell.
    open: u32,
    /// The first chunk that was returned.
    returned: u32,
    held: usize,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: NONE, returned: NONE, held: 0, len: 0 }
    }
}

impl<T: Cell> Slab<T> {
    /// How many cells are in use.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Every number is below this.
    pub(super) fn end(&self) -> usize {
        self.chunks.len() * T::CHUNK as usize
    }

    /// A cell, also a free one.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.chunks.get((slot / T::CHUNK) as usize)?.cells.get((slot % T::CHUNK) as usize)
    }

    pub(super) fn insert(&mut self, cell: T) -> u32 {
        if self.open == NONE {
            self.add_chunk();
        }
        let number = self.open;
        let chunk = &mut self.chunks[number as usize];
        let at = chunk.free;
        let place = &mut chunk.cells[at as usize];
        chunk.free = *place.link();
        *place = cell;
        chunk.used += 1;
        if chunk.free == NONE {
            self.close(number);
        }
        self.len += 1;
        number * T::CHUNK + at
    }

    pub(super) fn remove(&mut self, slot: u32) -> T {
        let (number, at) = (slot / T::CHUNK, slot % T::CHUNK);
        let chunk = &mut self.chunks[number as usize];
        let place = &mut chunk.cells[at as usize];
        let cell = take(place);
        let was_full = chunk.free == NONE;
        *place.link() = chunk.free;
        chunk.free = at;
        chunk.used -= 1;
        self.len -= 1;
        let is_empty = chunk.used == 0;
        if was_full {
            self.reopen(number);
        }
        // The last open chunk stays: the next insertion would allocate it again.
        let links = self.chunks[number as usize].links;
        if is_empty && (links.previous, links.next) != (NONE, NONE) {
            self.give_back(number);
        }
        cell
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.held * T::CHUNK as usize * size_of::<T>()
            + self.chunks.capacity() * size_of::<Chunk<T>>()
    }

    /// The bytes that it holds in addition once `cells` more are inserted.
    pub(super) fn growth(&self, cells: usize) -> usize {
        let free = self.held * T::CHUNK as usize - self.len;
        let chunks = cells.saturating_sub(free).div_ceil(T::CHUNK as usize);
        let new = chunks.saturating_sub(self.chunks.len() - self.held);
        if self.end() + new * T::CHUNK as usize > MOST {
            return usize::MAX;
        }
        chunks * T::CHUNK as usize * size_of::<T>()
            + added_capacity(&self.chunks, new) * size_of::<Chunk<T>>()
    }

    fn add_chunk(&mut self) {
        let mut cells: Box<[T]> = (0..T::CHUNK).map(|_| T::default()).collect();
        for (next, cell) in (1..T::CHUNK).chain([NONE]).zip(&mut cells) {
            *cell.link() = next;
        }
        self.held += 1;
        let number = if self.returned == NONE {
            reserve(&mut self.chunks, 1);
            self.chunks.push(Chunk { cells, used: 0, free: 0, links: Links::default() });
            u32::try_from(self.chunks.len() - 1).unwrap_or(NONE)
        } else {
            let number = self.returned;
            let chunk = &mut self.chunks[number as usize];
            self.returned = chunk.links.next;
            (chunk.cells, chunk.free) = (cells, 0);
            number
        };
        self.reopen(number);
    }

    fn give_back(&mut self, number: u32) {
        self.close(number);
        let chunk = &mut self.chunks[number as usize];
        chunk.cells = Box::default();
        chunk.links.next = self.returned;
        self.returned = number;
        self.held -= 1;
    }

    /// Put a chunk first among those with a free cell.
    fn reopen(&mut self, number: u32) {
        let next = self.open;
        self.chunks[number as usize].links = Links { previous: NONE, next };
        if next != NONE {
            self.chunks[next as usize].links.previous = number;
        }
        self.open = number;
    }

    fn close(&mut self, number: u32) {
        let Links { previous, next } = self.chunks[number as usize].links;
        match previous {
            NONE => self.open = next,
            previous => self.chunks[previous as usize].links.next = next,
        }
        if next != NONE {
            self.chunks[next as usize].links.previous = previous;
        }
    }
}

impl<T: Cell> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.chunks[(slot / T::CHUNK) as usize].cells[(slot % T::CHUNK) as usize]
    }
}

impl<T: Cell> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.chunks[(slot / T::CHUNK) as usize].cells[(slot % T::CHUNK) as usize]
    }
}

/// By how much [`reserve`] would raise the capacity of a vector.
pub(super) fn added_capacity<T>(of: &Vec<T>, items: usize) -> usize {
    let needed = of.len() + items;
    if needed <= of.capacity() {
        0
    } else {
        needed.next_power_of_two().max(4) - of.capacity()
    }
}

/// Make room in a vector. Its capacity is known beforehand, and the same for all orders of
/// insertions.
pub(super) fn reserve<T>(to: &mut Vec<T>, items: usize) {
    let added = added_capacity(to, items);
    if added > 0 {
        to.reserve_exact(to.capacity() + added - to.len());
    }
}
