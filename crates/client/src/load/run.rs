//! Runs a scenario against a server that is started for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::applied::Applier;
use super::fleet::{Conduct, Fleet};
use super::mesh::Change;
use super::mint::Mint;
use super::process::{Folders, Launch, Process};
use super::sampling::{Sample, Sampling, growth};
use super::scenario::{Nodes, Over, Scenario, Step, Way};
use super::statuses::Statuses;
use super::{LoadOptions, picture};
use crate::error::Error;
use crate::report::{Latencies, Spread};

/// What a step came to.
#[derive(Clone, Debug, Serialize)]
pub struct StepResult {
    /// What happened.
    pub label: String,
    /// When it began, in seconds of the run.
    pub at_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Changes made, or reconnects.
    pub rounds: usize,
    /// From the start of the server until it was ready, where the step started it.
    pub ready_ms: Option<f64>,
    /// Responses to all proxies.
    pub responses: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Those of them that tell of resources: all but type, nonce and version of each response.
    pub resource_bytes: u64,
    /// Processor time of the server.
    pub server_cpu_s: f64,
    /// The same for each response.
    pub server_cpu_us_per_response: f64,
    /// From the change to each proxy's last response, over all rounds.
    pub proxy: Latencies,
    /// From the change to the last proxy's last response, over the rounds.
    pub last: Spread,
    /// From the moment the server noticed the change until it wrote its last response, over the rounds, as it tells.
    pub write: Spread,
    /// From the change until the status of the changed object tells of it, over the rounds; of objects with a status, where
    /// changes come through the API.
    pub status: Spread,
    /// Proxies that a round should have reached and did not.
    pub missed: usize,
    /// Proxies that a round reached though it does not concern them.
    pub astray: usize,
    /// Every time, for the picture.
    #[serde(skip)]
    pub(super) times: Vec<Duration>,
}

/// What a step measures by itself.
#[derive(Default)]
struct Measured {
    /// Changes made, or reconnects.
    rounds: usize,
    /// Proxies that a round should have reached and did not.
    missed: usize,
    /// Proxies that a round reached though it does not concern them.
    astray: usize,
    /// From the start of the server until it was ready.
    ready_ms: Option<f64>,
    /// From the change to each proxy's last response.
    times: Vec<Duration>,
    /// The longest of these of each round.
    lasts: Vec<Duration>,
    /// From the moment the server noticed the change until it wrote its last response.
    writes: Vec<Duration>,
    /// From the change until the status of the changed object tells of it.
    statuses: Vec<Duration>,
}

/// All of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// From the start of the server until it was ready.
    pub ready_ms: f64,
    /// Resident memory before the first proxy.
    pub rss_before_bytes: u64,
    /// Resident memory when every proxy was configured and quiet.
    pub rss_idle_bytes: u64,
    /// The difference for each proxy.
    pub rss_per_proxy_bytes: u64,
    /// From the start of the proxies to each one's full configuration.
    pub configured: Latencies,
    /// Processor time of the server until then.
    pub configured_cpu_s: f64,
    /// Streams that had to be opened again.
    pub retries: u64,
    /// How resident memory grew from the sixth minute on, in bytes a minute; `None` for a run that ends before.
    pub rss_growth_bytes_per_minute: Option<f64>,
    /// What the steps came to.
    pub steps: Vec<StepResult>,
    /// The server over time.
    pub samples: Vec<Sample>,
}

struct Run {
    scenario: Scenario,
    folder: PathBuf,
    server: Arc<Process>,
    start: Instant,
    limit: Duration,
    settle: Duration,
    /// Who is told of changes, if the server does not read the folder.
    applier: Option<Applier>,
    /// How often each kind of change was made.
    made: [usize; 5],
    /// What the API tells of statuses, where routes are changed through it.
    statuses: Option<Statuses>,
    /// The newest revision that the server told of.
    revision: u64,
}

