//! What the derive thread owns: store, engine, connected proxies and their views.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ads::latest;
use ads::wake::WakeBatch;
use convert::Stage;
use incr::{Engine, Query, RootId};
use mesh::network_gateways::WantedAddresses;
use mesh::services::to_remember;
use mesh::view::ProxyKey;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Node;
use model::settings::Settings;
use model::{Change, Diagnostic, Kind};
use policy::jwt::WantedKeys;
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Snapshot, Store};
use xds::{ByType, Published, ResourceSet, TypeUrl, Types};
use xlate::View;
use xlate::findings::{Findings, FindingsOfMesh, FindingsOfView};
use xlate::wants::WantsOfView;
use xlate::{TypeSet, Viewed};

use super::found::Found;
use super::origins::{OriginLimits, Origins};
use super::subscriptions::has_sets;
use super::wants::{OfViews, Wants, tell};
use super::{Batch, ProxyId, Revisions, origins};
use crate::analysis::Seen;

/// Everything that one thread owns.
pub struct State {
    pub(super) store: Store,
    stage: Stage,
    pub(super) engine: Engine<Snapshot>,
    pub(super) proxies: BTreeMap<ProxyId, Proxy>,
    pub(super) views: FxHashMap<Arc<View>, ViewEntry>,
    /// What views have of each type: one for all that agree in the key of the type.
    pub(super) sets: FxHashMap<TypeSet, SetEntry>,
    /// What is wrong with it: one for all views that agree in the keys that decide it.
    pub(super) findings_of: FxHashMap<FindingsOfView, FindingsEntry>,
    pub(super) roots: FxHashMap<RootId, Root>,
    pub(super) next_proxy: u64,
    pub(super) origins: Origins,
    /// Whether proxies that come are held.
    pub(super) holds: bool,
    /// Proxies that should have what they had before the start.
    pub(super) from_disk: usize,
    panics: u64,
    /// Time spent on derivations since the batch began.
    pulling: Duration,
    /// Sets that the first proxy of a view asks for. Other views may have them already, so the engine does not count them
    /// among what changed.
    pub(super) joined: Vec<(Arc<View>, TypeUrl)>,
    revisions: Arc<Revisions>,
    /// Proxies that were told something because of what their streams said, to be woken together.
    pub(super) batch: WakeBatch,
    pub(super) found: Found,
    /// Those that are the same for every view.
    of_mesh: Option<Findings>,
    pub(super) wants: Wants,
    /// What views want of the outside.
    pub(super) of_views: OfViews,
    /// Called when a proxy has its view, and when it leaves.
    pub(super) on_proxy: OnProxy,
}

/// Hears what becomes of proxies: of which namespace they are, and the labels of their workloads.
pub(super) type OnProxy = Box<dyn FnMut(&Namespace, &Labels, Seen) + Send>;

pub(super) struct Proxy {
    pub(super) key: ProxyKey,
    pub(super) origin: origins::Entry,
    /// `None` while it is held.
    pub(super) root: Option<RootId>,
    /// `None` until its view could be derived.
    pub(super) viewed: Option<Arc<Viewed>>,
    pub(super) types: Types,
    /// Whether what it should have is what it had before the start.
    pub(super) from_disk: bool,
    pub(super) sender: latest::Sender<Arc<Published>>,
}

impl Proxy {
    /// Says what it should have; until something is derived, that stays as it is. Returns 1 if what it had was from
    /// disk, else 0.
    pub(super) fn tell(&mut self, published: &Arc<Published>, batch: &mut WakeBatch) -> usize {
        if !has_sets(published) {
            return 0;
        }
        self.sender.send_with(published.clone(), batch);
        usize::from(std::mem::take(&mut self.from_disk))
    }
}

#[derive(Default)]
pub(super) struct ViewEntry {
    pub(super) proxies: FxHashSet<ProxyId>,
    /// Counts the proxies that joined or left.
    pub(super) joined_or_left: u64,
    /// How many proxies want each type.
    pub(super) types: ByType<usize>,
    pub(super) published: Arc<Published>,
    /// Whether its findings are looked at: once it wants any type.
    pub(super) told: bool,
}

