//! Responses of types that no view has, made whole for one stream.

use bytes::Bytes;
use prost::Message;
use prost_types::Any;
use proto_envoy::envoy::config::core::v3::ControlPlane;
use proto_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryResponse, DiscoveryResponse, Resource,
};

use crate::stream::Protocol;

/// One resource of an [`Answer`].
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Entry {
    /// Its name; only delta carries it.
    pub name: String,
    /// Its version; only delta carries it.
    pub version: String,
    /// The resource.
    pub resource: Any,
}

/// A response of either protocol.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Answer {
    /// Of this type.
    pub type_url: String,
    /// The version of the whole.
    pub version: String,
    /// Unique within the stream, among responses of the type.
    pub nonce: String,
    /// The resources.
    pub resources: Vec<Entry>,
    /// Names of what is gone or does not exist; only delta carries them.
    pub removed: Vec<String>,
    /// `control_plane.identifier`.
    pub control_plane: Option<String>,
}

impl Answer {
    /// The message of the protocol, encoded.
    pub fn encode(self, protocol: Protocol) -> Bytes {
        let control_plane = self
            .control_plane
            .map(|identifier| ControlPlane { identifier });
        let encoded = match protocol {
            Protocol::Delta => {
                let resource = |entry: Entry| Resource {
                    name: entry.name,
                    version: entry.version,
                    resource: Some(entry.resource),
                    ..Resource::default()
                };
                DeltaDiscoveryResponse {
                    system_version_info: self.version,
                    type_url: self.type_url,
                    nonce: self.nonce,
                    resources: self.resources.into_iter().map(resource).collect(),
                    removed_resources: self.removed,
                    control_plane,
                    ..DeltaDiscoveryResponse::default()
                }
                .encode_to_vec()
            }
            Protocol::Sotw => {
                let resources = self.resources.into_iter();
                DiscoveryResponse {
                    version_info: self.version,
                    type_url: self.type_url,
                    nonce: self.nonce,
                    resources: resources.map(|entry| entry.resource).collect(),
                    control_plane,
                    ..DiscoveryResponse::default()
                }
                .encode_to_vec()
            }
        };
        encoded.into()
    }
}
