//! The proxy that a command is about, and where what it gets comes from: said the same way to every command.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use model::kinds::Kind;
use model::object::ObjectName;
use proto_envoy::envoy::config::core::v3::{Locality, Node};
use server::settings::IngressOptions;
use store::Snapshot;
use xds::TypeUrl;

use super::bootstrap::InterceptionMode;
use super::flags::OfflineFlags;
use super::proxy_config::gather::{self, Gathered, Setting};

/// The name of a proxy that nobody named.
pub(super) const UNNAMED: &str = "proxy-0";

/// Where a proxy's resources come from and, for one that is not connected, what it is.
#[derive(Args, Debug)]
pub(crate) struct ProxyOptions {
    /// HTTP address of the server that the proxy is connected to.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080",
        conflicts_with = "config_dir"
    )]
    pub(super) http_addr: String,

    /// Generate offline from a folder of objects instead of asking a server. May be repeated.
    #[arg(long, alias = "configDir", value_name = "DIR")]
    pub(super) config_dir: Vec<PathBuf>,

    /// Mesh configuration, when offline.
    #[arg(
        long,
        alias = "meshConfig",
        value_name = "FILE",
        requires = "config_dir"
    )]
    pub(super) mesh_config: Option<PathBuf>,

    /// What a server would be started with.
    #[command(flatten)]
    pub(super) offline: OfflineFlags,

    /// Namespace of the proxy, if its name has none.
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "default")]
    pub(super) namespace: String,

    /// Role of the proxy, if it is not connected.
    #[arg(long, value_enum, default_value = "sidecar")]
    pub(super) role: Role,

    /// Labels of its workload, if it is not connected: `app=front,version=v1`. Default: those of its Pod in the folder.
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    pub(super) labels: Vec<(String, String)>,

    /// Its address, if it is not connected. Default: that of its Pod or WorkloadEntry in the folder.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) ip: Option<IpAddr>,

    /// Its locality, if it is not connected.
    #[arg(long, value_name = "REGION/ZONE/SUBZONE", default_value = "")]
    pub(super) locality: String,

    /// How traffic gets to it, if it is a sidecar that is not connected: `none` for one on a machine without iptables rules, as
    /// `pilothouse bootstrap` has it.
    #[arg(long, value_enum, default_value = "redirect")]
    pub(super) interception: InterceptionMode,

    /// Further node metadata, if it is not connected. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(super) metadata: Vec<(String, String)>,

    /// Ingresses with annotations, when offline.
    #[command(flatten, next_help_heading = "Ingresses with annotations")]
    pub(super) ingress: IngressOptions,
}

/// What a proxy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Role {
    /// Beside a workload.
    Sidecar,
    /// At the edge.
    #[value(alias = "router")]
    Gateway,
}

impl Role {
    /// As people say it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Gateway => "gateway",
        }
    }

    /// As node ids begin.
    pub(crate) fn in_id(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Gateway => "router",
        }
    }
}

/// A flag's `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

impl ProxyOptions {
    /// What the proxy gets: from the folders, or from the server it is connected to. `name` is NAME.NAMESPACE, NAME, or
    /// a whole node id.
    ///
    /// # Errors
    ///
    /// When the server does not know the proxy, or a folder cannot be read.
    pub(super) async fn resources(
        &self,
        name: &str,
        types: &[TypeUrl],
    ) -> anyhow::Result<Gathered> {
        if self.config_dir.is_empty() {
            let name = self.full_name(name);
            return gather::connected(&self.http_addr, &name, types).await;
        }
        let node = |snapshot: &Snapshot| self.introduced(name, Some(snapshot));
        gather::offline(&self.config_dir, self.setting(), types, node)
    }

    /// What folders are read with.
    pub(super) fn setting(&self) -> Setting<'_> {
        Setting {
            mesh_config: self.mesh_config.as_deref(),
            ingress: &self.ingress,
            offline: &self.offline,
        }
    }

    /// A proxy that is not connected, as Envoy would introduce it.
    ///
    /// # Errors
    ///
    /// When `name` is neither a name nor a node id.
    pub(super) fn introduced(
        &self,
        name: &str,
        snapshot: Option<&Snapshot>,
    ) -> anyhow::Result<Node> {
        let mut node = self.described(name, snapshot)?.envoy()?;
        if !self.locality.is_empty() {
            let mut parts = self.locality.splitn(3, '/').map(str::to_owned);
            let mut part = || parts.next().unwrap_or_default();
            node.locality = Some(Locality {
                region: part(),
                zone: part(),
                sub_zone: part(),
            });
        }
        Ok(node)
    }

    /// A proxy that is not connected, as it would introduce itself.
    ///
    /// # Errors
    ///
    /// When `name` is neither a name nor a node id.
    pub(super) fn described(
        &self,
        name: &str,
        snapshot: Option<&Snapshot>,
    ) -> anyhow::Result<client::NodeOptions> {
        let name = self.full_name(name);
        let id = if name.contains('~') {
            name
        } else {
            let (instance, namespace) = name.split_once('.').context("a name has a namespace")?;
            let object = ObjectName::new(namespace, instance);
            let known = snapshot.and_then(|snapshot| address(snapshot, &object));
            let ip = self.ip.or(known);
            let ip = ip.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
            let role = self.role.in_id();
            format!("{role}~{ip}~{name}~{namespace}.svc.{}", self.offline.domain)
        };
        let parts: Vec<&str> = id.split('~').collect();
        let [_, ip, name, _] = parts[..] else {
            bail!("{id} is not a node id: ROLE~ADDRESS~NAME.NAMESPACE~DOMAIN");
        };
        let namespace = name.split_once('.').map_or("", |(_, namespace)| namespace);
        let mut metadata = vec![
            ("NAMESPACE".to_owned(), namespace.to_owned()),
            ("INSTANCE_IPS".to_owned(), ip.to_owned()),
        ];
        if id.starts_with("sidecar~") {
            let mode = self.interception.in_metadata().to_owned();
            metadata.push(("INTERCEPTION_MODE".to_owned(), mode));
        }
        metadata.extend(self.metadata.iter().cloned());
        Ok(client::NodeOptions {
            mesh: None,
            namespaces: vec![namespace.to_owned()],
            labels: self.labels.clone(),
            metadata,
            node: None,
            id,
        })
    }

    /// NAME.NAMESPACE, or the node id that was given.
    pub(super) fn full_name(&self, name: &str) -> String {
        match name.contains(['.', '~']) {
            true => name.to_owned(),
            false => format!("{name}.{}", self.namespace),
        }
    }
}

