use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::lead::Leading;
use crate::lease::{Candidate, Elector, Lock};
use crate::place::{ObjectRef, Place};
use crate::status::{Options, StatusWriter};
use crate::testing::{FakePlace, Faults};
use model::Timestamp;

fn entry(name: &str, created: i64, hosts: &[&str], held: &[(&str, &str)]) -> Entry {
    Entry {
        name: ObjectName::new("shop", name),
        uid: format!("uid-{name}").into(),
        generation: 0,
        created: Age::Since(Timestamp(created)),
        writable: true,
        hosts: hosts.iter().map(|h| (*h).into()).collect(),
        held: held
            .iter()
            .map(|(h, a)| ((*h).into(), (*a).into()))
            .collect(),
        user: Vec::new(),
    }
}

fn facts(entries: Vec<Entry>) -> Facts {
    Facts {
        entries,
        v4: "240.240.0.0/16".parse().unwrap(),
        v6: "2001:2::/48".parse().unwrap(),
    }
}

fn addresses(allocated: &Allocated, name: &str) -> Vec<String> {
    let of = &allocated.addresses[&ObjectName::new("shop", name)];
    of.iter().map(|(host, ip)| format!("{host}={ip}")).collect()
}

#[test]
fn older_entries_get_lower_addresses_and_keep_them() {
    let mut given = Given::default();
    let mut world = vec![entry("b", 2, &["b"], &[]), entry("a", 3, &["a", "a2"], &[])];
    let done = given.allocate(&facts(world.clone()));
    assert_eq!(addresses(&done, "b"), ["b=240.240.0.1", "b=2001:2::1"]);
    assert_eq!(
        addresses(&done, "a"),
        [
            "a=240.240.0.2",
            "a=2001:2::2",
            "a2=240.240.0.3",
            "a2=2001:2::3"
        ]
    );
    // An older one comes before anything was seen written, and another goes.
    world.push(entry("old", 1, &["old"], &[]));
    let done = given.allocate(&facts(world.clone()));
    assert_eq!(
        addresses(&done, "old"),
        ["old=240.240.0.4", "old=2001:2::4"]
    );
    assert_eq!(addresses(&done, "b"), ["b=240.240.0.1", "b=2001:2::1"]);
    world.remove(0);
    let done = given.allocate(&facts(world.clone()));
    assert_eq!(
        addresses(&done, "old"),
        ["old=240.240.0.4", "old=2001:2::4"]
    );
    // What is free again is given again.
    world.push(entry("new", 9, &["new"], &[]));
    let done = given.allocate(&facts(world));
    assert_eq!(
        addresses(&done, "new"),
        ["new=240.240.0.1", "new=2001:2::1"]
    );
}

#[test]
fn of_two_with_one_address_the_older_keeps_it_whether_it_was_given_or_stated() {
    let held = [("x", "240.240.0.7"), ("x", "2001:2::7")];
    let mut user = entry("user", 3, &[], &[]);
    user.user = vec![
        "240.240.0.1".parse().unwrap(),
        "240.240.0.8".parse().unwrap(),
    ];
    let mut late = entry("late", 9, &[], &[]);
    late.user = vec!["240.240.0.9".parse().unwrap()];
    let world = facts(vec![
        entry("young", 5, &["x"], &held),
        entry("old", 4, &["x"], &held),
        entry("third", 4, &["x"], &[("x", "240.240.0.8")]),
        entry("first", 1, &["x"], &[("x", "240.240.0.9")]),
        late,
        entry("own", 1, &["x"], &[("x", "10.0.0.1")]),
        user,
    ]);
    let done = Given::default().allocate(&world);
    assert_eq!(addresses(&done, "old"), ["x=240.240.0.7", "x=2001:2::7"]);
    assert_eq!(addresses(&done, "first"), ["x=240.240.0.9"]);
    assert_eq!(addresses(&done, "third"), ["x=240.240.0.2", "x=2001:2::1"]);
    assert_eq!(addresses(&done, "young"), ["x=240.240.0.3", "x=2001:2::2"]);
    assert_eq!(addresses(&done, "own"), ["x=10.0.0.1"]);
    let moved: Vec<String> = done.conflicts.iter().map(|c| c.moved.to_string()).collect();
    assert_eq!(moved, ["shop/young", "shop/third", "shop/young"]);
}

