//! Ingresses that rows state, and the parts of what is derived from them that rows show.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::edge::{EdgeRoute, McpEntry};
use model::{AnyObject, Change, Kind, Owner};
use pilothouse_convert::load;
use serde_json::{Value, json};
use testkit::World;

use crate::edge::world::served;

/// An Ingress of Higress's class.
pub(super) fn ingress(name: &str, annotations: &Value, spec: Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("test", name));
    let mut spec = spec;
    spec["ingressClassName"] = json!("higress");
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec,
    })
}

/// The same, made at that second.
pub(super) fn made_at(mut ingress: Value, second: usize) -> Value {
    ingress["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    ingress
}

/// A specification of one path of a host.
pub(super) fn path(host: &str, path: &str, kind: &str) -> Value {
    rule(
        host,
        json!({"path": path, "pathType": kind, "backend": backend("web")}),
    )
}

/// A specification of one path of a host.
pub(super) fn rule(host: &str, path: Value) -> Value {
    json!({"rules": [{"host": host, "http": {"paths": [path]}}]})
}

pub(super) fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

/// What a row shows of a world.
pub(super) struct Made {
    gateways: Vec<Value>,
    rules: Vec<(String, Value)>,
    routes: Vec<(Value, Option<Arc<EdgeRoute>>)>,
}

impl Made {
    /// What is derived from Ingresses among Services and Secrets (`Kind/namespace/name`).
    pub(super) fn of(ingresses: &[Value], around: &[&str]) -> Self {
        Self::within("higress-system", ingresses, around)
    }

    /// The same, where the system's namespace is that.
    pub(super) fn within(system: &str, ingresses: &[Value], around: &[&str]) -> Self {
        let mut settings = served();
        let mut features = settings.features.as_ref().clone();
        features.edge_namespace = system.into();
        features.edge_cross_namespace = true;
        settings.features = features.into();
        let web = ["Service/test/web"];
        let around = around.iter().chain(&web).map(|name| stood(name));
        let owner = Owner::new(0, "test");
        let all = around.chain(ingresses.iter().cloned());
        let changes = all.flat_map(|object| World::objects(&object.to_string()));
        let changes = changes.map(|object| Change::Put(owner.clone(), object));
        let loaded = load(Arc::new(settings), changes);
        let tables = &loaded.store.snapshot().tables;
        let mut made = Self {
            gateways: Vec::new(),
            rules: Vec::new(),
            routes: Vec::new(),
        };
        let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
        for object in kinds.iter().flat_map(|kind| tables.iter_any(*kind)) {
            made.take(&object);
        }
        made
    }

    fn take(&mut self, object: &AnyObject) {
        match object {
            AnyObject::Gateway(gateway) => {
                let mut shown = serde_json::to_value(&gateway.spec).unwrap();
                shown["name"] = json!(*gateway.meta.name.name);
                self.gateways.push(shown);
            }
            AnyObject::VirtualService(service) => {
                let edge = service.meta.derived.as_ref().map(|derived| &derived.edge);
                for (at, route) in service.spec.http.iter().enumerate() {
                    let edge = edge.and_then(|edge| edge.get(&at).cloned());
                    self.routes
                        .push((serde_json::to_value(route).unwrap(), edge));
                }
            }
            AnyObject::DestinationRule(rule) => {
                let name = rule.meta.name.name.to_string();
                self.rules
                    .push((name, serde_json::to_value(&rule.spec).unwrap()));
            }
            _ => unreachable!("no other kind is asked for"),
        }
    }

    /// The Gateway of a host.
    pub(super) fn gateway(&self, host: &str) -> Value {
        let mut all = self.gateways.iter();
        let found = all.find(|gateway| gateway["servers"][0]["hosts"][0] == host);
        found.cloned().unwrap_or_default()
    }

    /// The server for HTTPS of the first Gateway that has one.
    pub(super) fn secure(&self) -> Value {
        let servers = self
            .gateways
            .iter()
            .flat_map(|gateway| gateway["servers"].as_array());
        let mut servers = servers.flatten();
        servers
            .find(|server| server["port"]["protocol"] == "HTTPS")
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn gateways(&self) -> &[Value] {
        &self.gateways
    }

    /// The first route.
    pub(super) fn route(&self) -> Value {
        self.routes
            .first()
            .map(|(route, _)| route.clone())
            .unwrap_or_default()
    }

    pub(super) fn routes(&self) -> impl Iterator<Item = &Value> {
        self.routes.iter().map(|(route, _)| route)
    }

    /// What the first route asks for beside.
    pub(super) fn edge(&self) -> EdgeRoute {
        let edge = self.routes.first().and_then(|(_, edge)| edge.as_deref());
        edge.cloned().unwrap_or_default()
    }

    /// What Higress's filter for MCP is told, with the names of routes, sorted.
    pub(super) fn entries(&self) -> BTreeMap<String, McpEntry> {
        let all = self.routes.iter().filter_map(|(route, edge)| {
            let mcp = edge.as_ref()?.mcp.as_ref()?;
            Some((route["name"].as_str()?.to_owned(), mcp.entry.clone()?))
        });
        all.collect()
    }

    /// The names of DestinationRules.
    pub(super) fn rules(&self) -> Vec<&str> {
        self.rules.iter().map(|(name, _)| &**name).collect()
    }

    /// What the first DestinationRule says of the port.
    pub(super) fn policy(&self) -> Value {
        let policy = self
            .rules
            .first()
            .map(|(_, rule)| rule["trafficPolicy"].clone());
        let policy = policy.unwrap_or_default();
        let mut port = match &policy["portLevelSettings"][0] {
            Value::Null => policy,
            port => port.clone(),
        };
        if let Some(port) = port.as_object_mut() {
            port.remove("port");
        }
        port
    }
}

/// An object that Ingresses need.
fn stood(name: &str) -> Value {
    let parts: Vec<&str> = name.split('/').collect();
    let metadata = json!({"name": parts[2], "namespace": parts[1]});
    let ports = json!([{"name": "http", "port": 80}, {"name": "other", "port": 8080}]);
    match parts[0] {
        "Service" => {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
        }
        _ => json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "stringData": {"tls.crt": "C", "tls.key": "K", "ca.crt": "C"}}),
    }
}

/// Values of the tables as Istio's JSON has them: durations and wrapped values as texts and plain ones, credentials with
/// the name that stock Istio has, no empty objects.
pub(super) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            if let (1, Some(seconds)) = (fields.len(), fields.get("seconds")) {
                return json!(format!("{seconds}s"));
            }
            if let (1, Some(value)) = (fields.len(), fields.get("value")) {
                return value.clone();
            }
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), plain(value)));
            let fields: serde_json::Map<_, _> =
                fields.filter(|(_, value)| !is_unset(value)).collect();
            match fields.is_empty() {
                true => Value::Null,
                false => Value::Object(fields),
            }
        }
        Value::Array(all) => all.iter().map(plain).collect(),
        Value::String(text) => match text.strip_prefix("kubernetes-ingress://") {
            Some(name) => {
                let (_, name) = name.split_once('/').unwrap();
                json!(format!("kubernetes-gateway://{name}"))
            }
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

fn is_unset(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false))
        || *value == json!("TLS_AUTO")
        || *value == json!([])
}
