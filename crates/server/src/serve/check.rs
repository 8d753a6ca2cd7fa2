//! Options that do not go together, or that are dangerous.

use std::net::SocketAddr;

use crate::config::ServeOptions;
use crate::secure::Listen;

/// Refuses what cannot be meant, and warns of what is dangerous.
pub(super) fn check(options: &ServeOptions) -> anyhow::Result<()> {
    if options.insecure_test_identities {
        anyhow::ensure!(
            is_loopback(options.grpc_addr),
            "PILOTHOUSE_INSECURE_TEST_IDENTITIES is for loopback only, and --grpc-addr is {}",
            options.grpc_addr
        );
        tracing::warn!(
            "Bearer tokens sa:NAMESPACE:NAME are taken for identities without any proof. For tests only."
        );
    }
    if !is_loopback(options.grpc_addr) {
        anyhow::ensure!(
            options.insecure_grpc,
            "--grpc-addr {} is not loopback, and xDS is plaintext without authentication: whoever reaches it may say that it is \
             a proxy of any namespace and reads that configuration. Serve other machines over TLS, where each proxy proves who it \
             is: --secure-grpc-addr :15012 (docs/identity.md). On a network where everybody may read all of it, add \
             --insecure-grpc (PILOTHOUSE_INSECURE_GRPC=true)",
            options.grpc_addr
        );
        tracing::warn!(
            address = %options.grpc_addr,
            "xDS is served beyond this machine in plaintext and without authentication (--insecure-grpc): whoever reaches it \
             reads the configuration of any namespace."
        );
    }
    let pages = [
        ("--http-addr", Some(options.http_addr)),
        (
            "--monitoring-addr",
            options.monitoring_addr.and_then(Listen::at),
        ),
    ];
    for (flag, address) in pages {
        if let Some(address) = address.filter(|address| !is_loopback(*address)) {
            tracing::warn!(%address, flag, "Plaintext is served beyond this machine.");
        }
    }
    let peers = &options.exporting.mcp_peers.0;
    if !peers.is_empty() {
        let ranges = peers.iter().map(ToString::to_string);
        let ranges = ranges.collect::<Vec<_>>().join(",");
        tracing::warn!(
            ranges,
            "Whoever has one of these addresses reads the configuration of every namespace without proving who it is \
             (--mcp-peers)."
        );
    }
    let given = [options.istiod.given(), options.higress.given()].concat();
    if !given.is_empty() {
        let given = given.iter();
        let told: Vec<String> = given
            .map(|(flag, instead)| format!("{flag} ({instead})"))
            .collect();
        let flags = told.join(", ");
        tracing::warn!(flags, "Flags of istiod or Higress have no effect here.");
    }
    if !options.has_other_sources() && !options.reads_cluster() {
        tracing::warn!(
            "No source of configuration is given (--kubeconfig, --config-dir, --config-source or --data)."
        );
    }
    Ok(())
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServeOptions,
    }

    fn checked(flags: &[&str]) -> Result<(), String> {
        let line = Line::parse_from(["serve"].iter().chain(flags));
        check(&line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn plaintext_beyond_loopback_must_be_asked_for() {
        for address in ["127.0.0.1:15010", "127.3.0.1:15010", "[::1]:15010"] {
            assert_eq!(checked(&["--grpc-addr", address]), Ok(()));
        }
        for address in ["0.0.0.0:15010", ":15010", "[::]:15010", "10.0.0.1:15010"] {
            let error = checked(&["--grpc-addr", address]).unwrap_err();
            for words in ["is not loopback", "--secure-grpc-addr", "--insecure-grpc"] {
                assert!(error.contains(words), "{error}");
            }
            let told = ["--grpc-addr", address, "--insecure-grpc"];
            assert_eq!(checked(&told), Ok(()));
        }
    }
}
