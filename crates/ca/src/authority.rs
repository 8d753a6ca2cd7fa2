//! The CA of a mesh as others see it: a signer, roots that may change, and how it is.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use crate::Clock;
use crate::issuer::Issuer;
use crate::roots::Roots;
use crate::signer::{Lifetimes, OwnSigner, Signer};

/// The CA of a mesh. Cheap to clone.
#[derive(Clone)]
pub struct Authority {
    signer: Arc<dyn Signer>,
    roots: watch::Receiver<Arc<Roots>>,
    state: watch::Receiver<Arc<State>>,
}

/// How the CA is, for metrics and pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// What it is, for people: `self-signed, in Secret istio-system/istio-ca-secret`.
    pub about: String,
    /// When the first root expires.
    pub root_expires: Option<SystemTime>,
    /// When the first certificate of the chain expires; none where leaves are signed by a root.
    pub chain_expires: Option<SystemTime>,
    /// From when on a new root signs, which is being distributed.
    pub next_signs_from: Option<SystemTime>,
    /// What is wrong with it.
    pub fault: Option<Arc<str>>,
}

impl Authority {
    /// An authority whose signer and roots others keep up to date.
    pub(crate) fn new(
        signer: Arc<dyn Signer>,
        roots: watch::Receiver<Arc<Roots>>,
        state: watch::Receiver<Arc<State>>,
    ) -> Self {
        Self {
            signer,
            roots,
            state,
        }
    }

    /// A CA that never changes.
    pub fn fixed(issuer: Issuer, lifetimes: Lifetimes, clock: Clock) -> Self {
        let (publisher, authority) = Publisher::new("fixed", lifetimes, clock);
        publisher.put(Arc::new(issuer));
        authority
    }

    /// What signs.
    pub fn signer(&self) -> Arc<dyn Signer> {
        self.signer.clone()
    }

    /// What peers are judged by; empty until it is known.
    pub fn roots(&self) -> watch::Receiver<Arc<Roots>> {
        self.roots.clone()
    }

    /// How it is.
    pub fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Waits until there are roots, and so something to sign with; for ever where there never will be.
    pub async fn ready(&self) {
        let mut roots = self.roots.clone();
        if roots.wait_for(|roots| roots.are_known()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Where whoever keeps a CA of ours says which one is in force.
pub(crate) struct Publisher {
    issuer: watch::Sender<Option<Arc<Issuer>>>,
    roots: watch::Sender<Arc<Roots>>,
    state: watch::Sender<Arc<State>>,
}

impl Publisher {
    pub(crate) fn new(
        about: impl Into<String>,
        lifetimes: Lifetimes,
        clock: Clock,
    ) -> (Self, Authority) {
        let state = State {
            about: about.into(),
            ..State::default()
        };
        let publisher = Self {
            issuer: watch::Sender::new(None),
            roots: watch::Sender::default(),
            state: watch::Sender::new(Arc::new(state)),
        };
        let signer = OwnSigner::new(publisher.issuer.subscribe(), lifetimes, clock);
        let authority = Authority::new(
            Arc::new(signer),
            publisher.roots.subscribe(),
            publisher.state.subscribe(),
        );
        (publisher, authority)
    }

    /// Puts a CA in force: its roots first, so that nothing is signed before those who judge it can know.
    pub(crate) fn put(&self, issuer: Arc<Issuer>) {
        let known = self.roots.borrow().clone();
        let roots = issuer.as_roots(known.generation);
        if roots != *known {
            let generation = known.generation + 1;
            self.roots.send_replace(Arc::new(Roots {
                generation,
                ..roots
            }));
        }
        self.tell(|state| {
            state.root_expires = issuer.roots().first().map(|root| root.not_after());
            state.chain_expires = issuer.chain().first().map(|first| first.not_after());
            state.fault = None;
        });
        self.issuer.send_replace(Some(issuer));
    }

    /// Changes what is known of the CA.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = State::clone(&self.state.borrow());
        change(&mut state);
        self.state.send_if_modified(|known| {
            let differs = **known != state;
            *known = Arc::new(state);
            differs
        });
    }

    /// What is wrong.
    pub(crate) fn fault(&self) -> Option<Arc<str>> {
        self.state.borrow().fault.clone()
    }

    /// What is in force.
    pub(crate) fn issuer(&self) -> Option<Arc<Issuer>> {
        self.issuer.borrow().clone()
    }
}
