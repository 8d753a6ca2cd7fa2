//! Adds, changes and removes remote clusters as the holders of their kubeconfigs say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::config::Kubeconfig;
use model::edge::{RemoteIngress, RemoteIngresses};
use model::names::ClusterId;
use model::{Change, Diagnostic, Kind, Severity};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::code;
use super::kubeconfig;
use super::options::RemoteOptions;
use super::plan::{Holders, Plan, Wanted, plan};
use super::source::{Remote, owner};
use super::trial::{Tried, try_until_good};
use crate::derive::Derive;
use crate::metrics::Metrics;
use crate::supervisor::Supervisor;

/// Takes all findings about remote clusters, which replace the former ones.
pub type OnFindings = Box<dyn Fn(Vec<Diagnostic>) + Send + Sync>;

/// What remote clusters are managed with.
pub struct Manager {
    /// The sources.
    pub supervisor: Supervisor,
    /// The objects in force.
    pub derive: Derive,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where findings go.
    pub on_findings: OnFindings,
    /// The cluster that configures the mesh.
    pub configured: ClusterId,
    /// The rank of that cluster.
    pub rank: u8,
    /// The flags.
    pub options: RemoteOptions,
    /// How each cluster is read, with the kinds that are read on request.
    pub reading: kubernetes::source::Options,
}

/// How far the manager is.
#[derive(Clone)]
pub struct Settled {
    /// The holders that it has acted upon.
    pub seen: Holders,
    /// The holder of each cluster that there is.
    pub holders: Arc<BTreeMap<ClusterId, Arc<str>>>,
    /// The credentials that each of them is read with.
    pub kubeconfigs: Kubeconfigs,
    /// Which Ingresses of them are served.
    pub ingresses: Arc<RemoteIngresses>,
}

/// Credentials by cluster.
pub type Kubeconfigs = Arc<BTreeMap<ClusterId, Arc<Kubeconfig>>>;

impl Default for Settled {
    fn default() -> Self {
        Self {
            seen: Arc::from([]),
            holders: Arc::default(),
            kubeconfigs: Arc::default(),
            ingresses: Arc::default(),
        }
    }
}

/// A cluster that there is.
struct Known {
    holder: Arc<str>,
    /// What was last told, used or not.
    kubeconfig: Arc<[u8]>,
    /// What it is read with.
    used: Arc<Kubeconfig>,
    /// Which of its Ingresses are served.
    ingresses: Option<RemoteIngress>,
    /// Ends with the cluster.
    life: CancellationToken,
    /// Ends with the trial of new credentials.
    trial: CancellationToken,
}

/// What is wrong with a kubeconfig.
struct Fault {
    kubeconfig: Arc<[u8]>,
    finding: Diagnostic,
}

/// What others have done for the manager.
enum Event {
    Tried(Tried),
    Removed(ClusterId),
}

/// A manager at work.
struct Managing {
    manager: Manager,
    known: BTreeMap<ClusterId, Known>,
    faults: BTreeMap<ClusterId, Fault>,
    /// What is left out.
    found: Vec<Diagnostic>,
    /// What the clusters that there are are read with.
    kubeconfigs: Kubeconfigs,
    /// Which Ingresses of them are served, as the derive thread knows it.
    ingresses: Arc<RemoteIngresses>,
    /// Clusters that are being removed, with what they are to be added with again behind that.
    leaving: BTreeMap<ClusterId, Option<Wanted>>,
    events: mpsc::UnboundedSender<Event>,
}

