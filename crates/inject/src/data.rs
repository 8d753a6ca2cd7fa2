//! What templates are rendered over.
// Istio: pkg/kube/inject/inject.go SidecarTemplateData, 1.32.

use std::rc::Rc;

use gotemplate::{IntType, Struct, Value, json};
use model::mesh::{MeshConfig, ProxyConfig};
use proto_istio::mesh::mesh_config::inbound_traffic_policy::Mode;

use crate::go::Typed;
use crate::message::Message;
use crate::owner::Workload;
use crate::pod::Pod;
use crate::shape::{Data, Plain};
use crate::{Fault, Settings, proxy_config};

/// What differs from pod to pod.
pub(crate) struct Of<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) workload: &'a Workload,
    pub(crate) proxy: &'a ProxyConfig,
    pub(crate) native_sidecars: bool,
    pub(crate) ids: (i64, i64),
}

/// The data of one rendering.
pub(crate) fn data(of: &Of<'_>, settings: &Settings) -> Result<Data, Fault> {
    let proxy = proxy_config::with_variables(of.proxy);
    let of = Of {
        proxy: &proxy,
        ..*of
    };
    let stated = value(&of, settings, &settings.mesh)?;
    let mut plain = Plain::default();
    let pod = Pod(plain.value(&of.pod.0));
    let workload = of.workload.map(|text| plain.text(text));
    let proxy = plain.of(&*proxy)?;
    // A file's annotation is part of it.
    let default_config = settings.mesh.default_config.as_ref();
    let default_config = default_config.map(|config| plain.of(config)).transpose()?;
    let plain = plain.changed().then(|| {
        let mesh = MeshConfig {
            default_config,
            ..(*settings.mesh).clone()
        };
        let of = Of {
            pod: &pod,
            workload: &workload,
            proxy: &proxy,
            ..of
        };
        value(&of, settings, &mesh)
    });
    let name = format!(
        "pod {}/{}",
        of.pod.meta("namespace"),
        of.pod.potential_name()
    );
    Ok(Data::new(name, stated, plain.transpose()?))
}

fn value(of: &Of<'_>, settings: &Settings, mesh: &MeshConfig) -> Result<Value, Fault> {
    let values = &settings.injection.values;
    let annotated = of.pod.annotation("sidecar.istio.io/proxyImageType");
    let image_type = of
        .proxy
        .image
        .as_ref()
        .map_or("", |image| &image.image_type);
    let (uid, gid) = of.ids;
    let number = |number| Value::Int(number, IntType::Int64);
    Ok(Struct::new("inject.SidecarTemplateData")
        .field("TypeMeta", type_meta(of.workload))
        .field("DeploymentMeta", named(of.workload))
        .field(
            "ObjectMeta",
            Typed::value(&of.pod.0["metadata"], "ObjectMeta"),
        )
        .field("Spec", Typed::value(&of.pod.0["spec"], "PodSpec"))
        .field("ProxyConfig", message(of.proxy)?)
        .field("MeshConfig", message(mesh)?)
        .field("Values", json::read(values.all()))
        .field("Revision", Value::str(&settings.revision))
        .field("NativeSidecars", Value::Bool(of.native_sidecars))
        .field("ProxyImage", values.proxy_image(image_type, annotated))
        .field("ProxyInitImage", values.init_image(annotated))
        .field("ProxyUID", number(uid))
        .field("ProxyGID", number(gid))
        .field("InboundTrafficPolicyMode", inbound_mode(mesh))
        .field("CompliancePolicy", Value::str(&settings.compliance_policy))
        .into())
}

pub(crate) fn message<M: prost::Message + prost::Name>(of: &M) -> Result<Value, Fault> {
    let message = Message::of(of).ok_or_else(|| Fault::new("a message has no descriptor"))?;
    Ok(Value::Object(Rc::new(message)))
}

fn type_meta(workload: &Workload) -> Value {
    let json = serde_json::json!({"kind": workload.kind, "apiVersion": workload.api_version});
    Typed::value(&json, "TypeMeta")
}

fn named(workload: &Workload) -> Value {
    let Workload {
        name, namespace, ..
    } = workload;
    let text = format!("{namespace}/{name}");
    let printed = text.clone();
    Struct::new("types.NamespacedName")
        .field("Namespace", Value::str(namespace))
        .field("Name", Value::str(name))
        .method("String", &[], move |_| Ok(Value::str(&printed)))
        .json(serde_json::json!({"Namespace": namespace, "Name": name}).to_string())
        .text(text)
        .into()
}

fn inbound_mode(mesh: &MeshConfig) -> &'static str {
    match mesh.inbound_traffic_policy.map(|policy| policy.mode()) {
        Some(Mode::Localhost) => "localhost",
        _ => "passthrough",
    }
}
