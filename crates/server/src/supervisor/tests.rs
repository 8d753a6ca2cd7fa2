//! Sources that panic, end, hang, lie, come and go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use model::{Collection, Contents, Kind, ObjectName};
use source_api::{Refusal, Running, Standing};
use testkit::World;
use tokio::sync::oneshot;

use super::*;
use crate::derive::OriginLimits;

/// What a scripted source does with its sink. It is told which run it is.
type Script = Arc<dyn Fn(u64, Sink, CancellationToken) -> Running + Send + Sync>;

struct Scripted {
    owner: Owner,
    run: u64,
    script: Script,
}

impl Source for Scripted {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        vec![ENTRIES, PODS]
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        (self.script)(self.run, out, stop)
    }
}

const ENTRIES: Contents = Contents::Objects(Kind::ServiceEntry);
const PODS: Contents = Contents::Objects(Kind::Pod);

fn put(owner: &Owner, name: &str) -> Change {
    let yaml = format!(
        "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: {name}, namespace: shop}}, \
         spec: {{hosts: [{name}.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}}}"
    );
    Change::Put(owner.clone(), World::objects(&yaml).remove(0))
}

fn synced(owner: &Owner, of: Contents) -> Change {
    let owner = owner.clone();
    Change::Synced(Collection { owner, of })
}

struct Supervised {
    supervisor: Supervisor,
    derive: Derive,
    metrics: Arc<Metrics>,
}

impl Supervised {
    fn start() -> Self {
        Self::told(Box::new(|_, _| ()))
    }

    /// What sources find is told so.
    fn told(told: OnFindings) -> Self {
        let settings = Arc::new(testkit::settings(""));
        let (derive, _) = Derive::start(settings, OriginLimits::default(), |_| ()).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let stop = CancellationToken::new();
        let supervisor = Supervisor::start(derive.clone(), metrics.clone(), told, stop);
        Self {
            supervisor,
            derive,
            metrics,
        }
    }

    fn add(&self, owner: &Owner, script: Script) {
        self.supervisor.add(make(owner, script)).unwrap();
    }

    async fn has(&self, name: &str) -> bool {
        let name = ObjectName::new("shop", name);
        let has = self.derive.ask(move |state| {
            let snapshot = state.store().snapshot();
            snapshot.tables.service_entries.get(&name).is_some()
        });
        has.await.unwrap()
    }

    /// Waits until a source is as wanted.
    async fn until(&self, owner: &Owner, wanted: impl Fn(&SourceStatus) -> bool) {
        let mut progressed = self.supervisor.0.progressed.subscribe();
        let waiting = async {
            loop {
                progressed.mark_unchanged();
                let all = self.supervisor.sources();
                if all.iter().any(|s| s.owner == *owner && wanted(s)) {
                    return;
                }
                progressed.changed().await.unwrap();
            }
        };
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, waiting)
            .await
            .expect("it comes so far");
        self.derive.ask(|_| ()).await.unwrap();
    }

    fn failures(&self, owner: &Owner, reason: &str) -> u64 {
        self.metrics.sources.failures(&owner.to_string(), reason)
    }
}

fn make(owner: &Owner, script: Script) -> Make {
    let (owner, runs) = (owner.clone(), AtomicU64::new(0));
    Box::new(move |_| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let (owner, script) = (owner.clone(), script.clone());
        Box::new(Scripted { owner, run, script })
    })
}

/// Reports `a` and `b` in its first run, then does something else; later ones report `b` alone and stay.
fn failing(owner: &Owner, end: fn() -> Result<(), SourceError>) -> Script {
    let owner = owner.clone();
    Arc::new(move |run, out, stop| {
        let owner = owner.clone();
        Box::pin(async move {
            let mut all = vec![
                put(&owner, "b"),
                synced(&owner, PODS),
                synced(&owner, ENTRIES),
            ];
            if run == 0 {
                all.push(put(&owner, "a"));
            }
            out.send(SourceEvent::Changes(all)).await?;
            if run == 0 {
                return end();
            }
            stop.cancelled().await;
            Ok(())
        })
    })
}

