//! What is saved is read back, whatever happens to the file.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilothouse_warm::{Folder, Ignored, Journal, Kept, NodeKeys, OpenError, Origin, Served, load};
use tempfile::TempDir;
use xds::{Published, Resource, ResourceSet, TypeUrl};

const LIMIT: u64 = 1 << 30;

fn origin() -> Origin {
    Origin {
        program: "1".into(),
        settings: 7,
    }
}

fn resource(name: &str, body: &str) -> Arc<Resource> {
    Arc::new(Resource::from_bytes(
        name,
        Bytes::copy_from_slice(body.as_bytes()),
    ))
}

fn published(clusters: &[(&str, &str)], secrets: &[(&str, &str)]) -> Arc<Published> {
    let set = |list: &[(&str, &str)]| ResourceSet::new(list.iter().map(|(n, b)| resource(n, b)));
    let mut published = Published::new(3);
    published.set(TypeUrl::Cluster, set(clusters));
    published.set(TypeUrl::Secret, set(secrets));
    Arc::new(published)
}

fn keys(node: u128, kind: u128) -> NodeKeys {
    NodeKeys {
        exact: node,
        kind,
        addresses: node as u64,
    }
}

fn served(published: &Arc<Published>, nodes: &[NodeKeys]) -> Served {
    Served {
        published: published.clone(),
        nodes: nodes.to_vec(),
    }
}

/// A journal in a folder of its own.
struct Written {
    dir: TempDir,
    journal: Journal,
}

impl Written {
    fn new(limit: u64) -> Self {
        let dir = TempDir::new().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let journal = Journal::new(folder, origin(), limit, None);
        Self { dir, journal }
    }

    fn save(&mut self, all: &[Served]) -> Option<pilothouse_warm::Saved> {
        self.journal.save(all, Instant::now()).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("served")).unwrap()
    }

    fn kept(&self) -> Kept {
        load(&self.bytes(), &origin()).unwrap()
    }
}

fn clusters(kept: &Kept, keys: &NodeKeys) -> Option<ResourceSet> {
    kept.of(keys)?.get(TypeUrl::Cluster).cloned()
}

#[test]
fn every_save_is_read_back_as_it_was() {
    let mut written = Written::new(LIMIT);
    let (a, b) = (keys(1, 10), keys(2, 20));
    let steps = [
        vec![served(&published(&[("x", "1"), ("y", "1")], &[]), &[a])],
        vec![
            served(&published(&[("x", "2"), ("z", "1")], &[]), &[a]),
            served(&published(&[("x", "2")], &[]), &[b]),
        ],
        vec![served(&published(&[("x", "2")], &[]), &[a, b])],
        vec![served(&published(&[], &[]), &[b])],
    ];
    for step in &steps {
        written.save(step).unwrap();
        let kept = written.kept();
        for view in step {
            for node in &view.nodes {
                let expected = view.published.get(TypeUrl::Cluster);
                assert_eq!(clusters(&kept, node).as_ref(), expected);
            }
        }
    }
    assert_eq!(written.save(&steps[3]), None, "nothing differs");
    // The first node left not long ago.
    assert!(written.kept().of(&a).is_some());
    let later = Instant::now() + Duration::from_secs(3600);
    written.journal.save(&steps[3], later).unwrap().unwrap();
    assert!(written.kept().of(&a).is_none());
}

#[test]
fn a_small_change_of_a_large_set_costs_a_small_save() {
    let mut written = Written::new(LIMIT);
    let names: Vec<String> = (0..5_000).map(|n| format!("cluster-{n}")).collect();
    let mut all: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "body")).collect();
    let first = written.save(&[served(&published(&all, &[]), &[keys(1, 1)])]);
    all[17].1 = "other";
    let second = written.save(&[served(&published(&all, &[]), &[keys(1, 1)])]);
    assert!(first.unwrap().written > 100_000);
    assert!(second.unwrap().written < 300, "{second:?}");
}

#[test]
fn types_that_are_not_asked_for_yet_stay_as_they_were() {
    let mut written = Written::new(LIMIT);
    let node = keys(1, 1);
    let whole = published(&[("x", "1")], &[]);
    let mut listeners = Published::new(4);
    listeners.set(TypeUrl::Listener, ResourceSet::new([resource("l", "1")]));
    written.save(&[served(&whole, &[node])]);
    let saved = written.save(&[served(&listeners.into(), &[node])]);
    assert_eq!(saved.unwrap().sets, 2);
    let kept = written.kept();
    assert_eq!(clusters(&kept, &node).as_ref(), whole.get(TypeUrl::Cluster));
    assert!(kept.of(&node).unwrap().get(TypeUrl::Listener).is_some());
}

