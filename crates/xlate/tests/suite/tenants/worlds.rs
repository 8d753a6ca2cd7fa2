//! Those who are there already: a bank of our own, and recorded scenarios; and what differs for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use incr::RootId;
use mesh::view::ProxyKey;
use model::node::Node;
use model::parse::Validation;
use model::settings::{Features, Settings};
use model::{AnyObject, Change, Kind, Owner};
use pilothouse_xlate::ViewOf;
use serde_json::{Value, json};
use testkit::hostile::{OWN, Surroundings};
use testkit::{Scenario, World, node, settings};
use xds::{ResourceSet, TypeUrl};

use crate::tenants::parts::{Difference, Parts, differences, parts};

/// When the objects of recorded scenarios were created: before all hostile ones, since their namespaces may come after that
/// of these in the alphabet, and of objects of one age the first in the alphabet has its way. In the bank some are of one age.
const RECORDED_CREATED: &str = "2019-01-01T00:00:00Z";

/// Somebody who is there already, and the proxies that show what becomes of it.
pub(crate) struct Tenants {
    pub(crate) world: World,
    nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) around: Surroundings,
    /// What the proxies get without hostile objects.
    sets: BTreeMap<(String, TypeUrl), ResourceSet>,
    /// The same with what others have that harms nobody.
    harmless: BTreeMap<(String, TypeUrl), ResourceSet>,
    /// What is kept alive of it.
    _roots: Vec<RootId>,
    hostile: Owner,
}

impl Tenants {
    fn new(mut world: World, nodes: BTreeMap<String, Arc<Node>>, around: Surroundings) -> Self {
        let mut roots = Vec::new();
        for node in nodes.values() {
            roots.push(world.engine.root(&ViewOf(ProxyKey::new(node.clone()))));
            let view = world.view(node);
            roots.extend(TypeUrl::ALL.map(|ty| world.engine.root(&view.set(ty))));
        }
        let mut tenants = Self {
            world,
            nodes,
            around,
            sets: BTreeMap::new(),
            harmless: BTreeMap::new(),
            _roots: roots,
            hostile: Owner::new(1, "hostile"),
        };
        tenants.sets = tenants.sets();
        tenants.world.put(OWN);
        let found = tenants.found();
        assert!(found.is_empty(), "{}", found[0]);
        tenants.harmless = tenants.sets();
        tenants
    }

    fn sets(&self) -> BTreeMap<(String, TypeUrl), ResourceSet> {
        let mut sets = BTreeMap::new();
        for (name, node) in &self.nodes {
            let view = self.world.view(node);
            for ty in TypeUrl::ALL {
                sets.insert((name.clone(), ty), self.world.set(&view, ty));
            }
        }
        sets
    }

    /// What differs with these objects beside what is there.
    pub(crate) fn with(&mut self, hostile: &[&Value], validation: Validation) -> Vec<Difference> {
        let hostile: Vec<AnyObject> = hostile
            .iter()
            .flat_map(|object| in_force(object, validation))
            .collect();
        let owner = self.hostile.clone();
        self.world.apply(
            hostile
                .into_iter()
                .map(|object| Change::Put(owner.clone(), object)),
        );
        let found = self.found();
        self.world.apply([Change::Gone(self.hostile.clone())]);
        found
    }

    pub(crate) fn found(&self) -> Vec<Difference> {
        let (mut before, mut after) = (Parts::new(), Parts::new());
        let now = self.sets();
        for ((proxy, ty), set) in &now {
            let was = &self.sets[&(proxy.clone(), *ty)];
            let whom = (proxy.as_str(), &*self.nodes[proxy]);
            if was != set && self.harmless.get(&(proxy.clone(), *ty)) != Some(set) {
                parts(whom, *ty, was, &mut before);
                parts(whom, *ty, set, &mut after);
            }
        }
        differences(&before, &after, &self.around.addresses)
    }

    /// Of these objects, those without any of which a difference is not there.
    pub(crate) fn causes<'a>(
        &mut self,
        objects: &[&'a Value],
        validation: Validation,
        difference: &Difference,
    ) -> Vec<&'a Value> {
        let mut causes = objects.to_vec();
        for object in objects {
            let fewer: Vec<&Value> = causes
                .iter()
                .filter(|cause| **cause != *object)
                .copied()
                .collect();
            let found = self.with(&fewer, validation);
            if found.iter().any(|d| d.place == difference.place) {
                causes = fewer;
            }
        }
        causes
    }
}

/// The objects of a text that a server takes in that mode, as a folder that is read for the first time has them.
pub(crate) fn in_force(object: &Value, validation: Validation) -> Vec<AnyObject> {
    let file: Arc<Path> = Path::new("hostile.yaml").into();
    let parsed = validate::parse(&object.to_string(), &file, validation);
    parsed.in_force().cloned().collect()
}

