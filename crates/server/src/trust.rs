//! The roots of the mesh, where workloads and API servers look for them.
//!
//! Written are a ConfigMap in each namespace of each cluster, or a ClusterTrustBundle in its place, and the `caBundle` of
//! the webhook configurations of this revision. What is wanted is worked out from the objects in force ([`wanted`]), so what
//! is as it should be costs nothing; a writer for each cluster writes the rest.
//!
//! Remote clusters are written to if their system namespace says that this control plane is theirs.
//!
//! Istio: pilot/pkg/serviceregistry/kube/controller/{namespacecontroller,multicluster}.go, pkg/webhooks/webhookpatch.go,
//! pkg/webhooks/validation/controller/controller.go, 1.32.

mod line;
mod options;
mod probe;
pub mod wanted;
pub mod wish;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Kind;
use model::names::ClusterId;
use model::settings::Settings;
use store::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::apis::{All, Apis};
use crate::derive::Batch;
use crate::metrics::Metrics;
use crate::writing::{Target, WriteOptions};
use line::Line;
pub use options::TrustOptions;

/// What is distributed: all roots as one text of PEM, and the lists of what was revoked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bundle {
    /// Empty until there are any.
    pub roots: Arc<str>,
    /// In PEM.
    pub revoked: Option<Arc<str>>,
}

impl Bundle {
    fn of(roots: &ca::Roots) -> Self {
        Self {
            roots: roots.pem().into(),
            revoked: roots.crl.as_deref().map(Into::into),
        }
    }
}

/// Hears of each batch, and keeps the newest snapshot in which something differs that matters here.
pub struct Seen {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(None),
        }
    }
}

impl Seen {
    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let matters = batch.changes.objects.iter().any(|key| {
            matches!(
                key.kind,
                Kind::Namespace | Kind::ConfigMap | Kind::MutatingWebhook | Kind::ValidatingWebhook
            )
        });
        self.newest.send_if_modified(|known| {
            let same = |known: &Arc<Settings>| Arc::ptr_eq(known, &batch.snapshot.settings);
            let told = known.as_ref().is_some_and(|known| same(&known.settings));
            let news = matters || !told;
            if news {
                *known = Some(batch.snapshot.clone());
            }
            news
        });
    }

    fn newest(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.newest.subscribe()
    }
}

/// What is distributed with.
pub struct Parts<'a> {
    /// The flags.
    pub options: &'a TrustOptions,
    /// Those of leases.
    pub writing: &'a WriteOptions,
    /// The namespace of the control plane.
    pub namespace: &'a str,
    /// Its revision.
    pub revision: &'a str,
    /// The rank of the configured cluster.
    pub rank: u8,
    /// The place of the configured cluster.
    pub target: &'a Target,
    /// The APIs of all clusters.
    pub apis: &'a Apis,
    /// The objects in force.
    pub seen: &'a Seen,
    /// What is distributed.
    pub roots: watch::Receiver<Arc<ca::Roots>>,
    /// Counters.
    pub metrics: &'a Arc<Metrics>,
}

/// Distributes until `stop`.
pub fn start(parts: &Parts<'_>, tasks: &TaskTracker, stop: &CancellationToken) {
    let told = parts.apis.told();
    let running = Running {
        replica: Replica {
            options: parts.options.clone(),
            writing: parts.writing.clone(),
            identity: parts.writing.identity(),
            namespace: parts.namespace.into(),
            revision: match parts.revision {
                "" => "default".into(),
                revision => revision.into(),
            },
            rank: parts.rank,
            metrics: parts.metrics.clone(),
            default_revision: watch::Sender::new("".into()),
            lenient: watch::Sender::new(false),
            works: watch::Sender::new(false),
        },
        target: parts.target.clone(),
        configured: parts.apis.configured().clone(),
        lines: BTreeMap::new(),
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    tasks.spawn(running.try_validation());
    tasks.spawn(running.run(told, parts.seen.newest(), parts.roots.clone()));
}

/// What this replica is and does, in every cluster.
struct Replica {
    options: TrustOptions,
    writing: WriteOptions,
    identity: Arc<str>,
    namespace: Arc<str>,
    revision: Arc<str>,
    rank: u8,
    metrics: Arc<Metrics>,
    default_revision: watch::Sender<Arc<str>>,
    /// Whether webhooks validate that let objects pass while nobody answers.
    lenient: watch::Sender<bool>,
    /// Whether a bad object was seen to be refused.
    works: watch::Sender<bool>,
}

/// The distribution to all clusters.
struct Running {
    replica: Replica,
    target: Target,
    configured: ClusterId,
    lines: BTreeMap<ClusterId, Line>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Running {
    /// Sees whether validation works, once there is something to be said for it.
    fn try_validation(&self) -> impl Future<Output = ()> + Send + use<> {
        let (place, stop) = (self.target.api.place.clone(), self.stop.clone());
        let (namespace, revision) = (
            self.replica.namespace.clone(),
            self.replica.revision.clone(),
        );
        let (mut lenient, works) = (self.replica.lenient.subscribe(), self.replica.works.clone());
        async move {
            let trying = async {
                if lenient.wait_for(|lenient| *lenient).await.is_ok() {
                    probe::refused(place, &namespace, &revision).await;
                    works.send_replace(true);
                }
            };
            stop.run_until_cancelled(trying).await;
        }
    }

    async fn run(
        mut self,
        mut apis: watch::Receiver<All>,
        mut seen: watch::Receiver<Option<Arc<Snapshot>>>,
        mut roots: watch::Receiver<Arc<ca::Roots>>,
    ) {
        let stop = self.stop.clone();
        let mut works = self.replica.works.subscribe();
        loop {
            works.mark_unchanged();
            let all = apis.borrow_and_update().clone();
            let snapshot = seen.borrow_and_update().clone();
            let now = Bundle::of(&roots.borrow_and_update());
            if let Some(snapshot) = snapshot.filter(|_| !now.roots.is_empty()) {
                self.take(&all, &snapshot, &now);
            }
            tokio::select! {
                changed = apis.changed() => if changed.is_err() { return },
                changed = seen.changed() => if changed.is_err() { return },
                // Roots that nobody changes any more are still those in force.
                Ok(()) = roots.changed() => {}
                Ok(()) = works.changed() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Tells the writer of each cluster what it is to write.
    fn take(&mut self, all: &All, snapshot: &Snapshot, bundle: &Bundle) {
        let default = crate::writing::wanted::default_revision(snapshot);
        self.replica.default_revision.send_if_modified(|known| {
            let differs = *known != default;
            *known = default;
            differs
        });
        let ours = |cluster: &ClusterId| {
            *cluster == self.configured
                || wanted::is_ours(snapshot, &self.replica.namespace, cluster, &self.configured)
        };
        let stays = |cluster: &ClusterId, line: &Line| {
            let api = all.get(cluster);
            api.is_some_and(|api| Arc::ptr_eq(&api.place, line.place())) && ours(cluster)
        };
        self.lines.retain(|cluster, line| stays(cluster, line));
        for (cluster, api) in &**all {
            if !self.lines.contains_key(cluster) && ours(cluster) {
                let own = (*cluster == self.configured).then_some(&self.target);
                let line = Line::start(&self.replica, cluster, api, own, &self.tasks, &self.stop);
                self.lines.insert(cluster.clone(), line);
            }
        }
        for line in self.lines.values() {
            line.take(&self.replica, snapshot, bundle);
        }
    }
}
