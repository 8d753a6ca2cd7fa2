//! Workloads that register themselves: between streams, the configuration in force, and the task that writes entries.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ads::{Code, Status};
use clap::{ArgAction, Args};
use futures::FutureExt;
use model::kinds::istio::{WorkloadEntry, WorkloadGroup};
use model::node::Node;
use model::object::{ObjectKey, ObjectName};
use model::{Change, Kind, Owner};
use registration::{
    CONTROLLER, Claim, Fault, Group, Instance, MemoryPlace, Note, Options, Presence, Refusal,
    Registrar, Seat, Seen, Setup, Taken, View,
};
use store::Snapshot;
use store::snapshot::Stored;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::Place;

use crate::config::{ServeOptions, duration};
use crate::derive::{Batch, Derive};
use crate::metrics::Metrics;
use crate::quiet::{Quiet, shown};

/// How long a stream waits for its entry to be in force; then it is served without, and corrected.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most writes at once.
const WRITES: usize = 32;

/// A replica of a shared API whose Lease was not renewed for so long is gone.
const PRESENCE: Duration = Duration::from_secs(15);

/// Precedence of entries in memory: everything else wins over them.
const MEMORY_RANK: u8 = 250;

/// Lines that clients can cause, each kind by itself.
static DONE: Quiet = Quiet::new();
static REFUSED: Quiet = Quiet::new();
static FAILED: Quiet = Quiet::new();

/// Flags of workloads that register themselves.
#[derive(Args, Clone, Debug)]
pub struct RegistrationOptions {
    /// Register a WorkloadEntry for each proxy whose node metadata names a WorkloadGroup (AUTO_REGISTER_GROUP).
    #[arg(
        long,
        env = "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub register_workloads: bool,

    /// Register and update WorkloadEntries only for proxies with a verified identity of the same namespace and service
    /// account. With `false`, anyone who reaches the xDS port can become an endpoint of any WorkloadGroup.
    #[arg(
        long,
        env = "ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY",
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub validate_workload_identity: bool,

    /// How long a registered workload may be disconnected from every replica before its WorkloadEntry is deleted.
    #[arg(long, env = "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub workload_grace_period: Duration,

    /// Most WorkloadEntries that this replica looks after; an eighth of them for workloads behind one address.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_WORKLOAD_ENTRIES",
        value_name = "N",
        default_value_t = 20_000
    )]
    pub max_workload_entries: usize,
}

/// The configuration in force.
struct InForce {
    snapshot: Arc<Snapshot>,
    complete: bool,
    place_rank: u8,
}

impl InForce {
    /// Whether an object is one of those that entries are written beside.
    fn is_of_place(&self, key: &ObjectKey) -> bool {
        let owner = self.snapshot.tables.owner_of(key);
        owner.is_some_and(|o| o.source.rank == self.place_rank && o.cluster.is_none())
    }
}

impl View for InForce {
    fn is_complete(&self) -> bool {
        self.complete
    }

    fn group(&self, name: &ObjectName) -> Option<Group> {
        let object = WorkloadGroup::table(&self.snapshot.tables).get(name)?;
        Some(Group {
            object: object.clone(),
            owns: self.is_of_place(&object.key()),
        })
    }

    fn entry(&self, name: &ObjectName) -> Option<Seen> {
        let object = WorkloadEntry::table(&self.snapshot.tables).get(name)?;
        Some(Seen::of(object))
    }

    fn registered(&self) -> Vec<(ObjectName, Seen)> {
        let all = WorkloadEntry::table(&self.snapshot.tables).iter();
        all.filter(|e| e.meta.annotations.contains(CONTROLLER) && self.is_of_place(&e.key()))
            .map(|e| (e.meta.name.clone(), Seen::of(e)))
            .collect()
    }
}

/// Where entries are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The rank of the source that reads the same API.
    pub rank: u8,
    /// Whether other replicas write there as well.
    pub shared: bool,
}

impl Home {
    /// Where there is no API to write to.
    pub const MEMORY: Self = Self {
        rank: MEMORY_RANK,
        shared: false,
    };
}

/// Workloads that register themselves. Clones share it.
#[derive(Clone)]
pub struct Registration(Arc<Inner>);

struct Inner {
    registrar: Registrar,
    taken: Taken,
    place_rank: u8,
    newest: Mutex<Arc<Snapshot>>,
    complete: AtomicBool,
    place: Mutex<Option<oneshot::Sender<Arc<dyn Place>>>>,
}

impl Registration {
    /// Starts the task. Nothing is written before [`Registration::write_to`].
    pub fn start(
        options: &ServeOptions,
        home: Home,
        snapshot: Arc<Snapshot>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let own = &options.registration;
        let health = snapshot.settings.features.workload_entry_health_checks;
        let instance = Instance::on(&options.writing.host());
        let (found, place) = oneshot::channel();
        let place = place.map(Result::ok).boxed().shared();
        let (namespace, name) = (options.namespace.as_str(), instance.as_str().clone());
        let presence = Presence::new(place.clone(), namespace, instance, PRESENCE, home.shared);
        let most = own.max_workload_entries;
        let setup = Setup {
            options: Options {
                instance: name,
                validate_identity: own.validate_workload_identity,
                health,
                grace: own.workload_grace_period,
                most_entries: most,
                most_entries_of_peer: most.div_ceil(8),
                most_writes: WRITES,
            },
            place,
            presence,
            view: Arc::new(InForce {
                snapshot: snapshot.clone(),
                complete: false,
                place_rank: home.rank,
            }),
            told: told(metrics.clone()),
        };
        let (registrar, task) = Registrar::start(setup, stop.clone());
        tasks.spawn(async move {
            if task.await.is_err() {
                tracing::error!("The task that registers workloads has ended.");
            }
        });
        let taken = Taken {
            registers: own.register_workloads,
            health,
        };
        Self(Arc::new(Inner {
            registrar,
            taken,
            place_rank: home.rank,
            newest: Mutex::new(snapshot),
            complete: AtomicBool::new(false),
            place: Mutex::new(Some(found)),
        }))
    }

