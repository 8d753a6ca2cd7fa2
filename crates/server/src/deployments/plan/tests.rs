//! Plans over worlds that change.

use std::collections::BTreeSet;
use std::sync::Arc;

use inject::{Injection, builtin};
use model::{Change, ObjectKey, Owner};
use serde_json::Value;
use store::Store;

use super::*;

struct Rig {
    store: Store,
    owner: Owner,
    plan: Plan,
    injection: Arc<Injection>,
    place: PlaceOf,
}

impl Rig {
    fn new(yaml: &str) -> Self {
        let owner = Owner::new(100, "kubernetes:test");
        let injection = Injection::read(&builtin::config(), builtin::VALUES, [].into()).unwrap();
        let mut rig = Self {
            store: Store::new(Arc::new(testkit::settings(""))),
            plan: Plan::default(),
            injection: Arc::new(injection),
            place: PlaceOf {
                source: owner.source.clone(),
                system: "istio-system".into(),
                cluster: "test".to_owned(),
                kubernetes: 136,
                copy_metadata: true,
                native_sidecars: true,
            },
            owner,
        };
        rig.put(yaml);
        rig
    }

    /// Puts objects, and brings the plan up to date; which Gateways were planned anew is seen by their sets.
    fn put(&mut self, yaml: &str) {
        let objects = testkit::World::objects(yaml).into_iter();
        let changes: Vec<Change> = objects
            .map(|mut object| {
                object.set_origin(Origin::Source(self.owner.source.clone()));
                Change::Put(self.owner.clone(), object)
            })
            .collect();
        self.apply(changes);
    }

    fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        let name = ObjectName::new(namespace, name);
        let key = ObjectKey { kind, name };
        self.apply(vec![Change::Delete(self.owner.clone(), key)]);
    }

    fn apply(&mut self, changes: Vec<Change>) {
        let first = self.store.snapshot().revision == 0;
        let changes = self.store.apply(changes);
        let changed: BTreeSet<ObjectKey> = changes.objects.into_iter().collect();
        let snapshot = self.store.snapshot();
        let tags = Tags::read(&snapshot, &self.place.system, "default");
        let settings = Settings {
            injection: self.injection.clone(),
            mesh: snapshot.settings.mesh.clone(),
            revision: "default".to_owned(),
            compliance_policy: String::new(),
            openshift: false,
        };
        let world = World {
            snapshot: &snapshot,
            settings: &settings,
            tags: &tags,
            place: &self.place,
        };
        match first {
            true => self.plan.all(&world),
            false => _ = self.plan.update(&world, &changed),
        }
        // From scratch it is the same.
        let mut anew = Plan::default();
        anew.all(&world);
        assert_eq!(anew.sets(), self.plan.sets());
        assert_eq!(anew.readers, self.plan.readers);
        let faults = |plan: &Plan| -> Vec<String> {
            plan.faults()
                .map(|(name, why)| format!("{name} {why}"))
                .collect()
        };
        assert_eq!(faults(&anew), faults(&self.plan));
    }

    fn set(&self, name: &str) -> Option<Arc<Set>> {
        let name = ObjectName::new("web", name);
        self.plan
            .sets()
            .get(&ObjectRef::of(Kind::KubeGateway, &name))
            .cloned()
    }

    fn object(&self, gateway: &str, kind: &str) -> Value {
        let set = self.set(gateway);
        let objects = set.iter().flat_map(|set| &set.objects);
        let mut found = objects.filter(|(of, _)| &*of.kind == kind);
        found
            .next()
            .map(|(_, object)| object.clone())
            .unwrap_or_default()
    }

    fn faults(&self) -> Vec<String> {
        self.plan.faults().map(|(_, why)| why.to_string()).collect()
    }
}

fn gateway(name: &str, more: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: web}}\nspec:\n  gatewayClassName: istio\n  listeners: [{{name: http, port: 80, protocol: HTTP}}]\n{more}---\n"
    )
}

fn config_map(namespace: &str, name: &str, labels: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\ndata: {{deployment: '{data}'}}\n---\n"
    )
}

const PARAMETERS: &str =
    "  infrastructure: {parametersRef: {group: \"\", kind: ConfigMap, name: options}}\n";

#[test]
fn a_change_plans_the_gateways_that_read_it() {
    let mut rig = Rig::new(&(gateway("a", PARAMETERS) + &gateway("b", "")));
    assert_eq!(rig.faults().len(), 1, "{:?}", rig.faults());
    assert!(rig.faults()[0].contains("there is no ConfigMap web/options"));
    let b = rig.set("b").unwrap();
    rig.put(&config_map("web", "options", "", "spec: {replicas: 2}"));
    assert!(rig.faults().is_empty(), "{:?}", rig.faults());
    assert_eq!(rig.object("a", "Deployment")["spec"]["replicas"], 2);
    assert!(Arc::ptr_eq(&b, &rig.set("b").unwrap()));
    rig.put(&config_map("web", "options", "", "spec: {replicas: 3}"));
    assert_eq!(rig.object("a", "Deployment")["spec"]["replicas"], 3);
    rig.delete(Kind::KubeGateway, "web", "a");
    assert!(rig.set("a").is_none());
    rig.delete(Kind::ConfigMap, "web", "options");
    assert!(Arc::ptr_eq(&b, &rig.set("b").unwrap()));
}

