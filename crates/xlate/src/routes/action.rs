//! One route of a rule: what happens to the requests that it takes.
//!
//! Istio: pilot/pkg/networking/core/route/route.go TranslateRoute, 1.32.

use std::collections::BTreeMap;

use model::work;
use prost_types::{Any, Duration};
use proto_envoy::envoy::config::core::v3::{DataSource, Metadata, data_source};
use proto_envoy::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, MaxStreamDuration,
    RequestMirrorPolicy,
};
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::weighted_cluster::{ClusterWeight, cluster_weight};
use proto_envoy::envoy::config::route::v3::{
    Decorator, DirectResponseAction, RedirectAction, Route, RouteAction, RouteMatch,
    WeightedCluster,
};
use proto_envoy::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use proto_istio::networking::http_redirect::{RedirectPort, RedirectPortSelection};
use proto_istio::networking::{
    Destination, HttpDirectResponse, HttpMatchRequest, HttpRedirect, HttpRewrite, HttpRoute,
    HttpRouteDestination, http_body,
};

use super::rule::Building;
use super::{edge, filters, hash, headers, matching, retry};
use mesh::virtual_service::Semantics;
use model::re2::quote;
use model::session::Session;
use xds::any;

const NO_TIMEOUT: Duration = Duration {
    seconds: 0,
    nanos: 0,
};

/// The route of one match of a rule, or of a rule's route without matches.
pub(super) fn route(
    building: &Building<'_>,
    (at, stated): (usize, &HttpRoute),
    matched: Option<&HttpMatchRequest>,
) -> Route {
    let mut route = Route {
        name: name(stated, matched),
        r#match: Some(matching::route_match(matched, building.rule.semantics)),
        metadata: Some(origin(building)),
        stat_prefix: matched.map_or_else(String::new, |m| m.stat_prefix.clone()),
        ..Route::default()
    };
    let mut authority = String::new();
    if let Some(stated) = &stated.headers {
        let operations = headers::operations(stated);
        route.request_headers_to_add = operations.request_add;
        route.request_headers_to_remove = operations.request_remove;
        route.response_headers_to_add = operations.response_add;
        route.response_headers_to_remove = operations.response_remove;
        authority = operations.authority;
    }
    let mut sent_to = &[][..];
    if let Some(stated) = &stated.redirect {
        let redirect = redirect(building, stated, route.r#match.as_ref());
        route.action = redirect.map(Action::Redirect);
    } else if let Some(stated) = &stated.direct_response {
        route.action = Some(Action::DirectResponse(direct_response(stated)));
    } else {
        let action = forward(building, (at, stated), authority, &mut route);
        route.action = Some(Action::Route(action));
        sent_to = &stated.route;
    }
    route.decorator = Some(Decorator {
        operation: operation(building, &route),
        ..Decorator::default()
    });
    let configs = &mut route.typed_per_filter_config;
    if let Some(stated) = &stated.fault {
        configs.insert(filters::FAULT.to_owned(), any(&filters::fault(stated)));
    }
    if let Some(stated) = &stated.cors_policy {
        configs.insert(filters::CORS.to_owned(), any(&filters::cors(stated)));
    }
    let of_rule = building.rule.sessions.get(&at).map(AsRef::as_ref);
    if let Some(session) = of_rule.or_else(|| session(building, sent_to)) {
        configs.insert(filters::SESSION.to_owned(), any(&filters::session(session)));
    }
    edge::apply(building, at, &mut route);
    edge::limit(building, &mut route);
    if building.key.http3 {
        let port = building.key.port;
        let offer = headers::appended("alt-svc", &format!("h3=\":{port}\"; ma=86400"));
        route.response_headers_to_add.push(offer);
    }
    route
}

fn name(stated: &HttpRoute, matched: Option<&HttpMatchRequest>) -> String {
    match matched.filter(|m| !m.name.is_empty()) {
        Some(matched) => format!("{}.{}", stated.name, matched.name),
        None => stated.name.clone(),
    }
}

/// Metadata that names the VirtualService.
fn origin(building: &Building<'_>) -> Metadata {
    let name = &building.rule.name;
    let path = format!(
        "/apis/networking.istio.io/v1/namespaces/{}/virtual-service/{}",
        name.namespace, name.name
    );
    let value = prost_types::Value {
        kind: Some(prost_types::value::Kind::StringValue(path)),
    };
    let fields = prost_types::Struct {
        fields: BTreeMap::from([("config".to_owned(), value)]),
    };
    Metadata {
        filter_metadata: BTreeMap::from([("istio".to_owned(), fields)]),
        ..Metadata::default()
    }
}

/// Of the sticky sessions of the destinations the last one before two follow each other.
fn session<'a>(building: &Building<'a>, sent_to: &[HttpRouteDestination]) -> Option<&'a Session> {
    let several = sent_to.len() > 1;
    let mut found: Option<&Session> = None;
    for sent in sent_to.iter().filter(|s| !several || s.weight != 0) {
        let host = sent.destination.as_ref().map_or("", |d| &d.host);
        let own = building.target(host).and_then(|t| t.session.as_ref());
        if own.is_some() && found.is_some() {
            break;
        }
        found = own;
    }
    found
}

