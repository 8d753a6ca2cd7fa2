//! Objects that were rejected and stand closed, with a finding for each.
//!
//! What a substitute does is decided where it is made (`model::closed`) and where policies are read; here its author, and
//! everybody whom it stops, can see why.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Namespace;
use model::closed::EVERY_SERVICE;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::gateway_api::{BackendTlsPolicy, PolicyTargetRef};
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, PeerAuthentication, RequestAuthentication,
    TrafficExtension, WasmPlugin,
};
use model::kinds::kube::{Ingress, IngressRule};
use model::object::Object;
use proto_istio::extensions::PluginType;
use proto_istio::extensions::traffic_extension::FilterConfig;
use store::index::{CLOSED, ObjectIndex};
use store::snapshot::Stored;
use store::{Reads, Snapshot};

use crate::finding::{about, code};
use crate::policy_target::Target;

/// A finding for each object that stands closed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClosedObjects;

impl Query<Snapshot> for ClosedObjects {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let mut found = Vec::new();
        find::<AuthorizationPolicy>(cx, &mut found, |policy| {
            let target = Target {
                namespace: policy.namespace(),
                selector: policy.spec.selector.as_ref(),
                target_refs: &policy.spec.target_refs,
                target_ref: policy.spec.target_ref.as_ref(),
            };
            format!("all requests to {} are denied", covered(&target, &root))
        });
        find::<RequestAuthentication>(cx, &mut found, |policy| {
            let target = Target {
                namespace: policy.namespace(),
                selector: policy.spec.selector.as_ref(),
                target_refs: &policy.spec.target_refs,
                target_ref: policy.spec.target_ref.as_ref(),
            };
            format!("all requests to {} are denied", covered(&target, &root))
        });
        find::<PeerAuthentication>(cx, &mut found, |policy| {
            let target = Target {
                namespace: policy.namespace(),
                selector: policy.spec.selector.as_ref(),
                target_refs: &[],
                target_ref: None,
            };
            let to = covered(&target, &root);
            format!("connections without mutual TLS to {to} are refused")
        });
        find::<DestinationRule>(cx, &mut found, |rule| {
            let host = &rule.spec.host;
            format!(
                "connections to {host} have TLS as far as its settings can be read, and fail where they cannot"
            )
        });
        find::<Ingress>(cx, &mut found, of_ingress);
        find::<BackendTlsPolicy>(cx, &mut found, |policy| {
            let refs = policy.spec.target_refs.iter();
            let name = |to: &PolicyTargetRef| match *to.name == *EVERY_SERVICE {
                true => format!("all Services of namespace {}", policy.namespace()),
                false => format!("{} {}", to.kind, to.name),
            };
            let names: Vec<String> = refs.map(name).collect();
            match names.is_empty() {
                true => "it has no targetRefs, so it protects no connection".to_owned(),
                false => format!("connections to {} fail", names.join(" and ")),
            }
        });
        find::<WasmPlugin>(cx, &mut found, |plugin| {
            let target = Target {
                namespace: plugin.namespace(),
                selector: plugin.spec.selector.as_ref(),
                target_refs: &plugin.spec.target_refs,
                target_ref: plugin.spec.target_ref.as_ref(),
            };
            refused(plugin.spec.r#type(), &covered(&target, &root))
        });
        find::<TrafficExtension>(cx, &mut found, |extension| {
            let target = Target {
                namespace: extension.namespace(),
                selector: extension.spec.selector.as_ref(),
                target_refs: &extension.spec.target_refs,
                target_ref: None,
            };
            let of = match &extension.spec.filter_config {
                Some(FilterConfig::Wasm(config)) => config.r#type(),
                _ => PluginType::UnspecifiedPluginType,
            };
            refused(of, &covered(&target, &root))
        });
        found.into()
    }
}

/// What a closed Ingress does, in words.
fn of_ingress(ingress: &Object<Ingress>) -> String {
    let namespace = ingress.namespace();
    match ingress.spec.rules.iter().any(IngressRule::is_unread) {
        true => format!(
            "a host of it cannot be read, so requests for all Ingresses of namespace {namespace} get 503"
        ),
        false => "requests for its paths get 503".to_owned(),
    }
}

/// What a closed filter does, in words.
fn refused(of: PluginType, to: &str) -> String {
    let what = match of {
        PluginType::Network => "connections",
        _ => "requests",
    };
    format!("all {what} that would pass it at {to} are refused")
}

/// Adds a finding for each object of a kind that stands closed; `effect` says what that does.
fn find<T: Stored>(
    cx: &Cx<'_, Snapshot>,
    found: &mut Vec<Diagnostic>,
    effect: impl Fn(&Object<T>) -> String,
) {
    for object in cx.list_by::<T>(ObjectIndex::Closed, CLOSED) {
        let Some(closed) = &object.meta.closed else {
            continue;
        };
        let why = format!("{} until it is valid: {}", effect(&object), closed.why);
        let finding = about(&object, code::CLOSED, Severity::Error, why);
        found.push(finding.at(closed.path.clone()));
    }
}

/// The workloads that a policy is for, in words.
fn covered(target: &Target<'_>, root: &Namespace) -> String {
    let namespace = target.namespace;
    let several = target.target_refs.iter().chain(target.target_ref);
    let names: Vec<String> = several
        .map(|to| format!("{} {}", to.kind, to.name))
        .collect();
    if !names.is_empty() {
        return format!("{} of namespace {namespace}", names.join(" and "));
    }
    let within = match namespace == root {
        true => "the mesh".to_owned(),
        false => format!("namespace {namespace}"),
    };
    match target.selector.filter(|s| !s.match_labels.is_empty()) {
        None => format!("all workloads of {within}"),
        Some(selector) => {
            let labels: BTreeMap<_, _> = selector.match_labels.iter().collect();
            let labels = labels
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"));
            let labels: Vec<String> = labels.collect();
            format!("workloads with {} of {within}", labels.join(","))
        }
    }
}
