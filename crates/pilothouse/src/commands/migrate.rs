//! `pilothouse migrate nginx`: what becomes of the Ingresses of ingress-nginx.

mod cluster;
mod compared;
mod input;
mod written;

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use migrate::manifests::{GatewayApi, Manifests};
use migrate::report::{Report, Verdict};
use migrate::show::{self, Form, Style};
use migrate::{Wanted, World};
use model::ObjectName;

use crate::findings::width;
use crate::log::say;
use crate::out::out;

/// Flags of `pilothouse migrate`.
#[derive(Args, Debug)]
pub(crate) struct MigrateOptions {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// Say of each Ingress of ingress-nginx, and each of its annotations, what becomes of it.
    ///
    /// Exits with 0 if everything is supported, 1 if something is not (see --fail-on), and 2 if the input, or a document of
    /// it, cannot be read.
    Nginx(Box<NginxOptions>),
}

/// Flags of `pilothouse migrate nginx`.
#[derive(Args, Debug)]
pub(crate) struct NginxOptions {
    /// Files and folders of manifests; `-` is standard input, as in `kubectl get ing,svc,cm,ingressclass -A -o yaml |
    /// pilothouse migrate nginx -`.
    #[arg(value_name = "PATH", required_unless_present = "kubeconfig")]
    paths: Vec<PathBuf>,

    /// Read a cluster instead: its Ingresses, IngressClasses, Services, ConfigMaps and Secrets. Without a FILE that of
    /// $KUBECONFIG, or ~/.kube/config.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with = "paths"
    )]
    kubeconfig: Option<Option<PathBuf>>,

    /// Context of --kubeconfig; by default its current one.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// A class whose Ingresses are looked at. By default those of the controller k8s.io/ingress-nginx, and nginx. May be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    ingress_class: Vec<String>,

    /// The ConfigMap with ingress-nginx's global options. By default one that has its name, ingress-nginx-controller.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object)]
    config_map: Option<ObjectName>,

    /// Show each Ingress with its annotations and routes.
    #[arg(long)]
    details: bool,

    /// Say for each request of a file whether nginx's rules and ours send it to the same place: `METHOD URL [NAME: VALUE]...`
    /// or JSON `{"method", "url", "headers"}` a line.
    #[arg(long, value_name = "FILE", conflicts_with = "access_log")]
    requests: Option<PathBuf>,

    /// The same for the requests of an access log of nginx, in its combined format, with `$host` before it or not.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// The host of requests whose line in --access-log does not begin with it.
    #[arg(long, value_name = "HOST", requires = "access_log")]
    log_host: Option<String>,

    /// The requests of --access-log came without TLS.
    #[arg(long, requires = "access_log")]
    log_http: bool,

    /// Write manifests in the place of the Ingresses. What they cannot say is named in comments and the summary; a route
    /// that would be open without it, or lead elsewhere, is closed.
    #[arg(
        long,
        value_enum,
        requires = "directory",
        conflicts_with_all = ["requests", "access_log", "output", "details"]
    )]
    to: Option<Target>,

    /// The folder of --to: a file for each host. Files there that this command did not write are left alone.
    #[arg(long, value_name = "DIR", requires = "to")]
    directory: Option<PathBuf>,

    /// The namespace of the gateway. --to istio puts everything there; --to gateway-api the Gateway, and routes into the
    /// namespaces of the Ingresses. By default higress-system, as PILOTHOUSE_INGRESS_NAMESPACE.
    #[arg(long, value_name = "NAMESPACE", requires = "to")]
    gateway_namespace: Option<String>,

    /// The label of the gateway's pods for --to istio, such as istio=ingressgateway. By default
    /// higress=higress-system-higress-gateway, as PILOTHOUSE_INGRESS_SELECTOR.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, requires = "to")]
    gateway_selector: Option<String>,

    /// The class of the Gateway of --to gateway-api.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "pilothouse",
        requires = "to"
    )]
    gateway_class: String,

    /// Write sessionPersistence with --to gateway-api. It is in the API's experimental channel, and Pilothouse honours it with
    /// PILOT_ENABLE_PERSISTENT_SESSION_FILTER.
    #[arg(long, requires = "to")]
    sessions: bool,

    /// What makes the exit status 1.
    #[arg(long, value_enum, default_value = "unsupported")]
    fail_on: FailOn,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,
}

