//! What reads each kind of registry.

use std::sync::Arc;
use std::time::Duration;

use model::kinds::higress::Registry as Stated;

use super::{Credentials, Fault, Through, options};
use crate::consul::{self, Consul};
use crate::eureka::{self, Eureka};
use crate::fixed::{Fixed, instance, socket};
use crate::http::Server;
use crate::nacos::{self, Nacos};
use crate::proxy::LOOPBACK;
use crate::report::{Instance, Registry};
use crate::source::Open;
use crate::srv::{Srv, is_srv};
use crate::zookeeper::{self, ZooKeeper};

/// Settings that McpBridge has no field for, among `metadata`.
const SETTINGS: &str = "pilothouse";

/// Whether the fields of one kind make sense.
pub(super) fn check(stated: &Stated) -> Result<(), Fault> {
    match &*stated.registry_type {
        "static" => fixed(stated).map(|_| ()),
        "dns" => hosts(stated).map(|_| ()),
        "zookeeper" => options::servers(stated, zookeeper::PORT).map(|_| ()),
        kind if kind.starts_with("nacos") => match stated.nacos_address_server.is_empty() {
            true => options::servers(stated, nacos::PORT).map(|_| ()),
            false => Ok(()),
        },
        _ => server(stated).map(|_| ()),
    }
}

/// Whether servers of MCP are read.
pub(super) fn reads_mcp(stated: &Stated) -> bool {
    let knows = matches!(&*stated.registry_type, "nacos2" | "nacos3");
    knows && stated.enable_mcp_server == Some(true)
}

/// Whether it is one host of `dns`, which is no SRV record.
pub(super) fn is_one_host(stated: &Stated) -> bool {
    let hosts = || hosts(stated).unwrap_or_default();
    &*stated.registry_type == "dns"
        && matches!(hosts(), Hosts::Plain(instances) if instances.len() == 1)
}

/// What makes readers.
pub(super) fn open(stated: &Stated, credentials: &Credentials, through: Option<&Through>) -> Open {
    if let Some(through) = through {
        return every(Fixed {
            host: stated.listed_host().into(),
            instances: vec![instance(LOOPBACK, through.listener)],
        });
    }
    match &*stated.registry_type {
        "consul" => {
            let consul = Consul::new(&consul::Options {
                server: server(stated).unwrap_or_else(|_| nowhere()),
                tag: stated.consul_service_tag.clone(),
                datacenter: stated.consul_datacenter.clone(),
                namespace: stated.consul_namespace.clone(),
                token: credentials.0.get("consulToken").cloned(),
            });
            every(consul)
        }
        "eureka" => {
            let options = eureka::Options {
                server: server(stated).unwrap_or_else(|_| nowhere()),
                path: setting(stated, "path").unwrap_or_else(|| "/eureka".into()),
                refresh: refresh(stated).unwrap_or(eureka::REFRESH),
                basic: options::basic(credentials),
            };
            Arc::new(move || Box::new(Eureka::new(&options)))
        }
        "zookeeper" => {
            let options = options::zookeeper(stated, credentials);
            Arc::new(move || Box::new(ZooKeeper::new(options.clone())))
        }
        kind if kind.starts_with("nacos") => {
            let options = options::nacos(stated, credentials);
            Arc::new(move || Box::new(Nacos::new(options.clone())))
        }
        "static" => every(Fixed {
            host: stated.listed_host().into(),
            instances: fixed(stated).unwrap_or_default(),
        }),
        _ => match hosts(stated).unwrap_or_default() {
            Hosts::Plain(instances) => every(Fixed {
                host: stated.listed_host().into(),
                instances,
            }),
            Hosts::Records(names) => every(Srv {
                host: stated.listed_host().into(),
                names,
            }),
        },
    }
}

fn every<R: Registry + Clone + Send + Sync + 'static>(registry: R) -> Open {
    Arc::new(move || Box::new(registry.clone()))
}

/// A server that nobody is: what is checked before is not asked for.
fn nowhere() -> Server {
    Server {
        tls: false,
        host: "invalid.".into(),
        port: 0,
    }
}

fn setting(stated: &Stated, key: &str) -> Option<Arc<str>> {
    stated.metadata.get(SETTINGS)?.inner_map.get(key).cloned()
}

/// How often a registry is asked, in seconds.
fn refresh(stated: &Stated) -> Option<Duration> {
    let seconds: u64 = setting(stated, "refreshSeconds")?.parse().ok()?;
    Some(Duration::from_secs(seconds.max(1)))
}

/// Where a registry is: `domain` and `port`; over TLS where the domain begins with `https://`.
fn server(stated: &Stated) -> Result<Server, Fault> {
    let domain = &*stated.domain;
    let (tls, host) = match domain.strip_prefix("https://") {
        Some(host) => (true, host),
        None => (false, domain.strip_prefix("http://").unwrap_or(domain)),
    };
    let host = host.trim_matches(['[', ']']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || !host.chars().all(is_part) {
        let message = format!("{domain:?} is no host");
        return Err(Fault::new("domain", message));
    }
    Ok(Server {
        tls,
        host: host.into(),
        port: super::port(stated.port).unwrap_or(0),
    })
}

fn fixed(stated: &Stated) -> Result<Vec<Instance>, Fault> {
    let addresses = stated.domain.split(',').map(|address| {
        let wrong = || Fault::new("domain", format!("{address:?} is not IP:PORT"));
        socket(address).ok_or_else(wrong)
    });
    addresses.collect()
}

/// What `dns` lists.
enum Hosts {
    /// Hosts that proxies look up.
    Plain(Vec<Instance>),
    /// Names of SRV records.
    Records(Vec<Arc<str>>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

fn hosts(stated: &Stated) -> Result<Hosts, Fault> {
    let port = super::port(stated.port).unwrap_or(0);
    let names: Vec<&str> = stated.domain.split(',').map(str::trim).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_name = |name: &&&str| !name.is_empty() && name.len() <= 253 && name.chars().all(is_part);
    if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
        return Err(Fault::new("domain", format!("{wrong:?} is no host name")));
    }
    let records = names.iter().filter(|name| is_srv(name)).count();
    if records == names.len() {
        return Ok(Hosts::Records(names.into_iter().map(Arc::from).collect()));
    }
    if records > 0 {
        let message = "names SRV records as well as hosts, which are two services";
        return Err(Fault::new("domain", message));
    }
    Ok(Hosts::Plain(
        names.iter().map(|name| instance(name, port)).collect(),
    ))
}
