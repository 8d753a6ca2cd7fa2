//! `InferencePool` of the Gateway API's inference extension.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deployed::{NAME_LENGTH, short_hash};
use super::reference::{core, service};
use crate::host::Hostname;
use crate::kinds::Kind;
use crate::kinds::kube::{self, IntOrString, ServicePort};
use crate::labels::Labels;
use crate::names::Name;
use crate::object::{Object, ObjectName};

/// The ports of the Service of a pool, from this one on, stand for its target ports.
pub const FIRST_POOL_PORT: u16 = 54_321;
/// How many target ports a pool may have; further ones do not count.
const MOST_PORTS: usize = 8;
/// What stands before the hash in the name of a pool's Service.
const INFIX: &str = "-ip-";

/// The label of Services that says how they are meant, where that is not as other Services.
pub const SEMANTICS_LABEL: &str = "internal.istio.io/service-semantics";
/// The value of [`SEMANTICS_LABEL`] for Services of pools.
pub const POOL_SEMANTICS: &str = "inferencepool";
/// The label of a pool's Service that names the pool.
pub const POOL_LABEL: &str = "istio.io/inferencepool-name";
/// The label of a pool's Service that names the Service of its endpoint picker.
pub const PICKER_LABEL: &str = "istio.io/inferencepool-extension-service";
/// The label of a pool's Service with the port of its endpoint picker.
pub const PICKER_PORT_LABEL: &str = "istio.io/inferencepool-extension-port";
/// The label of a pool's Service that says what happens without the picker.
pub const FAILURE_MODE_LABEL: &str = "istio.io/inferencepool-extension-failure-mode";

/// Pods that serve models, one of which an endpoint picker chooses for each request.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InferencePool {
    /// Which Pods of the pool's namespace belong to it.
    pub selector: PoolSelector,
    /// The ports of these Pods; each is an endpoint of its own.
    pub target_ports: Vec<TargetPort>,
    /// What they speak.
    #[serde(default)]
    pub app_protocol: PoolProtocol,
    /// Who chooses.
    pub endpoint_picker_ref: EndpointPickerRef,
}

/// Pods by their labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSelector {
    /// Labels that must be there with this value.
    pub match_labels: Labels,
}

/// A port of the Pods of a pool.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetPort {
    /// Its number.
    pub number: u16,
}

/// What the Pods of a pool speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
pub enum PoolProtocol {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http")]
    Http,
    /// HTTP/2 without TLS.
    #[serde(rename = "kubernetes.io/h2c")]
    H2c,
}

/// The endpoint picker of a pool: a server of Envoy's `ext_proc`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointPickerRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Service`.
    #[serde(default = "service")]
    pub kind: Arc<str>,
    /// Name, in the namespace of the pool.
    pub name: Arc<str>,
    /// Port; needed for a Service.
    pub port: Option<TargetPort>,
    /// What happens to requests while it does not answer.
    #[serde(default)]
    pub failure_mode: PickerFailureMode,
}

/// What happens to requests while the endpoint picker does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
pub enum PickerFailureMode {
    /// They go to any endpoint.
    FailOpen,
    /// They are refused.
    #[default]
    FailClose,
}

impl PickerFailureMode {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::FailOpen => "FailOpen",
            Self::FailClose => "FailClose",
        }
    }
}

impl EndpointPickerRef {
    /// Whether it names a Service of the core group.
    pub fn is_service(&self) -> bool {
        Kind::find(&self.group, &self.kind) == Some(Kind::Service)
    }
}

/// The name of the Service that stands for a pool.
///
/// Istio: pilot/pkg/config/kube/gateway/inferencepool_collection.go InferencePoolServiceName, 1.32.
pub fn pool_service_name(pool: &str) -> Name {
    let hash = short_hash(pool);
    let room = NAME_LENGTH - INFIX.len() - hash.len();
    let base = pool.get(..room).unwrap_or(pool);
    format!("{base}{INFIX}{hash}").into()
}

/// The host under which a pool is a service.
pub fn pool_host(pool: &ObjectName, domain: &str) -> Hostname {
    let service = pool_service_name(&pool.name);
    format!("{service}.{}.svc.{domain}", pool.namespace).into()
}

/// The Service that stands for a pool: headless, with a port for each target port. `None` where the pool names no Service
/// and port as its picker.
///
/// Istio: pilot/pkg/config/kube/gateway/inferencepool_collection.go translateShadowServiceToService, 1.32.
pub fn pool_service(pool: &Object<InferencePool>) -> Option<Object<kube::Service>> {
    let spec = &pool.spec;
    let picker = &spec.endpoint_picker_ref;
    let picker_port = picker.port.as_ref().filter(|_| picker.is_service())?;
    let labels = [
        (POOL_LABEL, &*pool.meta.name.name),
        (PICKER_LABEL, &*picker.name),
        (PICKER_PORT_LABEL, &picker_port.number.to_string()),
        (FAILURE_MODE_LABEL, picker.failure_mode.name()),
        (SEMANTICS_LABEL, POOL_SEMANTICS),
    ];
    let labels = labels.map(|(key, value)| (Arc::from(key), Arc::from(value)));
    let protocol = match spec.app_protocol {
        PoolProtocol::Http => "http",
        PoolProtocol::H2c => "kubernetes.io/h2c",
    };
    let targets = spec.target_ports.iter().take(MOST_PORTS);
    let ports = (FIRST_POOL_PORT..).zip(targets).enumerate();
    let ports = ports.map(|(at, (number, target))| ServicePort {
        name: format!("http-{at}").into(),
        protocol: "TCP".into(),
        app_protocol: Some(protocol.into()),
        port: number.into(),
        target_port: Some(IntOrString::Int(target.number.into())),
        ..ServicePort::default()
    });
    let mut meta = pool.meta.clone();
    meta.name = ObjectName {
        name: pool_service_name(&pool.meta.name.name),
        ..pool.meta.name.clone()
    };
    meta.labels = labels.into_iter().collect();
    meta.annotations = Labels::default();
    Some(Object {
        meta,
        spec: kube::Service {
            cluster_ip: "None".into(),
            selector: spec.selector.match_labels.clone(),
            ports: ports.collect(),
            ..kube::Service::default()
        },
        status: kube::ServiceStatus::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::pool_service_name;

    #[test]
    fn names_of_services_are_labels() {
        assert_eq!(&*pool_service_name("my-ip"), "my-ip-ip-03f70481");
        let long = "a-pool-".repeat(20);
        let name = pool_service_name(&long);
        assert_eq!(name.len(), 63);
        assert_ne!(name, pool_service_name(&long[1..]));
    }
}
