//! Responses read from bytes, within limits: what a response holds is counted before room is made for it.

use bytes::Bytes;
use client::field;
use prost::Message;
use prost_types::Any;

use crate::limits::Limits;

/// The longest text of a response that is kept: types, versions, nonces and names.
const LONGEST: usize = 4096;

/// Why a response cannot be read. Whoever runs the other control plane can fix it; the stream ends.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Bytes that are no message.
    #[error("a response cannot be decoded")]
    Malformed(#[from] client::Error),
    /// More than is taken.
    #[error("a response has more than {0} resources")]
    TooMany(usize),
    /// A text that is longer than any is.
    #[error("a response has a text of {0} bytes")]
    TooLong(usize),
}

/// A resource of a response.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sent {
    /// Its name; empty where only the resource itself has one.
    pub name: String,
    /// Its version, in an incremental response.
    pub version: String,
    /// The resource; `None` where it cannot be decoded.
    pub any: Option<Any>,
}

/// A response of either variant of the protocol.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Response {
    /// What it is about.
    pub type_url: String,
    /// Which state it is.
    pub version: String,
    /// By which it is acknowledged.
    pub nonce: String,
    /// The resources.
    pub resources: Vec<Sent>,
    /// Names of those that are gone.
    pub removed: Vec<String>,
}

impl Response {
    /// Reads an incremental response, or one with the whole state.
    ///
    /// # Errors
    ///
    /// When it is not one, or beyond the limits.
    pub fn read(mut data: Bytes, delta: bool, limits: &Limits) -> Result<Self, Unreadable> {
        let mut response = Self::default();
        while let Some((tag, value)) = field(&mut data)? {
            match tag {
                1 => response.version = text(&value)?,
                2 => {
                    let sent = match delta {
                        true => incremental(value)?,
                        false => whole(value),
                    };
                    response.resources.push(sent);
                }
                4 => response.type_url = text(&value)?,
                5 => response.nonce = text(&value)?,
                6 if delta => response.removed.push(text(&value)?),
                _ => {}
            }
            if response.resources.len().max(response.removed.len()) > limits.resources {
                return Err(Unreadable::TooMany(limits.resources));
            }
        }
        Ok(response)
    }
}

fn whole(value: Bytes) -> Sent {
    Sent {
        any: Any::decode(value).ok(),
        ..Sent::default()
    }
}

fn incremental(mut data: Bytes) -> Result<Sent, Unreadable> {
    let mut sent = Sent::default();
    while let Some((tag, value)) = field(&mut data)? {
        match tag {
            1 => sent.version = text(&value)?,
            2 => sent.any = Any::decode(value).ok(),
            3 => sent.name = text(&value)?,
            _ => {}
        }
    }
    Ok(sent)
}

fn text(bytes: &[u8]) -> Result<String, Unreadable> {
    match bytes.len() {
        0..=LONGEST => Ok(String::from_utf8_lossy(bytes).into_owned()),
        length => Err(Unreadable::TooLong(length)),
    }
}

#[cfg(test)]
mod tests {
    use proto_envoy::envoy::service::discovery::v3::{
        DeltaDiscoveryResponse, DiscoveryResponse, Resource,
    };

    use super::*;

    fn any() -> Any {
        Any {
            type_url: "type.googleapis.com/a.B".into(),
            value: vec![1],
        }
    }

    #[test]
    fn both_variants_are_read() {
        let whole = DiscoveryResponse {
            type_url: "g/v1/K".into(),
            version_info: "7".into(),
            nonce: "n".into(),
            resources: vec![any()],
            ..DiscoveryResponse::default()
        };
        let limits = Limits::default();
        let read = Response::read(whole.encode_to_vec().into(), false, &limits).unwrap();
        assert_eq!(
            (&*read.type_url, &*read.version, &*read.nonce),
            ("g/v1/K", "7", "n")
        );
        assert_eq!(read.resources[0].any, Some(any()));
        let delta = DeltaDiscoveryResponse {
            type_url: "g/v1/K".into(),
            system_version_info: "8".into(),
            resources: vec![Resource {
                name: "shop/a".into(),
                version: "3".into(),
                resource: Some(any()),
                ..Resource::default()
            }],
            removed_resources: vec!["shop/b".into()],
            ..DeltaDiscoveryResponse::default()
        };
        let read = Response::read(delta.encode_to_vec().into(), true, &limits).unwrap();
        let sent = &read.resources[0];
        assert_eq!(
            (&*sent.name, &*sent.version, &sent.any),
            ("shop/a", "3", &Some(any()))
        );
        assert_eq!(read.removed, ["shop/b"]);
    }

    #[test]
    fn a_response_that_is_made_to_take_room_is_refused() {
        let limits = Limits {
            resources: 2,
            ..Limits::default()
        };
        // Resources of no bytes.
        let many = Bytes::from_static(&[0x12, 0, 0x12, 0, 0x12, 0]);
        let refused = Response::read(many, false, &limits).unwrap_err();
        assert!(matches!(refused, Unreadable::TooMany(2)), "{refused}");
        let long = DiscoveryResponse {
            nonce: "n".repeat(LONGEST + 1),
            ..DiscoveryResponse::default()
        };
        let refused = Response::read(long.encode_to_vec().into(), false, &limits).unwrap_err();
        assert!(matches!(refused, Unreadable::TooLong(_)), "{refused}");
        let nonsense = Response::read(Bytes::from_static(&[0xff]), false, &limits);
        assert!(matches!(nonsense, Err(Unreadable::Malformed(_))));
    }
}
