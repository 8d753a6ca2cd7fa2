//! Whatever annotations say, in whatever order Ingresses come: what is derived piece by piece equals what is derived
//! from nothing, nothing panics, and nobody else's routes change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::edge::world::served;
use model::edge::RemoteIngress;
use model::names::ClusterId;
use model::{AnyObject, Change, Diagnostic, Kind, ObjectKey, Owner};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRng;
use serde_json::{Value, json};
use testkit::World;

const NAMES: [&str; 4] = ["web", "api", "b-c", "new"];
const NAMESPACES: [&str; 2] = ["one", "two"];
const HOSTS: [&str; 7] = [
    "",
    "a.test",
    "*.a.test",
    "x.a.test",
    "b.test",
    "www.b.test",
    "no host",
];
const CLASSES: [Option<&str>; 4] = [Some("nginx"), Some("higress"), None, Some("other")];
const PATHS: [(&str, &str); 8] = [
    ("/", "Prefix"),
    ("/a", "Exact"),
    ("/a", "Prefix"),
    ("/a/b/", "Prefix"),
    ("/v[0-9]+(/.*)", "ImplementationSpecific"),
    ("/(", "ImplementationSpecific"),
    ("", "ImplementationSpecific"),
    ("x?y#z", "Exact"),
];
/// Annotations without their prefix, and values that make sense of them.
const SENSE: [(&str, &str); 77] = [
    ("canary", "true"),
    ("canary-weight", "30"),
    ("canary-by-header", "x-next"),
    ("canary-by-header-value", "yes"),
    ("canary-by-header-pattern", "a|b"),
    ("canary-by-cookie", "next"),
    ("enable-cors", "true"),
    ("cors-allow-origin", "https://*.x.test, *"),
    ("auth-tls-secret", "one/roots"),
    ("ssl-cipher", "AES256-SHA"),
    ("tls-min-protocol-version", "TLSv1.2"),
    ("app-root", "/app"),
    ("temporal-redirect", "https://x.test/y?z=1"),
    ("permanent-redirect", "http://x.test"),
    ("ssl-redirect", "true"),
    ("force-ssl-redirect", "true"),
    ("rewrite-target", "/$1"),
    ("use-regex", "true"),
    ("full-path-regex", "true"),
    ("rewrite-path", "/new"),
    ("upstream-vhost", "in.side:80"),
    ("backend-protocol", "HTTPS"),
    ("proxy-ssl-secret", "one/cert"),
    ("whitelist-source-range", "10.0.0.0/8"),
    ("denylist-source-range", "10.1.0.0/16"),
    ("route-limit-rps", "5"),
    ("timeout", "5"),
    ("proxy-next-upstream", "error http_502"),
    ("proxy-next-upstream-tries", "3"),
    ("load-balance", "random"),
    ("upstream-hash-by", "$request_uri"),
    ("affinity", "cookie"),
    ("default-backend", "s1"),
    ("custom-http-errors", "404,503"),
    ("mirror-target-service", "s1:80"),
    ("auth-type", "basic"),
    ("auth-secret", "users"),
    ("auth-realm", "Shop"),
    ("auth-url", "http://s1.one.svc.cluster.local/check"),
    ("auth-signin", "https://login.test/?rd=$scheme"),
    ("auth-response-headers", "X-User"),
    ("satisfy", "any"),
    ("ignore-path-case", "true"),
    ("match-method", "GET POST"),
    ("exact-match-header-x-v", "2"),
    ("regex-match-query-q", "a.*"),
    ("prefix-match-pseudo-header-path", "/a"),
    ("request-header-control-add", "x-a 100%"),
    ("response-header-control-remove", "x-b"),
    ("limit-rps", "5"),
    ("limit-whitelist", "10.0.0.0/8"),
    ("proxy-body-size", "8m"),
    ("proxy-connect-timeout", "5"),
    ("proxy-read-timeout", "60"),
    ("server-alias", "alias.test, x.a.test"),
    ("from-to-www-redirect", "true"),
    ("ssl-passthrough", "true"),
    ("configuration-snippet", "more_set_headers \"X-A: b\";"),
    ("server-snippet", "deny all;"),
    ("x-forwarded-prefix", "/p"),
    ("exact-match-header", "without a name"),
    ("mcp-server", "true"),
    ("mcp-server-match-rule-type", "prefix"),
    ("mcp-server-match-rule-value", "/a"),
    ("mcp-server-upstream-type", "sse"),
    ("mcp-server-enable-path-rewrite", "true"),
    ("mcp-server-path-rewrite-prefix", "/b"),
    ("load-balance", "mcp-sse"),
    ("rpc-destination-name", "calls"),
    // Of another namespace, by name and through an ExternalName Service.
    ("destination", "s1.two.svc.cluster.local:80"),
    ("mirror-target-fqdn", "s1.two.svc.cluster.local"),
    ("default-backend", "two/s1"),
    ("auth-url", "http://s2.one.svc.cluster.local/check"),
    // By the rules of a host, its own or another one.
    ("auth-url", "https://$host/a/check"),
    ("auth-url", "http://a.test/a/check"),
    ("auth-url", "https://b.test/a/check"),
    ("backend-protocol", "GRPC"),
];
const NONSENSE: [&str; 24] = [
    "",
    " ",
    "%",
    "%%%",
    "\u{0}",
    "a\nb: c\r\n",
    "-1",
    "99999999999999999999",
    "0",
    "NaN",
    "true",
    "(",
    "[[:bad:]]",
    "(a{1000}){1000}",
    "\\",
    "$1$2$99",
    "../../etc",
    "other/secret",
    "http://",
    "https://u:p@x.test:99999/%zz",
    "10.0.0.0/99, ::/0, *",
    "{{ .Values }}",
    "ünïcödé\u{202e}",
    "a,b;c d\te=f\"'`",
];

