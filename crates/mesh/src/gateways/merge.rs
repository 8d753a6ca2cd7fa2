//! Servers of several Gateways on the sockets of one proxy: who shares one, who conflicts.
//!
//! Istio: pilot/pkg/model/gateway.go mergeGateways, 1.32.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::diagnostic::Diagnostic;
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::object::{Object, ObjectKey};
use model::protocol::Protocol;
use model::settings::{Bind, Listed};
use proto_istio::networking::server_tls_settings::TlSmode as TlsMode;
use proto_istio::networking::{Port, Server};
use store::{Reads, Snapshot};

use super::alone::Stated;
use super::bind;
use super::charge::gateway_is_over;
use super::owned::Owners;
use super::ports::Ports;
use super::select::{Reached, Selected, Turn};
use super::server::{is_http, is_passthrough, is_tls, may_be_quic, terminates_https};
use super::{GatewayKey, GatewayServer, MergedGateway, PortServers, ServerPort};
use crate::files;
use crate::finding::code;
use crate::reserved::Reserved;

pub(super) fn merge(
    cx: &Cx<'_, Snapshot>,
    key: &GatewayKey,
    selected: &[Selected],
    owners: Option<Arc<Owners>>,
) -> MergedGateway {
    let mut merging = Merging {
        cx,
        http3: cx.settings().features.quic_listeners,
        binds: cx.settings().features.gateway_binds.clone(),
        reserved: key.reserved.clone(),
        may_name_files: false,
        ports: Ports::new(cx, &key.namespace),
        merged: MergedGateway::default(),
        authors: Vec::new(),
        turns: Vec::new(),
        taken: BTreeSet::new(),
        plain: BTreeMap::new(),
        tls_hosts: BTreeMap::new(),
    };
    let served = selected
        .iter()
        .filter(|selected| !gateway_is_over(cx, &selected.gateway));
    let servers = served.flat_map(|selected| {
        let servers = selected.gateway.spec.servers.iter().enumerate();
        servers.map(move |(field, server)| (selected, field, server))
    });
    // What is not what a port is for has what is left of it.
    let (last, first): (Vec<_>, Vec<_>) = servers.partition(|(selected, _, server)| {
        let ports = resolved(server, &selected.reached);
        ports
            .into_iter()
            .any(|port| selected.yields(key, server, port))
    });
    for (selected, field, server) in first.into_iter().chain(last) {
        let author = selected.gateway.namespace();
        merging.may_name_files = files::may_name(cx, author, &key.namespace);
        let (left, refused) = served_hosts(cx, owners.as_deref(), (selected, field), server);
        merging.merged.refused.extend(refused);
        if !left.hosts.is_empty() || server.hosts.is_empty() {
            merging.server(selected, field, &left);
        }
    }
    let Merging {
        mut merged,
        ports,
        turns,
        ..
    } = merging;
    merged.refused.extend(ports.findings());
    in_turn(&mut merged, &turns);
    merged
}

/// Puts the servers of each socket and route configuration in the order in which their routes follow each other. Who had which port
/// and name is settled.
fn in_turn(merged: &mut MergedGateway, turns: &[Turn]) {
    let by_turn = |a: &usize, b: &usize| turns.get(*a).cmp(&turns.get(*b));
    let ports = merged.by_port.values_mut().chain(merged.quic.values_mut());
    for servers in ports.map(|port| &mut port.servers) {
        servers.sort_by(by_turn);
    }
    for servers in merged.by_route.values_mut() {
        servers.sort_by(by_turn);
    }
}

