//! Policies that select nothing or target what does not exist.

use std::collections::BTreeMap;

use incr::Cx;
use model::kinds::Kinded;
use model::kinds::gateway_api;
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, PeerAuthentication, ProxyConfig,
    RequestAuthentication, ServiceEntry, Telemetry, TrafficExtension, WasmPlugin,
};
use model::kinds::kube::Service;
use model::{Object, ObjectName};
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selected::unmatched;
use crate::facts::selector_text;
use crate::facts::workloads::{WorkloadsIn, any_matches};
use crate::finding::Report;

macro_rules! selectors {
    ($($kind:ident.$field:ident($path:literal, $labels:expr): $function:ident;)+) => {$(
        pub(crate) fn $function(cx: &Cx<'_, Snapshot>, object: &Object<$kind>, report: &mut Report<'_>) {
            if let Some(selector) = &object.spec.$field {
                selects(cx, object, $path, $labels(selector), report);
            }
        }
    )+};
}

fn match_labels(selector: &WorkloadSelector) -> &BTreeMap<String, String> {
    &selector.match_labels
}

fn labels(selector: &proto_istio::networking::WorkloadSelector) -> &BTreeMap<String, String> {
    &selector.labels
}

selectors! {
    PeerAuthentication.selector("spec.selector", match_labels): peer_authentication;
    RequestAuthentication.selector("spec.selector", match_labels): request_authentication;
    WasmPlugin.selector("spec.selector", match_labels): wasm_plugin;
    TrafficExtension.selector("spec.selector", match_labels): traffic_extension;
    ProxyConfig.selector("spec.selector", match_labels): proxy_config;
    DestinationRule.workload_selector("spec.workloadSelector", match_labels): destination_rule;
    EnvoyFilter.workload_selector("spec.workloadSelector", labels): envoy_filter;
}

fn selects<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    path: &str,
    labels: &BTreeMap<String, String>,
    report: &mut Report<'_>,
) {
    if labels.is_empty() {
        return;
    }
    let namespace = object.namespace();
    let mesh_wide = namespace.as_str() == cx.settings().mesh.root_namespace;
    let place = match mesh_wide {
        true => "the mesh".to_owned(),
        false => format!("namespace {namespace}"),
    };
    let found = if mesh_wide {
        any_matches(cx, labels)
    } else {
        let workloads = cx.query(&WorkloadsIn(namespace.clone()));
        workloads.matching(labels).next().is_some()
    };
    if found {
        return;
    }
    if let Some(severity) = unmatched(cx, (!mesh_wide).then_some(namespace), labels) {
        report
            .add(
                object,
                &code::SELECTS_NOTHING,
                path,
                format!(
                    "no workload of {place} has the labels {}",
                    selector_text(labels)
                ),
            )
            .help("correct the labels, or remove the object: it applies to nothing")
            .at_most(severity);
    }
}

macro_rules! targets {
    ($($kind:ident($($single:ident)?): $function:ident;)+) => {$(
        pub(crate) fn $function(cx: &Cx<'_, Snapshot>, object: &Object<$kind>, report: &mut Report<'_>) {
            $(if let Some(target) = &object.spec.$single {
                exists(cx, object, target, "spec.targetRef".to_owned(), report);
            })?
            for (i, target) in object.spec.target_refs.iter().enumerate() {
                exists(cx, object, target, format!("spec.targetRefs[{i}]"), report);
            }
        }
    )+};
}

targets! {
    AuthorizationPolicy(target_ref): authorization_policy_targets;
    RequestAuthentication(target_ref): request_authentication_targets;
    Telemetry(target_ref): telemetry_targets;
    WasmPlugin(target_ref): wasm_plugin_targets;
    TrafficExtension(): traffic_extension_targets;
    EnvoyFilter(): envoy_filter_targets;
}

fn exists<T: Kinded>(
    cx: &Cx<'_, Snapshot>,
    object: &Object<T>,
    target: &PolicyTargetReference,
    path: String,
    report: &mut Report<'_>,
) {
    let namespace = match target.namespace.as_str() {
        "" => object.namespace().clone(),
        stated => stated.into(),
    };
    let name = ObjectName::new(namespace, target.name.as_str());
    let found = match (target.group.as_str(), target.kind.as_str()) {
        ("gateway.networking.k8s.io", "Gateway") => cx.get::<gateway_api::Gateway>(&name).is_some(),
        ("" | "core", "Service") => cx.get::<Service>(&name).is_some(),
        ("networking.istio.io", "ServiceEntry") => cx.get::<ServiceEntry>(&name).is_some(),
        // Classes are made by their controllers, and other kinds are not read.
        _ => true,
    };
    if !found {
        report
            .add(
                object,
                &code::TARGET_NOT_FOUND,
                path,
                format!("there is no {} {name}", target.kind),
            )
            .help("correct the name: a policy applies to targets of its own namespace");
    }
}
