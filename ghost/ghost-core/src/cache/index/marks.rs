//! Marks of names, with the time of the latest invalidation of each, in a table of fixed size.
//!
//! In:  names with their owner and a time; later, the names of an object.
//! Out: when the latest of their marks was. It is never earlier than that. It may be later, if
//!      other names were marked: the object is then fetched once more than necessary.
//!
//! A name has a bucket with room for fifteen marks, each with a fingerprint of the name and one of
//! its owner, 32 and 31 bits of hashes with a secret key. What has no room any more is forgotten
//! in such a way that it covers more names, never fewer:
//!
//! 1. A mark older than a minute counts for all names of the bucket. A fetch that began after it
//!    isn't concerned.
//! 2. Of the owner and mode with the most marks in the bucket, the two oldest become one that
//!    counts for all names of this owner in the bucket. So a flood of one owner's invalidations
//!    costs its own fetches: marks of others go only where they are the most.
//! 3. If each has one mark only, the oldest counts for all names of the bucket.
//!
//! What is reported by mistake, for each name of an object, if the fetch lasts less than a minute:
//!
//! | Other names that were invalidated meanwhile | Probability |
//! |---|---|
//! | any number, for fewer than eight other owners | 15 · 2⁻³²: a fingerprint is the same |
//! | 5,000 for its own owner, or for all | below 10⁻¹⁰: fifteen of them are in its bucket |
//! | 20,000 | 2 · 10⁻⁴ |
//! | 40,000 | 7 % |
//!
//! Where others flood as well, the object's owner has its part of the fifteen: half beside one.

use std::mem::size_of;

use super::keys::Key;
use super::purge::{Mode, Moment};

/// How many buckets: a power of two.
const BUCKETS: usize = 1 << 12;
/// How many marks a bucket has.
const MARKS: usize = 15;
/// How old a mark is before it is the first to be forgotten, in nanoseconds.
const OLD: u64 = 60_000_000_000;
/// The fingerprint that stands for all names.
const ANY: u32 = 0;

/// The latest invalidation of each mode in nanoseconds, zero if there was none.
pub(super) type Times = [u64; 2];

pub(super) fn times(mode: Mode, at: Moment) -> Times {
    let mut times = [0; 2];
    times[mode as usize] = at.nanos().max(1);
    times
}

pub(super) fn raise(times: &mut Times, to: Times) {
    for (time, to) in times.iter_mut().zip(to) {
        *time = to.max(*time);
    }
}

/// Whose objects an invalidation concerns: those of a route, of a namespace, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner(u32);

impl Owner {
    pub(super) const ALL: Self = Self(0);

    pub(super) fn of(key: Key) -> Self {
        Self((key.fingerprint() >> 1).max(1))
    }
}

/// A name to be marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) key: Key,
    pub(super) owner: Owner,
}

/// A mark; free if its time is zero.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    name: u32,
    /// Owner and mode.
    group: u32,
    at: u64,
}

impl Mark {
    fn new(name: Name, mode: Mode, at: u64) -> Self {
        Self { name: fingerprint(name.key), group: name.owner.0 << 1 | mode as u32, at }
    }

    fn mode(&self) -> usize {
        (self.group & 1) as usize
    }

    fn concerns(&self, name: u32, owners: &[Owner]) -> bool {
        (self.name == name || self.name == ANY) && owners.contains(&Owner(self.group >> 1))
    }
}

fn fingerprint(name: Key) -> u32 {
    name.fingerprint().max(ANY + 1)
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    marks: [Mark; MARKS],
    /// Of names that have no mark any more.
    forgotten: Times,
}

impl Bucket {
    fn mark(&mut self, new: Mark) {
        let is_same = |mark: &&mut Mark| (mark.name, mark.group) == (new.name, new.group);
        if let Some(same) = self.marks.iter_mut().find(is_same) {
            same.at = same.at.max(new.at);
            return;
        }
        let free = self.marks.iter().position(|mark| mark.at == 0);
        let place = free.unwrap_or_else(|| self.make_room(new.at));
        self.marks[place] = new;
    }

    /// Out: a place whose mark is covered by others from now on. No place was free.
    fn make_room(&mut self, now: u64) -> usize {
        let oldest = self.oldest(|_| true).unwrap_or(0);
        let is_old = self.marks[oldest].at.saturating_add(OLD) < now;
        if let Some(group) = self.largest_group().filter(|_| !is_old) {
            if let Some(place) = self.merge(group) {
                return place;
            }
        }
        let Mark { at, .. } = self.marks[oldest];
        let forgotten = &mut self.forgotten[self.marks[oldest].mode()];
        *forgotten = at.max(*forgotten);
        oldest
    }

    /// The group with the most marks, if it has several.
    fn largest_group(&self) -> Option<u32> {
        let size = |group| self.marks.iter().filter(|mark| mark.group == group).count();
        let groups = self.marks.iter().map(|mark| (size(mark.group), mark.group));
        groups.max().filter(|(size, _)| *size > 1).map(|(_, group)| group)
    }

    /// Have one mark stand for the two oldest of a group. Out: the place of the other one.
    fn merge(&mut self, group: u32) -> Option<usize> {
        let of_group = |mark: &Mark| mark.group == group;
        let any = self.marks.iter().position(|mark| of_group(mark) && mark.name == ANY);
        let into = any.or_else(|| self.oldest(of_group))?;
        self.marks[into].name = ANY;
        let from = self.oldest(|mark| of_group(mark) && mark.name != ANY)?;
        self.marks[into].at = self.marks[into].at.max(self.marks[from].at);
        Some(from)
    }

    fn oldest(&self, which: impl Fn(&Mark) -> bool) -> Option<usize> {
        let marks = self.marks.iter().enumerate().filter(|(_, mark)| which(mark));
        marks.min_by_key(|(_, mark)| mark.at).map(|(place, _)| place)
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Marks(Box<[Bucket]>);

impl Default for Marks {
    fn default() -> Self {
        Self(vec![Bucket::default(); BUCKETS].into())
    }
}

impl Marks {
    /// The bytes that it holds.
    pub(super) const BYTES: usize = BUCKETS * size_of::<Bucket>();

    pub(super) fn mark(&mut self, name: Name, times: Times) {
        for mode in [Mode::Soft, Mode::Hard] {
            let at = times[mode as usize];
            if at > 0 {
                self.0[bucket(name.key)].mark(Mark::new(name, mode, at));
            }
        }
    }

    /// When an object with this name was invalidated, of any of these owners.
    pub(super) fn latest(&self, name: Key, owners: &[Owner]) -> Times {
        let bucket = &self.0[bucket(name)];
        let (name, mut latest) = (fingerprint(name), bucket.forgotten);
        for mark in bucket.marks.iter().filter(|mark| mark.concerns(name, owners)) {
            let time = &mut latest[mark.mode()];
            *time = mark.at.max(*time);
        }
        latest
    }
}

fn bucket(name: Key) -> usize {
    usize::try_from(name.bits() % BUCKETS as u64).unwrap_or(0)
}
