//! Who simulated proxies say that they are.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use proto_envoy::envoy::config::core::v3::{Locality, Node};
use serde_json::{Map, Value as Json, json};

use crate::error::Error;
use crate::load::MeshShape;

/// The identity of proxies. In every text `{i}` becomes the proxy's number, `{i%20}` that modulo 20, `{ip}` an address
/// of its own and `{ns}` its namespace.
#[derive(Args, Clone, Debug)]
pub struct NodeOptions {
    /// Node template in JSON: {"id": ..., "cluster": ..., "metadata": {...}, "locality": {...}}; {i}, {i%20}, {ip} and
    /// {ns} are replaced
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,

    /// Node id
    #[arg(
        long,
        default_value = "sidecar~{ip}~proxy-{i}.{ns}~{ns}.svc.cluster.local",
        conflicts_with = "node"
    )]
    pub id: String,

    /// Namespaces, taken in turn
    #[arg(
        long = "namespace",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        default_value = "default"
    )]
    pub namespaces: Vec<String>,

    /// Label of the workload, as KEY=VALUE
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair, conflicts_with = "node")]
    pub labels: Vec<(String, String)>,

    /// Further metadata, as KEY=VALUE
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = pair, conflicts_with = "node")]
    pub metadata: Vec<(String, String)>,

    /// The mesh beside whose endpoints the proxies stand
    #[arg(skip)]
    pub mesh: Option<MeshShape>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            node: None,
            id: "sidecar~{ip}~proxy-{i}.{ns}~{ns}.svc.cluster.local".to_owned(),
            namespaces: vec!["default".to_owned()],
            labels: Vec::new(),
            metadata: Vec::new(),
            mesh: None,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A readable template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    json: Json,
    namespaces: Vec<String>,
    mesh: Option<MeshShape>,
}

/// How many machines the workloads of a mesh run on.
const MACHINES: usize = 97;

/// A proxy as it is in clusters, beside an endpoint of a mesh.
fn beside_an_endpoint() -> Json {
    json!({
        "id": "sidecar~{ip}~{pod}.{ns}~{ns}.svc.cluster.local",
        "cluster": "{service}.{ns}",
        "locality": {"region": "region1", "zone": "{zone}"},
        "metadata": {
            "NAME": "{pod}", "NAMESPACE": "{ns}", "CLUSTER_ID": "Kubernetes", "MESH_ID": "cluster.local",
            "SERVICE_ACCOUNT": "{service}", "WORKLOAD_NAME": "{service}-{version}", "NODE_NAME": "{machine}",
            "OWNER": "kubernetes://apis/apps/v1/namespaces/{ns}/deployments/{service}-{version}",
            "INSTANCE_IPS": "{ip}", "ISTIO_VERSION": "1.31.0", "INTERCEPTION_MODE": "REDIRECT",
            "LABELS": {
                "app": "{service}", "version": "{version}", "pod-template-hash": "6b8f7d9c5",
                "service.istio.io/canonical-name": "{service}", "service.istio.io/canonical-revision": "{version}",
                "security.istio.io/tlsMode": "istio"
            }
        }
    })
}

/// The proxy of a Gateway as it is in clusters.
fn of_a_gateway() -> Json {
    json!({
        "id": "router~{ip}~{pod}.{ns}~{ns}.svc.cluster.local",
        "cluster": "{service}.{ns}",
        "locality": {"region": "region1", "zone": "{zone}"},
        "metadata": {
            "NAME": "{pod}", "NAMESPACE": "{ns}", "CLUSTER_ID": "Kubernetes", "MESH_ID": "cluster.local",
            "SERVICE_ACCOUNT": "{service}", "WORKLOAD_NAME": "{service}", "NODE_NAME": "{machine}",
            "OWNER": "kubernetes://apis/apps/v1/namespaces/{ns}/deployments/{service}",
            "INSTANCE_IPS": "{ip}", "ISTIO_VERSION": "1.31.0",
            "LABELS": {
                "gateway.networking.k8s.io/gateway-name": "{app}", "higress": "higress-system-higress-gateway",
                "pod-template-hash": "6b8f7d9c5",
                "service.istio.io/canonical-name": "{service}", "service.istio.io/canonical-revision": "latest"
            }
        }
    })
}

impl NodeOptions {
    /// The first proxy, as it introduces itself.
    ///
    /// # Errors
    /// If the template cannot be read.
    pub fn envoy(&self) -> Result<Node, Error> {
        Ok(self.template()?.node(0))
    }

    /// Reads the template file, or makes a template of the flags.
    pub(crate) fn template(&self) -> Result<Template, Error> {
        let json = match (&self.node, &self.mesh) {
            (Some(path), _) => {
                let read = std::fs::read(path);
                let text = read.map_err(|source| Error::Template {
                    path: path.clone(),
                    source,
                })?;
                serde_json::from_slice(&text).map_err(Error::Node)?
            }
            (None, Some(mesh)) if mesh.gateways.is_some() || mesh.ingresses.is_some() => {
                of_a_gateway()
            }
            (None, Some(_)) => beside_an_endpoint(),
            (None, None) => {
                let map = |pairs: &[(String, String)]| {
                    pairs
                        .iter()
                        .map(|(k, v)| (k.clone(), Json::from(v.clone())))
                        .collect::<Map<_, _>>()
                };
                let mut metadata = map(&self.metadata);
                metadata.entry("NAMESPACE").or_insert("{ns}".into());
                metadata.entry("INSTANCE_IPS").or_insert("{ip}".into());
                metadata.entry("CLUSTER_ID").or_insert("Kubernetes".into());
                metadata.entry("LABELS").or_insert(map(&self.labels).into());
                json!({ "id": self.id, "metadata": metadata })
            }
        };
        Ok(Template {
            json,
            namespaces: self.namespaces.clone(),
            mesh: self.mesh.clone(),
        })
    }
}

