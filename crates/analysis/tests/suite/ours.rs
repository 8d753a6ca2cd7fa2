//! Findings that istioctl does not have, and that an analysis after changes is the one from scratch.

use model::{AnyObject, Change, Owner, Severity};
use pilothouse_analysis::{Analysis, Finding};
use testkit::{World, settings};

/// What our own analyzers say about these objects: `code object: path: message`.
pub(crate) fn ours(yaml: &str) -> Vec<String> {
    let all = World::of(yaml).get(&Analysis);
    let ours = all.iter().filter(|f| f.diagnostic.code.starts_with("PIL"));
    ours.map(|f| {
        let d = &f.diagnostic;
        let object = d.object.as_ref().expect("each is about an object");
        format!("{} {object}: {}: {}", d.code, d.path, d.message)
    })
    .collect()
}

pub(crate) const SERVICES: &str = "
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: other}, spec: {ports: [{name: http, port: 80}]}}
";

#[test]
fn routes_are_told_what_they_lead_to_does_not_exist() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g}}, spec: {{gatewayClassName: istio, listeners: [{{name: web, port: 80, protocol: HTTP}}, {{name: tls, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: absent}}]}}}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{parentRefs: [{{name: g, sectionName: wbe}}, {{name: none}}], rules: [{{backendRefs: [{{name: a, port: 80}}, {{name: a, port: 81}}, {{name: c, port: 80}}, {{name: b, namespace: other, port: 80}}]}}]}}}}
"
    );
    assert_eq!(
        ours(&yaml),
        [
            "PIL0105 HTTPRoute default/r: spec.rules[0].backendRefs[1].port: default/a has no port 81",
            "PIL0105 HTTPRoute default/r: spec.rules[0].backendRefs[2]: there is no Service default/c",
            "PIL0106 HTTPRoute default/r: spec.parentRefs[0].sectionName: the Gateway default/g has no listener wbe",
            "PIL0106 HTTPRoute default/r: spec.parentRefs[1]: there is no Gateway default/none",
            "PIL0107 Gateway default/g: spec.listeners[1].tls.certificateRefs[0]: there is no Secret default/absent",
            "PIL0108 HTTPRoute default/r: spec.rules[0].backendRefs[3]: Service other/b may not be referred to from default",
        ]
    );
}

#[test]
fn a_listener_set_is_told_that_its_gateway_does_not_exist() {
    let yaml = "{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: s}, spec: {parentRef: {name: none}, \
         listeners: [{name: web, port: 80, protocol: HTTP}]}}";
    assert_eq!(
        ours(yaml),
        ["PIL0106 ListenerSet default/s: spec.parentRef: there is no Gateway default/none"]
    );
}

#[test]
fn a_route_that_asks_for_an_external_authorizer_is_told_that_it_is_not_served() {
    let filter = "{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: a, port: 80}, grpc: {}}}";
    let yaml = format!(
        "{SERVICES}---
{}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{parentRefs: [{{name: g}}], rules: [{{filters: [{filter}], backendRefs: [{{name: a, port: 80}}]}}]}}}}
",
        gateway("{name: web, port: 80, protocol: HTTP}")
    );
    assert_eq!(
        places(&yaml),
        ["PIL0111 HTTPRoute default/r: spec.parentRefs[0]"]
    );
}

#[test]
fn a_pool_its_picker_and_grants_for_it_are_looked_for() {
    let to = |name: &str, namespace: &str| {
        format!(
            "{{group: inference.networking.k8s.io, kind: InferencePool, name: {name}, namespace: {namespace}, port: 80}}"
        )
    };
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {{name: p}}, spec: {{selector: {{matchLabels: {{app: p}}}}, targetPorts: [{{number: 8000}}], endpointPickerRef: {{name: a, port: {{number: 9002}}}}}}}}
---
{{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {{name: q, namespace: other}}, spec: {{selector: {{matchLabels: {{app: q}}}}, targetPorts: [{{number: 8000}}], endpointPickerRef: {{name: none, port: {{number: 9002}}}}}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r}}, spec: {{rules: [{{backendRefs: [{}, {}, {}]}}]}}}}
",
        to("p", "default"),
        to("q", "other"),
        to("absent", "default"),
    );
    assert_eq!(
        ours(&yaml),
        [
            "PIL0105 HTTPRoute default/r: spec.rules[0].backendRefs[2]: there is no InferencePool default/absent",
            "PIL0105 InferencePool default/p: spec.endpointPickerRef.port: the Service default/a has no port 9002",
            "PIL0105 InferencePool other/q: spec.endpointPickerRef: there is no Service other/none",
            "PIL0108 HTTPRoute default/r: spec.rules[0].backendRefs[1]: InferencePool other/q may not be referred to from default",
        ]
    );
}

