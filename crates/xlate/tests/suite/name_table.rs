//! Name tables against what Istio's own tests recorded and against recorded scenarios.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::change::{Change, Owner, ServiceKey, ShardKey};
use model::service::{Address, Endpoint, Health};
use serde_json::{Value, json};
use testkit::{Scenario, Score, Table, World, differences, node, settings};
use xds::TypeUrl;

const HEADLESS: &str = "{apiVersion: v1, kind: Service, metadata: {name: headless-svc, namespace: testns}, spec: \
     {clusterIP: None, ports: [{name: tcp-port, port: 9000}]}}";

/// A workload: host name, address, network, cluster, port.
fn workload(name: &str, ip: &str, network: &str, cluster: &str, port: &str) -> Endpoint {
    Endpoint {
        address: Address::Socket {
            hosts: Arc::from([Arc::from(ip)]),
            port: 9000,
        },
        port_name: port.into(),
        network: network.into(),
        cluster: cluster.into(),
        hostname: name.into(),
        health: Health::Healthy,
        ..Endpoint::default()
    }
}

/// The four workloads of most cases.
fn four() -> Vec<Endpoint> {
    vec![
        workload("pod1", "1.2.3.4", "", "", "tcp-port"),
        workload("pod2", "9.6.7.8", "nw2", "cl2", "tcp-port"),
        workload("pod3", "19.6.7.8", "nw1", "", "tcp-port"),
        workload("pod4", "9.16.7.8", "", "cl1", "tcp-port"),
    ]
}

fn mysql(clusters: [&str; 4]) -> Vec<Endpoint> {
    let ips = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    let pairs = ips.into_iter().zip(clusters).filter(|(_, c)| !c.is_empty());
    pairs
        .map(|(ip, cluster)| workload("mysql-0", ip, "", cluster, "tcp-port"))
        .collect()
}

/// The objects of a case, and whose endpoints are told apart from them.
fn inputs(case: &str) -> (String, &'static str, &'static str, Vec<Endpoint>) {
    const HOST: &str = "headless-svc.testns.svc.cluster.local";
    let below = |subdomain: &str, mut list: Vec<Endpoint>| {
        for endpoint in &mut list {
            endpoint.subdomain = subdomain.into();
        }
        list
    };
    let entry = |more: &str| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e, namespace: testns, \
             creationTimestamp: \"2024-01-01T00:00:00Z\"}}, spec: {{{more}, ports: \
             [{{name: tcp-port, number: 9000, protocol: TCP}}]}}}}"
        )
    };
    let health = || {
        let mut list = four();
        list.pop();
        list[1].health = Health::Unhealthy;
        list[2].health = Health::Terminating;
        list
    };
    let decorated = |created: &str| {
        let service = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: mysql-svc, namespace: testns, creationTimestamp: \
             \"{created}\"}}, spec: {{clusterIP: 10.0.0.7, ports: [{{name: tcp, port: 3306}}]}}}}"
        );
        let entry = entry(
            "hosts: [mysql-svc.testns.svc.cluster.local], addresses: [10.0.0.5], resolution: NONE",
        );
        (
            format!("{service}\n---\n{entry}"),
            "testns",
            HOST,
            Vec::new(),
        )
    };
    match case {
        _ if case.contains("service_entry_with_resolution_=_NONE") => {
            let objects = entry("hosts: [foo.bar.com], resolution: NONE");
            (objects, "testns", "foo.bar.com", four())
        }
        _ if case.contains("publish_unready") => {
            let service = HEADLESS.replace(
                "clusterIP: None",
                "clusterIP: None, publishNotReadyAddresses: true",
            );
            (service, "testns", HOST, below("headless-svc", health()))
        }
        _ if case.contains("unhealthy_pods") => (
            HEADLESS.to_owned(),
            "testns",
            HOST,
            below("headless-svc", health()),
        ),
        _ if case.contains("cidr") => {
            let objects =
                entry("hosts: [a.example.com], addresses: [172.217.0.0/16], resolution: STATIC");
            (objects, "testns", HOST, Vec::new())
        }
        _ if case.contains("dual_stack") => {
            let service = "{apiVersion: v1, kind: Service, metadata: {name: dual, namespace: testns}, spec: \
                 {clusterIP: \"2001:2::\", clusterIPs: [\"2001:2::\", 10.0.0.8], ports: [{name: tcp, port: 3306}]}}";
            (service.to_owned(), "testns", HOST, Vec::new())
        }
        _ if case.contains("multiple_VIPs") => {
            let objects =
                entry("hosts: [mysql.foo.bar], addresses: [10.0.0.5, 10.0.0.6], resolution: NONE");
            (objects, "testns", HOST, Vec::new())
        }
        _ if case.contains("created_before_k8s") => decorated("2025-01-01T00:00:00Z"),
        _ if case.contains("created_after_k8s") => decorated("2023-01-01T00:00:00Z"),
        _ if case.contains("MultiPort") => {
            let service = "{apiVersion: v1, kind: Service, metadata: {name: kafka-brokers, namespace: kafka}, spec: \
                 {clusterIP: None, ports: [{name: tcp-ctrlplane, port: 9090}, {name: tcp-replication, port: 9091}]}}";
            let list = vec![
                workload("controller-0", "10.0.1.1", "", "cluster1", "tcp-ctrlplane"),
                workload("kafka-0", "10.0.2.1", "", "cluster1", "tcp-replication"),
            ];
            let list = below("kafka-brokers", list);
            (
                service.to_owned(),
                "kafka",
                "kafka-brokers.kafka.svc.cluster.local",
                list,
            )
        }
        _ if case.contains("TestPodNameTable") => {
            let clusters = match case.rsplit('/').next().unwrap() {
                "cumulative_IPs_for_same_pod_in_remote_cluster" => ["", "", "cluster2", "cluster2"],
                "cumulative_IPs_for_same_pod_in_local_cluster" => ["cluster1", "cluster1", "", ""],
                "local_cluster_preferred_over_remote" => ["cluster1", "cluster2", "", ""],
                _ => ["cluster1", "cluster1", "cluster2", "cluster2"],
            };
            (
                HEADLESS.to_owned(),
                "testns",
                HOST,
                below("headless-svc", mysql(clusters)),
            )
        }
        _ => (
            HEADLESS.to_owned(),
            "testns",
            HOST,
            below("headless-svc", four()),
        ),
    }
}