#[test]
fn ranges_end() {
    let mut small = facts(vec![entry("a", 1, &["a", "b", "c"], &[])]);
    small.v4 = "240.240.0.0/30".parse().unwrap();
    let done = Given::default().allocate(&small);
    let found = addresses(&done, "a");
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(!found.contains(&"c=240.240.0.3".to_owned()));
    assert_eq!(done.exhausted.len(), 1);
}

#[test]
fn statuses_are_wanted_where_they_may_be_written_and_differ_in_more_than_order() {
    let mut of_folder = entry("folder", 1, &["f"], &[]);
    of_folder.writable = false;
    let none = entry("none", 1, &[], &[("gone", "240.240.0.9")]);
    let nothing = entry("nothing", 1, &[], &[]);
    let turned = [("x", "2001:2::5"), ("x", "240.240.0.5")];
    let world = facts(vec![
        of_folder,
        none,
        nothing,
        entry("turned", 1, &["x"], &turned),
    ]);
    let allocated = Given::default().allocate(&world);
    let all = statuses(&world, &allocated);
    let names: Vec<String> = all.keys().map(|k| k.name.to_string()).collect();
    assert_eq!(names, ["shop/none", "shop/turned"]);
    let values: Vec<&Value> = all.values().map(|w| &w.fields[0].value).collect();
    assert_eq!(*values[0], json!([]));
    assert_eq!(
        Some(values[1]),
        all.values().nth(1).unwrap().fields[0].over.as_ref()
    );
}

