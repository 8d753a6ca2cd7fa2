//! Deployments, the Services before them, and the users they run as.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::Kinded;
use model::kinds::kube::{Deployment, IntOrString, Pod, Service};
use model::{Labels, Meta, Object, ObjectName};
use store::index::label_value;
use store::{ObjectIndex, Reads, Snapshot};

use crate::code;
use crate::facts::several;
use crate::facts::workloads::{NamespaceLabels, PROXY, in_mesh};
use crate::finding::Report;

/// The user that the proxy runs as, whose traffic is not captured.
const PROXY_USER: i64 = 1337;
const OPERATOR: &str = "istio-operator";

/// Istio: pkg/config/analysis/analyzers/deployment/pod.go, 1.32.
pub(crate) fn pod_user(_: &Cx<'_, Snapshot>, pod: &Object<Pod>, report: &mut Report<'_>) {
    user(pod, &pod.spec, "spec", report);
}

pub(crate) fn template_user(
    _: &Cx<'_, Snapshot>,
    deployment: &Object<Deployment>,
    report: &mut Report<'_>,
) {
    let spec = &deployment.spec.template.spec;
    user(deployment, spec, "spec.template.spec", report);
}

fn user<T: Kinded>(object: &Object<T>, spec: &Pod, path: &str, report: &mut Report<'_>) {
    if is_control_plane(&object.meta) {
        return;
    }
    let of_container = spec.containers.iter().position(|c| {
        !matches!(&*c.name, PROXY | OPERATOR) && c.security_context.run_as_user == Some(PROXY_USER)
    });
    let at = match of_container {
        _ if spec.security_context.run_as_user == Some(PROXY_USER) => {
            format!("{path}.securityContext.runAsUser")
        }
        Some(i) => format!("{path}.containers[{i}].securityContext.runAsUser"),
        None => return,
    };
    report
        .add(
            object,
            &code::APPLICATION_UID,
            at,
            format!("user {PROXY_USER} is kept for the proxy: what runs as it bypasses the mesh"),
        )
        .help("run the application as another user");
}

/// Whether an object belongs to Istio's own installation.
///
/// Istio: pkg/config/analysis/analyzers/util/config.go IsIstioControlPlane, 1.32.
pub(crate) fn is_control_plane(meta: &Meta) -> bool {
    meta.labels.contains("istio") || meta.labels.get("release") == Some("istio")
}

/// Istio: pkg/config/analysis/analyzers/deployment/services.go, 1.32.
pub(crate) fn services(
    cx: &Cx<'_, Snapshot>,
    deployment: &Object<Deployment>,
    report: &mut Report<'_>,
) {
    let managed = deployment.meta.labels.get("gateway.istio.io/managed");
    if managed == Some("istio.io-mesh-controller") {
        return;
    }
    let template = &deployment.spec.template;
    let labels = &template.metadata.labels;
    let namespace = cx.query(&NamespaceLabels(deployment.namespace().clone()));
    let containers = template.spec.containers.iter();
    let annotations = &template.metadata.annotations;
    if !in_mesh(labels, annotations, containers, namespace.as_ref().as_ref()) {
        return;
    }
    let services = selecting(cx, deployment, labels);
    transports(deployment, &services, report);
    target_ports(deployment, &services, report);
}

/// The Services of the namespace that select these labels.
fn selecting(
    cx: &Cx<'_, Snapshot>,
    deployment: &Object<Deployment>,
    labels: &Labels,
) -> Vec<std::sync::Arc<Object<Service>>> {
    let namespace = deployment.namespace();
    let mut names = BTreeSet::new();
    for (key, value) in labels.iter() {
        let value = label_value(namespace, key, value);
        names.extend(cx.names_by::<Service>(ObjectIndex::Selector, &value));
    }
    let services = names.iter().filter_map(|name| cx.get::<Service>(name));
    services
        .filter(|s| !s.spec.selector.is_empty() && labels.matches(&s.spec.selector))
        .collect()
}

/// Ports that Services give different transports.
fn transports(
    deployment: &Object<Deployment>,
    services: &[std::sync::Arc<Object<Service>>],
    report: &mut Report<'_>,
) {
    let mut ports: BTreeMap<i32, BTreeMap<&str, Vec<&ObjectName>>> = BTreeMap::new();
    for service in services {
        for port in &service.spec.ports {
            let protocol = match &*port.protocol {
                "" => "TCP",
                stated => stated,
            };
            let of_port = ports.entry(port.port).or_default();
            of_port
                .entry(protocol)
                .or_default()
                .push(&service.meta.name);
        }
    }
    for (port, protocols) in ports.iter().filter(|(_, p)| p.len() > 1) {
        let names: Vec<&ObjectName> = protocols.values().flatten().copied().collect();
        let spoken: Vec<&str> = protocols.keys().copied().collect();
        report
            .add(
                deployment,
                &code::SERVICES_DISAGREE_ON_PROTOCOL,
                "spec.template.metadata.labels",
                format!(
                    "the Services {} give port {port} different transports: {}",
                    several(&names),
                    spoken.join(", ")
                ),
            )
            .help("use another port number for one of the transports");
    }
}

/// Ports of the Deployment that different ports of Services lead to.
fn target_ports(
    deployment: &Object<Deployment>,
    services: &[std::sync::Arc<Object<Service>>],
    report: &mut Report<'_>,
) {
    let mut targets: BTreeMap<String, BTreeMap<i32, &ObjectName>> = BTreeMap::new();
    for service in services {
        for port in &service.spec.ports {
            let target = match &port.target_port {
                Some(target) if !matches!(&*target.to_string(), "" | "0") => target.clone(),
                _ => IntOrString::Int(port.port),
            };
            let of_target = targets.entry(target.to_string()).or_default();
            of_target.insert(port.port, &service.meta.name);
        }
    }
    for (target, ports) in targets.iter().filter(|(_, p)| p.len() > 1) {
        let numbers: Vec<&i32> = ports.keys().collect();
        let names: Vec<&&ObjectName> = ports.values().collect();
        report
            .add(
                deployment,
                &code::CONFLICTING_PORTS,
                "spec.template.metadata.labels",
                format!(
                    "the ports {} of the Services {} all lead to port {target}: which service is meant cannot be told",
                    several(&numbers),
                    several(&names)
                ),
            )
            .help("keep one Service port for each port of the workload");
    }
}
