//! Requests, as a gateway would make them: of the type `router`, a control plane tells of every change.

use std::collections::BTreeMap;
use std::net::IpAddr;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use proto_envoy::google::rpc::Status;

/// gRPC: INVALID_ARGUMENT.
const INVALID_ARGUMENT: i32 = 3;
/// The most that is said of what cannot be read.
const LONGEST_REFUSAL: usize = 2000;

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The name of this replica.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// Its namespace.
    pub namespace: String,
    /// The DNS domain of the mesh.
    pub domain: String,
    /// The revision of this control plane.
    pub revision: String,
}

impl Asker {
    /// The node of the first request.
    pub(crate) fn node(&self) -> Node {
        let Self {
            name,
            address,
            namespace,
            domain,
            revision,
        } = self;
        let mut metadata = vec![
            ("GENERATOR", "api"),
            // Newer than any: nothing is to be left out for the sake of an old one.
            ("ISTIO_VERSION", "65536.65536.65536"),
            ("NAMESPACE", namespace.as_str()),
        ];
        if !revision.is_empty() {
            metadata.push(("ISTIO_REVISION", revision.as_str()));
        }
        let text = |text: &str| Value {
            kind: Some(Kind::StringValue(text.to_owned())),
        };
        let fields = metadata.into_iter().map(|(k, v)| (k.to_owned(), text(v)));
        Node {
            id: format!("router~{address}~{name}.{namespace}~{namespace}.svc.{domain}"),
            metadata: Some(Struct {
                fields: fields.collect(),
            }),
            user_agent_name: "pilothouse".to_owned(),
            ..Node::default()
        }
    }
}

/// What is said of a response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) nonce: String,
    /// What is in force after it; of no meaning in the incremental variant.
    pub(crate) version: String,
    /// What cannot be read or taken; empty where all was.
    pub(crate) faults: Vec<String>,
}

impl Answer {
    /// The acknowledgement, or the refusal.
    pub(crate) fn request(self, type_url: String, delta: bool) -> Vec<u8> {
        let error_detail = (!self.faults.is_empty()).then(|| {
            let message = self.faults.join("; ");
            Status {
                code: INVALID_ARGUMENT,
                message: message.chars().take(LONGEST_REFUSAL).collect(),
                ..Status::default()
            }
        });
        match delta {
            true => DeltaDiscoveryRequest {
                type_url,
                response_nonce: self.nonce,
                error_detail,
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
            false => DiscoveryRequest {
                type_url,
                version_info: self.version,
                response_nonce: self.nonce,
                error_detail,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
        }
    }
}

/// Asks for all of a type. `known` is what is there already, in versions of the incremental variant.
pub(crate) fn first(
    type_url: String,
    node: Option<Node>,
    delta: bool,
    known: BTreeMap<String, String>,
) -> Vec<u8> {
    match delta {
        true => DeltaDiscoveryRequest {
            node,
            type_url,
            initial_resource_versions: known.into_iter().collect(),
            ..DeltaDiscoveryRequest::default()
        }
        .encode_to_vec(),
        false => DiscoveryRequest {
            node,
            type_url,
            ..DiscoveryRequest::default()
        }
        .encode_to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_gateway_that_wants_objects() {
        let asker = Asker {
            name: "pilothouse-0".into(),
            address: IpAddr::from([10, 0, 0, 7]),
            namespace: "istio-system".into(),
            domain: "cluster.local".into(),
            revision: "canary".into(),
        };
        let node = asker.node();
        let id = "router~10.0.0.7~pilothouse-0.istio-system~istio-system.svc.cluster.local";
        assert_eq!(node.id, id);
        let fields = node.metadata.unwrap().fields;
        for (name, wanted) in [("GENERATOR", "api"), ("ISTIO_REVISION", "canary")] {
            assert_eq!(fields[name].kind, Some(Kind::StringValue(wanted.into())));
        }
    }

    #[test]
    fn a_refusal_names_what_is_wrong_and_is_no_longer_than_it_must_be() {
        let answer = Answer {
            nonce: "n".into(),
            version: "6".into(),
            faults: vec!["shop/a has no body".into(), "x".repeat(9000)],
        };
        let request = answer.request("g/v1/K".into(), false);
        let request = DiscoveryRequest::decode(request.as_slice()).unwrap();
        assert_eq!(
            (&*request.version_info, &*request.response_nonce),
            ("6", "n")
        );
        let message = request.error_detail.unwrap().message;
        assert!(message.starts_with("shop/a has no body; x"));
        assert_eq!(message.len(), LONGEST_REFUSAL);
    }
}
