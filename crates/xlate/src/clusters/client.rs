//! A proxy as far as the clusters of services depend on it.

use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::{Capabilities, CertificateSource, Loadable};
use mesh::proxy::Traits;
use mesh::proxy_options::proxy_config;
use mesh::view::Families;
use model::node::Role;
use model::settings::Settings;
use policy::envoy_filter::Context;
use store::{Reads, Snapshot};

use super::agent_dns::CARES;
use super::options::UpstreamOptions;

/// What clusters of services depend on of a proxy. Proxies that agree in it share every cluster whose rules agree.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClusterClient {
    /// Its role.
    pub(crate) role: Role,
    /// Its IP families.
    pub(crate) families: Families,
    /// Whether the case of HTTP/1 header names is kept.
    pub(crate) keep_header_case: bool,
    /// Certificates of its own, in files.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Whether it has Istio's metadata exchange.
    pub(crate) metadata_exchange: bool,
    /// Whether it offers the metadata exchange by ALPN.
    pub(crate) peer_alpn: bool,
    /// Where its certificate comes from, unless it is in those files.
    pub(crate) certificate: CertificateSource,
    /// Whether it can reach endpoints through tunnels. Without an agent it lacks the extension for listeners inside of it.
    pub(crate) tunnels: bool,
    /// Whether it has the c-ares resolver.
    pub(crate) cares: bool,
    /// Whether a server of the user's serves credentials.
    pub(crate) credential_socket: bool,
    /// Whether a server of the user's serves certificates in files.
    pub(crate) file_credential_socket: bool,
    /// What options of an edge say of connections to backends.
    pub(crate) options: Option<Arc<UpstreamOptions>>,
}

/// Files that the proxy names in its metadata.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Certificates {
    pub(crate) chain: String,
    pub(crate) key: String,
    pub(crate) root: String,
}

impl ClusterClient {
    /// What of a proxy they depend on.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let settings = cx.settings();
        let text = |key: &str| proxy.text(key).unwrap_or_default().into_owned();
        let chain = text("TLS_CLIENT_CERT_CHAIN");
        let certificates = (!chain.is_empty()).then(|| {
            Arc::new(Certificates {
                chain,
                key: text("TLS_CLIENT_KEY"),
                root: text("TLS_CLIENT_ROOT_CERT"),
            })
        });
        let capabilities = Capabilities::of(proxy);
        let metadata_exchange =
            settings.features.metadata_exchange && capabilities.metadata_exchange;
        Self {
            role: proxy.node.role,
            families: proxy.families(),
            keep_header_case: keeps_header_case(proxy, settings),
            certificates,
            certificate: capabilities.certificates,
            tunnels: settings.features.sending_hbone
                && capabilities.certificates == CertificateSource::Agent,
            metadata_exchange,
            peer_alpn: metadata_exchange && !settings.features.disable_mx_alpn,
            cares: Loadable::of(proxy).has(CARES),
            credential_socket: proxy.text("credential").as_deref() == Some("true"),
            file_credential_socket: proxy.text("file-credential").as_deref() == Some("true"),
            options: UpstreamOptions::of(cx, proxy),
        }
    }

    /// The side of the proxy on which its clusters of services are.
    pub(crate) fn context(&self) -> Context {
        match self.role {
            Role::Router => Context::Gateway,
            _ => Context::SidecarOutbound,
        }
    }

    pub(crate) fn is_sidecar(&self) -> bool {
        self.role == Role::Sidecar
    }
}

/// Istio: pilot/pkg/networking/core/cluster_builder.go shouldPreserveHeaderCase, 1.32.
fn keeps_header_case(proxy: &Traits<'_>, settings: &Settings) -> bool {
    let config = proxy_config(proxy, &settings.mesh);
    let headers = config.proxy_headers.as_ref();
    headers.and_then(|h| h.preserve_http1_header_case) == Some(true)
}