#[test]
fn a_grant_allows_a_reference_into_its_namespace() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: gateway.networking.k8s.io/v1, kind: TCPRoute, metadata: {{name: r}}, spec: {{rules: [{{backendRefs: [{{name: b, namespace: other, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {{name: g, namespace: other}}, spec: {{from: [{{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: default}}], to: [{{group: '', kind: Service}}]}}}}
"
    );
    assert_eq!(ours(&yaml), [""; 0]);
}

/// A Gateway whose listeners are as it says.
pub(crate) fn gateway(listeners: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: g}}, spec: {{gatewayClassName: istio, listeners: [{listeners}]}}}}"
    )
}

/// The code, object and field of what our own analyzers say.
pub(crate) fn places(yaml: &str) -> Vec<String> {
    let place = |said: String| {
        let parts: Vec<&str> = said.splitn(3, ": ").take(2).collect();
        parts.join(": ")
    };
    ours(yaml).into_iter().map(place).collect()
}

#[test]
fn a_route_that_nothing_accepts_is_told() {
    let yaml = format!(
        "{SERVICES}---
{}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: far, namespace: other}}, spec: {{parentRefs: [{{name: g, namespace: default}}], rules: [{{backendRefs: [{{name: b, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: host}}, spec: {{hostnames: [b.example.com], parentRefs: [{{name: g}}], rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: port}}, spec: {{parentRefs: [{{name: g, port: 81}}], rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: good}}, spec: {{parentRefs: [{{name: g}}], rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}
",
        gateway("{name: web, port: 80, protocol: HTTP, hostname: a.example.com}")
    );
    assert_eq!(
        places(&yaml),
        [
            "PIL0111 HTTPRoute default/host: spec.parentRefs[0]",
            "PIL0111 HTTPRoute default/port: spec.parentRefs[0]",
            "PIL0111 HTTPRoute other/far: spec.parentRefs[0]",
        ]
    );
}

#[test]
fn of_listeners_that_refuse_a_route_those_with_other_hosts_are_told_first() {
    let yaml = format!(
        "{SERVICES}---
{}
---
{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: host}}, spec: {{hostnames: [b.example.com], parentRefs: [{{name: g}}], rules: [{{backendRefs: [{{name: a, port: 80}}]}}]}}}}
",
        gateway("{name: tcp, port: 90, protocol: TCP}, {name: web, port: 80, protocol: HTTP, hostname: a.example.com}")
    );
    let said = ours(&yaml).join("");
    let (hosts, kinds) = (
        said.find("listener web"),
        said.find("listener tcp takes no HTTPRoutes"),
    );
    assert!(hosts.is_some() && hosts < kinds, "{said}");
    assert!(said.ends_with("takes no HTTPRoutes"), "{said}");
}

#[test]
fn listeners_that_conflict_or_are_not_served_are_told() {
    let yaml = gateway(
        "{name: one, port: 80, protocol: HTTP}, {name: two, port: 80, protocol: HTTP}, {name: odd, port: 81, protocol: ODD}",
    );
    assert_eq!(
        places(&yaml),
        [
            "PIL0112 Gateway default/g: spec.listeners[1]",
            "PIL0113 Gateway default/g: spec.listeners[2]",
        ]
    );
}

#[test]
fn a_class_that_does_not_exist_is_told_and_one_of_others_is_not() {
    let of = |class: &str| gateway("{name: web, port: 80, protocol: HTTP}").replace("istio", class);
    assert_eq!(
        places(&of("other")),
        ["PIL0114 Gateway default/g: spec.gatewayClassName"]
    );
    assert_eq!(places(&of("pilothouse")), [""; 0]);
    let class = "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: other}, spec: {controllerName: example.com/other}}";
    assert_eq!(places(&format!("{}\n---\n{class}\n", of("other"))), [""; 0]);
}

#[test]
fn an_ingress_is_told_which_of_its_backends_do_not_exist() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: i}}, spec: {{tls: [{{secretName: s}}], rules: [{{http: {{paths: [
  {{path: /, pathType: Prefix, backend: {{service: {{name: a, port: {{name: http}}}}}}}},
  {{path: /, pathType: Prefix, backend: {{service: {{name: a, port: {{number: 8080}}}}}}}},
  {{path: /, pathType: Prefix, backend: {{service: {{name: z, port: {{number: 80}}}}}}}}]}}}}]}}}}
