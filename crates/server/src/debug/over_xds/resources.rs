//! The resources of debug types.

use std::collections::BTreeMap;

use ads::Entry;
use prost_types::{Any, Struct, Value, value};
use proto_envoy::envoy::admin::v3::clusters_config_dump::DynamicCluster;
use proto_envoy::envoy::admin::v3::listeners_config_dump::{DynamicListener, DynamicListenerState};
use proto_envoy::envoy::admin::v3::routes_config_dump::DynamicRouteConfig;
use proto_envoy::envoy::admin::v3::{
    BootstrapConfigDump, ClustersConfigDump, EcdsConfigDump, ListenersConfigDump, RoutesConfigDump,
    ScopedRoutesConfigDump, SecretsConfigDump, UpdateFailureState,
};
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::status::v3::client_config::GenericXdsConfig;
use proto_envoy::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use xds::{Resource, TypeUrl, any};

use super::asked::Kind;
use super::rights::Rights;
use crate::debug::proxy_name;
use crate::derive::ProxyRow;
use crate::streams::{Connection, TypeState};

/// How far each proxy is that the rights cover.
pub(super) fn statuses(connections: &[Connection], rights: &Rights) -> Vec<Entry> {
    let covered = connections
        .iter()
        .filter(|c| rights.cover(&c.node.namespace));
    covered
        .map(|connection| Entry {
            name: proxy_name(&connection.node),
            version: String::new(),
            resource: any(&status(connection)),
        })
        .collect()
}

fn status(connection: &Connection) -> ClientConfig {
    let node = &connection.node;
    let version = node.metadata.get("ISTIO_VERSION").and_then(|v| v.as_str());
    let stated = [
        ("CLUSTER_ID", Some(&*node.cluster)),
        ("NAMESPACE", Some(&*node.namespace)),
        ("ISTIO_VERSION", version),
    ];
    let text = |text: &str| Value {
        kind: Some(value::Kind::StringValue(text.to_owned())),
    };
    let fields: BTreeMap<String, Value> = stated
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), text(value?))))
        .collect();
    let mut types = TypeUrl::ALL;
    types.sort_by_key(|ty| ty.as_str());
    let of_type = |ty: TypeUrl| connection.types[ty].as_ref().map(|t| of_state(ty, t));
    ClientConfig {
        node: Some(Node {
            id: proxy_name(node),
            metadata: Some(Struct { fields }),
            ..Node::default()
        }),
        generic_xds_configs: types.into_iter().filter_map(of_type).collect(),
        ..ClientConfig::default()
    }
}

fn of_state(ty: TypeUrl, state: &TypeState) -> GenericXdsConfig {
    let status = if !state.is_known() {
        ConfigStatus::NotSent
    } else if state.refused.is_some() {
        ConfigStatus::Error
    } else if state.is_taken() {
        ConfigStatus::Synced
    } else {
        ConfigStatus::Stale
    };
    let error_state = state.refused.as_ref().map(|reason| UpdateFailureState {
        last_update_attempt: Some(state.sent_at.into()),
        details: (**reason).to_owned(),
        ..UpdateFailureState::default()
    });
    GenericXdsConfig {
        type_url: ty.as_str().to_owned(),
        last_updated: state.is_known().then(|| state.sent_at.into()),
        config_status: status.into(),
        error_state,
        ..GenericXdsConfig::default()
    }
}