#[test]
fn what_only_the_operator_may_set_is_not_deployed_for_an_author() {
    let mut rig = Rig::new(&gateway("a", PARAMETERS));
    let power = "spec: {template: {spec: {hostNetwork: true}}}";
    rig.put(&config_map("web", "options", "", power));
    let (_, why) = rig.plan.faults().next().unwrap();
    assert!(matches!(why, Undeployed::Reserved(_)), "{why}");
    assert!(rig.set("a").is_none());
    rig.put(&config_map("web", "options", "", "spec: {replicas: 3}"));
    let label = "gateway.istio.io/defaults-for-class: istio";
    rig.put(&config_map("istio-system", "defaults", label, power));
    let deployed = rig.object("a", "Deployment");
    assert_eq!(deployed["spec"]["template"]["spec"]["hostNetwork"], true);
}

#[test]
fn a_config_map_counts_for_all_gateways_of_a_class() {
    let mut rig = Rig::new(&gateway("a", ""));
    let label = "gateway.istio.io/defaults-for-class: istio";
    rig.put(&config_map(
        "istio-system",
        "defaults",
        label,
        "spec: {replicas: 4}",
    ));
    assert_eq!(rig.object("a", "Deployment")["spec"]["replicas"], 4);
    // Anybody could label one elsewhere.
    rig.put(&config_map("web", "defaults", label, "spec: {replicas: 5}"));
    assert_eq!(rig.object("a", "Deployment")["spec"]["replicas"], 4);
    rig.put(&config_map(
        "istio-system",
        "defaults",
        "",
        "spec: {replicas: 4}",
    ));
    assert!(rig.object("a", "Deployment")["spec"]["replicas"].is_null());
}

#[test]
fn listener_sets_add_ports_where_the_gateway_lets_them() {
    let open =
        "  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {team: x}}}}\n";
    let mut rig = Rig::new(&gateway("a", open));
    let ports = |rig: &Rig| -> Vec<Value> {
        let service = rig.object("a", "Service");
        let ports = service["spec"]["ports"].as_array().unwrap();
        ports.iter().map(|port| port["port"].clone()).collect()
    };
    rig.put("apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: s, namespace: x}\nspec:\n  parentRef: {name: a, namespace: web}\n  listeners: [{name: tcp, port: 90, protocol: TCP}]\n");
    assert_eq!(ports(&rig), [15021, 80]);
    rig.put("apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {team: x}}\n");
    assert_eq!(ports(&rig), [15021, 80, 90]);
    rig.delete(Kind::ListenerSet, "x", "s");
    assert_eq!(ports(&rig), [15021, 80]);
}

#[test]
fn what_is_not_ours_is_not_deployed() {
    let class = |controller: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: istio}}\nspec: {{controllerName: {controller}}}\n"
        )
    };
    let mut rig = Rig::new(
        &(gateway("a", "") + &gateway("b", "  addresses: [{type: Hostname, value: x.y}]\n")),
    );
    assert!(rig.set("a").is_some() && rig.set("b").is_none());
    rig.put(&class("example.com/other"));
    assert!(rig.set("a").is_none());
    rig.put(&class("istio.io/gateway-controller"));
    assert!(rig.set("a").is_some());
    rig.put(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {istio.io/rev: other}}\n",
    );
    assert!(rig.set("a").is_none());
}

#[test]
fn autoscalers_and_budgets_go_with_what_asked_for_them() {
    let mut rig = Rig::new(&gateway("a", PARAMETERS));
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: options, namespace: web}\ndata: {podDisruptionBudget: 'spec: {minAvailable: 1}'}\n";
    rig.put(map);
    assert_eq!(
        rig.object("a", "PodDisruptionBudget")["spec"]["minAvailable"],
        1
    );
    let kinds = |rig: &Rig| -> Vec<Arc<str>> {
        let set = rig.set("a").unwrap();
        set.unwanted
            .iter()
            .map(|object| object.kind.clone())
            .collect()
    };
    assert_eq!(kinds(&rig), ["HorizontalPodAutoscaler".into()]);
    rig.put(&map.replace(
        "podDisruptionBudget: 'spec: {minAvailable: 1}'",
        "service: ''",
    ));
    assert_eq!(
        kinds(&rig),
        [
            "HorizontalPodAutoscaler".into(),
            "PodDisruptionBudget".into()
        ]
    );
}
