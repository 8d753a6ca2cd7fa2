//! Objects of the Gateway API.

use model::ObjectName;
use model::kinds::gateway_api::pool_host;

use super::Pick;

/// The first number of a kind here.
pub(super) const FIRST: u8 = 31;
/// How many kinds there are here.
pub(super) const KINDS: u8 = 14;
/// The numbers of kinds that those here refer to, and of those here, which come up twice as often.
pub(crate) const NEIGHBOURS: [u8; 40] = [
    0, 2, 3, 4, 6, 10, 28, 29, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 27, 32, 32,
    33, 34, 34, 35, 37, 38, 39, 40, 41, 42, 43, 29, 29, 34, 2,
];

const GATEWAY: &str = "gateway.networking.k8s.io/v1";
const TRIED: &str = "gateway.networking.x-k8s.io/v1alpha1";

impl Pick {
    /// The name, where it is not a number.
    pub(super) fn name_of_gateways(&self) -> Option<String> {
        match self.kind {
            31 => Some(["istio", "pilothouse", "other"][usize::from(self.name)].to_owned()),
            // The Service through which clients reach a Gateway.
            43 => Some(format!("n{}-istio", self.name)),
            _ => None,
        }
    }

    pub(super) fn of_gateways(&self) -> (&'static str, &'static str, String) {
        match self.kind {
            31 => ("GatewayClass", GATEWAY, self.class()),
            32 => ("Gateway", GATEWAY, self.gateway()),
            33 => ("ListenerSet", GATEWAY, self.listener_set()),
            34 => ("HTTPRoute", GATEWAY, self.http_route()),
            35 => ("GRPCRoute", GATEWAY, self.grpc_route()),
            36 => ("TLSRoute", GATEWAY, self.stream_route("tls")),
            37 => ("TCPRoute", GATEWAY, self.stream_route("tcp")),
            38 => ("ReferenceGrant", GATEWAY, self.grant()),
            39 => ("BackendTLSPolicy", GATEWAY, self.tls_policy()),
            40 => ("XBackendTrafficPolicy", TRIED, self.traffic_policy()),
            41 => ("XBackend", TRIED, self.backend()),
            42 => ("HTTPRoute", GATEWAY, self.mesh_route()),
            43 => (
                "Service",
                "v1",
                format!(
                    "spec: {{type: LoadBalancer, clusterIP: 10.96.5.{}, selector: {{app: {}}}, ports: [{{name: http, port: {}}}]}}\n{}",
                    self.name + 1,
                    self.app(),
                    if self.variant < 6 { 80 } else { 81 },
                    match self.variant % 3 {
                        0 => String::new(),
                        _ => format!(
                            "status: {{loadBalancer: {{ingress: [{{ip: 192.0.2.{}}}]}}}}\n",
                            self.variant
                        ),
                    },
                ),
            ),
            _ => ("ConfigMap", "v1", self.authorities()),
        }
    }

    fn class(&self) -> String {
        let controller = match self.variant % 3 {
            2 => "example.com/other",
            _ => "istio.io/gateway-controller",
        };
        format!("spec: {{controllerName: {controller}}}\n")
    }

    fn gateway(&self) -> String {
        let name = self.name;
        let class = match self.variant {
            1 | 3 => "istio",
            4 => "other",
            5 => "istio-waypoint",
            _ => "pilothouse",
        };
        let all = "allowedRoutes: {namespaces: {from: All}}";
        let tcp = format!("{{name: tcp, port: 9000, protocol: TCP, {all}}}");
        let listeners = match self.variant {
            0 => format!("{{name: http, port: 80, protocol: HTTP, {all}}}, {tcp}"),
            1 => format!(
                "{{name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}}, \
                 {{name: tls, port: 443, protocol: HTTPS, hostname: h{name}.example.com, tls: {{certificateRefs: [{{name: n0}}]}}}}"
            ),
            2 => format!(
                "{{name: http, port: 80, protocol: HTTP, {all}}}, {{name: more, port: 80, protocol: HTTP, hostname: h1.example.com}}, \
                 {tcp}, {{name: clash, port: 80, protocol: TCP}}, {{name: odd, port: 81, protocol: ODD}}"
            ),
            3 => "{name: http, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}], \
                  namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: two}}}}}"
                .to_owned(),
            5 => "{name: mesh, port: 15008, protocol: HBONE}".to_owned(),
            6 => format!(
                "{{name: tls, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: n1, namespace: two}}]}}, {all}}}, \
                 {{name: pass, port: 8443, protocol: TLS, tls: {{mode: Passthrough}}, {all}}}"
            ),
            // The first variant, but for the kinds of routes.
            7 => format!(
                "{{name: http, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {{from: All}}, kinds: [{{kind: GRPCRoute}}]}}}}, {tcp}"
            ),
            _ => "{name: http, port: 80, protocol: HTTP}".to_owned(),
        };
        let address = match self.variant {
            3 | 6 => "  addresses: [{type: Hostname, value: n0.one.svc.cluster.local}]\n",
            _ => "",
        };
        let frontend = match self.variant {
            6 => {
                "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: n0}]}}}}\n"
            }
            _ => "",
        };
        let sets = match self.variant % 4 {
            0 | 2 => "All",
            1 => "Same",
            _ => "None",
        };
        format!(
            "spec:\n  gatewayClassName: {class}\n{address}{frontend}  \
             allowedListeners: {{namespaces: {{from: {sets}}}}}\n  listeners: [{listeners}]\n"
        )
    }

