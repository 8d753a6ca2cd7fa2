//! Every flag of `pilothouse serve`, with its environment variable, default and documentation in one place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use model::parse::Validation;

use crate::secure::{Listen, listen};

/// Flags of `pilothouse serve`. Istio's spellings are accepted as aliases.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    /// Folder of YAML or JSON objects (Istio, Gateway API and Kubernetes kinds), watched for changes. May be given
    /// several times; if two hold the same object, the earlier folder wins.
    #[arg(
        long,
        alias = "configDir",
        env = "PILOTHOUSE_CONFIG_DIR",
        value_name = "DIR",
        value_delimiter = ','
    )]
    pub config_dir: Vec<PathBuf>,

    /// How long the objects of a folder of --config-dir stay in force after an empty folder has taken its place, as when a
    /// volume is not mounted; 0 drops them at once. Files deleted from the folder itself always take effect at once.
    #[arg(long, env = "PILOTHOUSE_CONFIG_EMPTY_GRACE", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub config_empty_grace: Duration,

    /// Mesh configuration (Istio's MeshConfig as YAML), watched for changes. Default: the key `mesh` of the ConfigMap `istio`
    /// in the namespace of the control plane, wherever that comes from, over Istio's defaults.
    #[arg(
        long,
        alias = "meshConfig",
        env = "PILOTHOUSE_MESH_CONFIG",
        value_name = "FILE"
    )]
    pub mesh_config: Option<PathBuf>,

    /// Mesh networks (Istio's MeshNetworks as YAML), watched for changes. Default: the key `meshNetworks` of that ConfigMap.
    #[arg(
        long,
        alias = "meshNetworks",
        alias = "networksConfig",
        env = "PILOTHOUSE_MESH_NETWORKS",
        value_name = "FILE"
    )]
    pub mesh_networks: Option<PathBuf>,

    /// A ConfigMap in the namespace of the control plane with mesh configuration (keys `mesh` and `meshNetworks`) that lies
    /// below --mesh-config or the ConfigMap `istio`.
    #[arg(long, env = "SHARED_MESH_CONFIG", value_name = "NAME")]
    pub shared_mesh_config: Option<String>,

    /// The revision of this control plane. Its mesh configuration is the ConfigMap `istio-REVISION`.
    #[arg(long, env = "REVISION", value_name = "NAME", default_value = "")]
    pub revision: String,

    /// Give hosts of Gateways, VirtualServices and routes of the Gateway API to namespaces: at a gateway that several share, and for
    /// sidecars of others, a host is the namespace's whose object claimed it first. Others need a ReferenceGrant there.
    #[arg(long, env = "PILOTHOUSE_OWNED_HOSTS", value_parser = clap::builder::BoolishValueParser::new())]
    pub owned_hosts: bool,

    /// Address for plaintext xDS. Beyond loopback only with --insecure-grpc.
    #[arg(long, alias = "grpcAddr", alias = "grpcAddress", env = "PILOTHOUSE_GRPC_ADDR", value_name = "HOST:PORT", default_value = "127.0.0.1:15010", value_parser = address)]
    pub grpc_addr: SocketAddr,

    /// Serve plaintext xDS beyond loopback. Anyone who reaches the port can claim to be any proxy of any namespace and read
    /// its configuration. For trusted networks, and behind a proxy that does mutual TLS.
    #[arg(long, env = "PILOTHOUSE_INSECURE_GRPC", value_parser = clap::builder::BoolishValueParser::new())]
    pub insecure_grpc: bool,

    /// Address for `/ready`, `/live`, `/metrics` and `/debug`.
    #[arg(long, alias = "httpAddr", alias = "httpAddress", env = "PILOTHOUSE_HTTP_ADDR", value_name = "HOST:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    pub http_addr: SocketAddr,

    /// The same pages at a second address, as istiod has its metrics at 15014; `off` or nothing is none.
    #[arg(long, alias = "monitoringAddr", env = "PILOTHOUSE_MONITORING_ADDR", value_name = "HOST:PORT", value_parser = listen)]
    pub monitoring_addr: Option<Listen>,

    /// Folder for the resources that proxies were served last. After a restart proxies get them at once, until the sources
    /// have been read. Secrets are not written. Default with --data: `served` in that folder; `off` disables it.
    #[arg(long, env = "PILOTHOUSE_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Largest size of the file in --state-dir. Views with the fewest proxies are left out first.
    #[arg(long, env = "PILOTHOUSE_STATE_LIMIT", value_name = "BYTES", default_value_t = 1 << 30)]
    pub state_limit: u64,

    /// How often changes are saved in --state-dir.
    #[arg(long, env = "PILOTHOUSE_STATE_INTERVAL", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub state_interval: Duration,

    /// DNS domain of Kubernetes services.
    #[arg(
        long,
        env = "PILOTHOUSE_DOMAIN",
        value_name = "DOMAIN",
        default_value = "cluster.local"
    )]
    pub domain: String,

    /// The cluster of objects that name none.
    #[arg(
        long,
        alias = "clusterID",
        env = "CLUSTER_ID",
        value_name = "ID",
        default_value = "Kubernetes"
    )]
    pub cluster_id: String,

    /// Namespace of the control plane.
    #[arg(
        long,
        short = 'n',
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "istio-system"
    )]
    pub namespace: String,

    /// What to do with invalid objects: reject them, or use what is valid and warn. Default: strict for folders, warn for
    /// clusters, whose API servers and webhooks have judged their objects already.
    #[arg(long, env = "PILOTHOUSE_VALIDATION", value_name = "MODE")]
    pub validation: Option<ValidationMode>,

    /// New streams admitted per second, of which one address gets half; the burst is four seconds' worth. 0 means no
    /// limit.
    #[arg(
        long,
        env = "PILOT_MAX_REQUESTS_PER_SECOND",
        value_name = "N",
        default_value_t = 5000.0
    )]
    pub max_streams_per_second: f64,

    /// Most resource names of each type that a stream may subscribe to.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_NAMES",
        value_name = "N",
        default_value_t = 100_000
    )]
    pub max_names: usize,

    /// Most bytes of resource names that a stream may subscribe to or claim to have.
    #[arg(long, env = "PILOTHOUSE_MAX_NAME_BYTES", value_name = "BYTES", default_value_t = 64 << 20)]
    pub max_name_bytes: usize,

    /// Most memory for the resource names of all streams; lists that streams share count once. One address may use only
    /// as much as it leaves free.
    #[arg(long, env = "PILOTHOUSE_MAX_NAMES_MEMORY", value_name = "BYTES", default_value_t = 1 << 30)]
    pub max_names_memory: usize,

    /// Most namespaces without objects that proxies may claim to be in; an eighth of them from one address.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_UNKNOWN_NAMESPACES",
        value_name = "N",
        default_value_t = 64
    )]
    pub max_unknown_namespaces: usize,

    /// Most distinct origins (namespace, DNS domain, locality, network and cluster) that proxies may claim, for each
    /// namespace that has objects; 64 more in any case.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_PLACES_PER_NAMESPACE",
        value_name = "N",
        default_value_t = 8
    )]
    pub max_places_per_namespace: usize,

    /// Largest request of a proxy. A proxy for which there are more resources may send twice their size, to name them.
    #[arg(long, env = "ISTIO_GPRC_MAXRECVMSGSIZE", value_name = "BYTES", default_value_t = 32 << 20)]
    pub max_request_bytes: usize,

    /// Most connections of proxies at once. Fewer if the limit on open files is too low: a quarter of it (at most 1,024) is
    /// reserved for everything else.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_CONNECTIONS",
        value_name = "N",
        default_value_t = 65_536
    )]
    pub max_connections: usize,

    /// Most connections from one address (IPv6: one /64) at once; 0 means three quarters of --max-connections.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_CONNECTIONS_PER_ADDRESS",
        value_name = "N",
        default_value_t = 0
    )]
    pub max_connections_per_address: usize,

    /// Most memory for incomplete requests, over all connections. One address may use half.
    #[arg(long, env = "PILOTHOUSE_MAX_PARTIAL_BYTES", value_name = "BYTES", default_value_t = 64 << 20)]
    pub max_partial_bytes: usize,

    /// How long a connection may take to begin a call, a call to send its first request, and a request to arrive in full.
    #[arg(long, env = "PILOTHOUSE_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub request_timeout: Duration,

    /// Most streams at once over all connections.
    #[arg(
        long,
        env = "ISTIO_GPRC_MAXSTREAMS",
        value_name = "N",
        default_value_t = 100_000
    )]
    pub max_streams: usize,

    /// Threads that serve proxies; 0 means one for each processor.
    #[arg(
        long,
        env = "PILOTHOUSE_XDS_THREADS",
        value_name = "NUMBER",
        default_value_t = 0
    )]
    pub xds_threads: usize,

    /// Pin each of these threads to a processor of its own, if there are enough. Other load on a processor then delays some
    /// proxies more than others.
    #[arg(
        long,
        env = "PILOTHOUSE_PIN_XDS_THREADS",
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set
    )]
    pub pin_xds_threads: bool,

    /// Idle time after which a connection is pinged.
    #[arg(long, alias = "keepaliveInterval", env = "PILOTHOUSE_KEEPALIVE_INTERVAL", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub keepalive_interval: Duration,

    /// How long a ping may go unanswered before the connection is closed.
    #[arg(long, alias = "keepaliveTimeout", env = "PILOTHOUSE_KEEPALIVE_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub keepalive_timeout: Duration,

    /// How old a connection may get, a tenth more or less: then the proxy is told to connect again, and so proxies spread over all
    /// replicas after one was added or restarted. Default: any age; istiod's chart has 30m.
    #[arg(long, alias = "keepaliveMaxServerConnectionAge", env = "PILOTHOUSE_KEEPALIVE_MAX_SERVER_CONNECTION_AGE", value_name = "DURATION", value_parser = duration)]
    pub keepalive_max_server_connection_age: Option<Duration>,

    /// How often the keys of token issuers are refreshed.
    #[arg(long, env = "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", value_name = "DURATION", default_value = "20m", value_parser = duration)]
    pub jwks_refresh_interval: Duration,

    /// Address ranges from which keys of token issuers are never fetched, besides this machine, link-local addresses and the
    /// metadata services of clouds. Comma-separated.
    #[arg(
        long,
        env = "BLOCKED_CIDRS_IN_JWKS_URIS",
        value_name = "CIDRS",
        default_value = "",
        value_parser = cidrs
    )]
    pub jwks_blocked_cidrs: Cidrs,

    /// Address ranges from which keys of token issuers are fetched although they are blocked by default, for example
    /// 127.0.0.0/8 for issuers on this machine. --jwks-blocked-cidrs takes precedence. Comma-separated.
    #[arg(
        long,
        env = "PILOTHOUSE_JWKS_ALLOWED_CIDRS",
        value_name = "CIDRS",
        default_value = "",
        value_parser = cidrs
    )]
    pub jwks_allowed_cidrs: Cidrs,

    /// PEM file with more root certificates for fetching keys of token issuers; ignored if missing.
    #[arg(
        long,
        env = "PILOTHOUSE_JWKS_ROOTS",
        value_name = "FILE",
        default_value = "/cacerts/extra.pem"
    )]
    pub jwks_roots: PathBuf,

    /// Accept any certificate when fetching keys of token issuers. Insecure.
    #[arg(long, env = "JWKS_RESOLVER_INSECURE_SKIP_VERIFY", value_parser = clap::builder::BoolishValueParser::new())]
    pub jwks_insecure_skip_verify: bool,

    /// How long connections may take to end after SIGTERM.
    #[arg(long, alias = "shutdownDuration", env = "PILOTHOUSE_SHUTDOWN_DURATION", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub shutdown_duration: Duration,

    /// Accept a bearer token `sa:NAMESPACE:NAME` as that identity. For tests; refused unless xDS listens on loopback.
    #[arg(long, env = "PILOTHOUSE_INSECURE_TEST_IDENTITIES", hide = true)]
    pub insecure_test_identities: bool,

    /// The secret of proxies that this process starts.
    #[arg(skip)]
    pub own_proxies: Option<crate::own::OwnProxies>,

    /// Log lines as JSON.
    #[arg(long, alias = "log_as_json", env = "PILOTHOUSE_LOG_JSON", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub log_json: bool,

    /// Log level: error, warn, info, debug, trace or off; with others for parts of the program, as `info,pilothouse_xlate=debug`.
    #[arg(
        long,
        env = "PILOTHOUSE_LOG",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log: String,

    /// Sources of configuration by their addresses.
    #[command(flatten, next_help_heading = "Sources of configuration")]
    pub config_sources: crate::config_sources::ConfigSourceOptions,

    /// The cluster that objects are read from.
    #[command(flatten, next_help_heading = "The cluster that is read")]
    pub cluster: kubernetes::client::Options,

    /// The Kubernetes API.
    #[command(flatten, next_help_heading = "The Kubernetes API that is served")]
    pub api: crate::api::ApiOptions,

    /// Workloads that register themselves.
    #[command(flatten, next_help_heading = "Workloads that register themselves")]
    pub registration: crate::registration::RegistrationOptions,

    /// The CA.
    #[command(flatten, next_help_heading = "The CA")]
    pub ca: crate::authority::CaOptions,

    /// Admission webhooks.
    #[command(flatten, next_help_heading = "Injection and validation")]
    pub webhooks: crate::webhooks::WebhookOptions,

    /// What is written into it.
    #[command(flatten, next_help_heading = "What is written")]
    pub writing: crate::writing::WriteOptions,

    /// How the roots of the mesh are distributed.
    #[command(flatten, next_help_heading = "Roots of the mesh")]
    pub trust: crate::trust::TrustOptions,

    /// What is deployed for Gateways.
    #[command(flatten, next_help_heading = "Gateways that are deployed")]
    pub deployments: crate::deployments::DeploymentOptions,

    /// Certificates of workloads that have no agent.
    #[command(flatten, next_help_heading = "Certificates of workloads")]
    pub certificates: crate::certificates::CertificateOptions,

    /// Who may read Secrets.
    #[command(flatten, next_help_heading = "Secrets")]
    pub access: crate::access::AccessOptions,

    /// Ingresses with annotations.
    #[command(flatten, next_help_heading = "Ingresses with annotations")]
    pub ingress: crate::settings::IngressOptions,

    /// Wasm modules.
    #[command(flatten, next_help_heading = "Wasm modules")]
    pub wasm: crate::wasm::WasmOptions,

    /// Remote clusters.
    #[command(flatten, next_help_heading = "Remote clusters")]
    pub remotes: crate::remotes::RemoteOptions,

    /// Registries outside of Kubernetes.
    #[command(flatten, next_help_heading = "Registries outside of Kubernetes")]
    pub registries: crate::registries::RegistryOptions,

    /// Certificates by ACME.
    #[command(flatten, next_help_heading = "Certificates by ACME")]
    pub acme: crate::acme::AcmeOptions,

    /// xDS and certificates over TLS.
    #[command(flatten, next_help_heading = "xDS over TLS")]
    pub secure: crate::secure::SecureOptions,

    /// Who is believed there.
    #[command(flatten, next_help_heading = "Who is connected")]
    pub authentication: crate::authentication::AuthenticationOptions,

    /// Other control planes.
    #[command(flatten, next_help_heading = "Other control planes")]
    pub exporting: crate::exporting::ExportOptions,

    /// Flags of istiod without an effect.
    #[command(flatten, next_help_heading = "Flags of istiod")]
    pub istiod: crate::settings::IstiodFlags,

    /// Flags of Higress core.
    #[command(flatten, next_help_heading = "Flags of Higress")]
    pub higress: crate::settings::HigressFlags,
}

