//! Which connections of a port each of its inbound filter chains takes.
//!
//! Istio: pilot/pkg/networking/core/filterchain_options.go, 1.32.

use proto_envoy::envoy::config::listener::v3::FilterChainMatch;

use mesh::class::Handling;
use policy::authn::MutualTls;
use policy::filters::{RAW_BUFFER_TRANSPORT, TLS_TRANSPORT};

/// ALPN that HTTP inspectors state for HTTP in the clear.
pub const PLAIN_HTTP: &[&str] = &["http/1.1", "h2c"];
/// The same, where HTTP/1.0 is accepted.
pub const PLAIN_HTTP_10: &[&str] = &["http/1.0", "http/1.1", "h2c"];
const MESH_HTTP: &[&str] = &["istio-http/1.0", "istio-http/1.1", "istio-h2"];
const MESH_TCP: &[&str] = &["istio-peer-exchange", "istio"];
/// Every ALPN of mutual TLS of the mesh.
pub const MESH_ANY: &[&str] = &[
    "istio",
    "istio-peer-exchange",
    "istio-http/1.0",
    "istio-http/1.1",
    "istio-h2",
];

/// One filter chain of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChainKind {
    /// Whether it serves HTTP, else bytes.
    pub(super) http: bool,
    /// Whether it terminates mutual TLS.
    pub(super) terminates: bool,
    tls: bool,
    alpn: &'static [&'static str],
}

impl ChainKind {
    const fn new(http: bool, tls: bool, terminates: bool, alpn: &'static [&'static str]) -> Self {
        Self {
            http,
            terminates,
            tls,
            alpn,
        }
    }

    /// The connections it takes, of one port if that is stated.
    pub(super) fn matching(&self, port: u16) -> FilterChainMatch {
        FilterChainMatch {
            destination_port: (port != 0).then_some(u32::from(port)),
            transport_protocol: if self.tls {
                TLS_TRANSPORT
            } else {
                RAW_BUFFER_TRANSPORT
            }
            .to_owned(),
            application_protocols: self.alpn.iter().map(|p| (*p).to_owned()).collect(),
            ..Default::default()
        }
    }
}

/// The filter chain of a port where TLS ends that the user states.
pub(super) fn stated_tls(handling: Handling) -> ChainKind {
    ChainKind::new(handling == Handling::Http, true, true, &[])
}

/// The filter chains of a port, by what it speaks and what mutual TLS it asks for.
pub(super) fn chains(
    handling: Handling,
    mode: MutualTls,
    plain_http: &'static [&'static str],
) -> Vec<ChainKind> {
    let mesh = |http, alpn| ChainKind::new(http, true, true, alpn);
    let plain = |http, alpn| ChainKind::new(http, false, false, alpn);
    // TLS that is not the mesh's goes to the workload as it is.
    let foreign_tls = ChainKind::new(false, true, false, &[]);
    match (handling, mode) {
        (Handling::Http, MutualTls::Strict) => vec![mesh(true, &[])],
        (Handling::Http, MutualTls::Permissive) => vec![mesh(true, MESH_ANY), plain(true, &[])],
        (Handling::Http, MutualTls::Disable) => vec![plain(true, &[])],
        (Handling::Auto, MutualTls::Strict) => vec![mesh(true, MESH_HTTP), mesh(false, &[])],
        (Handling::Auto, MutualTls::Permissive) => vec![
            mesh(true, MESH_HTTP),
            plain(true, plain_http),
            mesh(false, MESH_TCP),
            plain(false, &[]),
            foreign_tls,
        ],
        (Handling::Auto, MutualTls::Disable) => vec![plain(true, plain_http), plain(false, &[])],
        (Handling::Tcp | Handling::Ignored, MutualTls::Strict) => vec![mesh(false, &[])],
        (Handling::Tcp | Handling::Ignored, MutualTls::Permissive) => {
            vec![mesh(false, MESH_ANY), foreign_tls, plain(false, &[])]
        }
        (Handling::Tcp | Handling::Ignored, MutualTls::Disable) => vec![plain(false, &[])],
    }
}