fn redirect(
    building: &Building<'_>,
    stated: &HttpRedirect,
    matched: Option<&RouteMatch>,
) -> Option<RedirectAction> {
    let code = match stated.redirect_code {
        0 | 301 => RedirectResponseCode::MovedPermanently,
        302 => RedirectResponseCode::Found,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => return None,
    };
    let default_scheme = if building.key.tls { "https" } else { "http" };
    let scheme = match stated.scheme.as_str() {
        "" => default_scheme,
        scheme => scheme,
    };
    let port = match &stated.redirect_port {
        Some(RedirectPort::Port(port)) => *port,
        Some(RedirectPort::DerivePort(derive))
            if *derive == RedirectPortSelection::FromRequestPort as i32 =>
        {
            u32::from(building.key.port)
        }
        _ => 0,
    };
    Some(RedirectAction {
        host_redirect: stated.authority.clone(),
        // The scheme's own port is not written out.
        port_redirect: match (port, scheme) {
            (80, "http") | (443, "https") => 0,
            (port, _) => port,
        },
        response_code: code as i32,
        scheme_rewrite_specifier: (!stated.scheme.is_empty())
            .then(|| SchemeRewriteSpecifier::SchemeRedirect(stated.scheme.clone())),
        path_rewrite_specifier: Some(if stated.prefix_rewrite.is_empty() {
            PathRewriteSpecifier::PathRedirect(stated.uri.clone())
        } else {
            match below(building, &stated.prefix_rewrite, matched) {
                Some(rewrite) => PathRewriteSpecifier::RegexRewrite(rewrite),
                None => PathRewriteSpecifier::PrefixRewrite(stated.prefix_rewrite.clone()),
            }
        }),
        ..RedirectAction::default()
    })
}

fn direct_response(stated: &HttpDirectResponse) -> DirectResponseAction {
    let body = stated.body.as_ref().and_then(|b| b.specifier.as_ref());
    DirectResponseAction {
        status: stated.status,
        body: body.map(|body| DataSource {
            specifier: Some(match body {
                http_body::Specifier::String(text) => {
                    data_source::Specifier::InlineString(text.clone())
                }
                http_body::Specifier::Bytes(bytes) => {
                    data_source::Specifier::InlineBytes(bytes.clone())
                }
            }),
            ..DataSource::default()
        }),
        ..DirectResponseAction::default()
    }
}

/// Sends to clusters.
fn forward(
    building: &Building<'_>,
    (at, stated): (usize, &HttpRoute),
    mut authority: String,
    route: &mut Route,
) -> RouteAction {
    let mut action = RouteAction::default();
    let timeout = stated.timeout.map(Into::into);
    if building.key.proxyless {
        // The libraries read this field instead.
        action.timeout = Some(timeout.unwrap_or(NO_TIMEOUT));
        action.max_stream_duration = Some(MaxStreamDuration {
            max_stream_duration: action.timeout,
            ..MaxStreamDuration::default()
        });
    } else {
        set_timeout(&mut action, timeout);
    }
    if building.rule.semantics == Semantics::Gateway {
        action.cluster_not_found_response_code =
            ClusterNotFoundResponseCode::InternalServerError as i32;
    }
    if let Some(stated) = &stated.rewrite {
        action.append_x_forwarded_host = building.key.forwarded_host;
        rewrite(building, stated, route.r#match.as_ref(), &mut action);
        if !stated.authority.is_empty() {
            authority.clone_from(&stated.authority);
        }
    }
    if !authority.is_empty() {
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(authority));
    }
    action.request_mirror_policies = mirrors(building, stated);
    let mut consistent_hash = false;
    if let [only] = stated.route.as_slice() {
        consistent_hash = send_to_one(building, (at, only), route, &mut action);
    } else {
        let weighted = stated.route.iter().filter(|d| d.weight != 0);
        let clusters = weighted
            .map(|destination| weigh(building, (at, destination), &mut action))
            .collect();
        action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(WeightedCluster {
            clusters,
            ..WeightedCluster::default()
        }));
    }
    let retries = stated.retries.as_ref().or(building.default_retries);
    action.retry_policy = retry::outbound(retries, consistent_hash);
    action
}

