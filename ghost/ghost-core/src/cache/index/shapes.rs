//! Which query parameters policies ignore, for those who look for the objects of a URI.
//!
//! An object stands for all URIs that differ only in parameters which its policy ignores, and in
//! the order of the others. The index knows it by one of them: without these parameters, in the
//! order of the key, with a number for what is ignored, its *shape*. An invalidation of a URI
//! looks for what that URI is in each shape in which a namespace has something for its host: an
//! object, or a fetch. A shape without either is freed, and its number is never used again.
//!
//! What a shape holds is at most an entry of 28 bytes for each object; a namespace has at most
//! [`MOST`] shapes, with [`MOST_HOSTS`] entries each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;

use super::super::key::{QueryPolicy, Shape};
use super::keys::{Key, Keys};
use super::lock;
use super::purge::Scope;
use super::Refused;

/// The most shapes of a namespace at the same time. Policies of more have nothing stored.
const MOST: usize = 8192;
/// The most hosts that are told apart for a shape. Uses for further ones count for all hosts.
const MOST_HOSTS: usize = 1024;

/// A target as the index knows it.
#[must_use]
pub fn indexed(mut target: Vec<u8>, shape: u64) -> Vec<u8> {
    if shape > 0 {
        // No target that a client can request has a NUL byte.
        target.push(0);
        target.extend_from_slice(shape.to_string().as_bytes());
    }
    target
}

/// Path and query of what the index knows.
#[must_use]
pub fn target_of(indexed: &[u8]) -> &[u8] {
    indexed.split(|&byte| byte == 0).next().unwrap_or(indexed)
}

/// The shape of what the index knows; 0 if all parameters count.
pub(super) fn shape_of(indexed: &[u8]) -> u64 {
    let number = indexed.iter().rposition(|&byte| byte == 0).map(|nul| &indexed[nul + 1..]);
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.unwrap_or(0)
}

/// What uses a shape: an object or a fetch of a namespace, for a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) namespace: Key,
    pub(super) host: Key,
    pub(super) shape: u64,
}

/// A fetch in a shape, until this is dropped.
#[derive(Debug)]
pub struct HeldShape {
    shapes: Arc<Shapes>,
    used: Use,
}

impl HeldShape {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.used.shape
    }
}

impl Drop for HeldShape {
    fn drop(&mut self) {
        self.shapes.release(self.used);
    }
}

#[derive(Debug)]
struct Known {
    shape: Arc<Shape>,
    uses: u64,
    /// Uses for each host, and those for hosts that had no place.
    hosts: HashMap<Key, u32, RandomState>,
    elsewhere: u64,
}

impl Known {
    fn new(shape: Arc<Shape>) -> Self {
        Self { shape, uses: 0, hosts: HashMap::default(), elsewhere: 0 }
    }

    fn add(&mut self, host: Key) {
        self.uses += 1;
        if self.hosts.len() < MOST_HOSTS || self.hosts.contains_key(&host) {
            *self.hosts.entry(host).or_default() += 1;
        } else {
            self.elsewhere += 1;
        }
    }

    fn remove(&mut self, host: Key) {
        self.uses = self.uses.saturating_sub(1);
        match self.hosts.get_mut(&host) {
            Some(uses) if *uses > 1 => *uses -= 1,
            Some(_) => drop(self.hosts.remove(&host)),
            None => self.elsewhere = self.elsewhere.saturating_sub(1),
        }
    }

    fn has(&self, host: Key) -> bool {
        self.elsewhere > 0 || self.hosts.contains_key(&host)
    }
}

/// The shapes of a namespace.
#[derive(Debug, Default)]
struct Space {
    numbers: HashMap<Arc<Shape>, u64, RandomState>,
    known: HashMap<u64, Known, RandomState>,
}

#[derive(Debug, Default)]
struct Spaces {
    of: HashMap<Key, Space, RandomState>,
    last: u64,
}

/// The shapes of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Shapes(Mutex<Spaces>);

impl Shapes {
    /// The bytes that it takes without any shape, behind an `Arc`.
    pub(super) const OWN_BYTES: usize = size_of::<Self>() + 2 * size_of::<usize>();

