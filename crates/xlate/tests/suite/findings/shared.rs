//! What tenants take of each other at a shared gateway, and of each other's hosts: who was first has it, and the other is told.

use mesh::finding::code;
use model::Diagnostic;
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, decode, settings};
use xds::TypeUrl;
use xlate::findings::FindingsOfMesh;

use crate::findings::support::Case;

/// A gateway of the namespace `edge`, and what it says of its ports.
fn case(yaml: &str) -> Case {
    let proxy = json!({
        "id": "router~10.0.0.1~gw.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "LABELS": {"istio": "gw"}, "ISTIO_VERSION": "1.32.0"},
    });
    Case::with(settings(""), proxy, yaml)
}

/// A Gateway of a namespace that selects it; `created` is a year, or empty.
fn gateway(namespace: &str, created: &str, servers: &str) -> String {
    let date = match created {
        "" => String::new(),
        year => format!(", creationTimestamp: '{year}-01-01T00:00:00Z'"),
    };
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: web, namespace: {namespace}{date}}}
spec: {{selector: {{istio: gw}}, servers: [{servers}]}}
"
    )
}

/// The servers that are refused: the Gateway, the field and the reason.
fn refused(case: &Case) -> Vec<String> {
    let found = case.findings();
    let found = found.iter().filter(|f| f.code == code::SERVER_REFUSED);
    let shown = |f: &Diagnostic| {
        let object = f.object.as_ref().unwrap();
        format!("{object} {}: {}", f.path, f.message)
    };
    found.map(shown).collect()
}

fn listener(case: &Case, name: &str) -> Option<Value> {
    let set = case.world.set(&case.view, TypeUrl::Listener);
    let listener = set.get(name)?;
    Some(decode(TypeUrl::Listener.as_str(), &listener.body))
}

/// Whether there is the listener, and it reads requests; without a rule that leads somewhere a server of TCP has none.
fn reads_requests(case: &Case, name: &str) -> bool {
    listener(case, name).is_some_and(|listener| {
        listener
            .to_string()
            .contains("http_connection_manager.v3.HttpConnectionManager")
    })
}

const HTTP: &str = "{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*.example.com']}";
const TCP: &str = "{port: {number: 80, name: tcp, protocol: TCP}, hosts: ['*']}";

#[test]
fn hosts_that_are_too_long_are_left_out_of_their_server() {
    let fits = format!("{}example.com", "a.".repeat(122));
    let longer = format!("a{fits}");
    assert_eq!(longer.len(), 256);
    let server = |hosts: &str| {
        let port = "{number: 80, name: http, protocol: HTTP}";
        format!("{{port: {port}, hosts: [{hosts}], tls: {{httpsRedirect: true}}}}")
    };
    let of = |hosts: &str| case(&gateway("evil", "2020", &server(hosts)));
    assert_eq!(refused(&of(&format!("'./{fits}'"))), [""; 0]);
    let left_out = "Gateway evil/web spec.servers[0].hosts[1]: the server does not serve a host: it has 256 bytes, more than 255";
    let case = of(&format!("{fits}, '*/{longer}'"));
    assert_eq!(refused(&case), [left_out]);
    let routes = case.world.set(&case.view, TypeUrl::Route);
    let routes = decode(
        TypeUrl::Route.as_str(),
        &routes.get("http.80").unwrap().body,
    );
    let routes = routes.to_string();
    assert!(routes.contains(&fits) && !routes.contains(&longer));
    // A server without any other host is none.
    let case = of(&longer);
    assert_eq!(refused(&case).len(), 1);
    assert!(listener(&case, "0.0.0.0_80").is_none());
}

#[test]
fn the_namespace_of_a_gateway_has_its_ports_whatever_the_age_of_others() {
    for created in ["2010", "2030", ""] {
        let case = case(&[gateway("edge", "2020", HTTP), gateway("evil", created, TCP)].concat());
        assert!(reads_requests(&case, "0.0.0.0_80"), "{created:?}");
        assert_eq!(
            refused(&case),
            [
                "Gateway evil/web spec.servers[0]: the server is not served on port 80: Gateway edge/web serves HTTP there, which \
                 cannot share a port with TCP"
            ],
            "{created:?}"
        );
    }
}

