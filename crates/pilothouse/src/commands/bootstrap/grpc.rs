//! The bootstrap of a gRPC library, which a program names in `GRPC_XDS_BOOTSTRAP`.
//!
//! Istio: pkg/istio-agent/grpcxds/grpc_bootstrap.go, 1.32. There the agent beside the program is connected to; here the control
//! plane itself.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::secure::{absolute, text};
use super::{BootstrapOptions, node};

/// The name of the listener that a server asks for; `%s` is the address that it listens at.
const SERVER: &str = "xds.istio.io/grpc/lds/inbound/%s";
/// The provider that clusters and listeners name.
const PROVIDER: &str = "default";
/// How often files are looked at again.
const REFRESH: &str = "900s";

/// Flags of bootstraps for gRPC libraries.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct GrpcOptions {
    /// Folder with the certificate of the workload for mutual TLS, as Istio's agent writes it: `cert-chain.pem`, `key.pem`
    /// and `root-cert.pem`. The library reads the files again every 15 minutes.
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
}

impl GrpcOptions {
    /// Refuses the flags for others.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        if self.cert_dir.is_some() {
            bail!("--cert-dir is for gRPC libraries: `pilothouse bootstrap grpc`");
        }
        Ok(())
    }
}

/// The bootstrap.
pub(super) fn bootstrap(o: &BootstrapOptions) -> anyhow::Result<Value> {
    for (is_stated, flag) in [
        (o.gateway.is_some(), "--gateway"),
        (o.listen_address.is_some(), "--listen-address"),
        (o.token.is_some(), "--token"),
    ] {
        if is_stated {
            bail!("{flag} is for Envoys, not for gRPC libraries");
        }
    }
    let (host, port) = &o.xds;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let (channel, call) = o.secure.credentials()?;
    let mut server = json!({
        "server_uri": format!("{host}:{port}"),
        "channel_creds": [channel],
        "server_features": ["xds_v3"],
    });
    if let Some(call) = call {
        server["call_creds"] = json!([call]);
    }
    let mut bootstrap = json!({
        "xds_servers": [server],
        "node": node(o)?,
        "server_listener_resource_name_template": SERVER,
    });
    if let Some(dir) = &o.grpc.cert_dir {
        bootstrap["certificate_providers"] = json!({ PROVIDER: provider(dir)? });
    }
    Ok(bootstrap)
}

/// Certificates in the files of a folder.
fn provider(dir: &Path) -> anyhow::Result<Value> {
    let dir = absolute(dir)?;
    let file = |name: &str| text(&dir.join(name));
    Ok(json!({
        "plugin_name": "file_watcher",
        "config": {
            "certificate_file": file("cert-chain.pem")?,
            "private_key_file": file("key.pem")?,
            "ca_certificate_file": file("root-cert.pem")?,
            "refresh_interval": REFRESH,
        },
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: BootstrapOptions,
    }

    fn made(flags: &[&str]) -> anyhow::Result<Value> {
        let line = ["x", "grpc", "--name", "cart-0", "-n", "shop"];
        bootstrap(&Cli::parse_from(line.iter().chain(flags)).options)
    }

    #[test]
    fn a_library_connects_in_the_clear_and_says_what_it_is() {
        let flags = ["--ip", "10.0.0.1", "-l", "app=cart", "--locality", "eu/a"];
        let bootstrap = made(&flags).unwrap();
        let server = json!({
            "server_uri": "127.0.0.1:15010",
            "channel_creds": [{ "type": "insecure" }],
            "server_features": ["xds_v3"],
        });
        assert_eq!(bootstrap["xds_servers"], json!([server]));
        let node = &bootstrap["node"];
        assert_eq!(
            node["id"],
            "sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local"
        );
        // gRPC for JavaScript does nothing without a locality.
        let locality = json!({ "region": "eu", "zone": "a", "sub_zone": "" });
        assert_eq!(node["locality"], locality);
        let metadata = node["metadata"].as_object().unwrap();
        assert_eq!(metadata["GENERATOR"], "grpc");
        assert_eq!(metadata["LABELS"], json!({ "app": "cart" }));
        assert!(!metadata.contains_key("INTERCEPTION_MODE"));
        let template = "xds.istio.io/grpc/lds/inbound/%s";
        assert_eq!(
            bootstrap["server_listener_resource_name_template"],
            template
        );
        assert_eq!(bootstrap.get("certificate_providers"), None);
    }

    #[test]
    fn an_address_of_ipv6_stands_in_brackets() {
        let bootstrap = made(&["--xds", "[::1]:15010"]).unwrap();
        assert_eq!(bootstrap["xds_servers"][0]["server_uri"], "[::1]:15010");
    }

    #[test]
    fn tls_tokens_and_certificates_are_read_from_files() {
        let flags = ["--root-cert", "/r.pem", "--token-file", "/t"];
        let server = made(&flags).unwrap()["xds_servers"][0].clone();
        let tls = json!([{ "type": "tls", "config": { "ca_certificate_file": "/r.pem" } }]);
        assert_eq!(server["channel_creds"], tls);
        let token = json!([{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } }]);
        assert_eq!(server["call_creds"], token);

        let flags = [
            "--root-cert",
            "/r.pem",
            "--client-cert",
            "/c",
            "--client-key",
            "/k",
            "--cert-dir",
            "/certs",
        ];
        let bootstrap = made(&flags).unwrap();
        let config = &bootstrap["xds_servers"][0]["channel_creds"][0]["config"];
        assert_eq!(config["certificate_file"], "/c");
        assert_eq!(config["private_key_file"], "/k");
        assert_eq!(bootstrap["xds_servers"][0].get("call_creds"), None);
        let provider = &bootstrap["certificate_providers"]["default"];
        assert_eq!(provider["plugin_name"], "file_watcher");
        let of = json!({
            "certificate_file": "/certs/cert-chain.pem",
            "private_key_file": "/certs/key.pem",
            "ca_certificate_file": "/certs/root-cert.pem",
            "refresh_interval": "900s",
        });
        assert_eq!(provider["config"], of);
        let metadata = &bootstrap["node"]["metadata"];
        assert_eq!(metadata.get("PILOTHOUSE_CERTIFICATES"), None);
    }

    #[test]
    fn what_only_envoys_can_do_is_refused() {
        for (flags, named) in [
            (&["--gateway", "web"][..], "--gateway"),
            (&["--listen-address", "127.0.0.1"][..], "--listen-address"),
            (&["--token", "t"][..], "--token"),
            (&["--root-cert", "/r", "--inline-root"][..], "--inline-root"),
            (&["--root-cert", "/r", "--sds-dir", "/s"][..], "--sds-dir"),
        ] {
            let refused = made(flags).unwrap_err().to_string();
            assert!(refused.contains(named), "{refused}");
        }
        let line = ["x", "sidecar", "--name", "a", "--cert-dir", "/certs"];
        let refused = super::super::run(&Cli::parse_from(line).options, &mut Vec::new());
        assert!(refused.unwrap_err().to_string().contains("--cert-dir"));
    }
}
