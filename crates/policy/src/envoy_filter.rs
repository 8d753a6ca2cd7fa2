//! EnvoyFilters: patches that operators lay over what is generated.
//!
//! ```text
//! Compiled(object) ─▶ SelectedBy(proxy) ─▶ ClusterPatchesOf, ListenerPatchesOf, RoutePatchesOf, ExtensionPatchesOf
//!                                                   │ narrowed to one resource
//!                                                   ▼
//!                                          keys of the leaves: build → patch → encode
//! ```
//!
//! An object is read once. A proxy's patches are part of the key of a leaf only where one of them may concern it, so
//! that everything else stays shared, and an edit reaches no proxy that the object does not select.
//!
//! Istio: pilot/pkg/model/envoyfilter.go, pilot/pkg/networking/core/envoyfilter, 1.32.

pub mod cluster;
mod compile;
mod danger;
pub mod extension;
mod http;
pub mod listener;
mod merge;
mod network;
mod patch;
pub mod route;
mod select;
mod size;
#[cfg(test)]
mod tables;
mod value;

pub use compile::{Compiled, CompiledFilter};
pub use patch::{ListenerPatches, Patch, Patches, RoutePatches};
pub use select::PatchesLeftOut;
pub use select::{
    ClusterPatchesOf, ExtensionPatchesOf, ListenerPatchesOf, RoutePatchesOf, Selected, SelectedBy,
};

/// The side of a proxy on which a patch works.
pub use proto_istio::networking::envoy_filter::PatchContext as Context;
