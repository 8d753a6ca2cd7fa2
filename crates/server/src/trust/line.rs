//! The distribution to one cluster.

use std::sync::Arc;

use model::names::ClusterId;
use store::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use writeback::Place;
use writeback::lead::Leading;
use writeback::lease::{Candidate, Elector, Lock};
use writeback::objects::{Event, Listener, ObjectWriter, Wanted};

use super::wanted::{Scope, has_lenient, of_namespaces, of_trust_bundle, of_webhooks};
use super::wish::Wish;
use super::{Bundle, Replica};
use crate::apis::Api;
use crate::metrics::Metrics;
use crate::writing::Target;

/// The writers of a cluster. They end with it.
pub(super) struct Line {
    scope: Scope,
    place: Arc<dyn Place>,
    roots: watch::Sender<Wanted<Wish>>,
    webhooks: watch::Sender<Wanted<Wish>>,
    _stop: DropGuard,
}

impl Line {
    /// Starts them; `own` is the configured cluster's place.
    pub(super) fn start(
        replica: &Replica,
        cluster: &ClusterId,
        api: &Api,
        own: Option<&Target>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        let leading = replica.elect(api, own, tasks, &stop);
        let (roots, of_roots) = watch::channel(Wanted::default());
        let (webhooks, of_webhooks) = watch::channel(Wanted::default());
        let listener = listener(cluster, &replica.metrics);
        // Each revision has webhooks of its own, and every replica would write the same.
        let lines = [(leading, of_roots), (Leading::always(), of_webhooks)];
        for (leading, wanted) in lines {
            let writer = ObjectWriter::new(&api.place, &leading, wanted, listener.clone());
            tasks.spawn(writer.run(leading, stop.clone()));
        }
        let source = own.map(|target| target.source.clone());
        Self {
            scope: Scope {
                cluster: own.is_none().then(|| cluster.clone()),
                source: source
                    .unwrap_or_else(|| crate::remotes::owner(replica.rank, cluster).source),
            },
            place: api.place.clone(),
            roots,
            webhooks,
            _stop: stop.drop_guard(),
        }
    }

    /// Where it writes.
    pub(super) fn place(&self) -> &Arc<dyn Place> {
        &self.place
    }

    /// Tells the writers what is wanted.
    pub(super) fn take(&self, replica: &Replica, snapshot: &Snapshot, bundle: &Bundle) {
        let (options, revision) = (&replica.options, &replica.revision);
        let roots = match (options.distribute_roots, options.cluster_trust_bundles) {
            (false, _) => Wanted::default(),
            (true, true) => of_trust_bundle(bundle),
            (true, false) => of_namespaces(snapshot, &self.scope, bundle, options),
        };
        tell(&self.roots, roots);
        let works = *replica.works.borrow();
        let wanted = of_webhooks(snapshot, &self.scope, revision, bundle, options, works);
        tell(&self.webhooks, wanted);
        if self.scope.cluster.is_none()
            && !options.validation_webhook.is_empty()
            && has_lenient(snapshot, &self.scope, revision)
        {
            // Whoever tries it is told once.
            replica.lenient.send_replace(true);
        }
    }
}

impl Replica {
    /// Takes part in the election of a cluster, where there may be others.
    fn elect(
        &self,
        api: &Api,
        own: Option<&Target>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Leading {
        if !self.writing.leader_election || own.is_some_and(|target| !target.shared) {
            return Leading::always();
        }
        let candidate = Candidate {
            namespace: self.namespace.clone(),
            identity: self.identity.clone(),
            revision: match own {
                Some(_) => self.revision.clone(),
                // Istio: k8sleaderelection.go, 1.32: control planes of the cluster itself go first.
                None => format!("^{}", self.revision).into(),
            },
            duration: self.writing.lease_duration,
            default_revision: self.default_revision.subscribe(),
        };
        let place = own.map_or(&api.place, |target| &target.leases);
        let (elector, leading) = Elector::new(place.clone(), Lock::Roots, candidate);
        tasks.spawn(elector.run(stop.clone()));
        leading
    }
}

fn tell(to: &watch::Sender<Wanted<Wish>>, wanted: Wanted<Wish>) {
    to.send_if_modified(|known| {
        let differs = *known != wanted;
        *known = wanted;
        differs
    });
}

/// Counts and logs what a writer tells.
fn listener(cluster: &ClusterId, metrics: &Arc<Metrics>) -> Listener {
    let (cluster, metrics) = (cluster.clone(), metrics.clone());
    Arc::new(move |event: Event<'_>| {
        let (kind, result) = match &event {
            Event::Written(object) => (&object.kind, "written"),
            Event::Refused(object, ..) => (&object.kind, "refused"),
            Event::Contended(object, _) => (&object.kind, "contended"),
            Event::Failed(object, _) => (&object.kind, "failed"),
        };
        let counter = metrics.root_writes.with_label_values(&[&**kind, result]);
        let first = counter.get() == 0;
        counter.inc();
        match event {
            Event::Written(object) => {
                tracing::debug!(%cluster, %object, "The roots of the mesh were written.");
            }
            // Namespaces that are being deleted refuse as well; one line says that it happens at all.
            Event::Refused(object, error, _) if first => {
                tracing::warn!(%cluster, %object, %error, "The roots of the mesh cannot be written; further refusals are in the log of level debug.");
            }
            Event::Refused(object, error, again) => {
                tracing::debug!(%cluster, %object, %error, ?again, "The roots of the mesh cannot be written.");
            }
            Event::Contended(object, truce) => {
                tracing::warn!(%cluster, %object, seconds = truce.as_secs(), "Somebody else keeps changing the roots of the mesh in it, and is let be.");
            }
            Event::Failed(object, error) => {
                tracing::debug!(%cluster, %object, %error, "The roots of the mesh could not be written; it is tried again.");
            }
        }
    })
}
