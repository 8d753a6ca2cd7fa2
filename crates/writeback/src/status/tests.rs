use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::Mutex;
use std::time::Duration;

use model::{Kind, ObjectName};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::lead::Leading;
use crate::lease::{Candidate, Elector, Lock};
use crate::place::ObjectRef;
use crate::testing::{FakeClient, FakePlace, Faults};

/// A replica's name, and whether it leads.
type Led = (Arc<str>, Leading);

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        kind: Kind::VirtualService,
        name: ObjectName::new("shop", name),
    }
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::of(Kind::VirtualService, &key(name).name)
}

fn wanted(value: Value) -> Arc<Wanted> {
    Arc::new(Wanted {
        uid: "".into(),
        generation: 0,
        observed: false,
        fields: vec![Field {
            name: "ours",
            value,
            over: None,
            merge: Merge::Whole,
        }],
    })
}

fn statuses<'a>(all: impl IntoIterator<Item = (&'a str, Arc<Wanted>)>) -> Statuses {
    all.into_iter().map(|(name, w)| (key(name), w)).collect()
}

#[test]
fn only_what_differs_is_written_and_the_rest_is_kept() {
    let now = json!({
        "metadata": {"name": "a", "uid": "u", "generation": 3, "managedFields": [{}]},
        "spec": {"x": 1},
        "status": {"ours": [], "theirs": {"y": 2}},
    });
    assert_eq!(wanted(json!([])).step(&now, "now"), Step::Keep);
    assert_eq!(wanted(Value::Null).step(&now, "now"), Step::Keep);
    let Step::Write(next) = wanted(json!(["a"])).step(&now, "now") else {
        panic!("it differs");
    };
    assert_eq!(next["status"], json!({"ours": ["a"], "theirs": {"y": 2}}));
    assert_eq!(next["spec"], json!({"x": 1}));
    assert!(next["metadata"]["managedFields"].is_null());
    let observed = |generation, value: Value| Wanted {
        generation,
        observed: true,
        ..(*wanted(value)).clone()
    };
    assert_eq!(observed(2, json!(["a"])).step(&now, "now"), Step::Wait);
    assert_eq!(observed(3, Value::Null).step(&now, "now"), Step::Keep);
    let Step::Write(next) = observed(3, json!(["a"])).step(&now, "now") else {
        panic!("it differs");
    };
    assert_eq!(next["status"]["observedGeneration"], "3");
    assert_eq!(observed(3, json!(["a"])).step(&next, "now"), Step::Keep);
    let other = Wanted {
        uid: "v".into(),
        ..(*wanted(json!(["a"]))).clone()
    };
    assert_eq!(other.step(&now, "now"), Step::Wait);
    let mut over = (*wanted(json!(["a"]))).clone();
    over.fields[0].over = Some(json!(["b"]));
    assert_eq!(over.step(&now, "now"), Step::Wait);
}

#[test]
fn what_is_known_says_the_same_as_the_object() {
    let values = [
        json!(null),
        json!([]),
        json!({"a": []}),
        json!(["x"]),
        json!({"a": {"b": 1}}),
    ];
    for held in &values {
        let object = json!({"metadata": {}, "status": {"ours": held}});
        for value in &values {
            let wanted = wanted(value.clone());
            let known = Known::of(&object, &wanted).holds(&wanted, "");
            assert_eq!(
                known,
                wanted.step(&object, "now") == Step::Keep,
                "{held} {value}"
            );
        }
    }
}

/// A writer with what it told.
struct Running {
    client: Arc<FakeClient>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    told: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

fn listener(told: &Arc<Mutex<BTreeMap<&'static str, u64>>>) -> Listener {
    let told = told.clone();
    Arc::new(move |event: Event<'_>| {
        let name = match event {
            Event::Written(_) => "written",
            Event::Refused(..) => "refused",
            Event::Contended(..) => "contended",
            Event::Failed(..) => "failed",
            Event::Waiting(_) => return,
        };
        *told.lock().unwrap().entry(name).or_default() += 1;
    })
}

