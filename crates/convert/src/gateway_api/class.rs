//! Which GatewayClasses are ours, and what is told of each.

use std::sync::Arc;

use model::ObjectName;
use model::kinds::gateway_api::GatewayClass;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What Gateways of a class are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Controller {
    /// Gateways.
    Gateway,
    /// Gateways of another cluster, which are only named here.
    Remote,
    /// Waypoints.
    Waypoint,
    /// Gateways between networks of an ambient mesh.
    EastWest,
}

/// A class that is ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Class {
    /// The name of the controller, as statuses say it.
    pub controller_name: Arc<str>,
    /// What its Gateways are.
    pub controller: Controller,
}

/// The class of a name; `None` where it is not there or not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClassOf(pub Arc<str>);

impl Derive for ClassOf {
    type Stratum = Routes;
    type Value = Option<Class>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let _ = read.get::<GatewayClass>(&ObjectName::new("", self.0.clone()));
        None
    }
}
