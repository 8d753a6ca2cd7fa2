//! Analysis of files.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use analysis::code::POD_MISSING_PROXY;
use analysis::suppress::Wanted;
use analysis::{Analysis, Finding, clusters, implied};
use anyhow::bail;
use convert::Stage;
use incr::Engine;
use mesh::closed::ClosedObjects;
use mesh::finding::code;
use model::parse::Validation;
use model::settings::{AccessReviews, Settings};
use model::{Change, ClusterId, Diagnostic, Kind, Owner, Severity, Timestamp};
use policy::edge::options::EdgeOptions;
use server::judged::{judge, kinds, of_endpoints, of_values};
use sources::folder;
use store::{Snapshot, Store};
use xlate::findings::FindingsOfMesh;

use super::once::once;
use super::{AnalyzeOptions, Outcome, contested, text};
use crate::commands::input::{operator_features, standard_input};
use crate::commands::text::counted;

/// The cluster that the files without a name of their own belong to.
const HOME: &str = "Kubernetes";
/// Under which analyzer findings of reading and of the rules of each kind go.
const VALIDATION: &str = "schema.ValidationAnalyzer";
/// Under which analyzer findings go of what makes Istio's objects of others.
const TRANSLATION: &str = "convert.Translation";

/// Under which analyzer findings go about options of gateways that serve Ingresses with annotations.
const OPTIONS: &str = "policy.EdgeOptions";

/// Under which analyzer findings go about hosts, addresses and ports that another object has.
const CONTESTED: &str = "xlate.Contested";
/// Under which analyzer findings go about endpoints that are left out.
const ENDPOINTS: &str = "mesh.Endpoints";
/// Under which analyzer findings go of budgets and limits.
const SIZE: &str = "mesh.Size";

pub(super) fn analyze(options: &AnalyzeOptions, wanted: &Wanted) -> anyhow::Result<Outcome> {
    let paths: Vec<_> = options.paths.iter().chain(&options.filename).collect();
    if paths.is_empty() && options.cluster.is_empty() {
        bail!(
            "there is nothing to analyse: name a file, a folder, - for standard input, or --server"
        );
    }
    let mut read = Vec::new();
    let settings = Arc::new(settings(options, &mut read)?);
    let mut store = Store::new(settings.clone());
    let mut stage = Stage::default();
    let implied_source = source(u8::MAX, "implied");
    let implied = implied::objects(&settings).into_iter();
    let implied = implied.map(|o| Change::Put(implied_source.clone(), o));
    let mut engine: Engine<Snapshot> = Engine::new();
    let file = options.ingress.documents()?.into_iter();
    engine.commit(stage.apply(&mut store, implied.chain(file)).keys);
    for (rank, path) in (0..).zip(&paths) {
        let changes = load(rank, path, &mut read)?;
        engine.commit(stage.apply(&mut store, changes).keys);
    }
    let of_others = implied::of_registries(&store.snapshot()).into_iter();
    let of_others = of_others.chain(implied::of_control_plane(&store.snapshot()));
    let of_others = of_others.map(|o| Change::Put(implied_source.clone(), o));
    engine.commit(stage.apply(&mut store, of_others).keys);
    let snapshot = store.snapshot();
    let mut found: Vec<Finding> = (*engine.get(&snapshot, &Analysis)).clone();
    found.extend(between_clusters(options, &settings, &snapshot, &mut read)?);
    found.retain(|f| !implied::is_about(f) && !is_before_injection(&snapshot, f));
    let mut found: Vec<Finding> = found.iter().map(|f| f.placed(&snapshot)).collect();
    found.extend(of_derivation(&stage, &snapshot));
    let placed = |analyzer, f: &Diagnostic| by(analyzer, snapshot.placed(f.clone()));
    let of_options = engine.get(&snapshot, &EdgeOptions);
    found.extend(of_options.found.iter().map(|f| placed(OPTIONS, f)));
    found.extend(of_size(&engine, &snapshot));
    let closed = engine.get(&snapshot, &ClosedObjects);
    found.extend(closed.iter().map(|f| placed(VALIDATION, f)));
    found.extend(judged(&snapshot).into_iter().map(|f| by(VALIDATION, f)));
    let left_out = left_out(&snapshot);
    found.extend(left_out.iter().map(|f| placed(ENDPOINTS, f)));
    // Where proxies run, and behind which Services, only files say.
    engine.commit(stage.apply(&mut store, [Change::Gone(implied_source)]).keys);
    let contested = contested::find(&engine, &store.snapshot());
    found.extend(contested.findings.iter().map(|f| placed(CONTESTED, f)));
    // Kinds of others are nobody's fault.
    read.retain(|d| d.severity > Severity::Info);
    found.extend(
        read.into_iter()
            .map(|diagnostic| by(VALIDATION, diagnostic)),
    );
    let now = now();
    let found = found.into_iter().filter(|f| f.holds_at(now)).filter(|f| {
        let key = f.diagnostic.object.as_ref();
        let object = key.and_then(|k| snapshot.tables.get_any(k.kind, &k.name));
        wanted.wants(f, object.as_ref())
    });
    Ok(Outcome {
        findings: once(found.map(|f| f.diagnostic)),
        checked: sizes(&snapshot),
        advice: contested.advice,
    })
}

/// Whether a finding is about a Pod without a sidecar that no API server has made yet: it is injected then.
fn is_before_injection(snapshot: &Snapshot, finding: &Finding) -> bool {
    let found = &finding.diagnostic;
    let object = found
        .object
        .as_ref()
        .filter(|_| found.code == POD_MISSING_PROXY.id);
    let pod = object.and_then(|key| snapshot.tables.get_any(key.kind, &key.name));
    pod.is_some_and(|pod| pod.meta().uid.is_empty())
}

