//! What somebody who has just started the server does next, as lines of its log.

use std::net::SocketAddr;

use crate::config::ServeOptions;

/// One line for each thing to do, with the flags that lead to this server.
pub(crate) fn lines(options: &ServeOptions) -> Vec<String> {
    let flag = |name: &str, address: SocketAddr, default: &str| match address.to_string() {
        stated if stated == default => String::new(),
        _ => format!(" {name} {}", reached(address)),
    };
    let xds = flag("--xds", options.grpc_addr, "127.0.0.1:15010");
    let mut lines = vec![
        format!("Debug pages: http://{}/debug", reached(options.http_addr)),
        format!(
            "To connect an Envoy: pilothouse bootstrap sidecar --name NAME -n NAMESPACE{xds} > envoy.json && envoy -c envoy.json"
        ),
    ];
    if let Some(data) = &options.api.data {
        let api = flag("--api-addr", options.api.api_addr, "127.0.0.1:6443");
        let data = match options.api.insecure_local {
            true => String::new(),
            false => format!(" --data {}", data.display()),
        };
        lines.push(format!(
            "To use kubectl: pilothouse kubeconfig{data}{api} > kubeconfig && kubectl --kubeconfig kubeconfig get namespaces"
        ));
    }
    lines
}

/// An address at which this machine reaches a listener: one that listens everywhere is on loopback too.
fn reached(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let ip = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(ip);
    }
    address
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: ServeOptions,
    }

    #[test]
    fn lines_name_what_is_not_the_default() {
        let said = |flags: &[&str]| {
            let flags = ["x"].iter().chain(flags);
            lines(&Cli::parse_from(flags).options).join("\n")
        };
        let folder = said(&["--config-dir", "d"]);
        assert!(folder.contains("http://127.0.0.1:8080/debug"), "{folder}");
        assert!(
            !folder.contains("--xds") && !folder.contains("kubectl"),
            "{folder}"
        );
        let api = said(&[
            "--data",
            "./data",
            "--grpc-addr",
            "0.0.0.0:1",
            "--api-addr",
            "127.0.0.1:2",
        ]);
        assert!(api.contains(" --xds 127.0.0.1:1 "), "{api}");
        assert!(
            api.contains("kubeconfig --data ./data --api-addr 127.0.0.1:2 >"),
            "{api}"
        );
        let plain = said(&["--data", "d", "--insecure-local"]);
        assert!(plain.contains("pilothouse kubeconfig >"), "{plain}");
    }
}
