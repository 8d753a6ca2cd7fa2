mod world;

use model::node::Identity;
use serde_json::json;
use world::{World, claim, options};

use super::*;
use crate::object::{CONNECTED, CONTROLLER, DISCONNECTED};

#[test]
fn a_workload_has_an_entry_while_it_is_connected() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    assert_eq!(world.answers(), [(1, None)]);
    assert_eq!(world.annotation(CONTROLLER), Some("a_pilothouse-1"));
    world.pass(60);
    assert_eq!(world.took(), ["Register"]);
    world.disconnect(0, 1);
    world.pass(5);
    assert_eq!(world.took(), ["Disconnect"]);
    assert!(world.annotation(DISCONNECTED).is_some() && world.annotation(CONNECTED).is_none());
    world.pass(4);
    assert!(
        world.entry("web-10.0.0.1").is_some(),
        "within the grace period"
    );
    world.pass(2);
    assert_eq!(world.took(), ["CleanUp"]);
    assert!(world.api.entries.is_empty());
    assert!(world.replicas[0].is_empty());
}

#[test]
fn who_comes_back_soon_is_not_written_at_all() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    for id in 1..1000 {
        world.disconnect(0, id);
        world.connect(0, id + 1, claim("web", "10.0.0.1"));
        world.now += Duration::from_millis(1);
    }
    assert_eq!(world.answers().len(), 1000);
    world.pass(30);
    assert_eq!(world.took(), ["Register"]);
}

#[test]
fn one_of_two_streams_is_enough() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    world.connect(0, 2, claim("web", "10.0.0.1"));
    world.disconnect(0, 1);
    world.pass(60);
    assert_eq!(world.took(), ["Register"]);
    world.disconnect(0, 2);
    world.pass(60);
    assert_eq!(world.took(), ["Disconnect", "CleanUp"]);
}

#[test]
fn who_comes_to_another_replica_keeps_its_entry() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    world.disconnect(0, 1);
    world.connect(1, 2, claim("web", "10.0.0.1"));
    world.pass(60);
    assert_eq!(world.took(), ["Register", "Connect"]);
    assert_eq!(world.annotation(CONTROLLER), Some("b_pilothouse-2"));
    // The second replica hears of it before the first one has let go.
    world.connect(0, 3, claim("web", "10.0.0.1"));
    world.pass(1);
    world.disconnect(1, 2);
    world.pass(60);
    assert_eq!(world.took(), ["Connect"]);
    assert_eq!(world.annotation(CONTROLLER), Some("a_pilothouse-1"));
    assert!(world.annotation(CONNECTED).is_some());
}

#[test]
fn who_comes_back_within_the_grace_period_keeps_its_entry() {
    for replica in [0, 1] {
        let mut world = World::new();
        world.connect(0, 1, claim("web", "10.0.0.1"));
        world.disconnect(0, 1);
        world.pass(8);
        world.connect(replica, 2, claim("web", "10.0.0.1"));
        world.pass(60);
        assert_eq!(world.took(), ["Register", "Disconnect", "Connect"]);
        assert!(world.annotation(DISCONNECTED).is_none());
    }
}

#[test]
fn a_replica_whose_clock_is_behind_still_has_its_workload() {
    let mut world = World::new();
    world.now += Duration::from_secs(3600);
    world.connect(0, 1, claim("web", "10.0.0.1"));
    world.now -= Duration::from_secs(3590);
    world.connect(1, 2, claim("web", "10.0.0.1"));
    world.now += Duration::from_secs(3590);
    world.disconnect(0, 1);
    world.pass(60);
    assert_eq!(world.annotation(CONTROLLER), Some("b_pilothouse-2"));
    assert!(world.annotation(CONNECTED).is_some());
}