#[derive(Clone, Debug)]
struct Drawn {
    place: Place,
    name: usize,
    namespace: usize,
    created: Option<u8>,
    class: usize,
    rules: Vec<(usize, Vec<(usize, usize)>)>,
    tls: Vec<(usize, bool)>,
    default: bool,
    /// Which annotation, the value that makes sense or the number of one that does not, and its prefix.
    annotations: Vec<(usize, Option<usize>, bool)>,
}

impl Drawn {
    fn object(&self) -> AnyObject {
        let annotations = self.annotations.iter().map(|(at, nonsense, nginx)| {
            let (name, sense) = SENSE[*at];
            let value = nonsense.map_or(sense, |at| NONSENSE[at]);
            let prefix = if *nginx {
                "nginx.ingress.kubernetes.io"
            } else {
                "higress.io"
            };
            (format!("{prefix}/{name}"), Value::from(value))
        });
        let mut metadata = json!({
            "name": NAMES[self.name], "namespace": NAMESPACES[self.namespace],
            "annotations": Value::Object(annotations.collect()),
        });
        if let Some(created) = self.created {
            metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{created}Z"));
        }
        let backend = |service: usize| match service {
            3 => {
                json!({"resource": {"apiGroup": "networking.higress.io", "kind": "McpBridge", "name": "default"}})
            }
            _ => json!({"service": {"name": format!("s{service}"), "port": {"number": 80}}}),
        };
        let rules = self.rules.iter().map(|(host, paths)| {
            let paths = paths.iter().map(|(path, service)| {
                let (path, path_type) = PATHS[*path];
                json!({"path": path, "pathType": path_type, "backend": backend(*service)})
            });
            json!({"host": HOSTS[*host], "http": {"paths": paths.collect::<Vec<_>>()}})
        });
        let mut spec = json!({"rules": rules.collect::<Vec<_>>()});
        if let Some(class) = CLASSES[self.class] {
            spec["ingressClassName"] = json!(class);
        }
        let tls = self.tls.iter().map(|(host, there)| {
            let secret = if *there { "cert" } else { "gone" };
            json!({"hosts": [HOSTS[*host]], "secretName": secret})
        });
        spec["tls"] = tls.collect();
        if self.default {
            spec["defaultBackend"] = backend(0);
        }
        let document = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec,
        });
        let mut read = World::objects(&document.to_string());
        read.pop().expect("an Ingress")
    }
}

