//! What readers of Nacos and ZooKeeper are told, from an entry of McpBridge.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use model::kinds::higress::Registry as Stated;

use super::{Credentials, Fault};
use crate::address::Address;
use crate::{nacos, zookeeper};
use model::redacted::Redacted;

/// The servers that `domain` lists, with commas, each checked.
pub(super) fn servers(stated: &Stated, port: u16) -> Result<Vec<Arc<str>>, Fault> {
    let names = stated.domain.split(',').map(|name| {
        let name = name.trim();
        let wrong = || Fault::new("domain", format!("{name:?} is no address of a server"));
        Address::parse(name, port).ok_or_else(wrong)?;
        Ok(Arc::from(name))
    });
    names.collect()
}

/// How a Nacos is read.
pub(super) fn nacos(stated: &Stated, credentials: &Credentials) -> nacos::Options {
    let address_server = &stated.nacos_address_server;
    let stated_key = || {
        let (id, secret) = (&stated.nacos_access_key, &*stated.nacos_secret_key);
        (!id.is_empty()).then(|| (id.clone(), Redacted::new(secret)))
    };
    let defaults = nacos::Options::default();
    let mut groups = stated.nacos_groups.clone();
    if super::open::reads_mcp(stated) {
        // The services of servers of MCP are read as well.
        if groups.is_empty() {
            groups.push(nacos::DEFAULT_GROUP.into());
        }
        groups.push(nacos::mcp::ENDPOINTS.into());
        groups.dedup();
    }
    let refresh = u64::try_from(stated.nacos_refresh_interval).unwrap_or(0);
    nacos::Options {
        servers: servers(stated, nacos::PORT).unwrap_or_default(),
        address_server: (!address_server.is_empty()).then(|| address_server.clone()),
        port: super::port(stated.port).unwrap_or(0),
        namespace_id: stated.nacos_namespace_id.clone(),
        namespace: stated.nacos_namespace.clone(),
        groups,
        refresh: match refresh {
            0 => defaults.refresh,
            nanoseconds => Duration::from_nanos(nanoseconds),
        },
        credentials: nacos::Credentials {
            user: user(credentials, "nacosUsername", "nacosPassword"),
            key: user(credentials, "nacosAccessKey", "nacosSecretKey").or_else(stated_key),
        },
    }
}

/// How a ZooKeeper is read.
pub(super) fn zookeeper(stated: &Stated, credentials: &Credentials) -> zookeeper::Options {
    zookeeper::Options {
        servers: servers(stated, zookeeper::PORT).unwrap_or_default(),
        port: super::port(stated.port).unwrap_or(0),
        paths: stated.zk_services_path.clone(),
        user: user(credentials, "zookeeperUsername", "zookeeperPassword"),
        ..zookeeper::Options::default()
    }
}

/// A user and a password for Eureka, encoded.
pub(super) fn basic(credentials: &Credentials) -> Option<Redacted> {
    let (name, password) = user(credentials, "eurekaUsername", "eurekaPassword")?;
    let pair = format!("{name}:{}", password.reveal());
    Some(Redacted::new(BASE64_STANDARD.encode(pair)))
}

fn user(credentials: &Credentials, name: &str, password: &str) -> Option<(Arc<str>, Redacted)> {
    let name = credentials.0.get(name)?.reveal().into();
    let password = credentials.0.get(password).cloned();
    Some((name, password.unwrap_or_else(|| Redacted::new(""))))
}
