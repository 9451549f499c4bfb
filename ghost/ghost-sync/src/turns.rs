//! Turns: who does an expensive thing next, of many groups of clients at once.

use std::collections::HashMap;
use std::sync::PoisonError;

use crate::primitives::{Mutex, MutexGuard};

/// How many have a place, and a turn.
#[derive(Debug, Default)]
struct Counts {
    places: usize,
    turns: usize,
}

#[derive(Debug, Default)]
struct State {
    all: Counts,
    /// Without groups that have no place.
    groups: HashMap<Box<str>, Counts>,
}

/// Places to wait at, and a few turns for those who wait.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    room: usize,
    at_once: usize,
    at_once_of_group: usize,
}

impl Turns {
    /// So many places and turns in all. A group has half of the places that others leave, and so
    /// many turns at most.
    #[must_use]
    pub fn new(room: usize, at_once: usize, at_once_of_group: usize) -> Self {
        Self { state: Mutex::default(), room, at_once, at_once_of_group }
    }

    /// A place, without a turn; None if the group has as many as it may have.
    pub fn wait(&self, group: &str) -> Option<Place<'_>> {
        let mut state = self.lock();
        let own = state.groups.get(group).map_or(0, |counts| counts.places);
        let left = self.room - (state.all.places - own);
        if own >= left.div_ceil(2) {
            return None;
        }
        state.all.places += 1;
        state.groups.entry(group.into()).or_default().places += 1;
        Some(Place { turns: self, group: group.into(), has_turn: false })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, until it is dropped, and its turn with it.
#[derive(Debug)]
pub struct Place<'t> {
    turns: &'t Turns,
    group: Box<str>,
    has_turn: bool,
}

impl Place<'_> {
    /// Take a turn. Out: whether it has one; otherwise ask again later.
    pub fn take_turn(&mut self) -> bool {
        let mut state = self.turns.lock();
        let State { all, groups } = &mut *state;
        let Some(own) = groups.get_mut(&self.group) else { return false };
        let is_free = all.turns < self.turns.at_once && own.turns < self.turns.at_once_of_group;
        if !self.has_turn && is_free {
            all.turns += 1;
            own.turns += 1;
            self.has_turn = true;
        }
        self.has_turn
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        let turns = usize::from(self.has_turn);
        state.all.places -= 1;
        state.all.turns -= turns;
        let Some(own) = state.groups.get_mut(&self.group) else { return };
        own.places -= 1;
        own.turns -= turns;
        if own.places == 0 {
            state.groups.remove(&self.group);
        }
    }
}