/// A set that views share.
pub(super) struct SetEntry {
    pub(super) root: RootId,
    /// The views that want it.
    pub(super) views: FxHashSet<Arc<View>>,
    /// `None` until it could be derived.
    pub(super) set: Option<ResourceSet>,
}

/// Findings that views share.
pub(super) struct FindingsEntry {
    pub(super) root: RootId,
    /// How many views they are about.
    pub(super) views: usize,
    pub(super) findings: Option<Findings>,
}

pub(super) enum Root {
    /// The proxies with this key; several only while one reconnects.
    Proxy(Vec<ProxyId>),
    Set(TypeSet),
    Wants(WantsOfView),
    Findings(FindingsOfView),
    FindingsOfMesh,
    Keys,
    Names,
}

/// A finding of generation, for debug pages.
#[derive(Clone, Debug)]
pub struct FindingRow {
    /// The finding, with where its object was read from.
    pub finding: Diagnostic,
    /// The connected proxies that it concerns; empty for one that concerns any.
    pub proxies: Vec<Arc<Node>>,
}

/// A view, for what is kept of it.
pub struct ViewRow {
    /// Which.
    pub view: Arc<View>,
    /// What its proxies should have.
    pub published: Arc<Published>,
    /// Counts the proxies that joined or left.
    pub joined_or_left: u64,
    /// Its proxies; `None` if they are those that the asker knows.
    pub nodes: Option<Vec<Arc<Node>>>,
}

/// A connected proxy, for debug pages.
#[derive(Clone, Debug)]
pub struct ProxyRow {
    /// What it said of itself.
    pub node: Arc<Node>,
    /// Whether what it should have is what it had before the start.
    pub from_disk: bool,
    /// Its view.
    pub view: Option<Arc<View>>,
    /// What it should have.
    pub published: Arc<Published>,
}

impl State {
    pub(super) fn new(
        settings: Arc<Settings>,
        limits: OriginLimits,
        wants: Wants,
        revisions: Arc<Revisions>,
        on_proxy: OnProxy,
    ) -> Self {
        let mut engine = Engine::new();
        let mut roots = FxHashMap::default();
        roots.insert(engine.root(&WantedKeys), Root::Keys);
        roots.insert(engine.root(&WantedAddresses), Root::Names);
        roots.insert(engine.root(&FindingsOfMesh), Root::FindingsOfMesh);
        Self {
            store: Store::new(settings),
            stage: Stage::with_statuses(),
            engine,
            proxies: BTreeMap::new(),
            views: FxHashMap::default(),
            sets: FxHashMap::default(),
            findings_of: FxHashMap::default(),
            roots,
            next_proxy: 0,
            origins: Origins::new(limits),
            holds: false,
            from_disk: 0,
            panics: 0,
            pulling: Duration::ZERO,
            joined: Vec::new(),
            revisions,
            batch: WakeBatch::new(),
            found: Found::default(),
            of_mesh: None,
            wants,
            of_views: OfViews::default(),
            on_proxy,
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The engine, for its figures and for provenance.
    pub fn engine(&self) -> &Engine<Snapshot> {
        &self.engine
    }

    /// The value of any query at the current revision.
    pub fn get<Q: Query<Snapshot>>(&self, query: &Q) -> Arc<Q::Value> {
        self.engine.get(&self.store.snapshot(), query)
    }

    /// Every connected proxy, in the order of connecting.
    pub fn proxies(&self) -> impl Iterator<Item = ProxyRow> + '_ {
        self.proxies.values().map(|p| ProxyRow {
            node: p.key.node().clone(),
            from_disk: p.from_disk,
            view: p.viewed.as_ref().map(|v| v.view.clone()),
            published: p.sender.newest(),
        })
    }

    /// Whether an outcome is known of all that generation wants of the outside.
    pub fn has_what_it_wants(&self) -> bool {
        self.wants.are_met(&self.store.snapshot())
    }

    /// The findings about objects of kinds, from deriving others of them and from generation.
    pub fn findings_about(&self, is_wanted: impl Fn(Kind) -> bool) -> Vec<Diagnostic> {
        let is_about = |finding: &&Diagnostic| {
            let object = finding.object.as_ref();
            object.is_some_and(|object| is_wanted(object.kind))
        };
        self.found.all().filter(is_about).cloned().collect()
    }

    /// Every finding of generation in force.
    pub fn findings(&self) -> Vec<FindingRow> {
        let snapshot = self.store.snapshot();
        let concerned = |finding: &Diagnostic| {
            let views = self.views.iter().filter(|(view, _)| {
                let of_view = self.findings_of.get(&view.findings());
                let findings = of_view.and_then(|entry| entry.findings.as_ref());
                findings.is_some_and(|f| f.binary_search(finding).is_ok())
            });
            let ids = views.flat_map(|(_, entry)| &entry.proxies);
            let mut nodes: Vec<Arc<Node>> = ids
                .filter_map(|id| Some(self.proxies.get(id)?.key.node().clone()))
                .collect();
            nodes.sort_by(|a, b| a.id.cmp(&b.id));
            nodes
        };
        self.found
            .all()
            .map(|finding| FindingRow {
                proxies: concerned(finding),
                finding: snapshot.placed(finding.clone()),
            })
            .collect()
    }

    /// Every view, with how many proxies have it and what they should have.
    pub fn published(&self) -> impl Iterator<Item = (&View, usize, &Published)> + '_ {
        self.views
            .iter()
            .map(|(view, entry)| (&**view, entry.proxies.len(), &*entry.published))
    }