/// A timeout; none is written as zero, since Envoy's default is not none.
#[expect(
    deprecated,
    reason = "gRPC's own limit has no other field that behaves alike"
)]
pub(super) fn set_timeout(action: &mut RouteAction, stated: Option<Duration>) {
    let timeout = stated.unwrap_or(NO_TIMEOUT);
    action.timeout = Some(timeout);
    action.max_grpc_timeout = Some(timeout);
}

fn rewrite(
    building: &Building<'_>,
    stated: &HttpRewrite,
    matched: Option<&RouteMatch>,
    action: &mut RouteAction,
) {
    if let Some(regex) = &stated.uri_regex_rewrite {
        action.regex_rewrite = Some(substitute(regex.r#match.clone(), &regex.rewrite));
    } else if let Some(rewrite) = below(building, &stated.uri, matched) {
        action.regex_rewrite = Some(rewrite);
    } else if building.rule.semantics == Semantics::Gateway && stated.uri == "/" {
        let prefix = match matched.and_then(|m| m.path_specifier.as_ref()) {
            Some(PathSpecifier::PathSeparatedPrefix(prefix)) => prefix.as_str(),
            _ => "",
        };
        // The slash stays where the whole path is the prefix.
        let regex = format!("^{}(/?)(.*)", quote(prefix));
        action.regex_rewrite = Some(substitute(regex, r"/\2"));
    } else {
        action.prefix_rewrite.clone_from(&stated.uri);
    }
}

fn substitute(regex: String, substitution: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher {
            regex,
            ..RegexMatcher::default()
        }),
        substitution: substitution.to_owned(),
    }
}

/// How a route of the Gateway API puts all paths below a prefix, where the prefix that it replaces is `/`: their slash stays,
/// unless nothing is behind it. None where that is not what it does.
fn below(
    building: &Building<'_>,
    to: &str,
    matched: Option<&RouteMatch>,
) -> Option<RegexMatchAndSubstitute> {
    let path = matched.and_then(|m| m.path_specifier.as_ref());
    let is_root = matches!(path, Some(PathSpecifier::Prefix(prefix)) if prefix == "/");
    let to = to.strip_suffix('/').unwrap_or(to);
    if building.rule.semantics != Semantics::Gateway || !is_root || to.is_empty() {
        return None;
    }
    let to = to.replace('\\', r"\\");
    Some(substitute("^/?(/.+)?$".to_owned(), &format!(r"{to}\1")))
}

fn mirrors(building: &Building<'_>, stated: &HttpRoute) -> Vec<RequestMirrorPolicy> {
    let whole = stated.mirror_percent.map(filters::whole);
    let first = stated.mirror.as_ref().map(|destination| {
        let share = stated.mirror_percentage.as_ref().map(filters::fraction);
        let positive = match (&stated.mirror_percentage, stated.mirror_percent) {
            (Some(percent), _) => percent.value > 0.0,
            (None, Some(percent)) => percent > 0,
            (None, None) => true,
        };
        (destination, positive, share.or(whole))
    });
    let more = stated.mirrors.iter().filter_map(|mirror| {
        let percent = mirror.percentage.as_ref();
        Some((
            mirror.destination.as_ref()?,
            percent.is_none_or(|p| p.value > 0.0),
            percent.map(filters::fraction),
        ))
    });
    first
        .into_iter()
        .chain(more)
        .filter(|(_, positive, _)| *positive)
        .take(work::MIRRORS)
        .map(|(destination, _, share)| RequestMirrorPolicy {
            cluster: building.cluster(Some(destination)),
            runtime_fraction: Some(filters::fixed(share.unwrap_or_else(|| filters::whole(100)))),
            trace_sampled: Some(false),
            disable_shadow_host_suffix_append: true,
            ..RequestMirrorPolicy::default()
        })
        .collect()
}

