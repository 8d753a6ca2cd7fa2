//! What Consul answers, as far as it is read. Fields that are missing or null are empty.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::report::Instance;

/// An answer that is not what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("the answer makes no sense: {0}")]
pub struct Garbled(#[from] serde_json::Error);

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    #[serde(deserialize_with = "or_default")]
    node: Node,
    #[serde(deserialize_with = "or_default")]
    service: Service,
    #[serde(deserialize_with = "or_default")]
    checks: Vec<Check>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Node {
    #[serde(deserialize_with = "or_default")]
    address: Arc<str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Service {
    #[serde(deserialize_with = "or_default")]
    address: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    port: i64,
    #[serde(deserialize_with = "or_default")]
    meta: BTreeMap<Arc<str>, Arc<str>>,
    weights: Option<Weights>,
    #[serde(deserialize_with = "or_default")]
    tags: Vec<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Weights {
    #[serde(default = "one")]
    passing: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Check {
    #[serde(deserialize_with = "or_default")]
    status: Arc<str>,
}

/// The instances in an answer of `/v1/health/service/NAME` that have a tag, if one is asked for. One is healthy if all its
/// checks pass, those of its node among them.
///
/// # Errors
///
/// When it is no such answer.
pub fn instances(body: &[u8], tag: &str) -> Result<Vec<Instance>, Garbled> {
    let listed: Vec<Listed> = serde_json::from_slice(body)?;
    let has_tag = |one: &Listed| tag.is_empty() || one.service.tags.iter().any(|t| &**t == tag);
    let instances = listed.into_iter().filter(has_tag).map(|one| Instance {
        address: match one.service.address.is_empty() {
            true => one.node.address,
            false => one.service.address,
        },
        port: u16::try_from(one.service.port).unwrap_or(0),
        protocol: None,
        weight: one.service.weights.map_or(1.0, |w| w.passing),
        healthy: one.checks.iter().all(|check| &*check.status == "passing"),
        metadata: one.service.meta,
    });
    Ok(instances.collect())
}

/// The services in an answer of `/v1/catalog/services` that have a tag, if one is asked for.
///
/// # Errors
///
/// When it is no such answer.
pub fn names(body: &[u8], tag: &str) -> Result<Vec<Arc<str>>, Garbled> {
    let listed: BTreeMap<Arc<str>, Option<Vec<Arc<str>>>> = serde_json::from_slice(body)?;
    let has_tag = |tags: &Option<Vec<Arc<str>>>| {
        let mut tags = tags.iter().flatten();
        tag.is_empty() || tags.any(|one| &**one == tag)
    };
    let named = listed.into_iter().filter(|(_, tags)| has_tag(tags));
    Ok(named.map(|(name, _)| name).collect())
}

/// The first datacenter in an answer of `/v1/catalog/datacenters`: that of the server which answers.
///
/// # Errors
///
/// When it is no such answer.
pub fn datacenter(body: &[u8]) -> Result<Option<Arc<str>>, Garbled> {
    let all: Vec<Arc<str>> = serde_json::from_slice(body)?;
    Ok(all.into_iter().next())
}

/// What is told of a service in a summary of all, hashed: when it is another, so may be its instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line(u64);

#[derive(Deserialize, Hash, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Row {
    #[serde(deserialize_with = "or_default")]
    name: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    kind: Arc<str>,
    #[serde(deserialize_with = "or_default")]
    tags: Vec<Arc<str>>,
    #[serde(deserialize_with = "or_default")]
    nodes: Vec<Arc<str>>,
    instance_count: i64,
    checks_passing: i64,
    checks_warning: i64,
    checks_critical: i64,
}

/// The services in an answer of `/v1/internal/ui/services`, with what is told of each.
///
/// # Errors
///
/// When it is no such answer.
pub fn summary(body: &[u8], tag: &str) -> Result<BTreeMap<Arc<str>, Line>, Garbled> {
    let rows: Vec<Row> = serde_json::from_slice(body)?;
    let has_tag = |row: &Row| tag.is_empty() || row.tags.iter().any(|one| &**one == tag);
    let rows = rows.into_iter().filter(has_tag);
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    Ok(rows
        .map(|row| (row.name.clone(), Line(hasher.hash_one(&row))))
        .collect())
}
