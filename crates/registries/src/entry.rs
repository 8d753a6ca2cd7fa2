//! A registry as it is configured: an entry of McpBridge, checked, with its credentials.

mod open;
mod options;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::kinds::higress::{REGISTRIES, Registry as Stated};
use model::{Namespace, Owner, SourceId};

use crate::keeper::Keep;
use crate::nacos::mcp;
use crate::protocol::Protocol;
use crate::proxy::{Proxy, Tunnel};
use crate::service::{Making, VirtualPorts};
use crate::source::Open;
use model::redacted::Redacted;

/// Precedence of registries: whatever else there is wins over them.
pub(crate) const RANK: u8 = 250;

/// Credentials, by the names of Higress: `consulToken` and others.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Credentials(pub BTreeMap<Arc<str>, Redacted>);

/// What is wrong with an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The field of the entry.
    pub field: &'static str,
    /// A sentence about its value, without it as the subject.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { field, message }
    }
}

/// Kind and name of a registry, which tell them apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The kind.
    pub kind: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl Key {
    /// Of an entry.
    pub fn of(stated: &Stated) -> Self {
        Self {
            kind: stated.registry_type.clone(),
            name: stated.name.clone(),
        }
    }

    /// Whose the objects are that servers of MCP of this registry become.
    pub fn owner_of_mcp(&self) -> Owner {
        Owner::from(SourceId {
            rank: RANK,
            name: format!("mcp:{self}").into(),
        })
    }

    /// Whose the objects of this registry are.
    pub fn owner(&self) -> Owner {
        Owner::from(SourceId {
            rank: RANK,
            name: format!("registry:{self}").into(),
        })
    }
}

/// A registry that can be read. Equal ones are read in the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    stated: Stated,
    credentials: Credentials,
    through: Option<Through>,
}

/// The proxy through which a service is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Through {
    /// Its name.
    pub proxy: Arc<str>,
    /// The port of loopback that leads to it.
    pub listener: u16,
    /// What it is asked for.
    pub tunnel: Tunnel,
}

impl Entry {
    /// Checks an entry; `proxy` is the one that it names, if it can be used.
    ///
    /// # Errors
    ///
    /// When it cannot be read, with what is wrong.
    pub fn new(
        stated: Stated,
        credentials: Credentials,
        proxy: Option<&Proxy>,
    ) -> Result<Self, Fault> {
        let kind = &*stated.registry_type;
        if !REGISTRIES.contains(&kind) {
            let known = REGISTRIES.join(", ");
            let message = format!("{kind:?} is no kind of registry that is read: {known}");
            return Err(Fault::new("type", message));
        }
        if stated.name.is_empty() {
            return Err(Fault::new("name", "must not be empty"));
        }
        let is_nacos = kind.starts_with("nacos");
        let has_address_server = is_nacos && !stated.nacos_address_server.is_empty();
        if stated.domain.is_empty() && !has_address_server {
            return Err(Fault::new("domain", "must not be empty"));
        }
        // What has a port of its own, or one that everybody takes, need not state it.
        let needs_port = !matches!(kind, "static" | "zookeeper") && !is_nacos;
        if (needs_port || stated.port > 0) && u16::try_from(stated.port).unwrap_or(0) == 0 {
            return Err(Fault::new("port", format!("{} is no port", stated.port)));
        }
        if !stated.protocol.is_empty() && Protocol::parse(&stated.protocol).is_none() {
            let message = format!("{:?} is no protocol that is known", stated.protocol);
            return Err(Fault::new("protocol", message));
        }
        ports(&stated)?;
        of_mcp(&stated)?;
        open::check(&stated)?;
        let through = through(&stated, proxy)?;
        Ok(Self {
            stated,
            credentials,
            through,
        })
    }

    /// The proxy through which its service is reached, if that is by one.
    pub fn through(&self) -> Option<&Through> {
        self.through.as_ref()
    }

    /// Its kind and name.
    pub fn key(&self) -> Key {
        Key::of(&self.stated)
    }

