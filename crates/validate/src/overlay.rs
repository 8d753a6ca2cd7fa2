//! What the author of a Gateway may lay over the objects that are deployed for it.
//!
//! These objects are written with the rights of the control plane. An overlay that could set any field would let the author of
//! a Gateway and a ConfigMap run any image, as any service account of the namespace, with any privilege on the node. The
//! fields that an author may set are listed here; everything else is for the operator.
//!
//! A patch is judged, not what becomes of it: a key that is not on the list is refused, directives such as `$patch` too.
//! Whether values make sense is for the API to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The container of the proxy, the only one that an overlay may be about.
const PROXY: &str = "istio-proxy";
/// The list of containers of a Deployment.
const CONTAINERS: [&str; 4] = ["spec", "template", "spec", "containers"];

/// Where names of labels and annotations stand.
const NAMED: [[&str; 2]; 2] = [["metadata", "labels"], ["metadata", "annotations"]];
/// Where a Deployment has those of its pods.
const OF_PODS: [&str; 2] = ["spec", "template"];

/// Domains of labels and annotations, besides Istio's, that decide how pods are made, selected or confined.
const KEPT: [&str; 5] = [
    "pilothouse.io",
    "gateway.networking.k8s.io",
    "container.apparmor.security.beta.kubernetes.io",
    "container.seccomp.security.alpha.kubernetes.io",
    "seccomp.security.alpha.kubernetes.io",
];

/// The keys of a ConfigMap, each with the fields that an author may set, with all that is below them.
const FREE: [(&str, &[&str]); 5] = [
    (
        "deployment",
        &[
            "spec.minReadySeconds",
            "spec.progressDeadlineSeconds",
            "spec.replicas",
            "spec.revisionHistoryLimit",
            "spec.strategy",
            "spec.template.spec.affinity",
            "spec.template.spec.containers.livenessProbe.failureThreshold",
            "spec.template.spec.containers.livenessProbe.initialDelaySeconds",
            "spec.template.spec.containers.livenessProbe.periodSeconds",
            "spec.template.spec.containers.livenessProbe.timeoutSeconds",
            "spec.template.spec.containers.readinessProbe.failureThreshold",
            "spec.template.spec.containers.readinessProbe.initialDelaySeconds",
            "spec.template.spec.containers.readinessProbe.periodSeconds",
            "spec.template.spec.containers.readinessProbe.successThreshold",
            "spec.template.spec.containers.readinessProbe.timeoutSeconds",
            "spec.template.spec.containers.resources",
            "spec.template.spec.nodeSelector",
            "spec.template.spec.terminationGracePeriodSeconds",
            "spec.template.spec.tolerations",
            "spec.template.spec.topologySpreadConstraints",
        ],
    ),
    (
        "horizontalPodAutoscaler",
        &[
            "spec.behavior",
            "spec.maxReplicas",
            "spec.metrics",
            "spec.minReplicas",
        ],
    ),
    (
        "podDisruptionBudget",
        &[
            "spec.maxUnavailable",
            "spec.minAvailable",
            "spec.unhealthyPodEvictionPolicy",
        ],
    ),
    (
        "service",
        &[
            "spec.allocateLoadBalancerNodePorts",
            "spec.externalTrafficPolicy",
            "spec.healthCheckNodePort",
            "spec.internalTrafficPolicy",
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            "spec.loadBalancerClass",
            "spec.loadBalancerIP",
            "spec.loadBalancerSourceRanges",
            "spec.ports",
            "spec.sessionAffinity",
            "spec.sessionAffinityConfig",
            "spec.trafficDistribution",
            "spec.type",
        ],
    ),
    ("serviceAccount", &[]),
];

