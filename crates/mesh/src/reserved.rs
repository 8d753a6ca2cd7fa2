//! Ports that proxies listen on themselves, which no listener of configuration may take.
//!
//! A listener that configuration asks for and one of the proxy's own cannot have one address: Envoy refuses the one that
//! comes later, and that may be the listener that takes all traffic.
//!
//! Istio: pilot/pkg/model/context.go conflictWithReservedListener, 1.32, which looks at the address that is stated, not at
//! the one that is bound.

use std::net::IpAddr;

use model::service::Port;

use crate::proxy::Traits;

/// Ports that listeners of the proxy's bootstrap hold already.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reserved {
    /// Ports of the bootstrap: status and metrics.
    pub statics: Vec<u16>,
    /// Ports of the listeners that take redirected traffic, outbound and inbound.
    pub virtuals: [u16; 2],
    /// Whether the proxy may not bind ports below 1024.
    pub unprivileged: bool,
}

impl Reserved {
    /// What the proxy states.
    pub fn of(proxy: &Traits<'_>, virtuals: [u16; 2]) -> Self {
        let keys = [
            "ENVOY_STATUS_PORT",
            "ENVOY_PROMETHEUS_PORT",
            "ENVOY_SECURE_METRICS_PORT",
            "ENVOY_SECURE_MERGED_METRICS_PORT",
        ];
        Self {
            statics: keys.iter().filter_map(|key| proxy.port(key)).collect(),
            virtuals,
            unprivileged: proxy.flag("UNPRIVILEGED_POD"),
        }
    }

    /// Whether a listener can be bound to an address (empty: not decided) and a port. Where the address is not decided,
    /// [`Reserved::is_taken`] tells once it is.
    pub fn can_bind(&self, binds_port: bool, bind: &str, port: &Port) -> bool {
        if binds_port && self.unprivileged && (1..1024).contains(&port.number) {
            return false;
        }
        let everywhere = match bind {
            "" => port.protocol.is_http(),
            bind => is_everywhere(bind),
        };
        !everywhere || !self.holds(port.number)
    }

    /// Like [`Reserved::can_bind`], for a listener that a Sidecar lists: unless it binds its port itself, it is a part of the
    /// listener that takes redirected traffic.
    pub fn can_bind_listed(&self, binds_port: bool, bind: &str, port: &Port) -> bool {
        let virtuals = match binds_port {
            true => self.virtuals,
            false => [0; 2],
        };
        let listed = Self {
            virtuals,
            ..self.clone()
        };
        listed.can_bind(binds_port, bind, port)
    }

    /// Whether a listener that binds an address, as it was decided, would stand in the way of one of the proxy's own: it
    /// takes all addresses.
    pub fn is_taken(&self, bind: &str, port: u16) -> bool {
        is_everywhere(bind) && self.holds(port)
    }

    fn holds(&self, port: u16) -> bool {
        self.statics.contains(&port) || self.virtuals.contains(&port)
    }
}

/// Whether an address stands for all.
fn is_everywhere(bind: &str) -> bool {
    bind.parse::<IpAddr>()
        .is_ok_and(|address| address.to_canonical().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::protocol::Protocol;
    use std::sync::Arc;

    #[test]
    fn no_listener_of_configuration_takes_all_addresses_on_a_port_of_the_proxy() {
        let reserved = Reserved {
            statics: vec![15021, 15090],
            virtuals: [15001, 15006],
            unprivileged: false,
        };
        for (bind, port, taken) in [
            ("0.0.0.0", 15006, true),
            ("0.0.0.0", 15001, true),
            ("::", 15006, true),
            ("0:0:0:0:0:0:0:0", 15001, true),
            ("::ffff:0.0.0.0", 15006, true),
            ("0.0.0.0", 15090, true),
            ("0.0.0.0", 15007, false),
            ("10.0.0.1", 15006, false),
            ("unix:///var/run/a", 15006, false),
        ] {
            assert_eq!(reserved.is_taken(bind, port), taken, "{bind} {port}");
            for protocol in [
                Protocol::Tcp,
                Protocol::Tls,
                Protocol::Http,
                Protocol::Unsupported,
            ] {
                let port = Port {
                    name: Arc::from("p"),
                    number: port,
                    protocol,
                };
                assert_eq!(
                    reserved.can_bind(false, bind, &port),
                    !taken,
                    "{bind} {port:?}"
                );
                let listed = reserved.can_bind_listed(true, bind, &port);
                assert_eq!(listed, !taken, "{bind} {port:?}");
            }
        }
    }
}
