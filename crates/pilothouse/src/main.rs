//! The `pilothouse` program: the server, and what operators run beside it.

mod commands;
mod findings;
mod log;
mod out;
mod yaml;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use findings::Verdict;
use out::out;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A control plane for Envoy. Each proxy gets exactly what changed for it, whenever configuration or services change.
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
    /// Serve xDS to proxies, configured from folders of YAML and the Kubernetes API.
    #[command(
        alias = "discovery",
        after_help = "Environment variables that change what is generated: pilothouse variables"
    )]
    Serve(Box<server::config::ServeOptions>),
    /// Print the bootstrap that a sidecar or gateway Envoy starts with.
    ///
    /// Start it as `envoy -c FILE --drain-strategy immediate --drain-time-s 45 --component-log-level misc:error`: then a revocation
    /// holds for open connections too.
    Bootstrap(Box<commands::bootstrap::BootstrapOptions>),
    /// Run Envoy for a Gateway of the Gateway API: from a folder of manifests to a gateway that listens, in one command.
    #[command(
        override_usage = "pilothouse gateway [OPTIONS] <--config-dir <DIR>|--server <HOST:PORT>> <NAME>"
    )]
    Gateway(commands::gateway::GatewayOptions),
    /// Run an ingress in one command: Ingresses with annotations of ingress-nginx and Higress, from manifests or a cluster,
    /// served by a real Envoy.
    #[command(
        override_usage = "pilothouse ingress [OPTIONS] <--manifest <DIR|FILE>|--kubeconfig [<FILE>]|--data <DIR>>"
    )]
    Ingress(Box<commands::ingress::IngressOptions>),
    /// Show the certificates that a proxy or a service account gets: names, expiry, and who issued them.
    Cert(commands::cert::CertOptions),

    /// List the certificates that a server orders by ACME, order one anew, or revoke one.
    Certs(commands::certs::CertsOptions),
    /// Connect many simulated proxies to any xDS server and measure how fast and how much it sends.
    Load(Box<client::LoadOptions>),
    /// Print what a proxy gets: clusters, listeners, routes, endpoints.
    #[command(visible_alias = "pc")]
    ProxyConfig(Box<commands::proxy_config::ProxyConfigOptions>),
    /// List the connected proxies, and whether each has taken what it was sent.
    #[command(visible_alias = "ps")]
    ProxyStatus(commands::proxy_status::ProxyStatusOptions),
    /// Check objects against each other: references that lead nowhere, rules that never match, contradictions.
    ///
    /// Exits with 0 if no finding reaches --failure-threshold, 1 if one does, and 2 if the analysis failed.
    Analyze(Box<commands::analyze::AnalyzeOptions>),
    /// Check each object and the settings: what is wrong, where, and how to fix it.
    ///
    /// Exits with 0 if everything is valid, 1 if something is not, and 2 if the check failed.
    Validate(commands::validate::ValidateOptions),
    /// Show where a request goes: listener, filter chain, virtual host, route, cluster, endpoints, and the objects that made them.
    #[command(override_usage = "pilothouse simulate [OPTIONS] --from <PROXY> [METHOD] <URL>")]
    Simulate(Box<commands::simulate::SimulateOptions>),
    /// Say what becomes of Ingresses of another controller.
    Migrate(commands::migrate::MigrateOptions),
    /// Show objects with the status that they get, such as the addresses of an Ingress.
    #[command(
        override_usage = "pilothouse status [OPTIONS] <--config-dir <DIR>|--server <HOST:PORT>>"
    )]
    Status(commands::status::StatusOptions),
    /// Show which objects made a resource of a proxy, or which resources an object takes part in.
    Explain(Box<commands::explain::ExplainOptions>),
    /// Run a small HTTP backend that reports its name, for demos and tests.
    Echo(commands::echo::EchoOptions),
    /// Print CustomResourceDefinitions of Istio's and Higress's kinds, for a cluster that has none.
    Crds(commands::crds::CrdsOptions),
    /// Print a kubeconfig for the Kubernetes API of `serve --data`.
    Kubeconfig(commands::kubeconfig::KubeconfigOptions),
    /// Put sidecars into the pods of manifests, as the webhook does in a cluster.
    #[command(visible_alias = "kube-inject")]
    Inject(commands::inject::InjectOptions),
    /// Print a token of a service account of the store, with which a proxy proves who it is.
    Token(commands::token::TokenOptions),
    /// Print the roots that workloads of the mesh are judged by.
    RootCert(commands::root_cert::RootCertOptions),
    /// Print the environment variables that change what `serve` generates, with their defaults.
    Variables(commands::variables::VariablesOptions),
    /// Print the version of this program and, with --server, of a server and its proxies.
    Version(commands::version::VersionOptions),
    /// Print the roles that `serve` needs in a Kubernetes cluster.
    Permissions(commands::permissions::PermissionsOptions),
    /// Print a Secret with which the control plane of another cluster reads this one. Apply it there.
    #[command(name = "create-remote-secret")]
    RemoteSecret(Box<commands::remote_secret::RemoteSecretOptions>),
    /// Show the changes to the objects of the Kubernetes API, newest first.
    History(commands::ledger::HistoryOptions),
    /// Show the difference between two revisions of the store.
    Diff(commands::ledger::DiffOptions),
    /// Show one object of the store, or all, now or at a past revision.
    Get(commands::ledger::GetOptions),
    /// Restore all objects of the store, or one, to a past revision. This makes a new revision.
    Rollback(commands::ledger::RollbackOptions),
    /// Apply a folder of manifests to the store.
    Import(commands::ledger::ImportOptions),
    /// Write the objects of the store to a folder of manifests.
    Export(commands::ledger::ToOptions),
    /// Copy the store to a file; works while it is being served.
    Backup(commands::ledger::ToOptions),
    /// Create a store from a backup.
    Restore(commands::ledger::RestoreOptions),
}

