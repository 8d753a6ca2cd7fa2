//! Whatever owners say, in any order: the snapshot is that of a store that was told the final state alone, and the keys
//! of each change are those of what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::InputKey;
use model::change::ServiceKey;
use model::{Change, Contents, Hostname, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_store::{Input, Snapshot, Store};
use proptest::prelude::*;

use super::model_store::Model;
use super::{collection, endpoints, entry, in_cluster, pod, shard_key, store};

const KINDS: [Kind; 2] = [Kind::ServiceEntry, Kind::Pod];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn owners() -> [Owner; 4] {
    [
        Owner::new(10, "files"),
        in_cluster(10, "files", "west"),
        in_cluster(20, "kubernetes:west", "west"),
        Owner::new(200, "api"),
    ]
}

/// One thing that a source may say.
fn change() -> impl Strategy<Value = Change> {
    let owner = prop::sample::select(owners().to_vec());
    let name = prop::sample::select(&NAMES[..]);
    let kind = prop::sample::select(&KINDS[..]);
    let of = prop_oneof![
        3 => kind.clone().prop_map(Contents::Objects),
        1 => Just(Contents::Endpoints),
    ];
    let object = (kind.clone(), name.clone(), 0..2u8).prop_map(|(kind, name, spec)| match kind {
        Kind::Pod => pod(name, &format!("10.0.0.{spec}")),
        _ => entry(name, &format!("h{spec}.com")),
    });
    let key = (kind, name.clone()).prop_map(|(kind, name)| ObjectKey {
        kind,
        name: ObjectName::new("shop", name),
    });
    let shard = prop::sample::select(&["east", "west"][..]);
    let list = prop::sample::select(vec![vec![], vec!["10.1.0.1"], vec!["10.1.0.1", "10.1.0.2"]]);
    prop_oneof![
        8 => (owner.clone(), object).prop_map(|(owner, object)| Change::Put(owner, object)),
        3 => (owner.clone(), key.clone()).prop_map(|(owner, key)| Change::Delete(owner, key)),
        2 => (owner.clone(), key).prop_map(|(owner, key)| Change::Keep(owner, key, Vec::new())),
        2 => (owner.clone(), name, 0..2u8, 0..3usize).prop_map(|(owner, name, spec, beside)| {
            let host = format!("closed{spec}.com");
            let own = super::closed(name, &host);
            let key = own.key();
            let beside = (0..beside).map(|n| super::closed(&format!("{name}-{n}"), &host));
            Change::Keep(owner, key, std::iter::once(own).chain(beside).collect())
        }),
        4 => (owner.clone(), shard.clone(), list)
            .prop_map(|(owner, shard, list)| endpoints(&owner, shard, &list)),
        1 => (owner.clone(), shard).prop_map(|(owner, shard)| Change::DeleteEndpoints {
            owner,
            service: super::service(),
            shard: shard_key(shard),
        }),
        2 => (owner.clone(), of.clone())
            .prop_map(|(owner, of)| Change::Restart(collection(&owner, of))),
        2 => (owner.clone(), of).prop_map(|(owner, of)| Change::Synced(collection(&owner, of))),
        1 => owner.prop_map(Change::Gone),
    ]
}

/// Every row as text, by its input key, and every bucket with the rows in it.
fn rows(snapshot: &Snapshot) -> BTreeMap<InputKey, String> {
    let mut rows = BTreeMap::new();
    for kind in KINDS {
        for object in snapshot.tables.iter_any(kind) {
            let key = object.key();
            let text = format!("{key} {}", object.spec_json());
            let status = format!("{object:?}");
            rows.insert(Input::Row(kind, &key.name).key(), text + &status);
        }
    }
    for (service, shards) in snapshot.shards.iter() {
        rows.insert(Input::Shards(service).key(), format!("{shards:?}"));
    }
    rows
}

/// What buckets hold, by their keys.
fn buckets(snapshot: &Snapshot) -> BTreeMap<InputKey, String> {
    let mut buckets: BTreeMap<InputKey, String> = BTreeMap::new();
    for kind in KINDS {
        for object in snapshot.tables.iter_any(kind) {
            let key = object.key();
            let namespace = &key.name.namespace;
            let (whole, member) = (format!("{object:?}"), key.to_string());
            let mut add = |bucket: InputKey, text: &str| {
                buckets.entry(bucket).or_default().push_str(text);
            };
            add(Input::Contents(kind).key(), &whole);
            add(Input::ContentsIn(kind, namespace).key(), &whole);
            add(Input::Members(kind).key(), &member);
            add(Input::MembersIn(kind, namespace).key(), &member);
            if kind.is_per_cluster() {
                add(Input::Namesakes(kind, &key.name).key(), &whole);
            }
        }
    }
    buckets
}

fn differing(
    before: &BTreeMap<InputKey, String>,
    after: &BTreeMap<InputKey, String>,
) -> BTreeSet<InputKey> {
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(key) != after.get(key))
        .copied()
        .collect()
}

