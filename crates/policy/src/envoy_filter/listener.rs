//! Patches of listeners, of the filters before the choice of a chain, and of filter chains.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/listener_patch.go, 1.32.

use model::diagnostic::Diagnostic;
use proto_envoy::envoy::config::core::v3::address::Address;
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::listener::v3::listener_filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener, ListenerFilter};
use proto_istio::networking::envoy_filter::ListenerMatch;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::Context;
use super::cluster::{adds_to, merge_config};
use super::merge::{Lists, NoMerge, merge, merge_any};
use super::network;
use super::patch::{ListenerPatches, Patch, is_virtual};

/// The listener as the patches leave it; `None` where one of them takes it out.
pub fn apply(
    patches: &ListenerPatches,
    context: Context,
    mut listener: Listener,
    found: &mut Vec<Diagnostic>,
) -> Option<Listener> {
    for patch in patches.listeners.iter() {
        if !patch.is_for(context) || !matches(patch.listener(), &listener, true) {
            continue;
        }
        if patch.operation == Operation::Remove {
            return None;
        }
        if let Some(lists) = patch.lists() {
            merge(&mut listener, &patch.value, lists);
        }
    }
    listener_filters(patches, context, &mut listener, found);
    chains(patches, context, &mut listener, found);
    // One without a name cannot be told from others.
    (!listener.name.is_empty()).then_some(listener)
}

/// The listeners that are added to a side of a proxy.
pub fn added(patches: &ListenerPatches, context: Context) -> impl Iterator<Item = &Listener> {
    patches
        .listeners
        .iter()
        .filter(move |p| p.operation == Operation::Add && adds_to(p.context, context))
        .map(|p| &p.value)
        .filter(|listener| !listener.name.is_empty())
}

/// Whether a listener is meant. The port of one that takes redirected traffic counts only where the listener itself is
/// meant: inside it, ports are those of chains.
fn matches(wanted: Option<&ListenerMatch>, listener: &Listener, itself: bool) -> bool {
    let Some(wanted) = wanted else {
        return true;
    };
    if !wanted.name.is_empty() && wanted.name != listener.name {
        return false;
    }
    if wanted.port_number == 0 || (!itself && is_virtual(&listener.name)) {
        return true;
    }
    port(listener) == Some(wanted.port_number)
}

fn port(listener: &Listener) -> Option<u32> {
    match listener.address.as_ref()?.address.as_ref()? {
        Address::SocketAddress(socket) => match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => Some(port),
            _ => Some(0),
        },
        _ => None,
    }
}

/// Where a chain stands, as far as patches ask for it.
pub(super) struct ListenerContext<'a> {
    pub(super) context: Context,
    pub(super) listener: &'a Listener,
}

impl ListenerContext<'_> {
    /// Whether a patch is for something in this chain of this listener.
    pub(super) fn is_meant<T>(&self, patch: &Patch<T>, chain: &FilterChain) -> bool {
        patch.is_for(self.context)
            && matches(patch.listener(), self.listener, false)
            && self.chain_matches(patch.listener(), chain)
    }

    fn chain_matches(&self, wanted: Option<&ListenerMatch>, chain: &FilterChain) -> bool {
        let Some(wanted) = wanted else {
            return true;
        };
        let matching = chain.filter_chain_match.as_ref();
        let port = matching.and_then(|m| m.destination_port);
        if is_virtual(&self.listener.name)
            && wanted.port_number > 0
            && port.unwrap_or(0) != wanted.port_number
        {
            return false;
        }
        let Some(wanted) = &wanted.filter_chain else {
            return true;
        };
        let names = matching.map_or(&[][..], |m| &m.server_names);
        let transport = matching.map_or("", |m| &m.transport_protocol);
        let protocols = matching.map_or(&[][..], |m| &m.application_protocols);
        (wanted.name.is_empty() || wanted.name == chain.name)
            && (wanted.sni.is_empty() || names.contains(&wanted.sni))
            && (wanted.transport_protocol.is_empty() || wanted.transport_protocol == transport)
            && (wanted.application_protocols.is_empty()
                || wanted
                    .application_protocols
                    .split(',')
                    .all(|wanted| protocols.iter().any(|p| p == wanted)))
            && (wanted.destination_port == 0 || port == Some(wanted.destination_port))
    }
}

/// Where among others something is put.
pub(super) enum Insert {
    First,
    Last,
    /// Before the first that matches, if there is one.
    Before,
    /// After the first that matches, if there is one.
    After,
}

