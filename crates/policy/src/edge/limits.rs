//! How many requests are served: Envoy's token buckets of a route, told apart by descriptors.
//!
//! A bucket belongs to a route configuration of a proxy: proxies do not share it, and routes of new configurations start
//! with full ones.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use model::edge::RateLimit;
use prost_types::{Any, Duration};
use proto_envoy::envoy::config::core::v3::RuntimeFractionalPercent;
use proto_envoy::envoy::config::route::v3::{RateLimit as Actions, rate_limit};
use proto_envoy::envoy::extensions::common::ratelimit::v3::LocalRateLimitDescriptor;
use proto_envoy::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use proto_envoy::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use proto_envoy::envoy::r#type::metadata::v3::{MetadataKey, metadata_key};
use proto_envoy::envoy::r#type::v3::{
    FractionalPercent, HttpStatus, StatusCode, TokenBucket, fractional_percent,
};
use xds::any;

use super::{EXEMPT, LIMITS, STAT_PREFIX, addresses};

use rate_limit::action::{ActionSpecifier, GenericKey, MetaData, RemoteAddress};

/// How many clients have a bucket of their own at once; of more, the one that came longest ago loses its.
const CLIENTS: u32 = 65_536;
/// The shortest time between fills that Envoy takes.
const SHORTEST_MS: u128 = 50;
/// What names of what is written down of exempt clients start with.
const EXEMPT_PREFIX: &str = "pilothouse_exempt_";

/// Adds what routes with limits say. Of limits that answer with different statuses the first decides.
pub(super) fn add(limits: &[RateLimit], configs: &mut BTreeMap<String, Any>) {
    let Some(first) = limits.first() else {
        return;
    };
    let except = exempt(limits);
    if !except.is_empty() {
        let noted = addresses::noted_ranges(&except, EXEMPT_PREFIX);
        configs.insert(EXEMPT.to_owned(), any(&noted));
    }
    let numbered = || limits.iter().enumerate();
    let exempts = !except.is_empty();
    let config = LocalRateLimit {
        stat_prefix: STAT_PREFIX.to_owned(),
        status: Some(HttpStatus {
            code: status(first.status) as i32,
        }),
        // Requests that match no descriptor are not counted.
        token_bucket: Some(bucket(u32::MAX, u32::MAX, 1_000)),
        always_consume_default_token_bucket: Some(false),
        filter_enabled: Some(all()),
        filter_enforced: Some(all()),
        descriptors: numbered()
            .map(|(at, l)| descriptor(at, l, exempts))
            .collect(),
        rate_limits: numbered().map(|(at, l)| actions(at, l, exempts)).collect(),
        max_dynamic_descriptors: Some(CLIENTS),
        ..LocalRateLimit::default()
    };
    configs.insert(LIMITS.to_owned(), any(&config));
}

/// The clients that no limit counts.
fn exempt(limits: &[RateLimit]) -> BTreeSet<IpNet> {
    let mut lists = limits.iter().map(|limit| &limit.except);
    let first = lists.next().cloned().unwrap_or_default();
    lists.fold(first, |common, list| &common & list)
}

/// What requests are compared with. A value that is left out stands for each one that comes.
fn descriptor(at: usize, limit: &RateLimit, exempts: bool) -> LocalRateLimitDescriptor {
    let entry = |key: &str, value: &str| Entry {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let mut entries = vec![entry("limit", &at.to_string())];
    if exempts {
        entries.push(entry("exempt", "denied"));
    }
    if limit.per_client {
        entries.push(entry("remote_address", ""));
    }
    let every = limit.every.as_millis().max(SHORTEST_MS);
    let every = u64::try_from(every).unwrap_or(u64::MAX);
    LocalRateLimitDescriptor {
        entries,
        token_bucket: Some(bucket(limit.burst.max(1), limit.fill.max(1), every)),
        ..LocalRateLimitDescriptor::default()
    }
}

/// What is known of a request, in the same order.
fn actions(at: usize, limit: &RateLimit, exempts: bool) -> Actions {
    let mut list = vec![ActionSpecifier::GenericKey(GenericKey {
        descriptor_key: "limit".to_owned(),
        descriptor_value: at.to_string(),
        ..GenericKey::default()
    })];
    if exempts {
        list.push(ActionSpecifier::Metadata(MetaData {
            descriptor_key: "exempt".to_owned(),
            metadata_key: Some(MetadataKey {
                key: "envoy.filters.http.rbac".to_owned(),
                path: vec![metadata_key::PathSegment {
                    segment: Some(metadata_key::path_segment::Segment::Key(format!(
                        "{EXEMPT_PREFIX}shadow_engine_result"
                    ))),
                }],
            }),
            // Where nothing was found out, requests are counted.
            default_value: "denied".to_owned(),
            ..MetaData::default()
        }));
    }
    if limit.per_client {
        list.push(ActionSpecifier::RemoteAddress(RemoteAddress {}));
    }
    Actions {
        actions: list
            .into_iter()
            .map(|specifier| rate_limit::Action {
                action_specifier: Some(specifier),
            })
            .collect(),
        ..Actions::default()
    }
}

fn bucket(burst: u32, fill: u32, every_ms: u64) -> TokenBucket {
    let nanos = (every_ms % 1_000) * 1_000_000;
    TokenBucket {
        max_tokens: burst,
        tokens_per_fill: Some(fill),
        fill_interval: Some(Duration {
            seconds: i64::try_from(every_ms / 1_000)
                .unwrap_or(i64::MAX)
                .min(MAX_SECONDS),
            nanos: i32::try_from(nanos).unwrap_or(0),
        }),
    }
}

/// Longer times cannot be written down in Envoy.
const MAX_SECONDS: i64 = 315_576_000;

/// A status that Envoy knows and that says no.
fn status(stated: u16) -> StatusCode {
    let known = StatusCode::try_from(i32::from(stated)).ok();
    known
        .filter(|_| stated >= 400)
        .unwrap_or(StatusCode::ServiceUnavailable)
}

fn all() -> RuntimeFractionalPercent {
    RuntimeFractionalPercent {
        default_value: Some(FractionalPercent {
            numerator: 100,
            denominator: fractional_percent::DenominatorType::Hundred as i32,
        }),
        ..RuntimeFractionalPercent::default()
    }
}