/// The configured cluster, or a remote one.
type Place = Option<&'static str>;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![3 => Just(None), 2 => Just(Some("east")), 1 => Just(Some("west"))]
}

fn owner(place: Place) -> Owner {
    Owner {
        cluster: place.map(ClusterId::from),
        ..Owner::new(0, "test")
    }
}

/// What is said of the Ingresses of remote clusters.
fn remotes(at: usize) -> Change {
    let said = |classes: &str, namespaces: &str, writes_status| RemoteIngress {
        classes: classes.into(),
        namespaces: namespaces.into(),
        writes_status,
    };
    let all: &[(&str, RemoteIngress)] = match at {
        0 => &[],
        1 => &[("east", said("nginx,higress", "", true))],
        2 => &[("east", said("other", "", false))],
        _ => &[
            ("east", said("*", "two", true)),
            ("west", said("nginx", "", false)),
        ],
    };
    let all = all.iter().cloned();
    let all = all.map(|(cluster, said)| (cluster.into(), said));
    Change::RemoteIngresses(Arc::new(all.collect()))
}

fn drawn(hostile: u32) -> impl Strategy<Value = Drawn> {
    let rule = (
        0..HOSTS.len(),
        proptest::collection::vec((0..PATHS.len(), 0..4usize), 0..4),
    );
    let nonsense = prop_oneof![
        10 - hostile => Just(None),
        hostile => (0..NONSENSE.len()).prop_map(Some),
    ];
    let annotation = (0..SENSE.len(), nonsense, any::<bool>());
    (
        (
            place(),
            0..NAMES.len(),
            0..NAMESPACES.len(),
            0..CLASSES.len(),
        ),
        proptest::option::of(0..3u8),
        proptest::collection::vec(rule, 0..4),
        proptest::collection::vec((0..HOSTS.len(), any::<bool>()), 0..3),
        proptest::bool::weighted(0.2),
        proptest::collection::vec(annotation, 0..8),
    )
        .prop_map(
            |((place, name, namespace, class), created, rules, tls, default, annotations)| Drawn {
                place,
                name,
                namespace,
                created,
                class,
                rules,
                tls,
                default,
                annotations,
            },
        )
}

/// What stands around the Ingresses.
fn around() -> Vec<AnyObject> {
    let mut text = String::new();
    for namespace in NAMESPACES {
        for service in 0..2 {
            text += &format!(
                "---\n{{apiVersion: v1, kind: Service, metadata: {{name: s{service}, namespace: {namespace}}}, spec: \
                 {{clusterIP: 10.0.0.{service}, ports: [{{name: http, port: 80}}]}}}}\n"
            );
        }
        for (secret, data) in [
            ("cert", "{tls.crt: C, tls.key: K}"),
            ("roots", "{ca.crt: C}"),
            ("users", "{auth: 'ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g='}"),
        ] {
            text += &format!(
                "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: {secret}, namespace: {namespace}}}, \
                 stringData: {data}}}\n"
            );
        }
    }
    text += "---\n{apiVersion: networking.higress.io/v1, kind: Http2Rpc, metadata: {name: calls, namespace: higress-system}, \
             spec: {dubbo: {service: a.B, version: '1', methods: [{serviceMethod: m, httpMethods: [GET], httpPath: /m}]}}}\n";
    for (from, to) in [("one", "two"), ("two", "one")] {
        text += &format!(
            "---\n{{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {{name: hosts, namespace: {to}}}, \
             spec: {{from: [{{group: networking.k8s.io, kind: Ingress, namespace: {from}}}], \
             to: [{{group: networking.k8s.io, kind: Ingress, name: web}}]}}}}\n"
        );
    }
    text += "---\n{apiVersion: v1, kind: Service, metadata: {name: s2, namespace: one}, spec: {type: ExternalName, \
             externalName: s1.two.svc.cluster.local, ports: [{name: http, port: 80}]}}\n";
    text += "---\n{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {name: g, namespace: two}, \
             spec: {from: [{group: networking.k8s.io, kind: Ingress, namespace: one}], to: [{group: '', kind: Service}]}}\n";
    World::objects(&text)
}

/// How many objects those are.
const AROUND: usize = 15;

