//! The `pilothouse` program: the server, and what operators run beside it.

mod commands;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A control plane for Envoy: configuration and services in, exactly what changed out to exactly the proxies it
/// concerns.
#[derive(Parser)]
#[command(
    name = "pilothouse",
    version,
    propagate_version = true,
    max_term_width = 110
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve xDS to proxies from folders of YAML.
    #[command(alias = "discovery")]
    Serve(Box<server::config::ServeOptions>),
    /// Print the bootstrap that a sidecar or gateway Envoy starts with.
    Bootstrap(Box<commands::bootstrap::BootstrapOptions>),
    /// Simulate many proxies against any xDS server and measure how fast and how much it sends.
    Load(Box<client::LoadOptions>),
    /// Print what a proxy gets: clusters, listeners, routes, endpoints.
    #[command(visible_alias = "pc")]
    ProxyConfig(Box<commands::proxy_config::ProxyConfigOptions>),
    /// Run a small HTTP backend that says who it is, for demos and tests.
    Echo(commands::echo::EchoOptions),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(options) => {
            log(&options.log, options.log_json);
            block_on(server::serve::serve(*options))
        }
        Command::Bootstrap(options) => {
            commands::bootstrap::run(&options, &mut std::io::stdout().lock())
        }
        Command::Load(options) => block_on(async {
            let out = &mut std::io::stdout();
            match options.scenario.clone() {
                Some(path) => _ = client::run_scenario(*options, &path, out).await?,
                None => _ = client::run_load(*options, out).await?,
            }
            Ok(())
        }),
        Command::ProxyConfig(options) => block_on(commands::proxy_config::run(
            *options,
            &mut std::io::stdout(),
        )),
        Command::Echo(options) => block_on(commands::echo::run(options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilothouse: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn block_on(future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

fn log(level: &str, json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_new(level).unwrap_or_else(|error| {
        eprintln!("pilothouse: --log {level:?}: {error}; using info");
        tracing_subscriber::EnvFilter::new("info")
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr);
    if json {
        subscriber.json().init();
    } else {
        subscriber.with_ansi(std::io::stderr().is_terminal()).init();
    }
}