/// What a server closes of routes and, where no class is named, of the Ingresses that `--ingress-class nginx` would serve.
fn judged(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let objects = kinds().flat_map(|kind| snapshot.tables.iter_any(kind));
    match snapshot.settings.features.edge_classes.is_empty() {
        true => judge(objects.collect()),
        false => objects.flat_map(|object| of_values(&object)).collect(),
    }
}

/// The endpoints of objects that are on the machine of whoever connects.
fn left_out(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let objects = Kind::ALL
        .iter()
        .flat_map(|kind| snapshot.tables.iter_any(*kind));
    let objects = objects.filter(|object| !implied::is(object));
    let features = &snapshot.settings.features;
    objects
        .filter_map(|object| of_endpoints(features, &object))
        .collect()
}

/// What is over the budget of its namespace, or makes too much by itself.
fn of_size(engine: &Engine<Snapshot>, snapshot: &Snapshot) -> Vec<Finding> {
    let of_mesh = engine.get(snapshot, &FindingsOfMesh);
    let of_size = of_mesh
        .iter()
        .filter(|f| matches!(f.code, code::OVER_BUDGET | code::OVER_LIMIT));
    let found = of_size.map(|f| by(SIZE, snapshot.placed(f.clone())));
    found.collect()
}

/// What is wrong with the objects that others are derived from.
fn of_derivation(stage: &Stage, snapshot: &Snapshot) -> impl Iterator<Item = Finding> {
    let found = stage.current_findings().into_iter();
    found.map(|f| by(TRANSLATION, snapshot.placed(f)))
}

/// What goes under the name of an analyzer, at any time.
fn by(analyzer: &'static str, diagnostic: Diagnostic) -> Finding {
    Finding {
        diagnostic,
        analyzer,
        since: None,
        until: None,
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX)))
}

/// How many objects there are, without those that are implied, and how many are derived of them.
fn sizes(snapshot: &Snapshot) -> String {
    let kinds = Kind::ALL.iter();
    let objects = kinds.flat_map(|kind| snapshot.tables.iter_any(*kind));
    let objects = objects.filter(|object| !implied::is(object));
    let (derived, read): (Vec<_>, Vec<_>) =
        objects.partition(|object| object.meta().derived.is_some());
    let read = counted(read.len(), "object");
    match derived.len() {
        0 => read,
        derived => format!("{read}, {derived} derived"),
    }
}

fn source(rank: u8, name: &str) -> Owner {
    Owner::new(rank, name)
}

/// The settings that the options name, with what is wrong with them.
fn settings(options: &AnalyzeOptions, found: &mut Vec<Diagnostic>) -> anyhow::Result<Settings> {
    let mut mesh = model::mesh::default_mesh_config();
    if let Some(path) = &options.mesh_config {
        let read = model::mesh::read_mesh_config(&text(path)?, &Arc::from(path.as_path()));
        mesh = read.value.unwrap_or(mesh);
        found.extend(read.diagnostics);
    }
    let mut networks = model::settings::MeshNetworks::default();
    if let Some(path) = &options.mesh_networks {
        let read = model::mesh::read_mesh_networks(&text(path)?, &Arc::from(path.as_path()));
        networks = read.value.unwrap_or(networks);
        found.extend(read.diagnostics);
    }
    let (mut features, of_environment) = operator_features();
    found.extend(of_environment);
    features.owned_hosts |= options.offline.owned_hosts;
    options.ingress.apply(&mut features);
    Ok(Settings {
        mesh: Arc::new(mesh),
        networks: Arc::new(networks),
        features: Arc::new(features),
        domain: options.offline.domain.as_str().into(),
        cluster: HOME.into(),
        system_namespace: "istio-system".into(),
        access_reviews: AccessReviews::default(),
        unguessable: model::redacted::Redacted::new("no-value"),
    })
}

/// Reads one path.
fn load(rank: u8, path: &Path, found: &mut Vec<Diagnostic>) -> anyhow::Result<Vec<Change>> {
    if path == Path::new("-") {
        let text = standard_input()?;
        let parsed = validate::parse(&text, &Path::new("<stdin>").into(), Validation::Tell);
        let id = source(rank, "stdin");
        let changes = parsed.objects().map(|o| Change::Put(id.clone(), o.clone()));
        let changes = changes.collect();
        found.extend(parsed.diagnostics);
        return Ok(changes);
    }
    let id = source(rank, &format!("files:{}", path.display()));
    let mut folder = folder::Folder::new(id, path, Validation::Tell);
    let changes = folder.scan();
    let findings = folder.findings();
    let unreadable = |d: &&Diagnostic| d.code == folder::code::UNREADABLE;
    if let Some(first) = findings.iter().find(unreadable) {
        bail!("{first}");
    }
    found.extend(findings);
    Ok(changes)
}

/// What services of the further clusters have that those of this one have not.
fn between_clusters(
    options: &AnalyzeOptions,
    settings: &Arc<Settings>,
    home: &Arc<Snapshot>,
    read: &mut Vec<Diagnostic>,
) -> anyhow::Result<Vec<Finding>> {
    let mut all = vec![(ClusterId::from(HOME), home.clone())];
    for (name, path) in &options.cluster {
        let mut store = Store::new(settings.clone());
        store.apply(load(0, path, read)?);
        all.push((ClusterId::from(name.as_str()), store.snapshot()));
    }
    Ok(clusters::inconsistent(
        all.iter().map(|(name, snapshot)| (name, &**snapshot)),
    ))
}
