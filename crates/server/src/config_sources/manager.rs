//! Adds, changes and removes sources as flags and the mesh config say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_client::cache::Cache;
use mcp_client::{Asker, Limits, Memory, NO_ADDRESS, Options, PeerSource, Reader, Topic};
use model::{Diagnostic, Owner};
use proto_istio::mesh::ConfigSource;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::options::Protocol;
use super::peers::Meshes;
use super::plan::{Place, Plan, Wanted, plan};
use super::{folder, named};
use crate::config::{ServeOptions, ValidationMode};
use crate::settings::{ConfigMaps, Settled};
use crate::supervisor::{Make, Supervisor};
use crate::warm;

/// How often it is looked whether new sources are in sync.
const LOOK: Duration = Duration::from_millis(50);
/// The name of a replica that has none.
const NAMELESS: &str = "pilothouse";
/// Where is kept what control planes said last, in the folder of the state.
const IN_STATE: &str = "sources";

/// Takes all findings about sources, which replace the former ones.
pub type OnFindings = Box<dyn Fn(Vec<Diagnostic>) + Send + Sync>;

/// The sources of a mesh config that were acted upon; `None` before the first.
pub type Acted = Option<Vec<ConfigSource>>;

/// What sources are managed with.
pub struct Manager {
    supervisor: Supervisor,
    on_findings: OnFindings,
    options: ServeOptions,
    /// Whether proxies are served from disk until the sources have been read.
    warm: bool,
    topics: Arc<[Topic]>,
    meshes: Meshes,
}

/// A source that is read.
struct Known {
    wanted: Wanted,
    /// What is known of a control plane.
    memory: Memory,
}

/// A source that is named no more. It is removed once those that were named in its place have told what they have.
struct Leaving {
    known: Known,
    /// Whom it waits for.
    successors: Vec<Owner>,
    /// When it waits no longer.
    deadline: Option<Instant>,
}

impl Manager {
    /// Of the sources of a supervisor; what control planes say of the mesh goes to where settings are made from.
    pub fn new(
        options: &ServeOptions,
        warm: bool,
        supervisor: &Supervisor,
        config_maps: Arc<ConfigMaps>,
        on_findings: OnFindings,
    ) -> Self {
        Self {
            supervisor: supervisor.clone(),
            on_findings,
            options: options.clone(),
            warm,
            topics: Options::topics(&options.config_sources.kinds()),
            meshes: Meshes::new(config_maps),
        }
    }