"
    );
    assert_eq!(
        ours(&yaml),
        [
            "PIL0105 Ingress default/i: spec.rules[0].http.paths[1].backend.service.port: the Service default/a has no port 8080",
            "PIL0105 Ingress default/i: spec.rules[0].http.paths[2].backend.service.name: there is no Service default/z",
            "PIL0107 Ingress default/i: spec.tls[0].secretName: there is no Secret default/s",
        ]
    );
}

#[test]
fn what_takes_the_place_of_a_rejected_ingress_has_no_findings() {
    let text = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, annotations: {nginx.ingress.kubernetes.io/auth-url: x}}, \
                spec: {rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backnd: {}}]}}]}}\n";
    let file = std::path::Path::new("f.yaml").into();
    let parsed = model::parse::parse(text, &file, model::parse::Validation::Strict);
    let substitutes: Vec<AnyObject> = parsed.in_force().cloned().collect();
    assert_eq!(substitutes.len(), 1);
    let mut world = World::new(settings(""));
    let owner = Owner::new(1, "folder");
    let puts = substitutes.into_iter();
    world.apply(
        puts.map(|object| Change::Put(owner.clone(), object))
            .collect::<Vec<_>>(),
    );
    let all = world.get(&Analysis);
    let about = all.iter().filter(|f| f.diagnostic.object.is_some());
    let found: Vec<String> = about.map(|f| f.diagnostic.to_string()).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn policies_that_select_or_target_nothing_are_told() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{app: a}}}}, spec: {{containers: [{{name: c}}]}}}}
---
{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {{name: good}}, spec: {{selector: {{matchLabels: {{app: a}}}}}}}}
---
{{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {{name: bad}}, spec: {{selector: {{matchLabels: {{app: b}}}}}}}}
---
{{apiVersion: telemetry.istio.io/v1, kind: Telemetry, metadata: {{name: t}}, spec: {{targetRefs: [{{kind: Service, name: a}}, {{kind: Service, name: x}}]}}}}
"
    );
    assert_eq!(
        ours(&yaml),
        [
            "PIL0104 Telemetry default/t: spec.targetRefs[1]: there is no Service default/x",
            "PIL0103 PeerAuthentication default/bad: spec.selector: no workload of namespace default has the labels app=b",
        ]
    );
}

