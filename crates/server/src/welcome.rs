//! What somebody who has just started the server does next, as lines of its log.

use std::net::SocketAddr;
use std::path::Path;

use crate::api::ApiOptions;

/// One line for each thing to do with a server that answers proxies and shows pages at these addresses.
pub(crate) fn lines(xds: SocketAddr, http: SocketAddr) -> [String; 2] {
    let xds = flag("--xds", xds, "127.0.0.1:15010");
    [
        format!("Debug pages: http://{}/debug", reached(http)),
        format!(
            "To connect an Envoy: pilothouse bootstrap sidecar --name NAME -n NAMESPACE{xds} > envoy.json && \
             envoy -c envoy.json --drain-strategy immediate --drain-time-s 45 --component-log-level misc:error"
        ),
    ]
}

/// The line for the Kubernetes API of a data folder.
pub(crate) fn api(data: &Path, options: &ApiOptions, address: SocketAddr) -> String {
    let api = flag("--api-addr", address, "127.0.0.1:6443");
    let data = match options.insecure_local {
        true => String::new(),
        false => format!(" --data {}", data.display()),
    };
    format!(
        "To use kubectl: pilothouse kubeconfig{data}{api} > kubeconfig && kubectl --kubeconfig kubeconfig get namespaces"
    )
}

/// The flag that leads to an address; nothing where that is the default.
fn flag(name: &str, address: SocketAddr, default: &str) -> String {
    match address.to_string() {
        stated if stated == default => String::new(),
        _ => format!(" {name} {}", reached(address)),
    }
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
        options: ApiOptions,
    }

    #[test]
    fn lines_name_what_is_not_the_default() {
        let at = |text: &str| text.parse().unwrap();
        let plain = lines(at("127.0.0.1:15010"), at("127.0.0.1:8080")).join("\n");
        assert!(plain.contains("http://127.0.0.1:8080/debug"), "{plain}");
        assert!(!plain.contains("--xds"), "{plain}");
        let elsewhere = lines(at("0.0.0.0:1"), at("[::]:2")).join("\n");
        assert!(elsewhere.contains(" --xds 127.0.0.1:1 "), "{elsewhere}");
        assert!(elsewhere.contains("http://[::1]:2/debug"), "{elsewhere}");
        let of_api = |flags: &[&str], address| {
            let flags = ["x", "--data", "./data"].iter().chain(flags);
            api(
                Path::new("./data"),
                &Cli::parse_from(flags).options,
                at(address),
            )
        };
        let api = of_api(&[], "127.0.0.1:2");
        assert!(
            api.contains("kubeconfig --data ./data --api-addr 127.0.0.1:2 >"),
            "{api}"
        );
        let plain = of_api(&["--insecure-local"], "127.0.0.1:6443");
        assert!(plain.contains("pilothouse kubeconfig >"), "{plain}");
    }
}
