//! Patches of the filters of HTTP connection managers.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/listener_patch.go patchHTTPFilters, 1.32.

use model::diagnostic::Diagnostic;
use prost::Message;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType as NetworkConfig;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::listener::{Insert, ListenerContext};
use super::merge::{self, NoMerge};
use super::network;
use super::patch::{ListenerPatches, Patch};
use xds::any;

use hcm::http_filter::ConfigType;
use hcm::{HttpConnectionManager, HttpFilter};

/// Patches the filters of a connection manager; it is read and written again only where a patch is for it.
pub(super) fn apply(
    patches: &ListenerPatches,
    place: &ListenerContext<'_>,
    chain: &FilterChain,
    manager: &mut Filter,
    found: &mut Vec<Diagnostic>,
) {
    let is_meant = |patch: &Patch<HttpFilter>| {
        place.is_meant(patch, chain) && network::matches(patch, manager)
    };
    let meant: Vec<&Patch<HttpFilter>> = patches
        .http_filters
        .iter()
        .filter(|p| is_meant(p))
        .collect();
    let Some(NetworkConfig::TypedConfig(config)) = &mut manager.config_type else {
        return;
    };
    if meant.is_empty() {
        return;
    }
    let Ok(mut read) = HttpConnectionManager::decode(config.value.as_slice()) else {
        return;
    };
    patch_filters(&meant, &mut read.http_filters, found);
    *config = any(&read);
}

fn patch_filters(
    patches: &[&Patch<HttpFilter>],
    filters: &mut Vec<HttpFilter>,
    found: &mut Vec<Diagnostic>,
) {
    for patch in patches {
        let name = wanted(patch);
        let is_it = |filter: &HttpFilter| name.is_none_or(|name| name == filter.name);
        if let Some(insert) = Insert::of(patch.operation, name.is_some()) {
            insert.into(filters, &patch.value, is_it);
        } else if name.is_some() && patch.operation == Operation::Replace {
            if let Some(there) = filters.iter_mut().find(|f| is_it(f)) {
                there.clone_from(&patch.value);
            }
        } else if name.is_some() && patch.operation == Operation::Remove {
            filters.retain(|f| !is_it(f));
        }
    }
    for filter in filters {
        for patch in patches.iter().filter(|p| p.operation == Operation::Merge) {
            if wanted(patch).is_none_or(|name| name == filter.name)
                && let Err(why) = merge_filter(filter, &patch.value)
            {
                patch.misfit(found, &filter.name, &why);
            }
        }
    }
}

/// The filter of a connection manager that a patch names.
fn wanted(patch: &Patch<HttpFilter>) -> Option<&str> {
    let filter = network::wanted(patch)?.sub_filter.as_ref()?;
    Some(&filter.name)
}

fn merge_filter(filter: &mut HttpFilter, patch: &HttpFilter) -> Result<(), NoMerge> {
    let there = match &mut filter.config_type {
        Some(ConfigType::TypedConfig(config)) => Some(config),
        _ => None,
    };
    let new = match &patch.config_type {
        Some(ConfigType::TypedConfig(config)) => Some(config),
        _ => None,
    };
    merge::merge_filter((&mut filter.name, there), (&patch.name, new))
}
