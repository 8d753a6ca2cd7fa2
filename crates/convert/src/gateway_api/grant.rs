//! Who may refer to objects of other namespaces.

use std::sync::Arc;

use model::kinds::gateway_api::ReferenceGrant;
use model::{Kind, Object, ObjectKey};
use store::index::{ObjectIndex, grant_value};

use crate::reader::Reader;
use crate::strata::Routes;

/// Whether an object of the kind `from` in `namespace` may refer to an object; always within a namespace.
pub(super) fn may_refer(
    read: &Reader<'_, '_, Routes>,
    from: Kind,
    namespace: &str,
    to: &ObjectKey,
) -> bool {
    *to.name.namespace == *namespace || grant(read, from, namespace, to).is_some()
}

/// The first ReferenceGrant that lets an object of the kind `from` in `namespace` refer to an object of another namespace.
///
/// Istio: pilot/pkg/config/kube/gatewaycommon/references.go, 1.32.
pub(crate) fn grant(
    read: &Reader<'_, '_, Routes>,
    from: Kind,
    namespace: &str,
    to: &ObjectKey,
) -> Option<ObjectKey> {
    let value = grant_value(from, namespace, to.kind, &to.name.namespace);
    let grants = read.list_by::<ReferenceGrant>(ObjectIndex::Grant, &value);
    let allows = |grant: &Arc<Object<ReferenceGrant>>| {
        grant.spec.to.iter().any(|part| {
            let is_kind = Kind::find(&part.group, &part.kind) == Some(to.kind);
            let is_name = |name: &Arc<str>| **name == *to.name.name;
            is_kind && part.name.as_ref().is_none_or(is_name)
        })
    };
    Some(grants.iter().find(|grant| allows(grant))?.key())
}
