//! The budget of a namespace: many objects, each below every limit of one.

use std::sync::Arc;

use mesh::finding::code;
use mesh::services::EndpointsOf;
use mesh::virtual_service::AllHeads;
use model::budget::{CROWD, CROWD_OF_SERVICES};
use model::change::ServiceKey;
use model::settings::Settings;
use model::{Kind, ObjectKey, ObjectName};
use pilothouse_xlate::View;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

use crate::limits::hostile::{everybody, list, object};

/// Five objects of a kind, of which so many may be served with a budget of 1 MiB.
struct Case {
    name: &'static str,
    kind: &'static str,
    /// The field that is told.
    field: &'static str,
    served: usize,
    /// What the object of that number says.
    spec: fn(usize) -> String,
}

const TO_CART: &str = "route: [{destination: {host: cart}}]";
const PORTS: &str = "[{number: 80, name: http, protocol: HTTP}]";

const CASES: [Case; 11] = [
    Case {
        name: "matches",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| {
            let matches = list(100, |at| format!("{{uri: {{prefix: /p{at}}}}}"));
            format!("{{hosts: [r{n}.test], http: [{{match: {matches}, {TO_CART}}}]}}")
        },
    },
    Case {
        name: "hosts",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| {
            let hosts = list(100, |at| format!("h{at}.r{n}.test"));
            format!("{{hosts: {hosts}, http: [{{{TO_CART}}}]}}")
        },
    },
    Case {
        name: "delegates",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| format!("{{hosts: [d{n}.test], http: [{{delegate: {{name: leaf}}}}]}}"),
    },
    Case {
        name: "subsets",
        kind: "DestinationRule",
        field: "spec.subsets",
        served: 3,
        spec: |n| {
            let subsets = list(75, |at| format!("{{name: s{at}}}"));
            format!("{{host: s{n}.test, subsets: {subsets}}}")
        },
    },
    Case {
        name: "subsets-of-wildcards",
        kind: "DestinationRule",
        field: "spec.subsets",
        served: 3,
        spec: |_| {
            // Five services are below it.
            let subsets = list(15, |at| format!("{{name: s{at}}}"));
            format!("{{host: '*.test', subsets: {subsets}}}")
        },
    },
    Case {
        name: "ports",
        kind: "ServiceEntry",
        field: "spec.hosts",
        served: 3,
        spec: |n| {
            let hosts = list(75, |at| format!("e{at}.x{n}.test"));
            format!("{{hosts: {hosts}, resolution: DNS, ports: {PORTS}}}")
        },
    },
    Case {
        name: "endpoints",
        kind: "ServiceEntry",
        field: "spec.hosts",
        served: 2,
        spec: |n| {
            let hosts = list(15, |at| format!("e{at}.x{n}.test"));
            let endpoints = list(100, |at| format!("{{address: 10.9.0.{at}}}"));
            format!(
                "{{hosts: {hosts}, resolution: STATIC, ports: {PORTS}, endpoints: {endpoints}}}"
            )
        },
    },
    Case {
        name: "servers-that-have-a-rule",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| {
            // 3 KiB for each of 100 servers.
            let path = "x".repeat(2_400);
            format!(
                "{{hosts: [g{n}.test], gateways: [istio-system/wide], http: [{{match: [{{uri: {{prefix: /{path}}}}}], {TO_CART}}}]}}"
            )
        },
    },
    Case {
        name: "servers",
        kind: "Gateway",
        field: "spec.servers",
        served: 3,
        spec: |n| {
            let servers = list(40, |at| {
                let port = 2_000 + n * 40 + at;
                format!("{{port: {{number: {port}, name: p, protocol: HTTP}}, hosts: [s.test]}}")
            });
            format!("{{selector: {{app: cart}}, servers: {servers}}}")
        },
    },
    Case {
        name: "ports-of-services",
        kind: "Service",
        field: "spec.ports",
        served: 3,
        spec: |_| {
            let ports = list(80, |at| format!("{{name: p{at}, port: {}}}", 2_000 + at));
            format!("{{ports: {ports}}}")
        },
    },
    Case {
        name: "selected",
        kind: "Service",
        field: "spec.ports",
        served: 3,
        spec: |_| {
            // 400 WorkloadEntries.
            "{selector: {app: vm}, ports: [{name: a, port: 80}, {name: b, port: 81}, {name: c, port: 82}]}".to_owned()
        },
    },
];

fn small() -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.namespace_budget = 1.into();
    settings.features = Arc::new(features);
    settings
}

