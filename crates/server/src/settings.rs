//! Mesh-wide settings, live: from files or ConfigMaps over Istio's defaults, and from flags and the environment.
//!
//! Mesh config has three layers: what a control plane says that is a source of configuration, over it the ConfigMap that
//! `--shared-mesh-config` names, and over both the file of `--mesh-config`, or the ConfigMap `istio` (`istio-REVISION`) where
//! there is no such file. Networks are those of the first layer that has any.
//! ConfigMaps are read from the objects in force, so they may come from any source. What cannot be used changes nothing: the
//! layer's last good version stays in force. At start there may be none; then the server is not ready until there is,
//! because defaults in place of what is meant would change every proxy of the mesh.
//!
//! Istio: pilot/pkg/bootstrap/mesh.go, pkg/config/mesh/meshwatcher/collection.go, 1.32. Istio starts with the defaults there.

mod compose;
mod config_maps;
mod files;
mod headers;
mod higress_flags;
mod ingress;
mod istiod_flags;
mod partners;
mod source;

use model::SourceId;

pub use compose::{Composed, Composer};
pub use config_maps::{ConfigMaps, PeerMesh, Told};
pub use higress_flags::HigressFlags;
pub use ingress::{Dialect, IngressOptions};
pub use istiod_flags::IstiodFlags;
pub use source::{SettingsSource, Settled, settled};

/// Under which source findings about settings are shown.
pub fn source() -> SourceId {
    SourceId {
        rank: 0,
        name: "settings".into(),
    }
}
