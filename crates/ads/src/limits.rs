//! How much a client may say and make its stream hold.
//!
//! Nobody has to prove anything before a stream begins, so each figure bounds what anybody can make the server hold. They
//! are far above what an Envoy of a mesh of 100,000 services says.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::status::{Code, Status};
use crate::stream::Protocol;

/// Limits of one stream. A stream that passes one ends with `RESOURCE_EXHAUSTED`. Names that resources of the server make a client ask
/// for never pass one: the objects of one author would otherwise end the streams of all that are sent them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Names that it may ask for, of each type; and as many of which it may say that it has them.
    pub names_per_type: usize,
    /// Bytes of one name.
    pub name_bytes: usize,
    /// Bytes of all names that it asks for or says that it has, of all types.
    pub bytes_per_stream: usize,
    /// Bytes of what the proxy says of itself, the list of its extensions aside.
    pub node_bytes: usize,
    /// Bytes of that list. A stock Envoy's has 50 KB.
    pub extension_bytes: usize,
    /// Extensions in it. A stock Envoy has 500.
    pub extensions: usize,
    /// Bytes of one refusal of a response.
    pub refusal_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            names_per_type: 100_000,
            name_bytes: xds::NAME_BYTES,
            bytes_per_stream: 64 << 20,
            node_bytes: 64 << 10,
            extension_bytes: 256 << 10,
            extensions: 4096,
            refusal_bytes: 256 << 10,
        }
    }
}

/// A name that makes a client ask for something takes so many bytes at least where it stands, with the message around it.
const LEAST_NAMED: usize = 16;

/// How large a request may be, whatever the limit is, of a client for which there are so many bytes of resources: it says each of
/// their names twice at most, once with a version.
pub(crate) fn request_about(resources: usize) -> usize {
    resources.saturating_mul(2)
}

impl Limits {
    /// The limits of a client for which there are so many bytes of resources, in which stands every name that they make it ask for.
    /// A stream holds a name once as asked for, and once more where the client says that it has it.
    pub(crate) fn raised_for(self, resources: usize) -> Self {
        Self {
            names_per_type: self.names_per_type.max(resources / LEAST_NAMED),
            bytes_per_stream: self.bytes_per_stream.max(resources.saturating_mul(2)),
            ..self
        }
    }

    /// Looks at an encoded request before it is decoded: small on the wire, many fields would be large in memory.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`, with the limit that is passed; `INVALID_ARGUMENT` for what is no message.
    pub fn look(&self, protocol: Protocol, request: &[u8]) -> Result<(), Status> {
        let (node, refusal, names): (u32, u32, &[u32]) = match protocol {
            // Names to add and to give up, versions, and locators, which nothing reads.
            Protocol::Delta => (1, 7, &[3, 4, 5, 8, 9]),
            Protocol::Sotw => (2, 6, &[3, 7]),
        };
        let mut named = 0;
        let (mut of_node, mut extensions, mut of_extensions, mut refused) = (0, 0, 0, 0);
        fields(request, |tag, value| {
            if tag == node {
                of_node += value.len();
                fields(value, |tag, value| {
                    if tag == EXTENSIONS {
                        extensions += 1;
                        of_extensions += value.len();
                    }
                    Ok(())
                })?;
                let rest = of_node.saturating_sub(of_extensions);
                at_most(extensions, self.extensions, "extensions of a node")?;
                at_most(
                    of_extensions,
                    self.extension_bytes,
                    "bytes of node.extensions",
                )?;
                at_most(
                    rest,
                    self.node_bytes,
                    "bytes of a node without its extensions",
                )?;
            } else if tag == refusal {
                refused += value.len();
                at_most(refused, self.refusal_bytes, "bytes of error_detail")?;
            } else if names.contains(&tag) {
                named += 1;
                // What is given up was asked for before.
                at_most(named, 2 * self.names_per_type, "names in a request")?;
            }
            Ok(())
        })
    }

    /// Whether a name is not too long.
    pub(crate) fn name(&self, name: &str) -> Result<(), Status> {
        at_most(name.len(), self.name_bytes, "bytes of a resource name")
    }

    /// Whether a type has not too many names.
    pub(crate) fn names(&self, count: usize) -> Result<(), Status> {
        at_most(count, self.names_per_type, "resource names of a type")
    }