/// A server without the hosts that no client could ask for or that belong to others, and a finding for each of these.
fn served_hosts<'s>(
    cx: &Cx<'_, Snapshot>,
    owners: Option<&Owners>,
    (selected, field): (&Selected, usize),
    stated: &'s Server,
) -> (Cow<'s, Server>, Vec<Diagnostic>) {
    let refusal = |host: &str| {
        if let Some(why) = Stated::too_long(host) {
            return Some((code::SERVER_REFUSED, why));
        }
        let why = owners?.refuses_server(cx, &selected.gateway, host)?;
        Some((code::NOT_OWNED, why))
    };
    let of_gateway = Stated {
        gateway: &selected.gateway,
        field,
        server: stated,
    };
    let (mut left, mut refused) = (Vec::new(), Vec::new());
    for (at, host) in stated.hosts.iter().enumerate() {
        let Some((code, why)) = refusal(host) else {
            left.push(host);
            continue;
        };
        refused.push(of_gateway.without_host(at, code, &why));
    }
    let server = match refused.is_empty() {
        true => Cow::Borrowed(stated),
        false => Cow::Owned(Server {
            hosts: left.into_iter().cloned().collect(),
            ..stated.clone()
        }),
    };
    (server, refused)
}

struct Merging<'a> {
    cx: &'a Cx<'a, Snapshot>,
    http3: bool,
    /// What servers may bind besides all addresses.
    binds: Listed<Bind>,
    /// Ports that the proxy listens on itself.
    reserved: Reserved,
    /// Whether servers of the Gateway at hand may name files of the proxy.
    may_name_files: bool,
    /// How many ports namespaces may open still.
    ports: Ports,
    merged: MergedGateway,
    /// Who wrote each server.
    authors: Vec<ObjectKey>,
    /// When it is the turn of each server's routes.
    turns: Vec<Turn>,
    /// Port numbers in use.
    taken: BTreeSet<u16>,
    /// The socket of each port that carries no TLS.
    plain: BTreeMap<u16, ServerPort>,
    /// The names that TLS clients ask for on each port of an address, with the server that has each.
    tls_hosts: BTreeMap<(u16, Arc<str>), BTreeMap<String, usize>>,
}

/// Why a server does not fit beside another one, and what to do.
struct Clash {
    why: String,
    help: &'static str,
}

impl Clash {
    /// With a server that has the port for another protocol.
    fn of_port(why: String) -> Self {
        let help = "give the server another port, or agree on one Gateway for both";
        Self { why, help }
    }
}

