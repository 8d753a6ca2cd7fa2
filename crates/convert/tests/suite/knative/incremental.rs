//! Whatever Knative's Ingresses say, in whatever order they come: what is derived piece by piece equals what is derived
//! from nothing, nothing panics, and no host of the cluster is anywhere but where it belongs.

use std::collections::BTreeMap;

use model::{AnyObject, Change, Kind, ObjectKey, Owner};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::World;

use crate::knative::world::{puts, served, shown};

const NAMES: [&str; 3] = ["web", "api", "b-c"];
const NAMESPACES: [&str; 2] = ["one", "two"];
const HOSTS: [&str; 9] = [
    "a.test",
    "b.test",
    "web.one",
    "web.one.svc",
    "web.one.svc.cluster.local",
    "web.two.svc.cluster.local",
    "",
    "*",
    "NO host\u{0}",
];
const CLASSES: [Option<&str>; 3] = [Some("higress"), Some("other"), None];
const VISIBILITIES: [&str; 4] = ["", "ExternalIP", "ClusterLocal", "Everybody"];
const OPTIONS: [&str; 4] = ["", "Enabled", "Redirected", "Perhaps"];
const PATHS: [&str; 7] = ["", "/", "/a", "/a/", "a", "/a?b", "/\u{0}%\n"];
const TEXTS: [&str; 8] = [
    "",
    "next",
    "override",
    "%REQ(:path)%",
    "a\r\nb: c",
    "\u{0}",
    "ünïcödé\u{202e}",
    "<&>\"\\",
];
const HEADERS: [&str; 6] = ["X-Tag", "x-tag", "K-Network-Hash", ":authority", "", "a b"];
const SERVICES: [&str; 4] = ["s0", "s1", "gone", ""];

#[derive(Clone, Debug)]
struct Split {
    service: usize,
    foreign: bool,
    port: usize,
    percent: i32,
    header: Option<(usize, usize)>,
}

#[derive(Clone, Debug)]
struct OnePath {
    path: usize,
    host: usize,
    header: Option<(usize, usize)>,
    append: Option<(usize, usize)>,
    splits: Vec<Split>,
}

#[derive(Clone, Debug)]
struct Rule {
    hosts: Vec<usize>,
    visibility: usize,
    paths: Option<Vec<OnePath>>,
}

#[derive(Clone, Debug)]
struct Drawn {
    name: usize,
    namespace: usize,
    created: Option<u8>,
    class: usize,
    option: usize,
    rules: Vec<Rule>,
    /// Hosts, whether the Secret is there, and whether it is of the other namespace.
    tls: Vec<(usize, bool, bool)>,
}