impl ServeOptions {
    /// Whether objects may come from a Kubernetes API.
    pub fn has_kubernetes_api(&self) -> bool {
        self.api.data.is_some() || self.reads_cluster()
    }
}

/// Ranges of addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cidrs(pub Vec<IpNet>);

/// How strict validation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ValidationMode {
    /// Refuse errors of structure and meaning; the last good version stays in force.
    Strict,
    /// Refuse only what has no structure, as for objects that a Kubernetes API has admitted.
    Warn,
}

impl ServeOptions {
    /// Whether objects come from elsewhere than from a cluster.
    pub fn has_other_sources(&self) -> bool {
        let others = self.api.data.is_some() || !self.registries.stated.is_empty();
        others || !self.config_dir.is_empty() || self.config_sources.names_others()
    }

    /// Whether proxies are deployed for Gateways.
    pub fn deploys_gateways(&self) -> bool {
        let stated = self.deployments.deploy_gateways;
        stated.unwrap_or_else(|| self.reads_cluster())
    }

    /// Whether GatewayClasses are created.
    pub fn creates_gateway_classes(&self) -> bool {
        let stated = self.deployments.create_gateway_classes;
        stated.unwrap_or_else(|| self.reads_cluster())
    }

    /// Whether objects are read from a cluster.
    pub fn reads_cluster(&self) -> bool {
        self.config_sources.names_cluster() || self.cluster.is_wanted(self.has_other_sources())
    }

