//! `pilothouse analyze`: what is wrong between objects, of files or of a server.

mod files;
pub(super) mod live;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::registry::DESCRIPTIONS;
use analysis::suppress::{InvalidSuppression, Suppression, Wanted};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use model::parse::Locator;
use model::{Diagnostic, Namespace, Origin, Severity};
use server::settings::IngressOptions;

use crate::findings::{self, Format, Verdict};
use crate::log::say;
use crate::out::out;

/// Flags of `pilothouse analyze`.
#[derive(Args, Debug)]
pub(crate) struct AnalyzeOptions {
    /// Files and folders of manifests; `-` is standard input.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Files and folders, as with kubectl. May be repeated.
    #[arg(long, short = 'f', value_name = "PATH")]
    filename: Vec<PathBuf>,

    /// Analyse the configuration of a running server, through its debug pages.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["paths", "filename", "cluster"])]
    server: Option<String>,

    /// Another cluster of the mesh and its folder, to compare services with. May be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = cluster)]
    cluster: Vec<(String, PathBuf)>,

    /// Only findings about objects of this namespace and cluster-scoped objects.
    #[arg(long, short = 'n', conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// Findings about objects of all namespaces; the default.
    #[arg(long, short = 'A')]
    all_namespaces: bool,

    /// Hide a code for some objects, for example IST0103=Pod *.testing. May be repeated.
    #[arg(long, short = 'S', value_name = "CODE=OBJECT", value_parser = suppression)]
    suppress: Vec<Suppression>,

    /// Only findings of this analyzer. May be repeated.
    #[arg(long, value_name = "NAME")]
    analyzer: Vec<String>,

    /// List the analyzers.
    #[arg(long, short = 'L')]
    list_analyzers: bool,

    /// The lowest severity that makes the exit status 1.
    #[arg(long, value_enum, ignore_case = true, default_value = "error")]
    failure_threshold: Level,

    /// The lowest severity to print.
    #[arg(long, value_enum, ignore_case = true, default_value = "info")]
    output_threshold: Level,

    /// Mesh configuration.
    #[arg(
        long,
        visible_alias = "meshConfigFile",
        alias = "meshConfig",
        value_name = "FILE"
    )]
    mesh_config: Option<PathBuf>,

    /// Mesh networks.
    #[arg(long, alias = "networksConfig", value_name = "FILE")]
    mesh_networks: Option<PathBuf>,

    /// Ingresses with annotations.
    #[command(flatten)]
    ingress: IngressOptions,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Format,
}

/// How bad a finding is, on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    fn severity(self) -> Severity {
        match self {
            Self::Info => Severity::Info,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

fn suppression(text: &str) -> Result<Suppression, InvalidSuppression> {
    text.parse()
}

fn cluster(text: &str) -> Result<(String, PathBuf), &'static str> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err("expected NAME=PATH"),
    }
}

impl AnalyzeOptions {
    fn wanted(&self) -> Wanted {
        Wanted {
            namespace: self.namespace.as_deref().map(Namespace::from),
            suppressions: self.suppress.clone(),
            analyzers: self.analyzer.clone(),
        }
    }
}

/// What there is to print.
struct Outcome {
    /// What was found and is wanted.
    findings: Vec<Diagnostic>,
    /// What was looked at, such as `3 objects`.
    checked: String,
}

/// Analyses and prints.
///
/// # Errors
///
/// When something cannot be read, the server does not answer, or there is nothing to analyse.
pub(crate) async fn run(options: &AnalyzeOptions) -> anyhow::Result<Verdict> {
    if options.list_analyzers {
        list()?;
        return Ok(Verdict::Valid);
    }
    for name in &options.analyzer {
        if !DESCRIPTIONS.iter().any(|(known, _)| known == name) {
            bail!("there is no analyzer {name} (see --list-analyzers)");
        }
    }
    for suppression in options.suppress.iter().filter(|s| !s.is_known()) {
        say!(
            "pilothouse: --suppress: there is no code {}",
            suppression.code()
        );
    }
    let wanted = options.wanted();
    let mut outcome = match &options.server {
        Some(address) => live::analyze(address, &wanted).await?,
        None => files::analyze(options, &wanted)?,
    };
    // What fails does so whether it is printed or not.
    let fails = options.failure_threshold.severity();
    let verdict = match outcome.findings.iter().any(|d| d.severity >= fails) {
        true => Verdict::Invalid,
        false => Verdict::Valid,
    };
    let least = options.output_threshold.severity();
    outcome.findings.retain(|d| d.severity >= least);
    quote(&mut outcome.findings);
    findings::print(&outcome.findings, &outcome.checked, options.output)?;
    Ok(verdict)
}

