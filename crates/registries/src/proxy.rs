//! Proxies before services: gateways reach a host that they cannot reach themselves through a tunnel, which they open with CONNECT.
//!
//! A gateway connects to a port of its own that listens on loopback. The server name of the TLS that comes there says which service is
//! meant, and so which host the proxy is asked for; any other name is refused.
// Higress: registry/proxy/factory.go, 2.1, whose names of listeners and clusters these are. Unlike there, the proxy is asked for the host
// and port of the service, not for port 443 of whatever name comes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use model::kinds::gateway_api::short_hash;
use model::kinds::higress::RegistryProxy as Stated;
use model::object::Origin;
use model::{Age, AnyObject, Change, Collection, Contents, Kind, Meta, Namespace};
use model::{Object, ObjectName, Owner};
use proto_istio::networking::EnvoyFilter;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::{
    ApplyTo, EnvoyConfigObjectMatch, EnvoyConfigObjectPatch, Patch, PatchContext,
};
use serde_json::{Value, json};
use source_api::{Running, Sink, Source, SourceEvent};
use tokio_util::sync::CancellationToken;

use crate::entry::Fault;

/// The ports of loopback that stand for proxies that state none.
const PORTS: std::ops::Range<u16> = 50_001..51_000;
/// How long connecting to a proxy may take where it is not stated, in milliseconds.
const CONNECT_TIMEOUT: u32 = 1_200;
/// The longest name of a proxy: it is part of names of clusters and objects.
const NAME_BYTES: usize = 200;

/// A proxy, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    /// Its name.
    pub name: Arc<str>,
    /// The port of loopback that leads to it.
    pub listener: u16,
    address: Arc<str>,
    port: u16,
    connect_timeout: u32,
}

/// What a proxy is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tunnel {
    /// The server name that tells it from others.
    pub sni: Arc<str>,
    /// The host and port that the proxy connects to.
    pub target: Arc<str>,
}

