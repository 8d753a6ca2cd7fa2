//! One attack, beside honest proxies: what a change costs them without it and during it, and what the server needs.
//!
//! The attacker, the proxies and the server share the processors of one machine. So that what is measured is the server and
//! not the lack of processors, the attacker is a process of its own with one thread at nice 10, which yields to
//! whatever else wants to run; the server and the honest proxies run at nice 0. What the server does for the attacker is
//! done at nice 0, so it counts. On a machine that does other things at the same time the figures mean little, and a nice
//! attacker gets nowhere.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use tokio::process::Command;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::attack::{Attack, Outcome, Scale, Target};
use crate::fleet::Fleet;
use crate::mesh::Mesh;
use crate::server::{Server, Usage, is_ready};

/// How an attack is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program.
    pub program: PathBuf,
    /// This program, which is the attacker.
    pub attacker: PathBuf,
    /// Honest proxies.
    pub proxies: usize,
    /// How long it is measured without the attack.
    pub before: Duration,
    /// How long the attack lasts.
    pub during: Duration,
    /// How often an endpoint changes.
    pub every: Duration,
    /// How much slower than before the 99th percentile may be in any case.
    pub floor: Duration,
    /// How nice the attacker is.
    pub nice: u8,
    /// How much of each attack is made. Only a short one has a ceiling of processor time.
    pub scale: Scale,
}

/// How long anything else may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the server may take to end.
const END: Duration = Duration::from_secs(15);

/// How changes reached honest proxies over a time, and what the server used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Phase {
    /// Milliseconds from a change to a proxy that has it: the median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// Changes times proxies that were not reached.
    pub missed: usize,
    /// Processors that the server kept busy.
    pub cpu: f64,
    /// The server at the end of it; its peak is the peak of this time.
    pub usage: Usage,
}

/// What an attack came to.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub attack: String,
    /// The finding.
    pub finding: String,
    /// Honest proxies.
    pub proxies: usize,
    /// Without the attack.
    pub before: Phase,
    /// During it.
    pub during: Phase,
    /// Some seconds after it.
    pub after: Usage,
    /// Processor time that the attack cost the server, in seconds, until a while after it.
    pub cost_s: f64,
    /// Most memory it may take over what was used before.
    pub ceiling_bytes: u64,
    /// What the attacker told.
    pub outcome: Outcome,
    /// Honest streams that were lost.
    pub lost: usize,
    /// How often `/ready` did not answer in time.
    pub not_ready: usize,
    /// Promises that were broken; empty if all were kept.
    pub faults: Vec<String>,
}

impl Row {
    fn new(attack: &Attack, proxies: usize) -> Self {
        Self {
            attack: attack.name.to_owned(),
            finding: attack.finding.to_owned(),
            proxies,
            before: Phase::default(),
            during: Phase::default(),
            after: Usage::default(),
            cost_s: 0.0,
            ceiling_bytes: attack.memory_mib << 20,
            outcome: Outcome::default(),
            lost: 0,
            not_ready: 0,
            faults: Vec::new(),
        }
    }

    /// Memory at the peak of the attack over what was used before it.
    pub fn grown(&self) -> u64 {
        let (before, peak) = (self.before.usage.rss_bytes, self.during.usage.peak_bytes);
        peak.saturating_sub(before)
    }
}

/// Runs an attack on a server that is started for it.
///
/// # Errors
/// When the server cannot be used, or the attacker fails.
pub async fn run(attack: &Attack, options: &Options) -> anyhow::Result<Row> {
    let proxies = options.proxies.min(attack.proxies);
    let mut row = Row::new(attack, proxies);
    let mut server = Server::start(&options.program, &attack.setup)?;
    if let Err(error) = server.ready(PATIENCE).await {
        if attack.may_refuse_to_start && !server.runs() {
            row.outcome.refused = 1;
            return Ok(row);
        }
        return Err(error);
    }
    let mesh = attack.setup.mesh;
    let fleet = Arc::new(Fleet::start(server.xds, mesh, proxies));
    ensure!(
        fleet.configured(PATIENCE).await,
        "proxies are not configured: {}",
        fleet.lost().1
    );
    let changes = Changes::start(&fleet, mesh, server.places.config.clone(), options.every);
    let (warm_up, cool_down) = match options.scale {
        Scale::Full => (Duration::from_secs(3), Duration::from_secs(5)),
        Scale::Short => (Duration::from_secs(1), Duration::from_secs(1)),
    };
    // Whatever is built once is built.
    sleep(warm_up).await;

    row.before = measure(&server, &fleet, &changes, sleep(options.before))
        .await
        .0;
    let lost = fleet.lost().0;
    let ready = Readiness::start(&server);
    let (start, used) = (Instant::now(), server.usage().cpu_s);
    let (during, outcome) = measure(
        &server,
        &fleet,
        &changes,
        attacker(attack, &server, options),
    )
    .await;
    row.during = during;
    row.outcome = outcome?;
    row.not_ready = ready.failures.load(Ordering::Relaxed);
    drop(ready);
    let why;
    (row.lost, why) = fleet.lost();
    row.lost -= lost;
    sleep(cool_down).await;
    row.after = server.usage();
    row.cost_s = row.after.cpu_s - used - row.before.cpu * start.elapsed().as_secs_f64();
    drop(changes);
    judge(&mut row, attack, options, &why);
    let ran = server.runs();
    if !ran {
        row.faults.push("the server ended".to_owned());
    } else if !server.end(END).await {
        row.faults
            .push(format!("it does not end within {END:?} of SIGTERM"));
    }
    Ok(row)
}

