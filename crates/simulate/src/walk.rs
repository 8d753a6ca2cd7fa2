//! The walk from listener to endpoints.

use prost::{Message, Name};
use prost_types::Any;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener};
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
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;

use crate::call::{Call, Protocol, Tls};
use crate::cluster::Destination;
use crate::location::Location;
use crate::resources::Resources;
use crate::{chain, listener, notes, path, route, virtual_host};

/// What was passed on the way, and where it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Walk {
    /// What was passed, in order; each part at most once.
    pub steps: Vec<Step>,
    /// Where it ends.
    pub end: End,
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
            Self::NoHttp => "HTTP in plain text is wanted here, and something else is spoken",
            Self::NoVirtualHost => "no virtual host has this authority: 404",
            Self::TlsRequired => "the virtual host wants TLS: 301 to https",
            Self::NoRoute => "no route matches: 404",
        })
    }
}

/// Follows a call through the resources of a proxy.
pub fn walk(resources: &Resources, call: &Call) -> Walk {
    let mut steps = Vec::new();
    let end = follow(resources, call, &mut steps).unwrap_or_else(End::Refused);
    Walk { steps, end }
}

fn follow(resources: &Resources, call: &Call, steps: &mut Vec<Step>) -> Result<End, Refusal> {
    let listener = listener::find(&resources.listeners, call).ok_or(Refusal::NoListener)?;
    let at = Location::listener(&listener.name);
    steps.push(of_listener(listener, at.clone()));
    let chain = chain::find(listener, call)?;
    let at = match position(&listener.filter_chains, chain) {
        Some(index) => at.below(format_args!("filterChains/{index}")),
        None => at.below(format_args!("defaultFilterChain")),
    };
    steps.push(of_chain(chain, at.clone()));
    check_tls(chain, call)?;
    if let Some((index, manager)) = filter::<HttpConnectionManager>(chain) {
        let at = at.below(format_args!("filters/{index}/typedConfig/routeConfig"));
        // What is protected and not opened here is no HTTP to this chain.
        if call.protocol == Protocol::Tcp
            || (call.tls != Tls::None && chain.transport_socket.is_none())
        {
            return Err(Refusal::NoHttp);
        }
        return http(resources, &manager, at, call, steps);
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

/// Whether client and chain understand each other.
fn check_tls(chain: &FilterChain, call: &Call) -> Result<(), Refusal> {
    let Some(socket) = &chain.transport_socket else {
        return Ok(());
    };
    if call.tls == Tls::None {
        return Err(Refusal::WrongTls);
    }
    let any = match &socket.config_type {
        Some(proto_envoy::envoy::config::core::v3::transport_socket::ConfigType::TypedConfig(
            any,
        )) => any,
        None => return Ok(()),
    };
    let Some(context) = unpack::<DownstreamTlsContext>(any) else {
        return Ok(());
    };
    let wants_certificate = context.require_client_certificate == Some(true);
    let common = context.common_tls_context.as_ref();
    let secrets = common.map(|c| c.tls_certificate_sds_secret_configs.as_slice());
    // The certificate of the workload itself goes by this name, or comes from files beside the proxy.
    let of_mesh = secrets
        .and_then(<[_]>::first)
        .is_some_and(|s| s.name == "default" || s.name.starts_with("file-cert:"));
    let fits = match call.tls {
        Tls::Mesh => of_mesh && wants_certificate,
        Tls::Simple | Tls::None => !wants_certificate,
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal::WrongCertificate)
    }
}

fn http(
    resources: &Resources,
    manager: &HttpConnectionManager,
    inline: Location,
    call: &Call,
    steps: &mut Vec<Step>,
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
    steps.push(of_config(name, config, at.clone()));
    let Some(call) = as_seen(manager, call) else {
        return Ok(End::Response {
            status: 400,
            body: String::new(),
        });
    };
    let call = &call;
    let config = config.ok_or(Refusal::NoVirtualHost)?;
    let (host, domain) =
        virtual_host::find(config, &call.authority).ok_or(Refusal::NoVirtualHost)?;
    let index = position(&config.virtual_hosts, host).unwrap_or_default();
    let at = at.below(format_args!("virtualHosts/{index}"));
    steps.push(of_host(host, domain, at.clone()));
    let wants_tls = host.require_tls() == TlsRequirementType::All;
    if wants_tls && call.tls == Tls::None {
        return Err(Refusal::TlsRequired);
    }
    let route = route::find(host, call).ok_or(Refusal::NoRoute)?;
    let index = position(&host.routes, route).unwrap_or_default();
    steps.push(of_route(route, at.below(format_args!("routes/{index}"))));
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

/// A request as routes see it: with the path that the connection manager makes of it, and how it came. None where that is
/// refused.
fn as_seen(manager: &HttpConnectionManager, call: &Call) -> Option<Call> {
    const SCHEME: &str = "x-forwarded-proto";
    let mut seen = Call {
        path: path::seen_by(manager, &call.path)?,
        ..call.clone()
    };
    if manager.strip_trailing_host_dot {
        seen.authority = path::without_dot(&call.authority);
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

fn of_listener(listener: &Listener, at: Location) -> Step {
    let address = listener.address.as_ref().and_then(listener::socket);
    Step {
        part: Part::Listener,
        name: listener.name.clone(),
        notes: address
            .map(|(a, p)| format!("at {a} port {p}"))
            .into_iter()
            .collect(),
        at: Some(at),
    }
}

fn of_chain(chain: &FilterChain, at: Location) -> Step {
    Step {
        part: Part::FilterChain,
        name: chain.name.clone(),
        notes: notes::of_chain(chain),
        at: Some(at),
    }
}

fn of_config(name: String, config: Option<&RouteConfiguration>, at: Location) -> Step {
    Step {
        part: Part::RouteConfiguration,
        notes: match config {
            None => vec!["the proxy has none of this name".to_owned()],
            Some(_) if name.is_empty() => vec!["in the listener".to_owned()],
            Some(_) => Vec::new(),
        },
        name,
        at: config.map(|_| at),
    }
}

fn of_host(host: &VirtualHost, domain: &str, at: Location) -> Step {
    Step {
        part: Part::VirtualHost,
        name: host.name.clone(),
        notes: vec![format!("by domain {domain}")],
        at: Some(at),
    }
}

fn of_route(route: &Route, at: Location) -> Step {
    Step {
        part: Part::Route,
        name: route.name.clone(),
        notes: notes::of_route(route),
        at: Some(at),
    }
}