/// Runs a scenario and writes what it came to: as JSON, or in a few lines.
///
/// # Errors
/// When the scenario or the server cannot be used, or proxies are not configured in time.
pub async fn run_scenario(
    options: LoadOptions,
    path: &Path,
    out: &mut (dyn std::io::Write + Send),
) -> Result<ScenarioResult, Error> {
    let scenario = Scenario::read(path)?;
    let failed = Error::Server;
    let scratch = std::env::temp_dir().join(format!("pilothouse-load-{}", std::process::id()));
    let _cleanup = Cleanup(scratch.clone());
    let (folder, state) = (scratch.join("mesh"), scratch.join("state"));
    scenario.mesh.write(&folder).map_err(failed)?;
    let applier = options.apply.as_deref();
    let applier = applier.map(|line| Applier::start(line, &folder));
    let applier = applier.transpose().map_err(failed)?;
    let (program, launch) = launch(&options, &scenario).map_err(failed)?;
    let limit = Duration::from_secs_f64(options.timeout.max(0.0));
    let ca = (scenario.over == Over::MutualTls).then(|| scratch.join("ca"));
    let mint = ca.as_deref().map(Mint::new).transpose().map_err(failed)?;
    let folders = Folders {
        mesh: folder.clone(),
        state: scenario.state.then_some(state),
        ca,
    };
    let server = Process::start(launch, folders).map_err(failed)?;
    let ready = server.ready(limit).map_err(failed)?;
    if scenario.through == Way::Api {
        server.import(&program, &folder).map_err(failed)?;
    }
    let rss_before_bytes = server.usage().rss_bytes;
    let mut run = Run {
        folder,
        server: Arc::new(server),
        start: Instant::now(),
        limit,
        settle: Duration::from_millis(options.settle),
        applier,
        made: [0; 5],
        statuses: None,
        revision: 0,
        scenario,
    };
    run.settled().await?;
    let sampling = Sampling::start(Arc::clone(&run.server), run.start);

    let mut fleet_options = options.clone();
    fleet_options.address = run.server.xds().to_string();
    fleet_options.proxies = run.scenario.proxies;
    fleet_options.node.namespaces = run.scenario.namespaces();
    let real = run.scenario.nodes == Nodes::Real;
    fleet_options.node.mesh = real.then(|| run.scenario.mesh.clone());
    let fleet = Fleet::start(&fleet_options, conduct(&run.scenario), mint)?;
    run.configured(&fleet).await?;
    let configured = Latencies::of(fleet.configuration_times());
    fleet.quiet(run.settle).await;
    let usage = run.server.usage();
    let mut result = ScenarioResult {
        scenario: run.scenario.clone(),
        ready_ms: ready.as_secs_f64() * 1e3,
        rss_before_bytes,
        rss_idle_bytes: usage.rss_bytes,
        rss_per_proxy_bytes: usage.rss_bytes.saturating_sub(rss_before_bytes)
            / (run.scenario.proxies.max(1) as u64),
        configured,
        configured_cpu_s: usage.cpu_s,
        retries: 0,
        rss_growth_bytes_per_minute: None,
        steps: Vec::new(),
        samples: Vec::new(),
    };
    for step in run.scenario.steps.clone() {
        result.steps.push(run.step(&fleet, &step).await?);
    }
    result.samples = sampling.finish().await;
    result.retries = fleet.retries();
    result.rss_growth_bytes_per_minute = growth(&result.samples);
    write_results(&options, &result, out)?;
    Ok(result)
}

/// The program, which also imports what a scenario has, and how the server is started.
fn launch(options: &LoadOptions, scenario: &Scenario) -> std::io::Result<(PathBuf, Launch)> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let launch = match &options.command {
        Some(line) => Launch::Line(line.clone()),
        None => Launch::Program(program.clone(), scenario.through, scenario.mesh.flags()),
    };
    Ok((program, launch))
}

/// How the simulated proxies of a scenario behave.
fn conduct(scenario: &Scenario) -> Conduct {
    let reconnects = |step: &Step| matches!(step, Step::Reconnect | Step::Restart);
    Conduct {
        slow: scenario.slow,
        refusing: scenario.refusing,
        remembers: scenario.steps.iter().any(reconnects),
    }
}