/// What objects of the cases refer to.
fn around() -> String {
    let routes = list(100, |n| {
        format!("{{match: [{{uri: {{prefix: /p{n}}}}}], {TO_CART}}}")
    });
    let services: String = (0..5)
        .map(|n| {
            let spec = format!("{{hosts: [s{n}.test], resolution: DNS, ports: {PORTS}}}");
            object("ServiceEntry", &format!("s{n}"), &spec)
        })
        .collect();
    let servers = list(100, |n| {
        format!(
            "{{port: {{number: {}, name: p, protocol: HTTP}}, hosts: ['*']}}",
            3_000 + n
        )
    });
    let wide = object(
        "Gateway",
        "wide",
        &format!("{{selector: {{app: nobody}}, servers: {servers}}}"),
    )
    .replace("shop", "istio-system");
    let entries: String = (0..400)
        .map(|n| {
            let spec = format!(
                "{{address: 10.8.{}.{}, labels: {{app: vm}}}}",
                n / 200,
                n % 200
            );
            object("WorkloadEntry", &format!("vm{n}"), &spec)
        })
        .collect();
    everybody()
        + &services
        + &wide
        + &entries
        + &object("VirtualService", "leaf", &format!("{{http: {routes}}}"))
}

/// The object of that number, the older the greater it is: names do not decide.
fn at(kind: &str, number: usize, spec: &str) -> String {
    let created = format!(
        "creationTimestamp: '2026-01-01T00:00:{:02}Z', namespace",
        9 - number
    );
    object(kind, &format!("o{number}"), spec).replacen("namespace", &created, 1)
}

fn over(world: &World) -> Vec<(String, String)> {
    let found = world.get(&FindingsOfMesh);
    let over = found.iter().filter(|found| found.code == code::OVER_BUDGET);
    let mut over: Vec<_> = over
        .map(|found| {
            (
                found
                    .object
                    .as_ref()
                    .expect("it is about an object")
                    .to_string(),
                found.path.to_string(),
            )
        })
        .collect();
    over.sort();
    over
}

fn told(case: &Case, numbers: impl Iterator<Item = usize>) -> Vec<(String, String)> {
    numbers
        .map(|n| (format!("{} shop/o{n}", case.kind), case.field.to_owned()))
        .collect()
}

#[test]
fn the_youngest_are_over_the_budget_and_others_go_on() {
    for case in CASES {
        let mut world = World::new(small());
        world.put(&around());
        for number in 0..5 {
            world.put(&at(case.kind, number, &(case.spec)(number)));
        }
        // 4 is the oldest.
        let left_out = 5 - case.served;
        assert_eq!(over(&world), told(&case, 0..left_out), "{}", case.name);
        // The same in another namespace is another budget.
        for number in 0..5 {
            let other = at(case.kind, number, &(case.spec)(number)).replace("shop", "other");
            world.put(&other);
        }
        let of_shop = over(&world);
        let of_shop = of_shop
            .iter()
            .filter(|(object, _)| object.contains(" shop/"));
        assert_eq!(of_shop.count(), left_out, "{}", case.name);
        // Room that is made is taken by the next.
        let little = match case.kind {
            "VirtualService" => format!("{{hosts: [x.test], http: [{{{TO_CART}}}]}}"),
            "DestinationRule" => "{host: x.test}".to_owned(),
            "Gateway" => "{}".to_owned(),
            "Service" => "{ports: [{port: 80}]}".to_owned(),
            _ => format!("{{hosts: [x.test], resolution: DNS, ports: {PORTS}}}"),
        };
        world.put(&at(case.kind, 4, &little));
        let of_shop = over(&world);
        let of_shop = of_shop
            .iter()
            .filter(|(object, _)| object.contains(" shop/"));
        assert_eq!(of_shop.count(), left_out - 1, "{}", case.name);
        // And with the usual budget nobody is near.
        let mut world = World::new(settings(""));
        world.put(&around());
        for number in 0..5 {
            world.put(&at(case.kind, number, &(case.spec)(number)));
        }
        assert_eq!(over(&world), [], "{}", case.name);
    }
}

/// A slice of a Service of that number of endpoints for as many ports.
fn slice(name: &str, number: usize, size: usize) -> String {
    let endpoints = list(size, |at| format!("{{addresses: [10.7.{number}.{at}]}}"));
    let ports = list(size, |at| format!("{{name: p{at}, port: {}}}", 2_000 + at));
    format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}{number}, namespace: shop, \
         creationTimestamp: '2026-01-01T00:00:{:02}Z', labels: {{kubernetes.io/service-name: s{number}}}}}\n\
         addressType: IPv4\nendpoints: {endpoints}\nports: {ports}\n",
        59 - number
    )
}

#[test]
fn endpoints_times_ports_of_slices_have_a_budget() {
    let mut world = World::new(small());
    for number in 0..5 {
        world.put(&slice("o", number, 36));
        // Small ones are free.
        world.put(&slice("little", 50 + number, 8));
    }
    let told = |numbers: [usize; 2]| {
        numbers.map(|n| (format!("EndpointSlice shop/o{n}"), "endpoints".to_owned()))
    };
    assert_eq!(over(&world), told([0, 1]));
    let endpoints = |number: usize| {
        let service = ServiceKey {
            namespace: "shop".into(),
            host: format!("s{number}.shop.svc.cluster.local").into(),
        };
        world.get(&EndpointsOf(service)).len()
    };
    assert_eq!(
        (endpoints(4), endpoints(0), endpoints(50)),
        (36 * 36, 0, 64)
    );
}