fn proxy(role: &str, name: &str, namespace: &str, address: &str, metadata: Value) -> Arc<Node> {
    let mut all = json!({
        "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0",
    });
    for (key, value) in metadata.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    node(&json!({
        "id": format!("{role}~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": all,
        "token": format!("sa:{namespace}:{name}"),
    }))
}

/// A bank, its sidecars, and the gateways that it shares.
pub(crate) fn bank() -> Tenants {
    let features = Features {
        secret_templates: "*".into(),
        edge_classes: "nginx".into(),
        edge_namespace: "istio-system".into(),
        edge_selector: "istio=edge".into(),
        ..Features::default()
    };
    let mut world = World::new(Settings {
        features: Arc::new(features),
        ..settings("")
    });
    world.put(include_str!("../../tenants/bank.yaml"));
    let root = "istio-system";
    let labels = |name: &str, value: &str| json!({"LABELS": {name: value}});
    let nodes = [
        (
            "web",
            proxy(
                "sidecar",
                "web-0",
                "bank",
                "10.2.0.1",
                json!({"LABELS": {"app": "web"}, "DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "true"}),
            ),
        ),
        (
            "ledger",
            proxy(
                "sidecar",
                "ledger-0",
                "bank",
                "10.2.0.2",
                json!({"LABELS": {"app": "ledger"}, "DNS_CAPTURE": "true"}),
            ),
        ),
        (
            "shared",
            proxy(
                "router",
                "shared-0",
                root,
                "10.3.0.1",
                labels("istio", "ingressgateway"),
            ),
        ),
        (
            "edge",
            proxy(
                "router",
                "edge-0",
                root,
                "10.3.0.2",
                labels("istio", "edge"),
            ),
        ),
        (
            "front",
            proxy(
                "router",
                "front-0",
                root,
                "10.3.0.3",
                json!({
                    "LABELS": {"gateway.networking.k8s.io/gateway-name": "front"},
                    "PILOTHOUSE_GATEWAY": "front",
                }),
            ),
        ),
    ];
    let nodes = nodes
        .into_iter()
        .map(|(name, node)| (name.to_owned(), node))
        .collect();
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let around = Surroundings {
        hosts: texts(&[
            "web.bank.svc.cluster.local",
            "ledger.bank.svc.cluster.local",
            "db.bank.svc.cluster.local",
            "peers.bank.svc.cluster.local",
            "api.partner.example",
            "tills.partner.example",
            "bank.example.com",
            "twin.bank.example",
            "idle.bank.example",
            "*.bank.example.com",
            "pass.bank.example",
            "route.bank.example",
            "tls.bank.example",
            "ingress.bank.example",
            "*.ingress.bank.example",
        ]),
        gateways: texts(&["istio-system/shared"]),
        parents: texts(&["istio-system/front", "istio-system/shared"]),
        selectors: texts(&[
            "istio=ingressgateway",
            "istio=edge",
            "gateway.networking.k8s.io/gateway-name=front",
            "app=web",
        ]),
        addresses: texts(&[
            "10.1.0.1", "10.1.0.2", "10.2.0.1", "10.2.0.2", "10.2.0.3", "10.3.0.1",
        ]),
        ports: vec![80, 443, 8082, 8443, 9000, 9443],
        own_address: "10.9.9.9".to_owned(),
    };
    Tenants::new(world, nodes, around)
}

/// A recorded scenario, in which everybody is there already.
pub(crate) fn recorded(name: &str) -> Option<Tenants> {
    let scenario = Scenario::recorded_and_created(name, RECORDED_CREATED)?;
    let mut around = Surroundings {
        own_address: "10.9.9.9".to_owned(),
        ..Surroundings::default()
    };
    let snapshot = scenario.world.store.snapshot();
    for kind in Kind::ALL {
        for object in snapshot.tables.iter_any(*kind) {
            let name = object.key().name;
            match kind {
                Kind::Gateway => around.gateways.push(name.to_string()),
                Kind::KubeGateway => around.parents.push(name.to_string()),
                Kind::Service => {
                    let host = format!("{}.{}.svc.cluster.local", name.name, name.namespace);
                    around.hosts.push(host);
                }
                _ => {}
            }
            look(&object.spec_json(), "", &mut around);
        }
    }
    for node in scenario.nodes.values() {
        let labels = node
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        around.selectors.extend(labels);
    }
    let lists = [
        &mut around.hosts,
        &mut around.addresses,
        &mut around.selectors,
        &mut around.gateways,
        &mut around.parents,
    ];
    for (list, otherwise) in
        lists
            .into_iter()
            .zip(["a.example", "10.4.0.1", "app=web", "a/b", "a/b"])
    {
        list.sort();
        list.dedup();
        if list.is_empty() {
            list.push(otherwise.to_owned());
        }
    }
    around.ports.extend([80, 443]);
    Some(Tenants::new(scenario.world, scenario.nodes, around))
}

/// Gathers hosts, addresses, labels and ports.
fn look(value: &Value, field: &str, around: &mut Surroundings) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| look(item, field, around)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| look(value, name, around)),
        Value::String(text) => {
            let host = text.rsplit('/').next().unwrap_or_default();
            match field {
                "hosts" | "host" | "hostnames" | "hostname" if host != "*" && !host.is_empty() => {
                    around.hosts.push(host.to_owned());
                }
                "address" | "addresses" | "clusterIP" | "ip"
                    if text.parse::<std::net::IpAddr>().is_ok() =>
                {
                    around.addresses.push(text.clone());
                }
                _ => {}
            }
        }
        Value::Number(number) if field == "number" => {
            around
                .ports
                .extend(number.as_u64().and_then(|n| u16::try_from(n).ok()));
        }
        _ => {}
    }
}
