//! What does not count here, and so is not served to other control planes.

mod support;

use std::sync::Arc;

use model::Kind;
use serde_json::{Value, json};
use support::served;
use testkit::{World, settings};

const ENTRIES: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: some, namespace: evil}
spec:
  hosts: [some.test]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, ports: {http: 15000}}, {address: 10.0.0.1}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: none, namespace: evil}
spec:
  hosts: [none.test]
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: localhost}, {address: 169.254.169.254}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: by-host, namespace: evil}
spec:
  hosts: [by-host.test]
  resolution: DNS
  ports: [{number: 15000, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: selects, namespace: evil}
spec:
  hosts: [selects.test]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: own, protocol: HTTP, targetPort: 15000}]
  workloadSelector: {labels: {app: w}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: local, namespace: evil}
spec: {address: 127.0.0.1, labels: {app: w}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: own-port, namespace: evil}
spec: {address: name.test, ports: {http: 15000}, labels: {app: w}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: remote, namespace: evil}
spec: {address: 10.0.0.2, labels: {app: w}}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: evil}
spec: {type: ExternalName, externalName: localhost, selector: {app: w}, ports: [{name: http, port: 80}]}
";

#[test]
fn endpoints_on_the_machine_of_whoever_connects_are_not_served() {
    let world = World::of(ENTRIES);
    let entries = served(&world, Kind::ServiceEntry);
    let spec = |name: &str| &entries[&format!("evil/{name}")]["spec"];
    assert_eq!(spec("some")["endpoints"], json!([{"address": "10.0.0.1"}]));
    for closed in ["none", "by-host", "synthetic-outside"] {
        let spec = spec(closed);
        assert_eq!(spec["resolution"], "STATIC", "{closed}");
        for field in ["endpoints", "workloadSelector"] {
            assert_eq!(spec.get(field), None, "{closed}");
        }
        assert_eq!(spec["ports"].as_array().map(Vec::len), Some(1), "{closed}");
    }
    let selects = spec("selects");
    assert_eq!(selects["workloadSelector"]["labels"]["app"], "w");
    assert_eq!(selects["ports"].as_array().map(Vec::len), Some(1));
    let workloads = served(&world, Kind::WorkloadEntry);
    assert_eq!(workloads.keys().collect::<Vec<_>>(), ["evil/remote"]);

    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).local_endpoints = "evil".into();
    let mut world = World::new(settings);
    world.put(ENTRIES);
    let entries = served(&world, Kind::ServiceEntry);
    assert_eq!(entries["evil/none"]["spec"]["resolution"], "DNS");
    assert_eq!(served(&world, Kind::WorkloadEntry).len(), 3);
}

const OWNED: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: bank, creationTimestamp: '2026-01-02T00:00:00Z'}
spec:
  selector: {istio: edge}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [bank.example.com]}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: own, namespace: evil, creationTimestamp: '2026-01-03T00:00:00Z'}
spec:
  selector: {app: edge}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: apart, namespace: evil, creationTimestamp: '2026-01-03T00:00:00Z'}
spec:
  selector: {istio: other}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: bank, creationTimestamp: '2026-01-04T00:00:00Z'}
spec: {hosts: [bank.example.com], gateways: [web], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: at-bank, namespace: evil, creationTimestamp: '2026-01-04T00:00:00Z'}
spec: {hosts: [bank.example.com], gateways: [bank/web], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: at-own, namespace: evil, creationTimestamp: '2026-01-04T00:00:00Z'}
spec: {hosts: [evil.example.com, bank.example.com], gateways: [own], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: apart, namespace: evil, creationTimestamp: '2026-01-04T00:00:00Z'}
spec: {hosts: [bank.example.com], gateways: [apart], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: sidecars, namespace: evil, creationTimestamp: '2026-01-04T00:00:00Z'}
spec: {hosts: [web.bank.svc.cluster.local, web], http: [{route: [{destination: {host: web}}]}]}
";

#[test]
fn hosts_of_others_are_not_served_where_hosts_have_owners() {
    for (is_owned, wanted) in [
        (
            true,
            json!({
                "bank/web": ["bank.example.com"],
                "evil/apart": ["bank.example.com"],
                "evil/at-own": ["evil.example.com"],
                "evil/sidecars": ["web"],
            }),
        ),
        (
            false,
            json!({
                "bank/web": ["bank.example.com"],
                "evil/apart": ["bank.example.com"],
                "evil/at-bank": ["bank.example.com"],
                "evil/at-own": ["evil.example.com", "bank.example.com"],
                "evil/sidecars": ["web.bank.svc.cluster.local", "web"],
            }),
        ),
    ] {
        let mut settings = settings("");
        Arc::make_mut(&mut settings.features).owned_hosts = is_owned;
        let mut world = World::new(settings);
        world.put(OWNED);
        let rules = served(&world, Kind::VirtualService);
        let hosts = rules
            .iter()
            .map(|(name, rule)| (name.clone(), rule["spec"]["hosts"].clone()));
        assert_eq!(Value::Object(hosts.collect()), wanted, "{is_owned}");
    }
}
