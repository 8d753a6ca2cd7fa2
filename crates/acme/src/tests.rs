//! Certificates from a directory that really looks at hosts, kept in a folder.

mod faults;
mod killed;
mod pebble;
mod world;

use std::time::Duration;

use world::{World, hosts};

use crate::State;
use acme_directory::Setting;

const DAY: u64 = 86_400;

#[tokio::test]
async fn certificates_are_issued_and_kept_with_higresss_annotations() {
    let mut world = World::start().await;
    for n in 0..12 {
        world.want(&format!("tls-{n}"), &[&format!("h{n}.example")]);
    }
    world.want("tls-pair", &["b.example", "a.example"]);
    world.all(State::Valid).await;
    let counts = world.directory.counts();
    assert_eq!((counts.accounts, counts.orders, counts.issued), (1, 13, 13));
    let secret = world.secret("tls-pair").unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let annotations = &secret["metadata"]["annotations"];
    assert_eq!(annotations["higress.io/cert-domain"], "a.example,b.example");
    assert_eq!(annotations["higress.io/cert-renew"], "false");
    assert_eq!(
        annotations["higress.io/cert-notAfter"]
            .as_str()
            .unwrap()
            .len(),
        19
    );
    // Orders are forgotten.
    let files = std::fs::read_dir(world.path()).unwrap().flatten();
    let files: Vec<String> = files
        .map(|f| f.file_name().into_string().unwrap())
        .collect();
    assert!(
        !files.iter().any(|name| name.contains("order")),
        "{files:?}"
    );
    // Whoever starts again orders nothing.
    world.restart();
    world.all(State::Valid).await;
    assert_eq!(world.directory.counts().orders, 13);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_never_written() {
    let mut world = World::start().await;
    let file = world.path().join("edge.theirs.yaml");
    let theirs = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "edge",
        "annotations": {"higress.io/cert-domain": "a.example"}}, "data": {}}"#;
    std::fs::write(&file, theirs).unwrap();
    world.want("theirs", &["a.example"]);
    world.all(State::Foreign).await;
    let error = world.row("theirs").error.unwrap();
    assert!(error.contains("pilothouse.io/acme=certificate"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), theirs);
    assert_eq!(world.directory.counts().requests, 0);
    // Nor is one ordered that others hide.
    world.want("shadowed", &["c.example"]);
    world.all(State::Foreign).await;
    assert_eq!(world.directory.counts().requests, 0);
    // Nor is one that appears between the look and the write.
    world.want("late", &["b.example"]);
    world.gateways.hold(true);
    world.until(|world| world.gateways.asked() > 0).await;
    let file = world.path().join("edge.late.yaml");
    std::fs::write(&file, theirs.replace("theirs", "late")).unwrap();
    world.gateways.hold(false);
    world
        .until(|world| world.row("late").state == State::Foreign)
        .await;
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        theirs.replace("theirs", "late")
    );
}

#[tokio::test]
async fn a_certificate_is_renewed_before_it_expires() {
    let mut world = World::start().await;
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    let first = world.row("tls");
    world.advance(50 * DAY).await;
    assert_eq!(world.row("tls").serial, first.serial);
    // The directory's clock stays behind.
    world
        .directory
        .set(|setting| setting.life = Duration::from_secs(200 * DAY));
    world.advance(11 * DAY).await;
    world
        .until(|world| world.row("tls").serial != first.serial)
        .await;
    assert_eq!(world.row("tls").state, State::Valid);
    let secret = world.secret("tls").unwrap();
    let annotations = &secret["metadata"]["annotations"];
    assert_eq!(annotations["higress.io/cert-renew"], "true");
    assert_eq!(world.directory.counts().orders, 2);
}

#[tokio::test]
async fn a_clock_that_is_wrong_does_not_make_orders_without_end() {
    let mut world = World::start().await;
    world.advance(70 * DAY).await;
    world.want("tls", &["a.example"]);
    world.all(State::Failed).await;
    let row = world.row("tls");
    let error = row.error.unwrap();
    assert!(error.contains("clock of this machine"), "{error}");
    assert!(row.serial.is_some(), "it is kept and served");
    world.advance(1800).await;
    assert_eq!(world.directory.counts().orders, 1);
    world.advance(3600).await;
    world
        .until(|world| world.row("tls").serial != row.serial)
        .await;
    world.advance(3600).await;
    assert_eq!(world.directory.counts().orders, 2);
}