impl Manager {
    /// Acts upon what is told until `stop`.
    pub async fn run(
        self,
        mut told: watch::Receiver<Holders>,
        settled: watch::Sender<Settled>,
        stop: CancellationToken,
    ) {
        let (events, mut happened) = mpsc::unbounded_channel();
        let mut managing = Managing {
            manager: self,
            known: BTreeMap::new(),
            faults: BTreeMap::new(),
            found: Vec::new(),
            kubeconfigs: Arc::default(),
            ingresses: Arc::default(),
            leaving: BTreeMap::new(),
            events,
        };
        loop {
            let seen = told.borrow_and_update().clone();
            if !Arc::ptr_eq(&seen, &settled.borrow().seen) {
                managing.reconcile(&seen);
            }
            managing.tell_ingresses().await;
            settled.send_replace(Settled {
                seen,
                holders: managing.holders(),
                kubeconfigs: managing.kubeconfigs(),
                ingresses: managing.ingresses.clone(),
            });
            tokio::select! {
                changed = told.changed() => if changed.is_err() { return },
                Some(event) = happened.recv() => managing.take(event),
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Resolves when what was told is acted upon: the clusters that there are to be are among the sources.
pub async fn settled(mut settled: watch::Receiver<Settled>, mut told: watch::Receiver<Holders>) {
    while !Arc::ptr_eq(&settled.borrow_and_update().seen, &told.borrow_and_update()) {
        tokio::select! {
            Ok(()) = settled.changed() => {}
            Ok(()) = told.changed() => {}
            else => return,
        }
    }
}

impl Managing {
    fn holders(&self) -> Arc<BTreeMap<ClusterId, Arc<str>>> {
        let known = self.known.iter();
        Arc::new(
            known
                .map(|(id, k)| (id.clone(), k.holder.clone()))
                .collect(),
        )
    }

    /// As they were before unless there are others.
    fn kubeconfigs(&mut self) -> Kubeconfigs {
        let known = self.known.iter();
        let now: BTreeMap<_, _> = known.map(|(id, k)| (id.clone(), k.used.clone())).collect();
        let same = now.len() == self.kubeconfigs.len()
            && now.iter().all(|(id, used)| {
                let before = self.kubeconfigs.get(id);
                before.is_some_and(|before| Arc::ptr_eq(before, used))
            });
        if !same {
            self.kubeconfigs = Arc::new(now);
        }
        self.kubeconfigs.clone()
    }

    /// Says which Ingresses are served, where that is something else.
    async fn tell_ingresses(&mut self) {
        let known = self.known.iter();
        let now: RemoteIngresses = known
            .filter_map(|(id, known)| Some((id.clone(), known.ingresses.clone()?)))
            .collect();
        if now != *self.ingresses {
            self.ingresses = Arc::new(now);
            let change = vec![Change::RemoteIngresses(self.ingresses.clone())];
            // The process is going down if this fails.
            let _ = self.manager.derive.change(change, Instant::now()).await;
        }
    }

    fn reconcile(&mut self, holders: &Holders) {
        let known = self.known.keys().cloned().collect();
        let limit = self.manager.options.limit;
        let Plan { clusters, found } = plan(holders, &self.manager.configured, &known, limit);
        self.found = found;
        self.faults.retain(|id, _| clusters.contains_key(id));
        for id in known {
            if !clusters.contains_key(&id) {
                self.remove(id);
            }
        }
        self.leaving.values_mut().for_each(|again| *again = None);
        for (id, wanted) in clusters {
            match self.leaving.get_mut(&id) {
                Some(again) => *again = Some(wanted),
                None => self.settle(id, wanted),
            }
        }
        self.tell();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Tried(tried) => self.tried(tried),
            Event::Removed(id) => {
                if let Some(wanted) = self.leaving.remove(&id).flatten() {
                    self.settle(id, wanted);
                }
            }
        }
        self.tell();
    }

    /// Adds a cluster, or changes one whose kubeconfig is another or of which other kinds are to be read.
    fn settle(&mut self, id: ClusterId, wanted: Wanted) {
        let said = wanted.holder.ingresses.served.as_ref();
        let ingresses = self.manager.options.ingresses(&id, said);
        let known = self.known.get_mut(&id);
        let fault = self.faults.get(&id);
        let before = known.as_ref().map(|k| &k.kubeconfig);
        let same = before.or(fault.map(|f| &f.kubeconfig)) == Some(&wanted.kubeconfig);
        let reads_the_same = known
            .as_ref()
            .is_none_or(|k| k.ingresses.is_some() == ingresses.is_some());
        let is_known = known.is_some();
        if let Some(known) = known {
            known.ingresses.clone_from(&ingresses);
            if same && reads_the_same {
                known.holder = wanted.holder.name;
                return;
            }
        } else if same {
            return;
        }
        self.count(if is_known { "update" } else { "add" });
        self.faults.remove(&id);
        match kubeconfig::read(&wanted.kubeconfig, &self.manager.options.allowed) {
            Ok(read) if is_known => self.change(&id, &wanted, read),
            Ok(read) => self.add(&id, &wanted, read, ingresses),
            Err(refused) => {
                let consequence = if is_known {
                    "read as before"
                } else {
                    "not read"
                };
                let message = format!("cannot be used: {refused}; cluster {id} is {consequence}");
                self.fault(&id, &wanted, message);
            }
        }
        if let Some(known) = self.known.get_mut(&id) {
            known.holder = wanted.holder.name;
            known.kubeconfig = wanted.kubeconfig;
        }
    }

    fn add(
        &mut self,
        id: &ClusterId,
        wanted: &Wanted,
        read: Kubeconfig,
        ingresses: Option<RemoteIngress>,
    ) {
        let timeout = self.manager.options.timeout;
        let patience = (!timeout.is_zero()).then_some(timeout);
        let remote = self.remote(id, read, ingresses.is_some());
        let used = remote.kubeconfig.clone();
        let added = self.manager.supervisor.add_patient(remote.make(), patience);
        if let Err(error) = added {
            self.fault(id, wanted, format!("cluster {id} is not read: {error}"));
            return;
        }
        tracing::info!(cluster = %id, holder = &*wanted.holder.name, "A remote cluster is read.");
        let life = CancellationToken::new();
        if let Some(patience) = patience {
            self.watch_start(id, patience, life.clone());
        }
        let known = Known {
            holder: wanted.holder.name.clone(),
            kubeconfig: wanted.kubeconfig.clone(),
            used,
            ingresses,
            trial: life.child_token(),
            life,
        };
        self.known.insert(id.clone(), known);
    }

    /// Puts new credentials in the place of those of a cluster once they are found good.
    fn change(&mut self, id: &ClusterId, wanted: &Wanted, read: Kubeconfig) {
        let known = self.known.get(id);
        let reads_ingresses = known.is_some_and(|known| known.ingresses.is_some());
        let remote = self.remote(id, read, reads_ingresses);
        let Some(known) = self.known.get_mut(id) else {
            return;
        };
        known.trial.cancel();
        known.trial = known.life.child_token();
        let stop = known.trial.clone();
        let (events, wanted) = (self.events.clone(), wanted.clone());
        let (supervisor, derive) = (self.manager.supervisor.clone(), self.manager.derive.clone());
        tokio::spawn(async move {
            let told = |tried| {
                // The process is going down if this fails.
                let _ = events.send(Event::Tried(tried));
            };
            let trying = try_until_good(remote, wanted, supervisor, derive, told);
            tokio::select! {
                () = trying => {}
                () = stop.cancelled() => {}
            }
        });
    }

    fn tried(&mut self, tried: Tried) {
        let Tried {
            cluster,
            wanted,
            kubeconfig,
            outcome,
        } = tried;
        let known = self.known.get_mut(&cluster);
        let Some(known) = known.filter(|known| known.kubeconfig == wanted.kubeconfig) else {
            return;
        };
        match outcome {
            Ok(()) => {
                known.used = kubeconfig;
                self.faults.remove(&cluster);
                tracing::info!(%cluster, "A remote cluster is read with new credentials.");
            }
            Err(why) => {
                let message = format!(
                    "the new credentials do not work, and the former ones stay in use: {why}"
                );
                self.fault(&cluster, &wanted, message);
            }
        }
    }

    /// Removes a cluster with all that is known of it.
    fn remove(&mut self, id: ClusterId) {
        let Some(known) = self.known.remove(&id) else {
            return;
        };
        known.life.cancel();
        self.count("delete");
        tracing::info!(cluster = %id, holder = &*known.holder, "A remote cluster is read no more.");
        self.leaving.insert(id.clone(), None);
        let (supervisor, events) = (self.manager.supervisor.clone(), self.events.clone());
        let owner = owner(self.manager.rank, &id);
        tokio::spawn(async move {
            supervisor.remove(&owner).await;
            // The process is going down if this fails.
            let _ = events.send(Event::Removed(id));
        });
    }

    /// Says so when a cluster takes longer than the start waits for it.
    fn watch_start(&self, id: &ClusterId, patience: Duration, life: CancellationToken) {
        let (supervisor, metrics) = (
            self.manager.supervisor.clone(),
            self.manager.metrics.clone(),
        );
        let (id, owner) = (id.clone(), owner(self.manager.rank, id));
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(patience) => {}
                () = life.cancelled() => return,
            }
            let status = supervisor.source(&owner);
            if let Some(status) = status.filter(|status| !status.was_in_sync) {
                let seconds = patience.as_secs_f64();
                metrics
                    .remotes
                    .timeouts
                    .with_label_values(&[id.as_str()])
                    .inc();
                tracing::error!(cluster = %id, seconds, state = status.words(), "A remote cluster could not be read in time; nothing waits for it any more.");
            }
        });
    }

