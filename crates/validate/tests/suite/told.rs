//! What the person who wrote an object is told: every fault at once, each with its field.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use model::Severity;
use model::parse::Validation;
use pilothouse_validate as validate;

/// `! path: message` for errors, `~` for warnings, in the order of the text.
fn told(text: &str) -> Vec<String> {
    let parsed = validate::parse(text, &Path::new("f.yaml").into(), Validation::Strict);
    let of = |d: &model::Diagnostic| {
        let sign = match d.severity {
            Severity::Error => '!',
            Severity::Warning => '~',
            Severity::Info => '.',
        };
        let help = d.help.as_ref().map_or(String::new(), |h| format!(" ({h})"));
        format!("{sign} {}: {}{help}", d.path, d.message)
    };
    parsed.diagnostics.iter().map(of).collect()
}

/// An object of a kind with this after its metadata.
fn object(api: &str, kind: &str, rest: &str) -> String {
    format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: a}}, {rest}}}")
}

#[test]
fn a_value_of_the_wrong_type_hides_no_other_fault() {
    let istio = object(
        "networking.istio.io/v1",
        "VirtualService",
        "spec: {hosts: [a.b], gateways: [g], http: [{timeout: 5, match: [{uri: {prefix: /a}}], route: [{destination: {host: a.b}}]}, {match: [{uri: {regex: '('}}], route: [{destination: {host: a.b}}]}]}",
    );
    let found = told(&istio);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("! spec.http[0].timeout: expected a duration"));
    assert!(found[1].starts_with("! spec.http[1].match[0].uri: not a regular expression"));
    let gateway = object(
        "networking.higress.io/v1",
        "McpBridge",
        "spec: {registries: [{type: dns, name: x, domain: a.b, port: true}, {type: dsn, name: other, domain: z}], proxies: [1, 2, {name: p}, 3]}",
    );
    let paths: Vec<String> = told(&gateway)
        .into_iter()
        .filter(|t| t.contains("expected"))
        .map(|t| t[..t.find(": ").unwrap()].to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "! spec.registries[0].port",
            "! spec.proxies[0]",
            "! spec.proxies[1]",
            "! spec.proxies[3]"
        ]
    );
}

