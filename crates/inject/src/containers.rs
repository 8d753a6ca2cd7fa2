//! Containers: taken out again before another injection, kept as their owner wrote them, put in order.
// Istio: pkg/kube/inject/webhook.go reapplyOverwrittenContainers, reinsertOverrides, reorderPod, inject.go stripPod, 1.32.

use model::mesh::ProxyConfig;
use proto_istio::mesh::proxy_config::InboundInterceptionMode;
use serde_json::{Value, json};

use crate::Fault;
use crate::pod::{
    CONTAINERS, CORE_DUMP, INIT, INIT_CONTAINERS, PROXY, Pod, VALIDATION, find, name,
};
use crate::prometheus;
use crate::status::{Earlier, OVERRIDES, Overrides, STATUS};

/// The image that stands for the injected one, since a container needs some.
const AUTO: &str = "auto";

/// The pod without what an earlier injection put into it.
pub(crate) fn stripped(pod: &Pod, status_port: i32) -> Pod {
    let mut pod = pod.clone();
    let Some(earlier) = Earlier::of(&pod) else {
        return pod;
    };
    for list in [CONTAINERS, INIT_CONTAINERS] {
        for gone in earlier.names(list) {
            pod.list_mut(list).retain(|c| name(c) != gone);
        }
    }
    // The port of the agent is there because injection put it there; any other is the owner's.
    if prometheus::port(&pod).is_some_and(|port| port == status_port.to_string()) {
        prometheus::clear(&mut pod);
    }
    pod.retain_annotations(|name| name != STATUS);
    pod
}

/// The pod with its own containers that an earlier injection took over, for templates that read them.
pub(crate) fn with_overrides(mut pod: Pod) -> Result<Pod, Fault> {
    let overrides = Overrides::of(&pod)?;
    for (list, containers) in [
        (CONTAINERS, overrides.containers),
        (INIT_CONTAINERS, overrides.init_containers),
    ] {
        for container in containers {
            if find(pod.list(list), name(&container)).is_none() {
                pod.list_mut(list).push(container);
            }
        }
    }
    Ok(pod)
}

/// Moves the proxy to where the template has it, if the owner wrote it among the plain containers.
pub(crate) fn move_native(merged: &mut Pod, template: &Pod) {
    if find(template.list(INIT_CONTAINERS), PROXY).is_none() {
        return;
    }
    let containers = merged.list_mut(CONTAINERS);
    if let Some(at) = containers.iter().position(|c| name(c) == PROXY) {
        let proxy = containers.remove(at);
        merged.list_mut(INIT_CONTAINERS).push(proxy);
    }
}

/// Lays containers of the pod's own over injected ones of the same name. What an earlier injection made is no own
/// container.
pub(crate) fn reapply(
    mut merged: Pod,
    original: &Pod,
    template: &Pod,
    proxy: &ProxyConfig,
) -> Result<Pod, Fault> {
    let existing = Overrides::of(original)?;
    let earlier = Earlier::of(original);
    let was_injected = |list: &str, wanted: &str| {
        let earlier = earlier.as_ref();
        earlier.is_some_and(|earlier| earlier.names(list).any(|name| name == wanted))
    };
    let mut overrides = Overrides::default();
    for (list, existing, kept) in [
        (CONTAINERS, &existing.containers, &mut overrides.containers),
        (
            INIT_CONTAINERS,
            &existing.init_containers,
            &mut overrides.init_containers,
        ),
    ] {
        for wanted in template.list(list).iter().map(name) {
            if was_injected(list, wanted) {
                continue;
            }
            let own = find(existing, wanted).or_else(|| match list {
                CONTAINERS => find(original.list(CONTAINERS), wanted),
                _ => original.container(wanted),
            });
            let Some(own) = own else {
                continue;
            };
            let mut own = own.clone();
            if own["image"] == AUTO
                && let Some(fields) = own.as_object_mut()
            {
                fields.remove("image");
            }
            let mut patch = json!({"spec": {CONTAINERS: []}});
            patch["spec"][list] = json!([own]);
            kept.push(own);
            merged = merged.overlaid(&patch).map_err(|e| {
                let what = if list == CONTAINERS {
                    "container"
                } else {
                    "init container"
                };
                Fault::new(format!("failed to apply sidecar {what}: {e}"))
            })?;
        }
    }
    if original.annotation(STATUS).is_none() && !overrides.is_empty() {
        merged.annotate(OVERRIDES, overrides.to_json()?);
    }
    adjust_user(&mut merged, original, proxy);
    Ok(merged)
}

