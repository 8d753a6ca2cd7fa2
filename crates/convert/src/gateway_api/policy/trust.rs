//! How certificates of backends are checked.

use model::kinds::gateway_api::{BackendValidation, LocalObjectRef, SubjectAltNameType};
use model::kinds::kube::ConfigMap;
use model::x509::check_roots;
use model::{Kind, Namespace, ObjectKey, ObjectName};
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The credential that nobody has: connections fail.
const NO_ROOTS: &str = "invalid://";

/// How the certificate of a backend is checked.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct Trust {
    /// The settings of a DestinationRule.
    pub settings: ClientTlsSettings,
    /// The object that holds the roots.
    pub roots: Option<ObjectKey>,
    /// Why no certificate can be checked.
    pub fault: Option<TrustFault>,
    /// Whether roots are listed that are not used.
    pub has_more: bool,
}

/// Why no certificate can be checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct TrustFault {
    /// The reason of the condition `Accepted`.
    pub accepted: &'static str,
    /// The reason of the condition `ResolvedRefs`, if references are what is wrong.
    pub resolved: Option<&'static str>,
    /// For people.
    pub message: String,
}

/// What a validation in a namespace asks for. Where roots cannot be had, nobody is trusted.
///
/// Istio: getBackendTLSCredentialName. There an unknown set of roots means those of the system.
pub(in super::super) fn trust(
    read: &Reader<'_, '_, Routes>,
    namespace: &Namespace,
    validation: &BackendValidation,
) -> Trust {
    let names = validation.subject_alt_names.iter();
    let names = names.filter_map(|name| match name.name_type {
        SubjectAltNameType::Hostname => name.hostname.as_deref(),
        SubjectAltNameType::Uri => name.uri.as_deref(),
    });
    let settings = ClientTlsSettings {
        mode: TlSmode::Simple.into(),
        sni: validation.hostname.to_string(),
        subject_alt_names: names.map(str::to_owned).collect(),
        ..ClientTlsSettings::default()
    };
    let mut trust = Trust {
        settings,
        roots: None,
        fault: None,
        has_more: validation.ca_certificate_refs.len() > 1,
    };
    let found = match (
        validation.well_known_ca_certificates.as_deref(),
        validation.ca_certificate_refs.first(),
    ) {
        (Some("System"), _) | (None, None) => return trust,
        (Some(set), _) => Err(TrustFault {
            accepted: "Invalid",
            resolved: None,
            message: format!("wellKnownCACertificates is {set:?}; only \"System\" is known"),
        }),
        (None, Some(reference)) => roots(read, namespace, reference),
    };
    match found {
        Ok(map) => {
            trust.settings.credential_name = format!("configmap://{}/{}", map.namespace, map.name);
            trust.roots = Some(ObjectKey {
                kind: Kind::ConfigMap,
                name: map,
            });
        }
        Err(fault) => {
            trust.settings.credential_name = NO_ROOTS.to_owned();
            trust.fault = Some(fault);
        }
    }
    trust
}

/// The ConfigMap that holds roots.
fn roots(
    read: &Reader<'_, '_, Routes>,
    namespace: &Namespace,
    reference: &LocalObjectRef,
) -> Result<ObjectName, TrustFault> {
    let fault = |reason, message| TrustFault {
        accepted: "NoValidCACertificate",
        resolved: Some(reason),
        message,
    };
    if Kind::find(&reference.group, &reference.kind) != Some(Kind::ConfigMap) {
        let kind = &reference.kind;
        return Err(fault(
            "InvalidKind",
            format!("caCertificateRefs names a {kind}; only ConfigMaps are read"),
        ));
    }
    let name = ObjectName::new(namespace.clone(), reference.name.clone());
    match read.derived(RootsIn(name.clone())).as_ref() {
        Ok(()) => Ok(name),
        Err(wrong) => Err(fault(
            "InvalidCACertificateRef",
            format!("ConfigMap {name} {wrong}"),
        )),
    }
}

/// Whether a ConfigMap holds roots; if not, what is wrong, as the end of a sentence about it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RootsIn(ObjectName);

impl Derive for RootsIn {
    type Stratum = Routes;
    type Value = Result<(), &'static str>;

    /// Istio: pilot/pkg/credentials/kube/secrets.go ExtractRoot, 1.32, which takes any text for roots.
    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let map = read.get::<ConfigMap>(&self.0).ok_or("is not there")?;
        let value = |key: &str| map.spec.data.get(key).filter(|text| !text.is_empty());
        let generic = value("cacert").map(|roots| (roots, map.spec.data.get("crl")));
        let for_tls = || Some((value("ca.crt")?, map.spec.data.get("ca.crl")));
        let (roots, revoked) = generic
            .or_else(for_tls)
            .ok_or("has nothing under the key ca.crt")?;
        let revoked = revoked.map(|text| text.as_bytes());
        check_roots(roots.as_bytes(), revoked).map_err(|fault| fault.message())
    }
}
