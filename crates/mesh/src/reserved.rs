//! Ports that proxies listen on themselves, which no listener of configuration may take.
//!
//! A listener that configuration asks for and one of the proxy's own cannot have one address: Envoy refuses the one that
//! comes later, and that may be the listener that takes all traffic. Those of every proxy are in one table
//! ([`OWN_PORTS`](model::own_port::OWN_PORTS)); further ones are as the proxy and the mesh say.
//!
//! Istio: pilot/pkg/model/context.go conflictWithReservedListener, 1.32, which looks at the address that is stated, not at
//! the one that is bound, and at no ports but those that the proxy states and those of redirected traffic.

use std::net::IpAddr;

use model::own_port::own_port;
use model::service::Port;

use crate::proxy::Traits;

/// The metadata by which a proxy says where its admin page is.
const ADMIN_PORT: &str = "PILOTHOUSE_ADMIN_PORT";

/// Ports that a proxy listens on besides those of every proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reserved {
    /// Ports of the bootstrap: status and metrics.
    pub statics: Vec<u16>,
    /// The port of the admin page.
    pub admin: Option<u16>,
    /// Ports of the listeners that take redirected traffic, outbound and inbound.
    pub virtuals: Option<[u16; 2]>,
    /// Whether the proxy may not bind ports below 1024.
    pub unprivileged: bool,
}

impl Reserved {
    /// What the proxy states; `virtuals` where traffic is redirected to it.
    pub fn of(proxy: &Traits<'_>, virtuals: Option<[u16; 2]>) -> Self {
        let keys = [
            "ENVOY_STATUS_PORT",
            "ENVOY_PROMETHEUS_PORT",
            "ENVOY_SECURE_METRICS_PORT",
            "ENVOY_SECURE_MERGED_METRICS_PORT",
        ];
        Self {
            statics: keys.iter().filter_map(|key| proxy.port(key)).collect(),
            admin: proxy.port(ADMIN_PORT),
            virtuals,
            unprivileged: proxy.flag("UNPRIVILEGED_POD"),
        }
    }

    /// What the proxy has on a port.
    pub fn holder(&self, port: u16) -> Option<&'static str> {
        if let Some(own) = own_port(port) {
            return Some(own.holder);
        }
        if self.admin == Some(port) {
            return Some("Envoy admin");
        }
        let [outbound, inbound] = self.virtuals.unwrap_or_default();
        match port {
            0 => None,
            port if port == outbound => Some("outbound traffic capture"),
            port if port == inbound => Some("inbound traffic capture"),
            port => self
                .statics
                .contains(&port)
                .then_some("Envoy health or metrics"),
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
        !(binds_port || everywhere) || self.holder(port.number).is_none()
    }

    /// Whether a listener that binds an address, as it was decided, would stand in the way of one of the proxy's own: it
    /// takes all addresses, or the port itself.
    pub fn is_taken(&self, binds_port: bool, bind: &str, port: u16) -> bool {
        (binds_port || is_everywhere(bind)) && self.holder(port).is_some()
    }

    /// Like [`Reserved::can_bind`], for a listener that a Sidecar lists: unless it binds its port itself, it is a part of the
    /// listener that takes redirected traffic.
    pub fn can_bind_listed(&self, binds_port: bool, bind: &str, port: &Port) -> bool {
        let everywhere = match bind {
            "" => port.protocol.is_http(),
            bind => is_everywhere(bind),
        };
        match binds_port {
            true => self.can_bind(true, bind, port),
            false => !everywhere || !self.statics.contains(&port.number),
        }
    }

    /// Whether the listener that takes redirected traffic may have chains for a port of the workload.
    pub fn can_serve(&self, port: u16) -> bool {
        let redirected = self.virtuals.unwrap_or_default().contains(&port);
        !redirected && !self.statics.contains(&port)
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

    fn reserved() -> Reserved {
        Reserved {
            statics: vec![16021, 16090],
            admin: Some(9901),
            virtuals: Some([16001, 16006]),
            unprivileged: false,
        }
    }

    #[test]
    fn no_listener_of_configuration_takes_all_addresses_on_a_port_of_the_proxy() {
        for (bind, port, taken) in [
            ("0.0.0.0", 16006, true),
            ("0.0.0.0", 16001, true),
            ("::", 16006, true),
            ("0:0:0:0:0:0:0:0", 16001, true),
            ("::ffff:0.0.0.0", 16006, true),
            ("0.0.0.0", 16090, true),
            ("0.0.0.0", 9901, true),
            ("0.0.0.0", 15000, true),
            ("0.0.0.0", 15053, true),
            ("0.0.0.0", 15007, false),
            ("10.0.0.1", 16006, false),
            ("10.0.0.1", 15021, false),
            ("unix:///var/run/a", 16006, false),
            ("unix:///var/run/a", 0, false),
        ] {
            let reserved = reserved();
            assert_eq!(reserved.is_taken(false, bind, port), taken, "{bind} {port}");
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
            }
        }
    }

    #[test]
    fn whoever_binds_a_port_itself_takes_none_of_the_proxy_at_any_address() {
        for (number, taken) in [
            (15000, true),
            (15001, true),
            (15004, true),
            (15006, true),
            (15008, true),
            (15020, true),
            (15021, true),
            (15053, true),
            (15090, true),
            (16021, true),
            (16001, true),
            (9901, true),
            (15007, false),
            (0, false),
        ] {
            for bind in ["0.0.0.0", "127.0.0.1", "10.0.0.1", "::1"] {
                let port = Port {
                    name: Arc::from("p"),
                    number,
                    protocol: Protocol::Tcp,
                };
                let reserved = reserved();
                assert_eq!(
                    reserved.is_taken(true, bind, number),
                    taken,
                    "{bind} {number}"
                );
                assert_eq!(
                    reserved.can_bind(true, bind, &port),
                    !taken,
                    "{bind} {number}"
                );
                let listed = reserved.can_bind_listed(true, bind, &port);
                assert_eq!(listed, !taken, "{bind} {number}");
                // A part of the listener that takes redirected traffic.
                assert!(reserved.can_bind_listed(false, "10.0.0.1", &port));
            }
        }
    }
}
