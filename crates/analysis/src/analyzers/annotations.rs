//! Annotations of Istio's on Kubernetes objects.
//!
//! Istio: pkg/config/analysis/analyzers/annotations/annotations.go and maturity/maturity.go, 1.32.

mod known;

use incr::Cx;
use model::kinds::Kinded;
use model::kinds::kube::{Deployment, NamespaceSpec, Pod, Service};
use model::{Meta, Object};
use store::Snapshot;

use crate::code;
use crate::facts::below;
use crate::finding::Report;

use known::Known;

const INJECT: &str = "sidecar.istio.io/inject";

/// What installations write by themselves.
const WRITTEN_BY_MACHINES: [&str; 3] = [
    "sidecar.istio.io/status",
    "gateway.istio.io/controller-version",
    "istio.io/rev",
];

/// What injection writes where the network of pods is set up without an init container.
const WRITTEN_BY_INJECTION: [&str; 4] = [
    "sidecar.istio.io/interceptionMode",
    "traffic.sidecar.istio.io/includeInboundPorts",
    "traffic.sidecar.istio.io/excludeInboundPorts",
    "traffic.sidecar.istio.io/includeOutboundIPRanges",
];

fn is_ours(name: &str) -> bool {
    let prefix = name.split('/').next().unwrap_or_default();
    name == "kubernetes.io/ingress.class" || prefix.ends_with("istio.io")
}

/// The annotations of Istio's that somebody wrote, with what is known of them.
fn ours(meta: &Meta) -> impl Iterator<Item = (&str, &str, Option<&'static Known>)> {
    let all = meta.annotations.iter().map(|(k, v)| (&**k, &**v));
    all.filter(|(name, _)| is_ours(name) && !WRITTEN_BY_MACHINES.contains(name))
        .map(|(name, value)| (name, value, known::find(name)))
}

fn all<T: Kinded>(object: &Object<T>, report: &mut Report<'_>) {
    let kind = T::KIND.name();
    for (name, value, known) in ours(&object.meta) {
        let path = below("metadata.annotations", name);
        let Some(known) = known else {
            let help = match known::nearest(name) {
                Some(near) => format!("did you mean `{near}`? As it is written it has no effect"),
                None => "correct the name, or remove it: it has no effect".to_owned(),
            };
            let message = format!("there is no annotation {name}");
            report
                .add(object, &code::UNKNOWN_ANNOTATION, path, message)
                .of_name()
                .help(help);
            continue;
        };
        // The label of the same name has taken over where both stand.
        if known.deprecated && !(name == INJECT && object.meta.labels.contains(INJECT)) {
            let message = format!("the annotation {name} is deprecated");
            let reported = report.add(object, &code::DEPRECATED_ANNOTATION, path.clone(), message);
            let reported = reported.of_name();
            if name == INJECT {
                reported.help(format!("use the label {INJECT}"));
            }
        }
        if known.kinds.is_empty() {
            continue;
        }
        if !known.kinds.contains(&kind) {
            report
                .add(
                    object,
                    &code::MISPLACED_ANNOTATION,
                    path,
                    format!("the annotation {name} has no effect on a {kind}"),
                )
                .of_name()
                .help(format!("it belongs on a {}", known.kinds.join(" or a ")));
            continue;
        }
        if let Some(fault) = validate::annotation::fault(name, value) {
            report.add(
                object,
                &code::INVALID_ANNOTATION,
                path,
                format!("the value {value:?} of {name} does not fit: {fault}"),
            );
        }
    }
}

fn alpha<T: Kinded>(object: &Object<T>, overlooked: &[&str], report: &mut Report<'_>) {
    for (name, _, known) in ours(&object.meta) {
        if known.is_some_and(|k| k.alpha) && !overlooked.contains(&name) {
            report
                .add(
                    object,
                    &code::ALPHA_ANNOTATION,
                    below("metadata.annotations", name),
                    format!("the annotation {name} is of alpha maturity and may change or go"),
                )
                .of_name();
        }
    }
}

macro_rules! on_kinds {
    ($($spec:ty: $all:ident, $alpha:ident;)+) => {$(
        pub(crate) fn $all(_: &Cx<'_, Snapshot>, object: &Object<$spec>, report: &mut Report<'_>) {
            all(object, report);
        }

        pub(crate) fn $alpha(_: &Cx<'_, Snapshot>, object: &Object<$spec>, report: &mut Report<'_>) {
            alpha(object, &[], report);
        }
    )+};
}

on_kinds! {
    Service: service, alpha_service;
    NamespaceSpec: namespace, alpha_namespace;
    Deployment: deployment, alpha_deployment;
}

pub(crate) fn pod(_: &Cx<'_, Snapshot>, object: &Object<Pod>, report: &mut Report<'_>) {
    all(object, report);
}

pub(crate) fn alpha_pod(_: &Cx<'_, Snapshot>, object: &Object<Pod>, report: &mut Report<'_>) {
    let init = &object.spec.init_containers;
    let by_plugin = !init.iter().any(|c| &*c.name == "istio-init");
    let overlooked: &[&str] = if by_plugin {
        &WRITTEN_BY_INJECTION
    } else {
        &[]
    };
    alpha(object, overlooked, report);
}