impl Insert {
    /// The place that an operation means; `selects` says whether the patch names one of the others.
    pub(super) fn of(operation: Operation, selects: bool) -> Option<Self> {
        match operation {
            Operation::Add => Some(Self::Last),
            Operation::InsertFirst => Some(Self::First),
            Operation::InsertBefore if selects => Some(Self::Before),
            Operation::InsertBefore => Some(Self::First),
            Operation::InsertAfter if selects => Some(Self::After),
            Operation::InsertAfter => Some(Self::Last),
            _ => None,
        }
    }

    /// Puts it there.
    pub(super) fn into<T: Clone>(self, list: &mut Vec<T>, value: &T, is_it: impl Fn(&T) -> bool) {
        let at = match self {
            Self::First => Some(0),
            Self::Last => Some(list.len()),
            Self::Before => list.iter().position(is_it),
            Self::After => list.iter().position(is_it).map(|at| at + 1),
        };
        if let Some(at) = at {
            list.insert(at, value.clone());
        }
    }
}

fn listener_filters(
    patches: &ListenerPatches,
    context: Context,
    listener: &mut Listener,
    found: &mut Vec<Diagnostic>,
) {
    for patch in patches.listener_filters.iter() {
        let wanted = patch.listener();
        if !patch.is_for(context) || !matches(wanted, listener, false) {
            continue;
        }
        let name = wanted.map_or("", |m| m.listener_filter.as_str());
        let is_it = |filter: &ListenerFilter| filter.name == name;
        let list = &mut listener.listener_filters;
        if let Some(insert) = Insert::of(patch.operation, !name.is_empty()) {
            insert.into(list, &patch.value, is_it);
            continue;
        }
        // What replaces, removes or merges has to say what.
        if name.is_empty() {
            continue;
        }
        match patch.operation {
            Operation::Replace => {
                if let Some(there) = list.iter_mut().find(|f| is_it(f)) {
                    there.clone_from(&patch.value);
                }
            }
            Operation::Remove => list.retain(|f| !is_it(f)),
            Operation::Merge => {
                for filter in list.iter_mut().filter(|f| is_it(f)) {
                    if let Err(why) = merge_listener_filter(filter, &patch.value) {
                        patch.misfit(found, &filter.name, &why);
                    }
                }
            }
            _ => {}
        }
    }
}

fn merge_listener_filter(
    filter: &mut ListenerFilter,
    patch: &ListenerFilter,
) -> Result<(), NoMerge> {
    match (&mut filter.config_type, &patch.config_type) {
        (Some(ConfigType::TypedConfig(there)), Some(ConfigType::TypedConfig(config))) => {
            merge_any(there, config)
        }
        (_, Some(_)) => Err(NoMerge::Elsewhere),
        (_, None) => Ok(()),
    }
}

fn chains(
    patches: &ListenerPatches,
    context: Context,
    listener: &mut Listener,
    found: &mut Vec<Diagnostic>,
) {
    let all = std::mem::take(&mut listener.filter_chains);
    let default = listener.default_filter_chain.take();
    let place = ListenerContext { context, listener };
    let mut patched =
        |mut chain: FilterChain| chain_stays(patches, &place, &mut chain, found).then_some(chain);
    // A chain without filters does nothing, and stands for one that was taken out.
    let mut kept: Vec<FilterChain> = all
        .into_iter()
        .filter(|chain| !chain.filters.is_empty())
        .filter_map(&mut patched)
        .collect();
    let default = match default {
        Some(chain) if !chain.filters.is_empty() => patched(chain),
        other => other,
    };
    for patch in patches.chains.iter() {
        if patch.operation == Operation::Add
            && patch.is_for(context)
            && matches(patch.listener(), place.listener, false)
            && !patch.value.filters.is_empty()
        {
            kept.push(patch.value.clone());
        }
    }
    listener.filter_chains = kept;
    listener.default_filter_chain = default;
}

fn chain_stays(
    patches: &ListenerPatches,
    place: &ListenerContext<'_>,
    chain: &mut FilterChain,
    found: &mut Vec<Diagnostic>,
) -> bool {
    for patch in patches.chains.iter() {
        if !place.is_meant(patch, chain) {
            continue;
        }
        if patch.operation == Operation::Remove {
            return false;
        }
        if let Some(lists) = patch.lists()
            && let Err(why) = merge_chain(chain, &patch.value, lists)
        {
            patch.misfit(found, &place.listener.name, &why);
        }
    }
    network::apply(patches, place, chain, found);
    true
}

/// A transport socket of the same name is merged, and then nothing else of the patch counts.
fn merge_chain(chain: &mut FilterChain, patch: &FilterChain, lists: Lists) -> Result<(), NoMerge> {
    match (&mut chain.transport_socket, &patch.transport_socket) {
        (Some(there), Some(socket)) if there.name == socket.name => merge_config(there, socket),
        _ => {
            merge(chain, patch, lists);
            Ok(())
        }
    }
}