#[tokio::test]
async fn a_source_that_panics_or_ends_is_started_again_and_others_go_on() {
    type Ends = fn() -> Result<(), SourceError>;
    let ends: [(&str, Ends); 3] = [
        ("panic", || panic!("a scripted panic")),
        ("error", || Err(SourceError::new("a scripted error"))),
        ("ended", || Ok(())),
    ];
    for (reason, end) in ends {
        let world = Supervised::start();
        let (one, other) = (Owner::new(10, "one"), Owner::new(20, "other"));
        world.add(&other, steady(&other, "c"));
        world.add(&one, failing(&one, end));
        world.supervisor.synced().await.unwrap();
        world
            .until(&one, |s| matches!(s.state, SourceState::Failed { .. }))
            .await;
        assert!(world.has("a").await, "{reason}: its last state stays");
        assert!(world.has("b").await && world.has("c").await);
        world
            .until(&one, |s| s.state == SourceState::InSync && s.failures == 1)
            .await;
        assert!(!world.has("a").await, "{reason}: it was not reported again");
        assert!(world.has("b").await && world.has("c").await);
        assert_eq!(world.failures(&one, reason), 1);
        let all = world.supervisor.sources();
        let failures: Vec<u64> = all.iter().map(|s| s.failures).collect();
        assert_eq!(failures, [1, 0]);
    }
}

/// Reports one object and stays.
fn steady(owner: &Owner, name: &'static str) -> Script {
    let owner = owner.clone();
    Arc::new(move |_, out, stop| {
        let owner = owner.clone();
        Box::pin(async move {
            let all = vec![
                put(&owner, name),
                synced(&owner, PODS),
                synced(&owner, ENTRIES),
            ];
            out.send(SourceEvent::Changes(all)).await?;
            stop.cancelled().await;
            Ok(())
        })
    })
}

#[tokio::test]
async fn a_source_that_is_removed_takes_its_objects_with_it_and_may_come_again() {
    let world = Supervised::start();
    let (one, other) = (Owner::new(10, "one"), Owner::new(20, "other"));
    world.add(&one, steady(&one, "a"));
    world.add(&other, steady(&other, "c"));
    world.supervisor.synced().await.unwrap();
    assert!(world.has("a").await && world.has("c").await);
    assert!(world.supervisor.remove(&one).await);
    assert!(!world.supervisor.remove(&one).await, "it is gone");
    assert!(!world.has("a").await && world.has("c").await);
    world.add(&one, steady(&one, "a"));
    world.supervisor.synced().await.unwrap();
    assert!(world.has("a").await);
    let again = make(&one, steady(&one, "a"));
    assert!(world.supervisor.add(again).is_err(), "it is there already");
}

#[tokio::test]
async fn a_kind_that_is_missing_is_named_and_holds_nothing_else_back() {
    let world = Supervised::start();
    let slow = Owner::new(10, "slow");
    let (go_on, wait) = oneshot::channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let owner = slow.clone();
    world.add(
        &slow,
        Arc::new(move |_, out, stop| {
            let (owner, wait) = (owner.clone(), wait.lock().unwrap().take());
            Box::pin(async move {
                let entries = vec![put(&owner, "a"), synced(&owner, ENTRIES)];
                out.send(SourceEvent::Changes(entries)).await?;
                if let Some(wait) = wait {
                    wait.await.map_err(SourceError::new)?;
                }
                out.send(SourceEvent::Changes(vec![synced(&owner, PODS)]))
                    .await?;
                stop.cancelled().await;
                Ok(())
            })
        }),
    );
    let waits = |s: &SourceStatus| s.state == SourceState::Syncing(vec![PODS]);
    world.until(&slow, waits).await;
    assert!(world.has("a").await, "what is there is used");
    let status = world.supervisor.sources().remove(0);
    assert_eq!(status.words(), "waiting for pods");
    assert_eq!(status.json()["pending"], serde_json::json!(["pods"]));
    let synced = tokio::time::timeout(Duration::from_millis(50), world.supervisor.synced());
    assert!(synced.await.is_err());
    go_on.send(()).unwrap();
    world.supervisor.synced().await.unwrap();
}

