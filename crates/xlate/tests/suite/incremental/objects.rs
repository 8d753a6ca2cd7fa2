//! Objects by number, small enough that they meet: few names, few hosts, few addresses.

mod clusters;
pub(crate) mod edge;
pub(crate) mod gateways;
mod policies;

use std::fmt;

use model::ObjectName;
use model::kinds::gateway_api::pool_host;
use proptest::prelude::*;

/// One object: of which kind, where, by which name, in which variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pick {
    kind: u8,
    namespace: u8,
    name: u8,
    variant: u8,
}

/// How many kinds, namespaces, names and variants there are. Cases are kept by these numbers: add at the end.
pub(crate) const PICKS: [u8; 4] = [gateways::FIRST + gateways::KINDS, 2, 3, 8];

impl From<[u8; 4]> for Pick {
    fn from([kind, namespace, name, variant]: [u8; 4]) -> Self {
        Pick {
            kind,
            namespace,
            name,
            variant,
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, namespace, name, variant) = (self.kind, self.namespace, self.name, self.variant);
        write!(f, "{kind} {namespace} {name} {variant}")
    }
}

/// Any object.
pub(crate) fn pick() -> impl Strategy<Value = Pick> {
    let [kinds, namespaces, names, variants] = PICKS;
    (0..kinds, 0..namespaces, 0..names, 0..variants)
        .prop_map(|(kind, namespace, name, variant)| [kind, namespace, name, variant].into())
}

impl Pick {
    /// Makes of it the same object in that variant, or in the one opposite to its own.
    pub(crate) fn vary(&mut self, variant: Option<u8>) {
        self.variant = variant.unwrap_or(PICKS[3] - 1 - self.variant);
    }

