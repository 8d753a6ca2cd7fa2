//! `pilothouse bootstrap`: the file a sidecar or gateway Envoy starts with, or a gRPC library.

mod grpc;
pub(super) mod secure;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::{Args, ValueEnum};
use model::ObjectName;
use model::own_port::own_port;
use serde_json::{Value, json};

use super::proxy::pair;
use grpc::GrpcOptions;
use secure::SecureOptions;

/// The label of the proxies of a Gateway, by which policies with its name in `targetRefs` find them.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// Flags of `pilothouse bootstrap`.
#[derive(Args, Debug)]
pub(crate) struct BootstrapOptions {
    /// The role of the proxy.
    #[arg(value_enum)]
    role: BootstrapRole,

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

    /// The Gateway of the Gateway API that this proxy runs for, where clients reach it itself: its listeners are served
    /// without a Service. `pilothouse gateway` does all of it.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,

    /// Added to the ports of the listeners of --gateway: 8000 makes 8080 of 80, which needs no privileges.
    #[arg(long, value_name = "PORTS", default_value_t = 0, requires = "gateway")]
    port_offset: u16,

    /// The address that listeners of a gateway bind in place of all.
    #[arg(long, value_name = "IP")]
    listen_address: Option<IpAddr>,

    /// Address of Pilothouse's xDS port: the one for TLS with --root-cert.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:15010", value_parser = authority)]
    xds: (String, u16),

    /// Envoy's admin address, or `unix:///path` of a socket; `none` for no admin page.
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

    /// How the connection is secured.
    #[command(flatten, next_help_heading = "How the connection is secured")]
    secure: SecureOptions,

    /// Libraries.
    #[command(flatten, next_help_heading = "gRPC libraries")]
    grpc: GrpcOptions,
}

/// Who starts with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum BootstrapRole {
    /// An Envoy beside a workload.
    Sidecar,
    /// An Envoy at the edge.
    #[value(alias = "router")]
    Gateway,
    /// A program with a gRPC library that needs no Envoy.
    Grpc,
}

impl BootstrapRole {
    /// As node ids begin.
    fn in_id(self) -> &'static str {
        match self {
            Self::Sidecar | Self::Grpc => "sidecar",
            Self::Gateway => "router",
        }
    }
}

/// `INTERCEPTION_MODE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum InterceptionMode {
    /// Applications dial the proxy.
    None,
    /// iptables REDIRECT.
    Redirect,
    /// iptables TPROXY.
    Tproxy,
}

impl InterceptionMode {
    /// As node metadata has it.
    pub(super) fn in_metadata(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Redirect => "REDIRECT",
            Self::Tproxy => "TPROXY",
        }
    }
}

impl BootstrapOptions {
    /// The proxy of a Gateway that `pilothouse gateway` runs.
    pub(super) fn of_gateway(
        gateway: &ObjectName,
        service_account: String,
        port_offset: u16,
        xds: (String, u16),
        token: Option<String>,
        secure: SecureOptions,
    ) -> Self {
        Self {
            role: BootstrapRole::Gateway,
            name: format!("{}-local", gateway.name),
            namespace: gateway.namespace.to_string(),
            ip: vec![Ipv4Addr::LOCALHOST.into()],
            label: Vec::new(),
            service_account,
            gateway: Some(gateway.name.to_string()),
            port_offset,
            listen_address: None,
            xds,
            secure,
            // The system chooses the port.
            admin: "127.0.0.1:0".to_owned(),
            interception: InterceptionMode::None,
            locality: String::new(),
            cluster_id: "Kubernetes".to_owned(),
            domain: "cluster.local".to_owned(),
            token,
            metadata: Vec::new(),
            grpc: GrpcOptions::default(),
        }
    }
}

impl BootstrapOptions {
    /// The same proxy with listeners at an address of the machine.
    pub(super) fn listening_at(self, address: IpAddr) -> Self {
        Self {
            listen_address: Some(address),
            ..self
        }
    }

    /// What the proxy is called by servers.
    pub(super) fn proxy_name(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }

    /// The proxy that `pilothouse ingress` runs, which a label makes the one that serves Ingresses.
    pub(super) fn of_ingress(
        namespace: String,
        label: (String, String),
        xds: (String, u16),
        token: String,
    ) -> Self {
        let name = ObjectName::new(namespace.as_str(), "ingress");
        let account = "ingress".to_owned();
        Self {
            gateway: None,
            label: vec![label],
            ..Self::of_gateway(
                &name,
                account,
                0,
                xds,
                Some(token),
                SecureOptions::default(),
            )
        }
    }
}