    /// What becomes of objects with faults, from a source of which that is the default.
    pub(crate) fn validation(&self, default: ValidationMode) -> Validation {
        match self.validation.unwrap_or(default) {
            ValidationMode::Strict => Validation::Strict,
            ValidationMode::Warn => Validation::Warn,
        }
    }

    /// Whether something may be written into the API that objects come from. Nobody changes a cluster by a look at it from a
    /// laptop.
    pub fn writes(&self) -> bool {
        let write = self.writing.write;
        write.unwrap_or_else(|| self.cluster.kubeconfig.is_none())
    }
}

/// The environment variables that stand for flags.
pub fn environment() -> Vec<String> {
    ServeOptions::augment_args(clap::Command::new("serve"))
        .get_arguments()
        .filter_map(|arg| {
            arg.get_env()
                .map(|name| name.to_string_lossy().into_owned())
        })
        .collect()
}

/// Reads `HOST:PORT`; Istio's `:PORT` means every address: of IPv4 alone where the machine has no IPv6.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') {
        let has_ipv6 = std::net::UdpSocket::bind("[::]:0").is_ok();
        format!("{}{text}", if has_ipv6 { "[::]" } else { "0.0.0.0" })
    } else {
        text.replace("localhost:", "127.0.0.1:")
    };
    full.parse().map_err(|_| {
        format!("{text:?} is not HOST:PORT (an IP address and a port, such as 127.0.0.1:15010)")
    })
}

