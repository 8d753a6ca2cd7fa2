//! What a Gateway or a ListenerSet listens on.

use std::sync::Arc;

use model::{Kind, ObjectKey, ObjectName};

use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// A listener as routes see it.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go parentInfo, 1.32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listener {
    /// Its name.
    pub section: Arc<str>,
    /// The Istio Gateway that is made of it.
    pub gateway: ObjectName,
    /// Its port.
    pub port: u16,
    /// Its protocol, as written.
    pub protocol: Arc<str>,
    /// Its host, as written; empty where it states none.
    pub hostname: Arc<str>,
    /// The hosts of the server: `namespace/host`, or a host alone.
    pub hosts: Vec<Arc<str>>,
    /// The kinds of routes that may attach.
    pub kinds: Vec<Kind>,
}

/// The listeners of a Gateway or ListenerSet that routes can attach to, in order; none of one that is not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ListenersOf(pub ObjectKey);

impl Derive for ListenersOf {
    type Stratum = Routes;
    type Value = Arc<[Arc<Listener>]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let _ = read;
        Arc::from([])
    }
}

/// The Istio Gateways of a Gateway or ListenerSet, one for each listener.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServersOf(pub ObjectKey);

impl Derive for ServersOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let _ = read;
        Outcome::default()
    }
}