#[test]
fn among_others_the_older_has_a_port_and_who_has_no_date_is_the_youngest() {
    for (evil, is_taken) in [("2010", true), ("2030", false), ("", false)] {
        let case = case(&[gateway("bank", "2020", HTTP), gateway("evil", evil, TCP)].concat());
        assert_eq!(reads_requests(&case, "0.0.0.0_80"), !is_taken, "{evil:?}");
        let loser = refused(&case).concat();
        let wanted = match is_taken {
            true => {
                "Gateway bank/web spec.servers[0]: the server is not served on port 80: Gateway evil/web serves TCP there"
            }
            false => {
                "Gateway evil/web spec.servers[0]: the server is not served on port 80: Gateway bank/web serves HTTP there"
            }
        };
        assert!(loser.starts_with(wanted), "{evil:?}: {loser}");
    }
}

/// A Service of the gateway that says what its port speaks.
fn service(port: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: gw, namespace: edge}}
spec: {{clusterIP: 10.1.0.1, selector: {{istio: gw}}, ports: [{{name: {port}, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: gw-1, namespace: edge, labels: {{kubernetes.io/service-name: gw}}}}
addressType: IPv4
ports: [{{name: {port}, port: 80}}]
endpoints: [{{addresses: [10.0.0.1], conditions: {{ready: true}}, targetRef: {{kind: Pod, name: gw, namespace: edge}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: gw, namespace: edge, labels: {{istio: gw}}}}
spec: {{serviceAccountName: gw, containers: [{{name: c, image: x}}]}}
status: {{phase: Running, podIP: 10.0.0.1, conditions: [{{type: Ready, status: \"True\"}}]}}
"
    )
}

#[test]
fn among_others_what_the_service_of_the_gateway_says_counts_before_age() {
    for (port, older, younger, reads) in [
        ("http2", ("evil", TCP), ("bank", HTTP), true),
        ("tcp-db", ("evil", HTTP), ("bank", TCP), false),
        ("http2", ("bank", HTTP), ("evil", TCP), true),
        // Of a port that says nothing the older is.
        ("web", ("evil", TCP), ("bank", HTTP), false),
    ] {
        let yaml = [
            service(port),
            gateway(older.0, "2010", older.1),
            gateway(younger.0, "2020", younger.1),
        ];
        let case = case(&yaml.concat());
        assert_eq!(
            reads_requests(&case, "0.0.0.0_80"),
            reads,
            "{port} {older:?}"
        );
        assert_eq!(refused(&case).len(), 1, "{port} {older:?}");
    }
    // Alone it has the port, whatever that is for.
    let case = case(&[service("http2"), gateway("evil", "2010", TCP)].concat());
    assert!(!reads_requests(&case, "0.0.0.0_80"));
    assert_eq!(refused(&case), [""; 0]);
}

#[test]
fn a_server_that_is_refused_takes_no_names() {
    let tls = |name: &str, host: &str| {
        format!(
            "{{port: {{number: 443, name: {name}, protocol: HTTPS}}, hosts: [{host}], tls: {{mode: SIMPLE, credentialName: web}}}}"
        )
    };
    let first = [tls("https", "a.example.com"), tls("https", "b.example.com")].join(", ");
    let case = case(
        &[
            gateway("evil", "2010", &first),
            gateway("bank", "2020", &tls("https", "b.example.com")),
            gateway("shop", "2020", &tls("https", "shop/A.example.com")),
        ]
        .concat(),
    );
    assert_eq!(
        refused(&case),
        [
            "Gateway evil/web spec.servers[1]: the server is not served on port 443: Gateway evil/web has a server whose port has the \
             same name",
            "Gateway shop/web spec.servers[0]: the server is not served on port 443: Gateway evil/web has TLS for a.example.com there",
        ]
    );
}

/// A ServiceEntry of a namespace.
fn entry(namespace: &str, created: &str, more: &str) -> String {
    let date = match created {
        "" => String::new(),
        year => format!(", creationTimestamp: '{year}-01-01T00:00:00Z'"),
    };
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: api, namespace: {namespace}{date}}}
spec: {{ports: [{{number: 443, name: tls, protocol: TLS}}], resolution: DNS, {more}}}
"
    )
}

fn of_mesh(yaml: &str) -> Vec<String> {
    let world = World::of(yaml);
    let found = world.get(&FindingsOfMesh);
    let shown = |f: &Diagnostic| {
        let object = f.object.as_ref().unwrap();
        format!("{} {object} {}: {}", f.code, f.path, f.message)
    };
    found.iter().map(shown).collect()
}

#[test]
fn an_entry_for_the_host_of_an_older_one_of_another_namespace_is_told() {
    let host = "hosts: [api.partner.example]";
    let told = |loser: &str, owner: &str, why: &str| {
        vec![format!(
            "PIL0512 ServiceEntry {loser}/api spec.hosts[0]: proxies of other namespaces than {loser} reach api.partner.example as \
             ServiceEntry {owner}/api says, which {why}"
        )]
    };
    for (evil, found) in [
        ("2010", told("bank", "evil", "is older")),
        ("2030", told("evil", "bank", "is older")),
        ("", told("evil", "bank", "alone has a creationTimestamp")),
    ] {
        let yaml = [entry("bank", "2020", host), entry("evil", evil, host)].concat();
        assert_eq!(of_mesh(&yaml), found, "{evil:?}");
    }
    for apart in [
        entry("bank", "2030", host),
        entry("evil", "2030", &format!("{host}, exportTo: ['.']")),
        entry("evil", "2030", "hosts: [b.partner.example]"),
    ] {
        let yaml = [entry("bank", "2020", host), apart].concat();
        assert_eq!(of_mesh(&yaml), [""; 0]);
    }
}

#[test]
fn of_two_entries_of_a_namespace_for_one_host_it_is_told_what_is_merged_and_what_is_lost() {
    let entry = |name: &str, port: u16, more: &str| {
        format!(
            "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: bank}}
spec: {{hosts: [api.partner.example], ports: [{{number: {port}, name: tls, protocol: TLS}}], {more}}}
"
        )
    };
    let found = |other: &str| of_mesh(&[&entry("a", 443, "resolution: DNS"), other].concat());
    let told = |what: &str| vec![format!("PIL0512 ServiceEntry bank/b spec.hosts[0]: {what}")];
    assert_eq!(
        found(&entry("b", 443, "resolution: DNS")),
        told(
            "requests to the ports 443 of api.partner.example go to the endpoints of ServiceEntry bank/a as well: both are one \
             service, with the protocols of ServiceEntry bank/a, which comes first by name"
        )
    );
    // The ports of both are there.
    assert_eq!(found(&entry("b", 8443, "resolution: DNS")), [""; 0]);
    assert_eq!(
        found(&entry("b", 8443, "resolution: DNS, exportTo: ['.']")),
        told(
            "no proxy has a cluster for the ports 8443 of api.partner.example, so requests to them get 503: ServiceEntry bank/a \
             has the host, comes first by name, and its exportTo differs, so its ports are all that count"
        )
    );
    let robin = "resolution: DNS_ROUND_ROBIN";
    for (of_a, of_b) in [
        (robin, robin),
        (robin, "resolution: DNS"),
        ("resolution: DNS", robin),
    ] {
        assert_eq!(
            of_mesh(&[entry("a", 443, of_a), entry("b", 443, of_b)].concat()),
            told(
                "the endpoints for the ports 443 of api.partner.example are left out: ServiceEntry bank/a has the host, comes first by \
                 name, and there is one endpoint with the resolution DNS_ROUND_ROBIN"
            )
        );
    }
}

#[test]
fn an_address_that_was_allocated_to_an_older_entry_is_left_out_and_told() {
    let yaml = [
        entry("bank", "2020", "hosts: [api.partner.example]"),
        entry(
            "evil",
            "2030",
            "hosts: [a.evil.example], addresses: [240.240.0.1, 10.9.0.1]",
        ),
    ];
    assert_eq!(
        of_mesh(&yaml.concat()),
        [
            "PIL0513 ServiceEntry evil/api spec.addresses: the address 240.240.0.1 is left out: it was allocated to ServiceEntry \
             bank/api, which is older"
        ]
    );
}

#[test]
fn what_is_not_served_comes_with_what_to_do_about_it() {
    let servers = "{port: {number: 15000, name: admin, protocol: HTTP}, hosts: ['*']}, \
                   {port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}, \
                   {port: {number: 80, name: tcp, protocol: TCP}, hosts: ['*']}";
    let found = case(&gateway("edge", "2025", servers)).findings();
    let found = found.iter().filter(|f| f.code == code::SERVER_REFUSED);
    let helps: Vec<(&str, Option<&str>)> = found.map(|f| (&*f.path, f.help.as_deref())).collect();
    assert_eq!(
        helps,
        [
            ("spec.servers[0]", Some("use another port")),
            (
                "spec.servers[2]",
                Some("give the server another port, or agree on one Gateway for both")
            ),
        ]
    );
}
