//! Probes of the application lead through the agent: the kubelet has no certificate.
// Istio: pkg/kube/inject/app_probe.go, webhook.go applyRewrite, 1.32.

use serde_json::{Map, Value, json};
use validate::annotation::truth;

use crate::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, Pod, env_mut, name, variable};
use crate::status::STATUS;
use crate::typed::{to_json, write_text};

const REWRITE: &str = "sidecar.istio.io/rewriteAppHTTPProbers";
const STATUS_PORT: &str = "status.sidecar.istio.io/port";
/// The variable that tells the agent what was probed.
const VARIABLE: &str = "ISTIO_KUBE_APP_PROBERS";

/// Where a container has something that the kubelet does, and the path it has at the agent.
const PLACES: [(&str, &str); 5] = [
    ("/readinessProbe", "/app-health/{}/readyz"),
    ("/livenessProbe", "/app-health/{}/livez"),
    ("/startupProbe", "/app-health/{}/startupz"),
    ("/lifecycle/preStop", "/app-lifecycle/{}/prestopz"),
    ("/lifecycle/postStart", "/app-lifecycle/{}/poststartz"),
];

/// Leads the probes of all containers through the agent, unless the pod, or the values for those that say nothing,
/// refuse.
pub(crate) fn rewrite(pod: &mut Pod, by_default: bool, agent: i32) {
    if pod.container(PROXY).is_none() || !is_wanted(pod, by_default) {
        return;
    }
    let probers = probers(pod, agent);
    if !probers.is_empty() {
        let again = pod.annotation(STATUS).is_some();
        if let Some(sidecar) = pod.container_mut(PROXY) {
            tell(env_mut(sidecar), &probers, again);
        }
    }
    let stated = pod.annotation(STATUS_PORT);
    let port = stated.map_or(agent, |port| port.parse().unwrap_or_default());
    for list in [CONTAINERS, INIT_CONTAINERS] {
        if pod.list(list).is_empty() {
            continue;
        }
        for container in pod.list_mut(list) {
            if name(container) != PROXY {
                lead(container, port);
            }
        }
    }
}

/// Whether the probes of a pod are led through the agent.
pub(crate) fn is_wanted(pod: &Pod, by_default: bool) -> bool {
    let stated = pod.annotation(REWRITE).and_then(truth);
    stated.unwrap_or(by_default)
}

/// What is probed, by its path at the agent.
pub(crate) fn probers(pod: &Pod, agent: i32) -> Map<String, Value> {
    let mut out = Map::new();
    let all = pod.list(INIT_CONTAINERS).iter().chain(pod.list(CONTAINERS));
    for container in all.filter(|c| name(c) != PROXY) {
        for (at, path) in PLACES {
            let prober = container.pointer(at).and_then(|handler| {
                let is_probe = !at.starts_with("/lifecycle");
                prober(handler, container, agent, is_probe)
            });
            if let Some(prober) = prober {
                out.insert(path.replace("{}", name(container)), prober);
            }
        }
    }
    out
}

/// What the agent has to do in place of the kubelet; `None` if nothing, or it does already.
fn prober(handler: &Value, container: &Value, agent: i32, is_probe: bool) -> Option<Value> {
    let kinds = ["httpGet", "tcpSocket", "grpc"];
    let kinds = &kinds[..if is_probe { 3 } else { 2 }];
    let kind = *kinds.iter().find(|kind| handler[**kind].is_object())?;
    let mut action = handler[kind].clone();
    if kind != "grpc" {
        let port = match &action["port"] {
            Value::String(wanted) => {
                let ports = container["ports"].as_array();
                let mut ports = ports.into_iter().flatten().rev();
                let port = ports.find(|p| p["name"] == *wanted && !wanted.is_empty())?;
                port["containerPort"].clone()
            }
            number if number.as_i64() == Some(agent.into()) => return None,
            number => number.clone(),
        };
        action["port"] = port;
    }
    let mut prober = json!({kind: action});
    if is_probe && let Some(seconds) = handler.get("timeoutSeconds") {
        prober["timeoutSeconds"] = seconds.clone();
    }
    Some(prober)
}

/// Tells the agent of probers: beside those that an earlier injection told it, which count more.
pub(crate) fn tell(env: &mut Vec<Value>, probers: &Map<String, Value>, again: bool) {
    let known = env.iter_mut().find(|v| again && v["name"] == VARIABLE);
    match known {
        None => env.push(variable(VARIABLE, &text(probers))),
        Some(known) => {
            let earlier = known["value"].as_str().map(serde_json::from_str);
            if let Some(Ok(Value::Object(earlier))) = earlier {
                let mut all = probers.clone();
                all.extend(earlier);
                *known = variable(VARIABLE, &text(&all));
            }
        }
    }
}

/// Probers as the agent reads them.
pub(crate) fn text(probers: &Map<String, Value>) -> String {
    let mut out = String::from("{");
    for (at, (path, prober)) in probers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(&mut out, path);
        out.push(':');
        out.push_str(&to_json(prober, "Prober"));
    }
    out.push('}');
    out
}

/// Has the kubelet ask the agent.
fn lead(container: &mut Value, port: i32) {
    for (at, path) in PLACES {
        let path = path.replace("{}", name(container));
        let is_probe = !at.starts_with("/lifecycle");
        let Some(handler) = container.pointer_mut(at).and_then(Value::as_object_mut) else {
            continue;
        };
        let replaced = ["tcpSocket", "grpc"];
        let replaced = &replaced[..if is_probe { 2 } else { 1 }];
        if !handler.contains_key("httpGet") {
            let Some(kind) = replaced.iter().find(|kind| handler.contains_key(**kind)) else {
                continue;
            };
            handler.remove(*kind);
        }
        let action = handler.entry("httpGet").or_insert_with(|| json!({}));
        action["path"] = path.into();
        action["port"] = port.into();
        // The agent speaks TLS with the application, the kubelet does not with the agent.
        if action["scheme"] == "HTTPS" {
            action["scheme"] = "HTTP".into();
        }
    }
}
