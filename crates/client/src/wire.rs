//! Discovery responses read by hand: names, versions and shared slices of bodies, nothing else.

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use xds::TypeUrl;

use crate::error::Error;

/// One resource of a response.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Bytes,
    pub(crate) version: Bytes,
    pub(crate) body: Bytes,
}

/// A response of either variant.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) ty: TypeUrl,
    pub(crate) nonce: String,
    pub(crate) version: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) removed: Vec<Bytes>,
    /// Bytes that tell of resources: all but type, nonce and version of the response.
    pub(crate) told: usize,
}

impl Message {
    /// Reads a delta or a state-of-the-world response.
    pub(crate) fn read(mut data: Bytes, delta: bool) -> Result<Self, Error> {
        let (mut type_url, mut nonce, mut version) = (Bytes::new(), Bytes::new(), Bytes::new());
        let (mut entries, mut removed) = (Vec::new(), Vec::new());
        let mut told = 0;
        loop {
            let left = data.len();
            let Some((tag, value)) = field(&mut data)? else {
                break;
            };
            if matches!(tag, 2 | 6) {
                told += left - data.len();
            }
            match tag {
                1 => version = value,
                2 => entries.push(if delta {
                    delta_entry(value)?
                } else {
                    any_entry(value)?
                }),
                4 => type_url = value,
                5 => nonce = value,
                6 if delta => removed.push(value),
                _ => {}
            }
        }
        let ty = TypeUrl::parse(&text(&type_url))
            .ok_or(Error::Response("of a type that was not asked for"))?;
        Ok(Self {
            ty,
            nonce: text(&nonce),
            version: text(&version),
            entries,
            removed,
            told,
        })
    }
}

/// Text of a field, for what must be text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn delta_entry(mut data: Bytes) -> Result<Entry, Error> {
    let mut entry = Entry {
        name: Bytes::new(),
        version: Bytes::new(),
        body: Bytes::new(),
    };
    while let Some((tag, value)) = field(&mut data)? {
        match tag {
            1 => entry.version = value,
            2 => entry.body = any_value(value)?,
            3 => entry.name = value,
            _ => {}
        }
    }
    Ok(entry)
}

/// State of the world has no names beside the resources; all that is asked for here have theirs in field 1.
fn any_entry(data: Bytes) -> Result<Entry, Error> {
    let body = any_value(data)?;
    let mut rest = body.clone();
    let mut name = Bytes::new();
    while let Some((tag, value)) = field(&mut rest)? {
        if tag == 1 {
            name = value;
            break;
        }
    }
    Ok(Entry {
        name,
        version: Bytes::new(),
        body,
    })
}

fn any_value(mut data: Bytes) -> Result<Bytes, Error> {
    let mut body = Bytes::new();
    while let Some((tag, value)) = field(&mut data)? {
        if tag == 2 {
            body = value;
        }
    }
    Ok(body)
}

/// The next length-delimited field of a message, with its number; others are skipped.
///
/// # Errors
/// When the bytes are no message.
pub fn field(data: &mut Bytes) -> Result<Option<(u32, Bytes)>, Error> {
    const BROKEN: Error = Error::Response("not a protobuf message");
    while data.has_remaining() {
        let (tag, wire) = decode_key(data).map_err(|_| BROKEN)?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, tag, data, DecodeContext::default()).map_err(|_| BROKEN)?;
            continue;
        }
        let len = decode_varint(data).map_err(|_| BROKEN)?;
        let len = usize::try_from(len)
            .ok()
            .filter(|l| *l <= data.len())
            .ok_or(BROKEN)?;
        return Ok(Some((tag, data.split_to(len))));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto_envoy::envoy::config::cluster::v3::Cluster;
    use proto_envoy::envoy::service::discovery::v3::{
        DeltaDiscoveryResponse, DiscoveryResponse, Resource,
    };

    use super::*;

    #[test]
    fn responses_are_read_without_decoding_resources() {
        let cluster = Cluster {
            name: "a".into(),
            alt_stat_name: "x".into(),
            ..Cluster::default()
        };
        let any = prost_types::Any {
            type_url: TypeUrl::Cluster.as_str().into(),
            value: cluster.encode_to_vec(),
        };
        let delta = DeltaDiscoveryResponse {
            system_version_info: "7".into(),
            resources: vec![Resource {
                name: "a".into(),
                version: "v".into(),
                resource: Some(any.clone()),
                ..Resource::default()
            }],
            type_url: TypeUrl::Cluster.as_str().into(),
            removed_resources: vec!["b".into()],
            nonce: "n".into(),
            ..DeltaDiscoveryResponse::default()
        };
        let m = Message::read(delta.encode_to_vec().into(), true).unwrap();
        assert_eq!(
            (m.ty, m.nonce.as_str(), m.version.as_str()),
            (TypeUrl::Cluster, "n", "7")
        );
        assert_eq!(
            (&m.entries[0].name[..], &m.entries[0].version[..]),
            (&b"a"[..], &b"v"[..])
        );
        assert_eq!(m.entries[0].body, any.value);
        assert_eq!(m.removed, ["b"]);
        let told = delta.resources[0].encoded_len() + 2 + "b".len() + 2;
        assert_eq!(m.told, told);

        let sotw = DiscoveryResponse {
            version_info: "7".into(),
            resources: vec![any],
            type_url: TypeUrl::Cluster.as_str().into(),
            nonce: "n".into(),
            ..DiscoveryResponse::default()
        };
        let m = Message::read(sotw.encode_to_vec().into(), false).unwrap();
        assert_eq!(&m.entries[0].name[..], b"a");
    }

    #[test]
    fn broken_responses_are_errors() {
        assert!(Message::read(Bytes::from_static(&[0x12, 0x7f, 1]), true).is_err());
        assert!(Message::read(Bytes::new(), true).is_err());
    }
}
