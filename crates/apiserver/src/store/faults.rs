//! Faults at any operation of the disk: nothing acknowledged is lost, nothing that was seen is taken back, and the store
//! writes again without a restart.

mod disk;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::access::{Access, Who};
use crate::api::{Api, Request};
use crate::audit::Audit;
use disk::{Fault, FaultyDisk, Random};

const KEYS: u64 = 5;
const PACE: Pace = Pace {
    first: Duration::from_millis(1),
    most: Duration::from_millis(2),
};

fn open(disk: &FaultyDisk) -> Result<Store, StoreError> {
    let keep = Keep {
        revisions: 20,
        ..Keep::default()
    };
    let medium = Arc::new(disk.of_this_life());
    Store::open_on(Path::new("."), medium, keep, Clock::system(), PACE)
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn config_map(name: &str, value: Option<u64>, now: Option<u64>) -> Op {
    Op {
        resource: "configmaps".into(),
        id: ObjectId::new("default", name),
        expect: now.map_or(Expect::Absent, Expect::Revision),
        put: value
            .map(|v| json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": v}})),
    }
}

/// What there may be of each object: one thing where it is known, more where a write failed since it was last looked at.
#[derive(Default)]
struct Model {
    may_be: BTreeMap<u64, Vec<Option<u64>>>,
    revision: u64,
}

impl Model {
    /// Compares with what is there; from then on that is known, but for a write that failed while the file is not open again.
    fn look(&mut self, store: &Store, at: &str) {
        let known = store.fault().is_none();
        let memory = store.read();
        assert!(
            memory.revision() >= self.revision,
            "{at}: revision {} was told, and the store is at {}",
            self.revision,
            memory.revision()
        );
        for key in 0..KEYS {
            let id = ObjectId::new("default", &format!("k{key}"));
            let found = memory.get(&"configmaps".into(), &id);
            let found = found.map(|s| s.value()["data"]["v"].as_u64().unwrap());
            let may_be = self.may_be.entry(key).or_insert_with(|| vec![None]);
            assert!(
                may_be.contains(&found),
                "{at}: k{key} is {found:?}, and may be {may_be:?}"
            );
            if known {
                *may_be = vec![found];
            }
        }
        self.revision = memory.revision();
    }

    fn written(&mut self, wanted: Vec<(u64, Option<u64>)>, revision: u64) {
        let known = wanted.into_iter().map(|(key, put)| (key, vec![put]));
        self.may_be.extend(known);
        self.revision = revision;
    }

    fn perhaps_written(&mut self, wanted: Vec<(u64, Option<u64>)>) {
        for (key, put) in wanted {
            let may_be = self.may_be.entry(key).or_insert_with(|| vec![None]);
            may_be.push(put);
        }
    }
}

fn any_fault(random: &mut Random) -> Fault {
    match random.below(6) {
        0 => Fault::Broken,
        1 => Fault::Unsynced,
        2 => Fault::NoDescriptors,
        3 => Fault::Killed,
        _ => Fault::Full,
    }
}

/// A schedule by its number: some writes, and faults wherever they fall. Returns how many operations failed.
async fn schedule(seed: u64) -> u64 {
    let mut random = Random(seed);
    let disk = FaultyDisk::new(seed ^ 0x5eed);
    let mut store = open(&disk).unwrap();
    let mut model = Model::default();
    let mut value = 0;
    for step in 0..12 {
        let at = format!("seed {seed}, step {step}");
        if random.below(3) == 0 {
            let fault = any_fault(&mut random);
            disk.plan(random.below(40), fault, 1 + random.below(12));
        }
        // Some at once, which are written all or not at all.
        let mut ops = Vec::new();
        let mut wanted = Vec::new();
        for key in 0..1 + random.below(3) {
            value += 1;
            let name = format!("k{key}");
            let id = ObjectId::new("default", &name);
            let now = store
                .read()
                .get(&"configmaps".into(), &id)
                .map(|s| s.revision);
            let put = (now.is_none() || random.below(4) > 0).then_some(value);
            ops.push(config_map(&name, put, now));
            wanted.push((key, put));
        }
        match store.write(ops, Author::default()).await {
            Ok(stored) => model.written(wanted, stored.last().unwrap().revision),
            Err(WriteError::Disk(_) | WriteError::Full(_)) => model.perhaps_written(wanted),
            // Another write that was told to have failed is there.
            Err(WriteError::Changed(_) | WriteError::Exists(_)) => {}
            Err(WriteError::Closed) => panic!("{at}: the writer is gone"),
        }
        // Answered when the writer has done all of what came before.
        let _ = store
            .write(vec![config_map("none", None, Some(1))], Author::default())
            .await;
        // What history says is of the file, and may fail with it.
        let _ = store.history(None, 5);
        if disk.is_dead() {
            drop(store);
            disk.restart();
            store = open(&disk).unwrap_or_else(|e| panic!("{at}: after a kill: {e:?}"));
            model.look(&store, &at);
        } else if random.coin() {
            // Faults end by themselves after some operations, and the store finds out.
            disk.heal();
            until(&at, || store.fault().is_none()).await;
            model.look(&store, &at);
        } else {
            // Readers look at any time, also while nothing can be written.
            model.look(&store, &at);
        }
    }
    disk.heal();
    let at = format!("seed {seed}, end");
    until(&at, || store.fault().is_none()).await;
    // And a write is taken again.
    let op = config_map("last", Some(1), None);
    let mut written = store.write(vec![op.clone()], Author::default()).await;
    while matches!(written, Err(WriteError::Disk(_) | WriteError::Full(_))) {
        // The last fault was met by nobody yet.
        until(&at, || store.fault().is_none()).await;
        written = store.write(vec![op.clone()], Author::default()).await;
    }
    assert!(
        matches!(written, Ok(_) | Err(WriteError::Exists(_))),
        "{at}: {written:?}"
    );
    model.look(&store, &at);
    drop(store);
    disk.restart();
    model.look(&open(&disk).unwrap(), &at);
    disk.hits()
}

/// PILOTHOUSE_FAULT_SCHEDULES says how many, PILOTHOUSE_FAULT_SEED from which on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_in_random_schedules_of_faults() {
    let number =
        |name: &str, default: u64| std::env::var(name).map_or(default, |v| v.parse().unwrap());
    let count = number("PILOTHOUSE_FAULT_SCHEDULES", 1000);
    let first = number("PILOTHOUSE_FAULT_SEED", 0);
    let start = Instant::now();
    let mut hits = 0;
    let mut running = tokio::task::JoinSet::new();
    for seed in first..first + count {
        if running.len() >= 16 {
            hits += running.join_next().await.unwrap().unwrap();
        }
        running.spawn(schedule(seed));
    }
    while let Some(done) = running.join_next().await {
        hits += done.unwrap();
    }
    println!(
        "{count} schedules with {hits} faults in {:?}",
        start.elapsed()
    );
    assert!(
        hits > count,
        "faults must fall into the schedules, and {hits} did"
    );
}

#[tokio::test]
async fn a_full_disk_ends_nothing_for_longer_than_it_is_full() {
    let disk = FaultyDisk::new(1);
    let store = open(&disk).unwrap();
    let api = Api::start(
        store.clone(),
        Access::default(),
        Audit::default(),
        &["default"],
    )
    .await
    .unwrap();
    let ask = async |method: http::Method, uri: &str, body: String| {
        let request = Request::new(method, uri, Who::local());
        let answer = api
            .handle(request.with_body("application/json", body))
            .await;
        let status = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await;
        (
            status,
            String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap(),
        )
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| {
        json!({"metadata": {"name": name}, "data": {"pad": "x".repeat(9000)}}).to_string()
    };
    let get = async |path: &str| ask(http::Method::GET, path, String::new()).await;
    assert_eq!(ask(http::Method::POST, maps, map("a")).await.0, 201);
    assert_eq!(get("/readyz").await.0, 200);
    for fault in [Fault::Full, Fault::Broken, Fault::NoDescriptors] {
        disk.plan(0, fault, u64::MAX);
        let (status, body) = ask(http::Method::POST, maps, map("b")).await;
        let wanted = if fault == Fault::Full { 507 } else { 500 };
        assert_eq!(status, wanted, "{body}");
        assert!(body.contains("the store cannot write"), "{body}");
        let (status, why) = get("/readyz").await;
        assert!(
            status == 503 && why.contains("not ready: the store cannot write"),
            "{status} {why}"
        );
        assert_eq!(get("/livez").await.0, 200, "a restart would not help");
        assert_eq!(get(&format!("{maps}/a")).await.0, 200, "reads go on");
        let (status, _) = ask(http::Method::POST, maps, map("c")).await;
        assert!(status >= 500);
        disk.heal();
        until("it recovers", || store.fault().is_none()).await;
        assert_eq!(get("/readyz").await.0, 200);
        let (status, body) = ask(
            http::Method::POST,
            maps,
            map(&format!("{fault:?}").to_lowercase()),
        )
        .await;
        assert_eq!(status, 201, "{body}");
    }
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_drops_no_history() {
    use super::compact::Now;
    use std::sync::atomic::{AtomicU64, Ordering};
    let (wall, steady) = (
        Arc::new(AtomicU64::new(1 << 40)),
        Arc::new(AtomicU64::new(0)),
    );
    let clock = {
        let (wall, steady) = (wall.clone(), steady.clone());
        Clock(Box::new(move || Now {
            wall_ms: wall.load(Ordering::Relaxed),
            steady: Duration::from_millis(steady.load(Ordering::Relaxed)),
        }))
    };
    let disk = Arc::new(FaultyDisk::new(1).of_this_life());
    let store = Store::open_on(Path::new("."), disk, Keep::default(), clock, PACE).unwrap();
    let mut n = 0;
    let mut write = async || {
        n += 1;
        let op = config_map(&format!("m{n}"), Some(n), None);
        store.write(vec![op], Author::default()).await.unwrap();
        // Dropping is done before the next write is looked at, and this one changes nothing.
        let stale = config_map("none", None, Some(1));
        assert!(store.write(vec![stale], Author::default()).await.is_err());
        store.oldest()
    };
    const DAY: u64 = 24 * 3600 * 1000;
    for _ in 0..10 {
        write().await;
    }
    wall.fetch_add(31 * DAY, Ordering::Relaxed);
    assert_eq!(write().await, 0, "a jump makes nothing old");
    steady.fetch_add(DAY / 24, Ordering::Relaxed);
    wall.fetch_add(DAY / 24, Ordering::Relaxed);
    assert_eq!(write().await, 0, "nor does an hour of it");
    wall.fetch_sub(31 * DAY, Ordering::Relaxed);
    for _ in 0..40 {
        steady.fetch_add(DAY, Ordering::Relaxed);
        wall.fetch_add(DAY, Ordering::Relaxed);
        write().await;
    }
    let oldest = store.oldest();
    assert!(
        (10..45).contains(&oldest),
        "what is 30 days old goes: {oldest}"
    );
}

/// Every step of a backup and of a restore fails once: nothing is left that could be taken for whole.
#[tokio::test]
async fn a_backup_and_a_restore_are_whole_or_not_there() {
    use ::disk::private::Step;
    use std::cell::Cell;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("one"), Keep::default()).unwrap();
    for n in 0..20 {
        let op = config_map(&format!("m{n}"), Some(n), None);
        store.write(vec![op], Author::default()).await.unwrap();
    }
    let whole = dir.path().join("whole");
    assert_eq!(store.backup(&whole).unwrap(), 20);
    let failing_at = |at: u64, steps: &Cell<u64>| {
        steps.set(steps.get() + 1);
        match steps.get() == at {
            true => Err(std::io::Error::from(std::io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    };
    for at in 1.. {
        let steps = Cell::new(0);
        let folded = dir.path().join("folded");
        let gate = |step: Step, _: &Path| match step {
            // It has its name by then, and is whole.
            Step::SyncFolder => Ok(()),
            _ => failing_at(at, &steps),
        };
        let to = dir.path().join("backup");
        let backed = copy::backup(&store.disk, &to, &gate);
        assert_eq!(backed.is_ok(), to.exists(), "step {at}");
        let restored = copy::restore_with(&folded, &whole, &gate);
        assert_eq!(restored.is_ok(), folded.join(FILE).exists(), "step {at}");
        let parts = std::fs::read_dir(dir.path()).unwrap().flatten();
        let parts = parts.filter(|e| e.file_name().to_string_lossy().starts_with(".part"));
        assert_eq!(parts.count(), 0, "step {at}");
        if backed.is_ok() && restored.is_ok() {
            assert!(at > 6, "{at} steps");
            break;
        }
        let _ = std::fs::remove_file(&to);
        let _ = std::fs::remove_dir_all(&folded);
    }
    // Writes of the database into the copy fail one by one.
    for after in (0..400).step_by(7) {
        let failing = FaultyDisk::new(after);
        failing.plan(after, Fault::Full, u64::MAX);
        let to = dir.path().join("full");
        let made = copy::backup_to(&store.disk, failing.of_this_life());
        assert!(made.is_err() || failing.hits() == 0, "after {after}");
        assert!(!to.exists());
    }
}
