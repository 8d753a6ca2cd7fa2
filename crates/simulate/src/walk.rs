//! The walk from listener to endpoints.

use prost::{Message, Name};
use prost_types::Any;
use proto_envoy::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction as Underscores;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::FilterChain;
use proto_envoy::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, SchemeRewriteSpecifier,
};
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto_envoy::envoy::config::route::v3::virtual_host::TlsRequirementType;
use proto_envoy::envoy::config::route::v3::{
    RedirectAction, Route, RouteAction, RouteConfiguration, VirtualHost,
};
use proto_envoy::envoy::config::core::v3::data_source::Specifier as DataSource;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier as TcpClusters;

use crate::access::{self, Asked};
use crate::call::{Call, Protocol, Tls};
use crate::cluster::Destination;
use crate::location::Location;
use crate::policy::{self, Verdict};
use crate::resources::Resources;
use crate::steps::{of_chain, of_config, of_host, of_listener, of_route};
use crate::{chain, listener, notes, path, route, tls, virtual_host};

/// What was passed on the way, and where it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Walk {
    /// What was passed, in order; each part at most once.
    pub steps: Vec<Step>,
    /// Where it ends.
    pub end: End,
    /// Where it ends because nothing fits: what there was to fit, in a few words each.
    pub tried: Vec<String>,
    /// What the proxy's policies say of it. Where it is denied, the end is where it would have gone.
    pub verdict: Verdict,
    /// What else decides about it, and what its answer is taken to be.
    pub asked: Vec<Asked>,
}

/// What was seen on the way.
#[derive(Default)]
struct Seen {
    steps: Vec<Step>,
    tried: Vec<String>,
    verdict: Verdict,
    asked: Vec<Asked>,
}

/// A part of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A listener.
    Listener,
    /// One of its filter chains.
    FilterChain,
    /// A route configuration; without a name where it stands in the listener itself.
    RouteConfiguration,
    /// One of its virtual hosts.
    VirtualHost,
    /// One of its routes.
    Route,
}

/// Something on the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What it is.
    pub part: Part,
    /// Its name; many have none.
    pub name: String,
    /// What it matched or does besides.
    pub notes: Vec<String>,
    /// Where it stands in the proxy's resources; `None` if it is not there.
    pub at: Option<Location>,
}

/// Where a walk ends.
#[derive(Clone, PartialEq, Debug)]
pub enum End {
    /// At clusters; of several each gets its share.
    Clusters(Vec<Destination>),
    /// At an answer of the proxy: go elsewhere.
    Redirect {
        /// HTTP status.
        status: u16,
        /// The `Location`.
        location: String,
    },
    /// At an answer of the proxy.
    Response {
        /// HTTP status.
        status: u16,
        /// Its body.
        body: String,
    },
    /// Nowhere.
    Refused(Refusal),
}

/// Why a walk ends nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No listener has the address and port.
    NoListener,
    /// No filter chain matches, and there is none for all others.
    NoFilterChain,
    /// Several filter chains match equally well; Envoy would not take such a listener.
    SeveralFilterChains,
    /// TLS is wanted, or not to be terminated here.
    WrongTls,
    /// A certificate of the mesh is wanted from the client or by it.
    WrongCertificate,
    /// The proxy lacks the certificate that it presents, or the roots that it verifies the client against.
    NoCertificate,
    /// HTTP is wanted.
    NoHttp,
    /// There is no such route configuration, or none of its virtual hosts has the authority.
    NoVirtualHost,
    /// The virtual host answers over TLS alone, and redirects to there.
    TlsRequired,
    /// No route matches.
    NoRoute,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoListener => "no listener has this address and port",
            Self::NoFilterChain => "no filter chain matches: the connection is closed",
            Self::SeveralFilterChains => "several filter chains match equally well",
            Self::WrongTls => "TLS is wanted here, and the connection is without",
            Self::WrongCertificate => {
                "one side wants a certificate of the other that it does not have"
            }
            Self::NoCertificate => {
                "the proxy lacks the certificate or the roots that it needs: it closes the connection"
            }
            Self::NoHttp => "HTTP in plain text is wanted here, and something else is spoken",
            Self::NoVirtualHost => "no virtual host has this authority: 404",
            Self::TlsRequired => "the virtual host wants TLS: 301 to https",
            Self::NoRoute => "no route matches: 404",
        })
    }
}

/// Follows a call through the resources of a proxy.
pub fn walk(resources: &Resources, call: &Call) -> Walk {
    let mut seen = Seen::default();
    let end = follow(resources, call, &mut seen).unwrap_or_else(End::Refused);
    let Seen {
        steps,
        tried,
        verdict,
        asked,
    } = seen;
    Walk {
        steps,
        end,
        tried,
        verdict,
        asked,
    }
}

