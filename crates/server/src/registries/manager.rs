//! Adds, changes and removes registries as bridges and flags say.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use model::{Diagnostic, Namespace};
use registries::entry::{Entry, Key};
use registries::limits::Limits;
use registries::nacos::mcp::{McpSource, McpState};
use registries::proxy::{self, ProxiesSource, Proxy, Tunnel};
use registries::source::RegistrySource;
use registries::state::State;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bridges::Seen;
use super::options::RegistryOptions;
use super::plan::{Plan, plan};
use crate::supervisor::{Make, Supervisor};

/// Takes all findings about registries, which replace the former ones.
pub type OnFindings = Box<dyn Fn(Vec<Diagnostic>) + Send + Sync>;

/// A registry that is read.
#[derive(Clone)]
pub struct Known {
    pub(super) entry: Entry,
    /// How it is.
    pub state: State,
    /// How its servers of MCP are, where they are read.
    pub mcp: Option<McpState>,
}

/// The registries that are read, and what of the objects was acted upon.
#[derive(Clone, Default)]
pub struct Registries {
    seen: Option<Arc<Seen>>,
    /// By kind and name.
    pub known: Arc<BTreeMap<Key, Known>>,
}

/// Proxies before services, by name, with what they are asked for.
pub(super) type Proxies = BTreeMap<Arc<str>, (Proxy, Vec<Tunnel>)>;

/// What registries are managed with.
pub struct Manager {
    /// The sources.
    pub supervisor: Supervisor,
    /// Where findings go.
    pub on_findings: OnFindings,
    /// The flags.
    pub options: RegistryOptions,
    /// Where servers of MCP are served.
    pub edge: Edge,
}

/// What objects of an edge need to be served.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The namespace of the edge.
    pub namespace: Namespace,
    /// A class that is served; none where none is.
    pub class: Option<Arc<str>>,
}

