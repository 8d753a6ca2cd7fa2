//! Gateways of the Gateway API in a generated mesh: each with a Service, whose endpoints proxies are, and HTTPRoutes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::edited::Edited;
use super::mesh::Workload;

/// The class of Gateways; their Services are called after it.
const CLASS: &str = "pilothouse";
/// The label of the pods of a Gateway, which has its name.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// Gateways and their routes.
///
/// Gateways are `g0`, `g1`, ..., and take the namespaces of the mesh in turn; routes are `r0`, `r1`, ..., each with a host
/// of its own, and take the Gateways in turn. Each Gateway has a Service `b0`, `b1`, ... beside it, to which its routes lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Gateways {
    /// How many there are: proxies take them in turn.
    pub gateways: usize,
    /// HTTPRoutes of all of them.
    pub routes: usize,
    /// Endpoints of each Gateway's Service, where proxies stand.
    pub replicas: usize,
}

impl Gateways {
    /// Writes them below a folder, in so many namespaces; each route has a file of its own.
    pub(super) fn write(self, root: &Path, namespaces: usize) -> io::Result<()> {
        let folder = root.join("routes");
        fs::create_dir_all(&folder)?;
        for route in 0..self.routes {
            let Edited { name, text, .. } = self.route(namespaces, route, 0);
            fs::write(folder.join(format!("{name}.yaml")), text)?;
        }
        let mut text = String::new();
        for gateway in 0..self.gateways {
            self.gateway(namespaces, gateway, &mut text);
        }
        fs::write(root.join("gateways.yaml"), text)
    }

    /// Edits a route for the `round`th time in a folder: its file is replaced. Returns the path.
    pub(super) fn change(
        self,
        root: &Path,
        namespaces: usize,
        round: usize,
    ) -> io::Result<PathBuf> {
        self.edited(namespaces, round).replace(&root.join("routes"))
    }

    /// The route that is edited for the `round`th time: another Gateway's each time.
    pub(super) fn edited(self, namespaces: usize, round: usize) -> Edited {
        self.route(namespaces, round % self.routes.max(1), round + 1)
    }

    /// Whether that edit concerns a proxy.
    pub(super) fn concerns(self, round: usize, proxy: usize) -> bool {
        let all = self.gateways.max(1);
        round % self.routes.max(1) % all == proxy % all
    }

    fn route(self, namespaces: usize, route: usize, round: usize) -> Edited {
        let gateway = route % self.gateways.max(1);
        let (namespace, name) = (namespace(namespaces, gateway), format!("r{route}"));
        let text = format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
             parentRefs: [{{name: g{gateway}}}]\n  hostnames: [{name}.example.com]\n  \
             rules: [{{matches: [{{path: {{value: /{round}}}}}], backendRefs: [{{name: b{gateway}, port: 80}}]}}]\n"
        );
        Edited {
            namespace,
            name,
            text,
        }
    }

    /// A Gateway with its Service, and the Service that its routes lead to.
    fn gateway(self, namespaces: usize, gateway: usize, text: &mut String) {
        let namespace = namespace(namespaces, gateway);
        let _ = write!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: g{gateway}, namespace: {namespace}}}\nspec:\n  \
             gatewayClassName: {CLASS}\n  listeners: [{{name: http, port: 80, protocol: HTTP}}]\n"
        );
        let replicas = (0..self.replicas).map(|replica| address(gateway, replica));
        let replicas: Vec<String> = replicas.collect();
        let selector = format!("{GATEWAY_NAME}: g{gateway}");
        let name = format!("g{gateway}-{CLASS}");
        service((&name, &namespace), &selector, &replicas, text);
        let (a, b) = (gateway >> 8, gateway & 255);
        let backend = format!("172.16.{a}.{b}");
        let name = format!("b{gateway}");
        let selector = format!("app: {name}");
        service((&name, &namespace), &selector, &[backend], text);
    }

    /// The workload that proxy number `i` is: a replica of a Gateway.
    pub(super) fn workload(self, namespaces: usize, i: usize) -> Workload {
        let all = self.gateways.max(1);
        let (gateway, replica) = (i % all, i / all);
        Workload {
            namespace: namespace(namespaces, gateway),
            app: format!("g{gateway}"),
            service: format!("g{gateway}-{CLASS}"),
            version: "v1".to_owned(),
            zone: format!("zone{}", replica % 3 + 1),
            address: address(gateway, replica),
        }
    }
}

fn namespace(namespaces: usize, gateway: usize) -> String {
    format!("n{}", gateway % namespaces.max(1))
}

/// The address of a replica of a Gateway.
fn address(gateway: usize, replica: usize) -> String {
    let (a, b) = (gateway >> 8, gateway & 255);
    format!("10.{a}.{b}.{}", replica % 250 + 1)
}

/// A Service for port 80, and its endpoints.
pub(super) fn service(
    (name, namespace): (&str, &str),
    selector: &str,
    addresses: &[String],
    text: &mut String,
) {
    let endpoint = |address| format!("{{addresses: [{address}], conditions: {{ready: true}}}}");
    let endpoints: Vec<String> = addresses.iter().map(endpoint).collect();
    let endpoints = endpoints.join(", ");
    let _ = write!(
        text,
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{selector: {{{selector}}}, ports: [{{name: http, port: 80}}]}}\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-1, namespace: {namespace}, \
         labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: IPv4\nports: [{{name: http, port: 80, protocol: TCP}}]\n\
         endpoints: [{endpoints}]\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edit_is_another_and_concerns_the_replicas_of_one_gateway() {
        let mesh = Gateways {
            gateways: 4,
            routes: 12,
            replicas: 2,
        };
        let mut texts: Vec<String> = (0..12).map(|r| mesh.route(3, r, 0).text).collect();
        for round in 0..30 {
            let Edited { name, text, .. } = mesh.edited(3, round);
            let known = &mut texts[round % 12];
            assert_ne!(*known, text);
            *known = text;
            let concerned: Vec<usize> = (0..8).filter(|i| mesh.concerns(round, *i)).collect();
            let gateway = round % 12 % 4;
            assert_eq!(concerned, [gateway, gateway + 4], "{name}");
        }
    }
}
