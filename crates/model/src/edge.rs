//! What a route of an edge asks of its proxy that Istio's HTTP routes have no field for.
//!
//! Translators of Ingresses fill it in beside a derived VirtualService, route by route; generation turns it into HTTP
//! filters of stock Envoy. Like all of [`Derived`](crate::Derived), no document can set it.

mod documents;
mod front;
mod mcp;
mod remotes;
mod rpc;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::template::Asker;

pub use documents::{EdgeDocuments, EdgeFile};
pub use front::Front;
pub use mcp::{Mcp, McpEntry, Moved, Transport};
pub use remotes::{RemoteIngress, RemoteIngresses};
pub use rpc::{Argument, ArgumentSource, Dubbo, HttpMethod, Method, Passed, Rpc};

/// What one HTTP route asks for, beside what its HTTPRoute says.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct EdgeRoute {
    /// Which clients may send requests.
    pub addresses: Option<AddressRules>,
    /// Who may send requests, by name and password.
    pub users: Option<Users>,
    /// A service that decides about each request.
    pub external: Option<ExternalAuth>,
    /// Passing one of `addresses`, `users` and `external` is enough; otherwise each must be passed.
    pub any_is_enough: bool,
    /// How many requests are served. All answer with the status of the first, and clients that are not counted stand in
    /// all of them.
    pub limits: Vec<RateLimit>,
    /// How long the body of a request may be, in bytes; longer ones get 413.
    pub max_body: Option<u32>,
    /// Where requests go that the backend cannot answer.
    pub fallback: Option<Fallback>,
    /// How long neither side may be silent; the proxy's default where absent.
    pub idle_timeout: Option<Duration>,
    /// It leads to a server of MCP.
    pub mcp: Option<Mcp>,
    /// Its requests become calls of Dubbo.
    pub rpc: Option<Rpc>,
    /// Backends are told of clients in the headers that ingress-nginx sets (`x-real-ip`, `x-forwarded-host`, ...); what clients
    /// state in them themselves does not pass.
    pub tells_clients: bool,
    /// Headers of requests whose names have underscores do not pass: a backend that reads headers as CGI does takes
    /// `x_forwarded_for` for `x-forwarded-for`.
    pub drops_underscores: bool,
    /// `strict-transport-security` of answers over TLS.
    pub hsts: Option<Arc<str>>,
}

/// Which clients may send requests. The address is the one that the proxy trusts (`x-forwarded-for` with trusted hops).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AddressRules {
    /// Only these; all where empty.
    pub allowed: BTreeSet<IpNet>,
    /// None of these, even if allowed.
    pub denied: BTreeSet<IpNet>,
}

/// Names with hashed passwords: a secret, so it prints nothing of itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Users {
    /// What clients are told that they log in to.
    pub realm: Arc<str>,
    /// Lines as htpasswd writes them, sorted by name: `name:{SHA}hash`, which Envoy reads, and `name:$apr1$salt$hash`, which a
    /// script reads.
    pub lines: Arc<str>,
    /// The object that names them: only its proxies get the lines.
    pub asker: Asker,
}

impl Users {
    /// What the hashes of passwords begin with that only a script reads.
    pub const APR1: &'static str = "$apr1$";

    /// Whether a script has to check passwords.
    pub fn need_script(&self) -> bool {
        self.lines.lines().any(|line| {
            let hash = line.split_once(':').map(|(_, hash)| hash);
            hash.is_some_and(|hash| hash.starts_with(Self::APR1))
        })
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users(realm {:?}, redacted)", self.realm)
    }
}

/// A service that decides about each request by HTTP.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExternalAuth {
    /// The service's host in the mesh, as a destination names it; with `tls` a name in the DNS.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// The `:authority` of the request to it; in it `%HOST%` is the host of the request itself, without a port.
    pub authority: Arc<str>,
    /// The path of the request to it, in which `%REQ(name)%` and its like stand for what they do in `headers`, and `%%` for a
    /// percent sign; what was asked for is in headers, not added to it.
    pub path: Arc<str>,
    /// The method of the request to it; that of the request itself where absent.
    pub method: Option<Arc<str>>,
    /// Whether it is outside of the mesh, and called over TLS.
    pub tls: bool,
    /// Headers of its answer that the backend gets, in lower case.
    pub to_backend: Vec<Arc<str>>,
    /// Where clients are sent that it answers 401: a URL in which `%REQ(:path)%` is a header of the request, and
    /// `%ESCAPED_REQ(:path)%` the same as a part of a query, which `%REQ(:path)%` behind a `?` is as well.
    pub signin: Option<Arc<str>>,
    /// Cookies that it sets while it allows the request reach the client whatever the backend answers; otherwise with
    /// answers that are no errors.
    pub always_set_cookie: bool,
    /// Headers that the request to it has beside those of the request itself; `%REQ(name)%` in them is a header of that, and
    /// `%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%` the client's address. `x-original-url`, `x-original-method`,
    /// `x-original-uri`, `x-auth-request-redirect`, `x-forwarded-host` and `x-real-ip` are always there.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
    /// How long it may take.
    pub timeout: Duration,
}