/// Sends everything to one cluster. Says whether a consistent hash picks its hosts.
fn send_to_one(
    building: &Building<'_>,
    (at, stated): (usize, &HttpRouteDestination),
    route: &mut Route,
    action: &mut RouteAction,
) -> bool {
    let cluster = edge::sent_to(building, at, stated.destination.as_ref());
    action.cluster_specifier = Some(ClusterSpecifier::Cluster(cluster));
    ask_picker(
        building,
        stated.destination.as_ref(),
        &mut route.typed_per_filter_config,
    );
    if let Some(stated) = &stated.headers {
        let operations = headers::operations(stated);
        route.request_headers_to_add.extend(operations.request_add);
        route
            .request_headers_to_remove
            .extend(operations.request_remove);
        route
            .response_headers_to_add
            .extend(operations.response_add);
        route
            .response_headers_to_remove
            .extend(operations.response_remove);
        if !operations.authority.is_empty() && action.host_rewrite_specifier.is_none() {
            action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(
                operations.authority,
            ));
        }
    }
    add_hash(building, stated.destination.as_ref(), action)
}

fn weigh(
    building: &Building<'_>,
    (at, stated): (usize, &HttpRouteDestination),
    action: &mut RouteAction,
) -> ClusterWeight {
    let mut weight = ClusterWeight {
        name: edge::sent_to(building, at, stated.destination.as_ref()),
        weight: Some(stated.weight.cast_unsigned()),
        ..ClusterWeight::default()
    };
    ask_picker(
        building,
        stated.destination.as_ref(),
        &mut weight.typed_per_filter_config,
    );
    if let Some(stated) = &stated.headers {
        let operations = headers::operations(stated);
        weight.request_headers_to_add = operations.request_add;
        weight.request_headers_to_remove = operations.request_remove;
        weight.response_headers_to_add = operations.response_add;
        weight.response_headers_to_remove = operations.response_remove;
        if !operations.authority.is_empty() {
            weight.host_rewrite_specifier = Some(
                cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(operations.authority),
            );
        }
    }
    add_hash(building, stated.destination.as_ref(), action);
    weight
}

/// Lets the endpoint picker of a destination choose, where it has one.
fn ask_picker(
    building: &Building<'_>,
    destination: Option<&Destination>,
    configs: &mut BTreeMap<String, Any>,
) {
    let target = destination.and_then(|d| building.target(&d.host));
    if let Some(picker) = target.and_then(|t| t.picker.as_ref()) {
        let config = any(&filters::picker(picker));
        configs.insert(filters::PICKER.to_owned(), config);
    }
}

fn add_hash(
    building: &Building<'_>,
    destination: Option<&Destination>,
    action: &mut RouteAction,
) -> bool {
    let found = destination.and_then(|d| building.hash(d));
    action.hash_policy.extend(found.and_then(hash::policy));
    found.is_some()
}

/// What traces call requests on a route: the destination where there is one, else the rule, and the path.
///
/// Istio: pilot/pkg/networking/core/route/route.go GetRouteOperation, 1.32.
fn operation(building: &Building<'_>, route: &Route) -> String {
    let path = match route
        .r#match
        .as_ref()
        .and_then(|m| m.path_specifier.as_ref())
    {
        Some(PathSpecifier::Prefix(prefix)) => format!("{prefix}*"),
        Some(PathSpecifier::Path(path)) => path.clone(),
        Some(PathSpecifier::SafeRegex(regex)) => regex.regex.clone(),
        _ => "/*".to_owned(),
    };
    if let Some(Action::Route(RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster)),
        ..
    })) = &route.action
    {
        let parts: Vec<&str> = cluster.split('|').collect();
        if let [_, port, _, host] = parts.as_slice() {
            return format!("{host}:{port}{path}");
        }
    }
    format!("{}:{}{path}", building.rule.name.name, building.key.port)
}
