//! What one proxy should have, in the shape of Envoy's own `config_dump`.

use serde_json::{Value, json};
use xds::{Resource, TypeUrl};

use crate::derive::ProxyRow;

/// The configuration of a proxy as Envoy's admin page prints it: istioctl reads either.
pub(super) fn config_dump(proxy: &ProxyRow) -> Value {
    let version = format!("{}", proxy.published.revision);
    let each = |ty: TypeUrl, wrap: &dyn Fn(&Resource, Value) -> Value| -> Vec<Value> {
        let set = proxy.published.get(ty);
        set.into_iter()
            .flat_map(|set| set.iter())
            .map(|r| wrap(r, descriptors::json::shown(ty.as_str(), r.shown())))
            .collect()
    };
    let hash = |r: &Resource| format!("{:016x}", r.version);
    json!({ "configs": [
        { "@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump" },
        {
            "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
            "versionInfo": version,
            "dynamicActiveClusters": each(TypeUrl::Cluster, &|r, v| json!({ "versionInfo": hash(r), "cluster": v })),
        },
        {
            "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump",
            "versionInfo": version,
            "dynamicListeners": each(TypeUrl::Listener, &|r, v| json!({
                "name": &*r.name, "activeState": { "versionInfo": hash(r), "listener": v },
            })),
        },
        { "@type": "type.googleapis.com/envoy.admin.v3.ScopedRoutesConfigDump" },
        {
            "@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump",
            "dynamicRouteConfigs": each(TypeUrl::Route, &|r, v| json!({ "versionInfo": hash(r), "routeConfig": v })),
        },
        { "@type": "type.googleapis.com/envoy.admin.v3.SecretsConfigDump" },
        { "@type": "type.googleapis.com/envoy.admin.v3.EcdsConfigDump" },
        {
            "@type": "type.googleapis.com/envoy.admin.v3.EndpointsConfigDump",
            "dynamicEndpointConfigs": each(TypeUrl::Endpoint, &|r, v| json!({ "versionInfo": hash(r), "endpointConfig": v })),
        },
    ]})
}
