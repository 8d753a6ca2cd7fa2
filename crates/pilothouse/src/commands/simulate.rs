//! `pilothouse simulate`: where a request goes, step by step.

mod print;
mod request;

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use model::kinds::Kind;
use model::object::ObjectName;
use proto_envoy::envoy::config::core::v3::Node;
use serde_json::{Value, json};
use simulate::Resources;
use store::Snapshot;
use xlate::TypeUrl;

use super::proxy_config::gather;

/// Flags of `pilothouse simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateOptions {
    /// The proxy that the request passes: NAME.NAMESPACE, or a whole node id.
    #[arg(long, value_name = "PROXY")]
    from: String,

    /// HTTP method.
    method: String,

    /// What is asked for: http://, https://, grpc:// or tcp://, a host, a port, a path.
    url: String,

    /// A header of the request, NAME: VALUE; Host is the authority. May be given several times.
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,

    /// Where the server answers HTTP that the proxy is connected to.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    server: String,

    /// Derive offline from a folder of objects instead of asking a server. May be given several times.
    #[arg(
        long,
        alias = "configDir",
        value_name = "DIR",
        conflicts_with = "server"
    )]
    config_dir: Vec<PathBuf>,

    /// Mesh configuration for an offline answer.
    #[arg(
        long,
        alias = "meshConfig",
        value_name = "FILE",
        requires = "config_dir"
    )]
    mesh_config: Option<PathBuf>,

    /// What the proxy is, offline.
    #[arg(long, value_enum, default_value = "sidecar", requires = "config_dir")]
    role: Role,

    /// A label of the workload, KEY=VALUE, offline; those of a Pod in the folder are known.
    #[arg(long = "label", value_name = "KEY=VALUE", requires = "config_dir")]
    labels: Vec<String>,

    /// The proxy's address, offline; that of a Pod or WorkloadEntry in the folder is known.
    #[arg(long, value_name = "ADDRESS", requires = "config_dir")]
    ip: Option<IpAddr>,

    /// The request comes in to the workload: the port of the URL is the workload's.
    #[arg(long)]
    inbound: bool,

    /// The address that the request is sent to, where the host does not tell.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<IpAddr>,

    /// The client is a proxy of the mesh and uses mutual TLS.
    #[arg(long)]
    mtls: bool,

    /// HTTP/2.
    #[arg(long)]
    http2: bool,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,
}

/// What a proxy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Role {
    /// Beside a workload.
    Sidecar,
    /// At the edge.
    #[value(alias = "router")]
    Gateway,
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// The steps as JSON.
    Json,
}

/// Everything that a walk passes.
const TYPES: [TypeUrl; 4] = [
    TypeUrl::Listener,
    TypeUrl::Route,
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
];

/// Walks and prints.
pub(crate) async fn run(options: SimulateOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let gathered = if options.config_dir.is_empty() {
        gather::connected(&options.server, &options.from, &TYPES).await?
    } else {
        let mesh = options.mesh_config.as_deref();
        gather::offline(&options.config_dir, mesh, &TYPES, |s| node(&options, s))?
    };
    let mut resources = Resources::default();
    for (ty, list) in &gathered {
        for resource in list {
            let body = xlate::json::to_bytes(ty.as_str(), resource);
            resources.add(ty.as_str(), &body.context("a resource cannot be read")?)?;
        }
    }
    let call = request::call(&options, &resources)?;
    let walk = simulate::walk(&resources, &call);
    match options.output {
        Output::Text => print::text(out, &options.from, &call, &walk)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &print::json(&walk))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// The proxy that the flags describe, with the address that an object of its name has.
fn node(options: &SimulateOptions, snapshot: &Snapshot) -> anyhow::Result<Node> {
    let id = if options.from.contains('~') {
        options.from.clone()
    } else {
        let (name, namespace) = options
            .from
            .split_once('.')
            .context("--from is NAME.NAMESPACE, as in --from cart-1.shop")?;
        let object = ObjectName::new(namespace, name);
        let ip = options.ip.or_else(|| address(snapshot, &object));
        let ip = ip.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
        let role = match options.role {
            Role::Sidecar => "sidecar",
            Role::Gateway => "router",
        };
        format!("{role}~{ip}~{name}.{namespace}~{namespace}.svc.cluster.local")
    };
    let parts: Vec<&str> = id.split('~').collect();
    let [_, ip, name, _] = parts[..] else {
        bail!("{id} is no node id: ROLE~ADDRESS~NAME.NAMESPACE~DOMAIN");
    };
    let namespace = name.split_once('.').map_or("", |(_, namespace)| namespace);
    let pairs = options.labels.iter().map(|label| {
        let pair = label.split_once('=').context("--label is KEY=VALUE")?;
        Ok((pair.0.to_owned(), Value::from(pair.1)))
    });
    let labels: serde_json::Map<String, Value> = pairs.collect::<anyhow::Result<_>>()?;
    let metadata = json!({
        "NAMESPACE": namespace,
        "INSTANCE_IPS": ip,
        "CLUSTER_ID": "Kubernetes",
        "LABELS": labels,
    });
    Ok(client::node(&id, &metadata))
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
