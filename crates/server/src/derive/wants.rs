//! What generation wants of the outside, for those who fetch it: each kind on a channel that holds the newest list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::access::AccessKey;
use model::jwks::{Demand, KeySource};
use model::module::ModuleDemand;
use rustc_hash::FxHashMap;
use store::Snapshot;
use tokio::sync::watch;
use xds::TypeUrl;
use xlate::View;
use xlate::wants::{Wants as WantsOf, WantsOfView};

use super::state::{Root, State};

/// The sources that keys of token issuers are to be fetched from, each with who wants them.
pub type KeysWanted = Arc<BTreeMap<KeySource, Demand>>;
/// The names whose addresses are to be looked up.
pub type NamesWanted = Arc<BTreeSet<Arc<str>>>;
/// The workloads whose access to Secrets is to be reviewed.
pub type ReviewsWanted = Arc<BTreeSet<AccessKey>>;

/// The identities (`spiffe://...`) of connected proxies whose certificates are to be made.
pub type CertificatesWanted = Arc<BTreeSet<Arc<str>>>;

/// The Wasm modules that are to be fetched, each with who wants it.
pub type ModulesWanted = Arc<BTreeSet<ModuleDemand>>;

/// Where the derive thread says what it wants.
#[derive(Default)]
pub(super) struct Wants {
    pub(super) keys: watch::Sender<KeysWanted>,
    pub(super) names: watch::Sender<NamesWanted>,
    reviews: watch::Sender<ReviewsWanted>,
    certificates: watch::Sender<CertificatesWanted>,
    modules: watch::Sender<ModulesWanted>,
}

/// Where others hear it.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) keys: watch::Receiver<KeysWanted>,
    pub(super) names: watch::Receiver<NamesWanted>,
    pub(super) reviews: watch::Receiver<ReviewsWanted>,
    pub(super) certificates: watch::Receiver<CertificatesWanted>,
    pub(super) modules: watch::Receiver<ModulesWanted>,
}

impl Wants {
    /// The other ends.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            keys: self.keys.subscribe(),
            names: self.names.subscribe(),
            reviews: self.reviews.subscribe(),
            certificates: self.certificates.subscribe(),
            modules: self.modules.subscribe(),
        }
    }

    /// Whether an outcome is known of all that is wanted.
    pub(super) fn are_met(&self, snapshot: &Snapshot) -> bool {
        let keys = self.keys.borrow();
        let names = self.names.borrow();
        let reviews = self.reviews.borrow();
        let fetched = |source| snapshot.keys.get(source).is_some();
        let resolved = |name: &Arc<str>| snapshot.addresses.get(name).is_some();
        let reviewed = |key| snapshot.access.get(key).is_some();
        keys.keys().all(fetched) && names.iter().all(resolved) && reviews.iter().all(reviewed)
    }
}

/// Tells others of a list, if it is another one.
pub(super) fn tell<T: PartialEq>(others: &watch::Sender<Arc<T>>, list: &Arc<T>) {
    others.send_if_modified(|now| {
        let other = **now != **list;
        if other {
            *now = list.clone();
        }
        other
    });
}

/// What views want, gathered.
#[derive(Default)]
pub(super) struct OfViews {
    entries: FxHashMap<WantsOfView, Entry>,
    /// How many of the entries want each.
    reviews: Counted<AccessKey>,
    certificates: Counted<Arc<str>>,
    modules: Counted<ModuleDemand>,
}

/// How many want each of some things.
struct Counted<T> {
    counts: BTreeMap<T, usize>,
    /// Whether others do not know yet which there are.
    untold: bool,
}

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            untold: false,
        }
    }
}

impl<T: Ord + Clone> Counted<T> {
    /// One wants other things than before.
    fn count(&mut self, before: impl IntoIterator<Item = T>, after: impl IntoIterator<Item = T>) {
        for after in after {
            let count = self.counts.entry(after).or_default();
            *count += 1;
            self.untold |= *count == 1;
        }
        for before in before {
            let Some(count) = self.counts.get_mut(&before) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&before);
                self.untold = true;
            }
        }
    }

    /// Tells others which there are, if they do not know yet.
    fn tell(&mut self, others: &watch::Sender<Arc<BTreeSet<T>>>) {
        if std::mem::take(&mut self.untold) {
            tell(others, &Arc::new(self.counts.keys().cloned().collect()));
        }
    }
}

/// Wants that views share.
struct Entry {
    root: incr::RootId,
    /// How many views want that.
    views: usize,
    wants: WantsOf,
}

impl OfViews {
    /// Takes over what an entry wants.
    fn replace(&mut self, of: &WantsOfView, wants: WantsOf) {
        let Some(entry) = self.entries.get_mut(of) else {
            return;
        };
        let before = std::mem::replace(&mut entry.wants, wants.clone());
        self.count(before, wants);
    }

    fn count(&mut self, before: WantsOf, after: WantsOf) {
        self.reviews.count(before.review, after.review);
        self.certificates
            .count(before.certificate, after.certificate);
        self.modules.count(before.modules, after.modules);
    }
}

impl State {
    /// A view asks for a type.
    pub(super) fn join_wants(&mut self, view: &View, ty: TypeUrl) {
        let Some(of) = view.wants(ty) else {
            return;
        };
        let (engine, roots) = (&mut self.engine, &mut self.roots);
        let entry = self.of_views.entries.entry(of.clone());
        let entry = entry.or_insert_with(|| {
            let root = engine.root(&of);
            roots.insert(root, Root::Wants(of));
            Entry {
                root,
                views: 0,
                wants: WantsOf::default(),
            }
        });
        entry.views += 1;
    }

    /// A view asks for a type no more.
    pub(super) fn leave_wants(&mut self, view: &View, ty: TypeUrl) {
        let Some(of) = view.wants(ty) else {
            return;
        };
        let Some(entry) = self.of_views.entries.get_mut(&of) else {
            return;
        };
        entry.views -= 1;
        if entry.views == 0
            && let Some(entry) = self.of_views.entries.remove(&of)
        {
            self.roots.remove(&entry.root);
            self.engine.release(entry.root);
            self.of_views.count(entry.wants, WantsOf::default());
        }
    }

    /// Takes in what views want, and tells those who see to it.
    pub(super) fn want_for_views(&mut self, snapshot: &Snapshot, changed: Vec<WantsOfView>) {
        for of in changed {
            if let Some(wants) = self.pull(snapshot, &of) {
                self.of_views.replace(&of, WantsOf::clone(&wants));
            }
        }
        self.of_views.reviews.tell(&self.wants.reviews);
        self.of_views.certificates.tell(&self.wants.certificates);
        self.of_views.modules.tell(&self.wants.modules);
    }
}