/// The command line.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("serve", commands::serve::with_short_help)
}

fn main() -> ExitCode {
    let mut command = command();
    let arguments = std::env::args_os().collect();
    let arguments = commands::serve::with_log_flags(arguments, &command);
    let matches = command.try_get_matches_from_mut(arguments);
    let parsed = Cli::from_arg_matches(&matches.unwrap_or_else(|error| error.exit()));
    let cli = parsed.unwrap_or_else(|error| error.format(&mut command).exit());
    let code = run(cli.command);
    log::finish();
    code
}

/// Runs a command; the status that the program ends with.
fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Serve(options) => {
            log::start(&options.log, options.log_json);
            block_on(server::serve::serve(*options))
        }
        Command::Bootstrap(options) => commands::bootstrap::run(&options, &mut out()),
        Command::Gateway(options) => {
            log::start(&options.log, false);
            block_on(commands::gateway::run(options, &mut out()))
        }
        Command::Ingress(options) => {
            log::start(&options.log, false);
            block_on(commands::ingress::run(*options, &mut out()))
        }
        Command::Cert(options) => block_on(commands::cert::run(&options, &mut out())),
        Command::Certs(options) => block_on(commands::certs::run(&options, &mut out())),
        Command::Load(options) => load(*options),
        Command::ProxyConfig(options) => {
            block_on(commands::proxy_config::run(*options, &mut out()))
        }
        Command::ProxyStatus(options) => {
            block_on(commands::proxy_status::run(&options, &mut out()))
        }
        Command::Analyze(options) => {
            let code = async { Ok(commands::analyze::run(&options).await?.exit_code()) };
            return ended(block_on(code));
        }
        Command::Validate(options) => {
            return ended(commands::validate::run(&options).map(Verdict::exit_code));
        }
        Command::Migrate(options) => {
            return ended(block_on(commands::migrate::run(&options)));
        }
        Command::Simulate(options) => block_on(commands::simulate::run(*options, &mut out())),
        Command::Status(options) => block_on(commands::status::run(&options)),
        Command::RootCert(options) => block_on(commands::root_cert::run(&options, &mut out())),
        Command::Explain(options) => block_on(commands::explain::run(*options, &mut out())),
        Command::Echo(options) => block_on(commands::echo::run(options)),
        Command::Crds(options) => commands::crds::run(&options, &mut out()),
        Command::Kubeconfig(options) => commands::kubeconfig::run(&options, &mut out()),
        Command::Inject(options) => {
            commands::inject::run(&options, &mut out(), &mut std::io::stderr())
        }
        Command::Token(options) => block_on(commands::token::run(options, &mut out())),
        Command::Variables(options) => commands::variables::run(&options, &mut out()),
        Command::Version(options) => block_on(commands::version::run(&options, &mut out())),
        Command::Permissions(options) => commands::permissions::run(&options, &mut out()),
        Command::RemoteSecret(options) => block_on(commands::remote_secret::run(
            *options,
            &mut out(),
            &mut std::io::stderr(),
        )),
        Command::History(options) => block_on(commands::ledger::history(options, &mut out())),
        Command::Diff(options) => block_on(commands::ledger::diff(options, &mut out())),
        Command::Get(options) => block_on(commands::ledger::get(options, &mut out())),
        Command::Rollback(options) => block_on(commands::ledger::rollback(options, &mut out())),
        Command::Import(options) => block_on(commands::ledger::import(options, &mut out())),
        Command::Export(options) => block_on(commands::ledger::export(options, &mut out())),
        Command::Backup(options) => block_on(commands::ledger::backup(options, &mut out())),
        Command::Restore(options) => commands::ledger::restore(&options, &mut out()),
    };
    ended(result.map(|()| ExitCode::SUCCESS))
}

/// As a shell reports programs that end because nobody reads what they print.
const READER_LEFT: u8 = 141;

/// The status that the program ends with.
fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        if out::reader_left() {
            return ExitCode::from(READER_LEFT);
        }
        log::say!("pilothouse: {error:#}");
        ExitCode::from(2)
    })
}

/// How far the priority of simulated proxies is lowered that run beside the server they load.
const NICE: i32 = 10;

fn load(options: client::LoadOptions) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if options.scenario.is_some() {
        // On machines of their own they would not take its processor. The server is started by this thread, and so keeps
        // the usual priority. Without permission they compete as equals.
        runtime.on_thread_start(|| _ = rustix::process::nice(NICE));
    }
    runtime.enable_all().build()?.block_on(async {
        let out = &mut out();
        match options.scenario.clone() {
            Some(path) => _ = client::run_scenario(options, &path, out).await?,
            None => _ = client::run_load(options, out).await?,
        }
        Ok(())
    })
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_every_command_go_together() {
        command().debug_assert();
    }
}
