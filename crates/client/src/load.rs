//! Many simulated proxies, and how long configuration and changes take to reach them.

mod api;
mod applied;
mod edited;
mod fleet;
mod gateways;
mod ingresses;
mod mesh;
mod mint;
mod picture;
mod process;
mod run;
mod sampling;
mod scenario;
mod statuses;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::process::Command;
use tokio::time::{Instant, sleep, sleep_until};
use xds::TypeUrl;

use crate::error::Error;
use crate::node::NodeOptions;
use crate::report::{Latencies, Reached, Report};
use crate::secure::SecureOptions;
use fleet::{Conduct, Fleet};

pub use gateways::Gateways;
pub use mesh::{Change, MeshShape, Sight};
pub use process::Usage;
pub use run::{ScenarioResult, StepResult, run_scenario};
pub use sampling::Sample;
pub use scenario::{Scenario, Step};

/// What to load and how.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Address of the xDS server
    #[arg(
        long = "server",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:15010"
    )]
    pub address: String,

    /// Number of proxies
    #[arg(short = 'n', long, default_value_t = 100)]
    pub proxies: usize,

    /// Use the state-of-the-world variant of the protocol
    #[arg(long)]
    pub sotw: bool,

    /// Types to subscribe to
    #[arg(long, value_delimiter = ',', value_parser = parse_type, default_value = "cds,eds,lds,rds")]
    pub types: Vec<TypeUrl>,

    /// Bearer token
    #[arg(long, env = "XDS_TOKEN", hide_env_values = true)]
    pub token: Option<String>,

    /// TLS.
    #[command(flatten)]
    pub secure: SecureOptions,

    /// New proxies per second; all at once if not given
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,

    /// A change to make and to follow: LABEL=COMMAND, run by sh; {k} becomes the round
    #[arg(long = "change", value_name = "LABEL=COMMAND", value_parser = parse_change)]
    pub changes: Vec<(String, String)>,

    /// How often to make each change
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeat: usize,

    /// Follow changes that others make, for this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub watch: Option<f64>,

    /// A change has arrived when there was no response for this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub settle: u64,

    /// Seconds until every proxy must have its configuration, and each change its first response
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub timeout: f64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Run a scenario: generate its mesh, start a server for it, and measure both ends
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "proxies", "changes", "watch", "sotw"])]
    pub scenario: Option<PathBuf>,

    /// The program that a scenario runs as its server; this one if not given
    #[arg(long, value_name = "FILE", requires = "scenario")]
    pub program: Option<PathBuf>,

    /// Run a scenario against another server: a line for the shell, in which {folder}, {xds} and {http} become the
    /// folder of the mesh and the addresses to listen on, {secure} and {ca} the address for TLS and the folder with the CA
    /// to sign with. It must answer /ready
    #[arg(
        long,
        value_name = "LINE",
        requires = "scenario",
        conflicts_with = "program"
    )]
    pub command: Option<String>,

    /// With --command, for a server that does not read the folder: a line for the shell, a program that is told of the
    /// folder and of each change, as lines `apply PATH` or `delete PATH`, and answers each with a line
    #[arg(long, value_name = "LINE", requires = "command")]
    pub apply: Option<String>,

    /// Write all that a scenario came to, as JSON
    #[arg(long, value_name = "FILE", requires = "scenario")]
    pub results: Option<PathBuf>,

    /// Draw the run of a scenario
    #[arg(long, value_name = "FILE", requires = "scenario")]
    pub svg: Option<PathBuf>,

    /// Who the proxies are.
    #[command(flatten)]
    pub node: NodeOptions,
}

fn parse_type(text: &str) -> Result<TypeUrl, String> {
    let known = || TypeUrl::ALL.map(TypeUrl::label).join(", ");
    TypeUrl::parse_short(text)
        .or_else(|| TypeUrl::parse(text))
        .ok_or_else(|| format!("known types: {}", known()))
}

fn parse_change(text: &str) -> Result<(String, String), String> {
    let (label, command) = text.split_once('=').ok_or("expected LABEL=COMMAND")?;
    Ok((label.to_owned(), command.to_owned()))
}