/// Replicas that come and go, entries that come, go and come again, facts that lag behind: no address is ever in two
/// statuses, none changes while its entry is there, and in the end every host has its addresses.
#[tokio::test(start_paused = true)]
async fn under_any_schedule_no_address_is_given_twice() {
    for seed in 0..6u64 {
        let draw = move |step: u64, what: u64, below: u64| {
            let state = BuildHasherDefault::<DefaultHasher>::default();
            state.hash_one((seed, step, what)) % below
        };
        let place = FakePlace::new();
        let told = watch::Sender::new(None);
        let default_revision = watch::Sender::new(Arc::from(""));
        let mut replicas: Vec<(CancellationToken, Vec<tokio::task::JoinHandle<()>>)> = Vec::new();
        let begin = |identity: &str, faults: Faults| {
            let of: Arc<dyn Place> = place.client(identity, seed, faults);
            let candidate = Candidate {
                namespace: "istio-system".into(),
                identity: identity.into(),
                revision: "default".into(),
                duration: Duration::from_secs(30),
                default_revision: default_revision.subscribe(),
            };
            let (elector, leading): (Elector, Leading) =
                Elector::new(of.clone(), Lock::Addresses, candidate);
            let allocator = Allocator::new(&of, &leading, told.subscribe(), Arc::new(|_| ()));
            let writer = StatusWriter::new(
                &of,
                &leading,
                allocator.wanted(),
                Options::default(),
                Arc::new(|_| ()),
            );
            let stop = CancellationToken::new();
            let tasks = vec![
                tokio::spawn(elector.run(stop.clone())),
                tokio::spawn(allocator.run(stop.clone())),
                tokio::spawn(writer.run(stop.clone())),
            ];
            (stop, tasks)
        };
        for step in 0..80u64 {
            let faults = Faults {
                delay: Duration::from_millis(draw(step, 0, 1500)),
                lost: draw(step, 1, 3) * 100,
                unanswered: draw(step, 2, 3) * 100,
            };
            let name = format!("entry-{}", draw(step, 3, 8));
            let object = ObjectRef::of(Kind::ServiceEntry, &ObjectName::new("shop", &*name));
            match draw(step, 4, 8) {
                0 if replicas.len() < 3 => {
                    replicas.push(begin(&format!("replica-{step}"), faults));
                }
                1 => {
                    if let Some((_, tasks)) = replicas.pop() {
                        tasks.iter().for_each(tokio::task::JoinHandle::abort);
                    }
                }
                2 if !replicas.is_empty() => replicas.remove(0).0.cancel(),
                3 if !place.object(&object).is_null() => place.remove("user", &object),
                // Facts come late, and several changes at once.
                4 => _ = told.send_replace(Some(Arc::new(facts(read(&place))))),
                _ => {
                    let hosts: Vec<String> = (0..=draw(step, 6, 3))
                        .map(|i| format!("{name}-{i}"))
                        .collect();
                    place.put("user", &object, json!({"spec": {"hosts": hosts}}));
                }
            }
            tokio::time::sleep(Duration::from_secs(draw(step, 5, 20))).await;
        }
        replicas.push(begin("last", Faults::default()));
        for _ in 0..100 {
            told.send_replace(Some(Arc::new(facts(read(&place)))));
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        check(seed, &place);
    }
}

/// The entries of a place, as they are.
fn read(place: &FakePlace) -> Vec<Entry> {
    let mut all: BTreeMap<ObjectRef, Value> = BTreeMap::new();
    for written in place.written() {
        if &*written.object.kind == "ServiceEntry" {
            all.insert(written.object, written.after);
        }
    }
    let entries = all.into_iter().filter(|(_, value)| !value.is_null());
    let of = entries.map(|(object, value)| {
        let text = |v: &Value| -> Arc<str> { v.as_str().unwrap_or_default().into() };
        let held = value["status"]["addresses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Entry {
            uid: text(&value["metadata"]["uid"]),
            generation: value["metadata"]["generation"].as_i64().unwrap(),
            hosts: value["spec"]["hosts"]
                .as_array()
                .unwrap()
                .iter()
                .map(text)
                .collect(),
            held: held
                .iter()
                .map(|a| (text(&a["host"]), text(&a["value"])))
                .collect(),
            ..entry(&object.name, 1, &[], &[])
        }
    });
    of.collect()
}

fn check(seed: u64, place: &FakePlace) {
    let mut now: BTreeMap<ObjectRef, BTreeMap<String, String>> = BTreeMap::new();
    let mut hosts_of: BTreeMap<ObjectRef, usize> = BTreeMap::new();
    for written in place.written() {
        if &*written.object.kind != "ServiceEntry" {
            continue;
        }
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let list = written.after["status"]["addresses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let addresses: BTreeMap<String, String> = list
            .iter()
            .map(|a| (text(&a["value"]), text(&a["host"])))
            .collect();
        if let Some(before) = now.get(&written.object) {
            for (address, host) in before {
                let there = written.after["spec"]["hosts"].as_array();
                let there = there.is_some_and(|all| all.iter().any(|h| h == host));
                assert!(
                    !there || addresses.get(address) == Some(host),
                    "seed {seed}: {host} lost {address}"
                );
            }
        }
        let hosts = written.after["spec"]["hosts"]
            .as_array()
            .map_or(0, Vec::len);
        hosts_of.insert(written.object.clone(), hosts);
        now.insert(written.object, addresses);
        let mut seen = BTreeSet::new();
        for address in now.values().flat_map(|a| a.keys()) {
            assert!(
                seen.insert(address),
                "seed {seed}: {address} is in two statuses"
            );
        }
    }
    for (object, hosts) in hosts_of {
        assert_eq!(now[&object].len(), hosts * 2, "seed {seed}: {object}");
    }
}