#[test]
fn of_two_rules_for_one_host_the_older_is_named_as_the_one_that_counts() {
    let yaml = format!(
        "{SERVICES}---
{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: new, creationTimestamp: '2025-01-02T00:00:00Z'}}, spec: {{host: a, trafficPolicy: {{}}, subsets: [{{name: v1}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: old, creationTimestamp: '2025-01-01T00:00:00Z'}}, spec: {{host: a.default.svc.cluster.local, trafficPolicy: {{portLevelSettings: [{{port: {{number: 81}}}}]}}, subsets: [{{name: v1}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: a-first}}, spec: {{hosts: [h.example.com], gateways: [g], http: [{{route: [{{destination: {{host: a}}}}]}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: b-second}}, spec: {{hosts: [h.example.com], gateways: [default/g], http: [{{match: [{{uri: {{prefix: /a}}}}], route: [{{destination: {{host: a}}}}]}}, {{delegate: {{name: gone}}}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: c-third}}, spec: {{hosts: [h.example.com], gateways: [default/g], http: [{{match: [{{uri: {{prefix: /b}}}}], route: [{{destination: {{host: a}}}}]}}]}}}}
"
    );
    assert_eq!(
        ours(&yaml),
        [
            "PIL0110 VirtualService default/b-second: spec.http[1].delegate: there is no VirtualService default/gone to delegate to",
            "PIL0101 VirtualService default/b-second: spec.http[1]: this rule takes no request to h.example.com on the Gateway default/g: rule 0 of default/a-first, which comes first by name, takes whatever matches no condition",
            "PIL0102 DestinationRule default/new: spec.subsets[0]: the subset v1 has no effect: default/old defines it for a.default.svc.cluster.local as well, and is older",
            "PIL0102 DestinationRule default/new: spec.trafficPolicy: the traffic policy has no effect: default/old is for a.default.svc.cluster.local as well, and is older",
            "PIL0109 DestinationRule default/old: spec.trafficPolicy.portLevelSettings[0].port: a.default.svc.cluster.local has no port 81, so these settings apply to nothing",
        ]
    );
}

/// Objects that refer to each other in most of the ways that analyzers look at.
const MIXED: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {istio-injection: enabled}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: a, version: v1}}, spec: {containers: [{name: c}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {selector: {app: a}, ports: [{name: x, port: 80}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {template: {metadata: {labels: {app: b}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d, namespace: shop}, spec: {host: a, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v, namespace: shop}, spec: {hosts: [a], gateways: [g, mesh], http: [{route: [{destination: {host: a, subset: v2}}]}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: w}, spec: {hosts: [a.shop.svc.cluster.local], http: [{route: [{destination: {host: ext.com}}]}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: g, namespace: shop}, spec: {selector: {app: a}, servers: [{port: {number: 80, protocol: HTTP, name: http}, hosts: [a]}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: h, namespace: shop}, spec: {selector: {app: a}, servers: [{port: {number: 80, protocol: HTTP, name: http}, hosts: [a]}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: e, namespace: shop}, spec: {hosts: ['*.com'], ports: [{number: 80, name: tcp, protocol: TCP}], resolution: NONE}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s, namespace: shop}, spec: {workloadSelector: {labels: {app: a}}}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: t, namespace: shop}, spec: {workloadSelector: {labels: {version: v1}}}}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: z, namespace: shop}, spec: {selector: {matchLabels: {app: b}}, rules: [{from: [{source: {namespaces: [shop, none]}}]}]}}
---
{apiVersion: security.istio.io/v1, kind: RequestAuthentication, metadata: {name: r, namespace: shop}, spec: {selector: {matchLabels: {app: q}}}}
";

#[test]
fn an_analysis_after_changes_is_the_one_from_scratch() {
    let source = Owner::new(0, "test");
    let objects: Vec<AnyObject> = World::objects(MIXED);
    let mut world = World::default();
    let mut codes = std::collections::BTreeSet::new();
    let mut compare = |world: &World, step: &str| {
        let mut scratch = World::new(settings(""));
        let there = model::Kind::ALL.iter().flat_map(|k| {
            world
                .store
                .snapshot()
                .tables
                .iter_any(*k)
                .collect::<Vec<_>>()
        });
        scratch.apply(
            there
                .map(|o| Change::Put(source.clone(), o))
                .collect::<Vec<_>>(),
        );
        let found: Vec<Finding> = (*world.get(&Analysis)).clone();
        assert_eq!(found, *scratch.get(&Analysis), "after {step}");
        codes.extend(found.iter().map(|f| f.diagnostic.code));
    };
    for object in &objects {
        world.apply([Change::Put(source.clone(), object.clone())]);
        compare(&world, &format!("adding {}", object.key()));
    }
    for object in &objects {
        world.apply([Change::Delete(source.clone(), object.key())]);
        compare(&world, &format!("removing {}", object.key()));
        world.apply([Change::Put(source.clone(), object.clone())]);
        compare(&world, &format!("adding {} again", object.key()));
    }
    assert!(
        codes.len() > 10,
        "the objects bring few findings: {codes:?}"
    );
}

#[test]
fn a_change_analyses_what_it_concerns_again_and_nothing_else() {
    let mut world = World::default();
    let mut yaml = String::from(SERVICES);
    for i in 0..200 {
        yaml.push_str(&format!("---\n{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: v{i}}}, spec: {{hosts: [h{i}.com], http: [{{route: [{{destination: {{host: s{i}.other.svc.cluster.local}}}}]}}]}}}}\n"));
    }
    world.put(&yaml);
    let before = world.get(&Analysis).len();
    let runs = world.engine.stats().runs;
    world.put("{apiVersion: v1, kind: Service, metadata: {name: s7, namespace: other}, spec: {ports: [{name: http, port: 80}]}}");
    assert_eq!(world.get(&Analysis).len(), before - 1);
    let again = world.engine.stats().runs - runs;
    assert!(again < 20, "{again} queries ran for one Service");
}

#[test]
fn endpoints_that_come_and_go_concern_nothing_between_objects() {
    let entry = |i: usize, address: &str| {
        format!(
            "---\n{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e{i}}}, spec: {{hosts: [h{i}.com], resolution: STATIC, ports: [{{number: 80, name: http, protocol: HTTP}}], endpoints: [{{address: {address}}}]}}}}\n"
        )
    };
    let rule = |i: usize, policy: &str| {
        format!(
            "---\n{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: r{i}}}, spec: {{host: h{i}.com, trafficPolicy: {{loadBalancer: {{simple: {policy}}}}}}}}}\n"
        )
    };
    let mut world = World::default();
    let yaml = (0..20).map(|i| entry(i, "10.0.0.1") + &rule(i, "RANDOM"));
    world.put(&yaml.collect::<String>());
    world.get(&Analysis);
    let between = |world: &World| {
        let queries = world.engine.stats().queries;
        let of_many = ["::OfMesh", "::OfNamespace", "::OfBucket", "::Analysis"];
        let runs = queries
            .iter()
            .filter(|q| of_many.iter().any(|n| q.name.ends_with(n)));
        runs.map(|q| q.runs).sum::<u64>()
    };
    let before = between(&world);
    assert!(before > 0);
    world.put(&entry(7, "10.0.0.2"));
    world.put(&rule(7, "ROUND_ROBIN"));
    world.get(&Analysis);
    assert_eq!(between(&world), before);
    world.put(&entry(7, "10.0.0.2").replace("protocol: HTTP", "protocol: TCP"));
    world.get(&Analysis);
    assert!(between(&world) > before);
}

#[test]
fn a_subset_finds_its_workload_entries_as_they_come_change_and_go() {
    let mut world = World::default();
    world.put(&format!("{SERVICES}---\n{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: r}}, spec: {{host: a.default.svc.cluster.local, subsets: [{{name: v9, labels: {{app: a, version: v9}}}}]}}}}\n"));
    let lacks = |world: &World| {
        let all = world.get(&Analysis);
        all.iter()
            .any(|f| format!("{f:?}").contains("no workload has the labels of subset v9"))
    };
    let entry = |version: &str| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {{name: w, namespace: vms}}, spec: {{address: 10.0.0.1, labels: {{app: a, version: {version}}}}}}}"
        )
    };
    assert!(lacks(&world));
    world.put(&entry("v8"));
    assert!(lacks(&world));
    world.put(&entry("v9"));
    assert!(!lacks(&world));
    world.put(&entry("v8"));
    assert!(lacks(&world));
}

/// Everything that is found, as `severity code object`.
fn severities(yaml: &str) -> Vec<String> {
    let all = World::of(yaml).get(&Analysis);
    let shown = all.iter().map(|f| {
        let d = &f.diagnostic;
        let object = d.object.as_ref().expect("each is about an object");
        format!("{:?} {} {}", d.severity, d.code, object.name)
    });
    shown.collect()
}

/// Objects whose selectors match nothing but what comes beside them.
const SELECTORS: &str = "
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s, namespace: shop}, spec: {workloadSelector: {labels: {app: cart}}}}
---
{apiVersion: telemetry.istio.io/v1, kind: Telemetry, metadata: {name: t, namespace: shop}, spec: {selector: {matchLabels: {app: cart}}}}
---
{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: p, namespace: shop}, spec: {selector: {matchLabels: {app: cart}}}}
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: a, namespace: shop}, spec: {selector: {matchLabels: {app: cart}}}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: g, namespace: shop}, spec: {selector: {app: cart}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: cart, namespace: shop}, spec: {ports: [{name: http, port: 80}], selector: {app: cart}}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d, namespace: shop}, spec: {host: cart, subsets: [{name: v1, labels: {app: cart}}]}}
";