#[tokio::test]
async fn what_a_source_must_read_before_it_reports_anything_is_shown() {
    let world = Supervised::start();
    let held = Owner::new(10, "held");
    world.add(
        &held,
        Arc::new(|_, out, stop| {
            Box::pin(async move {
                out.send(SourceEvent::Waits(vec![PODS])).await?;
                stop.cancelled().await;
                Ok(())
            })
        }),
    );
    let waits = |s: &SourceStatus| s.state == SourceState::Syncing(vec![PODS]);
    world.until(&held, waits).await;
}

#[tokio::test]
async fn what_is_refused_or_only_kept_is_not_in_sync_and_holds_up_no_start() {
    let world = Supervised::start();
    let peer = Owner::new(10, "peer");
    let (say, said) = tokio::sync::mpsc::unbounded_channel::<Standing>();
    let (owner, said) = (peer.clone(), Arc::new(Mutex::new(Some(said))));
    world.add(
        &peer,
        Arc::new(move |_, out, _| {
            let (owner, said) = (owner.clone(), said.lock().unwrap().take());
            Box::pin(async move {
                let mut said = said.expect("one run");
                let kept = vec![PODS];
                let refused = Vec::new();
                out.send(SourceEvent::Stands(Standing { kept, refused }))
                    .await?;
                let all = vec![
                    put(&owner, "a"),
                    synced(&owner, PODS),
                    synced(&owner, ENTRIES),
                ];
                out.send(SourceEvent::Changes(all)).await?;
                while let Some(standing) = said.recv().await {
                    out.send(SourceEvent::Stands(standing)).await?;
                }
                Ok(())
            })
        }),
    );
    let kept = |s: &SourceStatus| s.state == SourceState::Kept(vec![PODS]) && s.was_in_sync;
    world.until(&peer, kept).await;
    assert!(world.has("a").await, "it is in force");
    world.supervisor.synced().await.unwrap();
    let shows_sync = || world.metrics.sources.shows_sync(&peer.to_string());
    assert!(!shows_sync());
    let status = world.supervisor.source(&peer).unwrap();
    assert_eq!(status.words(), "in force as it was kept, waiting for pods");
    assert_eq!(status.json()["state"], "kept");
    assert_eq!(status.json()["pending"], serde_json::json!(["pods"]));

    let refusal = Refusal {
        of: "v1/Pod".into(),
        why: "it is garbage".into(),
        since: SystemTime::UNIX_EPOCH,
    };
    let refused = Standing {
        kept: Vec::new(),
        refused: vec![refusal],
    };
    say.send(refused).unwrap();
    let refuses = |s: &SourceStatus| matches!(s.state, SourceState::Refusing { .. });
    world.until(&peer, refuses).await;
    assert!(!shows_sync());
    let status = world.supervisor.source(&peer).unwrap();
    let words = "refused v1/Pod since 1970-01-01T00:00:00Z (it is garbage)";
    assert_eq!(status.words(), words);
    let shown = serde_json::json!([
        {"type": "v1/Pod", "since": "1970-01-01T00:00:00Z", "reason": "it is garbage"}
    ]);
    assert_eq!(status.json()["state"], "refused");
    assert_eq!(status.json()["refused"], shown);

    say.send(Standing::default()).unwrap();
    let in_sync = |s: &SourceStatus| s.state == SourceState::InSync;
    world.until(&peer, in_sync).await;
    assert!(shows_sync());
}