    /// The object as text.
    pub(crate) fn yaml(&self) -> String {
        let namespace = ["one", "two"][usize::from(self.namespace)];
        let (kind, version, body) = self.body(namespace);
        let name = match kind {
            "Namespace" if self.kind == clusters::SYSTEM => "istio-system".to_owned(),
            "Namespace" => namespace.to_owned(),
            _ => self
                .name_of_gateways()
                .unwrap_or_else(|| format!("n{}", self.name)),
        };
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\n{}{body}",
            self.metadata(),
        )
    }

    fn metadata(&self) -> String {
        match self.kind {
            // Pods carry the labels that selectors ask for; slices say whose they are.
            1 | 4 => format!(
                "  labels: {{app: {}, security.istio.io/tlsMode: istio}}\n",
                self.app()
            ),
            21 => format!(
                "  labels: {{topology.kubernetes.io/region: r{}, topology.kubernetes.io/zone: z}}\n",
                self.variant % 3
            ),
            3 => format!(
                "  labels: {{kubernetes.io/service-name: n{}}}\n",
                self.variant % 3
            ),
            clusters::FIRST.. => self.metadata_of_clusters(),
            _ => String::new(),
        }
    }

    fn app(&self) -> char {
        if self.variant.is_multiple_of(2) {
            'a'
        } else {
            'b'
        }
    }

    fn host(&self) -> String {
        match self.variant % 4 {
            0 => format!("n{}.one.svc.cluster.local", self.name),
            1 => "*.wild.example.com".to_owned(),
            _ => format!("h{}.example.com", self.name),
        }
    }

    fn body(&self, namespace: &str) -> (&'static str, &'static str, String) {
        const ISTIO: &str = "networking.istio.io/v1";
        let (name, variant, app, host) = (self.name, self.variant, self.app(), self.host());
        match self.kind {
            0 => ("ServiceEntry", ISTIO, self.service_entry()),
            1 => (
                "WorkloadEntry",
                ISTIO,
                format!(
                    "spec: {{address: 10.9.0.{}, serviceAccount: wl, weight: {variant}}}\n",
                    variant % 4 + 1
                ),
            ),
            2 => ("Service", "v1", self.service()),
            3 => (
                "EndpointSlice",
                "discovery.k8s.io/v1",
                format!(
                    "addressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints:\n- addresses: [10.9.0.{}]\n  \
                     conditions: {{ready: {}}}\n  targetRef: {{kind: Pod, name: n{name}, namespace: {namespace}}}\n\
                     - addresses: [10.6.0.{variant}]\n",
                    variant % 4 + 1,
                    variant < 5,
                ),
            ),
            4 => (
                "Pod",
                "v1",
                format!(
                    "spec: {{nodeName: n0, serviceAccountName: sa{}, containers: [{{name: c, ports: [{{name: http, containerPort: 8080}}]}}]}}\n\
                     status: {{phase: Running, podIP: 10.9.0.{}, conditions: [{{type: Ready, status: \"{}\"}}]}}\n",
                    variant % 3,
                    name + 1,
                    if variant == 7 { "False" } else { "True" },
                ),
            ),
            5 => (
                "VirtualService",
                ISTIO,
                format!(
                    "spec:\n  hosts: [\"{host}\"]\n  gateways: [{}]\n  http:\n  - match: [{{uri: {{prefix: /{variant}}}}}]\n    \
                     route: [{{destination: {{host: {}, subset: v{}}}, weight: 30}}, {{destination: {{host: h0.example.com, port: {{number: 80}}}}, weight: 70}}]\n  \
                     - route: [{{destination: {{host: \"{}\"}}}}]\n",
                    if variant % 3 == 0 { "mesh, n0" } else { "mesh" },
                    if variant % 2 == 0 {
                        "n1"
                    } else {
                        "h1.example.com"
                    },
                    variant % 3,
                    if host.starts_with('*') {
                        "h0.example.com"
                    } else {
                        &host
                    },
                ),
            ),
            6 => (
                "DestinationRule",
                ISTIO,
                format!(
                    "spec:\n  host: \"{host}\"\n  trafficPolicy: {{loadBalancer: {{simple: {}}}, tls: {{mode: {}}}}}\n  \
                     subsets: [{{name: v0, labels: {{app: a}}}}, {{name: v{}, labels: {{app: b}}}}]\n",
                    if variant % 2 == 0 {
                        "ROUND_ROBIN"
                    } else {
                        "LEAST_REQUEST"
                    },
                    if variant % 3 == 0 {
                        "ISTIO_MUTUAL"
                    } else {
                        "DISABLE"
                    },
                    variant % 3 + 1,
                ),
            ),
            7 => (
                "Gateway",
                ISTIO,
                format!(
                    "spec:\n  selector: {{istio: ingressgateway}}\n  servers:\n  - port: {{number: 80, name: http, protocol: HTTP}}\n    \
                     hosts: [\"{host}\"]\n  - port: {{number: {}, name: tcp, protocol: TCP}}\n    hosts: [\"*\"]\n  \
                     - port: {{number: 443, name: https, protocol: HTTPS}}\n    hosts: [\"{host}\"]\n    \
                     tls: {{mode: {}, credentialName: \"{}\"}}\n",
                    9000 + u16::from(variant),
                    if variant == 5 { "MUTUAL" } else { "SIMPLE" },
                    match variant {
                        5 | 6 => format!("kubernetes-gateway://two/n{name}"),
                        7 => format!("two/n{name}"),
                        _ => format!("n{}", variant % 3),
                    },
                ),
            ),
            8 => (
                "Sidecar",
                ISTIO,
                format!(
                    "spec:\n{}  egress:\n  - hosts: [\"{}\"]\n",
                    if variant % 2 == 0 {
                        ""
                    } else {
                        "  workloadSelector: {labels: {app: a}}\n"
                    },
                    ["./*", "*/*", "one/*", "*/h0.example.com"][usize::from(variant % 4)],
                ),
            ),
            9 => (
                "PeerAuthentication",
                "security.istio.io/v1",
                format!(
                    "spec:\n{}  mtls: {{mode: {}}}\n",
                    if variant % 2 == 0 {
                        ""
                    } else {
                        "  selector: {matchLabels: {app: a}}\n"
                    },
                    ["STRICT", "PERMISSIVE", "DISABLE"][usize::from(variant % 3)],
                ),
            ),
            10 => (
                "Namespace",
                "v1",
                format!(
                    "  annotations: {{networking.istio.io/traffic-distribution: {}}}\n",
                    if app == 'a' { "PreferSameZone" } else { "Any" }
                ),
            ),
            11 => (
                "EnvoyFilter",
                "networking.istio.io/v1alpha3",
                self.envoy_filter(),
            ),
            12 => (
                "TrafficExtension",
                "extensions.istio.io/v1alpha1",
                format!(
                    "spec:\n{}  phase: {}\n  priority: {variant}\n  {}\n",
                    self.selector("selector", "matchLabels"),
                    ["AUTHN", "AUTHZ", "STATS"][usize::from(variant % 3)],
                    [
                        "lua: {inlineCode: \"x()\"}",
                        "wasm: {url: \"file:///x.wasm\"}"
                    ][usize::from(variant % 2)],
                ),
            ),
            27 => ("Secret", "v1", self.credential()),
            28 => (
                "ReferenceGrant",
                "gateway.networking.k8s.io/v1beta1",
                format!(
                    "spec:\n  from: [{{group: gateway.networking.k8s.io, kind: {}, namespace: {}}}]\n  \
                     to: [{{group: \"\", kind: Secret{}}}]\n",
                    ["Gateway", "ListenerSet"][usize::from(variant / 7)],
                    if variant % 2 == 0 { "one" } else { "two" },
                    if variant % 3 == 0 { ", name: n1" } else { "" },
                ),
            ),
            29 => (
                "InferencePool",
                "inference.networking.k8s.io/v1",
                format!(
                    "spec:\n  selector: {{matchLabels: {{app: {app}}}}}\n  targetPorts: [{{number: 8080}}{}]\n  \
                     endpointPickerRef: {{name: n{}, port: {{number: 80}}, failureMode: {}}}\n",
                    if variant % 3 == 0 {
                        ", {number: 8081}"
                    } else {
                        ""
                    },
                    variant % 3,
                    if variant < 4 { "FailOpen" } else { "FailClose" },
                ),
            ),
            30 => ("VirtualService", ISTIO, self.route_to_pools()),
            gateways::FIRST.. => self.of_gateways(),
            clusters::FIRST.. => self.of_clusters(),
            14.. => self.policy(namespace),
            _ => (
                "ConfigMap",
                "v1",
                format!("data: {{variant: \"{variant}\"}}\n"),
            ),
        }
    }

    /// A Secret that fits, does not, lacks something or cannot be read.
    fn credential(&self) -> String {
        const EC: &str = include_str!("../../../../model/src/x509/keys/ec.crt");
        const RSA: &str = include_str!("../../../../model/src/x509/keys/rsa.crt");
        const KEY: &str = include_str!("../../../../model/src/x509/keys/ec.pkcs8.key");
        let fields: &[(&str, &str)] = match self.variant {
            0 => &[("tls.crt", EC), ("tls.key", KEY)],
            1 => &[("tls.crt", RSA), ("tls.key", KEY)],
            2 => &[("cert", EC), ("key", KEY), ("cacert", RSA)],
            3 => &[("tls.crt", EC), ("tls.key", KEY), ("ca.crt", EC)],
            4 => &[("ca.crt", EC), ("ca.crl", RSA)],
            5 => &[("tls.crt", "C"), ("tls.key", "K")],
            6 => &[("tls.crt", EC)],
            _ => &[],
        };
        let fields = fields
            .iter()
            .map(|(field, text)| format!("  {field}: {text:?}\n"));
        format!("stringData:\n  other: x\n{}", fields.collect::<String>())
    }

    /// A rule of gateways that sends to one pool, or to two.
    fn route_to_pools(&self) -> String {
        let to = |name: u8| {
            let pool = ObjectName::new("one", format!("n{name}"));
            let host = pool_host(&pool, "cluster.local");
            format!("{{destination: {{host: {host}, port: {{number: 54321}}}}, weight: 1}}")
        };
        let (first, second) = (to(self.variant % 3), to(0));
        let sent = match self.variant {
            ..4 => first,
            _ => format!("{first}, {second}"),
        };
        let gateways = ["one/n0", "two/n1"][usize::from(self.variant % 2)];
        format!(
            "spec:\n  hosts: [\"*\"]\n  gateways: [{gateways}]\n  http: [{{route: [{sent}]}}]\n"
        )
    }

    /// A selector, or none.
    fn selector(&self, field: &str, labels: &str) -> String {
        match self.variant % 3 {
            0 => String::new(),
            _ => format!("  {field}: {{{labels}: {{app: {}}}}}\n", self.app()),
        }
    }

    fn envoy_filter(&self) -> String {
        let (variant, host) = (self.variant, self.host());
        let patch = match variant {
            0 => "applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 7s}}"
                .to_owned(),
            1 => format!(
                "applyTo: CLUSTER, match: {{cluster: {{service: \"{host}\"}}}}, patch: {{operation: REMOVE}}"
            ),
            2 => "applyTo: CLUSTER, patch: {operation: ADD, value: {name: added}}".to_owned(),
            3 => "applyTo: LISTENER, match: {listener: {portNumber: 80}}, \
                  patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 9}}"
                .to_owned(),
            4 => "applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: first}}"
                .to_owned(),
            5 => "applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: \"80\"}}, \
                  patch: {operation: MERGE, value: {include_request_attempt_count: true}}"
                .to_owned(),
            6 => "applyTo: HTTP_ROUTE, match: {proxy: {metadata: {NAMESPACE: one}}}, \
                  patch: {operation: INSERT_FIRST, value: {name: first}}"
                .to_owned(),
            _ => "applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: config}}"
                .to_owned(),
        };
        format!(
            "spec:\n{}  configPatches:\n  - {{{patch}}}\n",
            self.selector("workloadSelector", "labels")
        )
    }

    fn service_entry(&self) -> String {
        let (name, variant, host) = (self.name, self.variant, self.host());
        let resolution = match variant {
            _ if host.starts_with('*') => "NONE",
            2 | 6 => "DNS",
            3 => "DNS_ROUND_ROBIN",
            _ => "STATIC",
        };
        let endpoints = match (resolution, variant) {
            ("NONE", _) => String::new(),
            ("DNS", 6) => "  endpoints: [{address: far.example.com}]\n".to_owned(),
            ("DNS" | "DNS_ROUND_ROBIN", _) => String::new(),
            (_, 4) => "  workloadSelector: {labels: {app: a}}\n".to_owned(),
            _ => format!(
                "  endpoints: [{{address: 10.9.0.{}}}, {{address: 10.8.0.{variant}, locality: r/z}}]\n",
                name + 1
            ),
        };
        let addresses = match variant {
            0 => format!("  addresses: [10.96.0.{}]\n", name + 1),
            5 => "  addresses: [10.96.1.1, 10.96.1.2]\n".to_owned(),
            _ => String::new(),
        };
        let export = if variant == 7 {
            "  exportTo: [\".\"]\n"
        } else {
            ""
        };
        format!(
            "spec:\n  hosts: [\"{host}\"]\n  resolution: {resolution}\n  location: {}\n{addresses}{endpoints}{export}  ports:\n  \
             - {{number: 80, name: http, protocol: HTTP}}\n  - {{number: {}, name: tcp, protocol: TCP}}\n",
            if variant % 2 == 0 {
                "MESH_INTERNAL"
            } else {
                "MESH_EXTERNAL"
            },
            7000 + u16::from(variant),
        )
    }

    fn service(&self) -> String {
        let (name, variant, app) = (self.name, self.variant, self.app());
        match variant {
            6 => "spec: {type: ExternalName, externalName: h0.example.com, ports: [{name: http, port: 80}]}\n".to_owned(),
            7 => format!("spec: {{type: ExternalName, externalName: n{}.one.svc.cluster.local}}\n", (name + 1) % 3),
            _ => format!(
                "spec:\n  clusterIP: {}\n  selector: {{app: {app}}}\n  ports: [{{name: http, port: 80, targetPort: {}}}, {{name: tcp, port: 7000}}]\n",
                if variant % 3 == 0 { "None".to_owned() } else { format!("10.96.2.{}", name + 1) },
                if variant % 2 == 0 { "8080" } else { "http" },
            ),
        }
    }
}

/// A service with two endpoints.
pub(crate) fn shop() -> String {
    "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: shop, namespace: one}, spec: \
     {hosts: [shop.example.com], addresses: [10.96.3.1], resolution: STATIC, location: MESH_INTERNAL, \
     ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.8.0.1}, {address: 10.8.0.2}]}}"
        .to_owned()
}
