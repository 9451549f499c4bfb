//! A persistent hash map that allocates nothing while it is empty.

use std::borrow::Borrow;
use std::hash::Hash;

use foldhash::fast::RandomState;
use rpds::HashTrieMap;

type Trie<K, V> = HashTrieMap<K, V, archery::ArcTK, RandomState>;

/// Most nodes of the index have no children, and a trie has a root from the start.
#[derive(Clone, Debug)]
pub(super) struct Map<K: Eq + Hash, V>(Option<Trie<K, V>>);

impl<K: Eq + Hash, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: Eq + Hash, V> Map<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, HashTrieMap::size)
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.as_ref()?.get(key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().flat_map(HashTrieMap::values)
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Map<K, V> {
    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.as_mut()?.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.trie().insert_mut(key, value);
    }

    /// Remove `key`, if it is there.
    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let Some(trie) = &mut self.0 else { return };
        trie.remove_mut(key);
        if trie.is_empty() {
            self.0 = None;
        }
    }

    /// Change the value of `key`; an absent one starts as the default.
    pub(super) fn update<Q>(&mut self, key: &Q, change: impl FnOnce(&mut V))
    where
        Q: Eq + Hash + ?Sized,
        K: Borrow<Q> + for<'q> From<&'q Q>,
        V: Default,
    {
        if let Some(value) = self.get_mut(key) {
            change(value);
        } else {
            let mut value = V::default();
            change(&mut value);
            self.insert(key.into(), value);
        }
    }

    /// Change the value of `key` if there is one, and remove it if `change` returns true.
    pub(super) fn shrink<Q>(&mut self, key: &Q, change: impl FnOnce(&mut V) -> bool)
    where
        Q: Eq + Hash + ?Sized,
        K: Borrow<Q>,
    {
        if self.get_mut(key).is_some_and(change) {
            self.remove(key);
        }
    }

    fn trie(&mut self) -> &mut Trie<K, V> {
        self.0.get_or_insert_with(|| {
            HashTrieMap::new_with_hasher_and_ptr_kind(RandomState::default())
        })
    }
}