impl ExternalAuth {
    /// The service, if it is outside of the mesh.
    pub fn outside(&self) -> Option<Outside> {
        self.tls.then(|| Outside {
            host: self.host.clone(),
            port: self.port,
        })
    }
}

/// A service outside of the mesh, found by DNS and called over TLS; its certificate is checked by the roots of the system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Outside {
    /// Its host, which its certificate is for.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

impl Outside {
    /// The name of its cluster.
    pub fn cluster(&self) -> String {
        format!("auth;{}:{}", self.host, self.port)
    }
}

/// How many requests are served in a time: a token bucket in each proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RateLimit {
    /// What the bucket holds.
    pub burst: u32,
    /// What is put into it each time.
    pub fill: u32,
    /// How often it is filled.
    pub every: Duration,
    /// What the answer is where it is empty.
    pub status: u16,
    /// Each client address has a bucket of its own; otherwise all share one.
    pub per_client: bool,
    /// Clients that are not counted.
    pub except: BTreeSet<IpNet>,
}

/// Where requests go that the backend cannot answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fallback {
    /// The host of the service, as a destination names it.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// It answers where the backend has no healthy endpoint.
    pub if_unavailable: bool,
    /// It answers in place of the backend's answers with these statuses; nginx's headers tell it why.
    pub statuses: BTreeSet<u16>,
    /// The headers that the request to it has where a status is the reason (`x-code`, `x-original-uri`, ...): in them
    /// `%RESPONSE_CODE%` is the status and `%REQ(name)%` a header of the request.
    pub headers: BTreeMap<Arc<str>, Arc<str>>,
}

/// A feature of a proxy that routes ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Need {
    /// [`EdgeRoute::addresses`].
    Addresses,
    /// [`EdgeRoute::users`].
    Users,
    /// [`EdgeRoute::external`].
    External,
    /// [`EdgeRoute::any_is_enough`] with several of the three, or [`Users::need_script`].
    AnyIsEnough,
    /// [`EdgeRoute::limits`].
    Limits,
    /// [`EdgeRoute::max_body`].
    Body,
    /// [`EdgeRoute::fallback`] by status.
    Fallback,
    /// [`EdgeRoute::mcp`]: sessions stay with the endpoint that made them.
    Session,
    /// [`Mcp::moved`].
    Moved,
    /// [`Transport::Rest`].
    Rest,
    /// [`EdgeRoute::rpc`].
    Rpc,
    /// [`EdgeRoute::drops_underscores`].
    Underscores,
}

impl Need {
    /// Whether a proxy that lacks what does it serves other routes all the same.
    pub fn is_of_route(self) -> bool {
        matches!(self, Self::Session | Self::Moved | Self::Rest | Self::Rpc)
    }

    /// Whether a route that asks for it is closed where nothing does it.
    pub fn closes(self) -> bool {
        !matches!(self, Self::Session | Self::Underscores)
    }
}

impl EdgeRoute {
    /// What the route asks of the filters of a listener.
    pub fn needs(&self) -> BTreeSet<Need> {
        let access = [
            self.addresses.as_ref().map(|_| Need::Addresses),
            self.users.as_ref().map(|_| Need::Users),
            self.external.as_ref().map(|_| Need::External),
        ];
        let mut needs: BTreeSet<Need> = access.into_iter().flatten().collect();
        let by_script = self.users.as_ref().is_some_and(Users::need_script);
        if self.any_is_enough && needs.len() > 1 || by_script {
            needs.insert(Need::AnyIsEnough);
        }
        let others = [
            (!self.limits.is_empty(), Need::Limits),
            (self.max_body.is_some(), Need::Body),
            (
                self.fallback
                    .as_ref()
                    .is_some_and(|f| !f.statuses.is_empty()),
                Need::Fallback,
            ),
            (self.rpc.is_some(), Need::Rpc),
            (self.drops_underscores, Need::Underscores),
        ];
        needs.extend(
            others
                .iter()
                .filter(|(asked, _)| *asked)
                .map(|(_, need)| *need),
        );
        if let Some(mcp) = &self.mcp {
            needs.insert(match mcp.transport {
                Transport::Rest => Need::Rest,
                Transport::Streamable | Transport::Events { .. } => Need::Session,
            });
            needs.extend(mcp.moved.as_ref().map(|_| Need::Moved));
        }
        needs
    }
}
