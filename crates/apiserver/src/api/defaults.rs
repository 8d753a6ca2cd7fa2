//! What Kubernetes sets in its own kinds beyond what a schema can say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::object::{map_mut, meta};
use crate::resource::Resource;

/// Sets what is not said.
pub(super) fn set(resource: &Resource, object: &mut Value) {
    if !resource.native {
        return;
    }
    match &*resource.kind {
        "Service" => service(&mut object["spec"]),
        "Secret" => secret(object),
        "Namespace" => namespace(object),
        "RoleBinding" | "ClusterRoleBinding" => binding(object),
        "MutatingWebhookConfiguration" => webhooks(object, true),
        "ValidatingWebhookConfiguration" => webhooks(object, false),
        "HorizontalPodAutoscaler" => {
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                spec.entry("minReplicas").or_insert(1.into());
            }
        }
        _ => {}
    }
}

fn service(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let spec = map_mut(spec);
    if kind != "ExternalName" {
        spec.entry("sessionAffinity").or_insert("None".into());
        spec.entry("internalTrafficPolicy")
            .or_insert("Cluster".into());
    }
    if spec.get("clusterIP").is_some_and(|ip| ip == "None") {
        // The only address that is given without an allocator: none.
        spec.entry("clusterIPs").or_insert(json!(["None"]));
        spec.entry("ipFamilies").or_insert(json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert("SingleStack".into());
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        spec.entry("externalTrafficPolicy")
            .or_insert("Cluster".into());
    }
    if kind == "LoadBalancer" {
        spec.entry("allocateLoadBalancerNodePorts")
            .or_insert(true.into());
    }
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports.iter_mut().filter(|p| p.is_object()) {
            let number = port["port"].clone();
            if port["targetPort"].is_null() || port["targetPort"] == 0 {
                port["targetPort"] = number;
            }
        }
    }
}

/// What is written as text becomes data.
fn secret(object: &mut Value) {
    let map = map_mut(object);
    let Some(Value::Object(texts)) = map.remove("stringData") else {
        return;
    };
    let data = map_mut(map.entry("data").or_insert(json!({})));
    for (key, value) in texts {
        if let Some(text) = value.as_str() {
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

// Kubernetes: pkg/apis/admissionregistration/v1/defaults.go, 1.36.
fn webhooks(object: &mut Value, mutating: bool) {
    let hooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten() {
        let Some(hook) = hook.as_object_mut() else {
            continue;
        };
        hook.entry("failurePolicy").or_insert("Fail".into());
        hook.entry("matchPolicy").or_insert("Equivalent".into());
        hook.entry("namespaceSelector").or_insert(json!({}));
        hook.entry("objectSelector").or_insert(json!({}));
        hook.entry("timeoutSeconds").or_insert(10.into());
        if mutating {
            hook.entry("reinvocationPolicy").or_insert("Never".into());
        }
        let rules = hook.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            if let Some(rule) = rule.as_object_mut() {
                rule.entry("scope").or_insert("*".into());
            }
        }
        let client = hook.get_mut("clientConfig");
        let service = client.and_then(|c| c.get_mut("service"));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            service.entry("port").or_insert(443.into());
        }
    }
}

/// The group of roles and of those who have them.
fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = object["roleRef"].as_object_mut() {
        role.entry("apiGroup").or_insert(GROUP.into());
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        let of_group = subject["kind"] == "User" || subject["kind"] == "Group";
        if let Some(subject) = subject.as_object_mut().filter(|_| of_group) {
            subject.entry("apiGroup").or_insert(GROUP.into());
        }
    }
}

fn namespace(object: &mut Value) {
    let name = meta(object, "name").to_owned();
    let labels = map_mut(
        crate::object::meta_mut(object)
            .entry("labels")
            .or_insert(json!({})),
    );
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    let spec = map_mut(map_mut(object).entry("spec").or_insert(json!({})));
    spec.entry("finalizers").or_insert(json!(["kubernetes"]));
    let status = map_mut(map_mut(object).entry("status").or_insert(json!({})));
    status.entry("phase").or_insert("Active".into());
}
