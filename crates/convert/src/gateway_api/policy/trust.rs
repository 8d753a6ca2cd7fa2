//! How certificates of backends are checked.

use model::kinds::gateway_api::{BackendValidation, LocalObjectRef, SubjectAltNameType};
use model::{Kind, Namespace, ObjectKey, ObjectName};
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;

use crate::gateway_api::credential::RootsOf;
use crate::reader::Reader;
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
            let name = &map.name;
            trust.settings.credential_name =
                format!("configmap://{}/{}", name.namespace, name.name);
            trust.roots = Some(map);
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
) -> Result<ObjectKey, TrustFault> {
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
    let map = ObjectKey {
        kind: Kind::ConfigMap,
        name: ObjectName::new(namespace.clone(), reference.name.clone()),
    };
    match *read.derived(RootsOf(map.clone())) {
        None => Ok(map),
        Some(wrong) => Err(fault("InvalidCACertificateRef", format!("{map} {wrong}"))),
    }
}