fn follow(resources: &Resources, call: &Call, seen: &mut Seen) -> Result<End, Refusal> {
    let Some(listener) = listener::find(&resources.listeners, call) else {
        seen.tried = notes::of_listeners(&resources.listeners);
        return Err(Refusal::NoListener);
    };
    let at = Location::listener(&listener.name);
    seen.steps.push(of_listener(listener, at.clone()));
    let chain = chain::find(listener, call)?;
    let at = match position(&listener.filter_chains, chain) {
        Some(index) => at.below(format_args!("filterChains/{index}")),
        None => at.below(format_args!("defaultFilterChain")),
    };
    seen.steps.push(of_chain(chain, at.clone()));
    tls::check(resources, chain, call)?;
    seen.verdict = policy::of_connection(chain, call);
    seen.asked = access::of_connection(chain, call);
    if let Some((index, manager)) = filter::<HttpConnectionManager>(chain) {
        let at = at.below(format_args!("filters/{index}/typedConfig/routeConfig"));
        // What is protected and not opened here is no HTTP to this chain.
        if call.protocol == Protocol::Tcp
            || (call.tls != Tls::None && chain.transport_socket.is_none())
        {
            return Err(Refusal::NoHttp);
        }
        return http(resources, &manager, at, call, seen);
    }
    Ok(End::Clusters(match filter::<TcpProxy>(chain) {
        Some((_, proxy)) => tcp(resources, &proxy),
        None => Vec::new(),
    }))
}

/// The place of an element in its list.
fn position<T>(list: &[T], element: &T) -> Option<usize> {
    list.iter().position(|other| std::ptr::eq(other, element))
}

/// The configuration of a network filter of a chain, and the filter's place.
fn filter<M: Message + Name + Default>(chain: &FilterChain) -> Option<(usize, M)> {
    let configs = chain.filters.iter().enumerate();
    let mut configs = configs.filter_map(|(index, f)| match &f.config_type {
        Some(ConfigType::TypedConfig(any)) => Some((index, unpack(any)?)),
        _ => None,
    });
    configs.next()
}

/// The one cluster of a chain that only passes bytes on.
pub(crate) fn tcp_cluster(chain: &FilterChain) -> Option<String> {
    match filter::<TcpProxy>(chain)?.1.cluster_specifier? {
        TcpClusters::Cluster(name) => Some(name),
        TcpClusters::WeightedClusters(_) => None,
    }
}

/// The message in an `Any`, if it is one of this type.
pub(crate) fn unpack<M: Message + Name + Default>(any: &Any) -> Option<M> {
    let is = any.type_url.rsplit('/').next() == Some(&M::full_name());
    is.then(|| M::decode(any.value.as_slice()).ok()).flatten()
}

fn http(
    resources: &Resources,
    manager: &HttpConnectionManager,
    inline: Location,
    call: &Call,
    seen: &mut Seen,
) -> Result<End, Refusal> {
    let (name, config, at) = match &manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(config)) => (String::new(), Some(config), inline),
        Some(RouteSpecifier::Rds(rds)) => {
            let name = &rds.route_config_name;
            let config = resources.routes.get(name);
            (name.clone(), config, Location::route(name))
        }
        Some(RouteSpecifier::ScopedRoutes(_)) | None => (String::new(), None, inline),
    };
    seen.steps.push(of_config(name, config, at.clone()));
    let Some(call) = as_seen(manager, call) else {
        return Ok(End::Response {
            status: 400,
            body: String::new(),
        });
    };
    let call = &call;
    let config = config.ok_or(Refusal::NoVirtualHost)?;
    let found = routed(config, at, call, seen);
    let own = &config.typed_per_filter_config;
    let levels = match &found {
        Ok((host, route)) => vec![
            &route.typed_per_filter_config,
            &host.typed_per_filter_config,
            own,
        ],
        Err(_) => vec![own],
    };
    let of_request = policy::of_request(manager, &levels, call);
    seen.verdict = std::mem::take(&mut seen.verdict).and(of_request);
    let asked = found.as_ref().ok().map(|(_, route)| *route);
    let asked = access::of_request(manager, &levels, asked, call);
    seen.asked.extend(asked);
    let (_, route) = found?;
    Ok(match &route.action {
        Some(Action::Route(action)) => End::Clusters(clusters(resources, action, call)),
        Some(Action::Redirect(redirect)) => self::redirect(redirect, call),
        Some(Action::DirectResponse(response)) => End::Response {
            status: u16::try_from(response.status).unwrap_or_default(),
            body: match response.body.as_ref().and_then(|b| b.specifier.as_ref()) {
                Some(DataSource::InlineString(text)) => text.clone(),
                Some(DataSource::InlineBytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            },
        },
        Some(Action::FilterAction(_) | Action::NonForwardingAction(_)) | None => {
            End::Clusters(Vec::new())
        }
    })
}

