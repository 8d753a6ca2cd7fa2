//! What a Gateway wants Envoy to listen on, and where clients find it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, bail};
use model::ObjectName;
use serde_json::Value;

use super::super::local::ports::{self, Fault};
use super::super::proxy_config::debug_page;
use super::problems::ListenerName;

/// The group of the Gateway API.
const GROUP: &str = "gateway.networking.k8s.io/";
/// By which a Gateway names the account of its proxies.
const ACCOUNT: &str = "gateway.istio.io/service-account";

/// A Gateway with the listeners of its ListenerSets.
pub(super) struct Wanted {
    pub(super) gateway: ObjectName,
    /// Its class.
    pub(super) class: String,
    /// The ListenerSets that name it.
    pub(super) sets: BTreeSet<ObjectName>,
    account: Option<String>,
    listeners: Vec<Listener>,
}

/// A listener as it is written, with the port that Envoy binds.
struct Listener {
    /// The ListenerSet that adds it.
    set: Option<ObjectName>,
    name: String,
    protocol: String,
    hostname: String,
    /// Whether TLS ends here.
    needs_secret: bool,
    /// The port of the manifest.
    written: u16,
    port: u16,
    /// The address at which this machine reaches it.
    address: IpAddr,
}

impl Wanted {
    /// Asks the server.
    ///
    /// # Errors
    ///
    /// When it does not answer, or has no such Gateway.
    pub(super) async fn read(
        pages: &str,
        name: &ObjectName,
        port_offset: u16,
        address: IpAddr,
    ) -> anyhow::Result<Self> {
        let gateways = objects(pages, "Gateway").await?;
        let Some(gateway) = gateways.iter().find(|gateway| name_of(gateway) == *name) else {
            let known: Vec<String> = gateways.iter().map(|g| name_of(g).to_string()).collect();
            match known.is_empty() {
                true => bail!("there is no Gateway {name}, nor any other of the Gateway API"),
                false => bail!("there is no Gateway {name}; there are {}", known.join(", ")),
            }
        };
        let sets = objects(pages, "ListenerSet").await?;
        let sets: Vec<&Value> = sets.iter().filter(|set| parent_of(set) == *name).collect();
        let mut listeners = Vec::new();
        for owner in std::iter::once(gateway).chain(sets.iter().copied()) {
            let set = (!std::ptr::eq(owner, gateway)).then(|| name_of(owner));
            for listener in owner["spec"]["listeners"].as_array().into_iter().flatten() {
                let mut listener = Listener::read(listener, port_offset, address)?;
                listener.set.clone_from(&set);
                listeners.push(listener);
            }
        }
        let account = gateway["metadata"]["annotations"][ACCOUNT].as_str();
        Ok(Self {
            gateway: name.clone(),
            class: text(&gateway["spec"]["gatewayClassName"]),
            sets: sets.into_iter().map(name_of).collect(),
            account: account.map(str::to_owned),
            listeners,
        })
    }

    /// The account that proxies which are deployed for the Gateway run as.
    ///
    /// Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go, 1.32.
    pub(super) fn service_account(&self) -> String {
        let default = || format!("{}-{}", self.gateway.name, self.class);
        self.account.clone().unwrap_or_else(default)
    }

    /// Fails where a port cannot be bound, before Envoy does.
    ///
    /// # Errors
    ///
    /// All such ports, with what helps.
    pub(super) fn check_ports(&self, address: IpAddr) -> anyhow::Result<()> {
        let ports: BTreeMap<u16, &Listener> = self.listeners.iter().map(|l| (l.port, l)).collect();
        let mut faults = Vec::new();
        for (port, listener) in ports {
            let bound = match listener.protocol.as_str() {
                "UDP" => ports::check_udp(address, port),
                _ => ports::check_tcp(address, port),
            };
            let name = &listener.name;
            match bound {
                Ok(()) => {}
                Err(Fault::Privileged) => faults.push(format!(
                    "listener {name}: port {port} is for root; with --port-offset 8000 it is {}",
                    u32::from(listener.written) + 8000
                )),
                Err(Fault::Taken) => faults.push(format!(
                    "listener {name}: another program listens on port {port}; --port-offset moves all ports"
                )),
                Err(Fault::Other(error)) => {
                    faults.push(format!("listener {name}: port {port}: {error}"));
                }
            }
        }
        if !faults.is_empty() {
            bail!("Envoy could not listen.\n  {}", faults.join("\n  "));
        }
        Ok(())
    }

