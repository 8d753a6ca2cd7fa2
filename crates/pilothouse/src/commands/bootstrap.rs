//! `pilothouse bootstrap`: the file a sidecar or gateway Envoy starts with.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::proxy::{Role, pair};

/// Flags of `pilothouse bootstrap`.
#[derive(Args, Debug)]
pub(crate) struct BootstrapOptions {
    /// The role of the proxy.
    #[arg(value_enum)]
    role: Role,

    /// Name of the workload instance, unique in its namespace.
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Namespace of the workload.
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Addresses of the workload, separated by commas, the primary one first.
    #[arg(
        long,
        value_name = "IP",
        value_delimiter = ',',
        default_value = "127.0.0.1"
    )]
    ip: Vec<IpAddr>,

    /// Labels of the workload, for selectors of Sidecars and Gateways: `app=front,version=v1`.
    #[arg(long, short = 'l', value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    label: Vec<(String, String)>,

    /// Service account of the workload.
    #[arg(long, value_name = "NAME", default_value = "default")]
    service_account: String,

    /// Address of Pilothouse's xDS port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:15010")]
    xds: SocketAddr,

    /// Envoy's admin address; `none` for no admin page.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:15000")]
    admin: String,

    /// How traffic gets to a sidecar.
    #[arg(long, value_enum, default_value = "none")]
    interception: InterceptionMode,

    /// Locality, `region/zone/subzone`.
    #[arg(long, value_name = "LOCALITY", default_value = "")]
    locality: String,

    /// Cluster of the proxy.
    #[arg(long, value_name = "ID", default_value = "Kubernetes")]
    cluster_id: String,

    /// DNS domain of the mesh.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    domain: String,

    /// Bearer token that the proxy presents.
    #[arg(long, value_name = "TOKEN", hide = true)]
    token: Option<String>,

    /// Further node metadata, `KEY=VALUE`; JSON values are parsed.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
}

/// `INTERCEPTION_MODE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum InterceptionMode {
    /// Applications dial the proxy.
    None,
    /// iptables REDIRECT.
    Redirect,
    /// iptables TPROXY.
    Tproxy,
}

/// Prints the bootstrap as JSON, which Envoy reads from a `.json` or `.yaml` file.
pub(crate) fn run(options: &BootstrapOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let bootstrap = bootstrap(options)?;
    serde_json::to_writer_pretty(&mut *out, &bootstrap)?;
    writeln!(out)?;
    Ok(())
}

/// The `node` of the bootstrap, with the metadata that Istio's agent would send.
fn node(o: &BootstrapOptions) -> anyhow::Result<Value> {
    let primary =
        o.ip.first()
            .context("at least one address is needed (--ip)")?;
    let role = o.role.in_id();
    let labels: BTreeMap<&str, &str> = o
        .label
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    let ips =
        o.ip.iter()
            .map(IpAddr::to_string)
            .collect::<Vec<_>>()
            .join(",");
    let mut metadata = json!({
        "NAME": o.name,
        "NAMESPACE": o.namespace,
        "CLUSTER_ID": o.cluster_id,
        "SERVICE_ACCOUNT": o.service_account,
        "LABELS": labels,
        "INSTANCE_IPS": ips,
    });
    if o.role == Role::Sidecar {
        metadata["INTERCEPTION_MODE"] = match o.interception {
            InterceptionMode::None => "NONE",
            InterceptionMode::Redirect => "REDIRECT",
            InterceptionMode::Tproxy => "TPROXY",
        }
        .into();
    }
    for (key, value) in &o.metadata {
        metadata[key] = serde_json::from_str(value).unwrap_or_else(|_| value.clone().into());
    }
    let mut parts = o.locality.splitn(3, '/').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    Ok(json!({
        "id": format!("{role}~{primary}~{}.{}~{}.svc.{}", o.name, o.namespace, o.namespace, o.domain),
        "cluster": labels.get("app").map_or_else(|| format!("{}.{}", o.name, o.namespace), |app| format!("{app}.{}", o.namespace)),
        "locality": { "region": part(), "zone": part(), "sub_zone": part() },
        "metadata": metadata,
    }))
}

fn bootstrap(o: &BootstrapOptions) -> anyhow::Result<Value> {
    let ads = json!({ "ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s" });
    let mut bootstrap = json!({
        "node": node(o)?,
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds-grpc" } }],
            },
            "cds_config": ads,
            "lds_config": ads,
        },
        "static_resources": {
            "clusters": [{
                "name": "xds-grpc",
                "type": "STATIC",
                "connect_timeout": "1s",
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                        "explicit_http_config": {
                            "http2_protocol_options": {
                                "connection_keepalive": { "interval": "30s", "timeout": "5s" },
                            },
                        },
                    },
                },
                "load_assignment": {
                    "cluster_name": "xds-grpc",
                    "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": socket(o.xds) } }] }],
                },
            }],
        },
    });
    if let Some(token) = &o.token {
        let header = json!({ "key": "authorization", "value": format!("Bearer {token}") });
        let service = &mut bootstrap["dynamic_resources"]["ads_config"]["grpc_services"][0];
        service["initial_metadata"] = json!([header]);
    }
    if o.admin != "none" {
        let admin: SocketAddr = o
            .admin
            .parse()
            .with_context(|| format!("--admin {:?} is neither HOST:PORT nor none", o.admin))?;
        bootstrap["admin"] = json!({ "address": socket(admin) });
    }
    Ok(bootstrap)
}

fn socket(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: BootstrapOptions,
    }

    #[test]
    fn a_gateway_states_its_role_labels_and_address() {
        let cli = Cli::parse_from([
            "x",
            "gateway",
            "--name",
            "gw",
            "-n",
            "shop",
            "--ip",
            "10.0.0.1",
            "-l",
            "istio=gw,app=in",
        ]);
        let value = bootstrap(&cli.options).unwrap();
        assert_eq!(
            value["node"]["id"],
            "router~10.0.0.1~gw.shop~shop.svc.cluster.local"
        );
        assert_eq!(value["node"]["metadata"]["LABELS"]["app"], "in");
        assert_eq!(value["node"]["metadata"].get("INTERCEPTION_MODE"), None);
        assert_eq!(
            value["admin"]["address"]["socket_address"]["port_value"],
            15000
        );
    }

    #[test]
    fn metadata_that_is_json_is_taken_as_json() {
        let cli = Cli::parse_from([
            "x",
            "sidecar",
            "--name",
            "a",
            "--metadata",
            "DNS_CAPTURE=true",
            "--metadata",
            "X=y",
        ]);
        let value = bootstrap(&cli.options).unwrap();
        assert_eq!(value["node"]["metadata"]["DNS_CAPTURE"], true);
        assert_eq!(value["node"]["metadata"]["X"], "y");
    }
}
