//! What is deployed for Gateways of the Gateway API: proxies, their Services and what belongs to them.
//!
//! What is to be deployed is planned from the objects in force ([`plan`]): a change plans only the Gateways that read what
//! changed. The leader of this revision applies it server-side, under the name by which istiod does; objects that somebody
//! else made are left alone. What goes with its Gateway has it as owner, so the API server deletes it.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/{deploymentcontroller,gatewayclass}.go, 1.32.

mod classes;
mod manner;
mod options;
mod plan;
mod reports;
mod watching;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inject::{Injection, Settings, builtin};
use model::names::Namespace;
use model::{Kind, ObjectKey};
use store::Snapshot;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::lead::Leading;
use writeback::lease::{Candidate, Elector, Lock};
use writeback::objects::{ObjectWriter, Wanted};
use writeback::sets::{SetWriter, Sets, Touched};

use crate::apis::Api;
use crate::config::ServeOptions;
use crate::derive::Batch;
use crate::metrics::Metrics;
use crate::tags::{self, Tags};
use crate::webhooks::{Configuration, InjectorSource};
use crate::writing::{Line, Target, Told};

use manner::Manner;
pub use options::DeploymentOptions;
use plan::{PlaceOf, Plan, World};
use reports::Reports;

/// How many changed objects are kept apart.
const MOST_CHANGED: usize = 10_000;
/// How long the first plan waits for the operator's templates.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hears of each batch, and keeps what changed since the last plan.
pub struct Seen {
    /// The namespace of the control plane.
    system: Namespace,
    state: Mutex<News>,
    told: Notify,
}

/// What changed.
#[derive(Default)]
struct News {
    snapshot: Option<Arc<Snapshot>>,
    changed: BTreeSet<ObjectKey>,
    /// Whether anything may have changed.
    all: bool,
}

