//! What routes of an edge do beside what a VirtualService says.

use mesh::edge::Calls;
use mesh::proxy_options::seconds;
use model::edge::{Need, Rpc};
use policy::edge;
use proto_envoy::envoy::config::core::v3::{DataSource, Metadata, data_source};
use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::{DirectResponseAction, HeaderMatcher, Route};
use proto_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use proto_envoy::envoy::r#type::v3::Int64Range;
use proto_istio::networking::Destination;

use super::headers;
use super::rule::{Building, cluster_name};

const TOO_LONG: u32 = 413;
const FAILED: u32 = 500;
const UNAVAILABLE: u32 = 503;

/// Adds what the HTTP route at a place asks of filters.
pub(super) fn apply(building: &Building<'_>, at: usize, route: &mut Route) {
    let Some(asked) = building.rule.edge.get(&at) else {
        return;
    };
    if let Some(Action::Route(action)) = &mut route.action {
        action.idle_timeout = asked.idle_timeout.and_then(|time| time.try_into().ok());
    }
    if !building.key.edge {
        // Sidecars have none of the filters, nor have Gateways that users wrote.
        let needs = asked.needs();
        if needs.iter().any(|need| *need != Need::Underscores) {
            let why = "refused: nothing here does what this route asks for";
            route.action = Some(answer(UNAVAILABLE, why));
        }
        return;
    }
    let can = building.key.can;
    let needs = asked.needs();
    let lacked = needs.iter().find(|need| need.closes() && !can.does(**need));
    if let Some(need) = lacked {
        let why = format!("refused: this proxy has no {}", edge::lacking(*need));
        route.action = Some(answer(UNAVAILABLE, &why));
        return;
    }
    if asked.rpc == Some(Rpc::Unknown) {
        let why = "refused: nothing says which call this request is";
        route.action = Some(answer(FAILED, why));
        return;
    }
    if asked.tells_clients {
        headers::tell_client(
            route,
            building.key.tls,
            building.key.trusts_forwarded,
            can.keeps_forwarded(),
        );
    }
    if let Some(hsts) = asked.hsts.as_ref().filter(|_| building.key.tls) {
        headers::secure_transport(route, hsts);
    }
    let parts = edge::of_route(asked, can, |host, port| cluster(building, host, port));
    if let (Some(_), Some(Action::Route(action))) = (&asked.rpc, &mut route.action) {
        action.upgrade_configs.push(edge::upgrade());
    }
    let hidden = parts.hidden.iter().map(|name| (*name).to_owned());
    route.request_headers_to_remove.extend(hidden);
    route.typed_per_filter_config.extend(parts.configs);
    let metadata = route.metadata.get_or_insert_with(Metadata::default);
    metadata.filter_metadata.extend(parts.metadata);
}

/// Sets how long answers may take, where an option says it for all routes of a gateway.
pub(super) fn limit(building: &Building<'_>, route: &mut Route) {
    let time = building.key.route_timeout;
    if let Some(Action::Route(action)) = &mut route.action
        && time != 0
    {
        action.timeout = Some(seconds(time.into()));
    }
}

/// The cluster of a service that filters ask.
fn cluster(building: &Building<'_>, host: &str, port: u16) -> String {
    let alias = building.target(host).and_then(|t| t.alias.as_deref());
    cluster_name(port.into(), "", alias.unwrap_or(host))
}

/// The cluster of a destination of the HTTP route at a place, with the one that stands in for it.
pub(super) fn sent_to(
    building: &Building<'_>,
    at: usize,
    destination: Option<&Destination>,
) -> String {
    let own = building.cluster(destination);
    if building.key.edge && building.rule.calls(at) {
        return Calls { of: own }.name();
    }
    let standin = destination.and_then(|d| building.rule.standin(at, d));
    // A service that is another one's name has no cluster of its own.
    match standin.filter(|standin| standin.first == own) {
        Some(standin) if building.key.edge => standin.name(),
        _ => own,
    }
}

/// The routes that take requests before a route does: those whose body is too long, and those of which that is not known
/// before they have ended.
///
/// A body whose length is stated is passed on as it comes; Envoy holds the client to its word. One of unknown length is held
/// until it is complete, but not a call of gRPC, nor a connection that becomes another protocol: they have no end.
pub(super) fn before(building: &Building<'_>, at: usize, route: &Route) -> Vec<Route> {
    let asked = building.rule.edge.get(&at);
    let asked = asked.filter(|_| building.key.edge);
    let Some(most) = asked.and_then(|asked| asked.max_body) else {
        return Vec::new();
    };
    let mut too_long = Route {
        name: route.name.clone(),
        r#match: route.r#match.clone(),
        action: Some(answer(TOO_LONG, "")),
        metadata: route.metadata.clone().map(|mut metadata| {
            metadata.filter_metadata.retain(|name, _| name == "istio");
            metadata
        }),
        decorator: route.decorator.clone(),
        ..Route::default()
    };
    let length = |specifier, invert| header("content-length", specifier, invert);
    add(
        &mut too_long,
        length(
            HeaderMatchSpecifier::RangeMatch(Int64Range {
                start: i64::from(most) + 1,
                end: i64::MAX,
            }),
            false,
        ),
    );
    let mut unknown = route.clone();
    let present = || HeaderMatchSpecifier::PresentMatch(true);
    add(&mut unknown, length(present(), true));
    add(&mut unknown, header("upgrade", present(), true));
    let grpc = HeaderMatchSpecifier::StringMatch(StringMatcher {
        match_pattern: Some(string_matcher::MatchPattern::Prefix(
            "application/grpc".to_owned(),
        )),
        ..StringMatcher::default()
    });
    let grpc = HeaderMatcher {
        // A request without a type is none.
        treat_missing_header_as_empty: true,
        ..header("content-type", grpc, true)
    };
    add(&mut unknown, grpc);
    let (name, config) = edge::held_body(most);
    unknown.typed_per_filter_config.insert(name, config);
    vec![too_long, unknown]
}

fn add(route: &mut Route, header: HeaderMatcher) {
    let matched = route.r#match.get_or_insert_default();
    matched.headers.push(header);
}

fn header(name: &str, specifier: HeaderMatchSpecifier, invert: bool) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        invert_match: invert,
        header_match_specifier: Some(specifier),
        ..HeaderMatcher::default()
    }
}

fn answer(status: u32, text: &str) -> Action {
    Action::DirectResponse(DirectResponseAction {
        status,
        body: (!text.is_empty()).then(|| DataSource {
            specifier: Some(data_source::Specifier::InlineString(text.to_owned())),
            ..DataSource::default()
        }),
        ..DirectResponseAction::default()
    })
}