/// Reads `10.0.0.0/8, fd00::/8`; nothing is no range.
pub(crate) fn cidrs(text: &str) -> Result<Cidrs, String> {
    let stated = text.split(',').map(str::trim).filter(|c| !c.is_empty());
    let read = stated.map(|cidr| {
        let wrong = |_| format!("{cidr:?} is not an address range such as 10.0.0.0/8");
        cidr.parse::<IpNet>().map_err(wrong)
    });
    read.collect::<Result<_, _>>().map(Cidrs)
}

/// Reads `1h2m3.5s`, `100ms`.
///
/// # Errors
///
/// When it is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s or 1m30s");
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        total += number
            * match &rest[..unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                "us" | "µs" => 0.000_001,
                _ => return Err(wrong()),
            };
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert!(duration("5").is_err());
        assert!(duration("5 parsecs").is_err());
    }

    #[test]
    fn ranges_are_read_with_spaces_and_without_any() {
        let read = |text| cidrs(text).map(|c| c.0.len());
        assert_eq!(read(""), Ok(0));
        assert_eq!(read("10.0.0.0/8, fd00::/8,"), Ok(2));
        assert!(read("10.0.0.1").is_err());
    }

    #[test]
    fn an_address_without_host_means_every_address() {
        let every = address(":15010").unwrap();
        assert!(every.ip().is_unspecified() && every.port() == 15010);
        assert_eq!(
            address("localhost:1").map(|a| a.to_string()),
            Ok("127.0.0.1:1".into())
        );
        assert!(address("15010").is_err());
    }
}