/// Keys of rows that may be in the world of this test, there or not.
fn row_keys() -> BTreeSet<InputKey> {
    let clusters = [None, Some("west".into())];
    let mut keys = BTreeSet::new();
    for cluster in &clusters {
        for (kind, name) in KINDS.iter().flat_map(|k| NAMES.map(|n| (*k, n))) {
            let name = ObjectName::new("shop", name).in_cluster(cluster.as_ref());
            keys.insert(Input::Row(kind, &name).key());
        }
    }
    keys.insert(
        Input::Shards(&ServiceKey {
            namespace: "shop".into(),
            host: Hostname::from("reviews.consul"),
        })
        .key(),
    );
    keys
}

/// Why a run is not as it should be.
fn fault(
    changes: &[Change],
    apply: impl Fn(&mut Store, &Change) -> BTreeSet<InputKey>,
) -> Option<String> {
    let mut model = Model::default();
    let mut store = store();
    let all_rows = row_keys();
    for (at, change) in changes.iter().enumerate() {
        let before = store.snapshot();
        let keys = apply(&mut store, change);
        model.apply(change);
        let after = store.snapshot();
        let rows = differing(&rows(&before), &rows(&after));
        let buckets = differing(&buckets(&before), &buckets(&after));
        if let Some(missing) = rows.union(&buckets).find(|key| !keys.contains(key)) {
            return Some(format!("{at}: {change:?}: {missing:?} is not told"));
        }
        let needless = keys.intersection(&all_rows).find(|key| !rows.contains(key));
        if let Some(key) = needless {
            return Some(format!("{at}: {change:?}: {key:?} is told and equal"));
        }
        let mut fresh = self::store();
        fresh.apply(model.state());
        let wanted = shown(&fresh.snapshot());
        let got = shown(&after);
        if got != wanted {
            return Some(format!("{at}: {change:?}: wanted {wanted}, got {got}"));
        }
    }
    None
}

/// All of a snapshot that does not count batches.
fn shown(snapshot: &Snapshot) -> String {
    let owners = |key: &ObjectKey| snapshot.tables.owner_of(key).map(Arc::clone);
    let objects = KINDS.iter().flat_map(|k| snapshot.tables.iter_any(*k));
    let objects: Vec<_> = objects.map(|o| (owners(&o.key()), o)).collect();
    let shards: Vec<_> = snapshot.shards.iter().collect();
    let contested: Vec<_> = snapshot.contested.iter().collect();
    format!("{objects:?} {shards:?} {contested:?}")
}

fn applied(store: &mut Store, change: &Change) -> BTreeSet<InputKey> {
    let changes = store.apply([change.clone()]);
    changes.keys.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_gives_what_its_final_state_gives(changes in prop::collection::vec(change(), 1..40)) {
        prop_assert_eq!(fault(&changes, applied), None);
    }

    #[test]
    fn a_batch_gives_what_its_changes_give(changes in prop::collection::vec(change(), 1..40)) {
        let (mut one, mut each) = (store(), store());
        let before = one.snapshot();
        let keys: BTreeSet<_> = one.apply(changes.clone()).keys.into_iter().collect();
        for change in changes {
            each.apply([change]);
        }
        prop_assert_eq!(shown(&one.snapshot()), shown(&each.snapshot()));
        let after = one.snapshot();
        let rows = differing(&rows(&before), &rows(&after));
        let buckets = differing(&buckets(&before), &buckets(&after));
        prop_assert!(rows.union(&buckets).all(|key| keys.contains(key)));
    }
}

/// Runs of the property in which a store with a fault is told apart from one without.
fn caught(apply: impl Fn(&mut Store, &Change) -> BTreeSet<InputKey>) -> bool {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let sequences = prop::collection::vec(change(), 20..40);
    (0..60).any(|_| {
        let changes = sequences.new_tree(&mut runner).unwrap().current();
        fault(&changes, &apply).is_some()
    })
}

#[test]
fn seeded_faults_are_caught() {
    assert!(!caught(applied), "there is no fault");
    type Fault = fn(&mut Store, &Change) -> BTreeSet<InputKey>;
    let faults: [(&str, Fault); 6] = [
        ("an owner stays", |store, change| match change {
            Change::Gone(_) => BTreeSet::new(),
            other => applied(store, other),
        }),
        ("a sync removes nothing", |store, change| match change {
            Change::Synced(_) => BTreeSet::new(),
            other => applied(store, other),
        }),
        ("a restart is of every kind", |store, change| match change {
            Change::Restart(of) => {
                let all = of.owner.collections().map(Change::Restart);
                let changes = store.apply(all.collect::<Vec<_>>());
                changes.keys.into_iter().collect()
            }
            other => applied(store, other),
        }),
        (
            "a deletion of endpoints only empties them",
            |store, change| match change {
                Change::DeleteEndpoints { owner, shard, .. } => {
                    applied(store, &endpoints(owner, &shard.cluster, &[]))
                }
                other => applied(store, other),
            },
        ),
        ("a row is not told", |store, change| {
            let mut keys = applied(store, change);
            if let Change::Put(owner, object) = change {
                let key = owner.key(&object.key());
                keys.remove(&Input::Row(key.kind, &key.name).key());
            }
            keys
        }),
        ("a row is told in vain", |store, change| {
            let mut keys = applied(store, change);
            if let Change::Put(owner, object) = change {
                let key = owner.key(&object.key());
                keys.insert(Input::Row(key.kind, &key.name).key());
            }
            keys
        }),
    ];
    for (what, apply) in faults {
        assert!(caught(apply), "{what}");
    }
}