    /// Entries are written there, else kept in memory as a part of the configuration.
    pub fn write_to(&self, place: Option<Arc<dyn Place>>, derive: &Derive) {
        let place = place.unwrap_or_else(|| in_memory(derive.clone()));
        let mut sender = self.0.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.take() {
            // The process is going down if this fails.
            let _ = sender.send(place);
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let mut newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = batch.snapshot.clone();
        drop(newest);
        self.tell(batch.changes.objects.iter().cloned());
    }

    /// Every source has been read.
    pub fn complete(&self) {
        self.0.complete.store(true, Ordering::Release);
        self.tell(std::iter::empty());
    }

    fn tell(&self, changed: impl Iterator<Item = ObjectKey>) {
        let newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let view = InForce {
            snapshot: newest.clone(),
            complete: self.0.complete.load(Ordering::Acquire),
            place_rank: self.0.place_rank,
        };
        drop(newest);
        self.0.registrar.saw(Arc::new(view), changed);
    }

    /// A proxy connects. Its workload has the entry that it asks for as long as it keeps what this returns; nothing if it
    /// asks for none.
    ///
    /// # Errors
    ///
    /// How its stream ends, when it asks for what it cannot have.
    pub async fn join(&self, node: &Node, peer: IpAddr) -> Result<Option<Seat>, Status> {
        let claim = Claim::of(node, peer, self.0.taken).map_err(|refusal| status(&refusal))?;
        let Some(claim) = claim else {
            return Ok(None);
        };
        let seat = self.0.registrar.connect(claim, PATIENCE).await;
        seat.map(Some).map_err(|refusal| status(&refusal))
    }
}

fn status(refusal: &Refusal) -> Status {
    let code = match refusal.fault() {
        Fault::Stated => Code::InvalidArgument,
        Fault::Configuration => Code::FailedPrecondition,
        Fault::Permission => Code::PermissionDenied,
        Fault::Room => Code::ResourceExhausted,
        Fault::Closed => Code::Unavailable,
    };
    Status::new(code, refusal.to_string())
}

/// The place where there is no API to write to: entries become part of the configuration of this process.
fn in_memory(derive: Derive) -> Arc<dyn Place> {
    let owner = Owner::new(MEMORY_RANK, "registration");
    let tell = move |changes: Vec<Change>| {
        let derive = derive.clone();
        async move {
            // The process is going down if this fails.
            let _ = derive.change(changes, Instant::now()).await;
        }
        .boxed()
    };
    Arc::new(MemoryPlace::new(owner, Box::new(tell)))
}

/// Counts and logs what happens.
fn told(metrics: Arc<Metrics>) -> Box<dyn Fn(Note) + Send> {
    Box::new(move |note| {
        let (counter, quiet) = match &note {
            Note::Registered(_) => (&metrics.registration.registered, &DONE),
            Note::Updated(_) => (&metrics.registration.updated, &DONE),
            Note::Unregistered(_) => (&metrics.registration.unregistered, &DONE),
            Note::CleanedUp(_) => (&metrics.registration.deleted, &DONE),
            Note::Refused { .. } => (&metrics.registration.failed, &REFUSED),
            Note::Failed { .. } => (&metrics.registration.failed, &FAILED),
        };
        counter.inc();
        // The end of the stream has a line of its own.
        if matches!(note, Note::Refused { told: true, .. }) {
            return;
        }
        let Some(left_out) = quiet.take(Instant::now()) else {
            metrics.quieted.inc();
            return;
        };
        let kind = Kind::WorkloadEntry.name();
        match note {
            Note::Registered(entry) => {
                tracing::info!(%entry, left_out = shown(left_out), "A workload was registered: its {kind} is made.");
            }
            Note::Updated(entry) => {
                tracing::info!(%entry, left_out = shown(left_out), "A registered workload is connected to this replica.");
            }
            Note::Unregistered(entry) => {
                tracing::info!(%entry, left_out = shown(left_out), "A registered workload has disconnected.");
            }
            Note::CleanedUp(entry) => {
                tracing::info!(%entry, left_out = shown(left_out), "A registered workload did not come back: its {kind} is deleted.");
            }
            Note::Refused { entry, refusal, .. } => {
                tracing::warn!(%entry, left_out = shown(left_out), "A connected workload is not registered: {refusal}.");
            }
            Note::Failed { entry, reason } => {
                tracing::warn!(%entry, left_out = shown(left_out), "A {kind} could not be written, and will be tried again: {reason}.");
            }
        }
    })
}