#[test]
fn what_a_killed_replica_left_is_cleaned_up_after_the_grace_period() {
    let mut world = World::new();
    for (id, address) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3")] {
        world.connect(0, id, claim("web", address));
    }
    world.disconnect(0, 3);
    world.pass(2);
    world.replicas[0] = Core::new(options("a_pilothouse-3"));
    world.connect(1, 4, claim("web", "10.0.0.2"));
    world.took();
    world.orphans(1, &[]);
    world.pass(30);
    world.orphans(1, &[]);
    assert_eq!(
        world.took(),
        ["CleanUp"],
        "the one that was known to be gone"
    );
    world.orphans(1, &["a_pilothouse-1"]);
    world.pass(9);
    world.orphans(1, &["a_pilothouse-1"]);
    assert_eq!(world.took(), Vec::<String>::new());
    world.pass(1);
    world.orphans(1, &["a_pilothouse-1"]);
    assert_eq!(world.took(), ["CleanUp"]);
    assert_eq!(world.api.entries.len(), 1);
    assert!(world.entry("web-10.0.0.2").is_some());
}

#[test]
fn what_came_back_is_not_swept() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    world.replicas[0] = Core::new(options("a_pilothouse-3"));
    world.orphans(1, &["a_pilothouse-1"]);
    world.pass(9);
    world.connect(0, 2, claim("web", "10.0.0.1"));
    world.pass(9);
    world.orphans(1, &["a_pilothouse-1"]);
    world.pass(60);
    world.orphans(1, &["a_pilothouse-1"]);
    assert_eq!(world.took(), ["Register", "Connect"]);
}

#[test]
fn health_is_written_when_it_changes_and_spread_out_when_it_flaps() {
    let mut world = World::new();
    world.connect(0, 1, claim("web", "10.0.0.1"));
    assert_eq!(world.health(), None);
    world.pass(20);
    world.report(0, 1, true);
    assert_eq!(world.health().as_deref(), Some("True"));
    world.report(0, 1, true);
    world.pass(20);
    assert_eq!(world.took(), ["Register", "Health"]);
    for n in 0..10_000 {
        world.now += Duration::from_millis(1);
        world.report(0, 1, n % 2 == 0);
    }
    let writes = world.took().len();
    assert!((2..=8).contains(&writes), "{writes} in ten seconds");
    world.pass(20);
    assert_eq!(
        world.health().as_deref(),
        Some("False"),
        "the last report counts"
    );
}

#[test]
fn an_entry_that_was_written_is_marked_and_never_deleted() {
    let mut world = World::new();
    let name = ObjectName::new("shop", "web-10.0.0.1");
    let object = json!({
        "metadata": {"annotations": {"proxy.istio.io/health-checks-enabled": "true"}, "resourceVersion": "0"},
        "spec": {"address": "10.0.0.1", "serviceAccount": "vm"},
    });
    world.api.entries.insert(name.clone(), object);
    let look_after = Claim {
        wish: Wish::LookAfter,
        ..claim("web", "10.0.0.1")
    };
    world.connect(0, 1, look_after.clone());
    world.report(0, 1, false);
    world.pass(1);
    assert_eq!(world.health().as_deref(), Some("False"));
    world.disconnect(0, 1);
    world.pass(30);
    assert_eq!(world.health(), None, "nobody knows");
    assert_eq!(
        world.took(),
        ["Connect", "Health", "Disconnect", "Unhealth"]
    );
    assert!(world.replicas[0].is_empty());
    let other = Claim {
        entry: ObjectName::new("shop", "none"),
        ..look_after
    };
    world.answers();
    world.connect(0, 2, other);
    let why = world.answers().remove(0).1.unwrap();
    assert!(why.contains("no WorkloadEntry"), "{why}");
}

