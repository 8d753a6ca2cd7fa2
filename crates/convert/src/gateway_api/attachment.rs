//! What a route attaches to.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ObjectKey;
use model::kinds::gateway_api::ParentRef;

use super::listener::Listener;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// A route at one listener of a parent, or at a service of the mesh.
///
/// Istio: pilot/pkg/config/kube/gateway/conversion.go routeParentReference, 1.32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Attachment {
    /// The parent as the route names it.
    pub reference: ParentRef,
    /// The parent.
    pub parent: ObjectKey,
    /// The listener; `None` for a service.
    pub listener: Option<Arc<Listener>>,
    /// Why it is refused, if it is.
    pub refused: Option<Refused>,
    /// Hosts that other listeners of the same port and protocol take.
    pub taken: BTreeSet<Arc<str>>,
    /// Why no waypoint would route by it, for a service.
    pub no_waypoint: Option<&'static str>,
}

/// Why a route may not attach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// The reason of the condition `Accepted`.
    pub reason: RefusedReason,
    /// For people.
    pub message: Arc<str>,
}

/// A reason why a route may not attach, the one that outweighs the others first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum RefusedReason {
    /// Its kind or namespace is not allowed.
    NotAllowedByListeners,
    /// None of its hosts is one of the listener.
    NoMatchingListenerHostname,
    /// Another reference names the same parent.
    ParentRefConflict,
    /// The parent, section or port is not there.
    NoMatchingParent,
}

/// The attachments of a route of any kind, in the order of its references as text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AttachmentsOf(pub ObjectKey);

impl Derive for AttachmentsOf {
    type Stratum = Routes;
    type Value = Arc<[Attachment]>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let _ = read;
        Arc::from([])
    }
}
