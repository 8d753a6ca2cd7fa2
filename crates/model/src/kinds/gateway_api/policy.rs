//! `ReferenceGrant` and `BackendTLSPolicy`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::{LocalObjectRef, PolicyTargetRef};
use crate::kinds::Kind;
use crate::object::ObjectKey;

/// Who of other namespaces may refer to objects of this one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceGrant {
    /// Who.
    pub from: Vec<ReferenceGrantFrom>,
    /// To what.
    pub to: Vec<ReferenceGrantTo>,
}

impl ReferenceGrant {
    /// Whether those whom it lets may refer to an object of its namespace.
    pub fn covers(&self, to: &ObjectKey) -> bool {
        self.to.iter().any(|part| {
            let is_kind = Kind::find(&part.group, &part.kind) == Some(to.kind);
            is_kind
                && part
                    .name
                    .as_ref()
                    .is_none_or(|name| **name == *to.name.name)
        })
    }
}

/// Objects that may refer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceGrantFrom {
    /// Their group.
    pub group: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// Their namespace.
    pub namespace: Arc<str>,
}

/// Objects that may be referred to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReferenceGrantTo {
    /// Their group; empty for the core group.
    pub group: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// One of them; all where absent.
    pub name: Option<Arc<str>>,
}

/// How Gateways speak TLS to backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendTlsPolicy {
    /// Backends it holds for.
    pub target_refs: Vec<PolicyTargetRef>,
    /// How their certificates are checked.
    pub validation: BackendValidation,
    /// Settings of the implementation.
    #[serde(default)]
    pub options: BTreeMap<Arc<str>, Arc<str>>,
}

/// How certificates of backends are checked.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendValidation {
    /// Authorities that are trusted.
    #[serde(default)]
    pub ca_certificate_refs: Vec<LocalObjectRef>,
    /// A set of authorities by name: `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<Arc<str>>,
    /// Server name that is sent, and that the certificate must hold where no names are listed.
    pub hostname: Arc<str>,
    /// Names of which the certificate must hold one.
    #[serde(default)]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate; the field that the type names holds it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubjectAltName {
    /// What kind of name.
    #[serde(rename = "type")]
    pub name_type: SubjectAltNameType,
    /// A host.
    pub hostname: Option<Arc<str>>,
    /// A URI, as SPIFFE identities are.
    pub uri: Option<Arc<str>>,
}

/// What kind of name in a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum SubjectAltNameType {
    /// A host.
    Hostname,
    /// A URI.
    #[serde(rename = "URI")]
    Uri,
}
