//! What is deployed for a Gateway of the Gateway API, or a waypoint: the objects that a template of the injection
//! configuration makes, with what ConfigMaps lay over them.
//!
//! Everything here is a function of its arguments. For equal templates and values the objects are those that istiod
//! applies.
// Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go, 1.32.

mod data;
mod metadata;
mod overlay;
mod ports;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::gateway_api::{Gateway, Listener};
use model::mesh::ProxyConfig;
use model::{Labels, Object};
use serde_json::Value;

use crate::{Fault, Settings};

pub use overlay::KEYS as OVERLAY_KEYS;
pub use version::{ANNOTATION as VERSION_ANNOTATION, Managed, VERSION, managed};

/// The label of everything that is deployed for a Gateway, with who does it.
pub const MANAGED_LABEL: &str = "gateway.istio.io/managed";
/// The label of a ConfigMap that is laid over what is deployed for every Gateway of a class.
pub const DEFAULTS_LABEL: &str = "gateway.istio.io/defaults-for-class";
/// The label with the name of the Gateway.
pub const NAME_LABEL: &str = "gateway.networking.k8s.io/gateway-name";

/// The type of the Service.
const SERVICE_TYPE: &str = "networking.istio.io/service-type";

/// The image of the proxies.
const IMAGE: &str = "sidecar.istio.io/proxyImage";

/// The most objects that a template makes.
const MOST_OBJECTS: usize = 16;

/// The kinds that a template may make.
pub const KINDS: [Kind; 5] = [
    Kind::new("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind::new("apps", "v1", "Deployment", "deployments"),
    Kind::new("", "v1", "Service", "services"),
    Kind::new(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    Kind::new(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    ),
];

/// A kind of objects that are deployed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that they are written in.
    pub version: &'static str,
    /// The kind, as objects name it.
    pub kind: &'static str,
    /// The name of the kind in paths.
    pub plural: &'static str,
}

impl Kind {
    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
        }
    }

    /// The kind of an object, where it is one of [`KINDS`] in the version that is written.
    pub fn of(object: &Value) -> Option<Self> {
        KINDS.into_iter().find(|known| {
            let version = match known.group {
                "" => known.version.to_owned(),
                group => format!("{group}/{}", known.version),
            };
            object["kind"] == known.kind && object["apiVersion"] == version.as_str()
        })
    }
}

/// How Gateways of a class are deployed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The template.
    pub template: &'static str,
    /// The controller, as templates write it into labels.
    pub label: &'static str,
    /// The type of the Service where nothing else is stated.
    pub service_type: &'static str,
    /// Whether names end in that of the class.
    pub names_class: bool,
    /// Whether pods stay out of the ambient mesh unless their Gateway says otherwise.
    pub stays_out: bool,
    /// Whether pods are labelled with the network of the mesh.
    pub names_network: bool,
}

impl Class {
    /// Gateways at the edge.
    pub const GATEWAY: Self = Self {
        template: "kube-gateway",
        label: "istio.io-gateway-controller",
        service_type: "LoadBalancer",
        names_class: true,
        stays_out: true,
        names_network: false,
    };
    /// Waypoints.
    pub const WAYPOINT: Self = Self {
        template: "waypoint",
        label: "istio.io-mesh-controller",
        service_type: "ClusterIP",
        names_class: false,
        stays_out: false,
        names_network: true,
    };
    /// Gateways between networks of an ambient mesh.
    pub const EAST_WEST: Self = Self {
        label: "istio.io-eastwest-controller",
        service_type: "LoadBalancer",
        ..Self::WAYPOINT
    };
}

/// What the flags say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// Whether labels and annotations of a Gateway are those of its objects, where its infrastructure states none.
    pub copy_metadata: bool,
    /// Whether there is an ambient mesh that pods can stay out of.
    pub ambient: bool,
    /// Whether HTTPS is served over QUIC as well.
    pub quic: bool,
    /// Whether sidecars are init containers that keep running.
    pub native_sidecars: bool,
    /// Whether the author of a Gateway may lay anything over its objects, and choose the image of its proxies.
    pub any_overlay: bool,
}

/// A ConfigMap that is laid over the objects of a Gateway.
#[derive(Clone, Copy, Debug)]
pub struct Overlay<'a> {
    /// What it holds, by [`OVERLAY_KEYS`].
    pub data: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Whether the operator wrote it, for all Gateways of a class.
    pub of_class: bool,
}

/// Why nothing is deployed for a Gateway.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Undeployed {
    /// Its author asks for what only the operator may set.
    #[error(
        "{0}; only the operator may set that, for all Gateways of the class or with --allow-any-gateway-overlay"
    )]
    Reserved(String),
    /// A template or an overlay makes no sense.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A Gateway, and all that has a say in what is deployed for it.
