//! How much may be derived from routes.
//!
//! A route is served at each listener and host that it attaches to with a copy of its rules: hosts, times references, times
//! listeners. What the copies of one route weigh is bounded before they are made, and so is what all routes of one host
//! weigh together. What exceeds a limit is left out whole, never an older route.

use prost::Message;

/// So few copies of a route are made without weighing its rules.
pub(super) const FEW_COPIES: usize = 16;

/// What the copies of a route may weigh together.
pub(super) const COPIED_BYTES: usize = 64 << 20;

/// What the routes of one host of one listener may weigh together: half of what generation takes of a VirtualService.
pub(super) const HOST_BYTES: usize = 16 << 20;

/// What one route of a VirtualService costs beside what it says.
pub(super) const ROUTE_BYTES: usize = 512;

/// What routes weigh.
pub(super) fn weight<'m, M: Message + 'm>(routes: impl IntoIterator<Item = &'m M>) -> usize {
    let weights = routes
        .into_iter()
        .map(|route| route.encoded_len() + ROUTE_BYTES);
    weights.sum()
}