/// What is told of `spec`, or of what stands beside the metadata, of a kind.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    (
        "v1",
        "Service",
        "spec: {ports: [{port: 80}, {port: 80, name: Web, protocol: HTTP, targetport: 1}], selctor: {a: b}, type: NodPort}",
        &[
            "! spec.ports[0].name: is needed where there are several ports",
            "! spec.ports[1].name: \"Web\" is not a port name",
            "! spec.ports[1].protocol: expected one of TCP, UDP, SCTP, found \"HTTP\"",
            "~ spec.ports[1].targetport: unknown field `targetport`, which has no effect (did you mean `targetPort`?)",
            "~ spec.selctor: unknown field `selctor`, which has no effect (did you mean `selector`?)",
            "! spec.type: expected one of ClusterIP, NodePort, LoadBalancer, ExternalName, found \"NodPort\" (did you mean `NodePort`?)",
        ],
    ),
    (
        "v1",
        "Service",
        "spec: {type: ExternalName, externalName: a_b, clusterIP: 10.0.0.1, ports: [{port: 0, targetPort: '8080'}]}",
        &[
            "! spec.externalName: \"a_b\" is not a host name",
            "! spec.clusterIP: has no meaning where the type is ExternalName",
            "! spec.ports[0].port: 0 is not between 1 and 65535",
            "! spec.ports[0].targetPort: \"8080\" is neither the number nor the name of a port (write the number without quotes)",
        ],
    ),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}, {addresses: ['::1', 127.0.0.1]}, {addresses: []}], ports: [{port: 70000}]",
        &[
            "! endpoints[1].addresses[0]: \"::1\" is of the other family than `addressType` says",
            "~ endpoints[1].addresses[1]: \"127.0.0.1\" is an address that no other machine can reach",
            "! endpoints[2].addresses: must not be empty",
            "! ports[0].port: 70000 is not between 1 and 65535",
        ],
    ),
    (
        "v1",
        "Pod",
        "spec: {containers: [{name: A, ports: [{containerPort: 0, name: a_b}]}]}, status: {podIP: x}",
        &[
            "! spec.containers[0].name: \"A\" is not a container name",
            "! spec.containers[0].ports[0].containerPort: 0 is not between 1 and 65535",
            "! spec.containers[0].ports[0].name: \"a_b\" is not a port name",
            "! status.podIP: \"x\" is no IP address",
        ],
    ),
    (
        "v1",
        "Secret",
        "type: kubernetes.io/tls, data: {tls.crt: YQ==, 'a b': YQ==}, stringdata: {}",
        &[
            "! data[\"tls.key\"]: the type kubernetes.io/tls needs it",
            // Of a Secret nothing is quoted; the path has the key.
            "! data[\"a b\"]: (not shown) is no key: it needs letters, digits, -, _ and ., and at most 253 of them",
            "~ stringdata: unknown field `stringdata`, which has no effect (did you mean `stringData`?)",
        ],
    ),
    (
        "v1",
        "ConfigMap",
        "data: {a: b}, binaryData: {a: YQ==}",
        &["! binaryData.a: the key stands in `data` too"],
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        "spec: {rules: [{host: 10.0.0.1, http: {paths: [{path: a, pathType: Prefix, backend: {serviceName: x, servicePort: 80}}, {path: //, pathType: Exact, backend: {service: {name: x, port: {}}}}]}}]}",
        &[
            "! spec.rules[0].host: \"10.0.0.1\" is not a host name",
            "! spec.rules[0].http.paths[0].path: \"a\" does not start with a slash",
            "! spec.rules[0].http.paths[0].backend: one of `service` and `resource` is needed (since networking.k8s.io/v1 it is written service: {name, port: {number}})",
            "~ spec.rules[0].http.paths[0].backend.serviceName: unknown field `serviceName`, which has no effect",
            "~ spec.rules[0].http.paths[0].backend.servicePort: unknown field `servicePort`, which has no effect",
            "! spec.rules[0].http.paths[1].path: \"//\" has \"//\", which is no part of a path",
            "! spec.rules[0].http.paths[1].backend.service.port: one of `name` and `number` is needed",
        ],
    ),
    (
        "apps/v1",
        "Deployment",
        "spec: {replicas: -1, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: b c}}}}",
        &[
            "! spec.replicas: must be at least 0, is -1",
            "! spec.selector.matchLabels.app: the pods of the template do not have this label (the selector must match `template.metadata.labels`)",
            "! spec.template.metadata.labels.app: \"b c\" is no value of a label: it needs letters, digits, -, _ and ., with a letter or digit at both ends",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "webhooks: [{name: a, clientConfig: {url: 'http://a'}, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 60}]",
        &[
            "! webhooks[0].name: \"a\" is not the name of a webhook, which has three parts or more",
            "! webhooks[0].clientConfig.url: \"http://a\" does not start with https://",
            "! webhooks[0].timeoutSeconds: 60 is not between 1 and 30",
        ],
    ),
    (
        "networking.higress.io/v1",
        "McpBridge",
        "spec: {registries: [{type: nacos, name: one, domain: a.b}, {type: statik, name: two, domain: a.b}, {type: static, name: s, domain: '10.0.0.1:80,b:1'}, {type: dns, name: d, domain: a.b, port: 1, proxyName: prox, protocol: htpp}], proxies: [{type: HTTP, name: proxy, serverAddress: a.b, serverPort: 1}]}",
        &[
            "~ metadata.name: an McpBridge that is not named \"default\" is read where --mcp-bridge names it",
            "! spec.registries[0].port: a port is needed",
            "! spec.registries[1].type: expected one of nacos, nacos2, nacos3, zookeeper, consul, eureka, static, dns, found \"statik\" (did you mean `static`?)",
            "! spec.registries[2].domain: \"b:1\" is not IP:PORT",
            "! spec.registries[3].proxyName: there is no proxy \"prox\" in `proxies` (did you mean `proxy`?)",
            "! spec.registries[3].protocol: expected one of http, https, http2, grpc, grpcs, triple, tri, dubbo, tcp, found \"htpp\" (did you mean `http`?)",
        ],
    ),
    (
        "networking.higress.io/v1",
        "Http2Rpc",
        "spec: {dubbo: {service: s, methods: [{serviceMethod: m, httpPath: a, httpMethods: [GET], params: [{paramSource: PATH, paramKey: id, paramType: T}, {paramSource: QUERRY, paramKey: b, paramType: T}]}]}}",
        &[
            "! spec.dubbo.methods[0].httpPath: \"a\" does not start with a slash",
            "! spec.dubbo.methods[0].params[0].paramKey: `httpPath` has no {id}",
            "! spec.dubbo.methods[0].params[1].paramSource: expected one of QUERY, HEADER, PATH, BODY, found \"QUERRY\" (did you mean `QUERY`?)",
        ],
    ),
    (
        "extensions.higress.io/v1alpha1",
        "WasmPlugin",
        "spec: {url: 'oci://a/b', sha256: x, pluginConfig: {a: 1}, matchRules: [{config: {}}, {domain: [a.b]}]}",
        &[
            "! spec.sha256: expected 64 digits and letters from a to f",
            "~ spec.matchRules: has no effect where `pluginConfig` is set",
            "! spec.matchRules[0]: one of `ingress`, `domain` and `service` is needed",
        ],
    ),
    (
        "multicluster.x-k8s.io/v1alpha1",
        "ServiceImport",
        "spec: {type: ClusterSetIP, ips: [x], ports: [{port: 80, protocol: http}]}",
        &[
            "! spec.ips[0]: \"x\" is no IP address",
            "! spec.ports[0].protocol: expected one of TCP, UDP, SCTP, found \"http\"",
        ],
    ),
    (
        "gateway.networking.x-k8s.io/v1alpha1",
        "XBackendTrafficPolicy",
        "spec: {targetRefs: [], retryConstraint: {budget: {percent: 101, interval: 2h}}}",
        &[
            "! spec.targetRefs: must not be empty",
            "! spec.retryConstraint.budget.percent: 101 is not between 0 and 100",
            "! spec.retryConstraint.budget.interval: must be from 1s to 1h",
        ],
    ),
    (
        "security.istio.io/v1",
        "AuthorizationPolicy",
        "spec: {rules: [{from: [\
             {source: {principals: ['spiffe://cluster.local/ns/a/sa/b', cluster.local/ns/a/sa/b, '*/ns/a/sa/b'], notPrincipals: ['SPIFFE://*']}}, \
             {source: {requestPrincipals: ['spiffe://a/b']}}, \
             {source: {serviceAccounts: ['spiffe://cluster.local/ns/a/sa/b']}}, \
             {source: {serviceAccounts: [cluster.local/ns/a/sa/b]}}], \
             when: [{key: source.principal, values: ['spiffe://'], notValues: [ä]}, \
             {key: source.trustDomain, values: ['spiffe://a']}, {key: source.namespace, values: ['spiffe://a']}]}]}",
        &[
            "~ spec.rules[0].from[0].source.principals[0]: \"spiffe://cluster.local/ns/a/sa/b\" matches nobody: names stand without \
             `spiffe://` here (write \"cluster.local/ns/a/sa/b\")",
            "~ spec.rules[0].from[0].source.notPrincipals[0]: \"SPIFFE://*\" matches nobody: names stand without `spiffe://` here \
             (write \"*\")",
            "! spec.rules[0].from[2].source.serviceAccounts: \"spiffe://cluster.local/ns/a/sa/b\" is neither NAME nor NAMESPACE/NAME",
            "! spec.rules[0].from[3].source.serviceAccounts: \"cluster.local/ns/a/sa/b\" is neither NAME nor NAMESPACE/NAME",
            "~ spec.rules[0].when[0].values[0]: \"spiffe://\" matches nobody: names stand without `spiffe://` here (write \
             \"cluster.local/ns/NAMESPACE/sa/ACCOUNT\")",
            "~ spec.rules[0].when[1].values[0]: \"spiffe://a\" matches nobody: names stand without `spiffe://` here (write \"a\")",
        ],
    ),
];

