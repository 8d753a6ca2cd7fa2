//! Tags of spans.

use std::collections::BTreeMap;

use mesh::capabilities::name::HTTP_RBAC;
use proto_envoy::envoy::r#type::metadata::v3::{
    MetadataKey, MetadataKind, metadata_key, metadata_kind,
};
use proto_envoy::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use proto_istio::mesh::tracing::custom_tag::Type as MeshTag;
use proto_istio::telemetry::tracing::CustomTag as TelemetryTag;
use proto_istio::telemetry::tracing::custom_tag::Type as TelemetryType;

use super::Traced;

/// What authorization would have decided for policies that only rehearse: tag and key of the RBAC filter's metadata.
const DRY_RUN: [(&str, &str); 4] = [
    (
        "istio.authorization.dry_run.allow_policy.name",
        "istio_dry_run_allow_shadow_effective_policy_id",
    ),
    (
        "istio.authorization.dry_run.allow_policy.result",
        "istio_dry_run_allow_shadow_engine_result",
    ),
    (
        "istio.authorization.dry_run.deny_policy.name",
        "istio_dry_run_deny_shadow_effective_policy_id",
    ),
    (
        "istio.authorization.dry_run.deny_policy.result",
        "istio_dry_run_deny_shadow_engine_result",
    ),
];

/// Istio's own tags if asked for, and the others, by name.
pub(super) fn all(traced: &Traced, istio_tags: bool, mut tags: Vec<CustomTag>) -> Vec<CustomTag> {
    if istio_tags {
        let own = of_workload(traced).into_iter();
        let rehearsed = DRY_RUN.iter().map(|(name, key)| rbac_metadata(name, key));
        tags = own.chain(rehearsed).chain(tags).collect();
    }
    tags.sort_by(|a, b| a.tag.cmp(&b.tag));
    tags
}

/// The tags of the proxy's configuration.
pub(super) fn of_proxy(tracing: &proto_istio::mesh::Tracing) -> Vec<CustomTag> {
    tracing
        .custom_tags
        .iter()
        .filter_map(|(name, stated)| {
            let kind = match stated.r#type.as_ref()? {
                MeshTag::Literal(l) => literal(&l.value),
                MeshTag::Environment(e) => environment(&e.name, &e.default_value),
                MeshTag::Header(h) => header(&h.name, &h.default_value),
            };
            Some(tag(name, kind))
        })
        .collect()
}

/// The tags of a Telemetry resource, without those that a proxy cannot format.
pub(super) fn of_telemetry(tags: &BTreeMap<String, TelemetryTag>, formats: bool) -> Vec<CustomTag> {
    tags.iter()
        .filter_map(|(name, stated)| {
            let kind = match stated.r#type.as_ref()? {
                TelemetryType::Literal(l) => literal(&l.value),
                TelemetryType::Environment(e) => environment(&e.name, &e.default_value),
                TelemetryType::Header(h) => header(&h.name, &h.default_value),
                TelemetryType::Formatter(_) if !formats => return None,
                TelemetryType::Formatter(f) => custom_tag::Type::Value(f.value.clone()),
            };
            Some(tag(name, kind))
        })
        .collect()
}

fn of_workload(traced: &Traced) -> [CustomTag; 5] {
    let or = |stated: &str, default: &str| -> custom_tag::Type {
        literal(if stated.is_empty() { default } else { stated })
    };
    [
        tag(
            "istio.canonical_revision",
            or(&traced.canonical_revision, "latest"),
        ),
        tag(
            "istio.canonical_service",
            or(&traced.canonical_service, "unknown"),
        ),
        tag("istio.mesh_id", or(&traced.mesh_id, "unknown")),
        tag("istio.namespace", or(&traced.namespace, "default")),
        tag("istio.cluster_id", or(&traced.cluster, "unknown")),
    ]
}

fn tag(name: &str, kind: custom_tag::Type) -> CustomTag {
    CustomTag {
        tag: name.to_owned(),
        r#type: Some(kind),
    }
}

fn literal(value: &str) -> custom_tag::Type {
    custom_tag::Type::Literal(custom_tag::Literal {
        value: value.to_owned(),
    })
}

fn environment(name: &str, default: &str) -> custom_tag::Type {
    custom_tag::Type::Environment(custom_tag::Environment {
        name: name.to_owned(),
        default_value: default.to_owned(),
    })
}

fn header(name: &str, default: &str) -> custom_tag::Type {
    custom_tag::Type::RequestHeader(custom_tag::Header {
        name: name.to_owned(),
        default_value: default.to_owned(),
    })
}

fn rbac_metadata(name: &str, key: &str) -> CustomTag {
    let segment = metadata_key::PathSegment {
        segment: Some(metadata_key::path_segment::Segment::Key(key.to_owned())),
    };
    tag(
        name,
        custom_tag::Type::Metadata(custom_tag::Metadata {
            kind: Some(MetadataKind {
                kind: Some(metadata_kind::Kind::Request(metadata_kind::Request {})),
            }),
            metadata_key: Some(MetadataKey {
                key: HTTP_RBAC.to_owned(),
                path: vec![segment],
            }),
            default_value: String::new(),
        }),
    )
}