    fn listener_set(&self) -> String {
        let parent = match self.variant {
            7 => "{kind: ListenerSet, name: n0}".to_owned(),
            other => format!("{{name: n{}, namespace: one}}", other % 2),
        };
        let listeners = match self.variant % 4 {
            0 => "{name: more, port: 8080, protocol: HTTP}",
            1 => {
                "{name: http, port: 80, protocol: HTTP, hostname: h2.example.com, allowedRoutes: {namespaces: {from: All}}}"
            }
            2 => {
                "{name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: n0, namespace: one}]}}"
            }
            _ => "{name: tcp, port: 9000, protocol: TCP}, {name: more, port: 8081, protocol: HTTP}",
        };
        format!("spec: {{parentRef: {parent}, listeners: [{listeners}]}}\n")
    }

    /// What a route attaches to.
    fn parents(&self) -> String {
        let gateway = format!("name: n{}, namespace: one", self.variant % 2);
        match self.variant {
            0 => "{name: n0}".to_owned(),
            2 => format!("{{{gateway}, sectionName: http}}"),
            3 => format!("{{{gateway}}}, {{kind: ListenerSet, name: n0}}"),
            5 => format!("{{{gateway}, port: 80}}, {{{gateway}, sectionName: absent}}"),
            7 => format!("{{{gateway}}}, {{group: '', kind: Service, name: n1}}"),
            _ => format!("{{{gateway}}}"),
        }
    }

    /// The fields of a route that come before its rules.
    fn attached(&self) -> String {
        let hosts = match self.variant % 4 {
            0 => String::new(),
            1 => format!(", hostnames: [h{}.example.com]", self.name),
            2 => ", hostnames: ['*.example.com', h1.example.com]".to_owned(),
            _ => ", hostnames: [h1.example.com, other.example.org]".to_owned(),
        };
        format!("parentRefs: [{}]{hosts}", self.parents())
    }

    /// Where a route sends to.
    fn backends(&self) -> String {
        let to = self.name;
        match self.variant {
            0 => format!(
                "{{name: n{to}, port: 80}}, {{group: inference.networking.k8s.io, kind: InferencePool, name: n{to}}}"
            ),
            1 => format!(
                "{{name: n{to}, port: 80, weight: 3}}, {{name: n1, namespace: two, port: 80}}"
            ),
            2 => "{group: networking.istio.io, kind: Hostname, name: h0.example.com, port: 80}"
                .to_owned(),
            3 => format!("{{group: gateway.networking.x-k8s.io, kind: XBackend, name: n{to}}}"),
            4 => {
                format!("{{group: inference.networking.k8s.io, kind: InferencePool, name: n{to}}}")
            }
            5 => format!(
                "{{group: multicluster.x-k8s.io, kind: ServiceImport, name: n{to}, port: 80}}"
            ),
            6 => "{name: absent, port: 80}".to_owned(),
            _ => format!(
                "{{name: n{to}, namespace: one, port: 81}}, {{name: n0, port: 80, weight: 0}}"
            ),
        }
    }

    fn http_route(&self) -> String {
        let filters = match self.variant {
            1 => {
                "{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: x, value: why}]}}"
            }
            3 => {
                "{type: RequestMirror, requestMirror: {backendRef: {name: n2, namespace: two, port: 80}, percent: 7}}"
            }
            5 => {
                "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}"
            }
            _ => "",
        };
        let redirect = match self.variant {
            7 => ", {filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}",
            _ => "",
        };
        format!(
            "spec:\n  {}\n  rules: [{{matches: [{{path: {{value: /{}}}}}, {{headers: [{{name: v, value: '{}'}}]}}], filters: [{filters}], \
             backendRefs: [{}]}}{redirect}]\n",
            self.attached().replace(", hostnames", "\n  hostnames"),
            self.name,
            self.variant,
            self.backends(),
        )
    }

