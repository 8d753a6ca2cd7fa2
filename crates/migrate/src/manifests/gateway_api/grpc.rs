//! GRPCRoutes: where all rules of a host are of Ingresses for gRPC and match services and methods.

use serde_json::{Value, json};

use super::rule::{Asked, Path, Rule};

/// Whether a GRPCRoute can have a rule.
pub(super) fn suits(rule: &Rule) -> bool {
    let mut filters = rule.does.filters.iter();
    let has_others = filters.any(|filter| {
        let name = filter["type"].as_str().unwrap_or_default();
        !matches!(
            name,
            "RequestHeaderModifier" | "ResponseHeaderModifier" | "RequestMirror"
        )
    });
    let asks_others = |asked: &Asked| asked.method.is_some() || !asked.query.is_empty();
    rule.is_grpc
        && !has_others
        && rule.does.timeouts.is_none()
        && rule.does.retry.is_none()
        && !rule.asked.iter().any(asks_others)
        && method(&rule.path).is_some()
}

/// The service and the method that a path stands for; neither where it is that of all.
fn method(path: &Path) -> Option<(Option<&str>, Option<&str>)> {
    let name = |text: &str| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
        !text.is_empty() && text.bytes().all(good)
    };
    match path {
        Path::Prefix(path) if path == "/" => Some((None, None)),
        Path::Prefix(path) => {
            let service = path.strip_prefix('/').filter(|text| name(text))?;
            Some((Some(service), None))
        }
        Path::Exact(path) => {
            let (service, method) = path.strip_prefix('/')?.split_once('/')?;
            (name(service) && name(method)).then_some((Some(service), Some(method)))
        }
        Path::Regex(_) => None,
    }
}

/// A match of a rule; none where it matches all.
pub(super) fn matched(rule: &Rule, asked: &Asked) -> Option<Value> {
    let (service, method) = method(&rule.path)?;
    let mut matched = json!({});
    if let Some(service) = service {
        matched["method"] = json!({ "type": "Exact", "service": service });
    }
    if let Some(method) = method {
        matched["method"]["method"] = method.into();
    }
    if !asked.headers.is_empty() {
        matched["headers"] = asked.headers.clone().into();
    }
    matched
        .as_object()
        .is_some_and(|m| !m.is_empty())
        .then_some(matched)
}
