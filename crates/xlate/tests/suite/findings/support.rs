//! A sidecar, or another proxy, and what is found for it.

use std::sync::Arc;

use model::Diagnostic;
use model::settings::Settings;
use pilothouse_xlate::View;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

/// A service with a port for requests and one for bytes, on the workload of the proxy.
pub(crate) const SERVICE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 9000, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
";

/// The same without the port for bytes.
pub(crate) const HTTP_ONLY: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
";

pub(crate) const MESH: &str = "
extensionProviders:
- name: asked
  envoyExtAuthzHttp: {service: authz.shop.svc.cluster.local, port: 8000}
- name: lost
  envoyExtAuthzGrpc: {service: nowhere.example.com, port: 9000}
";

pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) view: Arc<View>,
}

impl Case {
    pub(crate) fn new(yaml: &str) -> Self {
        Self::with(settings(MESH), json!({}), &format!("{SERVICE}---{yaml}"))
    }

    pub(crate) fn with(settings: Settings, proxy: Value, yaml: &str) -> Self {
        let mut world = World::new(settings);
        world.put(yaml);
        let mut description = json!({
            "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
        });
        for (key, value) in proxy.as_object().unwrap() {
            description[key] = value.clone();
        }
        let view = world.view(&node(&description));
        Self { world, view }
    }

    pub(crate) fn findings(&self) -> Vec<Diagnostic> {
        self.world.get(&self.view.findings()).to_vec()
    }

    /// The one finding, as code, object and field.
    pub(crate) fn only(&self) -> (&'static str, String, String) {
        let found = self.findings();
        let [only] = found.as_slice() else {
            panic!("{found:#?}");
        };
        assert_eq!(only.origin, None, "where it was read from is no input");
        let object = only.object.as_ref().map(ToString::to_string);
        (only.code, object.unwrap_or_default(), only.path.to_string())
    }

    /// The configuration of each filter of that name in the inbound listener, of the chains for that port.
    pub(crate) fn filters(&self, port: u16, name: &str) -> Vec<Value> {
        let set = self.world.set(&self.view, TypeUrl::Listener);
        let listener = set.get("virtualInbound").unwrap();
        let listener = decode(TypeUrl::Listener.as_str(), &listener.body);
        let mut found = Vec::new();
        for chain in listener["filter_chains"].as_array().unwrap() {
            if chain["filter_chain_match"]["destination_port"] == port {
                collect(chain, name, &mut found);
            }
        }
        found
    }

    /// That of the first such filter.
    pub(crate) fn filter(&self, port: u16, name: &str) -> Value {
        let found = self.filters(port, name);
        found.first().unwrap_or_else(|| panic!("no {name}")).clone()
    }
}

pub(crate) fn collect(value: &Value, name: &str, found: &mut Vec<Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|v| collect(v, name, found)),
        Value::Object(fields) => {
            if value["name"] == name {
                found.push(value["typed_config"].clone());
            }
            fields.values().for_each(|v| collect(v, name, found));
        }
        _ => {}
    }
}

pub(crate) fn policy(spec: &str) -> String {
    format!(
        "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: p, namespace: shop}}
spec: {spec}
"
    )
}
