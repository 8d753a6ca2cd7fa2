//! The shared part of a response and its encoding.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use rustc_hash::FxHasher;
use xds::{Resource, TypeUrl};

use crate::stream::Protocol;

/// A resource and the version under which it is sent.
#[derive(Clone, Debug)]
pub struct Item {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Its version on the wire. Not always that of the resource: an assignment's version covers its cluster.
    pub version: u64,
}

impl PartialEq for Item {
    /// Compares by identity, which is enough to find a response that was made before.
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version && Arc::ptr_eq(&self.resource, &other.resource)
    }
}

/// All of a response but its nonce.
#[derive(Debug)]
pub struct Content {
    /// Of this type.
    pub ty: TypeUrl,
    /// In this protocol.
    pub protocol: Protocol,
    /// The resources, sorted by name.
    pub items: Vec<Item>,
    /// Names of what is gone, sorted; always empty in state of the world.
    pub removed: Vec<Arc<str>>,
    /// Hash over what the client will have (state of the world) or the revision (delta, for people only).
    pub version: u64,
    body: OnceLock<Bytes>,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty
            && self.protocol == other.protocol
            && self.version == other.version
            && self.items == other.items
            && self.removed == other.removed
    }
}

impl Content {
    /// A response that is not encoded yet.
    pub fn new(
        ty: TypeUrl,
        protocol: Protocol,
        items: Vec<Item>,
        removed: Vec<Arc<str>>,
        version: u64,
    ) -> Self {
        Self {
            ty,
            protocol,
            items,
            removed,
            version,
            body: OnceLock::new(),
        }
    }

    /// Hash that agrees with equality.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut h = FxHasher::default();
        (
            self.ty as u8,
            self.protocol as u8,
            self.version,
            self.items.len(),
        )
            .hash(&mut h);
        for item in &self.items {
            (Arc::as_ptr(&item.resource) as usize, item.version).hash(&mut h);
        }
        self.removed.hash(&mut h);
        h.finish()
    }

    /// The encoded message without its nonce, which the sender writes before it. Encoded at the first call.
    pub fn body(&self) -> Bytes {
        self.body.get_or_init(|| self.encode()).clone()
    }

    /// Whether [`body`](Self::body) was called before.
    pub fn is_encoded(&self) -> bool {
        self.body.get().is_some()
    }

    fn encode(&self) -> Bytes {
        match self.protocol {
            Protocol::Delta => self.encode_delta(),
            Protocol::Sotw => self.encode_sotw(),
        }
    }

    fn encode_delta(&self) -> Bytes {
        let url = self.ty.as_str();
        let wrapped: Vec<(usize, usize)> = self
            .items
            .iter()
            .map(|i| delta_lengths(url, &i.resource))
            .collect();
        let total: usize = wrapped
            .iter()
            .map(|(_, len)| field_len(2, *len))
            .sum::<usize>()
            + self
                .removed
                .iter()
                .map(|n| field_len(6, n.len()))
                .sum::<usize>()
            + field_len(1, 16)
            + field_len(4, url.len());
        let mut out = BytesMut::with_capacity(total);
        put_hex(1, self.version, &mut out);
        put_bytes(4, url.as_bytes(), &mut out);
        for (item, (any, len)) in self.items.iter().zip(&wrapped) {
            put_head(2, *len, &mut out);
            put_hex(1, item.version, &mut out);
            put_head(2, *any, &mut out);
            put_bytes(1, url.as_bytes(), &mut out);
            put_bytes(2, &item.resource.body, &mut out);
            put_bytes(3, item.resource.name.as_bytes(), &mut out);
        }
        for name in &self.removed {
            put_bytes(6, name.as_bytes(), &mut out);
        }
        debug_assert_eq!(out.len(), total, "the length was computed before");
        out.freeze()
    }

    fn encode_sotw(&self) -> Bytes {
        let url = self.ty.as_str();
        let total: usize = self
            .items
            .iter()
            .map(|i| field_len(2, any_len(url, &i.resource)))
            .sum::<usize>()
            + field_len(1, 16)
            + field_len(4, url.len());
        let mut out = BytesMut::with_capacity(total);
        put_hex(1, self.version, &mut out);
        put_bytes(4, url.as_bytes(), &mut out);
        for item in &self.items {
            put_head(2, any_len(url, &item.resource), &mut out);
            put_bytes(1, url.as_bytes(), &mut out);
            put_bytes(2, &item.resource.body, &mut out);
        }
        debug_assert_eq!(out.len(), total, "the length was computed before");
        out.freeze()
    }
}