    /// How many proxies should have what they had before the start, because nothing was derived for them yet.
    pub fn from_disk(&self) -> usize {
        self.from_disk
    }

    /// What each view is served, and its proxies where those are others than when `known` counted them. Views are known
    /// by where they lie, so that asking costs little: who asks must hold on to them.
    pub fn served(&self, known: &FxHashMap<usize, u64>) -> Vec<ViewRow> {
        let row = |(view, entry): (&Arc<View>, &ViewEntry)| {
            let changed = known.get(&Arc::as_ptr(view).addr()) != Some(&entry.joined_or_left);
            let nodes = entry.proxies.iter().filter_map(|id| self.proxies.get(id));
            ViewRow {
                view: view.clone(),
                published: entry.published.clone(),
                joined_or_left: entry.joined_or_left,
                nodes: changed.then(|| nodes.map(|p| p.key.node().clone()).collect()),
            }
        };
        self.views.iter().map(row).collect()
    }

    /// How many views there are.
    pub fn views(&self) -> usize {
        self.views.len()
    }

    /// Applies changes and publishes what they and new subscriptions made different. `None` if nothing was to do.
    pub(super) fn advance(&mut self, changes: Vec<Change>, since: Instant) -> Option<Batch> {
        let start = Instant::now();
        drop(std::mem::take(&mut self.batch));
        let (panics, runs) = (self.panics, self.engine.stats().runs);
        let had_changes = !changes.is_empty();
        let changed = if had_changes {
            self.apply(changes)
        } else {
            store::ChangeSet::default()
        };
        let apply = start.elapsed();
        if !changed.is_empty() {
            self.engine.commit(changed.keys.iter().copied());
        }
        let dirty = start.elapsed() - apply;
        self.pulling = Duration::ZERO;
        if had_changes {
            self.revisions.note(self.store.snapshot().revision, since);
        }
        let (views, sets) = self.publish();
        self.engine.collect();
        // Nobody waits for statuses: first the proxies.
        let statuses = self.stage.take_statuses(&self.store.snapshot());
        let found = self.found.take_new(&self.store.snapshot());
        let refused = self.found.take_refused();
        if !had_changes && sets == 0 && found.is_empty() && refused.is_empty() {
            return None;
        }
        Some(Batch {
            revision: self.store.snapshot().revision,
            snapshot: self.store.snapshot(),
            changes: changed,
            statuses,
            since,
            proxies: self.proxies.len(),
            views,
            sets,
            runs: self.engine.stats().runs - runs,
            apply,
            dirty,
            evaluate: self.pulling,
            generate: start.elapsed() - apply,
            panics: self.panics - panics,
            found,
            refused,
            findings: self.found.totals(),
        })
    }