    /// The ports that Envoy binds for them.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.listeners.iter().map(|l| l.port).collect()
    }

    /// Prints what Envoy listens on, with URLs, and what it does not. A server that does not know who the proxy is gives it no
    /// Secrets.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        open: &BTreeSet<u16>,
        is_known: bool,
        not_served: &BTreeSet<ListenerName>,
    ) -> io::Result<()> {
        writeln!(out, "Gateway {}, class {}\n", self.gateway, self.class)?;
        let width = self.listeners.iter().map(|l| l.name.len()).max();
        let width = width.unwrap_or(0);
        for listener in &self.listeners {
            let (name, hostname) = (&listener.name, &listener.hostname);
            if listener.needs_secret && !is_known {
                let why = "Secrets are for proxies that prove who they are (--root-cert and --token-file)";
                writeln!(out, "  {name:width$}  not served: {why}")?;
                continue;
            }
            let id = (listener.set.clone(), name.clone());
            if !open.contains(&listener.port) || not_served.contains(&id) {
                match &listener.set {
                    None => writeln!(out, "  {name:width$}  not served")?,
                    Some(set) => {
                        writeln!(out, "  {name:width$}  not served (ListenerSet {set})")?;
                    }
                }
                continue;
            }
            let url = listener.url();
            match hostname.is_empty() {
                true => writeln!(out, "  {name:width$}  {url}")?,
                false => writeln!(out, "  {name:width$}  {url}  for {hostname}")?,
            }
        }
        Ok(())
    }
}

impl Listener {
    fn read(listener: &Value, port_offset: u16, address: IpAddr) -> anyhow::Result<Self> {
        let name = text(&listener["name"]);
        let written = listener["port"]
            .as_u64()
            .and_then(|p| u16::try_from(p).ok());
        let written = written.with_context(|| format!("listener {name} has no port"))?;
        let port = written.checked_add(port_offset).with_context(|| {
            format!("listener {name}: {written} with --port-offset {port_offset} is no port")
        })?;
        let protocol = text(&listener["protocol"]);
        let needs_secret = match protocol.as_str() {
            "HTTPS" => true,
            "TLS" => listener["tls"]["mode"] != "Passthrough",
            _ => false,
        };
        Ok(Self {
            set: None,
            protocol,
            needs_secret,
            hostname: text(&listener["hostname"]),
            name,
            written,
            port,
            address,
        })
    }

    fn url(&self) -> String {
        let scheme = match self.protocol.as_str() {
            "HTTP" => "http",
            "HTTPS" => "https",
            "TLS" => "tls",
            "UDP" => "udp",
            _ => "tcp",
        };
        format!("{scheme}://{}", SocketAddr::new(self.address, self.port))
    }
}

/// The objects of a kind of the Gateway API.
async fn objects(pages: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
    let page = debug_page(pages, &format!("/debug/configz?kind={kind}")).await?;
    let all = page
        .as_array()
        .context("the server's answer is no list of objects")?;
    let ours = all
        .iter()
        .filter(|object| text(&object["apiVersion"]).starts_with(GROUP));
    Ok(ours.cloned().collect())
}

/// The name of an object.
pub(super) fn name_of(object: &Value) -> ObjectName {
    let metadata = &object["metadata"];
    ObjectName::new(
        text(&metadata["namespace"]).as_str(),
        text(&metadata["name"]).as_str(),
    )
}

/// The parent of a ListenerSet.
fn parent_of(set: &Value) -> ObjectName {
    let parent = &set["spec"]["parentRef"];
    let namespace = match &parent["namespace"] {
        Value::String(namespace) => namespace.as_str().into(),
        _ => name_of(set).namespace,
    };
    ObjectName::new(namespace, text(&parent["name"]).as_str())
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::problems;
    use super::*;

    #[test]
    fn listeners_of_sets_need_no_service_and_one_that_conflicts_is_not_served() {
        let of = |set: &str| {
            let written =
                json!({"name": "site", "port": 8081, "protocol": "HTTP", "hostname": "a.test"});
            let mut listener = Listener::read(&written, 0, [127, 0, 0, 1].into()).unwrap();
            listener.set = Some(ObjectName::new("shop", set));
            listener
        };
        let wanted = Wanted {
            gateway: ObjectName::new("shop", "web"),
            class: "pilothouse".to_owned(),
            sets: [
                ObjectName::new("shop", "one"),
                ObjectName::new("shop", "two"),
            ]
            .into(),
            account: None,
            listeners: vec![of("one"), of("two")],
        };
        let unreached = json!([{"type": "Programmed", "status": "False", "reason": "AddressNotUsable", "message": "no"}]);
        let refused = json!([{"type": "Accepted", "status": "False", "reason": "HostnameConflict", "message": "taken"}]);
        let item = |kind: &str, name: &str, listeners: Value| {
            json!({
                "kind": kind, "metadata": {"namespace": "shop", "name": name},
                "status": {"conditions": unreached, "listeners": listeners},
            })
        };
        let page = json!({"items": [
            item("Gateway", "web", json!([])),
            item("ListenerSet", "one", json!([{"name": "site", "conditions": []}])),
            item("ListenerSet", "two", json!([{"name": "site", "conditions": refused}])),
        ]});
        let problems = problems::of(&page, &wanted);
        let mut out = Vec::new();
        let open = [8081].into();
        wanted
            .print(&mut out, &open, true, &problems.not_served)
            .unwrap();
        problems::print(&mut out, &problems).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Gateway shop/web, class pilothouse\n\n  \
             site  http://127.0.0.1:8081  for a.test\n  \
             site  not served (ListenerSet shop/two)\n\n\
             What is wrong:\n  \
             Listener site of ListenerSet shop/two is not accepted: taken (HostnameConflict)\n"
        );
    }
}
