//! Patches of EnvoyFilters whose operation has no effect, or depends on other patches.

use std::collections::BTreeSet;

use incr::Cx;
use model::Object;
use model::kinds::istio::EnvoyFilter;
use proto_istio::networking::envoy_filter::envoy_config_object_match::ObjectTypes;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::{ApplyTo, EnvoyConfigObjectPatch};
use store::{Reads, Snapshot};

use crate::code::{self, Code};
use crate::finding::Report;

/// What a patch is about: a name in its value, or the name of the filter it matches. The two are never compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Instance {
    Value(String),
    Match(String),
}

/// Filters are looked at in the order of their names: a patch may depend on one of another filter.
///
/// Istio: pkg/config/analysis/analyzers/envoyfilter/envoyfilter.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let mut by_version = BTreeSet::new();
    for filter in cx.list::<EnvoyFilter>() {
        one(&filter, &mut by_version, report);
    }
}

fn one(filter: &Object<EnvoyFilter>, by_version: &mut BTreeSet<Instance>, report: &mut Report<'_>) {
    // Of patches with the same fault the first is reported.
    let mut told = BTreeSet::new();
    for (i, config) in filter.spec.config_patches.iter().enumerate() {
        let Some(patch) = &config.patch else { break };
        let instance = instance(config);
        let path = format!("spec.configPatches[{i}].patch");
        let ineffective = ineffective(config.apply_to(), patch.operation());
        if let Some(code) = ineffective
            && told.insert(code.id)
        {
            let message = format!(
                "{} has no effect on {}: the patch is passed over",
                patch.operation().as_str_name(),
                config.apply_to().as_str_name()
            );
            report
                .add(filter, code, path.clone(), message)
                .help("use MERGE, or patch an object that takes this operation");
        }
        let relative = ineffective.is_none()
            && matches!(
                patch.operation(),
                Operation::Remove
                    | Operation::Replace
                    | Operation::InsertBefore
                    | Operation::InsertAfter
            );
        if relative && filter.spec.priority == 0 {
            let operation = patch.operation().as_str_name();
            let versioned = by_version.contains(&instance);
            let code = match versioned {
                true => &code::RELATIVE_OPERATION_WITH_VERSION,
                false => &code::RELATIVE_OPERATION,
            };
            if !told.insert(code.id) {
            } else if versioned {
                report
                    .add(
                        filter,
                        code,
                        path,
                        format!("{operation} needs what another patch adds for some versions of the proxy only"),
                    )
                    .help("match the same proxyVersion here, and set a priority so that this patch comes after the other");
            } else {
                report
                    .add(
                        filter,
                        code,
                        path,
                        format!("{operation} does nothing where what it refers to comes from a patch that is applied later"),
                    )
                    .help("set a priority, which orders filters before their age does");
            }
        }
        let version = config.r#match.as_ref().and_then(|m| m.proxy.as_ref());
        if version.is_some_and(|p| !p.proxy_version.is_empty()) {
            by_version.insert(instance);
        }
    }
}

/// The code of an operation that does nothing to such objects; `None` where it does something.
fn ineffective(apply_to: ApplyTo, operation: Operation) -> Option<&'static Code> {
    let routes = matches!(apply_to, ApplyTo::RouteConfiguration | ApplyTo::HttpRoute);
    let replaceable = matches!(
        apply_to,
        ApplyTo::NetworkFilter | ApplyTo::HttpFilter | ApplyTo::VirtualHost
    );
    match operation {
        Operation::Add if routes => Some(&code::ADD_INCORRECT),
        Operation::Remove if routes => Some(&code::REMOVE_INCORRECT),
        Operation::Replace if !replaceable => Some(&code::REPLACE_INCORRECT),
        _ => None,
    }
}

fn instance(config: &EnvoyConfigObjectPatch) -> Instance {
    let none = Instance::Match(String::new());
    let value = config.patch.as_ref().and_then(|p| p.value.as_ref());
    let Some(value) = value.filter(|v| !v.0.fields.is_empty()) else {
        return none;
    };
    if let Some(name) = value.0.fields.get("name") {
        return Instance::Value(format!("{name:?}"));
    }
    match config
        .r#match
        .as_ref()
        .and_then(|m| m.object_types.as_ref())
    {
        Some(ObjectTypes::Listener(listener)) => {
            let filter = listener
                .filter_chain
                .as_ref()
                .and_then(|c| c.filter.as_ref());
            Instance::Match(filter.map(|f| f.name.clone()).unwrap_or_default())
        }
        _ => none,
    }
}
