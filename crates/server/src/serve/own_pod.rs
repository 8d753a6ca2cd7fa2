//! The control plane as a pod of its own store, so that istioctl finds it and reaches its ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use apiserver::api::Api;
use apiserver::forward::OwnPod;

use super::doors::Doors;
use crate::config::ServeOptions;

/// The name of the pod where none is stated.
const NAME: &str = "pilothouse-0";
/// Ports by which clients of istiod know it: pages, xDS, xDS over TLS, levels of the log.
const PAGES: [u16; 2] = [15014, 8080];
const PLAINTEXT: u16 = 15010;
const SECURE: u16 = 15012;
const LEVELS: u16 = 9876;

/// Shows the pod in the store, if there is one.
pub(super) fn show(options: &ServeOptions, doors: &Doors<'_>, store: Option<&Arc<Api>>) {
    let Some(api) = store else {
        return;
    };
    let addresses = doors.addresses;
    let levels = options.istiod.ctrlz().filter(|at| at.port() != 0);
    let ports = PAGES.iter().map(|port| (*port, Some(addresses.http)));
    let others = [
        (PLAINTEXT, Some(addresses.xds)),
        (SECURE, doors.secure_address),
        (LEVELS, levels),
    ];
    let revision = match options.revision.as_str() {
        "" => "default",
        revision => revision,
    };
    let texts = |pairs: &[(&str, &str)]| {
        let owned = pairs.iter();
        owned
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let stated = options.writing.pod_name.as_deref();
    api.set_own_pod(OwnPod {
        namespace: options.namespace.clone(),
        name: stated
            .filter(|name| !name.is_empty())
            .unwrap_or(NAME)
            .to_owned(),
        labels: texts(&[
            ("app", "istiod"),
            ("istio", "pilot"),
            ("istio.io/rev", revision),
        ]),
        annotations: texts(&[("prometheus.io/port", "15014")]),
        ports: ports
            .chain(others)
            .filter_map(|(port, at)| Some((port, reached(at?))))
            .collect(),
    });
}

/// The address under which this machine reaches what listens on one.
fn reached(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_on_every_address_is_reached_on_loopback() {
        for (listening, expected) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("10.0.0.1:3", "10.0.0.1:3"),
        ] {
            let at = reached(listening.parse().unwrap());
            assert_eq!(at.to_string(), expected);
        }
    }
}