#[test]
fn where_nothing_describes_workloads_a_selector_that_matches_none_is_a_note() {
    let wanted = |levels: [&str; 6]| {
        let codes = [
            "IST0101 shop/g",
            "IST0101 shop/s",
            "IST0101 shop/t",
            "IST0173 shop/d",
            "IST0127 shop/a",
            "PIL0103 shop/p",
        ];
        let mut all: Vec<String> = codes
            .iter()
            .zip(levels)
            .map(|(c, l)| format!("{l} {c}"))
            .collect();
        all.sort();
        all
    };
    let sorted = |yaml: &str| {
        let mut all = severities(yaml);
        all.sort();
        // A Gateway's selector is looked at for its ports and for its Secrets.
        all.dedup();
        all
    };
    assert_eq!(sorted(SELECTORS), wanted(["Info"; 6]));
    let other = "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other, labels: {app: other}}, spec: {containers: [{name: c}]}}\n";
    let stated = ["Error", "Error", "Error", "Error", "Warning", "Warning"];
    assert_eq!(sorted(&format!("{SELECTORS}{other}")), wanted(stated));
    // Whatever has the labels is enough.
    for workload in [
        "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: w, namespace: shop}, spec: {address: 10.0.0.1, labels: {app: cart}}}",
        "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: e, namespace: shop}, spec: {hosts: [cart.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1, labels: {app: cart}}]}}",
    ] {
        assert_eq!(sorted(&format!("{SELECTORS}---\n{workload}\n")), [""; 0]);
    }
}