#[test]
fn name_tables_are_those_that_istio_builds() {
    let Some(table) = Table::load("dns-nametable") else {
        return;
    };
    let mut score = Score::default();
    for case in table.of("server.BuildNameTable") {
        let name = case["test"].as_str().unwrap();
        let cfg = &case["in"]["cfg"];
        let proxy = &cfg["Node"];
        let metadata = &proxy["Metadata"];
        let cluster = metadata["ClusterID"].as_str().unwrap_or_default();
        let mut settings = settings("");
        let mut features = (*settings.features).clone();
        // As that test sets it.
        features.dual_stack = true;
        features.multicluster_headless = cfg["MulticlusterHeadlessEnabled"] == true;
        settings.features = features.into();
        settings.cluster = if cluster.is_empty() {
            "Kubernetes"
        } else {
            cluster
        }
        .into();
        let mut world = World::new(settings);
        let (objects, namespace, host, list) = inputs(name);
        world.put(&objects);
        world.apply([Change::Endpoints {
            owner: Owner::new(0, "mock"),
            service: ServiceKey {
                namespace: namespace.into(),
                host: host.into(),
            },
            shard: ShardKey {
                provider: "Mock".into(),
                cluster: "".into(),
            },
            list: list.into(),
        }]);
        let ips = proxy["IPAddresses"].as_array().unwrap();
        let ips: Vec<&str> = ips.iter().filter_map(Value::as_str).collect();
        let domain = proxy["DNSDomain"].as_str().unwrap();
        let node = node(&json!({
            "id": format!("sidecar~{}~x.testns~{domain}", ips[0]),
            "metadata": {
                "INSTANCE_IPS": ips.join(","), "NETWORK": metadata["Network"],
                "CLUSTER_ID": cluster, "NAMESPACE": namespace,
            },
        }));
        let view = world.view(&node);
        let set = world.set(&view, TypeUrl::NameTable);
        let got = testkit::decode(
            TypeUrl::NameTable.as_str(),
            &set.iter().next().expect("one table").body,
        );
        let found = differences(&case["out"], &got);
        score.count(name, &found);
    }
    score.as_listed(include_str!("../differences/name-tables.txt"));
}

#[test]
fn name_tables_of_scenarios_are_those_that_istiod_sent() {
    let mut score = Score::default();
    for name in Scenario::names() {
        // Several addresses are handed out there in the order of events.
        if name == "istio-xds-nds-se" || name.contains("ambient") || name.contains("waypoint") {
            continue;
        }
        let Some(scenario) = Scenario::recorded(&name).filter(|s| {
            s.nodes
                .keys()
                .any(|node| s.expected(node, TypeUrl::NameTable).is_some())
        }) else {
            continue;
        };
        for node in scenario.nodes.keys() {
            let Some(wanted) = scenario.expected(node, TypeUrl::NameTable) else {
                continue;
            };
            let got = scenario.generated(node, TypeUrl::NameTable);
            let found = differences(&json!(wanted), &json!(got));
            score.count(&format!("{name}/{node}"), &found);
        }
    }
    score.all_as_recorded();
}