impl Proxy {
    /// Checks a proxy, and gives it a port where it states none: one that its name decides, so that it stays whatever comes beside it.
    ///
    /// # Errors
    ///
    /// When it cannot be used, with what is wrong.
    pub fn new(stated: &Stated, taken: &BTreeSet<u16>) -> Result<Self, Fault> {
        if !stated.proxy_type.is_empty() && !stated.proxy_type.eq_ignore_ascii_case("http") {
            let message = format!(
                "{:?} is no kind of proxy that is spoken to: HTTP",
                stated.proxy_type
            );
            return Err(Fault::new("type", message));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_word =
            |text: &str, most| !text.is_empty() && text.len() <= most && text.chars().all(is_part);
        if !is_word(&stated.name, NAME_BYTES) {
            let message = format!("{:?} is no name", stated.name);
            return Err(Fault::new("name", message));
        }
        let address = &stated.server_address;
        if address.parse::<IpAddr>().is_err() && !is_word(address, 253) {
            let message = format!("{address:?} is neither an IP address nor a host");
            return Err(Fault::new("serverAddress", message));
        }
        let port = port("serverPort", stated.server_port)?;
        let listener = match stated.listener_port {
            0 => free(&stated.name, taken)?,
            stated => port_of_listener(stated, taken)?,
        };
        Ok(Self {
            name: stated.name.clone(),
            listener,
            address: address.clone(),
            port,
            connect_timeout: match stated.connect_timeout {
                0 => CONNECT_TIMEOUT,
                stated => stated,
            },
        })
    }

    /// The object that gives gateways of a namespace the proxy, for some tunnels.
    pub fn object(&self, tunnels: &[&Tunnel], home: &Namespace) -> Arc<Object<EnvoyFilter>> {
        let name = ObjectName::new(home.clone(), format!("mcp-bridge-proxy-{}", self.name));
        let spec = EnvoyFilter {
            config_patches: vec![
                added(ApplyTo::Cluster, self.cluster()),
                added(ApplyTo::Listener, self.listener(tunnels)),
            ],
            ..EnvoyFilter::default()
        };
        Arc::new(Object {
            meta: Meta {
                created: Age::First,
                ..Meta::new(name, Origin::Source(owner().source))
            },
            spec,
            status: Default::default(),
        })
    }

    fn cluster_name(&self) -> String {
        format!("outbound|{}||{}.proxy", self.port, self.name)
    }

    fn cluster(&self) -> Value {
        let name = self.cluster_name();
        let kind = match self.address.parse::<IpAddr>() {
            Ok(_) => "STATIC",
            Err(_) => "STRICT_DNS",
        };
        let (seconds, millis) = (self.connect_timeout / 1_000, self.connect_timeout % 1_000);
        let socket = json!({"address": &*self.address, "port_value": self.port});
        let endpoint = json!({"endpoint": {"address": {"socket_address": socket}}});
        json!({
            "name": name,
            "type": kind,
            "connect_timeout": format!("{seconds}.{millis:03}s"),
            "dns_lookup_family": "V4_PREFERRED",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        })
    }

    fn listener(&self, tunnels: &[&Tunnel]) -> Value {
        let chains: Vec<Value> = tunnels
            .iter()
            .map(|tunnel| {
                let proxy = json!({
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                    "stat_prefix": format!("tcpproxy.{}", self.name),
                    "cluster": self.cluster_name(),
                    "tunneling_config": {"hostname": &*tunnel.target},
                });
                json!({
                    "name": &*tunnel.sni,
                    "filter_chain_match": {"server_names": [&*tunnel.sni]},
                    "filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}],
                })
            })
            .collect();
        let inspector =
            "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";
        json!({
            "name": format!("istio-autogenerated-proxy-listener-{}", self.name),
            "address": {"socket_address": {"address": LOOPBACK, "port_value": self.listener}},
            "listener_filters": [{
                "name": "envoy.filters.listener.tls_inspector",
                "typed_config": {"@type": inspector},
            }],
            "filter_chains": chains,
        })
    }
}

/// Where gateways listen for what goes to a proxy.
pub(crate) const LOOPBACK: &str = "127.0.0.1";

fn port(field: &'static str, stated: u32) -> Result<u16, Fault> {
    let number = u16::try_from(stated).ok().filter(|number| *number > 0);
    number.ok_or_else(|| Fault::new(field, format!("{stated} is no port")))
}

fn port_of_listener(stated: u32, taken: &BTreeSet<u16>) -> Result<u16, Fault> {
    let number = port("listenerPort", stated)?;
    if taken.contains(&number) {
        let message = format!("{number} is the port of another proxy");
        return Err(Fault::new("listenerPort", message));
    }
    Ok(number)
}

/// The first free port from that on which a name decides.
fn free(name: &str, taken: &BTreeSet<u16>) -> Result<u16, Fault> {
    let hash = u32::from_str_radix(&short_hash(name), 16).unwrap_or(0);
    let first = u16::try_from(hash % u32::try_from(PORTS.len()).unwrap_or(1)).unwrap_or(0);
    let split = PORTS.start + first;
    (split..PORTS.end)
        .chain(PORTS.start..split)
        .find(|port| !taken.contains(port))
        .ok_or_else(|| Fault::new("listenerPort", "no port from 50001 to 50999 is free"))
}

fn added(apply_to: ApplyTo, value: Value) -> EnvoyConfigObjectPatch {
    EnvoyConfigObjectPatch {
        apply_to: apply_to as i32,
        r#match: Some(EnvoyConfigObjectMatch {
            context: PatchContext::Gateway as i32,
            ..EnvoyConfigObjectMatch::default()
        }),
        patch: Some(Patch {
            operation: Operation::Add as i32,
            value: serde_json::from_value(value).ok(),
            ..Patch::default()
        }),
    }
}

/// Whose the objects of proxies are.
pub fn owner() -> Owner {
    Owner::new(crate::entry::RANK, "registry:proxies")
}

/// Proxies as a source: it says what it is made with, and no more.
pub struct ProxiesSource {
    owner: Owner,
    objects: Vec<Arc<Object<EnvoyFilter>>>,
}

impl ProxiesSource {
    /// Of proxies with their tunnels.
    pub fn new(proxies: &BTreeMap<Arc<str>, (Proxy, Vec<Tunnel>)>, home: &Namespace) -> Self {
        let objects = proxies
            .values()
            .map(|(proxy, tunnels)| proxy.object(&tunnels.iter().collect::<Vec<_>>(), home));
        Self {
            owner: owner(),
            objects: objects.collect(),
        }
    }

    /// The objects that it has.
    pub fn objects(&self) -> &[Arc<Object<EnvoyFilter>>] {
        &self.objects
    }
}

impl Source for ProxiesSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        vec![Contents::Objects(Kind::EnvoyFilter)]
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            let owner = &self.owner;
            let puts = self.objects.into_iter();
            let puts =
                puts.map(|object| Change::Put(owner.clone(), AnyObject::EnvoyFilter(object)));
            let whole = Change::Synced(Collection {
                owner: owner.clone(),
                of: Contents::Objects(Kind::EnvoyFilter),
            });
            let changes = puts.chain([whole]).collect();
            out.send(SourceEvent::Changes(changes)).await?;
            stop.cancelled().await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
