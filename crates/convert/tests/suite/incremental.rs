//! Whatever changed, in whatever order, what is derived piece by piece equals what is derived from nothing: objects,
//! findings, statuses, and what proxies get.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::node::Node;
use model::{AnyObject, Change, Diagnostic, Kind, ObjectKey, Owner};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{World, node, settings};
use xds::TypeUrl;

const NAMES: [&str; 3] = ["web", "api", "b-c"];
const NAMESPACES: [&str; 2] = ["one", "two"];
/// Two of them have one name once their dots are dashes, and with the names above `a` and `a-b` lead to one too.
const HOSTS: [&str; 6] = ["", "a.example.com", "a-example.com", "a", "a-b", "no host"];
const CLASSES: [&str; 3] = ["istio", "nginx", "absent"];
const MODES: [&str; 3] = ["DEFAULT", "STRICT", "OFF"];

/// A path, the service behind it, and whether its port is named.
type IngressPath = (usize, usize, bool);

#[derive(Clone, Debug)]
struct Ingress {
    name: usize,
    namespace: usize,
    created: Option<u8>,
    annotation: Option<usize>,
    class: Option<usize>,
    rules: Vec<(usize, Vec<IngressPath>)>,
    tls: Vec<(usize, bool)>,
    default_backend: bool,
}

const PATHS: [(&str, Option<&str>); 5] = [
    ("/a", Some("Prefix")),
    ("/a", Some("Exact")),
    ("/b/*", None),
    ("/*", None),
    ("//", Some("Prefix")),
];

impl Ingress {
    fn yaml(&self) -> String {
        let mut metadata =
            json!({"name": NAMES[self.name], "namespace": NAMESPACES[self.namespace]});
        if let Some(created) = self.created {
            metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{created}Z"));
        }
        if let Some(class) = self.annotation {
            metadata["annotations"] = json!({"kubernetes.io/ingress.class": CLASSES[class]});
        }
        let backend = |service: usize, named: bool| {
            let port = if named {
                json!({"name": "http"})
            } else {
                json!({"number": 80})
            };
            json!({"service": {"name": format!("s{service}"), "port": port}})
        };
        let rules = self.rules.iter().map(|(host, paths)| {
            let paths = paths.iter().map(|(path, service, named)| {
                let (path, path_type) = PATHS[*path];
                json!({"path": path, "pathType": path_type, "backend": backend(*service, *named)})
            });
            json!({"host": HOSTS[*host], "http": {"paths": paths.collect::<Vec<_>>()}})
        });
        let mut spec = json!({"rules": rules.collect::<Vec<_>>()});
        if let Some(class) = self.class {
            spec["ingressClassName"] = json!(CLASSES[class]);
        }
        let tls = self.tls.iter().map(|(host, secret)| {
            json!({"hosts": [HOSTS[*host]], "secretName": if *secret { "cert" } else { "" }})
        });
        spec["tls"] = tls.collect();
        if self.default_backend {
            spec["defaultBackend"] = backend(0, false);
        }
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec,
        })
        .to_string()
    }
}

fn ingress() -> impl Strategy<Value = Ingress> {
    let path = (0..PATHS.len(), 0..2usize, any::<bool>());
    let rule = (0..HOSTS.len(), proptest::collection::vec(path, 0..3));
    let some_class = proptest::option::weighted(0.3, 0..CLASSES.len());
    (
        (0..NAMES.len(), 0..NAMESPACES.len()),
        proptest::option::of(0..3u8),
        some_class.clone(),
        some_class,
        proptest::collection::vec(rule, 0..4),
        proptest::collection::vec((0..HOSTS.len(), any::<bool>()), 0..3),
        any::<bool>(),
    )
        .prop_map(
            |((name, namespace), created, annotation, class, rules, tls, default_backend)| {
                Ingress {
                    name,
                    namespace,
                    created,
                    annotation,
                    class,
                    rules,
                    tls,
                    default_backend,
                }
            },
        )
}

#[derive(Clone, Debug)]
enum Step {
    Put(Box<Ingress>),
    Delete(usize, usize),
    Class(usize, Option<bool>),
    Service(usize, usize, Option<u16>),
    /// A VirtualService with the name of one that is derived.
    Written(usize, bool),
    Balancer(Option<u8>),
    Secret(bool),
    Settings(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => ingress().prop_map(|i| Step::Put(Box::new(i))),
        2 => (0..NAMES.len(), 0..NAMESPACES.len()).prop_map(|(n, s)| Step::Delete(n, s)),
        2 => (0..2usize, proptest::option::of(any::<bool>())).prop_map(|(n, c)| Step::Class(n, c)),
        2 => (0..2usize, 0..2usize, proptest::option::of(80..83u16))
            .prop_map(|(n, s, p)| Step::Service(n, s, p)),
        1 => (0..2usize, any::<bool>()).prop_map(|(n, there)| Step::Written(n, there)),
        1 => proptest::option::of(0..3u8).prop_map(Step::Balancer),
        1 => any::<bool>().prop_map(Step::Secret),
        1 => (0..MODES.len(), any::<bool>()).prop_map(|(m, s)| Step::Settings(m, s)),
    ]
}

