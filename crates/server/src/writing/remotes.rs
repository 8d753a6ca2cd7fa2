//! Writing the status of Ingresses into remote clusters: only where whoever configures the mesh has their Ingresses served
//! and their status written, and only of Ingresses that the cluster itself has told of.
//!
//! Each cluster has writers of its own, and an election by a Lease there: replicas of this control plane, and other ones
//! that serve Ingresses of the cluster, write one after another.
//!
//! Higress: pkg/ingress/kube/ingressv1/status.go, 2.1.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::names::ClusterId;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use writeback::Place;
use writeback::lead::Leading;
use writeback::lease::{Candidate, Elector, Lock};
use writeback::status::StatusWriter;

use super::{Figures, Reports, Told, WriteOptions, listener, shown};
use crate::apis::{All, Api, Apis};
use crate::metrics::Metrics;
use crate::remotes::{Settled, owner};
use crate::statuses::Book;

/// What statuses are written with.
pub struct Parts<'a> {
    /// The flags.
    pub options: &'a WriteOptions,
    /// The namespace of the control plane, in which the Lease is, in each cluster.
    pub namespace: &'a str,
    /// Its revision.
    pub revision: &'a str,
    /// The rank of the configured cluster.
    pub rank: u8,
    /// The APIs of all clusters.
    pub apis: &'a Apis,
    /// The clusters that there are.
    pub clusters: watch::Receiver<Settled>,
    /// The statuses.
    pub book: &'a Arc<Book>,
    /// Counters.
    pub metrics: &'a Arc<Metrics>,
    /// Where findings go.
    pub told: Told,
}

/// The writers, by cluster. Clones share them.
#[derive(Clone, Default)]
pub struct Remotes(Arc<Mutex<BTreeMap<ClusterId, Line>>>);

/// The writers of a cluster. They end with it.
struct Line {
    place: Arc<dyn Place>,
    leading: Leading,
    figures: Arc<Mutex<Figures>>,
    _stop: DropGuard,
}

impl Remotes {
    /// What is written where, as a page shows it to the replica of that name.
    pub(super) fn shown(&self, identity: &str) -> Value {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = lines.iter().map(|(cluster, line)| {
            let mut shown = shown(Lock::RemoteIngress, &line.leading, &line.figures, identity);
            shown["cluster"] = cluster.as_str().into();
            shown["place"] = line.place.name().into();
            shown
        });
        lines.collect()
    }
}

/// Writes until `stop`.
pub fn start(parts: Parts<'_>, tasks: &TaskTracker, stop: &CancellationToken) -> Remotes {
    let lines = Remotes::default();
    let running = Running {
        options: parts.options.clone(),
        namespace: parts.namespace.into(),
        revision: match parts.revision {
            "" => "default",
            revision => revision,
        }
        .into(),
        rank: parts.rank,
        configured: parts.apis.configured().clone(),
        book: parts.book.clone(),
        metrics: parts.metrics.clone(),
        reports: Arc::new(Reports::new(parts.told)),
        lines: lines.clone(),
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    tasks.spawn(running.run(parts.apis.told(), parts.clusters));
    lines
}

struct Running {
    options: WriteOptions,
    namespace: Arc<str>,
    revision: Arc<str>,
    rank: u8,
    configured: ClusterId,
    book: Arc<Book>,
    metrics: Arc<Metrics>,
    reports: Arc<Reports>,
    lines: Remotes,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Running {
    async fn run(self, mut apis: watch::Receiver<All>, mut clusters: watch::Receiver<Settled>) {
        loop {
            let all = apis.borrow_and_update().clone();
            let settled = clusters.borrow_and_update().clone();
            self.take(&all, &settled);
            tokio::select! {
                changed = apis.changed() => if changed.is_err() { return },
                changed = clusters.changed() => if changed.is_err() { return },
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Starts and ends the writers of clusters.
    fn take(&self, all: &All, settled: &Settled) {
        let written = |cluster: &ClusterId| {
            let said = settled.ingresses.get(cluster);
            *cluster != self.configured && said.is_some_and(|said| said.writes_status)
        };
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|cluster, line| {
            let api = all.get(cluster);
            let same = api.is_some_and(|api| Arc::ptr_eq(&api.place, &line.place));
            let stays = same && written(cluster);
            if !stays {
                self.book.end_remote(cluster);
                self.reports.forget(cluster);
            }
            stays
        });
        for (cluster, api) in &**all {
            if !lines.contains_key(cluster) && written(cluster) {
                lines.insert(cluster.clone(), self.line(cluster, api));
            }
        }
    }

    fn line(&self, cluster: &ClusterId, api: &Api) -> Line {
        let stop = self.stop.child_token();
        let leading = self.elect(api, &stop);
        let figures: Arc<Mutex<Figures>> = Arc::default();
        let heard = listener(Lock::RemoteIngress, &figures, &self.reports, &self.metrics);
        let wanted = self.book.write_to_remote(&owner(self.rank, cluster));
        let pace = self.options.pace();
        let writer = StatusWriter::new(&api.place, &leading, wanted, pace, heard);
        self.tasks.spawn(writer.run(stop.clone()));
        Line {
            place: api.place.clone(),
            leading,
            figures,
            _stop: stop.drop_guard(),
        }
    }

    fn elect(&self, api: &Api, stop: &CancellationToken) -> Leading {
        if !self.options.leader_election {
            return Leading::always();
        }
        let candidate = Candidate {
            namespace: self.namespace.clone(),
            identity: self.options.identity(),
            revision: self.revision.clone(),
            duration: self.options.lease_duration,
            // Which revision is the default there says nothing of control planes elsewhere.
            default_revision: watch::Sender::new("".into()).subscribe(),
        };
        let (elector, leading) = Elector::new(api.place.clone(), Lock::RemoteIngress, candidate);
        self.tasks.spawn(elector.run(stop.clone()));
        leading
    }
}