impl Merging<'_> {
    fn server(&mut self, selected: &Selected, field: usize, stated: &Server) {
        let gateway = &selected.gateway;
        let of_gateway = Stated {
            gateway,
            field,
            server: stated,
        };
        let of_others = || of_gateway.names_file_of_others();
        let unbindable = of_gateway.unbindable(&self.binds);
        let refused = unbindable.or_else(|| (!self.may_name_files).then(of_others).flatten());
        let (None, Some(port)) = (&refused, &stated.port) else {
            self.merged.refused.extend(refused);
            return;
        };
        self.merged.edge |= gateway.meta.is_edge();
        let at = self.merged.servers.len();
        self.authors.push(selected.author.key.clone());
        self.turns.push(Turn::of(gateway));
        self.merged.servers.push(GatewayServer {
            server: Server {
                hosts: hosts(&stated.hosts, gateway.namespace()),
                ..stated.clone()
            },
            gateway: gateway.meta.name.clone(),
            field,
            gateway_name: gateway.meta.name.to_string().into(),
            shares_routes: shares_routes(stated, gateway),
            tls_route: Arc::default(),
            sni_hosts: Vec::new(),
        });
        let number = number_of(port);
        for resolved in resolve(number, &selected.reached) {
            let socket = ServerPort {
                number: resolved,
                protocol: port.protocol.as_str().into(),
                bind: stated.bind.as_str().into(),
            };
            if let Some(found) = of_gateway.on_reserved(&self.reserved, resolved) {
                self.merged.refused.push(found);
                continue;
            }
            let opens = self.holder(&socket).is_none();
            let fits = self.names_are_free(at, &socket);
            // More ports would not help a server that does not fit.
            let needs_port = opens && fits.is_ok();
            if needs_port && !self.ports.may_open(self.cx, gateway, (field, resolved)) {
                continue;
            }
            let route = route_name(stated, resolved, gateway);
            let udp = selected.reached.over_udp(number);
            let placed = fits.and_then(|()| self.place(at, socket.clone(), route.clone(), udp));
            match placed {
                Ok(()) => {
                    self.take_names(at, &socket, &route);
                    if opens {
                        self.ports.open(gateway);
                    }
                }
                Err(Clash { why, help }) => {
                    let why = format!("the server is not served on port {resolved}: {why}");
                    self.merged.refused.push(of_gateway.refused(why, help));
                }
            }
        }
    }

    /// The first server that listens there.
    fn holder(&self, socket: &ServerPort) -> Option<usize> {
        let first = ServerPort {
            number: socket.number,
            protocol: Arc::default(),
            bind: Arc::default(),
        };
        let open = self.merged.by_port.range(first..);
        let open = open.take_while(|(open, _)| open.number == socket.number);
        let there =
            open.filter(|(open, _)| bind::canonical(&open.bind) == bind::canonical(&socket.bind));
        there
            .filter_map(|(_, there)| there.servers.first())
            .min()
            .copied()
    }

    /// Who wrote a server, for those who have to give way to it.
    fn author(&self, at: Option<usize>) -> String {
        let author = at.and_then(|at| self.authors.get(at));
        author.map_or_else(|| "another server".to_owned(), ToString::to_string)
    }

    /// Whether no other server has TLS for the names of this one on the same address. The error says which has.
    fn names_are_free(&self, at: usize, socket: &ServerPort) -> Result<(), Clash> {
        let server = &self.merged.servers[at].server;
        let known = self.tls_hosts.get(&place_of(socket));
        let (Some(_), Some(known)) = (&server.tls, known) else {
            return Ok(());
        };
        let mut names = server.hosts.iter().map(|host| server_name(host));
        let taken = names.find_map(|name| Some((known.get(&name).copied()?, name)));
        taken.map_or(Ok(()), |(holder, name)| {
            let holder = self.author(Some(holder));
            Err(Clash {
                why: format!("{holder} has TLS for {name} there"),
                help: "give the server other hosts or another port, or agree on one Gateway for both",
            })
        })
    }

    /// Takes the names of a server with TLS settings, which has its place.
    fn take_names(&mut self, at: usize, socket: &ServerPort, route: &Arc<str>) {
        let server = &mut self.merged.servers[at];
        let Some(tls) = &server.server.tls else {
            return;
        };
        let names = server.server.hosts.iter().map(|host| server_name(host));
        let names: BTreeSet<String> = names.collect();
        let known = self.tls_hosts.entry(place_of(socket)).or_default();
        known.extend(names.iter().map(|name| (name.clone(), at)));
        server.sni_hosts = names.into_iter().collect();
        server.tls_route = route.clone();
        self.merged.auto_passthrough |= tls.mode() == TlsMode::AutoPassthrough;
    }

    /// Puts a server on a socket. The error says why it does not fit there.
    fn place(
        &mut self,
        at: usize,
        socket: ServerPort,
        route: Arc<str>,
        udp: bool,
    ) -> Result<(), Clash> {
        if self.taken.insert(socket.number) {
            self.open(at, &socket, &route);
        } else if let Some(current) = self.plain.get(&socket.number).cloned() {
            if current.bind == socket.bind {
                let (new, held) = (parse(&socket), parse(&current));
                let mergeable = (new.is_http() || new == held) && held.is_http();
                if !mergeable || route.is_empty() {
                    let holder = self.author(self.holder(&current));
                    return Err(Clash::of_port(format!(
                        "{holder} serves {} there, which cannot share a port with {}",
                        current.protocol, socket.protocol
                    )));
                }
                self.join(at, &current, &route);
                // No further: whoever was there first also speaks for HTTP/3.
                return Ok(());
            }
            if self.merged.by_port.contains_key(&socket) {
                self.join(at, &socket, &route);
                if let Some(servers) = self.merged.by_port.get_mut(&socket) {
                    servers.route = route.clone();
                }
            } else {
                self.open(at, &socket, &route);
            }
        } else if is_tls(&self.merged.servers[at].server) {
            if !self.join_tls(at, &socket, &route) {
                let known = self.merged.by_route.get(&route);
                let holder = self.author(known.and_then(|servers| servers.first().copied()));
                return Err(Clash {
                    why: format!("{holder} has a server whose port has the same name"),
                    help: "give the port another name",
                });
            }
        } else if let Some(holder) = self.holder(&socket) {
            let holder = self.author(Some(holder));
            return Err(Clash::of_port(format!(
                "{holder} serves TLS there, which cannot share a port with a server without TLS"
            )));
        } else {
            self.open(at, &socket, &route);
            return Ok(());
        }
        let server = &self.merged.servers[at].server;
        if self.http3 && udp && may_be_quic(server) {
            let quic = self.merged.quic.entry(socket).or_default();
            quic.servers.push(at);
            self.merged.http3_routes.insert(route);
        }
        Ok(())
    }

    /// A socket of its own.
    fn open(&mut self, at: usize, socket: &ServerPort, route: &Arc<str>) {
        let server = &self.merged.servers[at].server;
        if !is_tls(server) {
            self.plain.insert(socket.number, socket.clone());
        }
        if is_http(server) {
            if self.merged.servers[at].shares_routes {
                self.share(at, route);
            } else {
                self.merged.by_route.insert(route.clone(), vec![at]);
            }
        }
        let servers = PortServers {
            servers: vec![at],
            route: route.clone(),
        };
        self.merged.by_port.insert(socket.clone(), servers);
        self.merged.ports.push(socket.clone());
    }

    /// A further server of a socket without TLS.
    fn join(&mut self, at: usize, socket: &ServerPort, route: &Arc<str>) {
        if let Some(servers) = self.merged.by_port.get_mut(socket) {
            servers.servers.push(at);
        }
        let routed = self.merged.by_route.entry(route.clone()).or_default();
        routed.push(at);
    }

    /// A server of a route configuration that all of an edge share. It has one place there, however many sockets it has.
    fn share(&mut self, at: usize, route: &Arc<str>) {
        let routed = self.merged.by_route.entry(route.clone()).or_default();
        if routed.last() != Some(&at) {
            routed.push(at);
        }
    }

    /// A further server of a socket with TLS, told apart by the name that clients ask for. False if it cannot have
    /// routes of its own.
    fn join_tls(&mut self, at: usize, socket: &ServerPort, route: &Arc<str>) -> bool {
        if is_http(&self.merged.servers[at].server) {
            if self.merged.servers[at].shares_routes {
                self.share(at, route);
            } else if route.is_empty() || self.merged.by_route.contains_key(route) {
                return false;
            } else {
                self.merged.by_route.insert(route.clone(), vec![at]);
            }
        }
        if let Some(servers) = self.merged.by_port.get_mut(socket) {
            servers.servers.push(at);
        } else {
            let servers = PortServers {
                servers: vec![at],
                route: Arc::default(),
            };
            self.merged.by_port.insert(socket.clone(), servers);
            self.merged.ports.push(socket.clone());
        }
        true
    }
}

