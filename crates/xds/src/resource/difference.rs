//! What differs between two trees: only nodes that are not in both are looked into.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Resource;
use super::tree::{Children, Node};

/// Called with each name that is not alike in both, in order: as it is in the older and in the newer tree.
pub(super) type Visit<'a> = dyn FnMut(Option<&Arc<Resource>>, Option<&Arc<Resource>>) + 'a;

pub(super) fn between(older: Option<&Arc<Node>>, newer: Option<&Arc<Node>>, visit: &mut Visit<'_>) {
    let level = older.iter().chain(&newer).map(|n| n.level).max();
    let older: Vec<_> = older.into_iter().collect();
    let newer: Vec<_> = newer.into_iter().collect();
    nodes(&older, &newer, level.unwrap_or(0), visit);
}

fn alike(a: &Arc<Node>, b: &Arc<Node>) -> bool {
    Arc::ptr_eq(a, b) || a.hash == b.hash && a.len == b.len
}

/// Compares two sequences of nodes of at most `level`; those of lower ones stand for themselves.
fn nodes(older: &[&Arc<Node>], newer: &[&Arc<Node>], level: u32, visit: &mut Visit<'_>) {
    let (mut a, mut b) = (0, 0);
    while a < older.len() || b < newer.len() {
        let start = (a, b);
        // Up to where both end with the same name, or begin alike.
        loop {
            match (older.get(a), newer.get(b)) {
                (Some(x), Some(y)) => match x.last.name.cmp(&y.last.name) {
                    Ordering::Equal if alike(x, y) => break,
                    Ordering::Equal => {
                        (a, b) = (a + 1, b + 1);
                        break;
                    }
                    Ordering::Less => a += 1,
                    Ordering::Greater => b += 1,
                },
                (Some(_), None) => a = older.len(),
                (None, Some(_)) => b = newer.len(),
                (None, None) => break,
            }
        }
        let (x, y) = (&older[start.0..a], &newer[start.1..b]);
        if x.is_empty() && y.is_empty() {
            (a, b) = (a + 1, b + 1);
        } else if level == 0 {
            resources(x, y, visit);
        } else {
            nodes(&below(x, level), &below(y, level), level - 1, visit);
        }
    }
}

/// The nodes of the next lower level.
fn below<'a>(list: &[&'a Arc<Node>], level: u32) -> Vec<&'a Arc<Node>> {
    let mut found = Vec::new();
    for node in list {
        match &node.parts {
            Children::Inner(parts) if node.level == level => found.extend(parts),
            _ => found.push(*node),
        }
    }
    found
}

fn resources(older: &[&Arc<Node>], newer: &[&Arc<Node>], visit: &mut Visit<'_>) {
    fn flat<'a>(list: &'a [&'a Arc<Node>]) -> impl Iterator<Item = &'a Arc<Resource>> {
        list.iter().flat_map(|node| match &node.parts {
            Children::Leaf(list) => list.iter(),
            Children::Inner(_) => [].iter(),
        })
    }
    let (mut a, mut b) = (flat(older).peekable(), flat(newer).peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.name.cmp(&y.name),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        match order {
            Ordering::Less => visit(a.next(), None),
            Ordering::Greater => visit(None, b.next()),
            Ordering::Equal => {
                let (x, y) = (a.next(), b.next());
                if x.map(|r| r.version) != y.map(|r| r.version) {
                    visit(x, y);
                }
            }
        }
    }
}