fn start(
    place: &FakePlace,
    name: &str,
    wanted: &watch::Sender<Statuses>,
    options: Options,
) -> Running {
    let client = place.client(name, 1, Faults::default());
    let told = Arc::default();
    let of: Arc<dyn crate::place::Place> = client.clone();
    let writer = StatusWriter::new(
        &of,
        &Leading::always(),
        wanted.subscribe(),
        options,
        listener(&told),
    );
    let stop = CancellationToken::new();
    let tasks = vec![tokio::spawn(writer.run(stop.clone()))];
    Running {
        client,
        stop,
        tasks,
        told,
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn many_statuses_are_written_at_the_rate_and_none_after_a_restart() {
    let place = FakePlace::new();
    let names: Vec<String> = (0..2000).map(|i| format!("route-{i}")).collect();
    for name in &names {
        place.put("user", &object(name), json!({"spec": {}}));
    }
    let all = names.iter().map(|n| (&**n, wanted(json!([*n]))));
    let wants = watch::Sender::new(statuses(all));
    let begin = tokio::time::Instant::now();
    let first = start(&place, "first", &wants, Options::default());
    seconds(5).await;
    let written = |place: &FakePlace| place.written().iter().filter(|w| &*w.by != "user").count();
    assert!(
        (950..=1010).contains(&written(&place)),
        "{}",
        written(&place)
    );
    seconds(60).await;
    assert_eq!(written(&place), 2000);
    let last = place.written().last().map(|w| w.at - begin);
    assert!(
        last.is_some_and(|t| (14..17).contains(&t.as_secs())),
        "{last:?}"
    );
    first.stop.cancel();
    // Some are wanted only after it has begun.
    let late = watch::Sender::new(Statuses::default());
    let second = start(&place, "second", &late, Options::default());
    seconds(1).await;
    late.send_replace(wants.borrow().clone());
    seconds(60).await;
    assert_eq!(written(&place), 2000);
    assert_eq!(second.client.requests(), 1, "one list told all");
    assert_eq!(first.told.lock().unwrap().get("written"), Some(&2000));
}

#[tokio::test(start_paused = true)]
async fn in_a_storm_each_object_is_written_once_a_second_and_has_the_newest_in_the_end() {
    let place = FakePlace::new();
    let names: Vec<String> = (0..50).map(|i| format!("route-{i}")).collect();
    for name in &names {
        place.put("user", &object(name), json!({"spec": {}}));
    }
    let first = names.iter().map(|n| (&**n, wanted(json!([0]))));
    let wants = watch::Sender::new(statuses(first));
    let running = start(&place, "us", &wants, Options::default());
    seconds(10).await;
    let begin = place.written().len();
    for edit in 1..=2000u64 {
        let name = &names[(edit * 7 % 50) as usize];
        wants.send_modify(|all| all.insert_mut(key(name), wanted(json!([edit]))));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    seconds(2).await;
    let mut last: BTreeMap<ObjectRef, tokio::time::Instant> = BTreeMap::new();
    let written = place.written().split_off(begin);
    for write in &written {
        if let Some(before) = last.insert(write.object.clone(), write.at) {
            let passed = write.at - before;
            assert!(passed >= Duration::from_secs(1), "{passed:?}");
        }
    }
    assert!((150..=300).contains(&written.len()), "{}", written.len());
    for name in &names {
        let newest = wants.borrow()[&key(name)].fields[0].value.clone();
        assert_eq!(place.object(&object(name))["status"]["ours"], newest);
    }
    // After a quiet second, nothing waits.
    seconds(2).await;
    wants.send_modify(|all| all.insert_mut(key("route-3"), wanted(json!(["quiet"]))));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let status = &place.object(&object("route-3"))["status"];
    assert_eq!(status["ours"], json!(["quiet"]));
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn who_keeps_changing_a_field_is_let_be() {
    let place = FakePlace::new();
    place.put("user", &object("a"), json!({"spec": {}}));
    let wants = watch::Sender::new(statuses([("a", wanted(json!(["us"])))]));
    let running = start(&place, "us", &wants, Options::default());
    let mut ours = 0;
    for _ in 0..24 {
        seconds(300).await;
        if place.object(&object("a"))["status"]["ours"] == json!(["us"]) {
            ours += 1;
            place.put_status("them", &object("a"), json!({"ours": ["them"]}));
        }
    }
    assert!((4..=8).contains(&ours), "{ours} in two hours");
    assert!(running.told.lock().unwrap()["contended"] >= 1);
    // What is new is written at once.
    wants.send_replace(statuses([("a", wanted(json!(["new"])))]));
    seconds(1).await;
    assert_eq!(place.object(&object("a"))["status"]["ours"], json!(["new"]));
    running.stop.cancel();
    for task in running.tasks {
        task.await.unwrap();
    }
}

/// Several replicas on ways that are slow and lose things, wants that change, other controllers that write beside us,
/// replicas that are killed and come back: in the end every object has the newest wanted status; nothing was written
/// twice, nothing without the lease, and nothing of others was lost.
#[tokio::test(start_paused = true)]
async fn under_any_schedule_every_object_gets_its_status_once() {
    for seed in 0..6u64 {
        let draw = move |step: u64, what: u64, below: u64| {
            let state = BuildHasherDefault::<DefaultHasher>::default();
            state.hash_one((seed, step, what)) % below
        };
        let place = FakePlace::new();
        let names: Vec<String> = (0..6).map(|i| format!("route-{i}")).collect();
        for name in &names {
            place.put("user", &object(name), json!({"spec": {}}));
        }
        let mut now: BTreeMap<&str, Arc<Wanted>> = BTreeMap::new();
        let wants = watch::Sender::new(Statuses::default());
        let default_revision = watch::Sender::new(Arc::from(""));
        let leaders: Arc<Mutex<Vec<Led>>> = Arc::default();
        let begin = |identity: String, faults: Faults| {
            let client = place.client(&identity, seed, faults);
            let of: Arc<dyn crate::place::Place> = client.clone();
            let candidate = Candidate {
                namespace: "istio-system".into(),
                identity: identity.as_str().into(),
                revision: "default".into(),
                duration: Duration::from_secs(30),
                default_revision: default_revision.subscribe(),
            };
            let (elector, leading) = Elector::new(of.clone(), Lock::Analysis, candidate);
            leaders
                .lock()
                .unwrap()
                .push((identity.as_str().into(), leading.clone()));
            let told = Arc::default();
            let options = Options {
                resync: Duration::from_secs(20),
                ..Options::default()
            };
            let writer =
                StatusWriter::new(&of, &leading, wants.subscribe(), options, listener(&told));
            let stop = CancellationToken::new();
            let tasks = vec![
                tokio::spawn(elector.run(stop.clone())),
                tokio::spawn(writer.run(stop.clone())),
            ];
            Running {
                client,
                stop,
                tasks,
                told,
            }
        };
        let mut replicas: Vec<Running> = Vec::new();
        for step in 0..60u64 {
            let faults = Faults {
                delay: Duration::from_millis(draw(step, 0, 2000)),
                lost: draw(step, 1, 3) * 100,
                unanswered: draw(step, 2, 3) * 100,
            };
            let name = &names[draw(step, 3, 6) as usize];
            match draw(step, 4, 7) {
                0 => {
                    if replicas.len() < 3 {
                        replicas.push(begin(format!("replica-{step}"), faults));
                    }
                }
                1 => {
                    if let Some(replica) = replicas.pop() {
                        replica
                            .tasks
                            .iter()
                            .for_each(tokio::task::JoinHandle::abort);
                    }
                }
                2 => {
                    if !replicas.is_empty() {
                        replicas.remove(0).stop.cancel();
                    }
                }
                3 => {
                    let mut status = place.object(&object(name))["status"].clone();
                    status["theirs"] = step.into();
                    place.put_status("them", &object(name), status);
                }
                4 => {
                    if let Some(replica) = replicas.first() {
                        replica.client.set_faults(faults);
                    }
                }
                _ => {
                    now.insert(name, wanted(json!([step])));
                    wants.send_replace(statuses(now.iter().map(|(n, w)| (*n, w.clone()))));
                }
            }
            seconds(draw(step, 5, 25)).await;
        }
        for replica in &replicas {
            replica.client.set_faults(Faults::default());
        }
        replicas.push(begin("last".to_owned(), Faults::default()));
        seconds(300).await;
        for (name, wanted) in &now {
            let status = &place.object(&object(name))["status"];
            assert_eq!(
                status["ours"], wanted.fields[0].value,
                "seed {seed}, {name}"
            );
        }
        let mut holder: Arc<str> = "".into();
        let mut theirs: BTreeMap<ObjectRef, Value> = BTreeMap::new();
        let mut ours = 0;
        for written in place.written() {
            if &*written.object.kind == "Lease" {
                holder = written.after["spec"]["holderIdentity"]
                    .as_str()
                    .unwrap_or("")
                    .into();
                continue;
            }
            let status = &written.after["status"];
            if &*written.by == "them" {
                theirs.insert(written.object.clone(), status["theirs"].clone());
            } else if &*written.by != "user" {
                ours += 1;
                assert_eq!(written.by, holder, "seed {seed}: only the holder writes");
                let before = &written.before["status"]["ours"];
                assert_ne!(
                    *before, status["ours"],
                    "seed {seed}: the same is not written twice"
                );
                let kept = theirs.get(&written.object).cloned().unwrap_or_default();
                assert_eq!(
                    status["theirs"], kept,
                    "seed {seed}: what is not ours is kept"
                );
            }
        }
        assert!(ours > 5, "seed {seed}: {ours} writes");
    }
}
