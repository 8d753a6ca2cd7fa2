//! The server of xDS.

use std::sync::Arc;

use anyhow::Context;

use crate::config::ServeOptions;
use crate::http::Pages;
use crate::issuing::{self, Issuing};
use crate::registration::Registration;
use crate::secure::Trust;
use crate::streams::Proxies;

/// The server of xDS, with what else is served on its ports.
pub(super) fn server(
    options: &ServeOptions,
    trust: &Trust,
    pages: &Pages,
    registration: &Registration,
) -> anyhow::Result<ads::server::Server> {
    let proxies = proxies(options, trust, pages, registration);
    let accounts = &options.secure.ca_trusted_node_accounts;
    let issuing = Issuing::new(
        trust.clone(),
        accounts.iter().cloned().collect(),
        pages.derive.clone(),
        pages.metrics.clone(),
    );
    let server = ads::server::Server::new(Arc::new(proxies), options_of(options))
        .context("cannot start the threads that serve proxies")?;
    Ok(server.mount(issuing::SERVICE, Arc::new(issuing)))
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
        registration: registration.clone(),
        test_identities: options.insecure_test_identities,
        own: options.own_proxies.clone(),
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
        drain_timeout: options.shutdown_duration,
        threads: options.xds_threads,
        pin_threads: options.pin_xds_threads,
        ..ads::server::Options::default()
    }
}