    fn grpc_route(&self) -> String {
        format!(
            "spec: {{{}, rules: [{{matches: [{{method: {{service: S{}}}}}], backendRefs: [{}]}}]}}\n",
            self.attached(),
            self.name,
            self.backends(),
        )
    }

    fn stream_route(&self, listener: &str) -> String {
        let hosts = match listener {
            "tls" => format!(", hostnames: [h{}.example.com]", self.name),
            _ => String::new(),
        };
        format!(
            "spec: {{parentRefs: [{}]{hosts}, rules: [{{backendRefs: [{}]}}]}}\n",
            self.parents(),
            self.backends(),
        )
    }

    /// A route of the mesh, and one to a service that stands for a pool.
    fn mesh_route(&self) -> String {
        let pool = ObjectName::new("one", format!("n{}", self.name));
        let backends = match self.variant % 3 {
            0 => format!(
                "{{group: networking.istio.io, kind: Hostname, name: {}, port: 54321}}",
                pool_host(&pool, "cluster.local")
            ),
            _ => self.backends(),
        };
        let parent = match self.variant % 2 {
            0 => format!(
                "{{group: '', kind: Service, name: n{}, namespace: one, port: 80}}",
                self.name
            ),
            _ => format!(
                "{{group: networking.istio.io, kind: ServiceEntry, name: n{}}}",
                self.name
            ),
        };
        format!(
            "spec: {{parentRefs: [{parent}], rules: [{{matches: [{{path: {{value: /{}}}}}], backendRefs: [{backends}]}}]}}\n",
            self.variant
        )
    }

    fn grant(&self) -> String {
        let from = ["HTTPRoute", "GRPCRoute", "TCPRoute", "Gateway"][usize::from(self.variant % 4)];
        let to = match self.variant {
            3 | 7 => "{group: '', kind: Secret}",
            1 | 5 => "{group: '', kind: Service, name: n1}",
            _ => "{group: '', kind: Service}",
        };
        let namespace = if self.variant < 6 { "one" } else { "two" };
        format!(
            "spec: {{from: [{{group: gateway.networking.k8s.io, kind: {from}, namespace: {namespace}}}], to: [{to}]}}\n"
        )
    }

    fn tls_policy(&self) -> String {
        let section = match self.variant {
            4 => ", sectionName: http",
            5 => ", sectionName: absent",
            _ => "",
        };
        let target = match self.variant {
            6 => format!(
                "{{group: gateway.networking.x-k8s.io, kind: XBackend, name: n{}}}",
                self.name
            ),
            7 => format!(
                "{{group: networking.istio.io, kind: ServiceEntry, name: n{}}}",
                self.name
            ),
            _ => format!(
                "{{group: '', kind: Service, name: n{}{section}}}",
                self.variant % 2
            ),
        };
        let validation = match self.variant % 2 {
            0 => "wellKnownCACertificates: System".to_owned(),
            _ => format!(
                "caCertificateRefs: [{{group: '', kind: ConfigMap, name: n{}}}]",
                self.name
            ),
        };
        format!(
            "spec: {{targetRefs: [{target}], validation: {{hostname: h{}.example.com, {validation}}}}}\n",
            self.variant
        )
    }

    fn traffic_policy(&self) -> String {
        let what = match self.variant % 2 {
            0 => "sessionPersistence: {type: Cookie, sessionName: c}",
            _ => {
                "retryConstraint: {budget: {percent: 20, interval: 10s}, minRetryRate: {count: 10, interval: 1s}}"
            }
        };
        format!(
            "spec: {{targetRefs: [{{group: '', kind: Service, name: n{}}}], {what}}}\n",
            self.variant % 3
        )
    }

    fn backend(&self) -> String {
        let host = match self.variant % 3 {
            // Itself, under the name of the service that is made of it.
            0 => format!("n{}.one.svc.cluster.local", self.name),
            1 => "h0.example.com".to_owned(),
            _ => format!("far{}.example.com", self.variant),
        };
        format!(
            "spec: {{type: ExternalHostname, port: {{port: {}}}, protocol: HTTP, externalHostname: {{hostname: {host}}}}}\n",
            if self.variant < 5 { 80 } else { 443 },
        )
    }

    fn authorities(&self) -> String {
        const EC: &str = include_str!("../../../../../model/src/x509/keys/ec.crt");
        match self.variant % 3 {
            0 => format!("data: {{ca.crt: {EC:?}}}\n"),
            1 => "data: {ca.crt: no certificate}\n".to_owned(),
            _ => "data: {other: x}\n".to_owned(),
        }
    }
}