#[tokio::test]
async fn a_source_that_fails_again_and_again_shows_since_when() {
    let mut progress = Progress::new(vec![PODS], None);
    let owner = Owner::new(10, "fails");
    let since = |progress: &Progress| progress.status(&owner).json()["since"].clone();
    progress.begin(1);
    progress.fail("one".into(), Instant::now());
    let first = since(&progress);
    assert!(first.is_string(), "{first}");
    progress.begin(2);
    assert!(since(&progress).is_null(), "it is tried again");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    progress.fail("two".into(), Instant::now());
    assert_eq!(since(&progress), first);
    progress.begin(3);
    progress.step(&[synced(&owner, PODS)]);
    progress.fail("three".into(), Instant::now());
    assert_ne!(since(&progress), first, "it was in sync meanwhile");
}

#[tokio::test]
async fn a_source_that_hangs_is_aborted_when_it_is_removed() {
    let world = Supervised::start();
    let hangs = Owner::new(10, "hangs");
    world.add(&hangs, Arc::new(|_, _, _| Box::pin(std::future::pending())));
    world
        .until(&hangs, |s| s.state == SourceState::Starting)
        .await;
    assert!(world.supervisor.remove(&hangs).await);
    assert!(world.supervisor.sources().is_empty());
}

#[tokio::test]
async fn a_source_speaks_for_itself_only() {
    let world = Supervised::start();
    let (liar, other) = (Owner::new(10, "liar"), Owner::new(20, "other"));
    world.add(&other, steady(&other, "c"));
    let (owner, victim) = (liar.clone(), other.clone());
    world.add(
        &liar,
        Arc::new(move |_, out, stop| {
            let (owner, victim) = (owner.clone(), victim.clone());
            Box::pin(async move {
                let lies = vec![
                    Change::Gone(victim.clone()),
                    put(&victim, "d"),
                    put(&owner, "a"),
                    synced(&owner, PODS),
                    synced(&owner, ENTRIES),
                ];
                out.send(SourceEvent::Changes(lies)).await?;
                stop.cancelled().await;
                Ok(())
            })
        }),
    );
    world.supervisor.synced().await.unwrap();
    assert!(world.has("a").await && world.has("c").await);
    assert!(!world.has("d").await);
}

#[tokio::test]
async fn a_source_that_replaces_another_takes_over_what_it_holds() {
    let world = Supervised::start();
    let one = Owner::new(10, "one");
    assert!(!world.supervisor.replace(make(&one, steady(&one, "b"))));
    world.add(&one, steady(&one, "a"));
    world.supervisor.synced().await.unwrap();
    let (go_on, wait) = oneshot::channel::<()>();
    let wait = Arc::new(Mutex::new(Some(wait)));
    let owner = one.clone();
    let slow: Script = Arc::new(move |_, out, stop| {
        let (owner, wait) = (owner.clone(), wait.lock().unwrap().take());
        Box::pin(async move {
            out.send(SourceEvent::Changes(vec![put(&owner, "b")]))
                .await?;
            if let Some(wait) = wait {
                wait.await.map_err(SourceError::new)?;
            }
            let synced = vec![synced(&owner, PODS), synced(&owner, ENTRIES)];
            out.send(SourceEvent::Changes(synced)).await?;
            stop.cancelled().await;
            Ok(())
        })
    });
    assert!(world.supervisor.replace(make(&one, slow)));
    world.until(&one, |s| s.starts == 2).await;
    while !world.has("b").await {
        tokio::task::yield_now().await;
    }
    assert!(
        world.has("a").await,
        "the new one has not said that it is gone"
    );
    let status = world.supervisor.source(&one).unwrap();
    assert!(status.was_in_sync, "nothing waits for it again");
    go_on.send(()).unwrap();
    world
        .until(&one, |s| s.state == SourceState::InSync && s.starts == 2)
        .await;
    assert!(world.has("b").await && !world.has("a").await);
    assert!(world.supervisor.remove(&one).await);
    assert!(!world.has("b").await);
}