/// Makes the init container agree with the user that the pod's own proxy container states.
fn adjust_user(merged: &mut Pod, original: &Pod, proxy: &ProxyConfig) {
    let Some(own) = original.container(PROXY) else {
        return;
    };
    let stated = &own["securityContext"];
    let (user, group) = (stated["runAsUser"].as_i64(), stated["runAsGroup"].as_i64());
    if user.is_none() && group.is_none() {
        return;
    }
    let tproxy = proxy.interception_mode() == InboundInterceptionMode::Tproxy
        || merged.annotation("sidecar.istio.io/interceptionMode") == Some("TPROXY");
    let inits = merged.list(INIT_CONTAINERS);
    let Some(init) = [INIT, VALIDATION]
        .into_iter()
        .find(|n| find(inits, n).is_some())
    else {
        return;
    };
    // The kernel lets only the superuser take part in TPROXY.
    if tproxy
        && user.is_some()
        && let Some(sidecar) = merged.container_mut(PROXY)
    {
        sidecar["securityContext"]["runAsUser"] = 0.into();
    }
    let mut inits = merged.list_mut(INIT_CONTAINERS).iter_mut();
    let Some(container) = inits.find(|c| name(c) == init) else {
        return;
    };
    if !tproxy && init == VALIDATION {
        for (field, value) in [("runAsUser", user), ("runAsGroup", group)] {
            if let Some(value) = value {
                container["securityContext"][field] = value.into();
            }
        }
    }
    // Rules of iptables cannot tell traffic of the superuser from that of the application.
    let Some(user) = user.filter(|user| *user != 0) else {
        return;
    };
    if let Some(args) = container["args"].as_array_mut()
        && let Some(at) = args.iter().position(|arg| arg == "-u")
        && let Some(value) = args.get_mut(at + 1)
    {
        *value = user.to_string().into();
    }
}

/// Puts the containers in the order in which they have to start.
pub(crate) fn reorder(pod: &mut Pod, holds: bool) {
    let containers = pod.list_mut(CONTAINERS);
    if holds {
        first(containers, PROXY);
    } else {
        // So that `kubectl exec` goes to the application.
        last(containers, PROXY);
    }
    let native = find(pod.list(INIT_CONTAINERS), PROXY).is_some();
    let inits = pod.list_mut(INIT_CONTAINERS);
    if native {
        // Other init containers are part of the mesh.
        for name in [CORE_DUMP, PROXY, VALIDATION, INIT] {
            first(inits, name);
        }
    } else {
        // Redirected traffic would have nowhere to go while the others run.
        first(inits, VALIDATION);
        last(inits, INIT);
        last(inits, CORE_DUMP);
    }
}

fn first(containers: &mut Vec<Value>, name: &str) {
    if let Some(found) = taken(containers, name) {
        containers.insert(0, found);
    }
}

fn last(containers: &mut Vec<Value>, name: &str) {
    if let Some(found) = taken(containers, name) {
        containers.push(found);
    }
}

/// The last container of a name; all of that name go.
fn taken(containers: &mut Vec<Value>, wanted: &str) -> Option<Value> {
    let mut found = None;
    let all = std::mem::take(containers);
    for container in all {
        if name(&container) == wanted {
            found = Some(container);
        } else {
            containers.push(container);
        }
    }
    found
}