    /// Applies changes, and derives objects from others.
    fn apply(&mut self, changes: Vec<Change>) -> store::ChangeSet {
        let (before, panics) = (self.store.snapshot(), self.stage.panics());
        let mut changed = self.stage.apply(&mut self.store, changes);
        for change in self.stage.take_findings() {
            self.found
                .replace(Some(&change.before), Some(&change.after));
        }
        let panicked = self.stage.panics() - panics;
        if panicked > 0 {
            self.panics += panicked;
            tracing::error!("Deriving objects panicked; what was derived before stays in force.");
        }
        self.remember(&before, &mut changed);
        changed
    }

    /// Remembers the identities of services that may have lost their endpoints. No object is derived from them.
    fn remember(&mut self, before: &Snapshot, changed: &mut store::ChangeSet) {
        let (engine, after) = (&self.engine, self.store.snapshot());
        let found = AssertUnwindSafe(|| to_remember(engine, before, &after, changed));
        let Ok(found) = catch_unwind(found) else {
            self.panics += 1;
            tracing::error!(
                "Identities of services cannot be remembered, as reading them panicked."
            );
            return;
        };
        if !found.is_empty() {
            changed.merge(self.store.amend(found));
        }
    }

    /// Pulls the roots that may have changed; returns how many views and sets were published.
    fn publish(&mut self) -> (usize, usize) {
        let snapshot = self.store.snapshot();
        let dirty = self.engine.changed_roots();
        for root in &dirty {
            if let Some(Root::Proxy(ids)) = self.roots.get(root) {
                for id in ids.clone() {
                    self.place(id);
                }
            }
        }
        drop(std::mem::take(&mut self.batch));
        // Proxies that moved brought new roots with them.
        let mut due = Due::default();
        for (view, ty) in std::mem::take(&mut self.joined) {
            due.add(&view, ty);
        }
        let mut findings: Vec<Option<FindingsOfView>> = Vec::new();
        let mut wants: Vec<WantsOfView> = Vec::new();
        for root in self.engine.changed_roots() {
            match self.roots.get(&root) {
                Some(Root::Set(set)) => {
                    if let Some(entry) = self.sets.get(set) {
                        entry.views.iter().for_each(|view| due.add(view, set.ty()));
                        due.changed.insert(set.clone());
                    }
                }
                Some(Root::Wants(of)) => wants.push(of.clone()),
                Some(Root::Findings(of)) => findings.push(Some(of.clone())),
                Some(Root::FindingsOfMesh) => findings.push(None),
                Some(Root::Keys) => self.want_keys(&snapshot),
                Some(Root::Names) => self.want_names(&snapshot),
                Some(Root::Proxy(_)) | None => {}
            }
        }
        // A view is published as soon as its own sets are there: its proxies get them while the next view is derived.
        let (mut views, mut sets) = (0, 0);
        let (order, mut types) = (std::mem::take(&mut due.order), due.types);
        for view in order {
            let types = types.remove(&view).unwrap_or_default();
            let changed = self.publish_view(&snapshot, &view, &types, &mut due.changed);
            views += usize::from(changed > 0);
            sets += changed;
        }
        self.want_for_views(&snapshot, wants);
        // Nobody waits for findings: first the proxies.
        for of in findings {
            self.look_at(&snapshot, of.as_ref());
        }
        (views, sets)
    }

    fn want_keys(&mut self, snapshot: &Snapshot) {
        if let Some(wanted) = self.pull(snapshot, &WantedKeys) {
            tell(&self.wants.keys, &wanted);
        }
    }

