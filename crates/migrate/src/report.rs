//! What becomes of each Ingress.

mod annotation;
mod global;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annotations::Dialect;
use model::kinds::kube::Ingress;
use model::{Diagnostic, Kind, Object, ObjectName};
use serde::Serialize;

use crate::World;
use routes::Routes;

pub use routes::{Backend, Route};
pub(crate) use routes::{path, service_of};

/// How a line of ingress-nginx's configuration fares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It means the same.
    Same,
    /// It is honoured, but not in every way.
    Different,
    /// It is not honoured.
    Unsupported,
}

/// What becomes of an annotation, a field or an option.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The annotation's key, the field or the option, as written.
    pub key: Arc<str>,
    /// How it fares.
    pub verdict: Verdict,
    /// How it differs, or what to do instead; nothing where it means the same.
    pub how: Vec<Arc<str>>,
}

/// What becomes of an Ingress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfIngress {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands.
    pub at: String,
    /// How it fares: as the worst of its lines.
    pub verdict: Verdict,
    /// Why its routes refuse every request, where they do.
    pub closed: Option<Arc<str>>,
    /// It takes a part of the requests of another, in whose routes it stands.
    pub canary: bool,
    /// Its annotations, the worst first.
    pub annotations: Vec<Line>,
    /// Its fields that there is something to say about.
    pub fields: Vec<Line>,
    /// What is served in its place.
    pub routes: Vec<Route>,
}

/// What becomes of all Ingresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// In short.
    pub summary: Summary,
    /// Each Ingress.
    pub ingresses: Vec<OfIngress>,
    /// ingress-nginx's global options, the worst first.
    pub options: Vec<Line>,
    /// The ConfigMap that they stand in.
    pub config_map: Option<String>,
    /// The Ingresses that are not looked at, and why.
    pub left: Vec<(String, String)>,
    /// Defaults of ingress-nginx that are others here, where nothing states them.
    pub defaults: Vec<Changed>,
    /// What there is to know about the report itself.
    pub remarks: Vec<String>,
}

/// A default of ingress-nginx that is another here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// The option that states it.
    pub option: &'static str,
    /// What it is here, and what there.
    pub how: &'static str,
}

/// All of it in short.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many Ingresses were looked at.
    pub ingresses: usize,
    /// How many mean the same.
    pub same: usize,
    /// How many differ in something.
    pub different: usize,
    /// How many have something that is not supported.
    pub unsupported: usize,
    /// How many of all refuse every request.
    pub closed: usize,
    /// How many routes are served.
    pub routes: usize,
    /// How many annotations fare how, over all Ingresses: the same, different, not supported.
    pub annotations: [usize; 3],
    /// What needs attention, the worst and most frequent first.
    pub attention: Vec<Attention>,
}

/// Something that needs attention, wherever it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The annotation without its prefix, the field or the option.
    pub what: Arc<str>,
    /// How it fares.
    pub verdict: Verdict,
    /// In how many Ingresses.
    pub ingresses: usize,
    /// One of them.
    pub such_as: String,
    /// How it differs, or what to do instead.
    pub how: Arc<str>,
}

impl Report {
    /// Gathers what becomes of the Ingresses.
    pub fn of(world: &World) -> Self {
        let mut routes = Routes::of(&world.snapshot);
        let mut findings: BTreeMap<&ObjectName, Vec<&Diagnostic>> = BTreeMap::new();
        for finding in &world.findings {
            if let Some(key) = finding.object.as_ref().filter(|k| k.kind == Kind::Ingress) {
                findings.entry(&key.name).or_default().push(finding);
            }
        }
        let ingresses = world.ingresses.iter().map(|ingress| {
            let found = findings.get(&ingress.meta.name);
            let found = found.map(Vec::as_slice).unwrap_or_default();
            of_ingress(world, ingress, found, &mut routes)
        });
        let ingresses: Vec<OfIngress> = ingresses.collect();
        let options = global::lines(&world.defaults);
        Self {
            summary: summary(&ingresses, &options),
            ingresses,
            options,
            config_map: world.options.as_ref().map(ToString::to_string),
            left: world
                .left
                .iter()
                .map(|left| (left.name.to_string(), left.why.clone()))
                .collect(),
            defaults: changed(world),
            remarks: remarks(world),
        }
    }

    /// How it fares as a whole.
    pub fn verdict(&self) -> Verdict {
        let ingresses = self.ingresses.iter().map(|ingress| ingress.verdict);
        let options = self.options.iter().map(|line| line.verdict);
        ingresses.chain(options).max().unwrap_or(Verdict::Same)
    }
}

fn of_ingress(
    world: &World,
    ingress: &Arc<Object<Ingress>>,
    findings: &[&Diagnostic],
    routes: &mut Routes,
) -> OfIngress {
    let name = &ingress.meta.name;
    let read = annotations::read(&ingress.meta.annotations, Dialect::Nginx, &world.defaults);
    let (annotations, mut fields) = annotation::lines(&world.snapshot, ingress, &read, findings);
    if let Some(class) = world.unnamed.get(name) {
        let how = format!("names no class and is taken for one of {class}: state it");
        fields.push(Line {
            key: "spec.ingressClassName".into(),
            verdict: Verdict::Different,
            how: vec![how.into()],
        });
    }
    if ingress.spec.default_backend.is_some() && !ingress.spec.rules.is_empty() {
        fields.push(Line {
            key: "spec.defaultBackend".into(),
            verdict: Verdict::Different,
            how: vec![
                "takes requests for every host that no Ingress names as well; with ingress-nginx only those for hosts of its rules"
                    .into(),
            ],
        });
    }
    let lines = annotations.iter().chain(&fields);
    let routes = routes.take(name);
    OfIngress {
        namespace: name.namespace.as_arc().clone(),
        name: name.name.as_arc().clone(),
        at: ingress.meta.origin.to_string(),
        verdict: lines.map(|l| l.verdict).max().unwrap_or(Verdict::Same),
        closed: refusing(&routes, read.redirect.answer.is_some()),
        canary: read.canary.is_some(),
        annotations,
        fields,
        routes,
    }
}