#[test]
fn small_objects_pay_where_there_is_a_crowd() {
    let mut world = World::new(small());
    let rule = |n: usize| {
        let (hours, minutes, seconds) = (n / 3_600, n / 60 % 60, n % 60);
        let created = format!(
            "creationTimestamp: '2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z', namespace"
        );
        let spec = format!("{{hosts: [w{n}.test], http: [{{{TO_CART}}}]}}");
        object("VirtualService", &format!("w{n}"), &spec).replacen("namespace", &created, 1)
    };
    let all: String = (0..CROWD).map(rule).collect();
    world.put(&all);
    assert_eq!(over(&world), []);
    world.put(&rule(CROWD));
    let heads = world.get(&AllHeads);
    let closed = heads.iter().filter(|head| {
        let excess = head.excess.as_ref();
        excess.is_some_and(|excess| excess.budget)
    });
    let left_out: Vec<String> = closed.map(|head| head.name.to_string()).collect();
    let is_out = |n: usize| left_out.contains(&format!("shop/w{n}"));
    // A hundred are reported by themselves, and the rest at once.
    assert_eq!(over(&world).len(), 101);
    // 1 MiB is some 400 routes.
    assert!(
        (CROWD - 600..CROWD - 200).contains(&left_out.len()),
        "{}",
        left_out.len()
    );
    assert!(!is_out(0) && !is_out(200) && is_out(600) && is_out(CROWD));
    world.delete(&ObjectKey {
        kind: Kind::VirtualService,
        name: ObjectName::new("shop", "w0"),
    });
    assert_eq!(over(&world), []);
}

fn sidecar(world: &World) -> Arc<View> {
    world.view(&node(&json!({
        "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
    })))
}

fn resource(world: &World, ty: TypeUrl, name: &str) -> Option<Value> {
    let set = world.set(&sidecar(world), ty);
    Some(decode(ty.as_str(), &set.get(name)?.body))
}

#[test]
fn a_rule_over_the_budget_answers_503_for_its_hosts_alone() {
    let mut world = World::new(small());
    world.put(&around());
    for number in 0..5 {
        world.put(&at("VirtualService", number, &(CASES[0].spec)(number)));
    }
    let config = resource(&world, TypeUrl::Route, "80").unwrap();
    let routes = |domain: &str| {
        let hosts = config["virtual_hosts"].as_array().unwrap().iter();
        let mut named = hosts.filter(|host| {
            let domains = host["domains"].as_array().unwrap();
            domains.contains(&json!(domain))
        });
        named.next().unwrap()["routes"].as_array().unwrap().clone()
    };
    assert_eq!(routes("r4.test").len(), 100);
    assert_eq!(routes("r2.test").len(), 100);
    for closed in ["r0.test", "r1.test"] {
        let routes = routes(closed);
        assert_eq!(routes.len(), 1);
        assert_eq!(routes[0]["direct_response"]["status"], 503);
    }
}

#[test]
fn subsets_over_the_budget_are_not_there_and_the_service_is() {
    let mut world = World::new(small());
    world.put(&around());
    for number in 0..5 {
        world.put(&at("DestinationRule", number, &(CASES[3].spec)(number)));
    }
    let cluster = |name: &str| resource(&world, TypeUrl::Cluster, name).is_some();
    assert!(cluster("outbound|80|s7|s4.test") && cluster("outbound|80||s0.test"));
    assert!(!cluster("outbound|80|s7|s0.test"));
}

/// A namespace may hold the services of a whole mesh, but not as many as one can write.
#[test]
fn services_pay_where_there_is_a_crowd() {
    for (kind, spec) in [
        (
            "Service",
            "{clusterIP: None, ports: [{name: http, port: 80}]}",
        ),
        (
            "ServiceEntry",
            "{hosts: [NAME.test], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}",
        ),
    ] {
        let mut world = World::new(settings(""));
        let service = |n: usize| {
            let name = format!("w{n:05}");
            object(kind, &name, &spec.replace("NAME", &name))
        };
        let all: String = (0..CROWD_OF_SERVICES).map(service).collect();
        world.put(&all);
        assert_eq!(over(&world), [], "{kind}");
        world.put(
            &(CROWD_OF_SERVICES..CROWD_OF_SERVICES + 3)
                .map(service)
                .collect::<String>(),
        );
        let left_out: Vec<String> = over(&world).into_iter().map(|(object, _)| object).collect();
        let last = |n: usize| format!("{kind} shop/w{:05}", CROWD_OF_SERVICES + n);
        assert_eq!(left_out, [last(0), last(1), last(2)]);
    }
}