    /// Whether the names of a stream are not too long together.
    pub(crate) fn bytes(&self, bytes: usize) -> Result<(), Status> {
        at_most(
            bytes,
            self.bytes_per_stream,
            "bytes of resource names on a stream",
        )
    }
}

/// `Node.extensions` on the wire.
const EXTENSIONS: u32 = 9;
fn at_most(found: usize, limit: usize, what: &str) -> Result<(), Status> {
    if found <= limit {
        return Ok(());
    }
    let message = format!("the limit is {limit} {what}");
    Err(Status::new(Code::ResourceExhausted, message))
}

fn wrong() -> Status {
    Status::new(Code::InvalidArgument, "the request cannot be read")
}

/// Calls `visit` with each field of a message that has a length, and its content.
fn fields(
    mut message: &[u8],
    mut visit: impl FnMut(u32, &[u8]) -> Result<(), Status>,
) -> Result<(), Status> {
    while !message.is_empty() {
        let (tag, kind) = decode_key(&mut message).map_err(|_| wrong())?;
        if kind != WireType::LengthDelimited {
            skip_field(kind, tag, &mut message, DecodeContext::default()).map_err(|_| wrong())?;
            continue;
        }
        let len = decode_varint(&mut message).map_err(|_| wrong())?;
        let len = usize::try_from(len).map_err(|_| wrong())?;
        let (value, rest) = message.split_at_checked(len).ok_or_else(wrong)?;
        message = rest;
        visit(tag, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto_envoy::envoy::config::core::v3::{Extension, Node};
    use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};

    use super::*;

    fn limits() -> Limits {
        Limits {
            names_per_type: 3,
            node_bytes: 100,
            extension_bytes: 100,
            extensions: 5,
            refusal_bytes: 100,
            ..Limits::default()
        }
    }

    fn words(delta: DeltaDiscoveryRequest) -> Result<(), String> {
        let looked = limits().look(Protocol::Delta, &delta.encode_to_vec());
        looked.map_err(|status| status.to_string())
    }

    fn node(cluster: usize, extensions: usize, name: usize) -> DeltaDiscoveryRequest {
        let extension = || Extension {
            name: "x".repeat(name),
            ..Extension::default()
        };
        DeltaDiscoveryRequest {
            node: Some(Node {
                cluster: "c".repeat(cluster),
                extensions: (0..extensions).map(|_| extension()).collect(),
                ..Node::default()
            }),
            ..DeltaDiscoveryRequest::default()
        }
    }

    #[test]
    fn a_request_is_measured_before_it_is_decoded() {
        assert_eq!(words(node(70, 5, 10)), Ok(()));
        let refused = |words: &str| Err(format!("ResourceExhausted: the limit is {words}"));
        let without = refused("100 bytes of a node without its extensions");
        assert_eq!(words(node(101, 0, 0)), without);
        assert_eq!(words(node(0, 6, 1)), refused("5 extensions of a node"));
        assert_eq!(
            words(node(0, 5, 30)),
            refused("100 bytes of node.extensions")
        );
        let names = |count| DeltaDiscoveryRequest {
            resource_names_subscribe: vec![String::new(); count],
            ..DeltaDiscoveryRequest::default()
        };
        assert_eq!(words(names(6)), Ok(()));
        assert_eq!(words(names(7)), refused("6 names in a request"));
        let sotw = DiscoveryRequest {
            resource_names: vec![String::new(); 7],
            ..DiscoveryRequest::default()
        };
        let looked = limits().look(Protocol::Sotw, &sotw.encode_to_vec());
        assert_eq!(looked.unwrap_err().code, Code::ResourceExhausted);
        let refusal = DeltaDiscoveryRequest {
            error_detail: Some(proto_envoy::google::rpc::Status {
                message: "m".repeat(100),
                ..Default::default()
            }),
            ..DeltaDiscoveryRequest::default()
        };
        assert_eq!(words(refusal), refused("100 bytes of error_detail"));
    }

    #[test]
    fn what_is_no_message_is_said_to_be_none() {
        for bytes in [
            &b"\x0a\x05ab"[..],
            b"\xff",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            let looked = Limits::default().look(Protocol::Delta, bytes);
            assert_eq!(looked.unwrap_err().code, Code::InvalidArgument);
        }
    }
}
