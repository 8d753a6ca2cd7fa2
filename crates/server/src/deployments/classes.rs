//! The GatewayClasses that are ours, made where they are not there.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/gatewayclass.go, 1.32.

use std::sync::Arc;

use convert::gateway_api::Controller;
use model::{Kind, ObjectName};
use serde_json::{Value, json};
use store::Snapshot;
use writeback::ObjectRef;
use writeback::objects::{self, Unmet, Wanted};

/// A class that is to be there; what it says is its author's, once it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    controller: String,
    description: &'static str,
}

impl objects::Wish for Wish {
    fn over(&self, now: Option<&Value>) -> Option<Value> {
        let spec = json!({"controllerName": self.controller, "description": self.description});
        now.is_none().then(|| json!({"spec": spec}))
    }
}

/// The definition of the kind.
const DEFINITION: &str = "gatewayclasses.gateway.networking.k8s.io";

/// Classes that are not there. In a cluster there is nothing to be made until the Gateway API is installed.
pub(super) fn missing(snapshot: &Snapshot, in_cluster: bool) -> Wanted<Wish> {
    let definitions = &snapshot.tables.custom_resource_definitions;
    if in_cluster && definitions.get(&ObjectName::new("", DEFINITION)).is_none() {
        return Wanted::default();
    }
    let features = &snapshot.settings.features;
    let there = &snapshot.tables.gateway_classes;
    let all = Controller::built_in_classes(features).into_iter();
    let missing = all.filter_map(|(class, controller)| {
        let name = ObjectName::new("", class);
        let wish = Wish {
            controller: controller.name(features).to_owned(),
            description: match controller {
                Controller::Gateway => "Gateways at the edge of the mesh",
                Controller::Remote => "Gateways of other clusters; nothing is deployed for them",
                Controller::Waypoint => "Waypoints of the ambient mesh",
                Controller::EastWest => "Gateways between networks of the ambient mesh",
            },
        };
        let unmet = Unmet {
            wish,
            exists: false,
        };
        let absent = there.get(&name).is_none();
        absent.then(|| (ObjectRef::of(Kind::GatewayClass, &name), Arc::new(unmet)))
    });
    Arc::new(missing.collect())
}