impl Drawn {
    fn object(&self) -> Option<AnyObject> {
        let namespace = NAMESPACES[self.namespace];
        let other = NAMESPACES[1 - self.namespace];
        let mut metadata = json!({"name": NAMES[self.name], "namespace": namespace});
        if let Some(class) = CLASSES[self.class] {
            metadata["annotations"] = json!({"networking.knative.dev/ingress.class": class});
        }
        if let Some(created) = self.created {
            metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{created}Z"));
        }
        let header = |drawn: Option<(usize, usize)>, exact: bool| -> Value {
            let pair = drawn.map(|(name, text)| match exact {
                true => json!({HEADERS[name]: {"exact": TEXTS[text]}}),
                false => json!({HEADERS[name]: TEXTS[text]}),
            });
            pair.unwrap_or(json!({}))
        };
        let split = |split: &Split| {
            let port = [json!(80), json!("http"), json!("gone"), json!(0)][split.port].clone();
            json!({
                "serviceNamespace": if split.foreign { other } else { namespace },
                "serviceName": SERVICES[split.service], "servicePort": port,
                "percent": split.percent, "appendHeaders": header(split.header, false),
            })
        };
        let path = |path: &OnePath| {
            json!({
                "path": PATHS[path.path], "rewriteHost": TEXTS[path.host],
                "headers": header(path.header, true), "appendHeaders": header(path.append, false),
                "splits": path.splits.iter().map(split).collect::<Vec<_>>(),
            })
        };
        let rule = |rule: &Rule| {
            let hosts: Vec<&str> = rule.hosts.iter().map(|host| HOSTS[*host]).collect();
            let mut shown = json!({"hosts": hosts, "visibility": VISIBILITIES[rule.visibility]});
            if let Some(paths) = &rule.paths {
                shown["http"] = json!({"paths": paths.iter().map(path).collect::<Vec<_>>()});
            }
            shown
        };
        let tls = |(host, there, foreign): &(usize, bool, bool)| {
            json!({
                "hosts": [HOSTS[*host]], "secretName": if *there { "cert" } else { "gone" },
                "secretNamespace": if *foreign { other } else { namespace },
            })
        };
        let document = json!({
            "apiVersion": "networking.internal.knative.dev/v1alpha1", "kind": "Ingress", "metadata": metadata,
            "spec": {
                "httpOption": OPTIONS[self.option],
                "rules": self.rules.iter().map(rule).collect::<Vec<_>>(),
                "tls": self.tls.iter().map(tls).collect::<Vec<_>>(),
            },
        });
        World::objects(&document.to_string()).pop()
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let header = || proptest::option::of((0..HEADERS.len(), 0..TEXTS.len()));
    let split = (
        0..SERVICES.len(),
        proptest::bool::weighted(0.1),
        0..4usize,
        -1..101i32,
        header(),
    )
        .prop_map(|(service, foreign, port, percent, header)| Split {
            service,
            foreign,
            port,
            percent,
            header,
        });
    let path = (
        0..PATHS.len(),
        0..3usize,
        header(),
        header(),
        proptest::collection::vec(split, 0..3),
    )
        .prop_map(|(path, host, header, append, splits)| OnePath {
            path,
            host,
            header,
            append,
            splits,
        });
    let rule = (
        proptest::collection::vec(0..HOSTS.len(), 0..4),
        0..VISIBILITIES.len(),
        proptest::option::weighted(0.9, proptest::collection::vec(path, 0..3)),
    )
        .prop_map(|(hosts, visibility, paths)| Rule {
            hosts,
            visibility,
            paths,
        });
    (
        (
            0..NAMES.len(),
            0..NAMESPACES.len(),
            0..CLASSES.len(),
            0..OPTIONS.len(),
        ),
        proptest::option::of(0..3u8),
        proptest::collection::vec(rule, 0..3),
        proptest::collection::vec((0..HOSTS.len(), any::<bool>(), any::<bool>()), 0..3),
    )
        .prop_map(
            |((name, namespace, class, option), created, rules, tls)| Drawn {
                name,
                namespace,
                created,
                class: if class > 0 && created.is_some() {
                    0
                } else {
                    class
                },
                option,
                rules,
                tls,
            },
        )
}

/// What stands around the Ingresses.
fn around() -> Vec<AnyObject> {
    let mut text = String::new();
    for namespace in NAMESPACES {
        for service in ["s0", "s1", "web"] {
            text += &format!(
                "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {service}, namespace: {namespace}}}, spec: \
                 {{clusterIP: 10.0.0.1, ports: [{{name: http, port: 80}}]}}}}\n"
            );
        }
        text += &format!(
            "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: cert, namespace: {namespace}}}, stringData: {{tls.crt: C, tls.key: K}}}}\n"
        );
    }
    text += "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {name: g, namespace: two}, spec: {from: \
             [{group: networking.internal.knative.dev, kind: Ingress, namespace: one}], to: [{group: '', kind: Secret}]}}\n";
    text += "---\n{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: edge, namespace: one}, spec: {ingressClassName: \
             higress, rules: [{host: b.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s0, port: {number: 80}}}}]}}]}}\n";
    World::objects(&text)
}

#[derive(Clone, Debug)]
enum Step {
    Put(Box<Drawn>),
    Delete(usize, usize),
    /// One of the objects around goes or comes back.
    Around(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => drawn().prop_map(|drawn| Step::Put(Box::new(drawn))),
        2 => (0..NAMES.len(), 0..NAMESPACES.len()).prop_map(|(n, s)| Step::Delete(n, s)),
        3 => (0..10usize, any::<bool>()).prop_map(|(at, there)| Step::Around(at, there)),
    ]
}

/// No host that only the cluster may reach is among those of the gateway that everybody reaches, and sidecars are told of
/// hosts of the Ingress's namespace alone.
fn nothing_leaks(shown: &Value, outer: &str) -> Result<(), TestCaseError> {
    for (name, object) in shown["objects"].as_object().unwrap() {
        let spec = &object["spec"];
        if name.contains("knative-local") && name.starts_with("Gateway") {
            prop_assert!(!spec["selector"].to_string().contains(outer), "{}", spec);
        }
        let gateways = spec["gateways"].as_array().into_iter().flatten();
        for gateway in gateways.filter_map(Value::as_str) {
            if gateway == "mesh" {
                let namespace = name.split_once(' ').unwrap().1.split('/').next().unwrap();
                let host = spec["hosts"][0].as_str().unwrap();
                prop_assert!(
                    host.contains(&format!(".{namespace}.svc.")),
                    "{} {}",
                    name,
                    host
                );
            } else if name.contains("knative-local") {
                prop_assert!(gateway.contains("knative-local"), "{}", gateway);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        rng_seed: proptest::test_runner::RngSeed::Fixed(19),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(
        steps in proptest::collection::vec(step(), 1..12),
        inner in any::<bool>(),
    ) {
        let flags = if inner { "knative_local_selector=app=inner" } else { "" };
        let around = around();
        let mut there: BTreeMap<ObjectKey, AnyObject> =
            around.iter().map(|object| (object.key(), object.clone())).collect();
        let mut world = World::new(served(flags));
        world.apply(puts(around.clone()));
        for step in &steps {
            let gone = match step {
                Step::Put(drawn) => {
                    let Some(object) = drawn.object() else { continue };
                    there.insert(object.key(), object.clone());
                    world.apply(puts([object]));
                    continue;
                }
                Step::Around(at, true) => {
                    let object = around[*at].clone();
                    there.insert(object.key(), object.clone());
                    world.apply(puts([object]));
                    continue;
                }
                Step::Around(at, false) => around[*at].key(),
                Step::Delete(name, namespace) => ObjectKey {
                    kind: Kind::KnativeIngress,
                    name: model::ObjectName::new(NAMESPACES[*namespace], NAMES[*name]),
                },
            };
            there.remove(&gone);
            world.apply(vec![Change::Delete(Owner::new(0, "test"), gone)]);
        }
        let mut fresh = World::new(served(flags));
        for object in there.values().rev() {
            fresh.apply(puts([object.clone()]));
        }
        let seen = shown(&world);
        prop_assert_eq!(&seen, &shown(&fresh));
        prop_assert_eq!(world.stage.panics(), 0);
        nothing_leaks(&seen, "higress-gateway")?;
    }
}

#[test]
fn drawn_ingresses_are_served() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let all = (0..200).filter_map(|at| {
        let mut drawn = drawn().new_tree(&mut runner).unwrap().current();
        drawn.class = 0;
        drawn.created = Some(u8::try_from(at % 3).unwrap());
        drawn.object()
    });
    let all: Vec<AnyObject> = all.collect();
    let mut world = World::new(served("knative_local_selector=app=inner"));
    world.apply(puts(around()));
    let mut made = 0;
    for object in all {
        world.apply(puts([object]));
        let shown = shown(&world);
        let objects = shown["objects"].as_object().unwrap();
        made += objects
            .keys()
            .filter(|name| name.contains("knative-"))
            .count();
    }
    assert!(made > 200, "{made}");
}
