//! Mesh config and mesh networks.

use std::path::Path;
use std::sync::Arc;

use model::mesh::{MeshConfig, MeshNetworks, Read};

/// Istio's defaults with what `text` sets over them, judged by all rules.
pub fn read_config(text: &str, file: &Arc<Path>) -> Read<MeshConfig> {
    model::mesh::read_mesh_config(text, file)
}

/// The networks in `text`, judged by all rules.
pub fn read_networks(text: &str, file: &Arc<Path>) -> Read<MeshNetworks> {
    model::mesh::read_mesh_networks(text, file)
}