/// Whether a server has its routes in one configuration with the other HTTPS servers of its port: an edge finds routes by the
/// host of a request. Where certificates of clients are asked for, they stand apart: nobody may get there over a connection
/// that another server took.
fn shares_routes(server: &Server, gateway: &Object<Gateway>) -> bool {
    let tls = server.tls.as_ref();
    gateway.meta.is_edge()
        && terminates_https(server)
        && tls.is_some_and(|tls| tls.mode() == TlsMode::Simple)
}

/// What the address of a server adds to the name of its route configuration.
fn bind(server: &Server) -> String {
    match server.bind.as_str() {
        "" => String::new(),
        bind => format!(".{bind}"),
    }
}

fn parse(socket: &ServerPort) -> Protocol {
    Protocol::parse(&socket.protocol)
}

/// Hosts with their namespace written out, and without where it is any.
fn hosts(stated: &[String], namespace: &Namespace) -> Vec<String> {
    if stated.iter().any(|host| host == "*/*") {
        return vec!["*".to_owned()];
    }
    let written = stated.iter().map(|host| match host.split_once('/') {
        Some((".", host)) => format!("{namespace}/{host}"),
        Some(("*", host)) => host.to_owned(),
        _ => host.clone(),
    });
    written.collect()
}

/// The name that TLS clients ask for to get to a host of a server, whatever namespaces it is for. Envoy compares names without
/// case.
fn server_name(host: &str) -> String {
    let mut parts = host.split('/');
    let first = parts.next().unwrap_or_default();
    parts.next().unwrap_or(first).to_ascii_lowercase()
}

