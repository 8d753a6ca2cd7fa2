//! Route configurations as EnvoyFilters leave them.
//!
//! They are put together from encoded parts like all others, and only then read, patched and written.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use incr::{Cx, Query};
use prost::Message;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use store::Snapshot;

use policy::envoy_filter::route::{RouteContext, apply};
use policy::envoy_filter::{Context, RoutePatches};
use xds::Resource;

use super::encode::Written;
use crate::judged;

/// A route configuration that can be made.
pub(super) trait Config: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> String;
    /// The configuration without patches.
    fn encoded(&self, cx: &Cx<'_, Snapshot>, name: &str) -> Written;
    /// The ports of services that lead to a port of the proxy.
    fn service_ports(&self, _: &Cx<'_, Snapshot>, port: u32) -> Vec<u32> {
        vec![port]
    }
}

/// A route configuration with patches that may concern it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Patched<C> {
    pub(super) config: C,
    pub(super) context: Context,
    pub(super) patches: Arc<RoutePatches>,
}

impl<C: Config> Query<Snapshot> for Patched<C> {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        let name = self.config.name();
        let written = self.config.encoded(cx, &name);
        // What we encode we can decode; if not, it goes out as it is.
        let Ok(mut config) = RouteConfiguration::decode(&*written.bytes) else {
            return Arc::new(written.resource(name));
        };
        let place = RouteContext {
            context: self.context,
            service_ports: &|port| self.config.service_ports(cx, port),
        };
        apply(&self.patches, &place, &mut config);
        let (bytes, faults) = judged::configuration(config);
        let mut found = written.found;
        let effect =
            format!("route configuration {name}, as EnvoyFilters leave it: a part is closed");
        let faults = faults.iter();
        found.extend(faults.map(|fault| judged::finding(None, &effect, fault)));
        let bytes = bytes.into();
        Arc::new(Written { bytes, found }.resource(name))
    }
}