/// Lengths of the `Any` and of the `Resource` around it.
fn delta_lengths(url: &str, resource: &Resource) -> (usize, usize) {
    let any = any_len(url, resource);
    (
        any,
        field_len(1, 16) + field_len(2, any) + field_len(3, resource.name.len()),
    )
}

fn any_len(url: &str, resource: &Resource) -> usize {
    field_len(1, url.len()) + field_len(2, resource.body.len())
}

fn field_len(tag: u32, len: usize) -> usize {
    key_len(tag) + encoded_len_varint(len as u64) + len
}

fn put_head(tag: u32, len: usize, out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

fn put_bytes(tag: u32, value: &[u8], out: &mut BytesMut) {
    put_head(tag, value.len(), out);
    out.put_slice(value);
}

fn put_hex(tag: u32, value: u64, out: &mut BytesMut) {
    put_head(tag, 16, out);
    out.put_slice(&hex(value));
}

/// Sixteen hexadecimal digits: the form of versions and nonces on the wire.
pub(crate) fn hex(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().enumerate() {
        let nibble = (value >> (60 - 4 * at)) as u8 & 0xf;
        *digit = if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        };
    }
    digits
}

/// Reads [`hex`] back; `None` if it is not of that form.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    let ours = text.len() == 16
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if ours {
        u64::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};

    use super::*;

    fn item(name: &str, size: usize) -> Item {
        let resource = Arc::new(Resource::from_bytes(name, Bytes::from(vec![7; size])));
        Item {
            version: resource.version,
            resource,
        }
    }

    #[test]
    fn encoded_by_hand_reads_as_the_message() {
        for size in [0, 1, 127, 128, 20_000] {
            let items = vec![item("a", size), item("outbound|80||b", 3)];
            let content = Content::new(
                TypeUrl::Cluster,
                Protocol::Delta,
                items.clone(),
                vec!["c".into()],
                0xab,
            );
            let m = DeltaDiscoveryResponse::decode(content.body()).unwrap();
            assert_eq!(m.type_url, TypeUrl::Cluster.as_str());
            assert_eq!(m.system_version_info, "00000000000000ab");
            assert_eq!(m.removed_resources, ["c"]);
            assert_eq!(m.resources[1].name, "outbound|80||b");
            assert_eq!(m.resources[0].version, format!("{:016x}", items[0].version));
            let any = m.resources[0].resource.as_ref().unwrap();
            assert_eq!(
                (any.type_url.as_str(), any.value.len()),
                (TypeUrl::Cluster.as_str(), size)
            );

            let content = Content::new(TypeUrl::Route, Protocol::Sotw, items, vec![], 1);
            let m = DiscoveryResponse::decode(content.body()).unwrap();
            assert_eq!(
                (m.resources.len(), m.version_info.as_str()),
                (2, "0000000000000001")
            );
            assert_eq!(m.resources[0].value.len(), size);
        }
    }

    #[test]
    fn hexadecimal_versions_round_trip_and_others_are_refused() {
        for v in [0, 1, 0xdead_beef, u64::MAX] {
            assert_eq!(parse_hex(std::str::from_utf8(&hex(v)).unwrap()), Some(v));
        }
        for text in [
            "",
            "1",
            "00000000000000AB",
            "+000000000000001",
            "2026-08-22T10:00:00Z/1",
        ] {
            assert_eq!(parse_hex(text), None);
        }
    }
}