    /// A fetch begins. None if all parameters count.
    ///
    /// # Errors
    /// Its namespace has too many shapes.
    pub(super) fn hold(
        self: &Arc<Self>,
        namespace: Key,
        host: Key,
        query: &QueryPolicy,
    ) -> Result<Option<HeldShape>, Refused> {
        let Some(shape) = query.shape() else { return Ok(None) };
        let mut spaces = lock(&self.0);
        let Spaces { of, last } = &mut *spaces;
        let Space { numbers, known } = of.entry(namespace).or_default();
        let number = match numbers.get(&shape) {
            Some(&number) => number,
            None if known.len() >= MOST => return Err(Refused::Full),
            None => {
                *last += 1;
                let shape = Arc::new(shape);
                known.insert(*last, Known::new(Arc::clone(&shape)));
                numbers.insert(shape, *last);
                *last
            }
        };
        if let Some(known) = known.get_mut(&number) {
            known.add(host);
        }
        let used = Use { namespace, host, shape: number };
        Ok(Some(HeldShape { shapes: Arc::clone(self), used }))
    }

    /// An object enters the index. False if its shape has been freed: its fetch is gone.
    pub(super) fn retain(&self, used: Use) -> bool {
        if used.shape == 0 {
            return true;
        }
        let mut spaces = lock(&self.0);
        let space = spaces.of.get_mut(&used.namespace);
        let known = space.and_then(|space| space.known.get_mut(&used.shape));
        known.map(|known| known.add(used.host)).is_some()
    }

    pub(super) fn release(&self, used: Use) {
        if used.shape == 0 {
            return;
        }
        let mut spaces = lock(&self.0);
        let Some(space) = spaces.of.get_mut(&used.namespace) else { return };
        let Some(known) = space.known.get_mut(&used.shape) else { return };
        known.remove(used.host);
        if known.uses == 0 {
            let shape = Arc::clone(&known.shape);
            space.numbers.remove(&shape);
            space.known.remove(&used.shape);
        }
        if space.known.is_empty() {
            spaces.of.remove(&used.namespace);
        }
    }

    /// What the index may know a URI as, in the namespaces that are within reach.
    pub(super) fn forms(
        &self,
        keys: &Keys,
        host: &[u8],
        target: &[u8],
        scope: &Scope<'_>,
    ) -> Vec<Vec<u8>> {
        let mut forms = vec![QueryPolicy::All.canonical(target)];
        let here = self.here(keys.host(host), namespaces(keys, scope).as_deref());
        forms.extend(here.into_iter().map(|(number, shape)| {
            indexed(QueryPolicy::of_shape(&shape).canonical(target), number)
        }));
        forms
    }

    fn here(&self, host: Key, namespaces: Option<&[Key]>) -> Vec<(u64, Arc<Shape>)> {
        let spaces = lock(&self.0);
        let of = |space: &Space| -> Vec<_> {
            let here = space.known.iter().filter(|(_, known)| known.has(host));
            here.map(|(&number, known)| (number, Arc::clone(&known.shape))).collect()
        };
        match namespaces {
            None => spaces.of.values().flat_map(of).collect(),
            Some(some) => some.iter().filter_map(|name| spaces.of.get(name)).flat_map(of).collect(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).of.values().map(|space| space.known.len()).sum()
    }
}

/// The namespaces whose objects are within reach, without repetitions; None: all.
fn namespaces(keys: &Keys, scope: &Scope<'_>) -> Option<Vec<Key>> {
    let mut namespaces: Vec<_> = match scope {
        Scope::All => return None,
        Scope::Routes(routes) => routes.iter().map(|route| keys.namespace_of(route)).collect(),
        Scope::Namespace(name) => vec![keys.namespace(name)],
        Scope::Owners { namespaces, routes } => namespaces
            .iter()
            .map(|name| keys.namespace(name))
            .chain(routes.iter().map(|route| keys.namespace_of(route)))
            .collect(),
    };
    namespaces.sort_unstable();
    namespaces.dedup();
    Some(namespaces)
}