/// Where connections to a socket arrive.
fn place_of(socket: &ServerPort) -> (u16, Arc<str>) {
    (socket.number, bind::canonical(&socket.bind).into())
}

fn number_of(port: &Port) -> u16 {
    u16::try_from(port.number).unwrap_or(0)
}

/// The ports that a proxy binds for a server.
fn resolved(server: &Server, reached: &Reached) -> Vec<u16> {
    let port = server.port.as_ref();
    port.map_or_else(Vec::new, |port| resolve(number_of(port), reached))
}

/// The ports that a proxy binds for a Gateway's port: those behind the service ports of that number. A Gateway that
/// selects by labels takes the first, and its own number where there is none. An offset that leads beyond all ports binds none.
///
/// Istio: pilot/pkg/model/gateway.go resolvePorts, 1.32.
fn resolve(number: u16, reached: &Reached) -> Vec<u16> {
    match reached {
        Reached::Anyhow(instances) => {
            let mut behind = instances.iter();
            let behind = behind.find(|i| i.port == number && !i.untranslated);
            vec![behind.map_or(number, |i| i.target_port)]
        }
        Reached::Services(instances) => {
            let behind = instances.iter().filter(|i| i.port == number);
            let ports: BTreeSet<u16> = behind.map(|i| i.target_port).collect();
            ports.into_iter().collect()
        }
        Reached::Directly(offset) => number.checked_add(*offset).into_iter().collect(),
    }
}

impl Reached {
    /// Whether clients also come over UDP.
    fn over_udp(&self, port: u16) -> bool {
        match self {
            Self::Anyhow(instances) | Self::Services(instances) => {
                let mut instances = instances.iter();
                instances.any(|i| i.protocol == Protocol::Udp && i.port == port)
            }
            Self::Directly(_) => false,
        }
    }
}

/// The name of a server's route configuration; empty where requests are not read.
///
/// Istio: pilot/pkg/model/gateway.go gatewayRDSRouteName, 1.32.
fn route_name(server: &Server, resolved: u16, gateway: &Object<Gateway>) -> Arc<str> {
    let Some(port) = &server.port else {
        return Arc::default();
    };
    let bind = bind(server);
    let protocol = Protocol::parse(&port.protocol);
    if protocol.is_http() {
        return format!("http.{resolved}{bind}").into();
    }
    if protocol == Protocol::Https && !is_passthrough(server) {
        if shares_routes(server, gateway) {
            return format!("https.{}{bind}", port.number).into();
        }
        let name = &gateway.meta.name;
        return format!(
            "https.{}.{}.{}.{}{bind}",
            port.number, port.name, name.name, name.namespace
        )
        .into();
    }
    Arc::default()
}
