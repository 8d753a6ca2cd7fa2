//! `pilothouse analyze`: what is wrong between objects, of files or of a server.

mod contested;
mod files;
pub(super) mod live;
pub(super) mod once;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::registry::DESCRIPTIONS;
use analysis::suppress::{InvalidSuppression, Suppression, Wanted};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use mesh::finding::code::LOCAL_ENDPOINT;
use model::parse::Locator;
use model::{Diagnostic, Namespace, Origin, Severity};
use server::settings::IngressOptions;

use super::flags::OfflineFlags;
use super::text::counted;
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
    #[arg(long, alias = "http-addr", value_name = "HOST:PORT", conflicts_with_all = ["paths", "filename", "cluster"])]
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

    /// What a server would be started with.
    #[command(flatten)]
    offline: OfflineFlags,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Format,

    /// Ingresses with annotations.
    #[command(flatten, next_help_heading = "Ingresses with annotations")]
    ingress: IngressOptions,
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
    /// What would let more be found.
    advice: Option<String>,
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
    let of_others = |code: &str| contested::CODES.contains(&code) || code == LOCAL_ENDPOINT;
    let is_known = |s: &&Suppression| s.is_known() || of_others(s.code());
    for suppression in options.suppress.iter().filter(|s| !is_known(s)) {
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
    let all = outcome.findings.len();
    outcome.findings.retain(|d| d.severity >= least);
    if outcome.findings.len() < all {
        let hidden = counted(all - outcome.findings.len(), "finding");
        say!("pilothouse: --output-threshold hides {hidden}");
    }
    if let Some(advice) = &outcome.advice {
        say!("pilothouse: {advice}");
    }
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
            if let Some(d) = found.get_mut(i) {
                locate(d, &locator);
            }
        }
    }
}