    /// How its services are made into objects. What is behind a proxy is there for the edge's namespace only, whose gateways
    /// know the way.
    pub fn making(&self, home: &Namespace) -> Making {
        let key = self.key();
        let is_listed = self.stated.is_listed();
        let sni = sni(&self.stated).clone();
        // The services of `static` and `dns` have the port that the entry says, unless another stands for it.
        let mut ports = ports(&self.stated).unwrap_or_default();
        if is_listed && ports.default.is_none() {
            ports.default = port(self.stated.port);
        }
        Making {
            owner: key.owner(),
            kind: key.kind,
            name: key.name,
            protocol: Protocol::parse(&self.stated.protocol).unwrap_or(Protocol::Http),
            sni,
            ports,
            only_in: self.through.as_ref().map(|_| home.clone()),
        }
    }

    /// The servers of MCP of a Nacos, where they are to be read: objects of the edge's namespace, served by a class.
    pub fn mcp(&self, home: &Namespace, class: &Arc<str>, patience: Keep) -> Option<mcp::Reading> {
        let stated = &self.stated;
        if !open::reads_mcp(stated) {
            return None;
        }
        let key = self.key();
        let nacos = options::nacos(stated, &self.credentials);
        let scoped = stated.enable_scope_mcp_servers == Some(true);
        Some(mcp::Reading {
            making: mcp::Making {
                owner: key.owner_of_mcp(),
                home: home.clone(),
                class: class.clone(),
                kind: key.kind,
                registry: key.name,
                namespace: nacos.name_in_hosts(),
                base: stated.mcp_server_base_url.clone(),
                domains: stated.mcp_server_export_domains.clone(),
            },
            nacos,
            only: scoped.then(|| stated.allow_mcp_servers.iter().cloned().collect()),
            patience,
        })
    }

    /// What makes readers of it.
    pub fn open(&self) -> Open {
        open::open(&self.stated, &self.credentials, self.through.as_ref())
    }
}

/// The server name that TLS asks for; of one host of `dns` that host, where it is not stated.
fn sni(stated: &Stated) -> &Arc<str> {
    let is_one = &*stated.registry_type == "dns" && !stated.domain.contains(',');
    match stated.sni.is_empty() && is_one {
        true => &stated.domain,
        false => &stated.sni,
    }
}

/// How a service is reached through its proxy, whose TLS tells which service is meant.
fn through(stated: &Stated, proxy: Option<&Proxy>) -> Result<Option<Through>, Fault> {
    let name = &stated.proxy_name;
    if name.is_empty() {
        return Ok(None);
    }
    let Some(proxy) = proxy else {
        let message = format!("there is no proxy {name:?} among `proxies` that can be used");
        return Err(Fault::new("proxyName", message));
    };
    let protocol = Protocol::parse(&stated.protocol).unwrap_or(Protocol::Http);
    if !protocol.is_tls() || !open::is_one_host(stated) {
        let message =
            "only one host of type dns is reached through a proxy, with protocol https or grpcs";
        return Err(Fault::new("proxyName", message));
    }
    let name = sni(stated).trim();
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !name.chars().all(is_part) {
        return Err(Fault::new("sni", format!("{name:?} is no server name")));
    }
    Ok(Some(Through {
        proxy: proxy.name.clone(),
        listener: proxy.listener,
        tunnel: Tunnel {
            sni: name.to_ascii_lowercase().into(),
            target: format!("{}:{}", stated.domain.trim(), stated.port).into(),
        },
    }))
}

/// What is wrong with what is said of servers of MCP.
fn of_mcp(stated: &Stated) -> Result<(), Fault> {
    let base = &*stated.mcp_server_base_url;
    let is_char = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !(base.is_empty() || base.starts_with('/') && base.chars().all(is_char)) {
        let message = format!("{base:?} is not the beginning of a path");
        return Err(Fault::new("mcpServerBaseUrl", message));
    }
    Ok(())
}

/// A port; none where it is not stated.
fn port(stated: u32) -> Option<u16> {
    u16::try_from(stated).ok().filter(|port| *port > 0)
}

fn ports(stated: &Stated) -> Result<VirtualPorts, Fault> {
    let Some(virtual_ports) = &stated.vport else {
        return Ok(VirtualPorts::default());
    };
    let check = |number: u32| match port(number) {
        None if number > 0 => Err(Fault::new("vport", format!("{number} is no port"))),
        port => Ok(port),
    };
    let default = check(virtual_ports.default)?;
    let mut services = BTreeMap::new();
    for service in &virtual_ports.services {
        if let Some(port) = check(service.value)? {
            services.insert(service.name.clone(), port);
        }
    }
    Ok(VirtualPorts { default, services })
}

#[cfg(test)]
mod tests;