/// The first field, such as `deployment: spec.template.spec.volumes`, that only an operator may set. Keys that are no
/// overlay, and texts that cannot be read, are not judged.
pub fn refused(overlay: &BTreeMap<Arc<str>, Arc<str>>) -> Option<String> {
    FREE.iter().find_map(|(key, free)| {
        let text = overlay.get(*key)?;
        let mut documents = model::parse::to_json(text).into_iter();
        let patch = documents.next()?.ok()?;
        let field = walk(&patch, &mut Vec::new(), free)?;
        Some(format!("{key}: {field}"))
    })
}

/// Whether a label or annotation decides how pods are made, selected or confined.
pub fn is_kept(name: &str) -> bool {
    let domain = name.split_once('/').map_or("", |(domain, _)| domain);
    domain == "istio.io" || domain.ends_with(".istio.io") || KEPT.contains(&domain)
}

/// The first field of a patch that is not free.
fn walk<'p>(patch: &'p Value, at: &mut Vec<&'p str>, free: &[&str]) -> Option<String> {
    if is_free(at, free) {
        return None;
    }
    match patch {
        // An empty map replaces some of what Kubernetes has.
        Value::Object(fields) if fields.is_empty() && !leads(at, free) => Some(at.join(".")),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            // They say which object is meant.
            if at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind") {
                return None;
            }
            at.push(name);
            let found = walk(value, at, free);
            at.pop();
            found
        }),
        Value::Array(items) if *at == CONTAINERS => items.iter().find_map(|item| {
            let fields = item.as_object().filter(|_| item["name"] == PROXY);
            let Some(fields) = fields else {
                return Some(format!("{} other than {PROXY}", at.join(".")));
            };
            let rest = fields.iter().filter(|(name, _)| *name != "name");
            rest.into_iter().find_map(|(name, value)| {
                at.push(name);
                let found = walk(value, at, free);
                at.pop();
                found
            })
        }),
        _ => Some(at.join(".")),
    }
}

fn is_free(at: &[&str], free: &[&str]) -> bool {
    let of_object = at.strip_prefix(&OF_PODS).unwrap_or(at);
    let named = NAMED.iter().find_map(|map| of_object.strip_prefix(map));
    if let Some([name, ..]) = named {
        return !is_kept(name) && !name.starts_with('$');
    }
    free.iter().any(|field| {
        let mut rest = at.iter();
        field.split('.').all(|part| rest.next() == Some(&part))
    })
}

