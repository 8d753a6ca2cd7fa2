//! Extension configurations that patches add, for filters which ask for them by name.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/extension_configuration_patch.go, 1.32.

use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::patch::{Patch, Patches};

/// The patches that add one, in order.
pub fn added(
    patches: &Patches<TypedExtensionConfig>,
) -> impl Iterator<Item = &Patch<TypedExtensionConfig>> {
    patches
        .iter()
        .filter(|patch| patch.operation == Operation::Add)
}
