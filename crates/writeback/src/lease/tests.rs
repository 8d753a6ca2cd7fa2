use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::*;
use crate::testing::{FakeClient, FakePlace, Faults};

const DURATION: Duration = Duration::from_secs(30);

struct Replica {
    client: Arc<FakeClient>,
    leading: Leading,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Replica {
    /// Ends at once, without a word.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    fn leads(&self) -> bool {
        self.leading.term().is_some()
    }
}

struct World {
    place: FakePlace,
    default_revision: watch::Sender<Arc<str>>,
}

impl World {
    fn new() -> Self {
        Self {
            place: FakePlace::new(),
            default_revision: watch::Sender::new("".into()),
        }
    }

    fn start(&self, identity: &str, revision: &str, seed: u64, faults: Faults) -> Replica {
        let client = self.place.client(identity, seed, faults);
        let candidate = Candidate {
            namespace: "istio-system".into(),
            identity: identity.into(),
            revision: revision.into(),
            duration: DURATION,
            default_revision: self.default_revision.subscribe(),
        };
        let (elector, leading) = Elector::new(client.clone(), Lock::Ingress, candidate);
        let stop = CancellationToken::new();
        Replica {
            client,
            leading,
            task: tokio::spawn(elector.run(stop.clone())),
            stop,
        }
    }

    fn lease(&self) -> Value {
        let written = self.place.written();
        written.last().map(|w| w.after.clone()).unwrap_or_default()
    }
}