/// Puts to a finding about a field the line of the text that it stands on.
pub(super) fn locate(found: &mut Diagnostic, locator: &Locator<'_>) {
    let find = match found.of_name {
        true => Locator::find_name,
        false => Locator::find,
    };
    if let Some(Origin::File { line, .. }) = &mut found.origin
        && let Some(excerpt) = find(locator, *line, &found.path)
    {
        *line = excerpt.line;
        found.excerpt = Some(excerpt);
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
    fn services_are_found_in_the_domain_of_the_mesh() {
        let text = ROUTE.replace("host: reviews", "host: reviews.shop.svc.corp.internal")
            + "---\n{apiVersion: v1, kind: Service, metadata: {name: reviews, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}\n";
        let unknown = |flags: &[&str]| {
            let found = found(&text, flags);
            found.iter().any(|line| line.starts_with("IST0101"))
        };
        assert!(unknown(&[]));
        assert!(!unknown(&["--domain", "corp.internal"]));
    }

    #[test]
    fn an_endpoint_that_is_left_out_is_found() {
        let entry = "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop}
spec:
  hosts: [local.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - address: 192.0.2.1
  - address: 127.0.0.1
";
        let left_out = |flags: &[&str]| {
            let found = found(entry, flags).into_iter();
            let mut found = found.filter(|line| line.starts_with("PIL0532 10: "));
            found.next()
        };
        assert!(left_out(&[]).is_some());
        assert_eq!(left_out(&["-S", "PIL0532=ServiceEntry *.shop"]), None);
    }

    #[test]
    fn one_cause_is_one_finding() {
        let ingress = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop}, spec: {ingressClassName: nginx, rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: none, port: {number: 80}}}}]}}]}}\n";
        let about_backend = |flags: &[&str]| {
            let found = found(ingress, flags).into_iter();
            let codes = found.filter_map(|line| line.split(' ').next().map(str::to_owned));
            let codes = codes.filter(|code| ["PIL0105", "PIL0702"].contains(&&**code));
            codes.collect::<Vec<_>>()
        };
        assert_eq!(about_backend(&["--ingress-class", "nginx"]), ["PIL0105"]);
        assert_eq!(about_backend(&[]), ["PIL0105"]);
    }

    #[test]
    fn findings_name_the_line_of_the_field() {
        assert_eq!(
            found(ROUTE, &[]),
            ["IST0101 10: there is no service reviews"]
        );
    }

    #[test]
    fn a_misspelt_annotation_is_quoted_by_its_name_and_a_wrong_value_by_itself() {
        let text = "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/use-regx: 'true'
    nginx.ingress.kubernetes.io/proxy-read-timeout: soon
spec:
  ingressClassName: nginx
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let options = Cli::parse_from(["analyze", &file]);
        let wanted = options.options.wanted();
        let mut outcome = files::analyze(&options.options, &wanted).unwrap();
        quote(&mut outcome.findings);
        let of_annotations = outcome.findings.iter().filter(|d| d.code == "PIL0720");
        let mut places: Vec<(u32, u32)> = of_annotations
            .filter_map(|d| d.excerpt.as_ref())
            .map(|excerpt| (excerpt.line, excerpt.column))
            .collect();
        places.sort_unstable();
        assert_eq!(places, [(7, 5), (8, 53)]);
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

    /// Those of the codes of generation.
    fn contested(text: &str) -> Vec<String> {
        let all = found(text, &[]).into_iter();
        let ours = all.filter_map(|line| {
            let (code, told) = line.split_once(' ')?;
            let (_, message) = told.split_once(": ")?;
            let is_ours = contested::CODES.contains(&code);
            is_ours.then(|| format!("{code}: {message}"))
        });
        ours.collect()
    }

    #[test]
    fn a_host_of_an_older_service_entry_is_found() {
        let entry = |namespace: &str, year: &str| {
            format!(
                "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: api, namespace: {namespace}, creationTimestamp: \"{year}-01-01T00:00:00Z\"}}, spec: {{hosts: [api.example.com], ports: [{{number: 443, name: tls, protocol: TLS}}], resolution: DNS}}}}\n---\n"
            )
        };
        let both = [entry("shop", "2026"), entry("bank", "2025")].concat();
        assert_eq!(
            contested(&both),
            [
                "PIL0512: proxies of other namespaces than shop reach api.example.com as ServiceEntry bank/api says, which is older"
            ]
        );
    }

    #[test]
    fn of_two_without_a_date_none_is_called_older() {
        let ingress = |namespace: &str| {
            format!(
                "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: web, namespace: {namespace}}}, spec: {{ingressClassName: nginx, rules: [{{host: a.test, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]}}}}\n---\n"
            )
        };
        let both = [ingress("shop"), ingress("bank")].concat();
        let all = found(&both, &["--ingress-class", "nginx"]);
        let lost: Vec<&String> = all.iter().filter(|f| f.starts_with("PIL0724")).collect();
        assert!(!lost.is_empty(), "{all:?}");
        let why =
            "belongs to the namespace bank: Ingress bank/web claims it and comes first by name";
        assert!(lost[0].contains(why), "{lost:?}");
    }

    #[test]
    fn a_port_of_a_gateway_is_found_lost_where_its_proxies_are_known_or_do_not_matter() {
        let gateway = |namespace: &str, name: &str, protocol: &str, year: &str| {
            format!(
                "{{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: \"{year}-01-01T00:00:00Z\"}}, spec: {{selector: {{app: edge}}, servers: [{{port: {{number: 8080, name: a, protocol: {protocol}}}, hosts: ['*']}}]}}}}\n---\n"
            )
        };
        let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: edge, namespace: bank}, spec: {selector: {matchLabels: {app: edge}}, template: {metadata: {labels: {app: edge, version: v1}}, spec: {containers: [{name: proxy, image: proxy}]}}}}\n---\n";
        let lost = |holder: &str, held: &str, wanted: &str| {
            format!(
                "PIL0501: the server is not served on port 8080: Gateway {holder} serves {held} there, which cannot share a port with {wanted}"
            )
        };
        let bank = gateway("bank", "web", "HTTP", "2026");
        let older = gateway("evil", "mine", "TCP", "2025");
        let both = [bank.clone(), older].concat();
        // Whoever has the proxy decides.
        assert_eq!(contested(&both), [""; 0]);
        let with_proxy = [both, deployment.to_owned()].concat();
        assert_eq!(contested(&with_proxy), [lost("bank/web", "HTTP", "TCP")]);
        let own = [bank.clone(), gateway("bank", "db", "TCP", "2025")].concat();
        assert_eq!(contested(&own), [lost("bank/db", "TCP", "HTTP")]);
        // A proxy may have more labels, and so serve more Gateways.
        let other = gateway("bank", "front", "HTTP", "2026").replace("app: edge", "tier: front");
        assert_eq!(contested(&[own, other].concat()), [""; 0]);
    }

    /// An McpBridge with a service that is listed and a registry that is not asked here.
    const BRIDGE: &str = "---