#[test]
fn secrets_are_not_written() {
    let mut written = Written::new(LIMIT);
    let both = published(&[("public", "open")], &[("key", "hidden words")]);
    written.save(&[served(&both, &[keys(1, 1)])]);
    let bytes = written.bytes();
    assert!(!bytes.windows(6).any(|w| w == b"hidden"));
    assert!(bytes.windows(6).any(|w| w == b"public"));
    assert!(
        written
            .kept()
            .of(&keys(1, 1))
            .unwrap()
            .get(TypeUrl::Secret)
            .is_none()
    );
}

#[test]
fn a_sibling_gets_what_its_kind_has_if_that_does_not_depend_on_the_address() {
    let mut written = Written::new(LIMIT);
    let (one, two) = (published(&[("x", "1")], &[]), published(&[("x", "2")], &[]));
    written.save(&[
        served(&one, &[keys(1, 10), keys(2, 10), keys(3, 30)]),
        served(&two, &[keys(4, 20), keys(5, 40)]),
        served(&one.at(4).into(), &[keys(6, 40)]),
    ]);
    let kept = written.kept();
    assert!(kept.of(&keys(9, 10)).is_some());
    assert!(
        kept.of(&keys(9, 30)).is_none(),
        "a single one proves nothing"
    );
    assert!(kept.of(&keys(9, 40)).is_none(), "they do not agree");
    assert!(kept.of(&keys(9, 99)).is_none());
}

