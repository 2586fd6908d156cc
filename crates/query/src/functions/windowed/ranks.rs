//! [`Ranks`]: numbers in order, each with how often it is there. One comes, goes or is found by its rank in steps that
//! grow with the logarithm of how many there are.
//!
//! A tree as of a B+ tree: keys in leaves, and above each node how much is below it. Nodes that grow full are cut in
//! two, those that nothing is left in go; others are not put together, so that a tree is as high as the most that it
//! ever held asks for.

use datafusion::arrow::array::ArrowNativeTypeOp;
use std::cmp::Ordering;

/// Keys of a leaf, and children of a node: searched by halves, moved at once.
const WIDTH_MAX: usize = 64;

/// See the file's header. Keys are in the order of [`ArrowNativeTypeOp::compare`].
#[derive(Debug)]
pub(super) struct Ranks<K> {
    root: Node<K>,
    /// Whether a key has one rank however often it is there.
    distinct: bool,
    /// Different keys.
    keys: usize,
}

#[derive(Debug)]
enum Node<K> {
    /// Keys and how often each is there, ascending.
    Leaf(Vec<(K, u64)>),
    Inner(Vec<Child<K>>),
}

#[derive(Debug)]
struct Child<K> {
    /// Not above any of its keys, nor below any of the child before; of the first child it says nothing.
    least: K,
    ranks: u64,
    node: Node<K>,
}

/// What a key that came did to a node.
struct Grown<K> {
    ranks: u64,
    keys: usize,
    /// Its upper half, where it was too wide, with the least key of that.
    cut: Option<(K, Node<K>)>,
}

impl<K: ArrowNativeTypeOp> Ranks<K> {
    pub(super) fn new(distinct: bool) -> Self {
        Self { root: Node::Leaf(Vec::new()), distinct, keys: 0 }
    }

    /// How many ranks there are.
    pub(super) fn len(&self) -> u64 {
        self.root.ranks(self.distinct)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys == 0
    }

    pub(super) fn insert(&mut self, key: K) {
        let grown = self.root.insert(key, self.distinct);
        self.keys += grown.keys;
        if let Some((least, upper)) = grown.cut {
            let lower = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            let child = |node: Node<K>| Child { least, ranks: node.ranks(self.distinct), node };
            self.root = Node::Inner(vec![child(lower), child(upper)]);
        }
    }

    /// Takes a key away once; `false` where it is not there.
    pub(super) fn remove(&mut self, key: K) -> bool {
        let Some(removed) = self.root.remove(key, self.distinct) else { return false };
        self.keys -= usize::from(removed.last);
        while let Node::Inner(children) = &mut self.root {
            if children.len() > 1 {
                break;
            }
            self.root = children.pop().map_or_else(|| Node::Leaf(Vec::new()), |child| child.node);
        }
        true
    }

    /// The key of this rank, from 0 on.
    pub(super) fn at(&self, rank: u64) -> Option<K> {
        let (mut node, mut rank) = (&self.root, rank);
        loop {
            match node {
                Node::Leaf(keys) if self.distinct => {
                    return keys.get(usize::try_from(rank).ok()?).map(|(key, _)| *key);
                }
                Node::Leaf(keys) => {
                    let found = keys.iter().find(|(_, rows)| {
                        let here = rank < *rows;
                        rank = rank.saturating_sub(*rows);
                        here
                    });
                    return found.map(|(key, _)| *key);
                }
                Node::Inner(children) => {
                    let found = children.iter().find(|child| {
                        let here = rank < child.ranks;
                        rank -= if here { 0 } else { child.ranks };
                        here
                    });
                    node = &found?.node;
                }
            }
        }
    }

    /// About how many bytes it holds.
    pub(super) fn size(&self) -> usize {
        // Nodes are half full at least when they are cut, and leaves have most of the bytes.
        2 * self.keys * size_of::<(K, u64)>()
    }
}

/// What the going of a key took away.
struct Removed {
    ranks: u64,
    /// Whether it was the last of its kind.
    last: bool,
}

/// The child that a key is in, or would be.
fn child_of<K: ArrowNativeTypeOp>(children: &[Child<K>], key: K) -> usize {
    children[1..].partition_point(|child| child.least.compare(key) != Ordering::Greater)
}

impl<K: ArrowNativeTypeOp> Node<K> {
    fn ranks(&self, distinct: bool) -> u64 {
        match self {
            Self::Leaf(keys) if distinct => keys.len() as u64,
            Self::Leaf(keys) => keys.iter().map(|(_, rows)| rows).sum(),
            Self::Inner(children) => children.iter().map(|child| child.ranks).sum(),
        }
    }

    fn insert(&mut self, key: K, distinct: bool) -> Grown<K> {
        match self {
            Self::Leaf(keys) => match keys.binary_search_by(|(held, _)| held.compare(key)) {
                Ok(at) => {
                    keys[at].1 += 1;
                    Grown { ranks: u64::from(!distinct), keys: 0, cut: None }
                }
                Err(at) => {
                    keys.insert(at, (key, 1));
                    let cut = (keys.len() > WIDTH_MAX).then(|| {
                        let upper = keys.split_off(keys.len() / 2);
                        (upper[0].0, Self::Leaf(upper))
                    });
                    Grown { ranks: 1, keys: 1, cut }
                }
            },
            Self::Inner(children) => {
                let at = child_of(children, key);
                let child = &mut children[at];
                let Grown { ranks, keys, cut } = child.node.insert(key, distinct);
                child.ranks += ranks;
                if let Some((least, node)) = cut {
                    let upper = Child { least, ranks: node.ranks(distinct), node };
                    child.ranks -= upper.ranks;
                    children.insert(at + 1, upper);
                }
                let cut = (children.len() > WIDTH_MAX).then(|| {
                    let upper = children.split_off(children.len() / 2);
                    (upper[0].least, Self::Inner(upper))
                });
                Grown { ranks, keys, cut }
            }
        }
    }

    fn remove(&mut self, key: K, distinct: bool) -> Option<Removed> {
        match self {
            Self::Leaf(keys) => {
                let at = keys.binary_search_by(|(held, _)| held.compare(key)).ok()?;
                keys[at].1 -= 1;
                let last = keys[at].1 == 0;
                if last {
                    keys.remove(at);
                }
                Some(Removed { ranks: u64::from(last || !distinct), last })
            }
            Self::Inner(children) => {
                let at = child_of(children, key);
                let removed = children[at].node.remove(key, distinct)?;
                children[at].ranks -= removed.ranks;
                if children[at].ranks == 0 {
                    children.remove(at);
                }
                Some(removed)
            }
        }
    }
}
