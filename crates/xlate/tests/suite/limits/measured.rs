//! What a configuration makes: its bytes, its findings, and what others get.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::finding::code;
use model::Diagnostic;
use pilothouse_xlate::View;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::{ResourceSet, TypeUrl};

/// The service of another namespace.
const OTHERS: &str = "till.other.svc.cluster.local";
const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

pub(crate) struct Measured {
    /// Bytes of all resources of a sidecar and a gateway.
    pub(crate) bytes: usize,
    /// What was evaluated for them.
    pub(crate) evaluations: u64,
    /// What is said of limits: objects and fields.
    pub(crate) exceeded: Vec<(String, String)>,
    /// All that the sidecar has for the service of another namespace, by type and name.
    pub(crate) of_others: BTreeMap<String, Value>,
    pub(crate) world: World,
    pub(crate) sidecar: Arc<View>,
    pub(crate) gateway: Arc<View>,
}

impl Measured {
    pub(crate) fn new(yaml: &str) -> Self {
        let mut settings = settings("trustDomain: a\ntrustDomainAliases: [b]\n");
        let mut features = settings.features.as_ref().clone();
        // Each limit by itself: nothing is left out because of a budget before.
        features.namespace_budget = u32::MAX.into();
        settings.features = Arc::new(features);
        let mut world = World::new(settings);
        world.put(yaml);
        let view = |kind: &str| {
            world.view(&node(&json!({
                "id": format!("{kind}~10.0.0.5~cart.shop~shop.svc.cluster.local"),
                "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
            })))
        };
        let (sidecar, gateway) = (view("sidecar"), view("router"));
        let mut bytes = 0;
        let mut of_others = BTreeMap::new();
        let mut found: Vec<Diagnostic> = world.get(&FindingsOfMesh).to_vec();
        for view in [&sidecar, &gateway] {
            for ty in TYPES {
                let set = world.set(view, ty);
                bytes += set.iter().map(|r| r.body.len()).sum::<usize>();
                // Gateways that pass TLS through have more of every service.
                if Arc::ptr_eq(view, &sidecar) {
                    others(ty, &set, &mut of_others);
                }
            }
            found.extend(world.get(&view.findings()).iter().cloned());
        }
        let exceeded = found.iter().filter(|d| d.code == code::OVER_LIMIT);
        let exceeded = exceeded.map(|d| {
            let object = d.object.as_ref().expect("a finding names its object");
            assert!(!d.message.is_empty() && d.help.is_some(), "{d:?}");
            (object.to_string(), d.path.to_string())
        });
        let mut exceeded: Vec<_> = exceeded.collect();
        exceeded.sort();
        exceeded.dedup();
        Self {
            bytes,
            evaluations: world.engine.stats().runs,
            exceeded,
            of_others,
            sidecar,
            gateway,
            world,
        }
    }

    /// The virtual host of that domain on a port of the sidecar.
    pub(crate) fn virtual_host(&self, port: &str, domain: &str) -> Option<Value> {
        let set = self.world.set(&self.sidecar, TypeUrl::Route);
        let config = decode(TypeUrl::Route.as_str(), &set.get(port)?.body);
        let hosts = config["virtual_hosts"].as_array()?.iter();
        let named = |host: &&Value| {
            host["domains"]
                .as_array()
                .is_some_and(|d| d.contains(&json!(domain)))
        };
        hosts.clone().find(named).cloned()
    }

    /// A resource of the sidecar.
    pub(crate) fn resource(&self, ty: TypeUrl, name: &str) -> Option<Value> {
        let set = self.world.set(&self.sidecar, ty);
        Some(decode(ty.as_str(), &set.get(name)?.body))
    }
}

fn others(ty: TypeUrl, set: &ResourceSet, found: &mut BTreeMap<String, Value>) {
    for resource in set.iter() {
        if resource.name.contains(OTHERS) {
            let key = format!("{ty:?} {}", resource.name);
            found.insert(key, json!(format!("{:016x}", resource.version)));
        }
    }
    let Some(config) = set.get("80").filter(|_| ty == TypeUrl::Route) else {
        return;
    };
    let config = decode(ty.as_str(), &config.body);
    for host in config["virtual_hosts"].as_array().into_iter().flatten() {
        if host["name"]
            .as_str()
            .is_some_and(|name| name.contains(OTHERS))
        {
            found.insert("virtual host".to_owned(), host.clone());
        }
    }
}