#[test]
fn a_claim_on_what_is_anothers_is_refused() {
    let identity = |text: &str| Identity::of_test_token(text);
    for (change, words) in [
        (
            Box::new(|c: &mut Claim| c.identity = None) as Box<dyn Fn(&mut Claim)>,
            "has not proven",
        ),
        (
            Box::new(move |c| c.identity = identity("sa:shop:db")),
            "is shop/db, and the WorkloadEntry is for shop/vm",
        ),
        (
            Box::new(move |c| c.identity = identity("sa:other:vm")),
            "is other/vm",
        ),
        (
            Box::new(|c| *c = claim("db", "10.0.0.1")),
            "no WorkloadGroup shop/db",
        ),
        (
            Box::new(|c| c.address = "10.0.0.9".parse().unwrap()),
            "has another address",
        ),
    ] {
        let mut world = World::new();
        world.connect(0, 1, claim("web", "10.0.0.1"));
        world.answers();
        let mut other = claim("web", "10.0.0.1");
        change(&mut other);
        for replica in [0, 1] {
            world.connect(replica, 2, other.clone());
            let why = world.answers().remove(0).1.unwrap();
            assert!(why.contains(words), "{why}");
            world.disconnect(replica, 2);
        }
        world.pass(60);
        assert_eq!(world.took(), ["Register"]);
    }
}

#[test]
fn who_asks_for_no_identity_takes_anybody() {
    let mut world = World::new();
    let open = Options {
        validate_identity: false,
        ..options("a")
    };
    world.replicas = vec![Core::new(open)];
    let nobody = Claim {
        identity: None,
        ..claim("web", "10.0.0.1")
    };
    world.connect(0, 1, nobody);
    assert_eq!(world.answers(), [(1, None)]);
}

#[test]
fn a_group_that_comes_late_registers_who_is_connected() {
    let mut world = World::new();
    let groups = std::mem::take(&mut world.api.groups);
    world.api.incomplete = true;
    world.connect(0, 1, claim("web", "10.0.0.1"));
    assert_eq!(world.answers(), [(1, None)], "it is served what it had");
    world.api.incomplete = false;
    world.replicas[0].completed();
    world.pass(1);
    assert_eq!(world.took(), Vec::<String>::new());
    world.api.groups = groups;
    let came = |world: &mut World| {
        let view = world.api.clone();
        let (kind, name) = (Kind::WorkloadGroup, ObjectName::new("shop", "web"));
        world.replicas[0].seen([ObjectKey { kind, name }], &view);
        world.pass(1);
    };
    came(&mut world);
    assert_eq!(world.took(), ["Register"]);
    // Somebody deletes it: it stays away, until the group comes anew.
    world.api.entries.clear();
    world.tell(&ObjectName::new("shop", "web-10.0.0.1"));
    world.pass(60);
    assert_eq!(world.took(), Vec::<String>::new());
    came(&mut world);
    assert_eq!(world.took(), ["Register"]);
}

#[test]
fn what_the_api_refuses_is_refused_and_not_asked_all_the_time() {
    let mut world = World::new();
    world.faults = vec![WriteError::Refused("forbidden".into())];
    for id in 0..100 {
        world.connect(0, id, claim("web", "10.0.0.1"));
        let why = world.answers().remove(0).1.unwrap();
        assert!(why.contains("cannot be written: forbidden"), "{why}");
        world.disconnect(0, id);
        world.pass(0);
    }
    assert_eq!(world.took(), ["Register"]);
    world.pass(61);
    world.connect(0, 200, claim("web", "10.0.0.1"));
    assert_eq!(world.answers(), [(200, None)]);
}

#[test]
fn what_fails_is_tried_again_until_it_is_done() {
    let unavailable = || WriteError::Unavailable("down".into());
    let mut world = World::new();
    world.faults = vec![
        unavailable(),
        WriteError::Conflict,
        unavailable(),
        unavailable(),
    ];
    world.connect(0, 1, claim("web", "10.0.0.1"));
    assert_eq!(world.answers(), []);
    world.pass(30);
    assert_eq!(world.answers(), [(1, None)]);
    assert_eq!(world.api.entries.len(), 1);
    world.faults = vec![unavailable(), WriteError::Conflict, unavailable()];
    world.disconnect(0, 1);
    world.pass(30);
    assert!(world.api.entries.is_empty());
}

