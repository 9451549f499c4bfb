//! Doubly linked lists through fields of cells, and cursors on them.

use std::mem::size_of;

use super::slab::{reserve, Cell, Slab, NONE};

/// The neighbours of a cell in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}

/// Put a cell first. Who reads the list from its beginning has left the beginning behind: a
/// walk never meets what is added after it began.
pub(super) fn push<T: Cell>(
    cells: &mut Slab<T>,
    links: impl Fn(&mut T) -> &mut Links,
    head: &mut u32,
    slot: u32,
) {
    *links(&mut cells[slot]) = Links { previous: NONE, next: *head };
    if *head != NONE {
        links(&mut cells[*head]).previous = slot;
    }
    *head = slot;
}

/// Take a cell out. Out: the cell that followed it.
pub(super) fn unlink<T: Cell>(
    cells: &mut Slab<T>,
    links: impl Fn(&mut T) -> &mut Links,
    head: &mut u32,
    slot: u32,
) -> u32 {
    let Links { previous, next } = *links(&mut cells[slot]);
    match previous {
        NONE => *head = next,
        previous => links(&mut cells[previous]).next = next,
    }
    if next != NONE {
        links(&mut cells[next]).previous = previous;
    }
    next
}

/// The lists that an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// The objects of a URI.
    Uri,
    /// The objects of a rule.
    Rule,
    /// The members of a tag.
    Tag,
}

#[derive(Debug)]
struct Cursor {
    id: u32,
    list: List,
    next: u32,
}

/// The places where walks continue that have given up the lock for a moment.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    cursors: Vec<Cursor>,
    last: u32,
}

impl Cursors {
    /// Out: what [`take`](Self::take) wants.
    pub(super) fn register(&mut self, list: List, next: u32) -> u32 {
        self.last = self.last.wrapping_add(1);
        reserve(&mut self.cursors, 1);
        self.cursors.push(Cursor { id: self.last, list, next });
        self.last
    }

    /// The cell at which a walk continues; [`NONE`] if its list has ended meanwhile.
    pub(super) fn take(&mut self, id: u32) -> u32 {
        let at = self.cursors.iter().position(|cursor| cursor.id == id);
        at.map_or(NONE, |at| self.cursors.swap_remove(at).next)
    }

    /// A cell has left its list.
    pub(super) fn unlinked(&mut self, list: List, slot: u32, next: u32) {
        for cursor in &mut self.cursors {
            if cursor.list == list && cursor.next == slot {
                cursor.next = next;
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.cursors.capacity() * size_of::<Cursor>()
    }
}
