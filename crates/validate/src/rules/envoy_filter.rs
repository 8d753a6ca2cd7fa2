//! EnvoyFilter.
// Istio: pkg/config/validation/envoyfilter/envoyfilter.go, 1.32.

mod value;

use proto_istio::networking::EnvoyFilter;
use proto_istio::networking::envoy_filter::envoy_config_object_match::ObjectTypes;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::{
    ApplyTo, EnvoyConfigObjectMatch, EnvoyConfigObjectPatch, ListenerMatch, PatchContext,
};

use super::selector;
use crate::report::{At, Report};
use crate::text::re2_syntax;

/// Characters that the expression for versions of proxies may have.
const LONGEST_VERSION: usize = 1024;
const CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
const OLD_CONNECTION_MANAGER: &str = "envoy.http_connection_manager";

pub(super) fn check(filter: &EnvoyFilter, at: &At<'_>, report: &mut Report) {
    if !selector::older(filter.workload_selector.as_ref(), at, report) {
        return;
    }
    for (at, patch) in at.field("configPatches").each(&filter.config_patches) {
        config_patch(patch, &at, report);
    }
}

fn config_patch(of: &EnvoyConfigObjectPatch, at: &At<'_>, report: &mut Report) {
    let matching = of.r#match.as_ref();
    // Waypoints are not looked at yet by Istio either.
    if matching.is_some_and(|m| m.context() == PatchContext::Waypoint) {
        return;
    }
    let apply_to = of.apply_to();
    if apply_to == ApplyTo::Invalid {
        return report.error(&at.field("applyTo"), "what the patch is for is needed");
    }
    let at_patch = at.field("patch");
    let Some(patch) = &of.patch else {
        return report.error(&at_patch, "a patch is needed");
    };
    if patch.operation() == Operation::Invalid {
        return report.error(&at_patch.field("operation"), "an operation is needed");
    }
    if patch.operation() != Operation::Remove && patch.value.is_none() {
        return report.error(&at_patch.field("value"), "a value is needed");
    }
    if let Some(matching) = matching
        && !match_fits(matching, apply_to, &at.field("match"), report)
    {
        return;
    }
    if let Some(body) = &patch.value {
        value::check(body, apply_to, &at_patch.field("value"), report);
    }
}

/// Whether the rest of the patch is worth looking at.
fn match_fits(
    matching: &EnvoyConfigObjectMatch,
    apply_to: ApplyTo,
    at: &At<'_>,
    report: &mut Report,
) -> bool {
    let version = matching.proxy.as_ref().map_or("", |p| &p.proxy_version);
    let at_proxy = at.field("proxy");
    let at_version = at_proxy.field("proxyVersion");
    if version.len() > LONGEST_VERSION {
        let message = format!("more than {LONGEST_VERSION} characters, so it is not used");
        report.warning(&at_version, message);
    } else if let Err(fault) = re2_syntax(version) {
        report.error(&at_version, fault);
        return false;
    }
    let Some(object) = &matching.object_types else {
        return true;
    };
    let field = match object {
        ObjectTypes::Listener(_) => "listener",
        ObjectTypes::RouteConfiguration(_) => "routeConfiguration",
        ObjectTypes::Cluster(_) => "cluster",
        ObjectTypes::Waypoint(_) => "waypoint",
    };
    let at = &at.field(field);
    match apply_to {
        ApplyTo::Listener | ApplyTo::FilterChain | ApplyTo::NetworkFilter | ApplyTo::HttpFilter => {
            let ObjectTypes::Listener(listener) = object else {
                report.error(at, "this patch can only match by `listener`");
                return false;
            };
            listener_fits(listener, apply_to, at, report)
        }
        ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute => {
            if !matches!(object, ObjectTypes::RouteConfiguration(_)) {
                report.error(at, "this patch can only match by `routeConfiguration`");
            }
            true
        }
        ApplyTo::Cluster => {
            if !matches!(object, ObjectTypes::Cluster(_)) {
                report.error(at, "this patch can only match by `cluster`");
            }
            true
        }
        _ => true,
    }
}

fn listener_fits(
    listener: &ListenerMatch,
    apply_to: ApplyTo,
    at: &At<'_>,
    report: &mut Report,
) -> bool {
    let chain = listener.filter_chain.as_ref();
    let Some(filter) = chain.and_then(|chain| chain.filter.as_ref()) else {
        return true;
    };
    let at = at.field("filterChain");
    let at = at.field("filter");
    if matches!(apply_to, ApplyTo::Listener | ApplyTo::FilterChain) {
        let message = "a filter cannot be matched by this patch, so this is not used";
        report.warning(&at, message);
    }
    if filter.name.is_empty() {
        report.error(&at.field("name"), "the name of the filter is needed");
        return false;
    }
    let at_sub = at.field("subFilter");
    let sub = filter.sub_filter.as_ref();
    if let Some(sub) = sub {
        let fault = if apply_to != ApplyTo::HttpFilter {
            Some("only patches of HTTP_FILTER can match by it")
        } else if ![CONNECTION_MANAGER, OLD_CONNECTION_MANAGER].contains(&filter.name.as_str()) {
            Some("only envoy.filters.network.http_connection_manager has filters within it")
        } else if sub.name.is_empty() {
            Some("the name of the filter is needed")
        } else {
            None
        };
        if let Some(fault) = fault {
            report.error(&at_sub, fault);
            return false;
        }
    }
    value::deprecated_name(&filter.name, &at.field("name"), report);
    if let Some(sub) = sub {
        value::deprecated_name(&sub.name, &at_sub.field("name"), report);
    }
    true
}
