//! Answers of another service in place of answers with certain statuses.

use std::collections::BTreeMap;

use model::edge::Fallback;
use prost_types::Struct;
use prost_types::value::Kind;

use super::text::{line, token};
use super::{FALLBACK, object, string};

/// Replaces answers; what a route asks for is in its metadata.
pub(super) const SCRIPT: &str = include_str!("fallback.lua");

/// How long the other service may take.
const TIMEOUT_MS: f64 = 5_000.0;

/// Adds what routes say that have answers replaced.
pub(super) fn add(
    stated: &Fallback,
    cluster: impl Fn(&str, u16) -> String,
    metadata: &mut BTreeMap<String, Struct>,
) {
    if stated.statuses.is_empty() {
        return;
    }
    let statuses: Vec<String> = stated.statuses.iter().map(u16::to_string).collect();
    let statuses = statuses.iter().map(|s| (&**s, Kind::BoolValue(true)));
    let headers = stated
        .headers
        .iter()
        .filter_map(|(name, value)| Some((token(name)?, string(&line(value)))));
    let asked = object([
        ("cluster", string(&cluster(&stated.host, stated.port))),
        ("timeout_ms", Kind::NumberValue(TIMEOUT_MS)),
        ("statuses", Kind::StructValue(object(statuses))),
        ("headers", Kind::StructValue(object(headers))),
    ]);
    let asked = object([("fallback", Kind::StructValue(asked))]);
    metadata.insert(FALLBACK.to_owned(), asked);
}