    fn want_names(&mut self, snapshot: &Snapshot) {
        if let Some(wanted) = self.pull(snapshot, &WantedAddresses) {
            tell(&self.wants.names, &wanted);
        }
    }

    /// Takes the findings of views, or of the mesh, as they are.
    fn look_at(&mut self, snapshot: &Snapshot, of: Option<&FindingsOfView>) {
        let found = match of {
            Some(of) => self.pull(snapshot, of),
            None => self.pull(snapshot, &FindingsOfMesh),
        };
        let Some(found) = found.map(|f| Findings::clone(&f)) else {
            return;
        };
        let slot = match of {
            Some(of) => match self.findings_of.get_mut(of) {
                Some(entry) => &mut entry.findings,
                None => return,
            },
            None => &mut self.of_mesh,
        };
        let before = slot.replace(found.clone());
        self.found.replace(before.as_ref(), Some(&found));
    }

    /// Hands a view those of its sets that changed; returns how many that are. Sets that may have changed are derived when
    /// the first view needs them.
    fn publish_view(
        &mut self,
        snapshot: &Snapshot,
        view: &Arc<View>,
        types: &[TypeUrl],
        changed: &mut FxHashSet<TypeSet>,
    ) -> usize {
        let Some(before) = self.views.get(view).map(|entry| entry.published.clone()) else {
            return 0;
        };
        let mut published = before.at(snapshot.revision);
        let mut count = 0;
        for ty in types {
            let query = view.set(*ty);
            let known = self.sets.get(&query).is_some_and(|e| e.set.is_some());
            if (changed.remove(&query) || !known)
                && let Some(set) = self.pull(snapshot, &query)
                && let Some(entry) = self.sets.get_mut(&query)
                && entry.set.as_ref() != Some(&*set)
            {
                entry.set = Some(ResourceSet::clone(&set));
            }
            let newest = self.sets.get(&query).and_then(|entry| entry.set.as_ref());
            let newest = newest.filter(|set| view.can_begin_with(*ty, set));
            if let Some(set) = newest.filter(|set| before.get(*ty) != Some(*set)) {
                published.set(*ty, set.clone());
                count += 1;
            }
        }
        if count > 0
            && let Some(entry) = self.views.get_mut(view)
        {
            entry.published = Arc::new(published);
            let mut batch = WakeBatch::new();
            for id in &entry.proxies {
                if let Some(proxy) = self.proxies.get_mut(id) {
                    self.from_disk -= proxy.tell(&entry.published, &mut batch);
                }
            }
        }
        count
    }

    /// The value of a query, or nothing if generating it panicked.
    pub(super) fn pull<Q: Query<Snapshot>>(
        &mut self,
        snapshot: &Snapshot,
        query: &Q,
    ) -> Option<Arc<Q::Value>> {
        let engine = &self.engine;
        let start = Instant::now();
        let pulled = catch_unwind(AssertUnwindSafe(|| engine.get(snapshot, query)));
        self.pulling += start.elapsed();
        match pulled {
            Ok(value) => Some(value),
            Err(panic) => {
                self.panics += 1;
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|s| (*s).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default();
                tracing::error!(query = ?query, panic = text, "Generation panicked; the previous result stays in force.");
                None
            }
        }
    }
}

/// What is to be published.
#[derive(Default)]
struct Due {
    /// The views, in the order in which they are served.
    order: Vec<Arc<View>>,
    types: FxHashMap<Arc<View>, Vec<TypeUrl>>,
    /// Sets that may have changed and were not derived yet.
    changed: FxHashSet<TypeSet>,
}

impl Due {
    fn add(&mut self, view: &Arc<View>, ty: TypeUrl) {
        let types = self.types.entry(view.clone()).or_insert_with(|| {
            self.order.push(view.clone());
            Vec::new()
        });
        if !types.contains(&ty) {
            types.push(ty);
        }
    }
}