#[derive(Clone, Copy)]
pub struct Deployment<'a> {
    /// The Gateway.
    pub gateway: &'a Object<Gateway>,
    /// How Gateways of its class are deployed.
    pub class: &'a Class,
    /// The name of the controller of its class.
    pub controller: &'a str,
    /// Listeners that ListenerSets add to its own.
    pub more_listeners: &'a [Listener],
    /// ConfigMaps that are laid over its objects: those of its class, then its own.
    pub overlays: &'a [Overlay<'a>],
    /// The configuration of its proxies.
    pub proxy: &'a ProxyConfig,
    /// Annotations of its namespace.
    pub namespace_annotations: Option<&'a Labels>,
    /// The name of the cluster.
    pub cluster: &'a str,
    /// The version of the cluster's API: 136 is 1.36.
    pub kubernetes: u32,
    /// What the flags say.
    pub switches: Switches,
    /// Templates and values.
    pub settings: &'a Settings,
}

impl Deployment<'_> {
    /// What is deployed, in the order of the template.
    ///
    /// # Errors
    ///
    /// When the template or an overlay makes no sense, the template makes what it must not, or the author of the Gateway asks
    /// for what only the operator may set.
    pub fn objects(&self) -> Result<Vec<Value>, Undeployed> {
        if let Some(reserved) = self.reserved() {
            return Err(Undeployed::Reserved(reserved));
        }
        let injection = &self.settings.injection;
        let name = self.class.template;
        let template = injection.templates.get(name).ok_or_else(|| {
            Fault::new(format!(
                "the injection configuration has no template {name:?}"
            ))
        })?;
        let documents = data::data(self)?.rendered(template, &injection.functions, |text| {
            let documents = model::parse::to_json(text).into_iter();
            let documents = documents.map(|document| {
                document.map_err(|e| Fault::new(format!("what it makes is not YAML: {e}")))
            });
            documents.collect()
        });
        let documents =
            documents.map_err(|fault| Fault::new(format!("template {name}: {fault}")))?;
        let mut objects = Vec::new();
        for document in documents.as_array().into_iter().flatten() {
            let document = document.clone();
            if document.is_null() {
                continue;
            }
            if let Some(object) = overlay::applied(document, self.overlays)? {
                objects.push(self.checked(object)?);
            }
        }
        match objects.len() {
            0..=MOST_OBJECTS => Ok(objects),
            many => Err(Undeployed::Fault(Fault::new(format!(
                "template {name} makes {many} objects, {MOST_OBJECTS} at most are allowed"
            )))),
        }
    }

    /// What the author of the Gateway asks for that is the operator's to set.
    fn reserved(&self) -> Option<String> {
        if self.switches.any_overlay {
            return None;
        }
        if self.gateway.meta.annotations.contains(IMAGE) {
            return Some(format!("the annotation {IMAGE} names an image"));
        }
        let mut overlays = self.overlays.iter().filter(|overlay| !overlay.of_class);
        let field = overlays.find_map(|overlay| validate::overlay::refused(overlay.data))?;
        Some(format!("the ConfigMap of its parametersRef sets {field}"))
    }

    /// An object with the mark of its controller, if it is one that a template may make.
    fn checked(&self, mut object: Value) -> Result<Value, Fault> {
        let meta = &self.gateway.meta.name;
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if Kind::of(&object).is_none() {
            return Err(Fault::new(format!(
                "the template makes a {kind} of {}, which is not among what may be deployed",
                object["apiVersion"]
            )));
        }
        let stated = |field: &str| {
            let text = object["metadata"][field].as_str().unwrap_or_default();
            text.to_owned()
        };
        let (namespace, name) = (stated("namespace"), stated("name"));
        if namespace != meta.namespace.as_str() {
            return Err(Fault::new(format!(
                "the template makes a {kind} in namespace {namespace:?}, which is not that of the Gateway"
            )));
        }
        let expected = [self.name(), self.service_account()];
        if !expected.contains(&name) && !name.starts_with(meta.name.as_str()) {
            return Err(Fault::new(format!(
                "the template makes a {kind} {name:?}, a name that does not begin with that of the Gateway"
            )));
        }
        if !object["metadata"]["labels"].is_object() {
            object["metadata"]["labels"] = Value::Object(serde_json::Map::new());
        }
        object["metadata"]["labels"][MANAGED_LABEL] = self.controller.replace('/', "-").into();
        Ok(object)
    }

    /// The name of what is deployed.
    pub fn name(&self) -> String {
        self.gateway.deployed_name(self.class.names_class)
    }

    fn service_account(&self) -> String {
        self.gateway.deployed_account(self.class.names_class)
    }

    fn service_type(&self) -> &str {
        let stated = self.gateway.meta.annotations.get(SERVICE_TYPE);
        stated.unwrap_or(self.class.service_type)
    }
}

/// An object as it is to be applied over the one that is there: what selects the pods of a Deployment never changes, so the
/// selector stays, and pods go on having the labels that it asks for.
///
/// Istio: deploymentcontroller.go apply, 1.32, which keeps one label of its own older versions.
pub fn over(mut object: Value, now: &Value) -> Value {
    let selector = &now["spec"]["selector"];
    if object["kind"] != "Deployment" || !selector.is_object() {
        return object;
    }
    object["spec"]["selector"] = selector.clone();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    if let Some(labels) = labels.as_object_mut() {
        for (name, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            labels.entry(name).or_insert_with(|| value.clone());
        }
    }
    object
}

#[cfg(test)]
mod tests;
