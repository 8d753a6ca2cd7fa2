//! What a control plane said last, on disk, so that a start does not need it: a file for each topic.
//!
//! A file is a response, as the other side sends it, behind a digest. It is written whole or not at all, and what cannot be read
//! of it is not known.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use disk::{open, private};
use prost::Message;
use proto_envoy::envoy::service::discovery::v3::DiscoveryResponse;
use xxhash_rust::xxh3::xxh3_128;

use crate::book::Entry;
use crate::limits::Limits;
use crate::read::{self, Read};
use crate::topic::Topic;
use crate::wire::Response;

/// What a file begins with: what it is, and in which form.
const MARK: &[u8; 8] = b"phmcp-1\n";
const DIGEST: usize = 16;

/// The folder of one control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In `folder`, by the address of the control plane.
    pub fn new(folder: &Path, address: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let plain = address.chars().map(|c| if is_plain(c) { c } else { '_' });
        let plain: String = plain.take(64).collect();
        let digest = xxh3_128(address.as_bytes()) as u32;
        Self {
            folder: folder.join(format!("{plain}-{digest:08x}")),
        }
    }

    /// Makes the folder, and reads what it has of the topics.
    ///
    /// # Errors
    ///
    /// When there cannot be such a folder.
    pub fn load(&self, topics: &[Topic], limits: &Limits) -> io::Result<Vec<(usize, Vec<Entry>)>> {
        private::own_folder(&self.folder)?;
        private::sweep(&self.folder);
        let mut known = Vec::new();
        for (n, topic) in topics.iter().enumerate() {
            let path = self.path(*topic);
            if !path.exists() {
                continue;
            }
            match load(&path, *topic, limits) {
                Ok(entries) => known.push((n, entries)),
                Err(reason) => {
                    tracing::warn!(file = %path.display(), reason, "What a control plane said last cannot be read.");
                }
            }
        }
        Ok(known)
    }

    /// Keeps what is in force of a topic.
    ///
    /// # Errors
    ///
    /// When it cannot be written; what was kept before is then still there.
    pub fn save(&self, topic: Topic, entries: &[Entry]) -> io::Result<()> {
        let response = DiscoveryResponse {
            type_url: topic.type_url(),
            resources: entries.iter().map(|e| read::any(topic, e)).collect(),
            ..DiscoveryResponse::default()
        };
        let body = response.encode_to_vec();
        let mut file = Vec::with_capacity(MARK.len() + DIGEST + body.len());
        file.extend_from_slice(MARK);
        file.extend_from_slice(&xxh3_128(&body).to_be_bytes());
        file.extend_from_slice(&body);
        private::replace(&self.path(topic), &file, &private::open_gate)
    }

    fn path(&self, topic: Topic) -> PathBuf {
        self.folder.join(topic.type_url().replace('/', "_"))
    }
}

fn load(path: &Path, topic: Topic, limits: &Limits) -> Result<Vec<Entry>, String> {
    // The bytes of the resources, and what stands around each.
    let largest = limits.bytes.saturating_mul(2);
    let largest = u64::try_from(largest).unwrap_or(u64::MAX);
    let file = open::read(path, largest).map_err(|e| e.to_string())?;
    entries(file.bytes.into(), topic, limits)
}

/// Reads a file of the cache.
///
/// # Errors
///
/// When it is cut, damaged, or another's.
pub fn entries(mut file: Bytes, topic: Topic, limits: &Limits) -> Result<Vec<Entry>, String> {
    if file.len() < MARK.len() + DIGEST || !file.starts_with(MARK) {
        return Err("it is not a file of this program".to_owned());
    }
    let body = file.split_off(MARK.len() + DIGEST);
    if file[MARK.len()..] != xxh3_128(&body).to_be_bytes() {
        return Err("it is damaged".to_owned());
    }
    let response = Response::read(body, false, limits).map_err(|e| e.to_string())?;
    if response.type_url != topic.type_url() {
        return Err(format!("it holds {}", response.type_url));
    }
    Ok(Read::of(topic, response, true).said.entries)
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    const TOPIC: Topic = Topic::Objects(Kind::ServiceEntry);

    fn entry() -> Entry {
        let any = mcp::Resource {
            namespace: "shop".into(),
            name: "a".into(),
            version: "7".into(),
            message: "istio.networking.v1alpha3.ServiceEntry".into(),
            ..mcp::Resource::default()
        };
        let response = Response {
            resources: vec![crate::wire::Sent {
                any: Some(any.encode()),
                ..Default::default()
            }],
            ..Response::default()
        };
        Read::of(TOPIC, response, true).said.entries.remove(0)
    }

    #[test]
    fn what_was_kept_is_read_again_and_an_empty_list_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (topics, limits) = ([TOPIC, Topic::MeshConfig], Limits::default());
        let cache = Cache::new(dir.path(), "istiod.istio-system.svc:15012");
        assert!(cache.load(&topics, &limits).unwrap().is_empty());
        cache.save(TOPIC, &[entry()]).unwrap();
        cache.save(Topic::MeshConfig, &[]).unwrap();
        let known = cache.load(&topics, &limits).unwrap();
        assert_eq!(known, [(0, vec![entry()]), (1, Vec::new())]);
        let other = Cache::new(dir.path(), "istiod.istio-system.svc_15012");
        assert!(other.load(&topics, &limits).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), "a:1");
        let limits = Limits::default();
        cache.load(&[TOPIC], &limits).unwrap();
        cache.save(TOPIC, &[entry()]).unwrap();
        let file = std::fs::read(cache.path(TOPIC)).unwrap();
        assert!(entries(file.clone().into(), TOPIC, &limits).is_ok());
        for end in 0..file.len() {
            assert!(
                entries(file[..end].to_vec().into(), TOPIC, &limits).is_err(),
                "{end}"
            );
        }
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 1;
            assert!(entries(file.into(), TOPIC, &limits).is_err(), "{at}");
        }
        let other = entries(file.into(), Topic::Objects(Kind::Gateway), &limits);
        assert!(other.unwrap_err().contains("ServiceEntry"));
    }
}
