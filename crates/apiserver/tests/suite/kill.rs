//! A process that is killed while it writes loses nothing that it acknowledged.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use apiserver::store::{Author, Expect, Keep, ObjectId, Op, Store, StoreError};
use serde_json::json;

const CHILD: &str = "PILOTHOUSE_KILL_TEST_FOLDER";

/// Not a test by itself: writes as fast as it can and says what is on disk, when the test below starts it.
#[test]
fn child_that_writes() {
    let Ok(folder) = std::env::var(CHILD) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = open(folder.as_ref(), Keep { revisions: 200, ..Keep::default() });
        let mut tasks = Vec::new();
        for writer in 0..8 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let id = ObjectId::new("default", &format!("w{writer}"));
                let known = store.read().get(&"configmaps".into(), &id).cloned();
                let mut expect = known.as_ref().map_or(Expect::Absent, |s| Expect::Revision(s.revision));
                let mut n = known.map_or(0, |s| s.value()["data"]["n"].as_u64().unwrap());
                loop {
                    n += 1;
                    let object = json!({"kind": "ConfigMap", "metadata": {"name": format!("w{writer}")}, "data": {"n": n, "pad": "x".repeat(500)}});
                    let op = Op { resource: "configmaps".into(), id: id.clone(), expect, put: Some(object) };
                    let stored = store.write(vec![op], Author::default()).await.unwrap();
                    expect = Expect::Revision(stored[0].revision);
                    println!("{writer} {n}");
                }
            }));
        }
        // Until it is killed.
        std::future::pending::<()>().await;
        drop(tasks);
    });
}

/// Opens a store as soon as whoever had it open closed it.
fn open(folder: &std::path::Path, keep: Keep) -> Store {
    loop {
        match Store::open(folder, keep) {
            Err(StoreError::InUse) => std::thread::sleep(std::time::Duration::from_millis(2)),
            other => return other.unwrap(),
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_process_is_killed() {
    let rounds = std::env::var("PILOTHOUSE_KILL_ROUNDS").map_or(3, |r| r.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = [0u64; 8];
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child_that_writes", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Each round is cut at another place.
        let most = 20 + round * 37 % 400;
        let mut seen = 0;
        let mut killed = false;
        for line in lines {
            let line = line.unwrap();
            let Some((writer, n)) = line.split_once(' ') else {
                continue;
            };
            let (Ok(writer), Ok(n)) = (writer.parse::<usize>(), n.parse::<u64>()) else {
                continue;
            };
            acknowledged[writer] = n;
            seen += 1;
            if seen >= most && !killed {
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        assert!(killed, "the child ended by itself");
        let store = open(dir.path(), Keep::default());
        for (writer, n) in acknowledged.iter().enumerate() {
            let id = ObjectId::new("default", &format!("w{writer}"));
            let found = store
                .read()
                .get(&"configmaps".into(), &id)
                .map_or(0, |s| s.value()["data"]["n"].as_u64().unwrap());
            assert!(
                found >= *n,
                "round {round}: writer {writer} was told {n}, and {found} is there"
            );
        }
    }
    println!(
        "{rounds} rounds, {} writes acknowledged",
        acknowledged.iter().sum::<u64>()
    );
}
