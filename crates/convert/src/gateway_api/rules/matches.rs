//! Which requests a rule is about.

use std::collections::BTreeMap;

use model::kinds::gateway_api::{
    GrpcMatch, GrpcMethodMatch, HttpMatch, HttpPathMatch, MatchType as NamedMatchType, NamedMatch,
    PathMatchType,
};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};

use super::{RouteError, reason};

/// A match of either kind of route.
#[derive(Clone, Copy)]
pub(super) enum Matched<'a> {
    Http(&'a HttpMatch),
    Grpc(&'a GrpcMatch),
}

impl<'a> Matched<'a> {
    /// The conditions on headers.
    pub(super) fn headers(&self) -> &'a [NamedMatch] {
        match self {
            Self::Http(matched) => &matched.headers,
            Self::Grpc(matched) => &matched.headers,
        }
    }

    /// The conditions on query parameters.
    pub(super) fn query_params(&self) -> &'a [NamedMatch] {
        match self {
            Self::Http(matched) => &matched.query_params,
            Self::Grpc(_) => &[],
        }
    }

    /// The match as Istio writes it.
    ///
    /// # Errors
    /// It matches nothing that there could be.
    pub(super) fn request(&self) -> Result<HttpMatchRequest, RouteError> {
        Ok(match self {
            Self::Http(matched) => HttpMatchRequest {
                uri: Some(path(&matched.path)),
                headers: named(&matched.headers),
                query_params: named(&matched.query_params),
                method: matched
                    .method
                    .as_ref()
                    .map(|m| text(MatchType::Exact(m.to_string()))),
                ..HttpMatchRequest::default()
            },
            Self::Grpc(matched) => HttpMatchRequest {
                uri: matched.method.as_ref().map(method).transpose()?,
                headers: named(&matched.headers),
                ..HttpMatchRequest::default()
            },
        })
    }
}

fn text(match_type: MatchType) -> StringMatch {
    StringMatch {
        match_type: Some(match_type),
    }
}

fn path(path: &HttpPathMatch) -> StringMatch {
    let value = &*path.value;
    text(match path.match_type {
        PathMatchType::PathPrefix => {
            // A slash at the end means nothing, but for that of the root.
            let prefix = value.strip_suffix('/').filter(|prefix| !prefix.is_empty());
            MatchType::Prefix(prefix.unwrap_or(value).to_owned())
        }
        PathMatchType::Exact => MatchType::Exact(value.to_owned()),
        PathMatchType::RegularExpression => MatchType::Regex(value.to_owned()),
    })
}

/// Conditions by name. Of those with one name the last counts.
fn named(conditions: &[NamedMatch]) -> BTreeMap<String, StringMatch> {
    let condition = |condition: &NamedMatch| {
        let value = condition.value.to_string();
        let matched = match condition.match_type {
            NamedMatchType::Exact => MatchType::Exact(value),
            NamedMatchType::RegularExpression => MatchType::Regex(value),
        };
        (condition.name.to_string(), text(matched))
    };
    conditions.iter().map(condition).collect()
}

/// The path of a gRPC request is `/service/method`.
fn method(matched: &GrpcMethodMatch) -> Result<StringMatch, RouteError> {
    let (service, method) = (matched.service.as_deref(), matched.method.as_deref());
    let is_exact = matched.match_type == NamedMatchType::Exact;
    Ok(text(match (service, method) {
        (None, None) => {
            let message =
                "a match on the method of gRPC requests names neither a service nor a method";
            return Err(RouteError::new(reason::INVALID_CONFIGURATION, message));
        }
        (Some(service), None) if is_exact => MatchType::Prefix(format!("/{service}/")),
        (Some(service), None) => MatchType::Regex(format!("/{service}/.+")),
        (None, Some(method)) => MatchType::Regex(format!("/[^/]+/{method}")),
        (Some(service), Some(method)) => {
            let path = format!("/{service}/{method}");
            match is_exact {
                true => MatchType::Exact(path),
                false => MatchType::Regex(path),
            }
        }
    }))
}
