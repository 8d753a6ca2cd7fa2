//! Operations on headers.
//!
//! Istio: pilot/pkg/networking/core/route/route.go TranslateHeadersOperations, 1.32.

use std::collections::BTreeMap;

use policy::edge::STATED;
use proto_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use proto_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration};
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

/// Hides from backends what is kept of what clients state; routes have told it by then.
pub(super) fn hide_stated(config: &mut RouteConfiguration) {
    config.request_headers_to_remove.push(STATED.to_owned());
}

/// Tells backends how a client is connected, as ingress-nginx does, in headers of which the route says nothing itself. What
/// clients state in them passes only where the proxy trusts who states it; what they said of `x-forwarded-for` has another name,
/// with the address that it came from behind it where nothing is `kept`.
pub(super) fn tell_client(route: &mut Route, tls: bool, trusts: bool, kept: bool) {
    const ORIGINAL: &str = "x-original-forwarded-for";
    const CLIENT: &str = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%";
    const SCHEME: &str = "%REQ(x-forwarded-proto)%";
    let replace = HeaderAppendAction::OverwriteIfExistsOrAdd;
    let of_client = match trusts {
        true => HeaderAppendAction::AddIfAbsent,
        false => replace,
    };
    let original = match kept {
        true => format!("%REQ({STATED})%"),
        false => "%REQ(x-forwarded-for)%".to_owned(),
    };
    let told = [
        ("x-real-ip", CLIENT, replace),
        (ORIGINAL, &*original, replace),
        ("x-forwarded-for", CLIENT, replace),
        ("x-forwarded-host", "%REQ(:authority)%", of_client),
        (
            "x-forwarded-port",
            if tls { "443" } else { "80" },
            of_client,
        ),
        ("x-forwarded-scheme", SCHEME, replace),
        ("x-scheme", SCHEME, replace),
    ];
    let is_stated = |name: &str| {
        let mut set = route
            .request_headers_to_add
            .iter()
            .filter_map(|o| o.header.as_ref());
        let mut removed = route.request_headers_to_remove.iter();
        set.any(|header| header.key.eq_ignore_ascii_case(name))
            || removed.any(|removed| removed.eq_ignore_ascii_case(name))
    };
    // Where clients state nothing the value is empty, and does not replace what they say there.
    let drops = kept && !is_stated(ORIGINAL);
    let told = told.iter().filter(|(name, ..)| !is_stated(name));
    let told: Vec<HeaderValueOption> = told
        .map(|(name, value, action)| option(name, value, *action))
        .collect();
    route.request_headers_to_add.extend(told);
    if drops {
        route.request_headers_to_remove.push(ORIGINAL.to_owned());
    }
    // Some backends take it for the proxy that they are to use themselves.
    route.request_headers_to_remove.push("proxy".to_owned());
}

/// Says that clients must come by TLS, unless the route says it itself.
pub(super) fn secure_transport(route: &mut Route, value: &str) {
    const NAME: &str = "strict-transport-security";
    let mut set = route
        .response_headers_to_add
        .iter()
        .filter_map(|o| o.header.as_ref());
    let mut removed = route.response_headers_to_remove.iter();
    let is_stated = set.any(|header| header.key.eq_ignore_ascii_case(NAME))
        || removed.any(|removed| removed.eq_ignore_ascii_case(NAME));
    if !is_stated {
        let action = HeaderAppendAction::OverwriteIfExistsOrAdd;
        route
            .response_headers_to_add
            .push(option(NAME, value, action));
    }
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