/// Whether something free is below.
fn leads(at: &[&str], free: &[&str]) -> bool {
    let of_object = at.strip_prefix(&OF_PODS).unwrap_or(at);
    let mut fields = free.iter();
    NAMED.iter().any(|map| map.starts_with(of_object))
        || fields.any(|field| {
            let mut parts = field.split('.');
            at.iter().all(|part| parts.next() == Some(part))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(key: &str, text: &str) -> Option<String> {
        refused(&[(key.into(), text.into())].into())
    }

    #[test]
    fn an_author_sets_what_scales_and_places_the_proxies() {
        for (key, text) in [
            (
                "deployment",
                "spec: {replicas: 3, strategy: {type: Recreate}}",
            ),
            (
                "deployment",
                "{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {team: a}}}",
            ),
            (
                "deployment",
                "spec: {template: {metadata: {annotations: {note: b}}, spec: {tolerations: [{operator: Exists}], \
                 nodeSelector: {$patch: replace, disk: ssd}, containers: [{name: istio-proxy, resources: {limits: {cpu: 1}}, \
                 readinessProbe: {periodSeconds: 1}}]}}}",
            ),
            (
                "horizontalPodAutoscaler",
                "spec: {maxReplicas: 5, metrics: []}",
            ),
            ("podDisruptionBudget", "spec: {minAvailable: 1}"),
            (
                "service",
                "spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}], loadBalancerSourceRanges: [10.0.0.0/8]}",
            ),
            ("serviceAccount", "metadata: {annotations: {role: r}}"),
            ("service", ""),
            ("service", "a: ["),
        ] {
            assert_eq!(refusal(key, text), None, "{text}");
        }
    }

    #[test]
    fn what_gives_power_is_for_the_operator() {
        let pod = |spec: &str| format!("spec: {{template: {{spec: {spec}}}}}");
        let proxy = |fields: &str| {
            pod(&format!(
                "{{containers: [{{name: istio-proxy, {fields}}}]}}"
            ))
        };
        for (key, text, field) in [
            ("deployment", proxy("image: evil"), "deployment: spec.template.spec.containers.image"),
            ("deployment", proxy("command: [sh]"), "containers.command"),
            ("deployment", proxy("args: []"), "containers.args"),
            ("deployment", proxy("env: [{name: LD_PRELOAD, value: x}]"), "containers.env"),
            ("deployment", proxy("securityContext: {privileged: true}"), "securityContext.privileged"),
            ("deployment", proxy("readinessProbe: {exec: {command: [sh]}}"), "readinessProbe.exec.command"),
            ("deployment", proxy("lifecycle: null"), "containers.lifecycle"),
            ("deployment", proxy("$patch: replace"), "containers.$patch"),
            ("deployment", proxy("volumeMounts: []"), "containers.volumeMounts"),
            ("deployment", pod("{containers: [{name: other, image: evil}]}"), "containers other than istio-proxy"),
            ("deployment", pod("{containers: [{image: evil}]}"), "containers other than istio-proxy"),
            ("deployment", pod("{containers: null}"), "spec.containers"),
            ("deployment", pod("{initContainers: []}"), "spec.initContainers"),
            ("deployment", pod("{serviceAccountName: admin}"), "spec.serviceAccountName"),
            ("deployment", pod("{hostNetwork: true}"), "spec.hostNetwork"),
            ("deployment", pod("{volumes: [{name: v, hostPath: {path: /}}]}"), "spec.volumes"),
            ("deployment", pod("{securityContext: {runAsUser: 0}}"), "spec.securityContext.runAsUser"),
            ("deployment", pod("{nodeName: n}"), "spec.nodeName"),
            ("deployment", pod("{priorityClassName: system-node-critical}"), "spec.priorityClassName"),
            ("deployment", pod("{$retainKeys: []}"), "spec.$retainKeys"),
            ("deployment", "spec: {template: null}".to_owned(), "spec.template"),
            ("deployment", "spec: {selector: {matchLabels: {a: b}}}".to_owned(), "spec.selector.matchLabels.a"),
            (
                "deployment",
                "spec: {template: {metadata: {labels: {sidecar.istio.io/inject: 'true'}}}}".to_owned(),
                "metadata.labels.sidecar.istio.io/inject",
            ),
            (
                "deployment",
                "spec: {template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/istio-proxy: unconfined}}}}".to_owned(),
                "annotations.container.apparmor",
            ),
            ("service", "metadata: {labels: {$patch: replace}}".to_owned(), "labels.$patch"),
            ("service", "spec: {selector: {app: bank}}".to_owned(), "service: spec.selector.app"),
            ("service", "spec: {externalIPs: [10.0.0.1]}".to_owned(), "service: spec.externalIPs"),
            ("service", "spec: {externalName: bank}".to_owned(), "service: spec.externalName"),
            ("service", "metadata: {finalizers: [x]}".to_owned(), "metadata.finalizers"),
            ("horizontalPodAutoscaler", "spec: {scaleTargetRef: {name: bank}}".to_owned(), "spec.scaleTargetRef.name"),
            ("podDisruptionBudget", "spec: {selector: {}}".to_owned(), "spec.selector"),
            ("serviceAccount", "secrets: [{name: s}]".to_owned(), "serviceAccount: secrets"),
            ("serviceAccount", "automountServiceAccountToken: true".to_owned(), "automountServiceAccountToken"),
        ] {
            let found = refusal(key, &text).unwrap_or_default();
            assert!(found.contains(field), "{text}: {found:?}");
        }
    }
}