/// Prints the bootstrap as JSON, which Envoy reads from a `.json` or `.yaml` file and gRPC from the file that
/// `GRPC_XDS_BOOTSTRAP` names.
pub(crate) fn run(options: &BootstrapOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let bootstrap = match options.role {
        BootstrapRole::Grpc => grpc::bootstrap(options)?,
        BootstrapRole::Sidecar | BootstrapRole::Gateway => {
            options.grpc.refuse()?;
            let bootstrap = bootstrap(options)?;
            options.secure.write_files(&options.proxy_name())?;
            bootstrap
        }
    };
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
    let of_gateway = o.gateway.iter().map(|name| (GATEWAY_NAME, name.as_str()));
    let stated = o.label.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let labels: BTreeMap<&str, &str> = of_gateway.chain(stated).collect();
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
    let is_grpc = o.role == BootstrapRole::Grpc;
    if is_grpc {
        metadata["GENERATOR"] = "grpc".into();
    }
    if o.role == BootstrapRole::Sidecar {
        metadata["INTERCEPTION_MODE"] = o.interception.in_metadata().into();
    }
    if o.secure.proves_identity() && !is_grpc {
        metadata["PILOTHOUSE_CERTIFICATES"] = "ads".into();
    }
    if let Some(gateway) = &o.gateway {
        metadata["PILOTHOUSE_GATEWAY"] = gateway.as_str().into();
        metadata["PILOTHOUSE_PORT_OFFSET"] = o.port_offset.into();
    }
    if let Some(address) = o.listen_address {
        metadata["PILOTHOUSE_LISTEN_ADDRESS"] = address.to_string().into();
    }
    if let Some(port) = admin_port(o).filter(|_| !is_grpc) {
        metadata["PILOTHOUSE_ADMIN_PORT"] = port.into();
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

/// How large RE2's program of an expression may be: Envoy's own limit, 100, is that of a text of some 90 characters, and it
/// refuses all routes beside a larger one.
///
/// Istio: tools/packaging/common/envoy_bootstrap.json, 1.32.
const LARGEST_REGEX: u32 = 32_768;

pub(super) fn bootstrap(o: &BootstrapOptions) -> anyhow::Result<Value> {
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
        "static_resources": { "clusters": [control_plane(o)?] },
        "layered_runtime": { "layers": [
            { "name": "static", "static_layer": { "re2.max_program_size.error_level": LARGEST_REGEX } },
            { "name": "admin", "admin_layer": {} },
        ] },
    });
    if let Some(token) = &o.token {
        let header = json!({ "key": "authorization", "value": format!("Bearer {token}") });
        let service = &mut bootstrap["dynamic_resources"]["ads_config"]["grpc_services"][0];
        service["initial_metadata"] = json!([header]);
    }
    if let Some(address) = admin(o)? {
        bootstrap["admin"] = json!({ "address": address });
    }
    Ok(bootstrap)
}

/// The address of the admin page.
fn admin(o: &BootstrapOptions) -> anyhow::Result<Option<Value>> {
    if o.admin == "none" {
        return Ok(None);
    }
    if let Some(path) = o.admin.strip_prefix("unix://") {
        return Ok(Some(json!({ "pipe": { "path": path } })));
    }
    let address = o.admin.parse().with_context(|| {
        format!(
            "--admin {:?} is none of HOST:PORT, unix:///path and none",
            o.admin
        )
    })?;
    Ok(Some(socket(address)))
}

/// The port of the admin page, where it is not a port of every proxy that is kept free anyhow.
fn admin_port(o: &BootstrapOptions) -> Option<u16> {
    let port = o.admin.parse::<SocketAddr>().ok()?.port();
    (port != 0 && own_port(port).is_none()).then_some(port)
}

/// The cluster of Pilothouse itself.
fn control_plane(o: &BootstrapOptions) -> anyhow::Result<Value> {
    const HTTP: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let (host, port) = &o.xds;
    let is_address = host.parse::<IpAddr>().is_ok();
    let address = json!({ "socket_address": { "address": host, "port_value": port } });
    let mut http = json!({
        "@type": format!("type.googleapis.com/{HTTP}"),
        "explicit_http_config": {
            "http2_protocol_options": {
                "connection_keepalive": { "interval": "30s", "timeout": "5s" },
            },
        },
    });
    if let Some(filters) = o.secure.filters()? {
        http["http_filters"] = filters;
    }
    let mut cluster = json!({
        "name": "xds-grpc",
        "type": if is_address { "STATIC" } else { "STRICT_DNS" },
        "connect_timeout": "1s",
        "typed_extension_protocol_options": { HTTP: http },
        "load_assignment": {
            "cluster_name": "xds-grpc",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address } }] }],
        },
    });
    let proxy = format!("{}.{}", o.name, o.namespace);
    if let Some(socket) = o.secure.transport_socket(&proxy)? {
        cluster["transport_socket"] = socket;
    }
    Ok(cluster)
}

