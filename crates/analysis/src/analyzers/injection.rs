//! Injection: namespaces and pods that it passes over, and what it adds.

use std::collections::BTreeMap;
use std::path::Path;

use incr::{Cx, Query};
use model::kinds::istio::ProxyConfig;
use model::kinds::kube::{ConfigMap, Container, Deployment, MutatingWebhookConfiguration};
use model::kinds::kube::{NamespaceSpec, Pod, Webhook};
use model::mesh::{apply_proxy_config, default_mesh_config};
use model::{Labels, Namespace, Object, ObjectName};
use serde_json::Value;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::several;
use crate::facts::workloads::{NamespaceLabels, PROXY, has_proxy};
use crate::finding::Report;

const INJECTION: &str = "istio-injection";
const REVISION: &str = "istio.io/rev";
const MODE: &str = "istio.io/dataplane-mode";
const INJECT: &str = "sidecar.istio.io/inject";
const INJECTOR: &str = "istio-sidecar-injector";

/// What injection does, as its ConfigMaps state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Injectors;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Injector {
    all_namespaces: bool,
    image: String,
}

impl Query<Snapshot> for Injectors {
    type Value = BTreeMap<String, Injector>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let names = cx.names::<ConfigMap>();
        let maps = names.iter().filter(|n| n.name.starts_with(INJECTOR));
        maps.filter_map(|name| {
            let map = cx.get::<ConfigMap>(name)?;
            let values = map.spec.data.get("values").map_or("", |v| v);
            let values: Value = serde_json::from_str(values).unwrap_or_default();
            let all = &values["sidecarInjectorWebhook"]["enableNamespacesByDefault"];
            let injector = Injector {
                all_namespaces: all.as_bool().unwrap_or_default(),
                image: proxy_image(&values["global"]),
            };
            Some((name.name.to_string(), injector))
        })
        .collect()
    }
}

fn proxy_image(global: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let image = text(&global["proxy"]["image"]);
    if image.contains('/') || *global == Value::Null {
        return image;
    }
    format!("{}/{image}:{}", text(&global["hub"]), text(&global["tag"]))
}

/// The ConfigMap of a revision's injector.
fn injector_name(revision: &str) -> String {
    match revision {
        "" | "default" => INJECTOR.to_owned(),
        revision => format!("{INJECTOR}-{revision}"),
    }
}

/// Istio: pkg/config/analysis/analyzers/injection/injection.go, 1.32.
pub(crate) fn namespace(
    cx: &Cx<'_, Snapshot>,
    namespace: &Object<NamespaceSpec>,
    report: &mut Report<'_>,
) {
    let name = namespace.meta.name.name.as_str();
    if name == "istio-system" {
        return;
    }
    let labels = &namespace.meta.labels;
    let injection = labels.get(INJECTION);
    let mut stated: Vec<String> = injection
        .iter()
        .map(|v| format!("{INJECTION}={v}"))
        .collect();
    if injection.is_none_or(|v| v == "enabled") {
        let others = [REVISION, MODE].into_iter();
        stated.extend(others.filter_map(|l| Some(format!("{l}={}", labels.get(l)?))));
    }
    if stated.len() > 1 {
        report
            .add(
                namespace,
                &code::SEVERAL_INJECTION_LABELS,
                "metadata.labels",
                format!("the labels {} exclude each other", stated.join(" and ")),
            )
            .help(format!(
                "keep one of them; {INJECTION} is heeded before {REVISION}"
            ));
    }
    if labels.get(MODE) == Some("ambient") {
        return;
    }
    if injection.unwrap_or_default().is_empty() && !labels.contains(REVISION) {
        let injectors = cx.query(&Injectors);
        if injectors.get(INJECTOR).is_some_and(|i| i.all_namespaces) {
            report.add(
                namespace,
                &code::INJECTED_BY_DEFAULT,
                "",
                format!("pods of {name} get sidecars because injection is on for all namespaces"),
            );
            return;
        }
        report
            .add(
                namespace,
                &code::NOT_INJECTED,
                "metadata.name",
                format!("pods of {name} get no sidecar"),
            )
            .help(format!(
                "label the namespace {INJECTION}=enabled, or {INJECTION}=disabled if that is meant"
            ));
    }
}

pub(crate) fn pod(cx: &Cx<'_, Snapshot>, pod: &Object<Pod>, report: &mut Report<'_>) {
    let namespace = pod.namespace();
    let labels = cx.query(&NamespaceLabels(namespace.clone()));
    let injected = labels
        .as_ref()
        .as_ref()
        .is_some_and(|l| l.get(INJECTION) == Some("enabled") && l.get(MODE) != Some("ambient"));
    if namespace.as_str() == "istio-system" || !injected || pod.spec.host_network {
        return;
    }
    let said = pod.meta.labels.get(INJECT);
    let said = said.or_else(|| pod.meta.annotations.get(INJECT));
    if said.is_some_and(|v| v.eq_ignore_ascii_case("false")) {
        return;
    }
    if !has_proxy(pod.spec.containers.iter().chain(&pod.spec.init_containers)) {
        report
            .add(
                pod,
                &code::POD_MISSING_PROXY,
                "spec.containers",
                "the pod has no sidecar, although its namespace injects them",
            )
            .help("pods made before the namespace was labelled must be restarted");
    }
}

