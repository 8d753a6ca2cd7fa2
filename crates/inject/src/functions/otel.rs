//! What OpenTelemetry calls a workload.
// Istio: pkg/kube/inject/template.go otelResourceAttributes, 1.32.

use gotemplate::{Args, Value};

use crate::go::Typed;
use crate::message::Message;
use crate::pod::name;

/// `service.…` attributes by OpenTelemetry's conventions; empty unless a provider of traces asks for them. The name of
/// the pod is not known yet: Kubernetes puts it in place of the variable.
pub(super) fn attributes(args: &Args<'_>) -> String {
    if !is_asked_for(args.value(0)) {
        return String::new();
    }
    let (annotations, labels, namespace) = (args.map(1), args.map(2), args.str(3));
    let containers = args.list(4);
    let containers: Vec<_> = containers
        .items()
        .iter()
        .filter_map(Typed::of)
        .map(Typed::raw)
        .collect();
    let text = |value: Option<Value>| {
        let text = value?.as_str().map(str::to_owned)?;
        (!text.is_empty()).then_some(text)
    };
    let annotated =
        |attribute: &str| text(annotations.get(&format!("resource.opentelemetry.io/{attribute}")));
    let of_image = || {
        let [container] = containers.as_slice() else {
            return None;
        };
        version(container["image"].as_str().unwrap_or_default())
    };
    let of_namespace = || (!namespace.is_empty()).then(|| namespace.to_owned());
    let instance = || {
        let first = containers.first()?;
        Some(format!("{namespace}.$(POD_NAME).{}", name(first)))
    };
    let attributes = [
        (
            "service.namespace",
            annotated("service.namespace").or_else(of_namespace),
        ),
        (
            "service.version",
            annotated("service.version")
                .or_else(|| text(labels.get("app.kubernetes.io/version")))
                .or_else(of_image),
        ),
        (
            "service.instance.id",
            annotated("service.instance.id").or_else(instance),
        ),
    ];
    let stated = attributes.into_iter();
    let stated = stated.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    stated.collect::<Vec<_>>().join(",")
}

/// Whether a provider of traces is to be told by OpenTelemetry's conventions.
fn is_asked_for(mesh: &Value) -> bool {
    let Value::Object(mesh) = mesh else {
        return false;
    };
    let any: &dyn std::any::Any = &**mesh;
    let mesh = any
        .downcast_ref::<Message>()
        .and_then(|m| m.message.as_ref());
    let json = mesh
        .and_then(|m| serde_json::to_value(m).ok())
        .unwrap_or_default();
    let providers = json["extensionProviders"].as_array();
    providers.into_iter().flatten().any(|provider| {
        provider["opentelemetry"]["serviceAttributeEnrichment"] == "OTEL_SEMANTIC_CONVENTIONS"
    })
}

/// Tag and digest of an image.
fn version(image: &str) -> Option<String> {
    let (image, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag = last.rsplit_once(':').map_or("", |(_, tag)| tag);
    match (tag, digest) {
        ("", "") => None,
        (tag, "") => Some(tag.to_owned()),
        ("", digest) => Some(digest.to_owned()),
        (tag, digest) => Some(format!("{tag}@{digest}")),
    }
}
