//! The set against a sorted map that holds the same.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Children, Cursor, Node, Resource, ResourceSet};
use bytes::Bytes;
use std::sync::Arc;

type Model = BTreeMap<u16, u8>;

fn resource(name: u16, body: u8) -> Arc<Resource> {
    Arc::new(Resource::from_bytes(
        format!("outbound|80||s{name}"),
        Bytes::copy_from_slice(&[body]),
    ))
}

fn name(name: u16) -> Arc<str> {
    resource(name, 0).name.clone()
}

fn set(model: &Model) -> ResourceSet {
    ResourceSet::new(model.iter().map(|(name, body)| resource(*name, *body)))
}

/// Names and bodies, by name.
fn listed(set: &ResourceSet) -> Vec<(String, u8)> {
    set.iter()
        .map(|r| (r.name.to_string(), r.body[0]))
        .collect()
}

fn model() -> impl Strategy<Value = Model> {
    proptest::collection::btree_map(0..2_000u16, 0..3u8, 0..600)
}

proptest! {
    #[test]
    fn an_edited_set_is_the_same_as_one_made_at_once(
        before in model(),
        gone in proptest::collection::btree_set(0..2_000u16, 0..40),
        new in proptest::collection::btree_map(0..2_000u16, 0..3u8, 0..40),
    ) {
        let edited = set(&before).replaced(
            &gone.iter().map(|n| name(*n)).collect::<Vec<_>>(),
            new.iter().map(|(n, body)| resource(*n, *body)),
        );
        let mut after = before.clone();
        after.retain(|n, _| !gone.contains(n));
        after.extend(&new);
        let expected = set(&after);
        prop_assert_eq!(listed(&edited), listed(&expected));
        prop_assert_eq!(edited.fingerprint(), expected.fingerprint());
        prop_assert_eq!(edited.len(), after.len());

        let added = set(&before).and(new.iter().map(|(n, body)| resource(*n, *body)));
        let mut after = new;
        after.extend(&before);
        prop_assert_eq!(&added, &set(&after));
    }

    #[test]
    fn the_difference_names_what_is_not_alike(a in model(), b in model(), related in any::<bool>()) {
        let b = if related {
            let mut near = a.clone();
            near.extend(b.into_iter().take(20));
            near
        } else {
            b
        };
        let (older, newer) = (set(&a), set(&b));
        let mut seen = BTreeMap::new();
        newer.since(&older, |old, new| {
            let either = old.or(new).expect("one of them has it");
            seen.insert(either.name.clone(), (old.map(|r| r.body[0]), new.map(|r| r.body[0])));
        });
        let mut expected = BTreeMap::new();
        for n in a.keys().chain(b.keys()) {
            let pair = (a.get(n).copied(), b.get(n).copied());
            if pair.0 != pair.1 {
                expected.insert(name(*n), pair);
            }
        }
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(a == b, older == newer);
    }

    #[test]
    fn every_name_is_found_and_no_other(model in model()) {
        let set = set(&model);
        let mut cursor = Cursor::new(Some(&set));
        for n in 0..2_000 {
            let found = set.get(&name(n)).map(|r| r.body[0]);
            prop_assert_eq!(found, model.get(&n).copied());
            prop_assert_eq!(cursor.seek(&name(n)).map(|r| r.body[0]), found);
        }
    }
}

#[test]
fn one_change_leaves_nearly_every_node_of_a_large_set_in_place() {
    fn nodes(node: &Arc<Node>, found: &mut Vec<*const Node>) {
        found.push(Arc::as_ptr(node));
        if let Children::Inner(list) = &node.parts {
            list.iter().for_each(|n| nodes(n, found));
        }
    }
    let before = ResourceSet::new((0..20_000).map(|n| resource(n, 0)));
    let after = before.replaced([], [resource(777, 1)]);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    nodes(before.0.as_ref().expect("not empty"), &mut old);
    nodes(after.0.as_ref().expect("not empty"), &mut new);
    old.sort_unstable();
    let made = new.iter().filter(|n| old.binary_search(n).is_err()).count();
    assert!(old.len() > 1_000, "{}", old.len());
    // A path from the root, and beside it what no boundary closes.
    assert!(made < 20, "{made}");
}

#[test]
fn a_set_says_how_large_it_is_and_leaves_out_what_no_stream_takes() {
    let named = |length: usize| Arc::new(Resource::from_bytes("n".repeat(length), "body".into()));
    let short = ResourceSet::new((1..=200).map(named));
    assert_eq!((short.bytes(), ResourceSet::default().bytes()), (800, 0));
    assert!(short.clone().without_long_names().same(&short));
    let longest = short.and([named(crate::NAME_BYTES)]);
    assert_eq!(longest.clone().without_long_names().len(), 201);
    let long = longest.and([named(crate::NAME_BYTES + 1)]);
    assert_eq!(long.bytes(), 808);
    assert_eq!(long.without_long_names(), longest);
}