/// What the ConfigMap `higress-https` may say.
const HTTPS: [&str; 4] = [
    "credentialConfig: [{domains: [a.test, '*.a.test'], tlsSecret: one/cert}]",
    "{fallbackForInvalidSecret: true, credentialConfig: [{domains: ['*'], tlsSecret: two/cert}]}",
    "{credentialConfig: [{domains: [b.test], tlsIssuer: letsencrypt, tlsSecret: b}, {domains: [], tlsSecret: x}]}",
    "[",
];

fn https(at: usize) -> AnyObject {
    let document = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "higress-https", "namespace": "higress-system"},
        "data": {"cert": HTTPS[at]},
    });
    World::objects(&document.to_string())
        .pop()
        .expect("a ConfigMap")
}

#[derive(Clone, Debug)]
enum Step {
    /// The ConfigMap of certificates says something else, or goes.
    Https(Option<usize>),
    Put(Box<Drawn>),
    Delete(Place, usize, usize),
    /// One of the objects around goes or comes back.
    Around(Place, usize, bool),
    /// Something else is said of the Ingresses of remote clusters.
    Remotes(usize),
    /// A cluster goes, with all that it holds.
    Gone(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => drawn(3).prop_map(|drawn| Step::Put(Box::new(drawn))),
        2 => (place(), 0..NAMES.len(), 0..NAMESPACES.len()).prop_map(|(p, n, s)| Step::Delete(p, n, s)),
        2 => proptest::option::weighted(0.8, 0..HTTPS.len()).prop_map(Step::Https),
        2 => (place(), 0..AROUND, any::<bool>()).prop_map(|(place, at, there)| Step::Around(place, at, there)),
        2 => (0..4usize).prop_map(Step::Remotes),
        1 => prop_oneof![Just("east"), Just("west")].prop_map(Step::Gone),
    ]
}

/// The derived objects by name, and what is found wrong.
#[derive(PartialEq, Debug)]
struct Seen {
    objects: BTreeMap<String, String>,
    findings: Vec<Diagnostic>,
    statuses: BTreeMap<ObjectKey, Value>,
}

fn seen(world: &World) -> Seen {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
    let objects = kinds
        .into_iter()
        .flat_map(|kind| snapshot.tables.iter_any(kind));
    let shown = |object: AnyObject| {
        let derived = &object.meta().derived;
        (
            object.key().to_string(),
            format!("{} {derived:?}", object.spec_json()),
        )
    };
    Seen {
        objects: objects.map(shown).collect(),
        findings: world.stage.current_findings(),
        statuses: world.statuses.clone(),
    }
}

fn puts(objects: impl IntoIterator<Item = AnyObject>) -> Vec<Change> {
    puts_in(None, objects)
}

fn puts_in(place: Place, objects: impl IntoIterator<Item = AnyObject>) -> Vec<Change> {
    let owner = owner(place);
    let changes = objects.into_iter();
    changes
        .map(|object| Change::Put(owner.clone(), object))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 120,
        rng_seed: proptest::test_runner::RngSeed::Fixed(19),
        ..ProptestConfig::default()
    })]

    #[test]
    fn piece_by_piece_is_as_from_nothing(steps in proptest::collection::vec(step(), 1..12)) {
        let around = around();
        prop_assert_eq!(around.len(), AROUND);
        let mut there: BTreeMap<(Place, ObjectKey), AnyObject> = BTreeMap::new();
        let mut world = World::new(served());
        for place in [None, Some("east")] {
            there.extend(around.iter().map(|object| ((place, object.key()), object.clone())));
            world.apply(puts_in(place, around.clone()));
        }
        let mut said = 1;
        world.apply(vec![remotes(said)]);
        for step in &steps {
            let (place, object) = match step {
                Step::Put(drawn) => (drawn.place, drawn.object()),
                Step::Around(place, at, true) => (*place, around[*at].clone()),
                Step::Https(Some(at)) => (None, https(*at)),
                Step::Remotes(at) => {
                    said = *at;
                    world.apply(vec![remotes(said)]);
                    continue;
                }
                Step::Gone(cluster) => {
                    there.retain(|(place, _), _| *place != Some(*cluster));
                    world.apply(vec![Change::Gone(owner(Some(*cluster)))]);
                    continue;
                }
                Step::Https(None) | Step::Around(_, _, false) | Step::Delete(..) => {
                    let (place, gone) = match step {
                        Step::Around(place, at, _) => (*place, around[*at].key()),
                        Step::Delete(place, name, namespace) => (*place, ObjectKey {
                            kind: Kind::Ingress,
                            name: model::ObjectName::new(NAMESPACES[*namespace], NAMES[*name]),
                        }),
                        _ => (None, https(0).key()),
                    };
                    there.remove(&(place, gone.clone()));
                    world.apply(vec![Change::Delete(owner(place), gone)]);
                    continue;
                }
            };
            there.insert((place, object.key()), object.clone());
            world.apply(puts_in(place, [object]));
        }
        let mut fresh = World::new(served());
        for ((place, _), object) in there.iter().rev() {
            fresh.apply(puts_in(*place, [object.clone()]));
        }
        fresh.apply(vec![remotes(said)]);
        prop_assert_eq!(seen(&world), seen(&fresh));
        prop_assert_eq!(world.stage.panics(), 0);
    }
}

