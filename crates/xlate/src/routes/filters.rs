//! What a route or virtual host tells HTTP filters: faults, CORS, sticky sessions.

use model::grpc::STATUS_NAMES;
use model::service::Picker;
use proto_envoy::envoy::config::core::v3::GrpcService;
use proto_envoy::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto_envoy::envoy::config::core::v3::{RuntimeFractionalPercent, TypedExtensionConfig};
use proto_envoy::envoy::extensions::filters::common::fault::v3::{FaultDelay, fault_delay};
use proto_envoy::envoy::extensions::filters::http::cors::v3::CorsPolicy as EnvoyCors;
use proto_envoy::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{
    BodySendMode, HeaderSendMode,
};
use proto_envoy::envoy::extensions::filters::http::ext_proc::v3::{
    ExtProcOverrides, ExtProcPerRoute, ProcessingMode, ext_proc_per_route,
};
use proto_envoy::envoy::extensions::filters::http::fault::v3::{
    FaultAbort, HttpFault, fault_abort,
};
use proto_envoy::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route,
};
use proto_envoy::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use proto_envoy::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use proto_envoy::envoy::r#type::http::v3::Cookie;
use proto_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use proto_envoy::envoy::r#type::v3::FractionalPercent;
use proto_envoy::envoy::r#type::v3::fractional_percent::DenominatorType;
use proto_istio::networking::cors_policy::UnmatchedPreflights;
use proto_istio::networking::http_fault_injection::abort::ErrorType;
use proto_istio::networking::http_fault_injection::delay::HttpDelayType;
use proto_istio::networking::{CorsPolicy, HttpFaultInjection, Percent};

use super::matching::text_matcher;
use super::rule::cluster_name;
use model::session::Session;
use xds::any;

pub(super) const FAULT: &str = "envoy.filters.http.fault";
pub(super) const CORS: &str = "envoy.filters.http.cors";
pub(super) const PICKER: &str = "envoy.filters.http.ext_proc";
pub(super) const SESSION: &str = "envoy.filters.http.stateful_session";

/// A share of requests that may have fractions of a percent.
// Envoy counts parts of a million; what is finer is cut off.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn fraction(percent: &Percent) -> FractionalPercent {
    FractionalPercent {
        numerator: (percent.value * 10_000.0) as u32,
        denominator: DenominatorType::Million as i32,
    }
}

/// A share of requests in whole percent.
pub(super) fn whole(percent: u32) -> FractionalPercent {
    FractionalPercent {
        numerator: percent,
        denominator: DenominatorType::Hundred as i32,
    }
}

/// A share of requests that the runtime cannot change.
pub(super) fn fixed(percent: FractionalPercent) -> RuntimeFractionalPercent {
    RuntimeFractionalPercent {
        default_value: Some(percent),
        ..RuntimeFractionalPercent::default()
    }
}

/// Istio: pilot/pkg/networking/core/route/route.go TranslateFault, 1.32.
pub(super) fn fault(stated: &HttpFaultInjection) -> HttpFault {
    let delay = stated.delay.as_ref().and_then(|delay| {
        let percentage = match &delay.percentage {
            Some(percent) => fraction(percent),
            None => whole(delay.percent.cast_unsigned()),
        };
        let Some(HttpDelayType::FixedDelay(fixed)) = &delay.http_delay_type else {
            return None;
        };
        Some(FaultDelay {
            percentage: Some(percentage),
            fault_delay_secifier: Some(fault_delay::FaultDelaySecifier::FixedDelay(
                (*fixed).into(),
            )),
        })
    });
    let abort = stated.abort.as_ref().and_then(|abort| {
        let error = match abort.error_type.as_ref()? {
            ErrorType::HttpStatus(code) => fault_abort::ErrorType::HttpStatus(code.cast_unsigned()),
            ErrorType::GrpcStatus(name) => fault_abort::ErrorType::GrpcStatus(grpc_status(name)),
            ErrorType::Http2Error(_) => return None,
        };
        Some(FaultAbort {
            percentage: abort.percentage.as_ref().map(fraction),
            error_type: Some(error),
            ..FaultAbort::default()
        })
    });
    HttpFault {
        delay,
        abort,
        ..HttpFault::default()
    }
}