/// Writes the results to where the options ask for them.
fn write_results(
    options: &LoadOptions,
    result: &ScenarioResult,
    out: &mut (dyn std::io::Write + Send),
) -> Result<(), Error> {
    if let Some(path) = &options.svg {
        std::fs::write(path, picture::draw(result)).map_err(Error::Server)?;
    }
    if let Some(path) = &options.results {
        let json = serde_json::to_vec_pretty(result).map_err(std::io::Error::from)?;
        std::fs::write(path, json).map_err(Error::Server)?;
    }
    if options.json {
        serde_json::to_writer_pretty(&mut *out, result).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        result.write_text(out)?;
    }
    Ok(())
}

/// Removes the generated mesh.
struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Run {
    /// Waits until every proxy has its configuration.
    async fn configured(&self, fleet: &Fleet) -> Result<(), Error> {
        let begin = Instant::now();
        let all = self.scenario.proxies;
        while fleet.configured() < all {
            if let Some(error) = fleet.fatal() {
                return Err(error);
            }
            if begin.elapsed() > self.limit {
                return Err(Error::Timeout {
                    ready: fleet.configured(),
                    all,
                    limit: self.limit,
                    last: fleet.last_failure(),
                });
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Waits until every route has its status, if these are followed.
    async fn settled(&mut self) -> Result<(), Error> {
        let gateways = self.scenario.mesh.gateways;
        let gateways = gateways.filter(|_| self.scenario.through == Way::Api);
        if let Some(gateways) = gateways {
            let statuses = Statuses::watch(self.server.api).map_err(Error::Server)?;
            let settled = statuses.settled(gateways.routes, self.limit).await;
            settled.map_err(Error::Server)?;
            self.statuses = Some(statuses);
        }
        Ok(())
    }

    fn change(&mut self, change: Change) -> Result<(), Error> {
        let made = &mut self.made[change as usize];
        let round = *made;
        *made += 1;
        let mesh = &self.scenario.mesh;
        let path = match self.scenario.through {
            Way::Files => mesh.change(&self.folder, change, round),
            Way::Api => {
                return mesh
                    .apply(&self.server.api, change, round)
                    .map_err(Error::Server);
            }
        };
        let path = path.map_err(Error::Server)?;
        match &mut self.applier {
            Some(applier) => applier.tell(&path).map_err(Error::Server),
            None => Ok(()),
        }
    }

    async fn step(&mut self, fleet: &Fleet, step: &Step) -> Result<StepResult, Error> {
        fleet.quiet(self.settle).await;
        let begin = Instant::now();
        let (responses, bytes) = fleet.totals();
        let told = fleet.told();
        let mut cpu = self.server.usage().cpu_s;
        let measured = match step {
            Step::Change { what, times } => self.changes(fleet, *what, *times).await?,
            Step::Churn {
                seconds,
                endpoint,
                rule,
                service,
            } => {
                let rounds = self.churn(*seconds, [*endpoint, *rule, *service]).await?;
                fleet.quiet(self.settle).await;
                Measured {
                    rounds,
                    ..Measured::default()
                }
            }
            Step::Reconnect => self.reconnected(fleet, fleet.reconnect()).await?,
            Step::Restart => {
                // That of the process that is started.
                cpu = 0.0;
                self.restart(fleet).await?
            }
            Step::Idle { seconds } => {
                sleep(Duration::from_secs_f64(seconds.max(0.0))).await;
                Measured::default()
            }
        };
        let now = fleet.totals();
        let responses = now.0 - responses;
        let server_cpu_s = self.server.usage().cpu_s - cpu;
        Ok(StepResult {
            label: step.label(),
            at_s: begin.duration_since(self.start).as_secs_f64(),
            seconds: begin.elapsed().as_secs_f64(),
            rounds: measured.rounds,
            ready_ms: measured.ready_ms,
            responses,
            bytes: now.1 - bytes,
            resource_bytes: fleet.told() - told,
            server_cpu_s,
            server_cpu_us_per_response: server_cpu_s * 1e6 / responses.max(1) as f64,
            proxy: Latencies::of(measured.times.clone()),
            last: Spread::of(measured.lasts),
            write: Spread::of(measured.writes),
            status: Spread::of(measured.statuses),
            missed: measured.missed,
            astray: measured.astray,
            times: measured.times,
        })
    }

    /// Makes a change so many times, each when all is quiet.
    async fn changes(
        &mut self,
        fleet: &Fleet,
        what: Change,
        times: usize,
    ) -> Result<Measured, Error> {
        let mut measured = Measured::default();
        for _ in 0..times {
            fleet.quiet(self.settle).await;
            let round = self.made[what as usize];
            let (start, changed) = (fleet.begin_round(), Instant::now());
            self.change(what)?;
            let mesh = &self.scenario.mesh;
            let concerned = |proxy: usize| mesh.concerns(what, round, proxy);
            let expected = fleet.reading(concerned);
            self.follow(fleet, expected).await;
            let reached = fleet.round_times(start, concerned);
            measured.missed += expected.saturating_sub(reached.len());
            measured.astray += fleet.reached().saturating_sub(reached.len());
            measured.lasts.extend(reached.iter().max());
            measured.times.extend(reached);
            if let Some((revision, after)) = self.server.last_write(self.revision) {
                self.revision = revision;
                measured.writes.push(after);
            }
            if let Some((statuses, name)) = self.statuses.as_ref().zip(mesh.edited(what, round)) {
                let told = statuses.told(&name, changed, self.limit).await;
                measured.statuses.push(told.map_err(Error::Server)?);
            }
            measured.rounds += 1;
        }
        Ok(measured)
    }

    /// Waits until all proxies, which were told at `start` to connect again, have their configuration.
    async fn reconnected(&self, fleet: &Fleet, start: Duration) -> Result<Measured, Error> {
        self.configured(fleet).await?;
        let mut times = fleet.configuration_times();
        for time in &mut times {
            *time = time.saturating_sub(start);
        }
        Ok(Measured {
            rounds: 1,
            lasts: times.iter().max().copied().into_iter().collect(),
            times,
            ..Measured::default()
        })
    }

    /// Kills the server and starts it again, once it has saved its state.
    async fn restart(&self, fleet: &Fleet) -> Result<Measured, Error> {
        self.saved().await?;
        self.server.kill().map_err(Error::Server)?;
        // Those that do not read do not notice by themselves.
        let start = fleet.reconnect();
        self.server.start_again().map_err(Error::Server)?;
        let ready = self.server.ready(self.limit).map_err(Error::Server)?;
        Ok(Measured {
            ready_ms: Some(ready.as_secs_f64() * 1e3),
            ..self.reconnected(fleet, start).await?
        })
    }

    /// Waits until the server has saved what it serves, if it saves anything.
    async fn saved(&self) -> Result<(), Error> {
        let begin = Instant::now();
        while self.scenario.state && !self.server.has_saved() {
            if begin.elapsed() > self.limit {
                return Err(Error::Server(std::io::Error::other(
                    "the server saves nothing",
                )));
            }
            sleep(Duration::from_millis(50)).await;
        }
        // What came last is in the next save, which is made each second.
        sleep(Duration::from_secs(3)).await;
        Ok(())
    }

    /// Waits until a change has reached so many proxies, and all of it.
    async fn follow(&self, fleet: &Fleet, expected: usize) {
        let begin = Instant::now();
        while fleet.reached() < expected && begin.elapsed() < self.limit {
            sleep(Duration::from_millis(1)).await;
        }
        // A change may take more than one response.
        fleet.quiet(self.settle).await;
    }

    async fn churn(&mut self, seconds: f64, rates: [f64; 3]) -> Result<usize, Error> {
        let begin = Instant::now();
        let end = begin + Duration::from_secs_f64(seconds.max(0.0));
        let kinds = [Change::Endpoint, Change::Rule, Change::Service];
        let mut made = [0_u32; 3];
        loop {
            let due = |at: usize| {
                let after = f64::from(made[at] + 1) / rates[at];
                after
                    .is_finite()
                    .then(|| begin + Duration::from_secs_f64(after))
            };
            let next = (0..3).filter_map(|at| Some((due(at)?, at))).min();
            let Some((at, kind)) = next.filter(|(at, _)| *at < end) else {
                sleep_until(end).await;
                return Ok(made.iter().map(|n| *n as usize).sum());
            };
            sleep_until(at).await;
            self.change(kinds[kind])?;
            made[kind] += 1;
        }
    }
}