    /// Acts upon the settings until `stop`.
    pub async fn run(
        self,
        mut settled: watch::Receiver<Settled>,
        acted: watch::Sender<Acted>,
        stop: CancellationToken,
    ) {
        let (mut known, mut leaving) = (BTreeMap::new(), Vec::new());
        loop {
            let sources = named(&settled.borrow_and_update());
            if acted.borrow().as_ref() != Some(&sources) {
                let plan = plan(&self.options, &sources);
                self.reconcile(&mut known, &mut leaving, plan);
                acted.send_replace(Some(sources));
            }
            tokio::select! {
                n = self.due(&leaving) => {
                    let gone = leaving.remove(n).known.wanted.owner;
                    // Whole, or not at all.
                    tokio::select! {
                        () = self.remove(&gone) => {}
                        () = stop.cancelled() => return,
                    }
                }
                changed = settled.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

    /// Adds and changes sources, and notes which are to leave.
    fn reconcile(
        &self,
        known: &mut BTreeMap<Place, Known>,
        leaving: &mut Vec<Leaving>,
        plan: Plan,
    ) {
        (self.on_findings)(plan.found);
        let gone = known.extract_if(.., |place, _| !plan.wanted.contains_key(place));
        let mut gone: Vec<Known> = gone.map(|(_, known)| known).collect();
        let mut added = Vec::new();
        for (place, wanted) in plan.wanted {
            let before = known.get(&place);
            if before.is_some_and(|before| before.wanted == wanted) {
                continue;
            }
            let owner = wanted.owner.clone();
            let is_same = |known: &Known| known.wanted.owner == owner;
            // What it has said is known as long as it is the same owner who tells it, also one that was about to leave.
            let same_owner = match before.is_some_and(is_same) {
                true => known.remove(&place),
                false => take(leaving, &owner),
            };
            let memory = same_owner.map(|before| before.memory);
            let is_replaced = memory.is_some();
            let memory = memory.unwrap_or_default();
            let make = self.make(&place, &wanted, &memory);
            if is_replaced {
                self.supervisor.replace(make);
                tracing::info!(source = %owner, "A source is read as its new entry says.");
            } else if self.add(&place, make) {
                added.push(owner);
            } else {
                continue;
            }
            gone.extend(known.insert(place, Known { wanted, memory }));
        }
        let patience = self.options.config_sources.config_source_start_timeout;
        let deadline = patience.map(|patience| Instant::now() + patience);
        leaving.extend(gone.into_iter().map(|known| Leaving {
            known,
            successors: added.clone(),
            deadline,
        }));
    }

    fn add(&self, place: &Place, make: Make) -> bool {
        // A folder is there or not; others may not answer.
        let patience = match place {
            Place::Peer(_) => self.options.config_sources.config_source_start_timeout,
            Place::Folder(_) => None,
        };
        match self.supervisor.add_patient(make, patience) {
            Ok(()) => {
                tracing::info!(?place, "A source is read.");
                true
            }
            Err(error) => {
                // Owners are told apart by rank and address.
                tracing::error!(?place, %error, "A source is not read.");
                false
            }
        }
    }

    /// Resolves to a source that is to be removed: those that take its place have told what they have, or do not in a time
    /// that is stated. Never where there is none.
    async fn due(&self, leaving: &[Leaving]) -> usize {
        let is_late = |owner: &Owner| {
            let status = self.supervisor.source(owner);
            status.is_some_and(|status| !status.was_in_sync)
        };
        if leaving.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let now = Instant::now();
            let due = leaving.iter().position(|leaving| {
                let is_due = leaving.deadline.is_some_and(|deadline| deadline <= now);
                is_due || !leaving.successors.iter().any(is_late)
            });
            match due {
                Some(n) => return n,
                // Those that are late are shown where sources are.
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn remove(&self, owner: &Owner) {
        self.meshes.forget(owner);
        tracing::info!(source = %owner, "A source is read no more.");
        self.supervisor.remove(owner).await;
    }

    fn make(&self, place: &Place, wanted: &Wanted, memory: &Memory) -> Make {
        match place {
            Place::Peer(authority) => {
                let (options, memory) = (Arc::new(self.peer(authority, wanted)), memory.clone());
                Box::new(move |_| {
                    Box::new(PeerSource {
                        options: options.clone(),
                        memory: memory.clone(),
                    })
                })
            }
            Place::Folder(dir) => {
                folder(&self.options, self.warm, wanted.owner.clone(), dir.clone())
            }
        }
    }

    fn peer(&self, authority: &str, wanted: &Wanted) -> Options {
        let (options, stated) = (&self.options, &self.options.config_sources);
        let state = warm::folder_of(options).map(|state| state.join(IN_STATE));
        let token_file = stated.config_source_token_file.clone();
        let name = options.writing.pod_name.clone();
        Options {
            reader: Reader {
                owner: wanted.owner.clone(),
                // It has judged its objects already, as a cluster has.
                validation: options.validation(ValidationMode::Warn),
                revision: options.revision.as_str().into(),
            },
            address: authority.into(),
            tls: wanted.tls.clone(),
            token_file: token_file.filter(|_| wanted.tls.is_some()),
            asker: Asker {
                name: name.unwrap_or_else(|| NAMELESS.to_owned()),
                address: NO_ADDRESS,
                namespace: options.namespace.clone(),
                domain: options.domain.clone(),
                revision: options.revision.clone(),
            },
            delta: stated.config_source_protocol == Protocol::Delta,
            topics: self.topics.clone(),
            limits: Limits::default(),
            cache: state.map(|state| Cache::new(&state, authority)),
            on_mesh: self.meshes.of(&wanted.owner),
        }
    }
}

/// The source of an owner, which leaves no more.
fn take(leaving: &mut Vec<Leaving>, owner: &Owner) -> Option<Known> {
    let n = leaving
        .iter()
        .position(|leaving| leaving.known.wanted.owner == *owner)?;
    Some(leaving.remove(n).known)
}
