//! Certificates that a test makes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use model::Change;
use model::certificate::PrivateKey;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::*;
use source_api::Delivery;

const A: &str = "spiffe://t/ns/shop/sa/a";
const B: &str = "spiffe://t/ns/shop/sa/b";
const SETTLE: Duration = Duration::from_secs(30);

/// What certificates are made of, and what was told of them.
#[derive(Default)]
struct Script {
    life: Duration,
    fails: bool,
    made: u64,
    failed: u64,
    left_out: usize,
    held: usize,
    /// How far the clock of the machine is ahead of the time that passes.
    ahead: Duration,
}

#[derive(Clone)]
struct World {
    script: Arc<Mutex<Script>>,
    start: (Instant, SystemTime),
}

impl World {
    fn clock(&self) -> SystemTime {
        self.start.1 + self.start.0.elapsed() + self.script.lock().unwrap().ahead
    }
}

impl Make for World {
    fn make(&self, identity: Arc<str>) -> Making {
        let mut script = self.script.lock().unwrap();
        script.made += 1;
        let made = Made {
            certificate: WorkloadCertificate {
                chain: format!("{identity} {}", script.made).into(),
                key: PrivateKey::from_pem("key"),
            },
            expires: self.start.1 + self.start.0.elapsed() + script.ahead + script.life,
        };
        let outcome = match script.fails {
            true => Err("down".to_owned()),
            false => Ok(made),
        };
        Box::pin(async move { outcome })
    }
}

impl Watcher for World {
    fn attempted(&self, _: &str, outcome: Result<(), &str>) {
        self.script.lock().unwrap().failed += u64::from(outcome.is_err());
    }

    fn exhausted(&self, left_out: usize) {
        self.script.lock().unwrap().left_out = left_out;
    }

    fn holds(&self, count: usize, _: Option<SystemTime>) {
        self.script.lock().unwrap().held = count;
    }
}

/// A source that runs.
struct Run {
    world: World,
    want: watch::Sender<Wanted>,
    anchor: watch::Sender<Anchors>,
    deliveries: UnboundedReceiver<Delivery>,
    _running: JoinHandle<Result<(), source_api::SourceError>>,
}

impl Run {
    /// Certificates live for 1,000 seconds, and are renewed when they have half of that left.
    fn start() -> Self {
        let world = World {
            script: Arc::default(),
            start: (Instant::now(), SystemTime::now()),
        };
        world.script.lock().unwrap().life = Duration::from_secs(1000);
        let (want, wanted) = watch::channel(Wanted::default());
        let (anchor, anchors) = watch::channel(Anchors::default());
        let (out, deliveries) = Sink::channel(Owner::new(0, "certificates"), 4096);
        let clock = world.clone();
        let source = CertificatesSource {
            owner: Owner::new(0, "certificates"),
            wanted,
            anchors,
            maker: Arc::new(world.clone()),
            watcher: Arc::new(world.clone()),
            options: Options {
                left: 0.5,
                jitter: 0.0,
                settle: SETTLE,
                clock: Arc::new(move || clock.clock()),
            },
        };
        let running = tokio::spawn(Box::new(source).run(out, CancellationToken::new()));
        Self {
            world,
            want,
            anchor,
            deliveries,
            _running: running,
        }
    }

    fn want(&self, identities: &[&str]) {
        let identities = identities.iter().map(|i| Arc::from(*i)).collect();
        self.want.send_replace(Arc::new(identities));
    }

    fn anchor(&self, roots: &str, signing: u64) {
        let roots = MeshRoots {
            roots: roots.into(),
            revoked: None,
        };
        self.anchor.send_replace(Anchors {
            roots: Some(Arc::new(roots)),
            signing,
        });
    }

    fn script<T>(&self, act: impl FnOnce(&mut Script) -> T) -> T {
        act(&mut self.world.script.lock().unwrap())
    }

