//! Which GatewayClasses are ours, and what Gateways of each are.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/{classinfo.go,gatewayclass_collection.go}, 1.32.

use std::sync::Arc;

use model::ObjectName;
use model::kinds::gateway_api::GatewayClass;
use model::settings::Features;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The controller of waypoints and of what concerns the mesh.
pub const MESH_CONTROLLER: &str = "istio.io/mesh-controller";

/// Our own class, which means what Istio's default one does.
const OWN: &str = "pilothouse";

/// What Gateways of a class are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// Gateways.
    Gateway,
    /// Gateways of another cluster, which are only named here.
    Remote,
    /// Waypoints.
    Waypoint,
    /// Gateways between networks of an ambient mesh.
    EastWest,
}

impl Controller {
    /// What Gateways of a class are, which may be known without an object; `None` where the class is not ours.
    pub fn of(class: &str, object: Option<&GatewayClass>, features: &Features) -> Option<Self> {
        match object {
            Some(object) => Self::find(&object.controller_name, features),
            None => Self::built_in(class, features),
        }
    }

    /// The name of the controller.
    pub fn name(self, features: &Features) -> &str {
        match self {
            Self::Gateway => &features.gateway_controller,
            Self::Remote => "istio.io/unmanaged-gateway",
            Self::Waypoint => MESH_CONTROLLER,
            Self::EastWest => "istio.io/eastwest-controller",
        }
    }

    /// The classes that are there without anybody making them, with what their Gateways are.
    pub fn built_in_classes(features: &Features) -> Vec<(String, Self)> {
        let mut names = vec![
            OWN,
            features.default_gateway_class.as_str(),
            "istio-remote",
            "istio-waypoint",
            "istio-east-west",
        ];
        names.sort_unstable();
        names.dedup();
        let known = names.into_iter();
        known
            .filter_map(|name| Some((name.to_owned(), Self::built_in(name, features)?)))
            .collect()
    }

    /// The controller of that name, where the features let us be it.
    pub(crate) fn find(name: &str, features: &Features) -> Option<Self> {
        let all = [Self::Gateway, Self::Remote, Self::Waypoint, Self::EastWest];
        let found = all.into_iter().find(|c| c.name(features) == name)?;
        (features.gateway_api && found.is_enabled(features)).then_some(found)
    }

    /// That of a class that is ours without an object.
    pub(crate) fn built_in(class: &str, features: &Features) -> Option<Self> {
        let found = match class {
            "istio-remote" => Self::Remote,
            "istio-waypoint" => Self::Waypoint,
            "istio-east-west" => Self::EastWest,
            _ if class == OWN || class == features.default_gateway_class.as_str() => Self::Gateway,
            _ => return None,
        };
        (features.gateway_api && found.is_enabled(features)).then_some(found)
    }

    fn is_enabled(self, features: &Features) -> bool {
        match self {
            Self::Gateway => true,
            Self::Remote => features.gateway_api_network_gateways,
            Self::Waypoint => features.ambient_waypoints,
            Self::EastWest => features.ambient_multi_network,
        }
    }

    /// Whether ListenerSets can add to its Gateways.
    pub fn takes_listener_sets(self) -> bool {
        self == Self::Gateway
    }

    /// Whether what is deployed for a Gateway has the class in its name.
    pub(crate) fn names_class(self) -> bool {
        self == Self::Gateway
    }
}

/// The class of a name; `None` where it is not there or not ours. One that an object gives to another controller is not
/// ours, whatever its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClassOf(pub Arc<str>);

impl Derive for ClassOf {
    type Stratum = Routes;
    type Value = Option<Controller>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let features = &read.settings().features;
        let object = read.get::<GatewayClass>(&ObjectName::new("", self.0.clone()));
        Controller::of(&self.0, object.as_deref().map(|o| &o.spec), features)
    }
}