/// A proxy of an id with metadata.
pub fn node(id: &str, metadata: &Json) -> Node {
    let json = json!({ "id": id, "metadata": metadata });
    let template = Template {
        json,
        namespaces: Vec::new(),
        mesh: None,
    };
    template.node(0)
}

impl Template {
    /// The node of proxy number `i`.
    pub(crate) fn node(&self, i: usize) -> Node {
        let text = |key: &str| self.filled(self.json[key].as_str().unwrap_or_default(), i);
        let locality = &self.json["locality"];
        let part = |key: &str| self.filled(locality[key].as_str().unwrap_or_default(), i);
        Node {
            id: text("id"),
            cluster: text("cluster"),
            metadata: self.json["metadata"].as_object().map(|m| self.object(m, i)),
            locality: locality.is_object().then(|| Locality {
                region: part("region"),
                zone: part("zone"),
                sub_zone: part("sub_zone"),
            }),
            user_agent_name: "envoy".to_owned(),
            ..Node::default()
        }
    }

    fn filled(&self, text: &str, i: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            out += before;
            let word = after
                .split_once('}')
                .and_then(|(word, tail)| Some((self.value(word, i)?, tail)));
            match word {
                Some((value, tail)) => {
                    out += &value;
                    rest = tail;
                }
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        out + rest
    }

    fn value(&self, word: &str, i: usize) -> Option<String> {
        if let Some(mesh) = &self.mesh {
            let workload = mesh.workload(i);
            let known = match word {
                "ns" => Some(workload.namespace),
                "ip" => Some(workload.address),
                "pod" => Some(format!(
                    "{}-{}-6b8f7d9c5-x{i}",
                    workload.service, workload.version
                )),
                "app" => Some(workload.app),
                "service" => Some(workload.service),
                "version" => Some(workload.version),
                "zone" => Some(workload.zone),
                "machine" => Some(format!("worker-{}", i % MACHINES)),
                _ => None,
            };
            if known.is_some() {
                return known;
            }
        }
        match word {
            "i" => Some(i.to_string()),
            "ip" => Some(Ipv4Addr::from(0x0a80_0001_u32.wrapping_add(i as u32)).to_string()),
            "ns" => {
                let at = i.checked_rem(self.namespaces.len())?;
                Some(self.namespaces[at].replace("{i}", &i.to_string()))
            }
            _ => {
                let by: usize = word.strip_prefix("i%")?.parse().ok()?;
                Some(i.checked_rem(by)?.to_string())
            }
        }
    }

    fn object(&self, map: &Map<String, Json>, i: usize) -> Struct {
        Struct {
            fields: map
                .iter()
                .map(|(k, v)| (k.clone(), self.json(v, i)))
                .collect(),
        }
    }

    fn json(&self, value: &Json, i: usize) -> Value {
        let kind = match value {
            Json::Null => Kind::NullValue(0),
            Json::Bool(b) => Kind::BoolValue(*b),
            Json::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or_default()),
            Json::String(s) => Kind::StringValue(self.filled(s, i)),
            Json::Array(a) => Kind::ListValue(ListValue {
                values: a.iter().map(|v| self.json(v, i)).collect(),
            }),
            Json::Object(map) => Kind::StructValue(self.object(map, i)),
        };
        Value { kind: Some(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let template = Template {
            json: Json::Null,
            namespaces: vec!["a".into(), "b{i}".into()],
            mesh: None,
        };
        assert_eq!(
            template.filled("x{i}.{ns}.{i%2}.{ip}", 3),
            "x3.b3.1.10.128.0.4"
        );
        assert_eq!(template.filled("{ {x} {i%0} {", 3), "{ {x} {i%0} {");
    }

    #[test]
    fn proxies_of_a_mesh_stand_beside_its_endpoints() {
        let mesh = serde_json::from_value(json!({"namespaces": 2, "services": 3})).unwrap();
        let options = NodeOptions {
            mesh: Some(mesh),
            ..NodeOptions::default()
        };
        let template = options.template().unwrap();
        let ids: Vec<String> = [0, 4, 5, 10].map(|i| template.node(i).id).into();
        assert_eq!(
            ids,
            [
                "sidecar~11.0.0.1~s0-v1-6b8f7d9c5-x0.n0~n0.svc.cluster.local",
                "sidecar~11.0.0.201~s0-v1-6b8f7d9c5-x4.n0~n0.svc.cluster.local",
                "sidecar~11.0.4.1~s0-v1-6b8f7d9c5-x5.n1~n1.svc.cluster.local",
                "sidecar~11.0.1.1~s1-v1-6b8f7d9c5-x10.n0~n0.svc.cluster.local",
            ]
        );
    }

    #[test]
    fn flags_make_a_node() {
        let options = NodeOptions {
            labels: vec![("app".into(), "web-{i}".into())],
            ..NodeOptions::default()
        };
        let node = options.template().unwrap().node(1);
        assert_eq!(
            node.id,
            "sidecar~10.128.0.2~proxy-1.default~default.svc.cluster.local"
        );
        let fields = node.metadata.unwrap().fields;
        assert_eq!(
            fields["NAMESPACE"].kind,
            Some(Kind::StringValue("default".into()))
        );
        let Some(Kind::StructValue(labels)) = &fields["LABELS"].kind else {
            panic!("labels are a struct")
        };
        assert_eq!(
            labels.fields["app"].kind,
            Some(Kind::StringValue("web-1".into()))
        );
    }
}
