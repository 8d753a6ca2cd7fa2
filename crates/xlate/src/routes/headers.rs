//! Operations on headers.
//!
//! Istio: pilot/pkg/networking/core/route/route.go TranslateHeadersOperations, 1.32.

use std::collections::BTreeMap;

use proto_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use proto_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_istio::networking::Headers;
use proto_istio::networking::headers::HeaderOperations;

/// What happens to headers on a route or on the way to one of its destinations.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) request_add: Vec<HeaderValueOption>,
    pub(super) request_remove: Vec<String>,
    pub(super) response_add: Vec<HeaderValueOption>,
    pub(super) response_remove: Vec<String>,
    /// The host that requests go out with: Envoy does not let it be set as a header.
    pub(super) authority: String,
}

pub(super) fn operations(headers: &Headers) -> Operations {
    let none = HeaderOperations::default();
    let request = headers.request.as_ref().unwrap_or(&none);
    let response = headers.response.as_ref().unwrap_or(&none);
    let authority = authority(&request.set).or_else(|| authority(&request.add));
    Operations {
        request_add: additions(request),
        request_remove: removals(request),
        response_add: additions(response),
        response_remove: removals(response),
        authority: authority.unwrap_or_default(),
    }
}

/// Tells backends the address of clients outside. What a client says of itself does not pass, though Envoy may set
/// nothing for those inside.
pub(super) fn tell_address(config: &mut RouteConfiguration) {
    const NAME: &str = "x-real-ip";
    let value = "%REQ(X-ENVOY-EXTERNAL-ADDRESS)%";
    let told = option(NAME, value, HeaderAppendAction::OverwriteIfExistsOrAdd);
    config.request_headers_to_remove.push(NAME.to_owned());
    config.request_headers_to_add.push(told);
}

/// A header to append to what may be there.
pub(super) fn appended(key: &str, value: &str) -> HeaderValueOption {
    option(key, value, HeaderAppendAction::AppendIfExistsOrAdd)
}

fn option(key: &str, value: &str, action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            ..HeaderValue::default()
        }),
        append_action: action as i32,
        ..HeaderValueOption::default()
    }
}

fn additions(operations: &HeaderOperations) -> Vec<HeaderValueOption> {
    let set = operations.set.iter().map(|(k, v)| {
        let action = HeaderAppendAction::OverwriteIfExistsOrAdd;
        (k, option(k, v, action))
    });
    let add = operations.add.iter().map(|(k, v)| (k, appended(k, v)));
    set.chain(add)
        .filter(|(k, _)| !is_internal(k))
        .map(|(_, option)| option)
        .collect()
}

fn removals(operations: &HeaderOperations) -> Vec<String> {
    let keys = operations.remove.iter();
    keys.filter(|k| !is_internal(k)).cloned().collect()
}

/// Whether Envoy keeps the header to itself.
fn is_internal(key: &str) -> bool {
    key.starts_with(':') || key.eq_ignore_ascii_case("host")
}

fn authority(headers: &BTreeMap<String, String>) -> Option<String> {
    headers
        .iter()
        .filter(|(k, v)| {
            !v.is_empty()
                && (k.eq_ignore_ascii_case(":authority") || k.eq_ignore_ascii_case("host"))
        })
        .map(|(_, v)| v.clone())
        .next_back()
}