    /// What was told until then, one text for each change.
    async fn told_in(&mut self, seconds: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let mut told = Vec::new();
        while let Ok(delivery) = self.deliveries.try_recv() {
            told.extend(delivery.event.changes().iter().map(|change| match change {
                Change::Certificate(_, Some(made)) => made.chain.to_string(),
                Change::Certificate(identity, None) => format!("{identity} gone"),
                Change::Roots(roots) => format!("roots {}", roots.as_ref().unwrap().roots),
                other => panic!("{other:?}"),
            }));
        }
        told
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_made_renewed_and_goes_when_nobody_comes_back_for_it() {
    let mut run = Run::start();
    assert_eq!(run.told_in(1).await, [""; 0]);
    run.want(&[A, B]);
    assert_eq!(run.told_in(1).await, [format!("{A} 1"), format!("{B} 2")]);
    assert_eq!(run.told_in(490).await, [""; 0]);
    assert_eq!(run.told_in(12).await, [format!("{A} 3"), format!("{B} 4")]);
    // A proxy that comes back soon has what it had, and it is renewed as before.
    run.want(&[A]);
    assert_eq!(run.told_in(300).await, [""; 0]);
    run.want(&[A, B]);
    assert_eq!(run.told_in(199).await, [format!("{A} 5"), format!("{B} 6")]);
    run.want(&[A]);
    let later = run.told_in(601).await;
    assert_eq!(later, [format!("{A} 7"), format!("{B} gone")]);
    assert_eq!(run.script(|s| s.held), 1);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_cannot_be_renewed_stays_and_is_tried_again() {
    let mut run = Run::start();
    run.want(&[A]);
    assert_eq!(run.told_in(1).await, [format!("{A} 1")]);
    run.script(|s| s.fails = true);
    assert_eq!(run.told_in(600).await, [""; 0]);
    let failed = run.script(|s| s.failed);
    assert!((6..=12).contains(&failed), "{failed}");
    run.script(|s| s.fails = false);
    assert_eq!(run.told_in(70).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn new_roots_come_at_once_and_certificates_that_lead_to_them_later() {
    let mut run = Run::start();
    run.anchor("one", 1);
    run.want(&[A, B]);
    let first = run.told_in(1).await;
    assert_eq!(first[0], "roots one");
    assert_eq!(first.len(), 3);
    // Further roots alone replace no certificate.
    run.anchor("one+x", 1);
    assert_eq!(run.told_in(100).await, ["roots one+x"]);
    run.anchor("one+two", 2);
    assert_eq!(run.told_in(29).await, ["roots one+two"]);
    let mut replaced = run.told_in(32).await;
    replaced.sort();
    replaced.iter_mut().for_each(|r| r.truncate(A.len()));
    assert_eq!(replaced, [A, B]);
    assert_eq!(run.told_in(300).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_renews_what_is_due_by_its_clock() {
    let mut run = Run::start();
    run.want(&[A]);
    assert_eq!(run.told_in(1).await, [format!("{A} 1")]);
    run.script(|s| s.ahead = Duration::from_secs(900));
    assert_eq!(run.told_in(61).await, [format!("{A} 2")]);
}

#[tokio::test(start_paused = true)]
async fn there_are_not_more_than_there_is_room_for() {
    let mut run = Run::start();
    let name = |n: usize| format!("spiffe://t/ns/shop/sa/{n:06}");
    let names: Vec<String> = (0..MOST + 2).map(name).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    run.want(&all);
    assert_eq!(run.told_in(10).await.len(), MOST);
    assert_eq!(run.script(|s| s.left_out), 2);
    // Who leaves makes room, once it is sure not to come back.
    run.want(&all[1..]);
    let after = run.told_in(601).await;
    let gone = after.iter().filter(|t| t.ends_with("gone")).count();
    let came = after.iter().filter(|t| t.starts_with(&name(MOST))).count();
    assert_eq!((gone, came), (1, 1));
    let mut each = BTreeMap::<String, u32>::new();
    for told in after.iter().filter(|t| !t.ends_with("gone")) {
        *each.entry(told[..A.len() - 1 + 6].to_owned()).or_default() += 1;
    }
    assert_eq!(each.values().max(), Some(&1), "each is renewed once");
}
