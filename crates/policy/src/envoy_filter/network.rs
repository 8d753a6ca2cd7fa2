//! Patches of the filters of a chain.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/listener_patch.go patchNetworkFilters, 1.32.

use model::diagnostic::Diagnostic;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain};
use proto_istio::networking::envoy_filter::listener_match::FilterMatch;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::http;
use super::listener::{Insert, ListenerContext};
use super::merge::{self, NoMerge};
use super::patch::{ListenerPatches, Patch};
use mesh::capabilities::name::HTTP_CONNECTION_MANAGER;

/// The filter of a chain that a patch names.
pub(super) fn wanted<T>(patch: &Patch<T>) -> Option<&FilterMatch> {
    patch.listener()?.filter_chain.as_ref()?.filter.as_ref()
}

/// Whether a filter of a chain is meant: the one that the patch names, or any.
pub(super) fn matches<T>(patch: &Patch<T>, filter: &Filter) -> bool {
    wanted(patch).is_none_or(|wanted| wanted.name == filter.name)
}

/// Patches the filters of a chain.
pub(super) fn apply(
    patches: &ListenerPatches,
    place: &ListenerContext<'_>,
    chain: &mut FilterChain,
    found: &mut Vec<Diagnostic>,
) {
    // Matching asks for the chain as a whole, but never for its filters.
    let mut filters = std::mem::take(&mut chain.filters);
    for patch in patches.network_filters.iter() {
        if !place.is_meant(patch, chain) {
            continue;
        }
        let is_it = |filter: &Filter| matches(patch, filter);
        let selects = wanted(patch).is_some();
        if let Some(insert) = Insert::of(patch.operation, selects) {
            insert.into(&mut filters, &patch.value, is_it);
        } else if selects && patch.operation == Operation::Replace {
            if let Some(there) = filters.iter_mut().find(|f| is_it(f)) {
                there.clone_from(&patch.value);
            }
        } else if selects && patch.operation == Operation::Remove {
            filters.retain(|f| !is_it(f));
        }
    }
    for filter in &mut filters {
        for patch in patches.network_filters.iter() {
            if patch.operation == Operation::Merge
                && place.is_meant(patch, chain)
                && matches(patch, filter)
                && let Err(why) = merge_filter(filter, &patch.value)
            {
                patch.misfit(found, &filter.name, &why);
            }
        }
        if filter.name == HTTP_CONNECTION_MANAGER {
            http::apply(patches, place, chain, filter, found);
        }
    }
    chain.filters = filters;
}

fn merge_filter(filter: &mut Filter, patch: &Filter) -> Result<(), NoMerge> {
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