/// What a proxy should have, as the parts of Envoy's own `config_dump`.
pub(super) fn dump(proxy: &ProxyRow) -> Vec<Entry> {
    let version_info = proxy.published.revision.to_string();
    let of_type = |ty: TypeUrl| {
        let set = proxy.published.get(ty);
        set.into_iter().flat_map(|set| set.iter()).map(move |r| {
            let resource = Any {
                type_url: ty.as_str().to_owned(),
                value: r.shown().to_vec(),
            };
            (version(r), r.name.to_string(), resource)
        })
    };
    let clusters = of_type(TypeUrl::Cluster).map(|(version_info, _, resource)| DynamicCluster {
        version_info,
        cluster: Some(resource),
        ..DynamicCluster::default()
    });
    let listeners = of_type(TypeUrl::Listener).map(|(version_info, name, resource)| {
        let state = DynamicListenerState {
            version_info,
            listener: Some(resource),
            ..DynamicListenerState::default()
        };
        DynamicListener {
            name,
            active_state: Some(state),
            ..DynamicListener::default()
        }
    });
    let routes = of_type(TypeUrl::Route).map(|(version_info, _, resource)| DynamicRouteConfig {
        version_info,
        route_config: Some(resource),
        ..DynamicRouteConfig::default()
    });
    let parts = [
        any(&BootstrapConfigDump::default()),
        any(&ClustersConfigDump {
            version_info: version_info.clone(),
            dynamic_active_clusters: clusters.collect(),
            ..ClustersConfigDump::default()
        }),
        any(&ListenersConfigDump {
            version_info,
            dynamic_listeners: listeners.collect(),
            ..ListenersConfigDump::default()
        }),
        any(&ScopedRoutesConfigDump::default()),
        any(&RoutesConfigDump {
            dynamic_route_configs: routes.collect(),
            ..RoutesConfigDump::default()
        }),
        any(&SecretsConfigDump::default()),
        any(&EcdsConfigDump::default()),
    ];
    let entry = |resource: Any| Entry {
        // Clients of delta tell resources apart by it.
        name: resource.type_url.clone(),
        version: String::new(),
        resource,
    };
    parts.map(entry).into()
}

fn version(resource: &Resource) -> String {
    format!("{:016x}", resource.version)
}

/// A page as a resource: its body as it is.
pub(super) fn page(body: Vec<u8>) -> Entry {
    let type_url = Kind::Page.type_url().to_owned();
    Entry {
        name: type_url.clone(),
        version: String::new(),
        resource: Any {
            type_url,
            value: body,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use prost::Message;

    use super::*;

    fn connection() -> Connection {
        let node = serde_json::json!({
            "id": "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local",
            "metadata": { "ISTIO_VERSION": "1.32.0", "CLUSTER_ID": "one" },
        });
        Connection {
            number: 1,
            node: testkit::node(&node),
            peer: ([127, 0, 0, 1], 4000).into(),
            since: SystemTime::UNIX_EPOCH,
            types: Default::default(),
        }
    }

    fn state(sent: u64, acked: Option<u64>, refused: Option<&str>) -> Option<TypeState> {
        Some(TypeState {
            sent,
            acked,
            refused: refused.map(Into::into),
            sent_at: SystemTime::UNIX_EPOCH + Duration::from_secs(7),
            ..TypeState::default()
        })
    }

    #[test]
    fn a_proxy_is_in_sync_behind_or_refuses() {
        let mut connection = connection();
        connection.types[TypeUrl::Cluster] = state(3, Some(3), None);
        connection.types[TypeUrl::Endpoint] = state(4, Some(2), None);
        connection.types[TypeUrl::Route] = state(0, None, None);
        connection.types[TypeUrl::Listener] = state(5, Some(1), Some("bad address"));
        let connections = [connection];
        let entries = statuses(&connections, &Rights::All);
        assert_eq!(entries[0].name, "web-1.shop");
        let read = ClientConfig::decode(&*entries[0].resource.value).unwrap();
        let node = read.node.unwrap();
        assert_eq!(node.id, "web-1.shop");
        let fields = node.metadata.unwrap().fields;
        let text = |name: &str| match fields[name].kind.as_ref().unwrap() {
            value::Kind::StringValue(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("ISTIO_VERSION"), "1.32.0");
        assert_eq!(
            (text("CLUSTER_ID"), text("NAMESPACE")),
            ("one".into(), "shop".into())
        );
        let states: Vec<_> = read
            .generic_xds_configs
            .iter()
            .map(|c| (c.type_url.rsplit_once('.').unwrap().1, c.config_status()))
            .collect();
        let expected = [
            ("Cluster", ConfigStatus::Synced),
            ("ClusterLoadAssignment", ConfigStatus::Stale),
            ("Listener", ConfigStatus::Error),
            ("RouteConfiguration", ConfigStatus::NotSent),
        ];
        assert_eq!(states, expected);
        let configs = read.generic_xds_configs;
        let reason = configs[2].error_state.as_ref().map(|e| &*e.details);
        assert_eq!(reason, Some("bad address"));
        assert_eq!(configs[0].last_updated.as_ref().map(|t| t.seconds), Some(7));

        let shop = |namespace: &str| Rights::Of([namespace.into()].into());
        assert_eq!(statuses(&connections, &shop("shop")).len(), 1);
        assert_eq!(statuses(&connections, &shop("bank")).len(), 0);
    }
}