#[test]
fn entries_are_bounded_in_all_and_for_one_address() {
    let mut world = World::new();
    let from = |n: u64, peer: &str| Claim {
        peer: peer.parse().unwrap(),
        ..claim("web", &format!("10.0.{}.{}", n / 250, n % 250 + 1))
    };
    let refused = |world: &mut World| {
        let all = world.answers();
        all.into_iter()
            .filter_map(|(_, why)| why)
            .collect::<Vec<_>>()
    };
    for id in 0..60 {
        world.connect(0, id, from(id, "1.1.1.1"));
        world.disconnect(0, id);
    }
    let words = "too many WorkloadEntries are registered from one address";
    assert_eq!(refused(&mut world), vec![words; 10]);
    for id in 100..160 {
        world.connect(0, id, from(id, &format!("1.1.2.{id}")));
    }
    assert_eq!(refused(&mut world).len(), 10, "a hundred in all");
    world.pass(60);
    assert_eq!(
        world.api.entries.len(),
        50,
        "those that are gone are cleaned up"
    );
    world.connect(0, 200, from(200, "1.1.1.1"));
    assert_eq!(refused(&mut world).len(), 0, "there is room again");
}

/// Replicas that are killed, workloads that move about, writes that fail: in the end there is an entry for each workload
/// that is connected, with its replica's name, and no other.
#[test]
fn whatever_happens_each_connected_workload_has_one_entry() {
    for seed in 0..60_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut world = World::new();
        let mut names = ["a_pilothouse-1".to_owned(), "b_pilothouse-2".to_owned()];
        let mut dead = Vec::new();
        // By workload: its replica and stream.
        let mut streams: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
        for step in 0..120 {
            let (replica, vm) = (draw(2) as usize, draw(4));
            match draw(8) {
                0..=2 => {
                    let address = format!("10.0.0.{}", vm + 1);
                    let before = streams.insert(vm, (replica, step));
                    // It is heard late, or early, that the former stream is gone.
                    if let Some((at, id)) = before.filter(|_| draw(2) == 0) {
                        world.disconnect(at, id);
                    }
                    world.connect(replica, step, claim("web", &address));
                    if let Some((at, id)) = before {
                        world.disconnect(at, id);
                    }
                }
                3 | 4 => {
                    if let Some((at, id)) = streams.remove(&vm) {
                        world.disconnect(at, id);
                    }
                }
                5 => {
                    let old =
                        std::mem::replace(&mut names[replica], format!("x_pilothouse-{step}"));
                    dead.push(old);
                    world.replicas[replica] = Core::new(options(&names[replica]));
                    streams.retain(|_, (at, _)| *at != replica);
                }
                6 => world.faults.push(match draw(2) {
                    0 => WriteError::Conflict,
                    _ => WriteError::Unavailable("down".into()),
                }),
                _ => {}
            }
            for _ in 0..draw(30) {
                world.now += Duration::from_millis(400);
                world.settle();
            }
        }
        world.faults.clear();
        let gone: Vec<&str> = dead.iter().map(|d| &**d).collect();
        for _ in 0..6 {
            world.orphans(0, &gone);
            world.pass(11);
        }
        let expected: BTreeMap<String, &str> = streams
            .iter()
            .map(|(vm, (at, _))| (format!("web-10.0.0.{}", vm + 1), &*names[*at]))
            .collect();
        let found: BTreeMap<String, &str> = world
            .api
            .entries
            .iter()
            .map(|(name, object)| {
                assert!(object["metadata"]["annotations"][CONNECTED].is_string());
                let controller = object["metadata"]["annotations"][CONTROLLER].as_str();
                (name.name.to_string(), controller.unwrap())
            })
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}