#[test]
fn faults_of_kinds_that_are_no_messages_are_told_with_their_fields() {
    for (api, kind, rest, wanted) in CASES {
        let mut found = told(&object(api, kind, rest));
        let mut wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        // On one line places decide, which are the text's; here the set does.
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{kind}");
    }
}

#[test]
fn labels_and_annotations_of_every_kind_have_a_form() {
    let found = told(
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {'a b': c, d: e f}, annotations: {'x y': z, Ok/ok: any text}}}",
    );
    assert_eq!(
        found,
        [
            "! metadata.labels[\"a b\"]: \"a b\" is no key of a label",
            "! metadata.labels.d: \"e f\" is no value of a label: it needs letters, digits, -, _ and ., with a letter or digit at both ends",
            "! metadata.annotations[\"x y\"]: \"x y\" is no key of an annotation",
        ]
    );
}

#[test]
fn a_kind_that_has_left_its_trial_is_named() {
    let found = told(&object(
        "gateway.networking.x-k8s.io/v1alpha1",
        "XListenerSet",
        "spec: {}",
    ));
    assert_eq!(
        found,
        [
            "! : unknown kind \"XListenerSet\" of gateway.networking.x-k8s.io (did you mean ListenerSet of gateway.networking.k8s.io/v1?)"
        ]
    );
}

