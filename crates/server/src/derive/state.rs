//! What the derive thread owns: store, engine, connected proxies and their views.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ads::latest;
use incr::{Engine, Query, RootId};
use model::node::Node;
use model::settings::Settings;
use model::{Change, Diagnostic};
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Snapshot, Store};
use tokio::sync::watch;
use xlate::findings::{Findings, FindingsOfMesh, FindingsOfView};
use xlate::jwt::WantedKeys;
use xlate::view::ProxyKey;
use xlate::{Published, ResourceSet, TypeSet, TypeUrl, View, ViewOf};

use super::found::{Found, placed};
use super::{Batch, KeysWanted, ProxyId, Revisions, Subscription};

/// Number of types.
const TYPES: usize = TypeUrl::ALL.len();

/// Everything that one thread owns.
pub struct State {
    store: Store,
    engine: Engine<Snapshot>,
    proxies: BTreeMap<ProxyId, Proxy>,
    views: FxHashMap<Arc<View>, ViewEntry>,
    roots: FxHashMap<RootId, Root>,
    next_proxy: u64,
    panics: u64,
    /// Time spent on derivations since the batch began.
    pulling: Duration,
    /// Sets that a first proxy asks for. What they hold may be known already, because findings read it, so the engine
    /// does not count them among what changed.
    joined: Vec<(Arc<View>, TypeUrl)>,
    revisions: Arc<Revisions>,
    found: Found,
    /// Those that are the same for every view.
    of_mesh: Option<Findings>,
    keys: watch::Sender<KeysWanted>,
}

struct Proxy {
    node: Arc<Node>,
    root: RootId,
    /// `None` until its view could be derived.
    view: Option<Arc<View>>,
    types: [bool; TYPES],
    sender: latest::Sender<Arc<Published>>,
}

#[derive(Default)]
struct ViewEntry {
    proxies: FxHashSet<ProxyId>,
    /// The root of each type and how many proxies want it.
    types: [Option<(RootId, usize)>; TYPES],
    published: Arc<Published>,
    /// The root of its findings, once it wants any type.
    findings_root: Option<RootId>,
    findings: Option<Findings>,
}

enum Root {
    /// The proxies with this key; several only while one reconnects.
    Proxy(Vec<ProxyId>),
    Set(Arc<View>, TypeUrl),
    Findings(Arc<View>),
    FindingsOfMesh,
    Keys,
}

/// A finding of generation, for debug pages.
#[derive(Clone, Debug)]
pub struct FindingRow {
    /// The finding, with where its object was read from.
    pub finding: Diagnostic,
    /// The connected proxies that it concerns; empty for one that concerns any.
    pub proxies: Vec<Arc<Node>>,
}

/// A connected proxy, for debug pages.
#[derive(Clone, Debug)]
pub struct ProxyRow {
    /// What it said of itself.
    pub node: Arc<Node>,
    /// Its view.
    pub view: Option<Arc<View>>,
    /// What it should have.
    pub published: Arc<Published>,
}