#[test]
fn a_subset_of_a_service_entry_is_judged_by_its_endpoints() {
    let rule = |version: &str| {
        severities(&format!(
            "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: e, namespace: shop}}, spec: {{hosts: [cart.com], resolution: STATIC, ports: [{{number: 80, name: http, protocol: HTTP}}], endpoints: [{{address: 10.0.0.1, labels: {{version: v1}}}}]}}}}
---
{{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {{name: d, namespace: shop}}, spec: {{host: cart.com, subsets: [{{name: s, labels: {{version: {version}}}}}]}}}}
"
        ))
    };
    assert_eq!(rule("v1"), [""; 0]);
    // Nothing else can serve it, so it is an error though nothing else describes workloads.
    assert_eq!(rule("v2"), ["Error IST0173 shop/d"]);
}

#[test]
fn our_own_examples_have_no_errors_and_no_warnings() {
    assert!(
        world_of_example("shop")
            .store
            .snapshot()
            .tables
            .count(model::Kind::Sidecar)
            > 0
    );
    let gateways = world_of_example("gateway-api");
    assert!(
        gateways
            .store
            .snapshot()
            .tables
            .count(model::Kind::HttpRoute)
            > 0
    );
}

/// The world of a folder of examples, of which nothing bad is said.
fn world_of_example(name: &str) -> World {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = folder.join(name);
    let settings = settings("");
    let implied = pilothouse_analysis::implied::objects(&settings);
    let source = || Owner::new(0, "test");
    let mut world = World::new(settings);
    world.apply(implied.into_iter().map(|o| Change::Put(source(), o)));
    for file in std::fs::read_dir(folder).expect("the example is there") {
        let text = std::fs::read_to_string(file.expect("it can be listed").path());
        world.put(&text.expect("it can be read"));
    }
    let all = world.get(&Analysis);
    let bad = all
        .iter()
        .filter(|f| f.diagnostic.severity > Severity::Info);
    let bad: Vec<String> = bad.map(|f| f.diagnostic.to_string()).collect();
    assert_eq!(bad, [""; 0], "{name}");
    world
}

/// Each compared with each, they would take minutes.
#[test]
fn many_gateways_of_one_selector_are_compared_by_host() {
    let gateway = |name: &str, host: usize| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {{name: {name}}}, spec: {{selector: {{app: edge}}, \
             servers: [{{port: {{number: 80, name: http, protocol: HTTP}}, hosts: [h{host}.test]}}]}}}}\n---\n"
        )
    };
    let mut yaml: String = (0..10_000).map(|n| gateway(&format!("g{n}"), n)).collect();
    yaml += &gateway("other", 77);
    let world = World::of(&yaml);
    let begin = std::time::Instant::now();
    let all = world.get(&Analysis);
    let took = begin.elapsed();
    let conflicts = all.iter().filter(|f| f.diagnostic.code == "IST0145");
    let of = conflicts.map(|f| f.diagnostic.object.as_ref().unwrap().name.to_string());
    assert_eq!(of.collect::<Vec<_>>(), ["default/g77", "default/other"]);
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
}