async fn seconds(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_lease_says_who() {
    let world = World::new();
    let a = world.start("a", "default", 1, Faults::default());
    seconds(1.0).await;
    let b = world.start("b", "default", 2, Faults::default());
    seconds(100.0).await;
    assert!(a.leads() && !b.leads());
    assert_eq!(b.leading.now(), Lead::Theirs("a".into()));
    let lease = world.lease();
    assert_eq!(lease["metadata"]["name"], "istio-leader");
    assert_eq!(lease["metadata"]["annotations"][HOLDER_KEY], "default");
    assert_eq!(lease["spec"]["holderIdentity"], "a");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 30);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_to_stop_gives_the_lease_to_the_next_at_once() {
    let world = World::new();
    let a = world.start("a", "default", 1, Faults::default());
    seconds(1.0).await;
    let b = world.start("b", "default", 2, Faults::default());
    seconds(40.0).await;
    a.stop.cancel();
    a.task.await.unwrap();
    assert_eq!(world.lease()["spec"]["holderIdentity"], "");
    seconds(2.5).await;
    assert!(b.leads());
    assert_eq!(world.lease()["spec"]["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_killed_is_followed_when_the_lease_has_run_out() {
    let world = World::new();
    let a = world.start("a", "default", 1, Faults::default());
    seconds(1.0).await;
    let b = world.start("b", "default", 2, Faults::default());
    seconds(40.0).await;
    a.kill().await;
    seconds(15.0).await;
    assert!(!b.leads(), "the lease lasts");
    seconds(15.0).await;
    assert!(b.leads(), "one duration is the most");
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_stops_before_another_begins() {
    let world = World::new();
    let a = world.start("a", "default", 1, Faults::default());
    seconds(1.0).await;
    let b = world.start("b", "default", 2, Faults::default());
    seconds(40.0).await;
    a.client.set_faults(Faults {
        lost: 1000,
        ..Faults::default()
    });
    let mut led = 0;
    for _ in 0..400 {
        seconds(0.1).await;
        assert!(!(a.leads() && b.leads()));
        led += usize::from(a.leads());
    }
    assert!(b.leads());
    assert!(
        (160..=245).contains(&led),
        "it led on for {led} tenths of a second"
    );
    let object = ObjectRef {
        name: "x".into(),
        ..Elector::new(a.client.clone(), Lock::Ingress, candidate_like())
            .0
            .object
    };
    let guarded = a.leading.guard(a.client.clone());
    let refused = guarded.create(&object, Value::Null).await;
    assert_eq!(refused, Err(WriteError::NotLeading));
}

fn candidate_like() -> Candidate {
    Candidate {
        namespace: "istio-system".into(),
        identity: "x".into(),
        revision: "default".into(),
        duration: DURATION,
        default_revision: watch::Sender::new(Arc::from("")).subscribe(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_revision_takes_the_lease_and_waits_for_the_other_to_notice() {
    let world = World::new();
    let old = world.start("old", "one", 1, Faults::default());
    seconds(1.0).await;
    let new = world.start("new", "two", 2, Faults::default());
    seconds(40.0).await;
    assert!(old.leads() && !new.leads());
    world.default_revision.send_replace("two".into());
    for _ in 0..400 {
        seconds(0.1).await;
        assert!(!(old.leads() && new.leads()));
    }
    assert!(new.leads());
    assert_eq!(world.lease()["metadata"]["annotations"][HOLDER_KEY], "two");
    seconds(100.0).await;
    assert!(new.leads(), "the other does not take it back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_istiod_released_or_that_says_nothing_is_free() {
    for spec in [
        serde_json::json!({}),
        serde_json::json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7}),
    ] {
        let world = World::new();
        let (elector, _) = Elector::new(
            world.place.client("x", 0, Faults::default()),
            Lock::Ingress,
            candidate_like(),
        );
        let lease = serde_json::json!({"metadata": {"labels": {"kept": "yes"}}, "spec": spec});
        world.place.put("istiod", &elector.object, lease);
        let a = world.start("a", "default", 1, Faults::default());
        seconds(0.1).await;
        assert!(a.leads());
        assert_eq!(world.lease()["metadata"]["labels"]["kept"], "yes");
    }
}

/// Replicas that come, are killed, are stopped and are cut off, on ways that are slow and lose things: two never lead at
/// once, and while one can, somebody does.
#[tokio::test(start_paused = true)]
async fn under_any_schedule_at_most_one_leads() {
    for seed in 0..8u64 {
        let world = World::new();
        let draw = {
            let state = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default();
            move |step: u64, what: u64, below: u64| state.hash_one((seed, step, what)) % below
        };
        let mut replicas: BTreeMap<String, Replica> = BTreeMap::new();
        let mut stopping: Vec<Replica> = Vec::new();
        let mut led = 0;
        for step in 0..100u64 {
            let faults = Faults {
                delay: Duration::from_millis(draw(step, 0, 3000)),
                lost: draw(step, 1, 3) * 150,
                unanswered: draw(step, 2, 3) * 150,
            };
            let name = format!("replica-{}", draw(step, 3, 3));
            match draw(step, 4, 8) {
                0 => {
                    if let Some(replica) = replicas.remove(&name) {
                        replica.kill().await;
                    }
                }
                1 => {
                    if let Some(replica) = replicas.remove(&name) {
                        replica.stop.cancel();
                        stopping.push(replica);
                    }
                }
                2 => {
                    if let Some(replica) = replicas.get(&name) {
                        replica.client.set_faults(faults);
                    }
                }
                3 => {
                    let default = ["", "one", "two"][draw(step, 5, 3) as usize];
                    world.default_revision.send_if_modified(|r| {
                        let differs = **r != *default;
                        *r = default.into();
                        differs
                    });
                }
                _ => {
                    if let Entry::Vacant(free) = replicas.entry(name) {
                        // No two processes have one name.
                        let identity = format!("{}-{step}", free.key());
                        let revision = ["one", "two"][draw(step, 6, 2) as usize];
                        let replica = world.start(&identity, revision, seed * 1000 + step, faults);
                        free.insert(replica);
                    }
                }
            }
            for _ in 0..draw(step, 7, 30) {
                seconds(0.37).await;
                let all = replicas.values().chain(&stopping);
                let leaders = all.filter(|r| r.leads()).count();
                assert!(leaders <= 1, "seed {seed}, step {step}: {leaders} lead");
                led += leaders;
            }
        }
        assert!(
            led > 80,
            "seed {seed}: somebody leads most of the time, not {led}"
        );
        for replica in replicas.values().chain(&stopping) {
            replica.client.set_faults(Faults::default());
        }
        let last = world.start("last", "one", seed, Faults::default());
        seconds(120.0).await;
        let all = replicas.values().chain(&stopping).chain([&last]);
        assert_eq!(all.filter(|r| r.leads()).count(), 1, "seed {seed}");
    }
}
