//! Adds, changes and removes sources as flags and the mesh config say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
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
        let mut known = BTreeMap::new();
        loop {
            let sources = named(&settled.borrow_and_update());
            if acted.borrow().as_ref() != Some(&sources) {
                let plan = plan(&self.options, &sources);
                let gone = self.reconcile(&mut known, plan);
                acted.send_replace(Some(sources));
                tokio::select! {
                    () = self.remove(&known, gone) => {}
                    () = stop.cancelled() => return,
                }
            }
            tokio::select! {
                changed = settled.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

    /// Adds and changes sources, and returns who is to be removed.
    fn reconcile(&self, known: &mut BTreeMap<Place, Known>, plan: Plan) -> Vec<Owner> {
        (self.on_findings)(plan.found);
        let mut gone = Vec::new();
        known.retain(|place, known| {
            let stays = plan.wanted.contains_key(place);
            if !stays {
                gone.push(known.wanted.owner.clone());
            }
            stays
        });
        for (place, wanted) in plan.wanted {
            let before = known.get(&place);
            if before.is_some_and(|before| before.wanted == wanted) {
                continue;
            }
            let same_owner = before.filter(|before| before.wanted.owner == wanted.owner);
            // What it has said is known as long as it is the same owner who tells it.
            let memory = same_owner.map(|before| before.memory.clone());
            let is_replaced = memory.is_some();
            let memory = memory.unwrap_or_default();
            let make = self.make(&place, &wanted, &memory);
            let owner = wanted.owner.clone();
            if is_replaced {
                self.supervisor.replace(make);
                tracing::info!(source = %owner, "A source is read as its new entry says.");
            } else {
                gone.extend(before.map(|before| before.wanted.owner.clone()));
                if !self.add(&place, make) {
                    continue;
                }
            }
            known.insert(place, Known { wanted, memory });
        }
        gone
    }

    fn add(&self, place: &Place, make: Make) -> bool {
        // A folder is there or not; others may not answer.
        let patience = match place {
            Place::Peer(_) => Some(self.options.config_sources.config_source_start_timeout),
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

    /// Removes sources once those that take their place have told what they have, or do not in time.
    async fn remove(&self, known: &BTreeMap<Place, Known>, gone: Vec<Owner>) {
        if gone.is_empty() {
            return;
        }
        let patience = self.options.config_sources.config_source_start_timeout;
        let read = async {
            let is_late = |known: &Known| {
                let status = self.supervisor.source(&known.wanted.owner);
                status.is_some_and(|status| !status.was_in_sync)
            };
            while known.values().any(is_late) {
                tokio::time::sleep(LOOK).await;
            }
        };
        // Those that are late are told of where sources are shown.
        let _ = tokio::time::timeout(patience, read).await;
        for owner in &gone {
            self.meshes.forget(owner);
            tracing::info!(source = %owner, "A source is read no more.");
        }
        join_all(gone.iter().map(|owner| self.supervisor.remove(owner))).await;
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