/// Runs the proxies and the changes, and writes the report to `out`.
///
/// Progress is shown on standard error if that is a terminal.
///
/// # Errors
/// When proxies do not get their configuration in time, a change cannot be made, or the report cannot be written.
pub async fn run_load(options: LoadOptions, out: &mut (dyn Write + Send)) -> Result<Report, Error> {
    let bar = progress(options.proxies as u64);
    let fleet = Fleet::start(&options, Conduct::default(), None)?;
    let limit = Duration::from_secs_f64(options.timeout.max(0.0));
    let deadline = Instant::now() + limit;
    while fleet.configured() < options.proxies {
        if Instant::now() >= deadline {
            bar.finish_and_clear();
            let (ready, all) = (fleet.configured(), options.proxies);
            return Err(Error::Timeout {
                ready,
                all,
                limit,
                last: fleet.last_failure(),
            });
        }
        if let Some(error) = fleet.fatal() {
            bar.finish_and_clear();
            return Err(error);
        }
        bar.set_position(fleet.configured() as u64);
        sleep(Duration::from_millis(5)).await;
    }
    let settle = Duration::from_millis(options.settle);
    bar.set_position(options.proxies as u64);
    let (responses, bytes) = fleet.totals();
    let mut report = Report {
        server: options.address.clone(),
        protocol: if options.sotw { "sotw" } else { "delta" },
        proxies: options.proxies,
        configured: Latencies::of(fleet.configuration_times()),
        retries: fleet.retries(),
        responses,
        bytes,
        changes: Vec::new(),
    };
    for (label, command) in &options.changes {
        for round in 0..options.repeat {
            fleet.quiet(settle).await;
            bar.set_message(format!("{label} {} of {}", round + 1, options.repeat));
            report
                .changes
                .push(change(&fleet, label, command, round, settle, limit).await?);
        }
    }
    if let Some(seconds) = options.watch {
        fleet.quiet(settle).await;
        bar.set_message("waiting for changes");
        let end = Instant::now() + Duration::from_secs_f64(seconds.max(0.0));
        watch(&fleet, end, settle, &mut report).await;
    }
    report.retries = fleet.retries();
    bar.finish_and_clear();
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        report.write_table(out)?;
    }
    Ok(report)
}

/// Makes one change and follows it.
async fn change(
    fleet: &Arc<Fleet>,
    label: &str,
    command: &str,
    round: usize,
    settle: Duration,
    limit: Duration,
) -> Result<Reached, Error> {
    let failed = |reason: String| Error::Change {
        label: label.to_owned(),
        reason,
    };
    let before = fleet.totals();
    let begin = fleet.begin_round();
    let started = Instant::now();
    let run = Command::new("sh")
        .arg("-c")
        .arg(command.replace("{k}", &round.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let done = run.await.map_err(|e| failed(e.to_string()))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(failed(format!("{}; {words}", done.status)));
    }
    let command_ms = started.elapsed().as_secs_f64() * 1e3;
    while fleet.newest() <= begin {
        if started.elapsed() > limit {
            return Err(failed(format!("no response within {limit:?}")));
        }
        sleep(Duration::from_millis(1)).await;
    }
    fleet.quiet(settle).await;
    Ok(reached(
        fleet,
        label,
        round,
        Some(command_ms),
        begin,
        before,
    ))
}

/// Follows changes that nobody announced: what comes without a pause is one.
async fn watch(fleet: &Arc<Fleet>, end: Instant, settle: Duration, report: &mut Report) {
    loop {
        let before = fleet.totals();
        let begin = fleet.begin_round();
        while fleet.newest() <= begin {
            if Instant::now() >= end {
                return;
            }
            sleep_until(end.min(Instant::now() + Duration::from_millis(5))).await;
        }
        fleet.quiet(settle).await;
        let first = fleet.first_of_round().unwrap_or(begin);
        let round = report.changes.len();
        report.changes.push(reached(
            fleet,
            &format!("change {}", round + 1),
            round,
            None,
            first,
            before,
        ));
    }
}

fn reached(
    fleet: &Fleet,
    label: &str,
    round: usize,
    command_ms: Option<f64>,
    begin: Duration,
    (responses, bytes): (u64, u64),
) -> Reached {
    let times = fleet.round_times(begin, |_| true);
    let (responses_now, bytes_now) = fleet.totals();
    Reached {
        label: label.to_owned(),
        round,
        command_ms,
        proxies: times.len(),
        latencies: Latencies::of(times),
        responses: responses_now - responses,
        bytes: bytes_now - bytes,
    }
}

fn progress(proxies: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(proxies), ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} proxies configured, {elapsed} {msg}");
    ProgressBar::new(proxies).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