/// The number of a gRPC status. What is none counts as `OK`.
pub(super) fn grpc_status(name: &str) -> u32 {
    (0..)
        .zip(STATUS_NAMES)
        .find(|(_, n)| *n == name)
        .map_or(0, |(code, _)| code)
}

/// Istio: pilot/pkg/networking/core/route/route.go TranslateCORSPolicy, 1.32.
pub(super) fn cors(stated: &CorsPolicy) -> EnvoyCors {
    let origins = if stated.allow_origins.is_empty() {
        stated.allow_origin.iter().map(|o| exact(o)).collect()
    } else {
        stated
            .allow_origins
            .iter()
            .filter_map(text_matcher)
            .collect()
    };
    EnvoyCors {
        allow_origin_string_match: origins,
        allow_methods: stated.allow_methods.join(","),
        allow_headers: stated.allow_headers.join(","),
        expose_headers: stated.expose_headers.join(","),
        max_age: stated
            .max_age
            .map_or_else(String::new, |age| age.0.seconds.to_string()),
        allow_credentials: stated.allow_credentials,
        filter_enabled: Some(fixed(whole(100))),
        forward_not_matching_preflights: Some(
            stated.unmatched_preflights() != UnmatchedPreflights::Ignore,
        ),
        ..EnvoyCors::default()
    }
}

fn exact(text: &str) -> StringMatcher {
    StringMatcher {
        match_pattern: Some(string_matcher::MatchPattern::Exact(text.to_owned())),
        ..StringMatcher::default()
    }
}

/// What an endpoint picker is shown: whole requests and responses, as they come.
///
/// Istio: pilot/pkg/networking/core/route/route.go translateRoute, 1.32.
pub(super) fn picker(picker: &Picker) -> ExtProcPerRoute {
    let headers = HeaderSendMode::Send as i32;
    let body = BodySendMode::FullDuplexStreamed as i32;
    ExtProcPerRoute {
        r#override: Some(ext_proc_per_route::Override::Overrides(ExtProcOverrides {
            failure_mode_allow: Some(picker.fails_open),
            grpc_service: Some(GrpcService {
                target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                    cluster_name: cluster_name(picker.port.into(), "", &picker.host),
                    // Else Envoy sends the name of the cluster, whose `|` strict servers refuse.
                    authority: format!("{}:{}", picker.host, picker.port),
                    ..EnvoyGrpc::default()
                })),
                ..GrpcService::default()
            }),
            processing_mode: Some(ProcessingMode {
                request_header_mode: headers,
                request_body_mode: body,
                request_trailer_mode: headers,
                response_header_mode: headers,
                response_body_mode: body,
                response_trailer_mode: headers,
            }),
            ..ExtProcOverrides::default()
        })),
    }
}

/// Istio: pilot/pkg/networking/util/util.go MaybeBuildStatefulSessionFilterConfig, 1.32.
pub(super) fn session(session: &Session) -> StatefulSessionPerRoute {
    StatefulSessionPerRoute {
        r#override: Some(stateful_session_per_route::Override::StatefulSession(
            stateful_session(session),
        )),
    }
}

/// The filter that keeps a session, told how.
pub(crate) fn stateful_session(session: &Session) -> StatefulSession {
    let state = match session {
        Session::Cookie {
            name,
            path,
            lifetime,
        } => TypedExtensionConfig {
            name: "envoy.http.stateful_session.cookie".to_owned(),
            typed_config: Some(any(&CookieBasedSessionState {
                cookie: Some(Cookie {
                    name: name.to_string(),
                    path: path.to_string(),
                    ttl: lifetime.and_then(|lifetime| lifetime.try_into().ok()),
                    ..Cookie::default()
                }),
            })),
        },
        Session::Header(name) => TypedExtensionConfig {
            name: "envoy.http.stateful_session.header".to_owned(),
            typed_config: Some(any(&HeaderBasedSessionState {
                name: name.to_string(),
            })),
        },
    };
    StatefulSession {
        session_state: Some(state),
        ..StatefulSession::default()
    }
}
