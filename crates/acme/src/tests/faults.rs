//! Directories that answer nonsense, slowly, or no.

use std::time::Duration;

use super::world::World;
use crate::State;
use acme_directory::Fault;

/// Every request of an order, in turn.
const KINDS: [&str; 9] = [
    "directory",
    "nonce",
    "account",
    "order",
    "authz",
    "challenge",
    "look",
    "finalize",
    "certificate",
];

#[tokio::test]
async fn whatever_is_answered_to_whichever_request_the_certificate_comes_later() {
    let faults = [
        (Fault::Garbage, ""),
        (Fault::Oversize, "larger than"),
        (Fault::Broken, "502"),
        (Fault::Closed, "no answer"),
    ];
    for kind in KINDS {
        for (fault, said) in &faults {
            let mut world = World::start().await;
            world.directory.fail(kind, fault.clone());
            world.want("tls", &["a.example"]);
            world
                .until(|world| {
                    world.row("tls").state != State::Ordering
                        && world.row("tls").state != State::Waiting
                })
                .await;
            let row = world.row("tls");
            // What a certificate request is not needed for does not fail.
            let error = row.error.as_deref().unwrap_or_default();
            if row.state == State::Failed {
                assert!(error.contains(said), "{kind} {fault:?}: {error}");
                assert!(!error.contains('\n') && error.len() < 1000, "{error}");
                world.advance(60).await;
            } else {
                assert_eq!(kind, "nonce", "{kind} {fault:?} was not noticed");
            }
            world.all(State::Valid).await;
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_away_is_not_asked_for_every_certificate() {
    let mut world = World::start().await;
    for _ in 0..100 {
        world.directory.fail("account", Fault::Broken);
    }
    for n in 0..100 {
        world.want(&format!("tls-{n}"), &[&format!("h{n}.example")]);
    }
    let tried = |world: &World| {
        let rows = world.rows();
        rows.iter().filter(|r| r.state == State::Failed).count()
    };
    world.until(|world| tried(world) > 0).await;
    // Everything else waits with it.
    world.advance(1).await;
    let requests = world.directory.counts().requests;
    assert!(requests < 50, "{requests} requests");
}

#[tokio::test]
async fn a_nonce_that_is_refused_is_asked_for_again_at_once() {
    for kind in &KINDS[2..] {
        let mut world = World::start().await;
        world.directory.fail(kind, Fault::BadNonce);
        world.want("tls", &["a.example"]);
        world.all(State::Valid).await;
        assert_eq!(world.row("tls").error, None, "{kind}");
        assert_eq!(world.directory.counts().orders, 1, "{kind}");
    }
}

#[tokio::test]
async fn a_slow_directory_is_waited_for() {
    let mut world = World::start().await;
    for kind in KINDS {
        world
            .directory
            .fail(kind, Fault::Slow(Duration::from_millis(300)));
    }
    world.want("tls", &["a.example"]);
    world.all(State::Valid).await;
    assert_eq!(world.directory.counts().orders, 1);
}

#[tokio::test]
async fn a_directory_that_wants_to_be_left_alone_is() {
    let mut world = World::start().await;
    world.directory.fail("order", Fault::Limited(600));
    world.want("tls", &["a.example"]);
    world.all(State::Limited).await;
    let requests = world.directory.counts().requests;
    let error = world.row("tls").error.unwrap();
    assert!(error.contains("limits requests"), "{error}");
    // Others wait as well, for a minute.
    world.want("other", &["b.example"]);
    world.advance(30).await;
    assert_eq!(world.directory.counts().requests, requests);
    world.advance(40).await;
    world
        .until(|world| world.row("other").state == State::Valid)
        .await;
    assert_eq!(world.row("tls").state, State::Limited);
    world.advance(500).await;
    assert_eq!(world.row("tls").state, State::Limited);
    world.advance(60).await;
    world.all(State::Valid).await;
}

#[tokio::test]
async fn a_host_that_does_not_prove_itself_gets_no_certificate_and_a_reason() {
    let mut world = World::start().await;
    *world.wrong.lock().unwrap() = Some("something else".to_owned());
    world.want("tls", &["a.example"]);
    world.all(State::Failed).await;
    let error = world.row("tls").error.unwrap();
    assert!(error.contains("a.example answered"), "{error}");
    assert!(error.contains("something else"), "{error}");
    assert!(world.secret("tls").is_none());
    // Not soon again: directories count what fails.
    let wait = world.row("tls").next.unwrap();
    let wait = wait.duration_since(std::time::SystemTime::now()).unwrap();
    assert!(wait > Duration::from_secs(240), "{wait:?}");
    *world.wrong.lock().unwrap() = None;
    world.advance(3600).await;
    world.all(State::Valid).await;
    let counts = world.directory.counts();
    assert_eq!((counts.orders, counts.refused), (2, 1));
}

#[tokio::test]
async fn a_certificate_for_another_host_is_not_kept() {
    let mut world = World::start().await;
    world.directory.fail("finalize", Fault::OtherHost);
    world.want("tls", &["a.example"]);
    world.all(State::Failed).await;
    let error = world.row("tls").error.unwrap();
    assert!(error.contains("does not name a.example"), "{error}");
    assert!(world.secret("tls").is_none());
    world.advance(3600).await;
    world.all(State::Valid).await;
}
