//! What generation wants of the outside, for those who fetch it: each kind on a channel that holds the newest list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::jwks::{Demand, KeySource};
use store::Snapshot;
use tokio::sync::watch;
use xlate::View;

/// The sources that keys of token issuers are to be fetched from, each with who wants them.
pub type KeysWanted = Arc<BTreeMap<KeySource, Demand>>;
/// The names whose addresses are to be looked up.
pub type NamesWanted = Arc<BTreeSet<Arc<str>>>;

/// The identities (`spiffe://...`) of connected proxies whose certificates are to be made.
pub type CertificatesWanted = Arc<BTreeSet<Arc<str>>>;

/// Where the derive thread says what it wants.
#[derive(Default)]
pub(super) struct Wants {
    pub(super) keys: watch::Sender<KeysWanted>,
    pub(super) names: watch::Sender<NamesWanted>,
    certificates: watch::Sender<CertificatesWanted>,
    /// How many views want the certificate of each identity.
    views: BTreeMap<Arc<str>, usize>,
    /// Whether others are to hear of them.
    moved: bool,
}

/// Where others hear it.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) keys: watch::Receiver<KeysWanted>,
    pub(super) names: watch::Receiver<NamesWanted>,
    pub(super) certificates: watch::Receiver<CertificatesWanted>,
}

impl Wants {
    /// The other ends.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            keys: self.keys.subscribe(),
            names: self.names.subscribe(),
            certificates: self.certificates.subscribe(),
        }
    }

    /// A view has come.
    pub(super) fn view_came(&mut self, view: &View) {
        if let Some(identity) = view.own_certificate() {
            let views = self.views.entry(identity.clone()).or_default();
            *views += 1;
            self.moved |= *views == 1;
        }
    }

    /// A view is gone.
    pub(super) fn view_left(&mut self, view: &View) {
        let Some(identity) = view.own_certificate() else {
            return;
        };
        if let Some(views) = self.views.get_mut(identity) {
            *views -= 1;
            if *views == 0 {
                self.views.remove(identity);
                self.moved = true;
            }
        }
    }

    /// Tells of the certificates that are wanted, if they are others than before.
    pub(super) fn tell_certificates(&mut self) {
        if std::mem::take(&mut self.moved) {
            let wanted = Arc::new(self.views.keys().cloned().collect());
            tell(&self.certificates, &wanted);
        }
    }

    /// Whether an outcome is known of all that is wanted.
    pub(super) fn are_met(&self, snapshot: &Snapshot) -> bool {
        let keys = self.keys.borrow();
        let names = self.names.borrow();
        let fetched = |source| snapshot.keys.get(source).is_some();
        let resolved = |name: &Arc<str>| snapshot.addresses.get(name).is_some();
        keys.keys().all(fetched) && names.iter().all(resolved)
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