impl State {
    pub(super) fn new(
        settings: Arc<Settings>,
        keys: watch::Sender<KeysWanted>,
        revisions: Arc<Revisions>,
    ) -> Self {
        let mut engine = Engine::new();
        let mut roots = FxHashMap::default();
        roots.insert(engine.root(&WantedKeys), Root::Keys);
        roots.insert(engine.root(&FindingsOfMesh), Root::FindingsOfMesh);
        Self {
            store: Store::new(settings),
            engine,
            proxies: BTreeMap::new(),
            views: FxHashMap::default(),
            roots,
            next_proxy: 0,
            panics: 0,
            pulling: Duration::ZERO,
            joined: Vec::new(),
            revisions,
            found: Found::default(),
            of_mesh: None,
            keys,
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
            node: p.node.clone(),
            view: p.view.clone(),
            published: p.sender.newest(),
        })
    }

    /// Whether an outcome is known of fetching each of the keys that are wanted.
    pub fn has_keys(&self) -> bool {
        let snapshot = self.store.snapshot();
        let wanted = self.keys.borrow();
        wanted
            .keys()
            .all(|source| snapshot.keys.get(source).is_some())
    }

    /// Every finding of generation in force.
    pub fn findings(&self) -> Vec<FindingRow> {
        let snapshot = self.store.snapshot();
        let concerned = |finding: &Diagnostic| {
            let views = self.views.values().filter(|view| {
                let of_view = view.findings.as_ref();
                of_view.is_some_and(|f| f.binary_search(finding).is_ok())
            });
            let ids = views.flat_map(|view| &view.proxies);
            let mut nodes: Vec<Arc<Node>> = ids
                .filter_map(|id| Some(self.proxies.get(id)?.node.clone()))
                .collect();
            nodes.sort_by(|a, b| a.id.cmp(&b.id));
            nodes
        };
        self.found
            .all()
            .map(|finding| FindingRow {
                proxies: concerned(finding),
                finding: placed(finding.clone(), &snapshot),
            })
            .collect()
    }

    /// Every view, with how many proxies have it and what they should have.
    pub fn published(&self) -> impl Iterator<Item = (&View, usize, &Published)> + '_ {
        self.views
            .iter()
            .map(|(view, entry)| (&**view, entry.proxies.len(), &*entry.published))
    }

    /// How many views there are.
    pub fn views(&self) -> usize {
        self.views.len()
    }

    pub(super) fn subscribe(&mut self, node: Arc<Node>) -> Subscription {
        let id = ProxyId(self.next_proxy);
        self.next_proxy += 1;
        let root = self.engine.root(&ViewOf(ProxyKey(node.clone())));
        match self
            .roots
            .entry(root)
            .or_insert_with(|| Root::Proxy(Vec::new()))
        {
            Root::Proxy(ids) => ids.push(id),
            _ => unreachable!("a root of ViewOf is that of a proxy"),
        }
        let sender = latest::Sender::new(Arc::new(Published::new(0)));
        let published = sender.subscribe();
        self.proxies.insert(
            id,
            Proxy {
                node,
                root,
                view: None,
                types: [false; TYPES],
                sender,
            },
        );
        self.place(id);
        Subscription {
            proxy: id,
            published,
        }
    }

    pub(super) fn want(&mut self, id: ProxyId, ty: TypeUrl) {
        let Some(proxy) = self.proxies.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut proxy.types[ty as usize], true) {
            return;
        }
        if let Some(view) = proxy.view.clone() {
            self.join_type(&view, ty);
            // A set that others of the view already have is there at once.
            if let (Some(entry), Some(proxy)) = (self.views.get(&view), self.proxies.get(&id)) {
                proxy.sender.send(entry.published.clone());
            }
        }
    }

    pub(super) fn leave(&mut self, id: ProxyId) {
        let Some(proxy) = self.proxies.remove(&id) else {
            return;
        };
        self.leave_view(id, &proxy);
        if let Some(Root::Proxy(ids)) = self.roots.get_mut(&proxy.root) {
            ids.retain(|i| *i != id);
            if ids.is_empty() {
                self.roots.remove(&proxy.root);
            }
        }
        self.engine.release(proxy.root);
    }

    /// Applies changes and publishes what they and new subscriptions made different. `None` if nothing was to do.
    pub(super) fn advance(&mut self, changes: Vec<Change>, since: Instant) -> Option<Batch> {
        let start = Instant::now();
        let (panics, runs) = (self.panics, self.engine.stats().runs);
        let had_changes = !changes.is_empty();
        let changed = if had_changes {
            self.store.apply(changes)
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
        let found = self.found.take_new(&self.store.snapshot());
        if !had_changes && sets == 0 && found.is_empty() {
            return None;
        }
        Some(Batch {
            revision: self.store.snapshot().revision,
            snapshot: self.store.snapshot(),
            changes: changed,
            since,
            views,
            sets,
            runs: self.engine.stats().runs - runs,
            apply,
            dirty,
            evaluate: self.pulling,
            generate: start.elapsed() - apply,
            panics: self.panics - panics,
            found,
            findings: self.found.totals(),
        })
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
        // Proxies that moved brought new roots with them.
        let mut order: Vec<Arc<View>> = Vec::new();
        let mut dirty: FxHashMap<Arc<View>, Vec<TypeUrl>> = FxHashMap::default();
        let mut findings: Vec<Option<Arc<View>>> = Vec::new();
        let mut sets = std::mem::take(&mut self.joined);
        for root in self.engine.changed_roots() {
            match self.roots.get(&root) {
                Some(Root::Set(view, ty)) => sets.push((view.clone(), *ty)),
                Some(Root::Findings(view)) => findings.push(Some(view.clone())),
                Some(Root::FindingsOfMesh) => findings.push(None),
                Some(Root::Keys) => self.want_keys(&snapshot),
                Some(Root::Proxy(_)) | None => {}
            }
        }
        for (view, ty) in sets {
            let types = dirty.entry(view.clone()).or_insert_with(|| {
                order.push(view);
                Vec::new()
            });
            if !types.contains(&ty) {
                types.push(ty);
            }
        }
        // A view is published as soon as its own sets are there: its proxies get them while the next view is derived.
        let (mut views, mut sets) = (0, 0);
        for view in order {
            let types = dirty.remove(&view).unwrap_or_default();
            let changed = self.publish_view(&snapshot, &view, &types);
            views += usize::from(changed > 0);
            sets += changed;
        }
        // Nobody waits for findings: first the proxies.
        for view in findings {
            self.look_at(&snapshot, view.as_ref());
        }
        (views, sets)
    }

    fn want_keys(&mut self, snapshot: &Snapshot) {
        if let Some(wanted) = self.pull(snapshot, &WantedKeys) {
            self.keys.send_if_modified(|now| {
                let other = **now != **wanted;
                if other {
                    *now = Arc::clone(&wanted);
                }
                other
            });
        }
    }

    /// Takes the findings of a view, or of the mesh, as they are.
    fn look_at(&mut self, snapshot: &Snapshot, view: Option<&Arc<View>>) {
        let found = match view {
            Some(view) => self.pull(snapshot, &FindingsOfView(view.clone())),
            None => self.pull(snapshot, &FindingsOfMesh),
        };
        let Some(found) = found.map(|f| Findings::clone(&f)) else {
            return;
        };
        let slot = match view {
            Some(view) => match self.views.get_mut(view) {
                Some(entry) => &mut entry.findings,
                None => return,
            },
            None => &mut self.of_mesh,
        };
        let before = slot.replace(found.clone());
        self.found.replace(before.as_ref(), Some(&found));
    }

    /// Pulls the sets of one view and hands those that changed to its proxies; returns how many that are.
    fn publish_view(&mut self, snapshot: &Snapshot, view: &Arc<View>, types: &[TypeUrl]) -> usize {
        let Some(before) = self.views.get(view).map(|entry| entry.published.clone()) else {
            return 0;
        };
        let mut published = before.at(snapshot.revision);
        let mut changed = 0;
        for ty in types {
            let query = TypeSet {
                view: view.clone(),
                ty: *ty,
            };
            if let Some(set) = self.pull(snapshot, &query)
                && before.get(*ty) != Some(&*set)
            {
                published.set(*ty, ResourceSet::clone(&set));
                changed += 1;
            }
        }
        if changed > 0
            && let Some(entry) = self.views.get_mut(view)
        {
            entry.published = Arc::new(published);
            for proxy in entry.proxies.iter().filter_map(|id| self.proxies.get(id)) {
                proxy.sender.send(entry.published.clone());
            }
        }
        changed
    }

    /// Puts a proxy into the view it belongs to.
    fn place(&mut self, id: ProxyId) {
        let Some(proxy) = self.proxies.get(&id) else {
            return;
        };
        let snapshot = self.store.snapshot();
        let key = ViewOf(ProxyKey(proxy.node.clone()));
        let Some(view) = self.pull(&snapshot, &key) else {
            return;
        };
        let Some(proxy) = self.proxies.get(&id) else {
            return;
        };
        if proxy.view.as_ref() == Some(&*view) {
            return;
        }
        let Some(proxy) = self.proxies.remove(&id) else {
            return;
        };
        let types = proxy.types;
        self.leave_view(id, &proxy);
        let entry = self.views.entry(Arc::clone(&view)).or_default();
        entry.proxies.insert(id);
        let published = entry.published.clone();
        proxy.sender.send(published);
        self.proxies.insert(
            id,
            Proxy {
                view: Some(Arc::clone(&view)),
                ..proxy
            },
        );
        for ty in TypeUrl::ALL.into_iter().filter(|t| types[*t as usize]) {
            self.join_type(&view, ty);
        }
    }

    fn join_type(&mut self, view: &Arc<View>, ty: TypeUrl) {
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        if entry.findings_root.is_none() {
            let root = self.engine.root(&FindingsOfView(view.clone()));
            entry.findings_root = Some(root);
            self.roots.insert(root, Root::Findings(view.clone()));
        }
        match &mut entry.types[ty as usize] {
            Some((_, count)) => *count += 1,
            empty => {
                let root = self.engine.root(&TypeSet {
                    view: view.clone(),
                    ty,
                });
                *empty = Some((root, 1));
                self.roots.insert(root, Root::Set(view.clone(), ty));
                self.joined.push((view.clone(), ty));
            }
        }
    }

    fn leave_view(&mut self, id: ProxyId, proxy: &Proxy) {
        let Some(view) = &proxy.view else { return };
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        entry.proxies.remove(&id);
        for ty in TypeUrl::ALL
            .into_iter()
            .filter(|t| proxy.types[*t as usize])
        {
            let slot = &mut entry.types[ty as usize];
            if let Some((root, count)) = slot {
                *count -= 1;
                if *count == 0 {
                    self.roots.remove(root);
                    self.engine.release(*root);
                    *slot = None;
                }
            }
        }
        if entry.proxies.is_empty() {
            if let Some(root) = entry.findings_root {
                self.roots.remove(&root);
                self.engine.release(root);
            }
            self.found.replace(entry.findings.as_ref(), None);
            self.views.remove(view);
        }
    }

    /// The value of a query, or nothing if generating it panicked.
    fn pull<Q: Query<Snapshot>>(
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
                tracing::error!(query = ?query, panic = text, "Generation panicked; the former result stays in force.");
                None
            }
        }
    }
}