#[tokio::test]
async fn the_start_waits_for_a_source_as_long_as_it_was_told() {
    let world = Supervised::start();
    let (slow, other) = (Owner::new(10, "slow"), Owner::new(20, "other"));
    let never: Script = Arc::new(|_, _, _| Box::pin(std::future::pending()));
    let patience = Duration::from_millis(300);
    let start = Instant::now();
    let added = world
        .supervisor
        .add_patient(make(&slow, never), Some(patience));
    added.unwrap();
    world.add(&other, steady(&other, "c"));
    assert!(!world.supervisor.source(&slow).unwrap().is_late);
    world.supervisor.synced().await.unwrap();
    assert!(start.elapsed() >= patience);
    assert!(world.has("c").await);
    let status = world.supervisor.source(&slow).unwrap();
    assert!(status.is_late && !status.was_in_sync);
}

#[tokio::test]
async fn a_fault_in_what_takes_reports_in_ends_no_feed() {
    let fails = std::sync::atomic::AtomicBool::new(true);
    let world = Supervised::told(Box::new(move |_, _| {
        let fails = fails.swap(false, Ordering::Relaxed);
        assert!(!fails, "a scripted panic of those who are told");
    }));
    let (one, other) = (Owner::new(10, "one"), Owner::new(20, "other"));
    let owner = one.clone();
    let script: Script = Arc::new(move |run, out, stop| {
        let owner = owner.clone();
        Box::pin(async move {
            out.send(SourceEvent::Findings(owner.source.clone(), Vec::new()))
                .await?;
            let name = if run == 0 { "first" } else { "again" };
            let all = vec![
                put(&owner, name),
                synced(&owner, PODS),
                synced(&owner, ENTRIES),
            ];
            out.send(SourceEvent::Changes(all)).await?;
            stop.cancelled().await;
            Ok(())
        })
    });
    world.add(&one, script);
    world
        .until(&one, |s| s.failures == 1 && s.state == SourceState::InSync)
        .await;
    assert!(world.has("again").await, "it has begun anew");
    world.add(&other, steady(&other, "c"));
    world.supervisor.synced().await.unwrap();
    assert!(world.has("c").await);
    assert_eq!(world.supervisor.stuck(), None);
    world
        .supervisor
        .check(Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(world.failures(&one, "panic"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_stands_still_is_noticed_and_one_that_goes_on_as_well() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let world = Supervised::told(Box::new(move |_, _| {
        // Until the other end is dropped.
        let _ = wait.lock().unwrap().recv();
    }));
    let one = Owner::new(10, "one");
    let owner = one.clone();
    let script: Script = Arc::new(move |_, out, stop| {
        let owner = owner.clone();
        Box::pin(async move {
            let nothing = SourceEvent::Findings(owner.source.clone(), Vec::new());
            out.send(nothing).await?;
            stop.cancelled().await;
            Ok(())
        })
    });
    world.add(&one, script);
    let limit = Duration::from_secs(60);
    let noticed = async {
        let brief = Duration::from_millis(100);
        while !matches!(
            world.supervisor.check(brief).await,
            Err(Stuck::FeedSilent(_))
        ) {}
    };
    tokio::time::timeout(limit, noticed).await.unwrap();
    drop(go_on);
    world.supervisor.check(limit).await.unwrap();
}

#[tokio::test]
async fn a_derive_thread_that_has_ended_is_noticed() {
    let world = Supervised::start();
    let limit = Duration::from_secs(60);
    world.supervisor.check(limit).await.unwrap();
    let died: Result<(), Closed> = world.derive.ask(|_| panic!("a scripted panic")).await;
    assert!(died.is_err());
    let stuck = world.supervisor.check(limit).await;
    assert_eq!(stuck, Err(Stuck::DeriveEnded));
    let known = async {
        while world.supervisor.stuck() != Some(Stuck::DeriveEnded) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(limit, known).await.unwrap();
}
