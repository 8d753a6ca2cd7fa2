//! XBackend: a host outside of the cluster.

use std::sync::Arc;

use model::derived::GatewayRole;
use model::host::canonical;
use model::kinds::gateway_api::{
    BackendValidation, XBackend, XBackendProtocol, XBackendTlsMode, XBackendType,
};
use model::kinds::istio::ServiceEntry;
use model::{Kind, Object, ObjectKey, ObjectName};
use proto_istio::networking::service_entry::{Location, Resolution};
use proto_istio::networking::{ServicePort, TrafficPolicy};

use super::{Trust, port_settings, rule, trust};
use crate::gateway_api::{INFIX, derived};
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::{Before, Routes, Services, Written};

/// The ServiceEntry of an XBackend.
///
/// Istio: pilot/pkg/serviceregistry/serviceentry/gateway.go, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServiceOfXBackend(pub ObjectName);

impl Derive for ServiceOfXBackend {
    type Stratum = Services;
    type Value = Outcome<Services>;

    fn derive(&self, read: &Reader<'_, '_, Services>) -> Outcome<Services> {
        let Some((backend, Ok(host))) = in_force(read, &self.0) else {
            return Outcome::default();
        };
        let protocol = match backend.spec.protocol {
            Some(XBackendProtocol::Tcp) => "TCP",
            Some(XBackendProtocol::Http2 | XBackendProtocol::H2c) => "HTTP2",
            None
            | Some(XBackendProtocol::Http | XBackendProtocol::Http11 | XBackendProtocol::Mcp) => {
                "HTTP"
            }
        };
        let entry = ServiceEntry {
            hosts: vec![host.to_string()],
            ports: vec![ServicePort {
                number: backend.spec.port.port.into(),
                protocol: protocol.to_owned(),
                name: protocol.to_owned(),
                ..ServicePort::default()
            }],
            location: Location::MeshExternal.into(),
            resolution: Resolution::Dns.into(),
            ..ServiceEntry::default()
        };
        let name = format!("{}~{INFIX}", self.0.name);
        let name = ObjectName::new(self.0.namespace.clone(), name);
        let derived = derived([key(&self.0)], GatewayRole::default());
        let mut entry = object(name, derived, entry);
        // Of services with one host the oldest counts.
        entry.meta.created = backend.meta.created;
        Outcome {
            objects: vec![Made::new(entry)],
            ..Outcome::default()
        }
    }
}

/// The DestinationRule of an XBackend that is spoken to with TLS.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RuleOfXBackend(pub ObjectName);

impl Derive for RuleOfXBackend {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let Some((backend, Ok(host))) = in_force(read, &self.0) else {
            return Outcome::default();
        };
        let Ok(Some(trust)) = tls_of_xbackend(read, &backend, &host) else {
            return Outcome::default();
        };
        let key = key(&self.0);
        let from = std::iter::once(key.clone()).chain(trust.roots).collect();
        // Others may be there for the same host, on other ports.
        let number = backend.spec.port.port.into();
        let policy = TrafficPolicy {
            port_level_settings: vec![port_settings(number, trust.settings)],
            ..TrafficPolicy::default()
        };
        Outcome {
            objects: vec![Made::new(rule(&key, &host, from, policy))],
            ..Outcome::default()
        }
    }
}

fn key(name: &ObjectName) -> ObjectKey {
    ObjectKey {
        kind: Kind::XBackend,
        name: name.clone(),
    }
}

/// An XBackend, if such are read at all, with its host, or why it cannot be used.
#[expect(
    clippy::type_complexity,
    reason = "both parts are of use to each caller"
)]
pub(in super::super) fn in_force<S>(
    read: &Reader<'_, '_, S>,
    name: &ObjectName,
) -> Option<(Arc<Object<XBackend>>, Result<Arc<str>, String>)>
where
    S: std::fmt::Debug + Send + Sync + 'static,
    Written: Before<S>,
{
    let settings = read.settings();
    if !settings.features.gateway_api || !settings.features.alpha_gateway_api {
        return None;
    }
    let backend = read.get::<XBackend>(name)?;
    let XBackendType::ExternalHostname = backend.spec.backend_type;
    let Some(external) = &backend.spec.external_hostname else {
        return Some((backend, Err("externalHostname is missing".to_owned())));
    };
    let host: Arc<str> = canonical(&external.hostname).into();
    let own = [&*settings.domain, "clusterset.local"];
    let is_own = own
        .iter()
        .any(|domain| host.ends_with(&format!(".svc.{domain}")));
    let host = match is_own {
        false => Ok(host),
        true => Err(format!("{host} is the name of a service of the cluster")),
    };
    Some((backend, host))
}

/// How the certificate of an XBackend is checked; `None` where it is not spoken to with TLS, an error where it cannot be
/// spoken to as it says.
pub(in super::super) fn tls_of_xbackend(
    read: &Reader<'_, '_, Routes>,
    backend: &Object<XBackend>,
    host: &Arc<str>,
) -> Result<Option<Trust>, String> {
    let Some(tls) = &backend.spec.tls else {
        return Ok(None);
    };
    match tls.mode {
        XBackendTlsMode::None => return Ok(None),
        XBackendTlsMode::ServerOnly => {}
        XBackendTlsMode::ClientAndServer => {
            return Err("TLS of the mode ClientAndServer is not supported".to_owned());
        }
    }
    let mut validation = tls.validation.clone().unwrap_or(BackendValidation {
        ca_certificate_refs: Vec::new(),
        well_known_ca_certificates: None,
        hostname: host.clone(),
        subject_alt_names: Vec::new(),
    });
    if validation.hostname.is_empty() {
        validation.hostname = host.clone();
    }
    Ok(Some(trust(read, backend.namespace(), &validation)))
}
