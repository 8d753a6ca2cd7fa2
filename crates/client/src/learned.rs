//! What resources lead to: assignments of clusters, routes of listeners, and secrets and extensions of both.
//!
//! Learned once per distinct resource and shared by all proxies of the process, as are names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::{ConfigSource, TransportSocket, transport_socket};
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, Listener};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpConnectionManager, http_filter};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, UpstreamTlsContext,
};
use rustc_hash::{FxHashMap, FxHashSet};
use xds::TypeUrl;
use xxhash_rust::xxh3::xxh3_64;

/// What one resource leads to.
pub(crate) type Leads = Arc<[(TypeUrl, Arc<str>)]>;

/// Shared by all proxies.
#[derive(Debug, Default)]
pub(crate) struct Learned(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    names: FxHashSet<Arc<str>>,
    leads: FxHashMap<u64, Leads>,
}

impl Learned {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shared copy of a name.
    pub(crate) fn name(&self, bytes: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(bytes);
        let mut tables = self.tables();
        if let Some(name) = tables.names.get(&*text) {
            return Arc::clone(name);
        }
        let name: Arc<str> = text.into();
        tables.names.insert(Arc::clone(&name));
        name
    }

    /// What a resource leads to. One that cannot be decoded leads nowhere.
    pub(crate) fn leads(&self, ty: TypeUrl, body: &[u8]) -> Leads {
        let key = xxh3_64(body);
        if let Some(found) = self.tables().leads.get(&key) {
            return Arc::clone(found);
        }
        let mut found = BTreeSet::new();
        match ty {
            TypeUrl::Cluster => {
                if let Ok(cluster) = Cluster::decode(body) {
                    of_cluster(&cluster, &mut found);
                }
            }
            TypeUrl::Listener => {
                if let Ok(listener) = Listener::decode(body) {
                    of_listener(&listener, &mut found);
                }
            }
            _ => {}
        }
        let found: Leads = found
            .into_iter()
            .map(|(ty, name)| (ty, self.name(name.as_bytes())))
            .collect();
        Arc::clone(self.tables().leads.entry(key).or_insert(found))
    }
}

type Found = BTreeSet<(TypeUrl, String)>;

fn of_cluster(cluster: &Cluster, found: &mut Found) {
    let eds = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32));
    if cluster.cluster_discovery_type == eds {
        let service = cluster
            .eds_cluster_config
            .as_ref()
            .map_or("", |c| &c.service_name);
        let name = if service.is_empty() {
            &cluster.name
        } else {
            service
        };
        found.insert((TypeUrl::Endpoint, name.to_owned()));
    }
    let matches = cluster
        .transport_socket_matches
        .iter()
        .filter_map(|m| m.transport_socket.as_ref());
    for socket in matches.chain(&cluster.transport_socket) {
        if let Some(tls) = typed::<UpstreamTlsContext>(socket, "UpstreamTlsContext") {
            of_tls(tls.common_tls_context.as_ref(), found);
        }
    }
}

fn of_listener(listener: &Listener, found: &mut Found) {
    for chain in listener
        .filter_chains
        .iter()
        .chain(&listener.default_filter_chain)
    {
        chain.filters.iter().for_each(|f| of_filter(f, found));
        if let Some(socket) = &chain.transport_socket
            && let Some(tls) = typed::<DownstreamTlsContext>(socket, "DownstreamTlsContext")
        {
            of_tls(tls.common_tls_context.as_ref(), found);
        }
    }
}

fn of_filter(filter: &Filter, found: &mut Found) {
    match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) if any.type_url.ends_with(".HttpConnectionManager") => {
            let Ok(manager) = HttpConnectionManager::decode(&any.value[..]) else {
                return;
            };
            if let Some(RouteSpecifier::Rds(rds)) = &manager.route_specifier
                && from_ads(rds.config_source.as_ref())
            {
                found.insert((TypeUrl::Route, rds.route_config_name.clone()));
            }
            for http in &manager.http_filters {
                if let Some(http_filter::ConfigType::ConfigDiscovery(source)) = &http.config_type
                    && from_ads(source.config_source.as_ref())
                {
                    found.insert((TypeUrl::Extension, http.name.clone()));
                }
            }
        }
        Some(ConfigType::ConfigDiscovery(source)) if from_ads(source.config_source.as_ref()) => {
            found.insert((TypeUrl::Extension, filter.name.clone()));
        }
        _ => {}
    }
}

fn of_tls(tls: Option<&CommonTlsContext>, found: &mut Found) {
    let Some(tls) = tls else { return };
    let validation = match &tls.validation_context_type {
        Some(ValidationContextType::ValidationContextSdsSecretConfig(sds)) => Some(sds),
        Some(ValidationContextType::CombinedValidationContext(both)) => {
            both.validation_context_sds_secret_config.as_ref()
        }
        _ => None,
    };
    let all = tls
        .tls_certificate_sds_secret_configs
        .iter()
        .chain(validation);
    for SdsSecretConfig { name, .. } in all.filter(|s| from_ads(s.sds_config.as_ref())) {
        found.insert((TypeUrl::Secret, name.clone()));
    }
}

fn from_ads(source: Option<&ConfigSource>) -> bool {
    matches!(
        source.and_then(|s| s.config_source_specifier.as_ref()),
        Some(ConfigSourceSpecifier::Ads(_))
    )
}

fn typed<M: Message + Default>(socket: &TransportSocket, message: &str) -> Option<M> {
    let transport_socket::ConfigType::TypedConfig(any) = socket.config_type.as_ref()?;
    let matches = any.type_url.rsplit('.').next() == Some(message);
    if matches {
        M::decode(&any.value[..]).ok()
    } else {
        None
    }
}
