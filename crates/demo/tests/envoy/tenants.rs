//! Whatever objects another namespace has, no Envoy refuses an update or dies, and what changes next arrives: the hostile
//! objects of `xlate`'s tests of tenants, served to a gateway that is shared and to a sidecar of somebody else.
//!
//! `TENANT_OBJECTS=N` serves more of them, `TENANT_SEED=N` those of one number.

use demo::check::nothing_refused;
use demo::control;
use demo::http::Client;
use demo::shop::WORKLOADS;
use serde_json::Value;
use testkit::hostile::{OWN, Surroundings, objects};

use crate::rig::{Rig, until};
use crate::traffic::SERVICES;

/// How many hostile objects are served where `TENANT_OBJECTS` does not say it, and how many at a time.
const OBJECTS: u64 = 200;
const AT_ONCE: u64 = 20;
/// The port of the shop's gateway: this machine is others' as well, so that nobody binds another one.
const PORT: u16 = 18080;

/// A host that says which objects are served.
const SAID: &str = "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: said, namespace: shop}
spec:
  hosts: [NUMBER.said.example]
  gateways: [shop]
  http: [{directResponse: {status: 200, body: {string: said}}}]
";

fn around(rig: &Rig) -> Surroundings {
    let texts = |all: &[&str]| all.iter().map(|text| rig.block.place(text)).collect();
    Surroundings {
        hosts: texts(&[
            "shop.example.com",
            "blue.shop.svc.cluster.local",
            "green.shop.svc.cluster.local",
            "reviews.shop.svc.cluster.local",
        ]),
        gateways: texts(&["shop/shop"]),
        parents: texts(&["shop/none"]),
        selectors: texts(&["istio=ingressgateway", "app=reviews"]),
        addresses: texts(&["127.0.20.10", "127.0.20.20", "127.0.20.31"]),
        ports: vec![PORT],
        own_address: rig.block.place("127.0.20.40"),
    }
}

/// Takes out by which files clients of a service are told to connect: of what these are, its own clusters depend alone.
fn without_files_of_clients(object: &mut Value) {
    const FILES: [&str; 4] = ["clientCertificate", "privateKey", "caCertificates", "caCrl"];
    fn visit(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(visit),
            Value::Object(fields) => {
                fields.retain(|name, _| !FILES.contains(&name.as_str()));
                fields.values_mut().for_each(visit);
            }
            _ => {}
        }
    }
    if object["kind"] == "DestinationRule" {
        visit(object);
    }
}

/// Keeps servers of Gateways to the port that is the test's.
fn within_the_port(object: &mut Value) {
    if object["kind"] != "Gateway" {
        return;
    }
    for part in ["servers", "listeners"] {
        let list = object["spec"].get_mut(part).and_then(Value::as_array_mut);
        for server in list.into_iter().flatten() {
            match server.get_mut("port") {
                Some(Value::Object(port)) => _ = port.insert("number".to_owned(), PORT.into()),
                Some(port) => *port = PORT.into(),
                None => {}
            }
        }
    }
}

pub(crate) async fn hostile_objects_cost_nobody_else(mut rig: Rig) {
    let count: u64 =
        std::env::var("TENANT_OBJECTS").map_or(OBJECTS, |count| count.parse().unwrap());
    let seeds = match std::env::var("TENANT_SEED") {
        Ok(seed) => vec![seed.parse::<u64>().unwrap()],
        Err(_) => (0..count.div_ceil(AT_ONCE)).collect(),
    };
    rig.serve_ingresses("nginx");
    rig.set("PILOTHOUSE_SECRET_TEMPLATES", "true");
    rig.set("PILOTHOUSE_GATEWAY_BINDS", "127.0.0.0/8");
    rig.write(
        "services.yaml",
        &SERVICES.replace("[shop.example.com]", "['*']"),
    );
    rig.write("own.yaml", OWN);
    let mut mesh = rig.mesh_with(vec!["--validation=warn".to_owned()]).await;
    mesh.start_gateway().unwrap();
    mesh.start_sidecar(&WORKLOADS[2], &["--interception", "redirect"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let around = around(&rig);
    let (mut refused, mut refused_before) = (Vec::new(), 0.0);
    for seed in seeds {
        let mut all = objects(seed, usize::try_from(AT_ONCE).unwrap(), &around);
        all.iter_mut().for_each(within_the_port);
        all.iter_mut().for_each(without_files_of_clients);
        // JSON is YAML, and a document each.
        let texts: Vec<String> = all.iter().map(Value::to_string).collect();
        rig.write("hostile.yaml", &texts.join("\n---\n"));
        rig.write("said.yaml", &SAID.replace("NUMBER", &seed.to_string()));
        let host = format!("{seed}.said.example");
        let what = format!("TENANT_SEED={seed}: what changes next is in force");
        until(&what, async || {
            let reply = Client::new(rig.block.gateway(), host.as_str())
                .get("/")
                .await;
            reply.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        let refusals = control::refusals(rig.block.pages()).await.unwrap();
        if refusals > refused_before {
            refused.push(seed);
            refused_before = refusals;
        }
    }
    let log = std::fs::read_to_string(rig.beside("run/pilothouse.log")).unwrap();
    let said = log
        .lines()
        .filter(|line| line.contains("rejected a response"));
    let said: Vec<&str> = said.collect();
    assert!(
        refused.is_empty(),
        "TENANT_SEED of {refused:?}: {}",
        said.join("\n")
    );
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