/// Why all routes of an Ingress refuse every request, where they do: the reason of the first. One that states its answer, as by
/// `return 503`, refuses none.
fn refusing(routes: &[Route], states_answer: bool) -> Option<Arc<str>> {
    let why = |route: &Route| {
        let unavailable =
            || (route.is_unavailable && !states_answer).then(|| Arc::from(UNAVAILABLE));
        route.closed.clone().or_else(unavailable)
    };
    let serving = routes.iter().filter(|route| !route.is_before);
    let reasons: Option<Vec<Arc<str>>> = serving.map(why).collect();
    reasons?.into_iter().next()
}

/// Why an Ingress refuses every request that no annotation closes.
const UNAVAILABLE: &str = "no backend that it names is there";

fn worst_first(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| b.verdict.cmp(&a.verdict).then_with(|| a.key.cmp(&b.key)));
    lines
}

fn summary(ingresses: &[OfIngress], options: &[Line]) -> Summary {
    let count = |verdict| ingresses.iter().filter(|i| i.verdict == verdict).count();
    let mut summary = Summary {
        ingresses: ingresses.len(),
        same: count(Verdict::Same),
        different: count(Verdict::Different),
        unsupported: count(Verdict::Unsupported),
        closed: ingresses.iter().filter(|i| i.closed.is_some()).count(),
        routes: ingresses.iter().map(|i| i.routes.len()).sum(),
        ..Summary::default()
    };
    let mut attention: BTreeMap<Cause, Attention> = BTreeMap::new();
    for ingress in ingresses {
        for line in &ingress.annotations {
            summary.annotations[line.verdict as usize] += 1;
        }
        let mut told: BTreeSet<Cause> = BTreeSet::new();
        for line in ingress.annotations.iter().chain(&ingress.fields) {
            if line.verdict == Verdict::Same {
                continue;
            }
            let cause = Cause::of(annotation::title(&line.key), line);
            if told.insert(cause.clone()) {
                note(&mut attention, cause, || {
                    format!("{}/{}", ingress.namespace, ingress.name)
                });
            }
        }
    }
    for line in options.iter().filter(|l| l.verdict != Verdict::Same) {
        let cause = Cause::of(format!("option {}", line.key).into(), line);
        note(&mut attention, cause, || "the ConfigMap".to_owned());
    }
    summary.attention = attention.into_values().collect();
    summary.attention.sort_by(|a, b| {
        let by = |x: &Attention| (x.verdict, x.ingresses);
        by(b).cmp(&by(a)).then_with(|| a.what.cmp(&b.what))
    });
    summary
}

/// What needs attention, and why: what has another reason is another thing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    what: Arc<str>,
    verdict: Verdict,
    how: Arc<str>,
}

impl Cause {
    fn of(what: Arc<str>, line: &Line) -> Self {
        Self {
            what,
            verdict: line.verdict,
            how: line.how.first().cloned().unwrap_or_else(|| "".into()),
        }
    }
}

fn note(attention: &mut BTreeMap<Cause, Attention>, cause: Cause, place: impl Fn() -> String) {
    let known = attention.entry(cause.clone()).or_insert_with(|| Attention {
        what: cause.what,
        verdict: cause.verdict,
        ingresses: 0,
        such_as: place(),
        how: cause.how,
    });
    known.ingresses += 1;
}

fn remarks(world: &World) -> Vec<String> {
    let mut remarks = Vec::new();
    for kind in &world.assumed {
        remarks.push(format!(
            "The input has no {}s: those that Ingresses name are taken to be there.",
            kind.name()
        ));
    }
    match &world.options {
        None => remarks.push(
            "The input has no ConfigMap of ingress-nginx, so its defaults hold there.".to_owned(),
        ),
        Some(name) if world.defaults.nginx.is_empty() => {
            remarks.push(format!("The ConfigMap {name} is not there, or empty."));
        }
        Some(_) => {}
    }
    remarks
}

/// The defaults of ingress-nginx that are others here and that no option states.
fn changed(world: &World) -> Vec<Changed> {
    let options = &world.defaults.nginx;
    let changed = CHANGED
        .iter()
        .filter(|(option, _)| options.get(option).is_none());
    let changed = changed.map(|&(option, how)| Changed { option, how });
    changed.collect()
}

/// Defaults of ingress-nginx that are others here, each by the option that states another.
const CHANGED: [(&str, &str); 3] = [
    ("proxy-body-size", "bodies have no limit; there 1m"),
    (
        "proxy-next-upstream",
        "retries of the mesh config; there three tries",
    ),
    ("proxy-read-timeout", "Envoy's limit of silence; there 60 s"),
];
