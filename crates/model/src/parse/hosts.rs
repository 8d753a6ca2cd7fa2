//! The hosts of Istio's kinds, brought to one form where objects are read.
//!
//! Whatever letters a host is written in, and whether a dot ends it, it is one host: to DNS, to Envoy, and so to whoever decides
//! whose it is. Behind reading all texts of a host are equal ([`canonical`](crate::host::canonical)), and nothing has to fold them.
//! Addresses and names that proxies look up stay as they are written.

use std::borrow::Cow;

use proto_istio::networking::envoy_filter::envoy_config_object_match::ObjectTypes;

use crate::host::canonical;
use crate::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, Gateway, PeerAuthentication, ProxyConfig,
    RequestAuthentication, ServiceEntry, ServiceEntryStatus, Sidecar, Telemetry, TrafficExtension,
    VirtualService, WasmPlugin, WorkloadEntry, WorkloadGroup, each_host,
};

/// A spec or status that may name hosts.
pub(super) trait Hosts {
    /// Calls `each` with every host that it names.
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        let _ = each;
    }

    /// Brings its hosts to the form in which they are compared.
    fn canonicalize(&mut self) {
        self.each(&mut |host| {
            // A namespace may stand before the host.
            let at = host.find('/').map_or(0, |slash| slash + 1);
            let (namespace, name) = host.split_at(at);
            match canonical(name) {
                Cow::Borrowed(same) if same.len() == name.len() => {}
                other => *host = format!("{namespace}{other}"),
            }
        });
    }
}

impl Hosts for ServiceEntry {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.hosts.iter_mut().for_each(each);
    }
}

impl Hosts for ServiceEntryStatus {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        self.addresses.iter_mut().for_each(|a| each(&mut a.host));
    }
}

impl Hosts for VirtualService {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        each_host(self, each);
        let matches = self.tls.iter_mut().flat_map(|tls| &mut tls.r#match);
        matches.flat_map(|m| &mut m.sni_hosts).for_each(each);
    }
}

impl Hosts for DestinationRule {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        each(&mut self.host);
    }
}

impl Hosts for Gateway {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        let servers = self.servers.iter_mut();
        servers.flat_map(|s| &mut s.hosts).for_each(each);
    }
}

impl Hosts for Sidecar {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        let egress = self.egress.iter_mut();
        egress.flat_map(|e| &mut e.hosts).for_each(&mut *each);
        let policy = self.outbound_traffic_policy.as_mut();
        if let Some(proxy) = policy.and_then(|policy| policy.egress_proxy.as_mut()) {
            each(&mut proxy.host);
        }
    }
}

impl Hosts for EnvoyFilter {
    fn each(&mut self, each: &mut dyn FnMut(&mut String)) {
        let matches = self
            .config_patches
            .iter_mut()
            .filter_map(|p| p.r#match.as_mut());
        for found in matches {
            if let Some(ObjectTypes::Cluster(cluster)) = &mut found.object_types {
                each(&mut cluster.service);
            }
        }
    }
}

macro_rules! no_hosts {
    ($($kind:ty),* $(,)?) => {$( impl Hosts for $kind {} )*};
}

no_hosts!(
    AuthorizationPolicy,
    PeerAuthentication,
    ProxyConfig,
    RequestAuthentication,
    Telemetry,
    TrafficExtension,
    WasmPlugin,
    WorkloadEntry,
    WorkloadGroup,
);