    fn remote(&self, id: &ClusterId, read: Kubeconfig, reads_ingresses: bool) -> Remote {
        let all = self.manager.reading.kinds.iter().copied();
        let is_read = |kind: &Kind| reads_ingresses || !kind.is_read_remotely_on_request();
        let (kinds, withheld): (Vec<Kind>, Vec<Kind>) = all.partition(is_read);
        Remote {
            owner: owner(self.manager.rank, id),
            cluster: id.clone(),
            kubeconfig: Arc::new(read),
            options: kubernetes::source::Options {
                kinds: kinds.into(),
                ..self.manager.reading.clone()
            },
            withheld: withheld.into(),
        }
    }

    fn fault(&mut self, id: &ClusterId, wanted: &Wanted, message: String) {
        let path = wanted.holder.path(id.as_str());
        let (severity, code) = (Severity::Error, code::REMOTE_REFUSED);
        let fault = Fault {
            kubeconfig: wanted.kubeconfig.clone(),
            finding: wanted.holder.finding(severity, code, &path, message),
        };
        self.faults.insert(id.clone(), fault);
    }

    fn count(&self, event: &str) {
        let events = &self.manager.metrics.remotes.events;
        events.with_label_values(&[event]).inc();
    }

    fn tell(&self) {
        let faults = self.faults.values().map(|fault| &fault.finding);
        let all = self.found.iter().chain(faults).cloned();
        (self.manager.on_findings)(all.collect());
        let count = i64::try_from(self.known.len()).unwrap_or(i64::MAX);
        let clusters = &self.manager.metrics.remotes.clusters;
        clusters.with_label_values(&["remote"]).set(count);
    }
}