/// Pods whose proxy is not the one that injection would add.
///
/// Istio: pkg/config/analysis/analyzers/injection/injection-image.go, 1.32.
pub(crate) fn images(
    cx: &Cx<'_, Snapshot>,
    namespace: &Object<NamespaceSpec>,
    report: &mut Report<'_>,
) {
    let labels = &namespace.meta.labels;
    let revision = match labels.get(REVISION) {
        Some(revision) => revision,
        None if labels.get(INJECTION) == Some("enabled") => "default",
        None => return,
    };
    let injectors = cx.query(&Injectors);
    let Some(injector) = injectors.get(&injector_name(revision)) else {
        return;
    };
    let home = Namespace::from(namespace.meta.name.name.as_str());
    let mut odd = Vec::new();
    for pod in cx.list_in::<Pod>(&home) {
        let own = pod.meta.annotations.get("sidecar.istio.io/proxyImage");
        if own.is_some_and(|image| !image.is_empty()) {
            continue;
        }
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let differs = |c: &Container| {
            *c.image != *injector.image
                && *c.image != *format!("{}-{}", injector.image, variant(cx, &pod))
        };
        if containers.filter(|c| &*c.name == PROXY).any(differs) {
            odd.push(pod.meta.name.name.clone());
        }
    }
    if !odd.is_empty() {
        report
            .add(
                namespace,
                &code::PROXY_IMAGE_MISMATCH,
                "metadata.name",
                format!(
                    "proxies run another image than injection adds ({}): {}",
                    injector.image,
                    several(&odd)
                ),
            )
            .help("restart the pods after an upgrade of the control plane");
    }
}

/// The variant of the image that is set for a pod; empty for the default one.
///
/// Istio: pkg/config/analysis/analyzers/util/proxyconfig.go ImageType, 1.32.
fn variant(cx: &Cx<'_, Snapshot>, pod: &Object<Pod>) -> String {
    let mesh = &cx.settings().mesh;
    let root = Namespace::from(mesh.root_namespace.as_str());
    let mut variant = String::new();
    let mut set = |image: Option<&str>| {
        if let Some(image) = image.filter(|i| !i.is_empty()) {
            variant = image.to_owned();
        }
    };
    let image = |c: &ProxyConfig| c.image.as_ref().map(|i| i.image_type.clone());
    let default = mesh.default_config.as_ref().and_then(|c| c.image.as_ref());
    set(default.map(|i| i.image_type.as_str()));
    let of_root = cx.list_in::<ProxyConfig>(&root);
    set(of_root.last().and_then(|c| image(&c.spec)).as_deref());
    let own = match *pod.namespace() == root {
        true => Vec::new(),
        false => cx.list_in::<ProxyConfig>(pod.namespace()),
    };
    for config in own.iter().filter(|c| c.spec.selector.is_none()) {
        set(image(&config.spec).as_deref());
    }
    for config in &own {
        let selector = config.spec.selector.as_ref();
        if selector.is_some_and(|s| pod.meta.labels.matches_map(&s.match_labels)) {
            set(image(&config.spec).as_deref());
        }
    }
    if let Some(text) = pod.meta.annotations.get("proxy.istio.io/config") {
        let file = Path::new("proxy.istio.io/config").into();
        let read = apply_proxy_config(text, default_mesh_config(), &file).value;
        let stated = read.and_then(|m| m.default_config?.image);
        set(stated.as_ref().map(|i| i.image_type.as_str()));
    }
    if variant == "default" {
        variant.clear();
    }
    variant
}

/// Istio: pkg/config/analysis/analyzers/injection/image-auto.go, 1.32.
pub(crate) fn pod_image_auto(_: &Cx<'_, Snapshot>, pod: &Object<Pod>, report: &mut Report<'_>) {
    if let Some(i) = auto_image(&pod.spec) {
        report
            .add(
                pod,
                &code::IMAGE_AUTO_IN_POD,
                format!("spec.containers[{i}].image"),
                "the image of the proxy is still the placeholder `auto`: injection did not replace it",
            )
            .help("label the namespace or the pod for injection and make the pod anew");
    }
}

pub(crate) fn deployment_image_auto(
    cx: &Cx<'_, Snapshot>,
    deployment: &Object<Deployment>,
    report: &mut Report<'_>,
) {
    let template = &deployment.spec.template;
    let Some(i) = auto_image(&template.spec) else {
        return;
    };
    let namespace = cx.query(&NamespaceLabels(deployment.namespace().clone()));
    let namespace = namespace.as_ref().clone().unwrap_or_default();
    let webhooks = cx.list::<MutatingWebhookConfiguration>();
    let mut webhooks = webhooks.iter().flat_map(|c| &c.spec.webhooks);
    let injects = |w: &Webhook| {
        w.name.ends_with("istio.io") && sees(w, &namespace, &template.metadata.labels)
    };
    if !webhooks.any(injects) {
        report
            .add(
                deployment,
                &code::IMAGE_AUTO_NOT_INJECTED,
                format!("spec.template.spec.containers[{i}].image"),
                "no injection webhook sees these pods, so nothing replaces the placeholder `auto`",
            )
            .help("label the namespace or the pods for injection");
    }
}

fn auto_image(spec: &Pod) -> Option<usize> {
    let auto = |c: &Container| &*c.name == PROXY && &*c.image == "auto";
    spec.containers.iter().position(auto)
}

/// Whether a webhook sees objects with these labels in a namespace with those.
pub(crate) fn sees(webhook: &Webhook, namespace: &Labels, object: &Labels) -> bool {
    let matches = |selector: &Option<_>, labels: &Labels| {
        let selector: &Option<model::kinds::gateway_api::LabelSelector> = selector;
        selector.as_ref().is_none_or(|s| s.matches(labels))
    };
    matches(&webhook.namespace_selector, namespace) && matches(&webhook.object_selector, object)
}

/// The name of a webhook within its configuration.
pub(crate) fn webhook_name(configuration: &ObjectName, webhook: &Webhook) -> String {
    format!("{}/{}", configuration.name, webhook.name)
}
