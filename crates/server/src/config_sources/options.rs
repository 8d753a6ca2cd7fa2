//! Flags of sources that are named by address.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcp_client::TlsOptions;
use model::Kind;
use proto_istio::mesh::ConfigSource;
use validate::mesh::SourceAddress;

use crate::config::duration;

/// Flags of sources of configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigSourceOptions {
    /// Where configuration comes from, besides what other flags name: `fs:///PATH` (a folder, as with --config-dir), `k8s://` (the
    /// configured cluster) or `xds://HOST:PORT` (another control plane, by MCP over xDS). May be given several times; if two have
    /// the same object, the earlier wins. Those of `configSources` in the mesh config come after them.
    #[arg(long, env = "PILOTHOUSE_CONFIG_SOURCES", value_name = "ADDRESS", value_delimiter = ',', value_parser = SourceAddress::parse)]
    pub config_source: Vec<SourceAddress>,

    /// PEM file with the roots of the control planes of --config-source, which are then reached over TLS.
    #[arg(long, env = "PILOTHOUSE_CONFIG_SOURCE_CA", value_name = "FILE")]
    pub config_source_ca: Option<PathBuf>,

    /// PEM file with the certificate, and its chain, that is shown to them.
    #[arg(
        long,
        env = "PILOTHOUSE_CONFIG_SOURCE_CERT",
        value_name = "FILE",
        requires = "config_source_key",
        requires = "config_source_ca"
    )]
    pub config_source_cert: Option<PathBuf>,

    /// PEM file with the key of --config-source-cert.
    #[arg(
        long,
        env = "PILOTHOUSE_CONFIG_SOURCE_KEY",
        value_name = "FILE",
        requires = "config_source_cert"
    )]
    pub config_source_key: Option<PathBuf>,

    /// Name that their certificates must have. Default: the host of the address.
    #[arg(
        long,
        env = "PILOTHOUSE_CONFIG_SOURCE_SERVER_NAME",
        value_name = "NAME",
        requires = "config_source_ca"
    )]
    pub config_source_server_name: Option<String>,

    /// File with the bearer token that control planes are shown, those of the mesh config as well; read again for each connection,
    /// and shown over TLS only.
    #[arg(long, env = "PILOTHOUSE_CONFIG_SOURCE_TOKEN_FILE", value_name = "FILE")]
    pub config_source_token_file: Option<PathBuf>,

    /// After which time the start, and a change of sources, goes on without a control plane that has not answered and of which
    /// nothing is kept on disk: proxies that are connected then lose what it had. Default: never; proxies stay as they are
    /// until it answers.
    #[arg(long, env = "PILOTHOUSE_CONFIG_SOURCE_START_TIMEOUT", value_name = "DURATION", value_parser = duration)]
    pub config_source_start_timeout: Option<Duration>,

    /// What control planes are asked for: Istio's kinds, or those of the Gateway API as well. An istiod tells what it makes of the
    /// Gateway API among Istio's kinds already.
    #[arg(
        long,
        env = "PILOTHOUSE_CONFIG_SOURCE_KINDS",
        value_name = "KINDS",
        default_value = "istio"
    )]
    pub config_source_kinds: ReadKinds,

    /// The variant of the protocol: the state of the world, which every control plane speaks, or delta.
    #[arg(
        long,
        env = "PILOTHOUSE_CONFIG_SOURCE_PROTOCOL",
        value_name = "VARIANT",
        default_value = "sotw"
    )]
    pub config_source_protocol: Protocol,

    /// What the mesh config of the start names.
    #[arg(skip)]
    pub named_at_start: NamedAtStart,
}

/// Which kinds control planes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReadKinds {
    /// Istio's.
    Istio,
    /// Those of the Gateway API as well.
    All,
}

/// A variant of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Protocol {
    /// Each response is the whole state.
    Sotw,
    /// Responses are differences.
    Delta,
}

/// What kinds of sources the mesh config of the start names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NamedAtStart {
    /// The configured cluster.
    pub cluster: bool,
    /// Any other.
    pub others: bool,
}

impl ConfigSourceOptions {
    /// Takes in what the mesh config of the start names. Returns whether that is something.
    pub fn adopt(&mut self, sources: &[ConfigSource]) -> bool {
        let addresses = sources
            .iter()
            .map(|source| SourceAddress::parse(&source.address));
        for address in addresses.flatten() {
            match address {
                SourceAddress::Cluster => self.named_at_start.cluster = true,
                SourceAddress::Folder(_) | SourceAddress::Peer(_) => {
                    self.named_at_start.others = true;
                }
            }
        }
        self.named_at_start != NamedAtStart::default()
    }

    /// Whether the configured cluster is to be read.
    pub fn names_cluster(&self) -> bool {
        self.named_at_start.cluster || self.config_source.contains(&SourceAddress::Cluster)
    }

    /// Whether anything else is.
    pub fn names_others(&self) -> bool {
        let mut stated = self.config_source.iter();
        self.named_at_start.others || stated.any(|address| *address != SourceAddress::Cluster)
    }

    /// How control planes of the flags are reached.
    pub(super) fn tls(&self) -> Option<TlsOptions> {
        let roots = self.config_source_ca.clone()?;
        let identity = self.config_source_cert.clone();
        Some(TlsOptions {
            roots: Some(roots),
            identity: identity.zip(self.config_source_key.clone()),
            server_name: None,
            names: self.config_source_server_name.iter().cloned().collect(),
        })
    }

    /// What control planes are asked for.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match self.config_source_kinds {
            ReadKinds::Istio => mcp::kinds::of_istio().collect(),
            ReadKinds::All => mcp::kinds::all().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ConfigSourceOptions,
    }

    fn parsed(flags: &[&str]) -> Result<ConfigSourceOptions, clap::Error> {
        let line = Line::try_parse_from(["serve"].iter().chain(flags));
        line.map(|line| line.options)
    }

    #[test]
    fn sources_of_flags_are_read_and_others_refused() {
        let flags = [
            "--config-source",
            "fs:///etc/config,xds://a:1",
            "--config-source",
            "k8s://",
        ];
        let options = parsed(&flags).unwrap();
        assert_eq!(options.config_source.len(), 3);
        assert!(options.names_cluster() && options.names_others());
        assert!(options.tls().is_none());
        assert!(parsed(&["--config-source", "ftp://nope"]).is_err());
        assert!(parsed(&["--config-source-cert", "c"]).is_err());
    }

    #[test]
    fn what_the_mesh_config_of_the_start_names_says_whether_a_cluster_is_read() {
        let named = |addresses: &[&str]| -> Vec<ConfigSource> {
            let source = |address: &&str| ConfigSource {
                address: (*address).to_owned(),
                ..ConfigSource::default()
            };
            addresses.iter().map(source).collect()
        };
        let mut options = parsed(&[]).unwrap();
        assert!(!options.adopt(&named(&[])) && !options.adopt(&named(&["ftp://nope"])));
        assert!(options.adopt(&named(&["xds://a:1"])));
        assert!(options.names_others() && !options.names_cluster());
        assert!(options.adopt(&named(&["k8s://"])) && options.names_cluster());
    }
}
