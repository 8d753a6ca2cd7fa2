//! The values that secret templates stand for.

use crate::reads::Reads;
use crate::snapshot::Snapshot;
use incr::Cx;
use model::kinds::kube::Secret;
use model::kinds::multicluster::REMOTE_SECRET_LABEL;
use model::redacted::Redacted;
use model::template::SecretRef;
use model::trust::CA_SECRETS;

/// More bytes of a value are too many.
const MOST_BYTES: usize = 64 << 10;

/// Why a template has no value. The author of its object can act on it, or who grants rights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum NoValue {
    /// Another namespace's, and the object is not of a namespace that configures all.
    #[error("objects of its namespace may not have values of Secrets of another")]
    NotAllowed,
    /// The Secret is the control plane's own: a key of its CA, or its access to a remote cluster.
    #[error("it is a key of the control plane, which no object may have")]
    OfControlPlane,
    /// There is no such Secret.
    #[error("there is no such Secret")]
    NoSecret,
    /// The Secret has no such key.
    #[error("the Secret has no such key")]
    NoKey,
    /// The value cannot stand in configuration.
    #[error("the value is no text of at most 64 KiB")]
    NoText,
    /// The value has more bytes than there is room for.
    #[error("there is no room for the value")]
    NoRoom,
}

/// The value of a key, for the namespace that asks. Objects may have those of their own namespace; of every namespace,
/// those that configure all: of the root namespace and of that of the edge. Keys of the control plane are for none.
///
/// # Errors
///
/// Says why there is none.
pub fn value(cx: &Cx<'_, Snapshot>, wanted: &SecretRef) -> Result<Redacted, NoValue> {
    value_within(cx, wanted, MOST_BYTES)
}

/// The same of a value that has no more than `room` bytes; one that has more is not looked at.
///
/// # Errors
///
/// Says why there is none.
pub fn value_within(
    cx: &Cx<'_, Snapshot>,
    wanted: &SecretRef,
    room: usize,
) -> Result<Redacted, NoValue> {
    let settings = cx.settings();
    let asking = &wanted.asking;
    let configures_all =
        *asking == settings.features.edge_namespace || **asking == *settings.mesh.root_namespace;
    if *asking != wanted.secret.namespace && !configures_all {
        return Err(NoValue::NotAllowed);
    }
    let of_control_plane = wanted.secret.namespace == settings.system_namespace;
    if of_control_plane && CA_SECRETS.contains(&&*wanted.secret.name) {
        return Err(NoValue::OfControlPlane);
    }
    let secret = cx.get::<Secret>(&wanted.secret).ok_or(NoValue::NoSecret)?;
    if of_control_plane && secret.meta.labels.get(REMOTE_SECRET_LABEL).is_some() {
        return Err(NoValue::OfControlPlane);
    }
    let value = secret.spec.data.get(&wanted.key).ok_or(NoValue::NoKey)?;
    if value.len() > MOST_BYTES {
        return Err(NoValue::NoText);
    }
    if value.len() > room {
        return Err(NoValue::NoRoom);
    }
    let text = std::str::from_utf8(value).ok();
    text.map(Redacted::new).ok_or(NoValue::NoText)
}
