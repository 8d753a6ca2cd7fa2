//! Servers of a Gateway, and hosts of them, that are not served whatever other Gateways the proxy has: because of an address or a file
//! that is not allowed, a port that proxies listen on themselves, or a host that no client could request.

use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::host::LONGEST;
use model::kinds::istio::Gateway;
use model::kinds::kube::Service;
use model::object::{Object, ObjectName};
use model::protocol::Protocol;
use model::settings::{Bind, Listed};
use proto_istio::networking::Server;
use store::{Reads, Snapshot};

use super::bind;
use super::server::is_tls;
use crate::files;
use crate::finding::{about, code};
use crate::reserved::Reserved;
use crate::stated_hosts::stated_for;

/// A server of a Gateway, and its place there.
#[derive(Clone, Copy)]
pub(super) struct Stated<'s> {
    pub(super) gateway: &'s Object<Gateway>,
    pub(super) field: usize,
    pub(super) server: &'s Server,
}

impl Stated<'_> {
    /// The finding that the server is not served.
    pub(super) fn refused(&self, why: String, help: &'static str) -> Diagnostic {
        about(self.gateway, code::SERVER_REFUSED, Severity::Error, why)
            .at(format!("spec.servers[{}]", self.field))
            .help(help)
    }

    /// The finding that it has no port, or an address that proxies may not bind. `None` where it has a port that they may.
    pub(super) fn unbindable(&self, binds: &Listed<Bind>) -> Option<Diagnostic> {
        if self.server.port.is_none() {
            let why = "the server has no port and is not served".to_owned();
            return Some(self.refused(why, "state its `port`, with a number and a protocol"));
        }
        let why = bind::fault(binds, &self.server.bind)?;
        let why = format!("the server is not served: {why}");
        let help = "leave `bind` out, or have PILOTHOUSE_GATEWAY_BINDS allow it";
        Some(self.refused(why, help))
    }

    /// The finding that it names a file of a proxy of others; `None` where it names none.
    pub(super) fn names_file_of_others(&self) -> Option<Diagnostic> {
        let tls = self.server.tls.as_ref().filter(|_| is_tls(self.server))?;
        let file = files::named_by(tls)?;
        let why = "the server is not served: files of a proxy are for Gateways of its own namespace and of the root namespace";
        let help = "name a Secret (`credentialName`), or have PILOTHOUSE_PROXY_FILES allow files";
        let path = format!("spec.servers[{}].tls.{file}", self.field);
        Some(self.refused(why.to_owned(), help).at(path))
    }

    /// The finding that a port on which a proxy would serve it is one that the proxy listens on itself.
    pub(super) fn on_reserved(&self, reserved: &Reserved, port: u16) -> Option<Diagnostic> {
        let stated = self.server.port.as_ref()?;
        // A gateway of tunnels listens where tunnels end.
        if Protocol::parse(&stated.protocol) == Protocol::Hbone {
            return None;
        }
        let holder = reserved.holder(port)?;
        let why = format!(
            "the server is not served on port {port}: it is a port of Envoy or its agent ({holder})"
        );
        Some(self.refused(why, "use another port"))
    }

    /// Why no client could ask for a host of it. Only `--validation warn` lets such a host pass.
    pub(super) fn too_long(host: &str) -> Option<String> {
        let length = stated_for(host).1.len();
        (length > LONGEST).then(|| format!("it has {length} bytes, more than {LONGEST}"))
    }

    /// The finding that it does not serve one of its hosts.
    pub(super) fn without_host(&self, at: usize, code: &'static str, why: &str) -> Diagnostic {
        let why = format!("the server does not serve a host: {why}");
        about(self.gateway, code, Severity::Warning, why)
            .at(format!("spec.servers[{}].hosts[{at}]", self.field))
    }
}

/// Findings about servers and hosts of a written Gateway that no proxy serves, whatever else the proxy has. Files are not among them: a
/// proxy of the Gateway's own namespace may have them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServedNowhere(pub ObjectName);

impl Query<Snapshot> for ServedNowhere {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let gateway = cx.get::<Gateway>(&self.0);
        let Some(gateway) = gateway.filter(|gateway| gateway.meta.derived.is_none()) else {
            return Arc::default();
        };
        let mut found = Vec::new();
        for (field, server) in gateway.spec.servers.iter().enumerate() {
            let stated = Stated {
                gateway: &gateway,
                field,
                server,
            };
            let hosts = server.hosts.iter().enumerate();
            found.extend(hosts.filter_map(|(at, host)| {
                let why = Stated::too_long(host)?;
                Some(stated.without_host(at, code::SERVER_REFUSED, &why))
            }));
            let unbindable = stated.unbindable(&cx.settings().features.gateway_binds);
            found.extend(unbindable.or_else(|| on_own_port(cx, &stated)));
        }
        found.into()
    }
}

/// The finding that a server is on a port that every proxy listens on itself. A Service may lead from it to another one.
fn on_own_port(cx: &Cx<'_, Snapshot>, stated: &Stated<'_>) -> Option<Diagnostic> {
    let port = u16::try_from(stated.server.port.as_ref()?.number).ok()?;
    let found = stated.on_reserved(&Reserved::default(), port)?;
    let leads_on = |service: &Service| {
        let mut ports = service.ports.iter();
        ports.any(|of| {
            let target = of.target_port.as_ref().map(|target| target.number());
            of.port == i32::from(port) && target.is_some_and(|to| to != Some(of.port))
        })
    };
    let services = cx.list::<Service>();
    let is_reached = services.iter().any(|service| leads_on(&service.spec));
    (!is_reached).then_some(found)
}
