//! The order in which ghost tries the endpoints of a pool.

use crate::random;

/// Every index below a number once, in random order. The first costs one random number;
/// only a second one allocates.
pub enum TryOrder {
    /// None tried yet, of this many.
    Fresh(usize),
    /// The first one tried, and how many there are.
    One(usize, usize),
    /// Those that are left.
    Rest(Vec<usize>),
}

impl TryOrder {
    /// Of the indices below `length`.
    pub fn new(length: usize) -> Self {
        Self::Fresh(length)
    }
}

impl Iterator for TryOrder {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Fresh(0) => None,
            &mut Self::Fresh(length) => {
                let first = random::below(length);
                *self = Self::One(first, length);
                Some(first)
            }
            &mut Self::One(first, length) => {
                *self = Self::Rest((0..length).filter(|&index| index != first).collect());
                self.next()
            }
            Self::Rest(rest) if rest.is_empty() => None,
            Self::Rest(rest) => Some(rest.swap_remove(random::below(rest.len()))),
        }
    }
}