/// What makes the exit status 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FailOn {
    /// Something differs or is not supported.
    Different,
    /// Something is not supported.
    Unsupported,
    /// Nothing.
    Never,
}

/// Kinds of manifests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Target {
    /// Gateways, VirtualServices and DestinationRules.
    Istio,
    /// A Gateway, HTTPRoutes, and what belongs to them.
    GatewayApi,
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For a repository or an issue.
    Markdown,
    /// One page that needs nothing beside it.
    Html,
}

fn object(text: &str) -> Result<ObjectName, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err("expected NAMESPACE/NAME"),
    }
}

fn label(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(text.to_owned()),
        _ => Err("expected KEY=VALUE"),
    }
}

impl FailOn {
    fn counts(self, verdict: Verdict) -> bool {
        match self {
            Self::Different => verdict >= Verdict::Different,
            Self::Unsupported => verdict >= Verdict::Unsupported,
            Self::Never => false,
        }
    }
}

impl Output {
    fn form(self) -> Form {
        match self {
            Self::Text => Form::Text,
            Self::Json => Form::Json,
            Self::Markdown => Form::Markdown,
            Self::Html => Form::Html,
        }
    }
}

/// Looks and prints.
///
/// # Errors
///
/// When the input cannot be read.
pub(crate) async fn run(options: &MigrateOptions) -> anyhow::Result<ExitCode> {
    let From::Nginx(options) = &options.from;
    let (objects, left_out) = match &options.kubeconfig {
        Some(file) => {
            let objects = cluster::objects(file.as_deref(), options.context.as_deref()).await?;
            (objects, 0)
        }
        None => input::objects(&options.paths)?,
    };
    if objects.is_empty() {
        bail!("the input holds no object that is read");
    }
    let wanted = Wanted {
        classes: options.ingress_class.clone(),
        config_map: options.config_map.clone(),
        gateway_namespace: options.gateway_namespace.clone(),
        gateway_selector: options.gateway_selector.clone(),
    };
    let world = World::load(objects, &wanted);
    if options.requests.is_some() || options.access_log.is_some() {
        let different = compared::print(options, &world)?;
        let fails = different && options.fail_on != FailOn::Never;
        return Ok(status(left_out, fails));
    }
    let report = Report::of(&world);
    let verdict = match (options.to, &options.directory) {
        (Some(target), Some(folder)) => {
            let manifests = match target {
                Target::Istio => Manifests::of_istio(&world),
                Target::GatewayApi => {
                    let wanted = GatewayApi {
                        class: options.gateway_class.clone(),
                        sessions: options.sessions,
                    };
                    Manifests::of_gateway_api(&world, &wanted)
                }
            };
            write(folder, &manifests, &report)?
        }
        _ => {
            print(options, &report)?;
            report.verdict()
        }
    };
    Ok(status(left_out, options.fail_on.counts(verdict)))
}

/// The exit status: what is said without some documents is not the whole.
fn status(left_out: usize, fails: bool) -> ExitCode {
    match (left_out, fails) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::FAILURE,
        (left_out, _) => {
            say!("pilothouse: {left_out} of the documents cannot be read and are left out");
            ExitCode::from(2)
        }
    }
}

/// Writes manifests, and says how all fares.
fn write(folder: &Path, manifests: &Manifests, report: &Report) -> anyhow::Result<Verdict> {
    written::write(folder, manifests)?;
    let mut out = out();
    written::summary(&mut out, folder, manifests, report.summary.unsupported)?;
    Ok(match manifests.not_carried.is_empty() {
        true => report.verdict(),
        false => Verdict::Unsupported,
    })
}

fn print(options: &NginxOptions, report: &Report) -> std::io::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let style = Style {
        color: is_terminal && std::env::var_os("NO_COLOR").is_none(),
        width: match is_terminal {
            true => width(),
            false => usize::MAX,
        },
        details: options.details,
    };
    let mut out = BufWriter::new(out());
    show::write(&mut out, report, options.output.form(), style)?;
    out.flush()
}