impl Seen {
    /// Nothing yet, of a control plane in that namespace.
    pub fn new(system: &str) -> Self {
        Self {
            system: system.into(),
            state: Mutex::default(),
            told: Notify::new(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let matters = |key: &&ObjectKey| {
            matches!(
                key.kind,
                Kind::KubeGateway
                    | Kind::ListenerSet
                    | Kind::GatewayClass
                    | Kind::ConfigMap
                    | Kind::Namespace
            )
        };
        let of_all = |kind: Kind| matches!(kind, Kind::ProxyConfig);
        let objects = &batch.changes.objects;
        let changed: Vec<_> = objects.iter().filter(matters).cloned().collect();
        let mut state = self.state();
        let same = |known: &Arc<Snapshot>| Arc::ptr_eq(&known.settings, &batch.snapshot.settings);
        let all = !state.snapshot.as_ref().is_some_and(same)
            || objects.iter().any(|key| of_all(key.kind));
        // Of which revision a Gateway is, and which classes there can be, is looked at with each plan.
        let news = all
            || !changed.is_empty()
            || tags::are_named_by(objects, &self.system)
            || objects
                .iter()
                .any(|key| key.kind == Kind::CustomResourceDefinition);
        state.snapshot = Some(batch.snapshot.clone());
        state.all |= all;
        state.changed.extend(changed);
        if state.changed.len() > MOST_CHANGED {
            state.changed.clear();
            state.all = true;
        }
        drop(state);
        if news {
            self.told.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, News> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the controller, which no edit changes.
    fn controller(&self) -> String {
        let snapshot = self.state().snapshot.clone();
        let features = snapshot.map(|snapshot| snapshot.settings.features.clone());
        features.unwrap_or_default().gateway_controller.to_string()
    }

    fn take(&self) -> News {
        let mut state = self.state();
        News {
            snapshot: state.snapshot.clone(),
            changed: std::mem::take(&mut state.changed),
            all: std::mem::take(&mut state.all),
        }
    }
}

/// What is deployed with.
pub struct Parts<'a> {
    /// The flags.
    pub options: &'a ServeOptions,
    /// The place of the configured cluster.
    pub target: &'a Target,
    /// The objects in force.
    pub seen: &'a Arc<Seen>,
    /// Templates and values.
    pub injection: &'a Arc<InjectorSource>,
    /// Counters.
    pub metrics: &'a Arc<Metrics>,
    /// Hears what there is to say.
    pub told: Told,
}

/// Deploys, and creates classes, until `stop`, as far as that is wanted; gives the lock under which that is done.
pub fn start(parts: &Parts<'_>, tasks: &TaskTracker, stop: &CancellationToken) -> Option<Line> {
    let (options, target) = (parts.options, parts.target);
    let wants_classes = options.creates_gateway_classes();
    if !options.deploys_gateways() && !wants_classes {
        return None;
    }
    let (keep, default_revision) = watch::channel("".into());
    let leading = elect(parts, default_revision, tasks, stop);
    let line = Line::new(Lock::Deployments, &leading, parts.metrics, (tasks, stop));
    let classes = watch::Sender::default();
    if wants_classes {
        let listener = reports::of_classes(&line.figures, parts.metrics);
        let wanted = classes.subscribe();
        let writer = ObjectWriter::new(&target.api.place, &leading, wanted, listener);
        tasks.spawn(writer.run(leading.clone(), stop.clone()));
    }
    let reports = Arc::new(Reports::new(parts.told.clone()));
    let sets = watch::Sender::default();
    if options.deploys_gateways() {
        // Without webhooks, nobody reads the templates yet.
        if options.webhooks.address().is_none() {
            tasks.spawn(parts.injection.clone().follow(stop.clone()));
        }
        let touched = Touched::default();
        let manner = Manner {
            controller: parts.seen.controller(),
        };
        let listener = reports::of_sets(&reports, &line.figures, parts.metrics);
        let place = &target.api.place;
        let wanted = sets.subscribe();
        let writer = SetWriter::new(place, &leading, manner, wanted, touched.clone(), listener);
        tasks.spawn(writer.run(leading, stop.clone()));
        if let Some(client) = &target.api.client {
            watching::start(client, &touched, tasks, stop);
        }
    }
    let running = Running {
        seen: parts.seen.clone(),
        injection: parts.injection.clone(),
        api: target.api.clone(),
        in_cluster: target.shared,
        revision: options.revision.clone(),
        place: PlaceOf {
            source: target.source.clone(),
            system: options.namespace.as_str().into(),
            cluster: options.cluster_id.clone(),
            kubernetes: 0,
            copy_metadata: options.deployments.copy_gateway_metadata,
            native_sidecars: variable("ENABLE_NATIVE_SIDECARS") != "false",
        },
        compliance_policy: variable("COMPLIANCE_POLICY"),
        reports,
        sets: options.deploys_gateways().then_some(sets),
        classes: wants_classes.then_some(classes),
        _default_revision: keep,
    };
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(running.run()).await;
    });
    Some(line)
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Takes part in the election of this revision, where there may be other replicas.
fn elect(
    parts: &Parts<'_>,
    default_revision: watch::Receiver<Arc<str>>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Leading {
    let (options, target) = (parts.options, parts.target);
    if !target.shared || !options.writing.leader_election {
        return Leading::always();
    }
    let candidate = Candidate {
        namespace: options.namespace.as_str().into(),
        identity: options.writing.identity(),
        revision: match options.revision.as_str() {
            "" => "default".into(),
            revision => revision.into(),
        },
        duration: options.writing.lease_duration,
        default_revision,
    };
    let (elector, leading) = Elector::new(target.leases.clone(), Lock::Deployments, candidate);
    tasks.spawn(elector.run(stop.clone()));
    leading
}

/// The version of a cluster's API: 136 is 1.36.
async fn version(api: &Api) -> u32 {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse::<u32>().ok()
    };
    let (major, minor) = apiserver::api::KUBERNETES;
    let ours = (major.to_owned(), minor.to_owned());
    let (major, minor) = match &api.client {
        None => ours,
        Some(client) => match client.apiserver_version().await {
            Ok(info) => (info.major, info.minor),
            Err(error) => {
                tracing::warn!(%error, "The version of the cluster's API is not known; Gateways are deployed as for a current one.");
                ours
            }
        },
    };
    number(&major).unwrap_or(1) * 100 + number(&minor).unwrap_or_default()
}

/// Plans, whenever something changes.
struct Running {
    seen: Arc<Seen>,
    injection: Arc<InjectorSource>,
    api: Api,
    in_cluster: bool,
    revision: String,
    place: PlaceOf,
    compliance_policy: String,
    reports: Arc<Reports>,
    sets: Option<watch::Sender<Sets>>,
    classes: Option<watch::Sender<Wanted<classes::Wish>>>,
    /// Each revision has a leader of its own, so none has precedence; who elects waits for this to change.
    _default_revision: watch::Sender<Arc<str>>,
}

/// What the last plan was made of.
#[derive(Default)]
struct Planner {
    plan: Plan,
    tags: Option<Tags>,
    injection: Option<Arc<Injection>>,
}

impl Running {
    async fn run(mut self) {
        // Templates of the program, for who has none of their own.
        let environment = std::env::vars().collect();
        let own = Injection::read(&builtin::config(), builtin::VALUES, environment);
        let own = match own {
            Ok(own) => Arc::new(own),
            Err(error) => {
                tracing::error!(%error, "The templates of the program cannot be read: nothing is deployed for Gateways.");
                return;
            }
        };
        self.place.kubernetes = version(&self.api).await;
        if self.sets.is_some() {
            self.injection.configured(PATIENCE).await;
        }
        let mut configured = self.injection.changes();
        let this = Arc::new(self);
        let mut planner = Planner::default();
        loop {
            let news = this.seen.take();
            let configuration = configured.borrow_and_update().clone();
            if let Some(snapshot) = news.snapshot.clone() {
                let (this, own) = (this.clone(), own.clone());
                let work = move || {
                    this.classes(&snapshot);
                    this.plan(planner, &snapshot, &news, &configuration, own)
                };
                // Hundreds of Gateways take a while, for which connections must not wait.
                planner = match tokio::task::spawn_blocking(work).await {
                    Ok(planner) => planner,
                    Err(_) => {
                        tracing::error!("What is to be deployed for Gateways cannot be planned.");
                        return;
                    }
                };
            }
            tokio::select! {
                () = this.seen.told.notified() => {}
                changed = configured.changed() => if changed.is_err() { return },
            }
        }
    }

    fn classes(&self, snapshot: &Snapshot) {
        if let Some(classes) = &self.classes {
            replace(classes, classes::missing(snapshot, self.in_cluster));
        }
    }

    fn plan(
        &self,
        mut planner: Planner,
        snapshot: &Snapshot,
        news: &News,
        configuration: &Configuration,
        own: Arc<Injection>,
    ) -> Planner {
        let Some(sets) = &self.sets else {
            return planner;
        };
        let injection = match (&configuration.injection, &configuration.fault) {
            (Some(stated), _) => stated.clone(),
            (None, None) => own,
            // What is deployed stays as it is until somebody mends the templates.
            (None, Some(_)) => return planner,
        };
        let tags = Tags::read(snapshot, &self.place.system, &self.revision);
        let same = planner.injection.as_ref();
        let same = same.is_some_and(|known| Arc::ptr_eq(known, &injection))
            && planner.tags.as_ref() == Some(&tags);
        let settings = Settings {
            injection: injection.clone(),
            mesh: snapshot.settings.mesh.clone(),
            revision: self.revision.clone(),
            compliance_policy: self.compliance_policy.clone(),
            openshift: false,
        };
        let world = World {
            snapshot,
            settings: &settings,
            tags: &tags,
            place: &self.place,
        };
        let differs = match same && !news.all {
            true => planner.plan.update(&world, &news.changed),
            false => {
                planner.plan.all(&world);
                true
            }
        };
        if differs {
            let planned = planner.plan.sets();
            self.reports.planned(&planner.plan, &planned);
            replace(sets, planned);
        }
        (planner.tags, planner.injection) = (Some(tags), Some(injection));
        planner
    }
}

fn replace<T: PartialEq>(to: &watch::Sender<T>, value: T) {
    to.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}