/// The virtual host and the route that take a request.
fn routed<'a>(
    config: &'a RouteConfiguration,
    at: Location,
    call: &Call,
    seen: &mut Seen,
) -> Result<(&'a VirtualHost, &'a Route), Refusal> {
    let Some((host, domain)) = virtual_host::find(config, &call.authority) else {
        let domains = config.virtual_hosts.iter().flat_map(|host| &host.domains);
        seen.tried = domains.map(|domain| format!("host {domain}")).collect();
        return Err(Refusal::NoVirtualHost);
    };
    let index = position(&config.virtual_hosts, host).unwrap_or_default();
    let at = at.below(format_args!("virtualHosts/{index}"));
    seen.steps.push(of_host(host, domain, at.clone()));
    let wants_tls = host.require_tls() == TlsRequirementType::All;
    if wants_tls && call.tls == Tls::None {
        return Err(Refusal::TlsRequired);
    }
    let Some(route) = route::find(host, call) else {
        let routes = host.routes.iter();
        seen.tried = routes.map(|route| notes::of_missed(route, call)).collect();
        return Err(Refusal::NoRoute);
    };
    let index = position(&host.routes, route).unwrap_or_default();
    seen.steps
        .push(of_route(route, at.below(format_args!("routes/{index}"))));
    Ok((host, route))
}

/// A request as routes see it: with the path that the connection manager makes of it, the headers that it lets pass, and how it
/// came. None where that is refused.
fn as_seen(manager: &HttpConnectionManager, call: &Call) -> Option<Call> {
    const SCHEME: &str = "x-forwarded-proto";
    let mut seen = Call {
        path: path::seen_by(manager, &call.path)?,
        ..call.clone()
    };
    if manager.strip_trailing_host_dot {
        seen.authority = path::without_dot(&call.authority);
    }
    let has_underscore = |(name, _): &(String, String)| name.contains('_');
    let options = manager.common_http_protocol_options.as_ref();
    match options.map(|options| options.headers_with_underscores_action()) {
        Some(Underscores::DropHeader) => seen.headers.retain(|header| !has_underscore(header)),
        Some(Underscores::RejectRequest) if seen.headers.iter().any(has_underscore) => return None,
        _ => {}
    }
    let is_edge = manager.use_remote_address == Some(true);
    let says = seen.headers.iter().any(|(name, _)| name == SCHEME);
    if is_edge && (manager.xff_num_trusted_hops == 0 || !says) {
        seen.headers.retain(|(name, _)| name != SCHEME);
        let scheme = call.header(":scheme").unwrap_or_default();
        seen.headers.push((SCHEME.to_owned(), scheme));
    }
    Some(seen)
}

fn clusters(resources: &Resources, action: &RouteAction, call: &Call) -> Vec<Destination> {
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => vec![Destination::of(resources, name, 1, 1)],
        Some(ClusterSpecifier::ClusterHeader(header)) => call
            .header(&header.to_ascii_lowercase())
            .map(|name| Destination::of(resources, &name, 1, 1))
            .into_iter()
            .collect(),
        Some(ClusterSpecifier::WeightedClusters(several)) => {
            let weights = several
                .clusters
                .iter()
                .map(|c| (c.name.as_str(), c.weight.unwrap_or(0)));
            weighted(resources, weights)
        }
        Some(
            ClusterSpecifier::ClusterSpecifierPlugin(_)
            | ClusterSpecifier::InlineClusterSpecifierPlugin(_),
        )
        | None => Vec::new(),
    }
}

fn weighted<'a>(
    resources: &Resources,
    clusters: impl Iterator<Item = (&'a str, u32)> + Clone,
) -> Vec<Destination> {
    let total = clusters.clone().map(|(_, weight)| weight).sum();
    clusters
        .map(|(name, weight)| Destination::of(resources, name, weight, total))
        .collect()
}

fn tcp(resources: &Resources, proxy: &TcpProxy) -> Vec<Destination> {
    match &proxy.cluster_specifier {
        Some(TcpClusters::Cluster(name)) => vec![Destination::of(resources, name, 1, 1)],
        Some(TcpClusters::WeightedClusters(several)) => {
            let weights = several.clusters.iter().map(|c| (c.name.as_str(), c.weight));
            weighted(resources, weights)
        }
        None => Vec::new(),
    }
}