#[tokio::test]
async fn a_certificate_of_seconds_is_renewed_in_time() {
    let world = World::start().await;
    world
        .directory
        .set(|setting| setting.life = Duration::from_secs(9));
    let mut world = world;
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    let first = world.row("tls");
    let start = std::time::Instant::now();
    world
        .until(|world| world.row("tls").serial != first.serial)
        .await;
    let took = start.elapsed();
    assert!((3..9).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn a_certificate_is_revoked_and_another_ordered() {
    let mut world = World::start().await;
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    let first = world.row("tls").serial.unwrap();
    let said = world.revoke("A.example").await;
    assert_eq!(said, Ok("revoked; another is ordered".to_owned()));
    assert!(world.directory.counts().revoked.contains(&*first));
    world
        .until(|world| {
            let row = world.row("tls");
            row.state == State::Valid && row.serial.as_deref() != Some(&*first)
        })
        .await;
    let unknown = world.revoke("b.example").await;
    assert!(unknown.unwrap_err().contains("no certificate is kept"));
    let second = world.row("tls").serial;
    assert!(world.renew("a.example").await.is_ok());
    world.until(|world| world.row("tls").serial != second).await;
    assert_eq!(world.directory.counts().orders, 3);
}

#[tokio::test]
async fn other_hosts_are_another_certificate() {
    let mut world = World::start().await;
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    let first = world.row("tls").serial;
    world.want("tls", &["a.example", "b.example"]);
    world
        .until(|world| {
            let row = world.row("tls");
            row.serial != first && row.hosts.len() == 2 && row.state == State::Valid
        })
        .await;
}

#[tokio::test]
async fn wildcards_are_proven_by_a_program() {
    let mut world = World::start().await;
    world.want("tls", &["*.a.example", "a.example"]);
    world.all(State::Failed).await;
    let error = world.row("tls").error.unwrap();
    assert!(error.contains("--acme-dns-hook"), "{error}");
    let records = world.with_dns_hook();
    world.advance(3600).await;
    world.all(State::Valid).await;
    let left = std::fs::read_to_string(&records).unwrap();
    assert_eq!(left, "", "records are taken away");
    assert_eq!(
        hosts(&world.secret("tls").unwrap()),
        ["*.a.example", "a.example"]
    );
}

#[tokio::test]
async fn accounts_are_bound_to_those_elsewhere() {
    let key = b"0123456789abcdef0123456789abcdef".to_vec();
    let mut world = World::with(|setting: &mut Setting| {
        setting.external = Some(("kid-1".to_owned(), key.clone()));
    })
    .await;
    world.want("tls", &["a.example"]);
    world.all(State::Failed).await;
    world.bind("kid-1", &key);
    world.all(State::Valid).await;
}

#[tokio::test]
async fn an_account_that_is_not_known_any_more_is_made_again() {
    let mut world = World::start().await;
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    world.directory.forget_accounts();
    world.want("more", &["b.example"]);
    world
        .until(|world| world.rows().iter().any(|row| row.error.is_some()))
        .await;
    world.advance(60).await;
    world
        .until(|world| world.row("more").state == State::Valid)
        .await;
}

#[test]
fn nothing_that_is_answered_panics_however_it_is_changed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/acme");
    let seeds: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(seeds.len() >= 7);
    let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        drawn ^= drawn << 13;
        drawn ^= drawn >> 7;
        drawn ^= drawn << 17;
        usize::try_from(drawn % below.max(1) as u64).unwrap()
    };
    for turn in 0..20_000 {
        let mut bytes = seeds[turn % seeds.len()].clone();
        for _ in 0..=draw(4) {
            let at = draw(bytes.len());
            match draw(4) {
                0 if !bytes.is_empty() => bytes[at] = u8::try_from(draw(256)).unwrap(),
                1 => bytes.truncate(at),
                2 => bytes.insert(at, b"\"{[0-"[draw(5)]),
                _ => bytes.extend_from_within(at..),
            }
        }
        crate::fuzz(&bytes);
    }
}