/// Cut anywhere, the file holds a save before; nothing else is ever read.
#[test]
fn a_file_that_ends_within_a_save_holds_the_save_before() {
    let mut written = Written::new(LIMIT);
    let (one, two) = (published(&[("x", "1")], &[]), published(&[("x", "2")], &[]));
    let node = keys(1, 1);
    let first = written.save(&[served(&one, &[node])]).unwrap().size as usize;
    written.save(&[served(&two, &[node])]).unwrap();
    let bytes = written.bytes();
    for cut in 0..bytes.len() {
        match load(&bytes[..cut], &origin()) {
            Ok(kept) => {
                assert!(cut >= first);
                assert_eq!(clusters(&kept, &node).as_ref(), one.get(TypeUrl::Cluster));
            }
            Err(Ignored::Foreign | Ignored::Damaged { .. }) => assert!(cut < first),
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
}

#[test]
fn a_bit_that_differs_is_noticed() {
    let mut written = Written::new(LIMIT);
    let node = keys(1, 1);
    written.save(&[served(&published(&[("x", "1")], &[]), &[node])]);
    let bytes = written.bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        if let Ok(kept) = load(&damaged, &origin()) {
            panic!("byte {at}: {kept:?}");
        }
    }
}

#[test]
fn files_of_others_are_told_apart() {
    let mut written = Written::new(LIMIT);
    written.save(&[served(&published(&[], &[]), &[keys(1, 1)])]);
    let bytes = written.bytes();
    let reason = |bytes: &[u8], origin: &Origin| load(bytes, origin).unwrap_err().reason();
    assert_eq!(reason(b"", &origin()), "foreign");
    assert_eq!(
        reason(b"apiVersion: v1\nkind: Secret\n", &origin()),
        "foreign"
    );
    let mut newer = bytes.clone();
    newer[16] = 2;
    assert_eq!(reason(&newer, &origin()), "format");
    let mut other = origin();
    other.program = "2".into();
    assert_eq!(reason(&bytes, &other), "program");
    other = origin();
    other.settings = 8;
    assert_eq!(reason(&bytes, &other), "settings");
}

#[test]
fn views_with_few_proxies_are_left_out_where_there_is_no_room() {
    let mut written = Written::new(20_000);
    let long = |c: char| c.to_string().repeat(6_000);
    let (large, larger) = (long('a'), long('b'));
    let views = [
        served(&published(&[("x", &large)], &[]), &[keys(1, 1)]),
        served(
            &published(&[("x", &larger)], &[]),
            &[keys(2, 2), keys(3, 2)],
        ),
    ];
    let saved = written.save(&views).unwrap();
    assert_eq!((saved.views, saved.left_out), (1, 1));
    assert!(saved.size <= 10_000);
    let kept = written.kept();
    assert!(kept.of(&keys(1, 1)).is_none() && kept.of(&keys(3, 2)).is_some());
    assert_eq!(
        written.save(&views),
        None,
        "and that is no reason to write again"
    );
}

#[test]
fn the_file_stays_bounded_while_everything_changes() {
    let mut written = Written::new(400_000);
    for round in 0..60 {
        let body = round.to_string().repeat(20_000);
        written.save(&[served(&published(&[("x", &body)], &[]), &[keys(1, 1)])]);
        assert!(written.bytes().len() <= 400_000);
    }
    let kept = clusters(&written.kept(), &keys(1, 1)).unwrap();
    assert!(kept.get("x").unwrap().body.starts_with(b"5959"));
}

#[test]
fn a_folder_is_used_by_one_at_a_time_and_by_no_other_user() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a/b");
    let first = Folder::open(&path).unwrap();
    assert!(matches!(Folder::open(&path), Err(OpenError::Taken)));
    assert!(first.load(&origin(), LIMIT).unwrap().is_none());
    drop(first);
    Folder::open(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn what_was_read_is_kept_until_its_proxies_had_time_to_come_back() {
    let mut written = Written::new(LIMIT);
    let (a, b) = (keys(1, 1), keys(2, 2));
    let one = published(&[("x", "1")], &[]);
    written.save(&[
        served(&one, &[a]),
        served(&published(&[("y", "1")], &[]), &[b]),
    ]);
    let kept = written.kept();
    let Written { dir, journal } = written;
    drop(journal);
    let folder = Folder::open(dir.path()).unwrap();
    let mut journal = Journal::new(folder, origin(), LIMIT, Some(kept));
    journal.save(&[served(&one, &[a])], Instant::now()).unwrap();
    let again = load(&fs::read(dir.path().join("served")).unwrap(), &origin()).unwrap();
    assert!(again.of(&a).is_some() && again.of(&b).is_some());
}

/// Clients that connect once, each under a name of its own, must not make the file grow.
#[test]
fn of_nodes_that_left_no_more_are_kept_than_were_connected_at_once() {
    let mut written = Written::new(LIMIT);
    let steady = served(&published(&[("x", "1")], &[]), &[keys(1, 1), keys(2, 1)]);
    let mut now = Instant::now();
    for round in 0..50_u128 {
        let guest = keys(100 + round, 100 + round);
        let own = served(&published(&[("y", &round.to_string())], &[]), &[guest]);
        written
            .journal
            .save(&[steady.clone(), own], now)
            .unwrap()
            .unwrap();
        now += Duration::from_secs(1);
    }
    written
        .journal
        .save(std::slice::from_ref(&steady), now)
        .unwrap()
        .unwrap();
    let kept = written.kept();
    assert!(kept.nodes() <= 2 + 3, "{} nodes", kept.nodes());
    assert!(kept.views() <= 1 + 2, "{} views", kept.views());
    let newest = keys(149, 149);
    assert!(
        clusters(&kept, &newest).is_some(),
        "the last to leave stays"
    );
    assert!(clusters(&kept, &keys(100, 100)).is_none());
}

/// `/dev/full` takes the place of the new file: every write to it fails for want of room.
#[test]
fn a_full_disk_costs_the_save_and_nothing_else() {
    let mut written = Written::new(LIMIT);
    let node = keys(1, 1);
    let one = served(&published(&[("x", "1")], &[]), &[node]);
    written.save(std::slice::from_ref(&one)).unwrap();
    // Settings that differ make it write anew.
    let part = written.dir.path().join("served.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let mut other = origin();
    other.settings = 8;
    written.journal.set_origin(other.clone());
    let error = written
        .journal
        .save(std::slice::from_ref(&one), Instant::now())
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(
        !part.exists() && part.symlink_metadata().is_err(),
        "it takes no room"
    );
    assert!(
        clusters(&written.kept(), &node).is_some(),
        "the save before holds"
    );
    written.save(&[one]).unwrap();
    assert!(
        load(&written.bytes(), &other).is_ok(),
        "there is room again"
    );
}
