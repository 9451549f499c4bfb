//! The URIs of each host in order: crit-bit trees.
//!
//! A branch names the first bit in which the URIs below it differ, so a descent reads the
//! branches and the sought URI only; the one stored URI at its end is compared once. Every URI
//! but the first of its host adds one branch of twelve bytes. All URIs with a prefix are one
//! subtree.
//!
//! Each byte counts nine bits, the first of which says that there is a byte: any bytes are
//! allowed, and a URI precedes those that it is a prefix of.

use std::mem::size_of;

use super::slab::{Cell, Slab, NONE};

/// Marks a node that is the number of a URI, not of a branch.
const LEAF: u32 = 1 << 31;

/// A URI of a host.
#[derive(Debug, Default)]
pub(super) struct Uri {
    pub(super) target: Box<[u8]>,
    pub(super) host: u32,
    /// Its first object.
    pub(super) objects: u32,
}

impl Cell for Uri {
    const CHUNK: u32 = 256;

    fn link(&mut self) -> &mut u32 {
        &mut self.objects
    }
}

#[derive(Debug, Default)]
struct Branch {
    bit: u32,
    children: [u32; 2],
}

impl Cell for Branch {
    const CHUNK: u32 = 256;

    fn link(&mut self) -> &mut u32 {
        &mut self.bit
    }
}

/// The trees of all hosts. A host holds the root of its own.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub(super) uris: Slab<Uri>,
    branches: Slab<Branch>,
    /// Of all targets.
    target_bytes: usize,
}

impl Trees {
    /// The bytes of a URI beside its target.
    pub(super) const BYTES_OF_URI: usize = size_of::<Uri>() + size_of::<Branch>();

    /// The bytes that they hold.
    pub(super) fn bytes(&self) -> usize {
        self.uris.bytes() + self.branches.bytes() + self.target_bytes
    }

    /// The bytes that they hold in addition once this is inserted.
    pub(super) fn growth(&self, target: &[u8]) -> usize {
        let cells = self.uris.growth(1).saturating_add(self.branches.growth(1));
        cells.saturating_add(target.len())
    }

    pub(super) fn find(&self, root: u32, target: &[u8]) -> Option<u32> {
        let uri = self.nearest(root, target)?;
        (*self.uris[uri].target == *target).then_some(uri)
    }

    /// The URI, new and without objects if it isn't there.
    pub(super) fn find_or_insert(&mut self, host: u32, root: &mut u32, target: &[u8]) -> u32 {
        let Some(near) = self.nearest(*root, target) else {
            let uri = self.add_uri(host, target);
            *root = LEAF | uri;
            return uri;
        };
        let Some(bit) = first_difference(&self.uris[near].target, target) else { return near };
        let uri = self.add_uri(host, target);
        let side = bit_of(target, bit);
        let mut children = [LEAF | uri; 2];
        let mut parent = None;
        let mut node = *root;
        while node & LEAF == 0 && self.branches[node].bit < bit {
            let side = bit_of(target, self.branches[node].bit);
            parent = Some((node, side));
            node = self.branches[node].children[side];
        }
        children[1 - side] = node;
        let branch = self.branches.insert(Branch { bit, children });
        match parent {
            Some((parent, side)) => self.branches[parent].children[side] = branch,
            None => *root = branch,
        }
        uri
    }

    /// Remove a URI that is in the tree with this root.
    pub(super) fn remove(&mut self, root: &mut u32, uri: u32) {
        let Uri { target, .. } = self.uris.remove(uri);
        self.target_bytes -= target.len();
        let mut parents = [None; 2];
        let mut node = *root;
        while node & LEAF == 0 {
            let side = bit_of(&target, self.branches[node].bit);
            parents = [parents[1], Some((node, side))];
            node = self.branches[node].children[side];
        }
        let Some((parent, side)) = parents[1] else {
            *root = NONE;
            return;
        };
        let sibling = self.branches.remove(parent).children[1 - side];
        match parents[0] {
            Some((grandparent, side)) => self.branches[grandparent].children[side] = sibling,
            None => *root = sibling,
        }
    }

    /// Begin to read the URIs with this prefix in order, those after `last` or all.
    pub(super) fn seek(&self, root: u32, prefix: &[u8], last: Option<&[u8]>) -> Unread {
        let mut unread = Unread(Vec::new());
        let Some(top) = self.below(root, prefix) else { return unread };
        let Some(last) = last else {
            unread.0.push(top);
            return unread;
        };
        let Some(near) = self.nearest(top, last) else { return unread };
        let bit = first_difference(&self.uris[near].target, last).unwrap_or(u32::MAX);
        let mut node = top;
        while node & LEAF == 0 && self.branches[node].bit < bit {
            let branch = &self.branches[node];
            let side = bit_of(last, branch.bit);
            if side == 0 {
                unread.0.push(branch.children[1]);
            }
            node = branch.children[side];
        }
        // Below this node all URIs are on the same side of `last`, or it is `last` itself.
        if bit != u32::MAX && bit_of(last, bit) == 0 {
            unread.0.push(node);
        }
        unread
    }

    /// The next URI. Only while the trees are as they were when `unread` was made.
    pub(super) fn read(&self, unread: &mut Unread) -> Option<u32> {
        let mut node = unread.0.pop()?;
        while node & LEAF == 0 {
            let [first, second] = self.branches[node].children;
            unread.0.push(second);
            node = first;
        }
        Some(node & !LEAF)
    }

    /// The node below which are all URIs with a prefix, and no others.
    fn below(&self, root: u32, prefix: &[u8]) -> Option<u32> {
        let end = bit_number(prefix.len(), 0);
        let mut node = root;
        while node & LEAF == 0 && self.branches[node].bit < end {
            let branch = &self.branches[node];
            node = branch.children[bit_of(prefix, branch.bit)];
        }
        let any = self.nearest(node, prefix)?;
        self.uris[any].target.starts_with(prefix).then_some(node)
    }

    /// The URI that is equal if one is.
    fn nearest(&self, root: u32, target: &[u8]) -> Option<u32> {
        let mut node = root;
        while node & LEAF == 0 {
            let branch = &self.branches[node];
            node = branch.children[bit_of(target, branch.bit)];
        }
        (node != NONE).then_some(node & !LEAF)
    }

    fn add_uri(&mut self, host: u32, target: &[u8]) -> u32 {
        self.target_bytes += target.len();
        self.uris.insert(Uri { target: target.into(), host, objects: NONE })
    }
}

/// Subtrees that haven't been read, the next one last.
#[derive(Debug)]
pub(super) struct Unread(Vec<u32>);

/// Bit `bit` of byte `byte`; bit 0 says that there is such a byte.
fn bit_number(byte: usize, bit: u32) -> u32 {
    u32::try_from(byte).map_or(u32::MAX, |byte| byte << 4 | bit)
}

fn bit_of(target: &[u8], number: u32) -> usize {
    match (target.get((number >> 4) as usize), number & 15) {
        (None, _) => 0,
        (Some(_), 0) => 1,
        (Some(byte), bit) => usize::from(byte >> (8 - bit) & 1),
    }
}

fn first_difference(one: &[u8], other: &[u8]) -> Option<u32> {
    let pairs = one.iter().zip(other);
    match pairs.clone().position(|(one, other)| one != other) {
        Some(at) => Some(bit_number(at, 1 + (one[at] ^ other[at]).leading_zeros())),
        None if one.len() == other.len() => None,
        None => Some(bit_number(one.len().min(other.len()), 0)),
    }
}