apiVersion: networking.higress.io/v1
kind: McpBridge
metadata: {name: default, namespace: higress-system}
spec:
  registries:
  - {type: static, name: reviews, domain: '127.0.0.1:9001', port: 80}
  - {type: nacos3, name: nacos, domain: nacos.example.com, port: 8848}
";

    #[test]
    fn services_of_registries_that_are_not_asked_are_taken_to_be_there() {
        let route = |host: &str, port: u16| {
            let to = format!("host: {host}, port: {{number: {port}}}");
            found(&(ROUTE.replace("host: reviews", &to) + BRIDGE), &[])
        };
        assert_eq!(route("reviews.static", 80), [""; 0]);
        assert_eq!(
            route("reviews.static", 81),
            ["IST0101 10: reviews.static has no port 81"]
        );
        assert_eq!(
            route("ratings.static", 80),
            ["IST0101 10: there is no service ratings.static"]
        );
        // Nobody asks for its ports either.
        assert_eq!(route("a.DEFAULT-GROUP.public.nacos", 7001), [""; 0]);
        // One that `--registry` names is not known here.
        assert_eq!(
            found(&ROUTE.replace("reviews", "a.dc1.consul"), &[]),
            ["IST0101 10: there is no service a.dc1.consul"]
        );
    }

    #[test]
    fn lists_that_multiply_each_other_beyond_a_limit_are_reported() {
        let list = |count: u32, entry: &dyn Fn(u32) -> String| {
            let entries: Vec<String> = (0..count).map(entry).collect();
            format!("[{}]", entries.join(", "))
        };
        let hosts = list(51, &|n| format!("h{n}.example.com"));
        let ports = list(50, &|n| {
            format!("{{number: {}, name: p{n}, protocol: HTTP}}", 1000 + n)
        });
        let endpoints = list(100, &|n| format!("{{address: 192.0.2.{n}}}"));
        let entry = format!(
            "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e}}, spec: {{resolution: STATIC, hosts: {hosts}, ports: {ports}, endpoints: {endpoints}}}}}"
        );
        let found = found(&entry, &[]);
        let of_size = found.iter().filter(|found| found.starts_with("PIL0601"));
        assert_eq!(of_size.count(), 1, "{found:?}");
    }

    #[test]
    fn what_two_analyzers_find_is_reported_once() {
        let gateway = "{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: g}, spec: {selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}}";
        let found = found(gateway, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("IST0101"), "{found:?}");
    }

    #[test]
    fn a_route_that_is_refused_for_its_values_is_reported_for_these_alone() {
        let around = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: web, namespace: shop}, spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}}
---
";
        for (kind, matched) in [
            (
                "HTTPRoute",
                "path: {type: RegularExpression, value: '/a(?=b)'}",
            ),
            (
                "GRPCRoute",
                "method: {type: RegularExpression, service: 'a(?=b)'}",
            ),
        ] {
            let route = format!(
                "{{apiVersion: gateway.networking.k8s.io/v1, kind: {kind}, metadata: {{name: bad, namespace: shop}}, spec: {{parentRefs: [{{name: web}}], hostnames: [a.example.com], rules: [{{matches: [{{{matched}}}], backendRefs: [{{name: api, port: 80}}]}}]}}}}"
            );
            let found = found(&[around, &route].concat(), &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("PIL0602"), "{found:?}");
        }
    }
}