/// The address of a Pod or WorkloadEntry.
fn address(snapshot: &Snapshot, name: &ObjectName) -> Option<IpAddr> {
    use model::AnyObject;
    let pod = snapshot.tables.get_any(Kind::Pod, name);
    let entry = snapshot.tables.get_any(Kind::WorkloadEntry, name);
    match (pod, entry) {
        (Some(AnyObject::Pod(pod)), _) => pod.status.pod_ip.parse().ok(),
        (_, Some(AnyObject::WorkloadEntry(entry))) => entry.spec.address.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::proxy_config::ProxyConfigOptions;
    use super::super::simulate::SimulateOptions;

    #[derive(Parser)]
    enum Cli {
        ProxyConfig(Box<ProxyConfigOptions>),
        Simulate(Box<SimulateOptions>),
    }

    /// The node id that a command line describes, and its labels.
    fn described(line: &str) -> (String, Vec<(String, String)>) {
        let options = match Cli::try_parse_from(["x"].into_iter().chain(line.split(' '))) {
            Ok(Cli::ProxyConfig(options)) => options.described(),
            Ok(Cli::Simulate(options)) => options.proxy.described(&options.from, None),
            Err(error) => panic!("{error}"),
        };
        let options = options.unwrap();
        (options.id, options.labels)
    }

    #[test]
    fn every_command_takes_the_same_flags_for_a_proxy() {
        let flags = "--config-dir d --role gateway -l istio=ingress,app=in --ip 10.0.0.1";
        let wanted = described(&format!("simulate --from gw.shop {flags} GET http://a"));
        assert_eq!(wanted.0, "router~10.0.0.1~gw.shop~shop.svc.cluster.local");
        assert_eq!(wanted.1.len(), 2);
        for line in [
            format!("proxy-config clusters gw.shop {flags}"),
            format!("proxy-config clusters gw -n shop {flags}"),
            format!("simulate --from gw -n shop {flags} GET http://a"),
            // As it was spelled before.
            "simulate --from gw.shop --configDir d --role router --label istio=ingress --label app=in --ip 10.0.0.1 GET http://a".to_owned(),
            "proxy-config clusters --id router~10.0.0.1~gw.shop~shop.svc.cluster.local --config-dir d --label istio=ingress --label app=in".to_owned(),
        ] {
            assert_eq!(described(&line), wanted, "{line}");
        }
    }

    #[test]
    fn the_domain_and_the_locality_of_a_proxy_are_stated() {
        let line = "simulate --from web.shop --config-dir d --domain corp.internal --owned-hosts --locality eu/eu-1 GET http://a";
        assert_eq!(
            described(line).0,
            "sidecar~127.0.0.1~web.shop~shop.svc.corp.internal"
        );
        let Ok(Cli::Simulate(options)) =
            Cli::try_parse_from(["x"].into_iter().chain(line.split(' ')))
        else {
            panic!("not parsed");
        };
        let offline = options.proxy.setting().offline;
        assert_eq!(offline.domain, "corp.internal");
        assert!(offline.owned_hosts);
        let node = options.proxy.introduced(&options.from, None);
        let locality = node.unwrap().locality.unwrap();
        assert_eq!(
            (&*locality.region, &*locality.zone, &*locality.sub_zone),
            ("eu", "eu-1", "")
        );
    }

    #[test]
    fn older_spellings_of_addresses_are_taken() {
        let parse = |line: &str| Cli::try_parse_from(["x"].into_iter().chain(line.split(' ')));
        match parse("simulate --server 10.0.0.1:80 --from a.b GET http://a") {
            Ok(Cli::Simulate(options)) => {
                assert_eq!(options.server.as_deref(), Some("10.0.0.1:80"));
            }
            _ => panic!("simulate --server is not taken"),
        }
        match parse("proxy-config all --server 10.0.0.1:15010 --namespace shop --label a=b") {
            Ok(Cli::ProxyConfig(options)) => {
                assert_eq!(options.xds_addr.as_deref(), Some("10.0.0.1:15010"));
            }
            _ => panic!("proxy-config --server is not taken"),
        }
    }
}