fn socket(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

/// Reads HOST:PORT, where the host is an address or a name.
pub(super) fn authority(text: &str) -> Result<(String, u16), String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), address.port()));
    }
    let parts = text.rsplit_once(':');
    let is_name = |host: &str| {
        !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) if is_name(host) => Ok((host.to_owned(), port)),
        _ => Err(format!("{text:?} is not HOST:PORT")),
    }
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
    fn an_admin_page_is_where_no_listener_of_configuration_can_be() {
        let usual = made(&[]);
        let metadata = &usual["node"]["metadata"];
        assert_eq!(metadata.get("PILOTHOUSE_ADMIN_PORT"), None);
        let elsewhere = made(&["--admin", "127.0.0.1:9901"]);
        assert_eq!(elsewhere["node"]["metadata"]["PILOTHOUSE_ADMIN_PORT"], 9901);
        let socket = made(&["--admin", "unix:///run/envoy/admin.sock"]);
        let path = &socket["admin"]["address"]["pipe"]["path"];
        assert_eq!(path, "/run/envoy/admin.sock");
        assert_eq!(made(&["--admin", "none"]).get("admin"), None);
    }

    #[test]
    fn a_proxy_says_for_which_gateway_it_runs() {
        let flags = ["--gateway", "web", "--port-offset", "8000"];
        let metadata = made(&flags)["node"]["metadata"].clone();
        assert_eq!(metadata["PILOTHOUSE_GATEWAY"], "web");
        assert_eq!(metadata["PILOTHOUSE_PORT_OFFSET"], 8000);
        assert_eq!(metadata["LABELS"][GATEWAY_NAME], "web");
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

    fn made(flags: &[&str]) -> Value {
        let line = ["x", "sidecar", "--name", "a"].iter().chain(flags);
        bootstrap(&Cli::parse_from(line).options).unwrap()
    }

    fn cluster(bootstrap: &Value) -> &Value {
        &bootstrap["static_resources"]["clusters"][0]
    }

    #[test]
    fn the_server_is_an_address_or_a_name() {
        let of = |xds| cluster(&made(&["--xds", xds]))["type"].clone();
        assert_eq!(of("127.0.0.1:15010"), "STATIC");
        assert_eq!(of("[::1]:15010"), "STATIC");
        assert_eq!(of("istiod.istio-system.svc:15012"), "STRICT_DNS");
        for wrong in ["localhost", "a:b", ":15010", "a b:1"] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_read_for_each_stream_and_brings_certificates() {
        let plain = made(&[]);
        assert_eq!(cluster(&plain).get("transport_socket"), None);
        assert_eq!(
            plain["node"]["metadata"].get("PILOTHOUSE_CERTIFICATES"),
            None
        );
        let bootstrap = made(&["--root-cert", "/r.pem", "--token-file", "/run/a\"b"]);
        assert_eq!(
            bootstrap["node"]["metadata"]["PILOTHOUSE_CERTIFICATES"],
            "ads"
        );
        let options = &cluster(&bootstrap)["typed_extension_protocol_options"];
        let filters = options.as_object().unwrap().values().next().unwrap();
        let code = &filters["http_filters"][0]["typed_config"]["default_source_code"];
        let code = code["inline_string"].as_str().unwrap();
        assert!(code.contains(r#"io.open("/run/a\"b", "r")"#), "{code}");
        let tls = &cluster(&bootstrap)["transport_socket"]["typed_config"];
        assert_eq!(tls["sni"], "istiod.istio-system.svc");
        let validation = &tls["common_tls_context"]["validation_context"];
        assert_eq!(validation["trusted_ca"]["filename"], "/r.pem");
        let names = &validation["match_typed_subject_alt_names"][0];
        assert_eq!(names["matcher"]["exact"], "istiod.istio-system.svc");
    }

    #[test]
    fn a_certificate_is_read_from_files_or_followed() {
        let dir = tempfile::tempdir().unwrap();
        let sds = dir.path().display().to_string();
        let flags = [
            "--root-cert",
            "/c/r.pem",
            "--client-cert",
            "/c/a.pem",
            "--client-key",
            "/c/a.key",
        ];
        let once = made(&flags);
        let context = &cluster(&once)["transport_socket"]["typed_config"]["common_tls_context"];
        let pair = &context["tls_certificates"][0];
        assert_eq!(pair["private_key"]["filename"], "/c/a.key");
        let line = ["x", "sidecar", "--name", "a", "--sds-dir", &sds];
        let options = Cli::parse_from(line.iter().chain(&flags)).options;
        run(&options, &mut Vec::new()).unwrap();
        let followed = bootstrap(&options).unwrap();
        let context = &cluster(&followed)["transport_socket"]["typed_config"]["common_tls_context"];
        let of = &context["tls_certificate_sds_secret_configs"][0]["sds_config"];
        let path = of["path_config_source"]["path"].as_str().unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let pair = &written["resources"][0]["tls_certificate"];
        assert_eq!(pair["watched_directory"]["path"], "/c");
        assert_eq!(pair["certificate_chain"]["filename"], "/c/a.pem");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn credentials_are_not_sent_to_who_is_not_judged() {
        for flags in [
            &["--token-file", "/t"][..],
            &["--client-cert", "/c", "--client-key", "/k"],
            &["--root-cert", "/r", "--client-cert", "/c"],
            &["--sds-dir", "/s"],
        ] {
            let line = ["x", "sidecar", "--name", "a"].iter().chain(flags);
            assert!(Cli::try_parse_from(line).is_err(), "{flags:?}");
        }
    }
}