impl Manager {
    /// Acts upon what is told until `stop`.
    pub async fn run(
        self,
        mut told: watch::Receiver<Arc<Seen>>,
        shown: watch::Sender<Registries>,
        stop: CancellationToken,
    ) {
        let (mut known, mut proxies) = (BTreeMap::new(), Proxies::new());
        loop {
            let seen = told.borrow_and_update().clone();
            let mut plan = plan(&self.options.stated, &seen);
            let named = std::mem::take(&mut plan.proxies);
            self.reconcile(&mut known, plan).await;
            self.reconcile_proxies(&mut proxies, named, &known).await;
            shown.send_replace(Registries {
                seen: Some(seen),
                known: Arc::new(known.clone()),
            });
            tokio::select! {
                changed = told.changed() => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

    async fn reconcile(&self, known: &mut BTreeMap<Key, Known>, plan: Plan) {
        let gone = known
            .keys()
            .filter(|key| !plan.registries.contains_key(*key));
        let gone: Vec<Key> = gone.cloned().collect();
        for key in &gone {
            known.remove(key);
            tracing::info!(registry = %key, "A registry is read no more.");
        }
        // Side by side: one that is slow to stop delays no other.
        let owners = gone
            .iter()
            .flat_map(|key| [key.owner(), key.owner_of_mcp()]);
        let owners: Vec<_> = owners.collect();
        join_all(owners.iter().map(|owner| self.supervisor.remove(owner))).await;
        for (key, entry) in plan.registries {
            // One whose entry cannot be used is read as before.
            let Some(entry) = entry else { continue };
            match known.get(&key) {
                Some(before) if before.entry == entry => continue,
                Some(_) => self.replace(&key, entry, known).await,
                None => self.add(key, entry, known).await,
            }
        }
        (self.on_findings)(plan.found);
    }

    /// Serves the ways through proxies that services have now. A proxy that cannot be used is served as before.
    async fn reconcile_proxies(
        &self,
        before: &mut Proxies,
        named: BTreeMap<Arc<str>, Option<Proxy>>,
        known: &BTreeMap<Key, Known>,
    ) {
        let entries = known.values().map(|known| &known.entry);
        let proxies = ways(named, before, entries.collect());
        if proxies == *before {
            return;
        }
        let (made, home) = (proxies.clone(), self.edge.namespace.clone());
        let make: Make = Box::new(move |_| Box::new(ProxiesSource::new(&made, &home)));
        if proxies.is_empty() {
            self.supervisor.remove(&proxy::owner()).await;
        } else if before.is_empty() {
            if let Err(error) = self.supervisor.add_patient(make, Some(self.options.start)) {
                tracing::error!(%error, "Proxies before services are not served.");
                return;
            }
        } else {
            self.supervisor.replace(make);
        }
        *before = proxies;
    }

    async fn add(&self, key: Key, entry: Entry, known: &mut BTreeMap<Key, Known>) {
        let state = State::default();
        let make = self.make(&entry, &state);
        let start = self.options.start;
        let added = self.supervisor.add_patient(make, Some(start));
        if let Err(error) = added {
            // Owners are told apart by the keys.
            tracing::error!(registry = %key, %error, "A registry is not read.");
            return;
        }
        tracing::info!(registry = %key, "A registry is read.");
        let mcp = self.read_mcp(&key, &entry, None).await;
        known.insert(key, Known { entry, state, mcp });
    }

    async fn replace(&self, key: &Key, entry: Entry, known: &mut BTreeMap<Key, Known>) {
        let state = State::default();
        let replaced = self.supervisor.replace(self.make(&entry, &state));
        if replaced {
            tracing::info!(registry = %key, "A registry is read as its new entry says.");
            let before = known.get(key).and_then(|known| known.mcp.clone());
            let mcp = self.read_mcp(key, &entry, before).await;
            known.insert(key.clone(), Known { entry, state, mcp });
        }
    }

    /// Reads the servers of MCP of a registry where its entry says so, and no more where it did before.
    async fn read_mcp(
        &self,
        key: &Key,
        entry: &Entry,
        before: Option<McpState>,
    ) -> Option<McpState> {
        let Edge { namespace, class } = &self.edge;
        let reading = class
            .as_ref()
            .and_then(|class| entry.mcp(namespace, class, self.options.empty));
        let Some(reading) = reading else {
            if before.is_some() {
                self.supervisor.remove(&key.owner_of_mcp()).await;
            }
            return None;
        };
        let state = McpState::default();
        let shown = state.clone();
        let make: Make = Box::new(move |_| {
            Box::new(McpSource {
                reading: reading.clone(),
                state: shown.clone(),
            })
        });
        let is_read = match before {
            Some(_) => self.supervisor.replace(make),
            None => {
                let added = self.supervisor.add_patient(make, Some(self.options.start));
                added.is_ok()
            }
        };
        is_read.then_some(state)
    }

    fn make(&self, entry: &Entry, state: &State) -> Make {
        let (entry, state) = (entry.clone(), state.clone());
        let (patience, home) = (self.options.patience(), self.edge.namespace.clone());
        Box::new(move |_| {
            Box::new(RegistrySource {
                making: entry.making(&home),
                patience,
                limits: Limits::default(),
                open: entry.open(),
                state: state.clone(),
            })
        })
    }
}

/// What each proxy is asked for, of those that are asked for something.
pub(super) fn ways(
    named: BTreeMap<Arc<str>, Option<Proxy>>,
    before: &Proxies,
    entries: Vec<&Entry>,
) -> Proxies {
    let mut proxies = Proxies::new();
    for (name, proxy) in named {
        let proxy = proxy.or_else(|| Some(before.get(&name)?.0.clone()));
        let Some(proxy) = proxy else { continue };
        let through = entries.iter().filter_map(|entry| entry.through());
        let through = through.filter(|through| through.proxy == name);
        let tunnels = through.map(|through| (through.tunnel.sni.clone(), &through.tunnel));
        // Those of one name are the same.
        let tunnels: BTreeMap<_, _> = tunnels.collect();
        if !tunnels.is_empty() {
            let tunnels = tunnels.into_values().cloned().collect();
            proxies.insert(name, (proxy, tunnels));
        }
    }
    proxies
}

/// Resolves when what was told is acted upon: the registries that there are to be are among the sources.
pub async fn settled(mut shown: watch::Receiver<Registries>, mut told: watch::Receiver<Arc<Seen>>) {
    loop {
        let newest = told.borrow_and_update().clone();
        let acted = shown.borrow_and_update().seen.clone();
        if acted.is_some_and(|seen| Arc::ptr_eq(&seen, &newest)) {
            return;
        }
        tokio::select! {
            Ok(()) = shown.changed() => {}
            Ok(()) = told.changed() => {}
            else => return,
        }
    }
}
