//! The ports of the Service of a Gateway.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go extractServicePorts, 1.32.

use std::collections::BTreeSet;

use gotemplate::{IntType, List, Struct, Type, Value};
use model::kinds::gateway_api::Listener;

/// Where proxies say whether they are ready.
const STATUS: (&str, u16) = ("status-port", 15021);
/// The longest name of a port.
const LONGEST_NAME: usize = 63;

/// A port of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) protocol: &'static str,
    pub(super) app_protocol: String,
}

/// A port for each port of the listeners, and one by which the readiness of the proxies is seen.
pub(super) fn ports<'l>(listeners: impl Iterator<Item = &'l Listener>, quic: bool) -> Vec<Port> {
    let mut out = vec![Port {
        name: STATUS.0.to_owned(),
        port: STATUS.1,
        protocol: "TCP",
        app_protocol: "tcp".to_owned(),
    }];
    let mut names = BTreeSet::from([STATUS.0.to_owned()]);
    let mut numbers = BTreeSet::new();
    for (at, listener) in listeners.enumerate() {
        if !numbers.insert(listener.port) {
            continue;
        }
        let app_protocol = listener.protocol.to_lowercase();
        let name = match listener.name.replace('.', "-") {
            name if name.is_empty() => format!("{app_protocol}-{at}"),
            name => name,
        };
        let name = unique(&name, listener.port, &mut names);
        let over_quic = quic && app_protocol == "https";
        let quic_name =
            over_quic.then(|| unique(&format!("{name}-quic"), listener.port, &mut names));
        let protocols = [Some((name, "TCP")), quic_name.map(|name| (name, "UDP"))];
        for (name, protocol) in protocols.into_iter().flatten() {
            out.push(Port {
                name,
                port: listener.port,
                protocol,
                app_protocol: app_protocol.clone(),
            });
        }
    }
    out
}

/// A name that no other port has. A Service with two ports of one name is refused as a whole.
fn unique(name: &str, port: u16, names: &mut BTreeSet<String>) -> String {
    let cut = |most: usize| &name[..name.floor_char_boundary(most)];
    let mut candidate = cut(LONGEST_NAME).to_owned();
    let mut suffix = format!("-{port}");
    while names.contains(&candidate) {
        candidate = format!("{}{suffix}", cut(LONGEST_NAME - suffix.len()));
        suffix.push('x');
    }
    names.insert(candidate.clone());
    candidate
}

/// Ports as templates read them.
pub(super) fn value(ports: &[Port]) -> Value {
    let one = |port: &Port| -> Value {
        let number = |n: u16| Value::Int(n.into(), IntType::Int32);
        Struct::new("v1.ServicePort")
            .field("Name", Value::str(&port.name))
            .field(
                "Protocol",
                Value::named("v1.Protocol", Value::str(port.protocol), None),
            )
            .field(
                "AppProtocol",
                Value::pointer(Type::String, Some(Value::str(&port.app_protocol))),
            )
            .field("Port", number(port.port))
            .field("NodePort", number(0))
            .into()
    };
    let ports = ports.iter().map(one).collect();
    Value::List(List::new(Type::Named("v1.ServicePort".into()), ports))
}
