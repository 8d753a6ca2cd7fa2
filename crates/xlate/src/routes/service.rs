//! The route to a service that no rule is about.
//!
//! Istio: pilot/pkg/networking/core/route/route.go buildSidecarVirtualHostForService, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::labels::Labels;
use model::names::Namespace;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto_envoy::envoy::config::route::v3::{Decorator, Route, RouteAction};
use proto_istio::networking::HttpRetry;
use store::{Reads, Snapshot};

use super::domains::with_port;
use super::encode::{Closed, RouteList};
use super::rule::cluster_name;
use super::{action, hash, matching, retry};
use mesh::destination_rule::{Client, Side, rule_for};

/// The name of routes that no rule made.
pub(super) const DEFAULT: &str = "default";

/// The route to a service's port, for all clients alike.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ServiceRoutes {
    /// The service.
    pub(super) host: Hostname,
    /// The namespace of the service.
    pub(super) namespace: Namespace,
    /// Its port.
    pub(super) port: u16,
    /// The namespace of the client.
    pub(super) client: Namespace,
    /// Labels of the client, only those that DestinationRules of its namespace read.
    pub(super) labels: Labels,
}

impl Query<Snapshot> for ServiceRoutes {
    type Value = Arc<RouteList>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<RouteList> {
        let client = Client {
            namespace: &self.client,
            labels: &self.labels,
            side: Side::Client,
        };
        let cluster = cluster_name(self.port.into(), "", &self.host);
        let operation = format!("{}/*", with_port(&self.host, self.port));
        let retries = cx.settings().mesh.default_http_retry_policy.as_ref();
        let mut action = outbound_action(cluster, retries);
        if let Some(rule) = rule_for(cx, client, &self.namespace, &self.host) {
            let hashed = hash::of_port(rule.spec(), self.port);
            action.hash_policy.extend(hashed.and_then(hash::policy));
        }
        let effect = || format!("requests for {} get 503", with_port(&self.host, self.port));
        let tell = |closed: Closed<'_>| closed.finding(None, &effect());
        Arc::new(RouteList::new(&[default_route(action, operation)], tell))
    }
}

/// Sends everything to a cluster, as clients do.
pub(super) fn outbound_action(cluster: String, retries: Option<&HttpRetry>) -> RouteAction {
    let mut action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster)),
        retry_policy: retry::outbound(retries, false),
        ..RouteAction::default()
    };
    action::set_timeout(&mut action, None);
    action
}

/// A route for every request.
pub(super) fn default_route(action: RouteAction, operation: String) -> Route {
    Route {
        name: DEFAULT.to_owned(),
        r#match: Some(matching::any_request()),
        decorator: Some(Decorator {
            operation,
            ..Decorator::default()
        }),
        action: Some(Action::Route(action)),
        ..Route::default()
    }
}
