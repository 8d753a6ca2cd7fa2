//! The server of xDS.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::core::Core;
use crate::config::ServeOptions;
use crate::debug::over_xds::DebugTypes;
use crate::exporting::ConfigTypes;
use crate::health::{self, Health};
use crate::http::Pages;
use crate::issuing::{self, Issuing};
use crate::reflection::{self, Reflection};
use crate::registration::Registration;
use crate::secure::Trust;
use crate::streams::Proxies;

/// The server of xDS, with what else is served on its ports.
pub(super) fn server(
    options: &ServeOptions,
    trust: &Trust,
    pages: &Arc<Pages>,
    core: &Core,
    stop: &CancellationToken,
) -> anyhow::Result<ads::server::Server> {
    let proxies = proxies(options, trust, pages, &core.registration);
    let accounts = &options.secure.ca_trusted_node_accounts;
    let issuing = Issuing::new(
        trust.clone(),
        accounts.iter().cloned().collect(),
        pages.derive.clone(),
        pages.metrics.clone(),
    );
    let server = ads::server::Server::new(Arc::new(proxies), options_of(options))
        .context("cannot start the threads that serve proxies")?;
    let server = server.extra(Arc::new(DebugTypes::new(options, pages)));
    let (peers, settled) = (options.exporting.clone(), pages.settled.clone());
    let config = ConfigTypes::new(core.exports.clone(), peers, settled);
    let server = server.extra(Arc::new(config));
    let shown = pages.clone();
    let health = Health::new(move || shown.is_ready(), stop.clone());
    let server = server.mount(health::SERVICE, Arc::new(health));
    let server = server.mount(issuing::SERVICE, Arc::new(issuing));
    let reflection = Arc::new(Reflection::new(server.services()));
    let [v1, v1alpha] = reflection::SERVICES;
    let server = server.mount(v1, reflection.clone());
    Ok(server.mount(v1alpha, reflection))
}

/// What streams of proxies are served with.
fn proxies(
    options: &ServeOptions,
    trust: &Trust,
    pages: &Pages,
    registration: &Registration,
) -> Proxies {
    Proxies {
        trust: trust.clone(),
        derive: pages.derive.clone(),
        metrics: pages.metrics.clone(),
        connections: pages.connections.clone(),
        warm: pages.warm.clone(),
        unsupported: Arc::default(),
        unserved: Arc::default(),
        registration: registration.clone(),
        test_identities: options.insecure_test_identities,
        own: options.own_proxies.clone(),
        peers: options.exporting.clone(),
    }
}

fn options_of(options: &ServeOptions) -> ads::server::Options {
    ads::server::Options {
        max_request_bytes: options.max_request_bytes,
        max_connections: options.max_connections,
        max_connections_per_address: options.max_connections_per_address,
        max_partial_bytes: options.max_partial_bytes,
        request_timeout: options.request_timeout,
        max_streams: options.max_streams,
        max_names_memory: options.max_names_memory,
        limits: ads::Limits {
            names_per_type: options.max_names,
            bytes_per_stream: options.max_name_bytes,
            ..ads::Limits::default()
        },
        streams_per_second: (options.max_streams_per_second > 0.0)
            .then_some(options.max_streams_per_second),
        handshakes_per_second: (options.secure.max_handshakes_per_second > 0.0)
            .then_some(options.secure.max_handshakes_per_second),
        keepalive_interval: options.keepalive_interval,
        keepalive_timeout: options.keepalive_timeout,
        max_connection_age: options
            .keepalive_max_server_connection_age
            .filter(|age| !age.is_zero()),
        drain_timeout: options.shutdown_duration,
        threads: options.xds_threads,
        pin_threads: options.pin_xds_threads,
        ..ads::server::Options::default()
    }
}