/// Ingresses of one host each, with annotations that make little sense.
fn hostile(count: usize) -> Vec<AnyObject> {
    let rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner =
        proptest::test_runner::TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let strategy = drawn(8);
    let draw = |at: usize| {
        let tree = strategy.new_tree(&mut runner).unwrap();
        let mut drawn = tree.current();
        drawn.class %= 2;
        drawn.rules.truncate(1);
        drawn.default = false;
        for (name, _, _) in &mut drawn.annotations {
            // What names other hosts is for the other property.
            if matches!(SENSE[*name].0, "server-alias" | "from-to-www-redirect") {
                *name = 0;
            }
        }
        let object = drawn.object();
        let AnyObject::Ingress(ingress) = &object else {
            unreachable!("an Ingress was drawn");
        };
        let mut ingress = ingress.as_ref().clone();
        ingress.meta.name.name = format!("hostile-{at}").into();
        for rule in &mut ingress.spec.rules {
            rule.host = format!("h{at}.test").into();
        }
        AnyObject::Ingress(Arc::new(ingress))
    };
    (0..count).map(draw).collect()
}

#[test]
fn hostile_ingresses_concern_nobody_else_in_any_order() {
    let good = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: good, namespace: one}, spec: \
                {ingressClassName: higress, rules: [{host: good.test, http: {paths: [{path: /, pathType: Prefix, backend: \
                {service: {name: s0, port: {number: 80}}}}]}}]}}";
    let of_good = |world: &World| -> BTreeMap<String, String> {
        let all = seen(world).objects.into_iter();
        all.filter(|(_, shown)| shown.contains("good.test"))
            .collect()
    };
    let mut alone = World::new(served());
    alone.apply(puts(around().into_iter().chain(World::objects(good))));
    let wanted = of_good(&alone);
    assert_eq!(wanted.len(), 2, "{wanted:?}");

    let hostile = hostile(2_000);
    let mut world = World::new(served());
    world.apply(puts(
        around()
            .into_iter()
            .chain(World::objects(good))
            .chain(hostile.clone()),
    ));
    assert_eq!(of_good(&world), wanted);
    assert_eq!(world.stage.panics(), 0);

    let mut reversed = World::new(served());
    for chunk in hostile.rchunks(100) {
        reversed.apply(puts(chunk.iter().rev().cloned()));
    }
    reversed.apply(puts(around().into_iter().chain(World::objects(good))));
    assert_eq!(seen(&world), seen(&reversed));
}

#[test]
fn nothing_is_derived_for_wildcards_above_a_host_that_nobody_states() {
    let derived = |labels: usize| {
        let mut world = World::new(served());
        world.put(&format!(
            "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: web, namespace: one}}
spec:
  ingressClassName: higress
  rules:
  - host: {}example.com
    http: {{paths: [{{path: /shop, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
",
            "a.".repeat(labels)
        ));
        assert_eq!(
            world.store.snapshot().tables.count(Kind::VirtualService),
            1,
            "{labels}"
        );
        world.stage.stats().memos
    };
    assert_eq!(derived(10), derived(100));
}
