//! Browsers of other origins.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go createCorsFilter, 1.32.

use std::sync::Arc;

use model::kinds::gateway_api::Cors;
use proto_istio::networking::cors_policy::UnmatchedPreflights;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{CorsPolicy, StringMatch};
use proto_istio::wkt;

/// Any origin: a scheme, a host and possibly a port (RFC 6454).
const ANY_ORIGIN: &str = r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s?#]+$";

/// The characters that mean something in an expression.
const SPECIAL: &str = r"\.+*?()|[]{}^$";

pub(super) fn policy(cors: &Cors) -> CorsPolicy {
    let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
    let origins = cors
        .allow_origins
        .iter()
        .filter(|origin| !origin.is_empty());
    CorsPolicy {
        allow_origins: origins.map(|allowed| origin(allowed)).collect(),
        allow_credentials: cors.allow_credentials.filter(|allowed| *allowed),
        allow_methods: texts(&cors.allow_methods),
        allow_headers: texts(&cors.allow_headers),
        expose_headers: texts(&cors.expose_headers),
        max_age: (cors.max_age > 0).then(|| wkt::Duration::new(cors.max_age.into(), 0)),
        unmatched_preflights: UnmatchedPreflights::Ignore.into(),
        ..CorsPolicy::default()
    }
}

/// The cheapest match that means the same as the origin.
fn origin(origin: &str) -> StringMatch {
    let matched = match origin.split_once('*') {
        None => MatchType::Exact(origin.to_owned()),
        Some(("", "")) => MatchType::Regex(ANY_ORIGIN.to_owned()),
        Some((prefix, "")) => MatchType::Prefix(prefix.to_owned()),
        Some(_) => {
            let literals: Vec<String> = origin.split('*').map(literal).collect();
            MatchType::Regex(format!("^{}$", literals.join(".*")))
        }
    };
    StringMatch {
        match_type: Some(matched),
    }
}

/// An expression for just this text.
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for character in text.chars() {
        if SPECIAL.contains(character) {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal
}
