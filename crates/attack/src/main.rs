//! Runs attacks beside honest proxies, and prints what they cost: `pilothouse-attack --list`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use attack::attack::{Attack, Scale};
use attack::attacks;
use attack::run::{self, Options};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Attack a server over loopback, and measure what honest proxies notice.
///
/// Each attack has a server of its own with 1,000 services. An endpoint changes every 100 ms; the time until each proxy has
/// it is measured without the attack, then during it. The exit status is 1 if the 99th percentile more than doubled, the
/// server took more memory than stated, or an honest proxy was not served.
#[derive(Parser)]
#[command(name = "pilothouse-attack")]
struct Args {
    /// Attacks to run; all if none is given
    #[arg(value_name = "ATTACK")]
    attacks: Vec<String>,

    /// List the attacks
    #[arg(long)]
    list: bool,

    /// Honest proxies
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    proxies: usize,

    /// How long each attack lasts
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    time: Duration,

    /// How long is measured before it
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    before: Duration,

    /// How much slower than before the 99th percentile may be in any case
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = duration)]
    floor: Duration,

    /// How nice the attacker is; 0 where other programs keep the processors busy
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..20))]
    nice: u8,

    /// The server's program; built with cargo if not given
    #[arg(long, value_name = "PATH", env = "PILOTHOUSE")]
    pilothouse: Option<PathBuf>,

    /// A tenth of each attack, with ceilings of processor time, as in the tests
    #[arg(long)]
    short: bool,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,

    /// Be the attacker, for a server that runs
    #[arg(long, hide = true, requires_all = ["at", "folder"])]
    attacker: bool,

    /// Addresses of xDS, xDS over TLS, pages and API
    #[arg(long, hide = true)]
    at: Vec<SocketAddr>,

    /// The server's folder
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
}

impl Args {
    fn scale(&self) -> Scale {
        if self.short {
            Scale::Short
        } else {
            Scale::Full
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text}: expected a number and ms, s or m");
    let digits = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

fn main() -> ExitCode {
    match start(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pilothouse-attack: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        let width = attacks::ALL.iter().map(|a| a.name.len()).max().unwrap_or(0);
        let mut out = std::io::stdout().lock();
        for Attack {
            name,
            finding,
            about,
            ..
        } in attacks::ALL
        {
            writeln!(out, "{name:width$}  {finding}: {about}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // As many connections as the system lets a program have.
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).context("cannot raise the limit of descriptors")?;
    let mut chosen = Vec::new();
    for name in &args.attacks {
        chosen.push(
            attacks::named(name)
                .with_context(|| format!("no attack is called {name}; see --list"))?,
        );
    }
    if chosen.is_empty() {
        chosen.extend(attacks::ALL);
    }
    if args.attacker {
        return be_attacker(&args, chosen[0]);
    }
    let options = Options {
        program: match args.pilothouse.clone() {
            Some(path) => path,
            None => build()?,
        },
        attacker: std::env::current_exe()?,
        proxies: args.proxies,
        before: args.before,
        during: args.time,
        every: Duration::from_millis(100),
        floor: args.floor,
        nice: args.nice,
        scale: args.scale(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for attack in chosen {
        eprintln!("{}: {}", attack.name, attack.about);
        match runtime.block_on(run::run(attack, &options)) {
            Ok(row) => rows.push(row),
            Err(error) => {
                eprintln!("  ! {error:#}");
                failed += 1;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => write!(out, "{}", attack::report::text(&rows))?,
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?,
    }
    ensure!(failed == 0, "{failed} attacks could not be run");
    let kept = rows.iter().all(|row| row.faults.is_empty());
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One thread, so that an attacker has at most one processor.
fn be_attacker(args: &Args, attack: &Attack) -> anyhow::Result<ExitCode> {
    let at: [SocketAddr; 4] = args.at[..]
        .try_into()
        .context("four addresses are needed")?;
    let folder = args.folder.as_deref().context("the folder is needed")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(run::attack(attack, at, folder, args.time, args.scale()))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(ExitCode::SUCCESS)
}

/// Builds the server with the profile of this program, and tells where it is.
fn build() -> anyhow::Result<PathBuf> {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(["build", "--locked", "-p", "pilothouse"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    ensure!(command.status()?.success(), "the server cannot be built");
    Ok(std::env::current_exe()?.with_file_name("pilothouse"))
}
