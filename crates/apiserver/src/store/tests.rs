use std::time::Duration;

use serde_json::json;

use super::*;

fn config_map(name: &str, value: &str) -> Op {
    Op {
        resource: "configmaps".into(),
        id: ObjectId::new("default", name),
        expect: Expect::Absent,
        put: Some(
            json!({"kind": "ConfigMap", "metadata": {"name": name, "labels": {"v": value}}, "data": {"k": value}}),
        ),
    }
}

fn over(revision: u64, op: Op) -> Op {
    Op {
        expect: Expect::Revision(revision),
        ..op
    }
}

fn id(name: &str) -> ObjectId {
    ObjectId::new("default", name)
}

async fn write(store: &Store, op: Op) -> u64 {
    let author = Author {
        user: "ann".into(),
        ..Author::default()
    };
    store.write(vec![op], author).await.unwrap()[0].revision
}

fn data_at(store: &Store, name: &str, revision: u64) -> Option<String> {
    let json = store
        .at(&"configmaps".into(), &id(name), revision)
        .unwrap()?;
    let value: Value = serde_json::from_slice(&json).unwrap();
    Some(value["data"]["k"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path(), Keep::default()).unwrap();
        assert_eq!(write(&store, config_map("a", "1")).await, 1);
        assert_eq!(write(&store, over(1, config_map("a", "2"))).await, 2);
        assert_eq!(write(&store, config_map("b", "1")).await, 3);
        let gone = Op {
            put: None,
            ..over(3, config_map("b", "1"))
        };
        assert_eq!(write(&store, gone).await, 4);
    }
    let store = reopen(dir.path(), Keep::default()).await;
    let memory = store.read();
    assert_eq!(memory.revision(), 4);
    let stored = memory.get(&"configmaps".into(), &id("a")).unwrap();
    assert_eq!((stored.revision, stored.label("v")), (2, Some("2")));
    assert!(memory.get(&"configmaps".into(), &id("b")).is_none());
    let events: Vec<_> = memory
        .events_after(1)
        .unwrap()
        .map(|e| {
            (
                e.kind,
                e.object.revision,
                e.before.as_ref().map(|b| b.revision),
            )
        })
        .collect();
    assert_eq!(
        events,
        [
            (EventKind::Modified, 2, Some(1)),
            (EventKind::Added, 3, None),
            (EventKind::Deleted, 4, Some(3))
        ]
    );
}

/// The writer thread closes the file shortly after the last handle is gone.
async fn reopen(dir: &Path, keep: Keep) -> Store {
    for _ in 0..1000 {
        match Store::open(dir, keep) {
            Err(StoreError::InUse) => tokio::time::sleep(Duration::from_millis(5)).await,
            other => return other.unwrap(),
        }
    }
    panic!("the store stays in use");
}

#[tokio::test]
async fn a_stale_write_changes_nothing_and_its_whole_group_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Keep::default()).unwrap();
    write(&store, config_map("a", "1")).await;
    write(&store, over(1, config_map("a", "2"))).await;
    let ops = vec![config_map("b", "1"), over(1, config_map("a", "3"))];
    let error = store.write(ops, Author::default()).await.unwrap_err();
    assert_eq!(error, WriteError::Changed(1));
    let ops = vec![config_map("a", "1")];
    let error = store.write(ops, Author::default()).await.unwrap_err();
    assert_eq!(error, WriteError::Exists(0));
    assert_eq!(store.read().revision(), 2);
    assert!(store.read().get(&"configmaps".into(), &id("b")).is_none());
}

#[tokio::test]
async fn every_revision_that_is_kept_can_be_told() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Keep {
        revisions: 10,
        ..Keep::default()
    };
    let store = Store::open(dir.path(), keep).unwrap();
    write(&store, config_map("still", "0")).await;
    let mut last = write(&store, config_map("a", "2")).await;
    for n in 3..=30 {
        last = write(&store, over(last, config_map("a", &n.to_string()))).await;
    }
    let last = write(&store, over(1, config_map("still", "31"))).await;
    write(&store, config_map("last", "32")).await;
    // Dropping is done before the next write is looked at, and this one changes nothing.
    let stale = vec![over(1, config_map("still", "x"))];
    assert!(store.write(stale, Author::default()).await.is_err());
    let oldest = store.oldest();
    assert!((20..=22).contains(&oldest), "{oldest}");
    for revision in oldest..=30 {
        assert_eq!(data_at(&store, "a", revision), Some(revision.to_string()));
        assert_eq!(
            data_at(&store, "still", revision).as_deref(),
            Some("0"),
            "at {revision}"
        );
    }
    assert_eq!(data_at(&store, "still", last).as_deref(), Some("31"));
    let changed = store.changed_since(oldest).unwrap();
    let of = |name: &str| changed[&("configmaps".into(), id(name))].clone();
    let text = |v: Option<Version>| String::from_utf8(v.unwrap().json.unwrap().to_vec()).unwrap();
    assert!(text(of("a")).contains(&format!("\"{oldest}\"")));
    assert!(text(of("still")).contains("\"0\""));
    assert_eq!(of("last"), None);
    let records = store
        .history(Some((&"configmaps".into(), &id("a"))), 3)
        .unwrap();
    let revisions: Vec<_> = records.iter().map(|r| (r.revision, r.before)).collect();
    assert_eq!(revisions, [(30, 29), (29, 28), (28, 27)]);
    assert_eq!(&*records[0].author.user, "ann");
    drop(store);
    let store = reopen(dir.path(), keep).await;
    assert_eq!(data_at(&store, "still", oldest).as_deref(), Some("0"));
    assert!(store.read().events_after(oldest - 1).is_none());
    assert!(store.read().events_after(oldest).is_some());
}

#[tokio::test]
async fn a_backup_is_a_store_and_a_damaged_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("one"), Keep::default()).unwrap();
    for n in 0..50 {
        write(&store, config_map(&format!("c{n}"), "a-value-to-find")).await;
    }
    let backup = dir.path().join("backup");
    assert_eq!(store.backup(&backup).unwrap(), 50);
    assert!(
        store.backup(&backup).is_err(),
        "a file is never written over"
    );
    assert_eq!(restore(&dir.path().join("two"), &backup).unwrap(), 50);
    let copy = Store::open(&dir.path().join("two"), Keep::default()).unwrap();
    assert_eq!(
        copy.read().list(&"configmaps".into(), None, None).count(),
        50
    );
    assert!(restore(&dir.path().join("two"), &backup).is_err());

    let mut bytes = std::fs::read(&backup).unwrap();
    let at = bytes
        .windows(15)
        .position(|w| w == b"a-value-to-find")
        .unwrap();
    bytes[at] = b'x';
    std::fs::write(&backup, &bytes).unwrap();
    let error = restore(&dir.path().join("three"), &backup).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

#[tokio::test]
async fn concurrent_writes_share_commits_and_each_gets_its_own_revision() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Keep::default()).unwrap();
    let writes = (0..200).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { write(&store, config_map(&format!("c{n}"), "1")).await })
    });
    let mut revisions = Vec::new();
    for task in writes.collect::<Vec<_>>() {
        revisions.push(task.await.unwrap());
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=200).collect::<Vec<u64>>());
}