fn redirect(redirect: &RedirectAction, call: &Call) -> End {
    let scheme = match &redirect.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => "https".to_owned(),
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) => scheme.clone(),
        _ => call.header(":scheme").unwrap_or_default(),
    };
    let mut authority = call.authority.clone();
    if !redirect.host_redirect.is_empty() {
        authority.clone_from(&redirect.host_redirect);
    }
    if redirect.port_redirect != 0 {
        let host = authority.split(':').next().unwrap_or_default();
        authority = format!("{host}:{}", redirect.port_redirect);
    }
    let path = match &redirect.path_rewrite_specifier {
        Some(PathRewriteSpecifier::PathRedirect(path)) if !path.is_empty() => path.clone(),
        _ => call.path.clone(),
    };
    End::Redirect {
        // Envoy numbers the statuses it knows.
        status: [301, 302, 303, 307, 308]
            .get(usize::try_from(redirect.response_code).unwrap_or_default())
            .copied()
            .unwrap_or(301),
        location: format!("{scheme}://{authority}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use proto_envoy::envoy::config::core::v3::HttpProtocolOptions;

    use super::*;

    #[test]
    fn headers_with_underscores_are_seen_as_the_listener_says() {
        let call = Call {
            path: "/".to_owned(),
            headers: ["x-a", "x_a"]
                .map(|name| (name.to_owned(), "1".to_owned()))
                .into(),
            ..Call::default()
        };
        for (action, names) in [
            (Underscores::Allow, Some(vec!["x-a", "x_a"])),
            (Underscores::DropHeader, Some(vec!["x-a"])),
            (Underscores::RejectRequest, None),
        ] {
            let manager = HttpConnectionManager {
                common_http_protocol_options: Some(HttpProtocolOptions {
                    headers_with_underscores_action: action.into(),
                    ..HttpProtocolOptions::default()
                }),
                ..HttpConnectionManager::default()
            };
            let seen = as_seen(&manager, &call);
            let seen = seen.as_ref().map(|call| {
                let names = call.headers.iter().map(|(name, _)| name.as_str());
                names.collect::<Vec<_>>()
            });
            assert_eq!(seen, names, "{action:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_there_is() {
        use proto_envoy::envoy::config::core::v3::address::Address as Form;
        use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
        use proto_envoy::envoy::config::core::v3::{Address, SocketAddress};
        use proto_envoy::envoy::config::listener::v3::Listener;
        use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
        use proto_envoy::envoy::config::route::v3::{HeaderMatcher, RouteMatch};

        let route = |name: &str, prefix: &str, header: Option<&str>| Route {
            name: name.to_owned(),
            r#match: Some(RouteMatch {
                path_specifier: Some(PathSpecifier::Prefix(prefix.to_owned())),
                headers: header
                    .map(|name| HeaderMatcher {
                        name: name.to_owned(),
                        ..HeaderMatcher::default()
                    })
                    .into_iter()
                    .collect(),
                ..RouteMatch::default()
            }),
            ..Route::default()
        };
        let config = RouteConfiguration {
            virtual_hosts: vec![VirtualHost {
                domains: vec!["a.test".to_owned()],
                routes: vec![route("api", "/api", None), route("", "/", Some("x-user"))],
                ..VirtualHost::default()
            }],
            ..RouteConfiguration::default()
        };
        let manager = HttpConnectionManager {
            route_specifier: Some(RouteSpecifier::RouteConfig(config)),
            ..HttpConnectionManager::default()
        };
        let tried = |authority: &str| {
            let call = Call {
                authority: authority.to_owned(),
                path: "/".to_owned(),
                ..Call::default()
            };
            let mut seen = Seen::default();
            let at = Location::listener("l");
            http(&Resources::default(), &manager, at, &call, &mut seen)
                .err()
                .map(|why| (why, seen.tried))
        };
        assert_eq!(
            tried("b.test"),
            Some((Refusal::NoVirtualHost, vec!["host a.test".to_owned()]))
        );
        let routes = [
            "route api, prefix /api: the path does not match",
            "route with prefix /, header x-user: header x-user does not match",
        ];
        let routes = routes.map(str::to_owned).to_vec();
        assert_eq!(tried("a.test"), Some((Refusal::NoRoute, routes)));
        let socket = SocketAddress {
            address: "127.0.0.1".to_owned(),
            port_specifier: Some(PortSpecifier::PortValue(8080)),
            ..SocketAddress::default()
        };
        let mut resources = Resources::default();
        resources.listeners.push(Listener {
            address: Some(Address {
                address: Some(Form::SocketAddress(socket)),
            }),
            ..Listener::default()
        });
        let walk = super::walk(&resources, &Call::default());
        assert_eq!(walk.end, End::Refused(Refusal::NoListener));
        assert_eq!(walk.tried, ["listener at 127.0.0.1 port 8080"]);
    }
}