/// What a step does: documents that come, and objects that go.
fn documents(step: &Step) -> Result<String, ObjectKey> {
    let key = |kind, namespace: &str, name: &str| ObjectKey {
        kind,
        name: model::ObjectName::new(namespace, name),
    };
    Ok(match step {
        Step::Put(ingress) => ingress.yaml(),
        Step::Delete(name, namespace) => {
            return Err(key(Kind::Ingress, NAMESPACES[*namespace], NAMES[*name]));
        }
        Step::Class(name, None) => return Err(key(Kind::IngressClass, "", CLASSES[*name])),
        Step::Class(name, Some(ours)) => {
            let controller = if *ours { "istio.io/ingress-controller" } else { "other" };
            format!(
                "{{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {{name: {}}}, spec: {{controller: {controller}}}}}",
                CLASSES[*name]
            )
        }
        Step::Service(name, namespace, None) => {
            return Err(key(Kind::Service, NAMESPACES[*namespace], &format!("s{name}")));
        }
        Step::Service(name, namespace, Some(port)) => format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: s{name}, namespace: {}}}, spec: {{clusterIP: 10.0.{namespace}.{name}, ports: [{{name: http, port: {port}}}]}}}}",
            NAMESPACES[*namespace]
        ),
        Step::Written(name, there) => {
            let name = ["a-web-istio-autogenerated-k8s-ingress", "a-example-com-web-istio-autogenerated-k8s-ingress"][*name];
            if !there {
                return Err(key(Kind::VirtualService, "one", name));
            }
            format!(
                "{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: {name}, namespace: one}}, spec: {{hosts: [written.example.com], http: [{{route: [{{destination: {{host: s0}}}}]}}]}}}}"
            )
        }
        Step::Balancer(None) => {
            return Err(key(Kind::Service, "istio-system", "istio-ingressgateway"));
        }
        Step::Balancer(Some(address)) => format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: istio-ingressgateway, namespace: istio-system}}, spec: {{clusterIP: 10.9.9.9, ports: [{{name: http, port: 80}}]}}, status: {{loadBalancer: {{ingress: [{{ip: 192.0.2.{address}}}]}}}}}}"
        ),
        Step::Secret(false) => return Err(key(Kind::Secret, "istio-system", "cert")),
        Step::Secret(true) => "{apiVersion: v1, kind: Secret, metadata: {name: cert, namespace: istio-system}, type: kubernetes.io/tls, stringData: {tls.crt: CERT, tls.key: KEY}}".to_owned(),
        Step::Settings(..) => String::new(),
    })
}

fn configured(mode: usize, selector: bool) -> model::settings::Settings {
    let selector = if selector {
        "ingressSelector: other"
    } else {
        ""
    };
    settings(&format!(
        "ingressControllerMode: '{}'\n{selector}",
        MODES[mode]
    ))
}

/// Everything that can be seen of a world.
#[derive(PartialEq, Debug)]
struct Seen {
    objects: BTreeMap<String, Value>,
    findings: Vec<Diagnostic>,
    statuses: BTreeMap<ObjectKey, Value>,
    resources: BTreeMap<String, Vec<(String, u64)>>,
}

fn seen(world: &World, gateway: &Arc<Node>) -> Seen {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService];
    let objects = kinds
        .into_iter()
        .flat_map(|kind| snapshot.tables.iter_any(kind));
    let shown = |object: AnyObject| {
        let derived = format!("{:?}", object.meta().derived);
        (
            object.key().to_string(),
            json!([object.spec_json(), derived]),
        )
    };
    let view = world.view(gateway);
    let types = [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster];
    let resources = types.map(|ty| {
        let set = world.set(&view, ty);
        let all = set
            .iter()
            .map(|r| (r.name.to_string(), r.version))
            .collect();
        (format!("{ty:?}"), all)
    });
    Seen {
        objects: objects.map(shown).collect(),
        findings: world.stage.current_findings(),
        statuses: world.statuses.clone(),
        resources: resources.into(),
    }
}

fn gateway() -> Arc<Node> {
    node(&json!({
        "id": "router~10.9.0.4~gateway-0.istio-system~istio-system.svc.cluster.local",
        "metadata": {"NAMESPACE": "istio-system", "CLUSTER_ID": "Kubernetes",
            "ISTIO_VERSION": "1.32.0", "LABELS": {"istio": "ingressgateway"}},
    }))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(15),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(steps in proptest::collection::vec(step(), 1..14)) {
        let source = Owner::new(0, "test");
        let gateway = gateway();
        let mut world = World::new(configured(0, false));
        let mut current = configured(0, false);
        let mut there: BTreeMap<ObjectKey, AnyObject> = BTreeMap::new();
        let mut told: BTreeMap<Diagnostic, i64> = BTreeMap::new();
        for step in &steps {
            let changes: Vec<Change> = match (step, documents(step)) {
                (Step::Settings(mode, selector), _) => {
                    current = configured(*mode, *selector);
                    vec![Change::Settings(Arc::new(current.clone()))]
                }
                (_, Ok(text)) => World::objects(&text).into_iter().map(|object| {
                    there.insert(object.key(), object.clone());
                    Change::Put(source.clone(), object)
                }).collect(),
                (_, Err(key)) => {
                    there.remove(&key);
                    vec![Change::Delete(source.clone(), key)]
                }
            };
            world.apply(changes);
            for change in world.stage.take_findings() {
                change.after.iter().for_each(|f| *told.entry(f.clone()).or_default() += 1);
                change.before.iter().for_each(|f| *told.entry(f.clone()).or_default() -= 1);
            }
            let mut fresh = World::new(current.clone());
            fresh.apply(there.values().cloned().map(|o| Change::Put(source.clone(), o)));
            prop_assert_eq!(seen(&world, &gateway), seen(&fresh, &gateway));
            let told: BTreeSet<&Diagnostic> = told.iter().filter(|(_, n)| **n > 0).map(|(f, _)| f).collect();
            let current = world.stage.current_findings();
            prop_assert_eq!(told, current.iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(world.stage.panics(), 0);
        }
    }
}