fn judge(row: &mut Row, attack: &Attack, options: &Options, why: &str) {
    let floor = match options.scale {
        Scale::Full => options.floor.max(attack.delay),
        Scale::Short => options.floor.max(attack.stall),
    };
    let floor = floor.as_secs_f64() * 1e3;
    let most = (row.before.p99_ms * 2.0).max(row.before.p99_ms + floor);
    let mut faults = row.outcome.broken.clone();
    if row.during.p99_ms > most {
        faults.push(format!(
            "p99 {:.1} ms, more than {most:.1} ms",
            row.during.p99_ms
        ));
    }
    if row.grown() > row.ceiling_bytes {
        faults.push(format!(
            "{} MiB more memory, more than {} MiB",
            row.grown() >> 20,
            row.ceiling_bytes >> 20
        ));
    }
    if options.scale == Scale::Short && row.cost_s > attack.cpu_s {
        faults.push(format!(
            "{:.1} s of processor time, more than {:.1} s",
            row.cost_s, attack.cpu_s
        ));
    }
    if row.lost > 0 {
        faults.push(format!("{} honest streams lost ({why})", row.lost));
    }
    if row.during.missed > 0 {
        faults.push(format!("{} changes did not arrive", row.during.missed));
    }
    if row.not_ready > 0 {
        faults.push(format!("/ready failed {} times", row.not_ready));
    }
    row.faults = faults;
}

/// Measures while something is done.
async fn measure<T>(
    server: &Server,
    fleet: &Fleet,
    changes: &Changes,
    what: impl Future<Output = T>,
) -> (Phase, T) {
    server.forget_peak();
    let (start, from, used) = (Instant::now(), changes.made(), server.usage());
    let done = what.await;
    let (took, to, usage) = (start.elapsed(), changes.made(), server.usage());
    // What was made last is under way; what has not arrived after that long was never sent.
    let expected = (to - from) * fleet.len();
    let begin = Instant::now();
    let mut times = fleet.times(from + 1, to + 1);
    while times.len() < expected && begin.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(50)).await;
        times = fleet.times(from + 1, to + 1);
    }
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        let time = times.get(index.min(times.len().saturating_sub(1)));
        time.map_or(f64::INFINITY, |t| t.as_secs_f64() * 1e3)
    };
    let phase = Phase {
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: at(1.0),
        missed: expected.saturating_sub(times.len()),
        cpu: (usage.cpu_s - used.cpu_s) / took.as_secs_f64(),
        usage,
    };
    (phase, done)
}

/// Runs the attacker as a process of its own.
async fn attacker(attack: &Attack, server: &Server, options: &Options) -> anyhow::Result<Outcome> {
    let mut command = Command::new("nice");
    command
        .args(["-n", &options.nice.to_string()])
        .arg(&options.attacker)
        .arg("--attacker");
    command.arg(attack.name);
    let during = options.during.max(attack.least);
    command.args(["--for", &format!("{}s", during.as_secs_f64())]);
    for address in [server.xds, server.secure, server.http, server.api] {
        command.args(["--at", &address.to_string()]);
    }
    command.arg("--folder").arg(&server.places.root);
    if options.scale == Scale::Short {
        command.arg("--short");
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the attacker")?;
    let output = tokio::time::timeout(during + PATIENCE, child.wait_with_output()).await??;
    if !output.status.success() {
        bail!(
            "the attacker failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Attacks in this process: what the attacker does.
///
/// # Errors
/// Those of the attack.
pub async fn attack(
    attack: &Attack,
    [xds, secure, http, api]: [std::net::SocketAddr; 4],
    folder: &Path,
    time: Duration,
    scale: Scale,
) -> anyhow::Result<Outcome> {
    let target = Target {
        xds,
        secure,
        http,
        api,
        places: crate::server::Places::of(folder),
        until: Instant::now() + time,
        scale,
    };
    (attack.run)(Arc::new(target)).await
}

/// Changes an endpoint again and again, until it is dropped.
struct Changes {
    made: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Changes {
    fn start(fleet: &Arc<Fleet>, mesh: Mesh, config: PathBuf, every: Duration) -> Self {
        let made = Arc::<AtomicUsize>::default();
        let (fleet, count) = (Arc::clone(fleet), Arc::clone(&made));
        let task = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            for round in 1..1 << 16 {
                ticks.tick().await;
                fleet.changes(round);
                if let Err(error) = mesh.change(&config, round) {
                    eprintln!("cannot change an endpoint: {error}");
                    return;
                }
                count.store(round, Ordering::Relaxed);
            }
        });
        Self { made, task }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks again and again whether the server is ready, until it is dropped.
struct Readiness {
    failures: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Readiness {
    fn start(server: &Server) -> Self {
        let failures = Arc::<AtomicUsize>::default();
        let (http, count) = (server.http, Arc::clone(&failures));
        let task = tokio::spawn(async move {
            loop {
                if !is_ready(http).await {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                sleep(Duration::from_millis(500)).await;
            }
        });
        Self { failures, task }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.task.abort();
    }
}
