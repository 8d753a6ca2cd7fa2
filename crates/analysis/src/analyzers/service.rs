//! Services.

use incr::Cx;
use model::Object;
use model::kinds::kube::Service;
use model::protocol::Protocol;
use store::Snapshot;

use super::deployment::is_control_plane;
use crate::code;
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/service/portname.go, 1.32.
pub(crate) fn port_names(_: &Cx<'_, Snapshot>, service: &Object<Service>, report: &mut Report<'_>) {
    const BY_US: [&str; 3] = [
        "istio.io-gateway-controller",
        "istio.io-mesh-controller",
        "istio.io-eastwest-controller",
    ];
    let managed = service.meta.labels.get("gateway.istio.io/managed");
    if is_control_plane(&service.meta) || managed.is_some_and(|m| BY_US.contains(&m)) {
        return;
    }
    let external = &*service.spec.service_type == "ExternalName";
    for (i, port) in service.spec.ports.iter().enumerate() {
        let app = port.app_protocol.as_deref();
        let protocol = Protocol::of_kube_port(port.port, &port.name, &port.protocol, app);
        let known = !protocol.is_unsupported();
        if known && !(external && &*port.name == "tcp") {
            continue;
        }
        let path = format!("spec.ports[{i}].port");
        const HELP: &str = "begin the name with what the port speaks, as in http-web, grpc-api, https or tcp-db, or set appProtocol";
        if external {
            report
                .add(
                    service,
                    &code::EXTERNAL_NAME_PORT,
                    path,
                    format!(
                        "port {} of an ExternalName service does not say what it speaks: as TCP it would take every address",
                        port.port
                    ),
                )
                .help(HELP);
        } else {
            report
                .add(
                    service,
                    &code::PORT_NAME,
                    path,
                    format!(
                        "the name {:?} of port {} does not say what it speaks, which is then found out by looking at the first bytes",
                        port.name, port.port
                    ),
                )
                .help(HELP);
        }
    }
}
