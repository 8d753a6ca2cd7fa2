//! What templates of Gateways are rendered over.
// Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go TemplateInput, derivedInput, 1.32.

use gotemplate::{IntType, Object as _, Struct, Value, json};
use model::{Labels, Meta, Object};
use serde_json::json as object;

use super::{Class, Deployment, NAME_LABEL, metadata, ports};
use crate::data::message;
use crate::go::Typed;
use crate::shape::{Data, Plain};
use crate::{Fault, openshift, proxy_config};

/// The data of one rendering.
pub(super) fn data(of: &Deployment<'_>) -> Result<Data, Fault> {
    let proxy = proxy_config::with_variables(of.proxy);
    let of = Deployment {
        proxy: &proxy,
        ..*of
    };
    let stated = value(&of)?;
    let mut plain = Plain::default();
    let proxy = plain.of(&*proxy)?;
    let mut labels = |labels: &Labels| -> Labels {
        let pairs = labels.iter();
        let pairs = pairs.map(|(name, value)| (plain.text(name), plain.text(value)));
        pairs.collect()
    };
    let meta = &of.gateway.meta;
    let meta = Meta {
        labels: labels(&meta.labels),
        annotations: labels(&meta.annotations),
        ..meta.clone()
    };
    let gateway = Object {
        meta,
        spec: plain.of(&of.gateway.spec)?,
        status: of.gateway.status.clone(),
    };
    let listeners = of.more_listeners.iter();
    let listeners: Vec<_> = listeners.map(|l| plain.of(l)).collect::<Result<_, _>>()?;
    let plain = plain.changed().then(|| {
        value(&Deployment {
            gateway: &gateway,
            more_listeners: &listeners,
            proxy: &proxy,
            ..of
        })
    });
    let name = format!("Gateway {}", of.gateway.meta.name);
    Ok(Data::new(name, stated, plain.transpose()?))
}

fn value(of: &Deployment<'_>) -> Result<Value, Fault> {
    let gateway = &of.gateway;
    let (meta, settings) = (&gateway.meta, of.settings);
    let values = &settings.injection.values;
    let spec = serde_json::to_value(&gateway.spec).map_err(|e| Fault::new(e.to_string()))?;
    let type_meta = object!({"kind": "Gateway", "apiVersion": "gateway.networking.k8s.io/v1"});
    let object_meta = Typed::value(
        &object!({
            "name": *meta.name.name.as_arc(),
            "namespace": *meta.name.namespace.as_arc(),
            "uid": *meta.uid,
            "resourceVersion": *meta.resource_version,
            "generation": meta.generation,
            "labels": meta.labels,
            "annotations": meta.annotations,
        }),
        "ObjectMeta",
    );
    let annotated = meta.annotations.get("sidecar.istio.io/proxyImageType");
    let image_type = of
        .proxy
        .image
        .as_ref()
        .map_or("", |image| &image.image_type);
    let (uid, gid) = openshift::ids(of.namespace_annotations);
    let number = |number| Value::Int(number, IntType::Int64);
    let listeners = gateway.spec.listeners.iter().chain(of.more_listeners);
    let ports = ports::ports(listeners, of.switches.quic);
    let mut data = Struct::new("gatewaycommon.derivedInput");
    // Go finds fields of what is embedded, too.
    if let Some(embedded) = Typed::of(&object_meta) {
        for (name, value) in embedded.fields() {
            data = data.field(name, value);
        }
    }
    Ok(data
        .field("TypeMeta", Typed::value(&type_meta, "TypeMeta"))
        .field("ObjectMeta", object_meta)
        .field("Spec", Typed::value(&spec, "GatewaySpec"))
        .field("GatewayClass", Value::str(&gateway.spec.gateway_class_name))
        .field("DeploymentName", Value::str(of.name()))
        .field("ServiceAccount", Value::str(of.service_account()))
        .field("Ports", ports::value(&ports))
        .field(
            "ServiceType",
            Value::named("v1.ServiceType", Value::str(of.service_type()), None),
        )
        .field("ClusterID", Value::str(of.cluster))
        .field("KubeVersion", Value::int(of.kubernetes.into()))
        .field("Revision", Value::str(&settings.revision))
        .field("NativeSidecars", Value::Bool(of.switches.native_sidecars))
        .field("ProxyUID", number(uid))
        .field("ProxyGID", number(gid))
        .field("CompliancePolicy", Value::str(&settings.compliance_policy))
        .field(
            "InfrastructureLabels",
            Value::string_map(metadata::labels(of)),
        )
        .field(
            "InfrastructureAnnotations",
            Value::string_map(metadata::annotations(of)),
        )
        .field("GatewayNameLabel", NAME_LABEL)
        .field(
            "IsEastWestGateway",
            Value::Bool(*of.class == Class::EAST_WEST),
        )
        .field("ControllerLabel", of.class.label)
        .field("ProxyImage", values.proxy_image(image_type, annotated))
        .field("ProxyConfig", message(of.proxy)?)
        .field("MeshConfig", message(&*settings.mesh)?)
        .field("Values", json::read(values.all()))
        .into())
}
