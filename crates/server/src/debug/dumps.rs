//! What one proxy should have, in the shape of Envoy's own `config_dump`.

use http::StatusCode;
use serde_json::{Map, Value, json};
use xds::{Resource, TypeUrl};

use super::{PageError, parameter};
use crate::derive::ProxyRow;

/// The resources of a type that a proxy should have.
fn of_type(proxy: &ProxyRow, ty: TypeUrl) -> Vec<Value> {
    let set = proxy.published.get(ty);
    set.into_iter()
        .flat_map(|set| set.iter())
        .map(|r| descriptors::json::shown(ty.as_str(), r.shown()))
        .collect()
}

/// `/debug/edsz` and `/debug/ecdsz`: the resources of a type; nothing is in it where there are none.
pub(super) fn all_of(proxy: &ProxyRow, ty: TypeUrl) -> Value {
    match of_type(proxy, ty) {
        all if all.is_empty() => json!({}),
        all => json!({ "configs": all }),
    }
}

/// `/debug/ndsz`: the name table; nothing is in it where there is none.
pub(super) fn name_table(proxy: &ProxyRow) -> Value {
    let table = of_type(proxy, TypeUrl::NameTable).pop();
    table.unwrap_or_else(|| json!({}))
}

/// `/debug/config_dump`: all, or the types that the query names.
pub(super) fn config_dump(proxy: &ProxyRow, query: &str) -> Result<Value, PageError> {
    let with_endpoints = matches!(parameter(query, "include_eds"), Some("" | "true"));
    match parameter(query, "types").filter(|types| !types.is_empty()) {
        Some(types) => of_types(proxy, types),
        None => Ok(whole(proxy, with_endpoints)),
    }
}

/// The resources of some types, under their URLs. Secrets are shown nowhere.
fn of_types(proxy: &ProxyRow, names: &str) -> Result<Value, PageError> {
    let mut shown = Map::new();
    for name in names.split(',') {
        let ty = TypeUrl::parse_short(name).filter(|ty| *ty != TypeUrl::Secret);
        let Some(ty) = ty else {
            let known = TypeUrl::ALL.into_iter();
            let known = known.filter(|ty| *ty != TypeUrl::Secret);
            let known: Vec<&str> = known.map(TypeUrl::label).collect();
            let message = format!("types={name}: no such type; known: {}", known.join(", "));
            return Err(PageError::new(StatusCode::BAD_REQUEST, message));
        };
        shown.insert(ty.as_str().into(), of_type(proxy, ty).into());
    }
    Ok(shown.into())
}

/// The configuration of a proxy as Envoy's admin page prints it: istioctl reads either.
fn whole(proxy: &ProxyRow, with_endpoints: bool) -> Value {
    let version = format!("{}", proxy.published.revision);
    let each = |ty: TypeUrl, wrap: &dyn Fn(&Resource, Value) -> Value| -> Vec<Value> {
        let set = proxy.published.get(ty);
        set.into_iter()
            .flat_map(|set| set.iter())
            .map(|r| wrap(r, descriptors::json::shown(ty.as_str(), r.shown())))
            .collect()
    };
    let hash = |r: &Resource| format!("{:016x}", r.version);
    let mut configs = vec![
        json!({ "@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump" }),
        json!({
            "@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump",
            "versionInfo": version,
            "dynamicActiveClusters": each(TypeUrl::Cluster, &|r, v| json!({ "versionInfo": hash(r), "cluster": v })),
        }),
        json!({
            "@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump",
            "versionInfo": version,
            "dynamicListeners": each(TypeUrl::Listener, &|r, v| json!({
                "name": &*r.name, "activeState": { "versionInfo": hash(r), "listener": v },
            })),
        }),
        json!({ "@type": "type.googleapis.com/envoy.admin.v3.ScopedRoutesConfigDump" }),
        json!({
            "@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump",
            "dynamicRouteConfigs": each(TypeUrl::Route, &|r, v| json!({ "versionInfo": hash(r), "routeConfig": v })),
        }),
        json!({ "@type": "type.googleapis.com/envoy.admin.v3.SecretsConfigDump" }),
        json!({
            "@type": "type.googleapis.com/envoy.admin.v3.EcdsConfigDump",
            "ecdsFilters": each(TypeUrl::Extension, &|r, v| json!({ "versionInfo": hash(r), "ecdsFilter": v })),
        }),
    ];
    if with_endpoints {
        configs.push(json!({
            "@type": "type.googleapis.com/envoy.admin.v3.EndpointsConfigDump",
            "dynamicEndpointConfigs": each(TypeUrl::Endpoint, &|r, v| json!({ "versionInfo": hash(r), "endpointConfig": v })),
        }));
    }
    json!({ "configs": configs })
}