#[test]
fn sources_that_cannot_be_read_are_refused_and_at_a_server_left_out() {
    let text = "configSources:\n- address: fs:///etc/config\n- address: ftp://nope\n- {}\n- address: xds://a:1\n  tlsSettings: {mode: MUTUAL}\n- address: k8s://\n";
    let place = Path::new("mesh.yaml").into();
    let read = validate::mesh::read_config(text, &place);
    assert!(read.value.is_none(), "validate refuses it");
    let found: Vec<String> = read.diagnostics.iter().map(ToString::to_string).collect();
    let wanted = [
        (
            "mesh.yaml:3:",
            "configSources[1].address",
            "no source of this kind",
        ),
        ("mesh.yaml:4:", "configSources[2]", "an address is needed"),
        (
            "mesh.yaml:6:",
            "configSources[3].tlsSettings.clientCertificate",
            "needed with MUTUAL",
        ),
    ];
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (said, (place, field, why)) in found.iter().zip(wanted) {
        assert!(
            said.starts_with(place) && said.contains(field) && said.contains(why),
            "{said}"
        );
    }
    let base = model::mesh::default_mesh_config();
    let applied = validate::mesh::apply_config(text, base, &place);
    assert_eq!(applied.value.map(|mesh| mesh.config_sources.len()), Some(5));
    let mut warnings = applied.diagnostics.iter();
    assert!(warnings.all(|d| d.severity == Severity::Warning));
}

#[test]
fn an_ingress_that_protects_is_refused_for_a_path_that_no_request_has() {
    let ingress = |annotations: &str, path: &str| {
        let backend = "backend: {service: {name: s, port: {number: 80}}}";
        let text = format!(
            "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: a, annotations: {{{annotations}}}}}, \
             spec: {{rules: [{{host: a.test, http: {{paths: [{{path: '{path}', pathType: Prefix, {backend}}}]}}}}]}}}}"
        );
        let file = Path::new("f.yaml").into();
        validate::parse(&text, &file, Validation::Warn)
    };
    let auth = "nginx.ingress.kubernetes.io/auth-url: 'http://auth.shop'";
    for path in ["admin", "/a//b", "/a/../b", "/a%2Fb", ""] {
        let parsed = ingress(auth, path);
        let document = &parsed.documents[0];
        assert!(document.object.is_none(), "{path:?}: {parsed:?}");
        assert!(document.substitute.is_some(), "{path:?}: {parsed:?}");
        let is_said = |d: &model::Diagnostic| {
            d.severity == Severity::Error && *d.path == *"spec.rules[0].http.paths[0].path"
        };
        assert!(parsed.diagnostics.iter().any(is_said), "{parsed:?}");
        // What protects nothing is used as far as it can be.
        let open = ingress("", path);
        assert!(open.documents[0].object.is_some(), "{path:?}: {open:?}");
    }
    let served = ingress(auth, "/admin");
    assert!(served.documents[0].object.is_some(), "{served:?}");
}

#[test]
fn a_rule_that_denies_by_what_only_requests_have_is_reported_for_tcp_ports() {
    let policy = object(
        "security.istio.io/v1",
        "AuthorizationPolicy",
        "spec: {action: DENY, rules: [{to: [{operation: {methods: [GET]}}]}]}",
    );
    assert_eq!(
        told(&policy),
        [
            "~ spec.rules[0]: matches only HTTP attributes, so it denies all connections on TCP ports (name the ports it is for)"
        ]
    );
}