fn list() -> std::io::Result<()> {
    use std::io::Write;
    let mut out = out();
    let width = DESCRIPTIONS.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or_default();
    for (name, about) in DESCRIPTIONS {
        writeln!(out, "{name:width$}  {about}")?;
    }
    Ok(())
}

/// Puts to each finding about a field of a file the line that it stands on.
pub(super) fn quote(found: &mut [Diagnostic]) {
    let mut by_file: BTreeMap<Arc<Path>, Vec<usize>> = BTreeMap::new();
    for (i, d) in found.iter().enumerate() {
        if let (Some(Origin::File { path, .. }), None) = (&d.origin, &d.excerpt) {
            by_file.entry(path.clone()).or_default().push(i);
        }
    }
    for (path, of_file) in by_file {
        // A file that is gone meanwhile, or lies on the server's machine, is named by its line alone.
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let locator = Locator::new(&text);
        for i in of_file {
            let Some(d) = found.get_mut(i) else { continue };
            let Some(Origin::File { line, .. }) = &mut d.origin else {
                continue;
            };
            if let Some(excerpt) = locator.find(*line, &d.path) {
                *line = excerpt.line;
                d.excerpt = Some(excerpt);
            }
        }
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: AnalyzeOptions,
    }

    const ROUTE: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: v
  namespace: shop
spec:
  hosts: [h.com]
  http:
  - route:
    - destination: {host: reviews}
";

    /// What is found in one file with these flags: `code line: message`.
    fn found(text: &str, flags: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, text).unwrap();
        let arguments = ["analyze"].iter().chain(flags).copied();
        let options = Cli::parse_from(
            arguments
                .map(str::to_owned)
                .chain([file.display().to_string()]),
        );
        let wanted = options.options.wanted();
        let mut outcome = files::analyze(&options.options, &wanted).unwrap();
        quote(&mut outcome.findings);
        let line = |d: &Diagnostic| d.excerpt.as_ref().map_or(0, |e| e.line);
        let findings = outcome.findings.iter();
        findings
            .map(|d| format!("{} {}: {}", d.code, line(d), d.message))
            .collect()
    }

    #[test]
    fn findings_name_the_line_of_the_field() {
        assert_eq!(
            found(ROUTE, &[]),
            ["IST0101 10: there is no service reviews"]
        );
    }

    #[test]
    fn namespaces_codes_and_analyzers_can_be_left_out() {
        let nothing = [""; 0];
        assert_eq!(found(ROUTE, &["-n", "other"]), nothing);
        assert_eq!(
            found(ROUTE, &["-S", "IST0101=VirtualService *.shop"]),
            nothing
        );
        assert_eq!(found(ROUTE, &["-S", "IST0101=Gateway *"]).len(), 1);
        assert_eq!(found(ROUTE, &["--analyzer", "webhook.Analyzer"]), nothing);
        let silent = ROUTE.replace(
            "  namespace: shop",
            "  namespace: shop\n  annotations: {galley.istio.io/analyze-suppress: '*'}",
        );
        assert_eq!(found(&silent, &[]), nothing);
    }

    #[test]
    fn what_the_rules_of_a_kind_refuse_is_found_as_well() {
        let codes = found(&ROUTE.replace("[h.com]", "['*']"), &[]);
        assert!(codes.iter().any(|c| c.starts_with("IST0106")), "{codes:?}");
    }

    #[test]
    fn the_gateway_that_the_mesh_config_names_is_there_and_nothing_is_said_about_it() {
        let gateway = "{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: g}, spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}}";
        assert_eq!(found(gateway, &[]), [""; 0]);
    }
}
