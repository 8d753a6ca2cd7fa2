//! Who may refer to objects of other namespaces.

use model::kinds::gateway_api::ReferenceGrant;
use model::{Kind, ObjectKey};
use store::index::{ObjectIndex, grant_value};

use crate::reader::Reader;
use crate::strata::Routes;

/// Whether an object of the kind `from` in `namespace` may refer to an object; always within a namespace.
///
/// Istio: pilot/pkg/config/kube/gatewaycommon/references.go, 1.32.
pub(super) fn may_refer(
    read: &Reader<'_, '_, Routes>,
    from: Kind,
    namespace: &str,
    to: &ObjectKey,
) -> bool {
    *to.name.namespace == *namespace || !granting(read, from, namespace, to).is_empty()
}

/// The ReferenceGrants that let an object of the kind `from` in `namespace` refer to an object of another namespace.
pub(super) fn granting(
    read: &Reader<'_, '_, Routes>,
    from: Kind,
    namespace: &str,
    to: &ObjectKey,
) -> Vec<ObjectKey> {
    let value = grant_value(from, namespace, to.kind, &to.name.namespace);
    let mut grants = read.list_by::<ReferenceGrant>(ObjectIndex::Grant, &value);
    grants.retain(|grant| {
        let mut parts = grant.spec.to.iter();
        parts.any(|part| {
            let is_kind = Kind::find(&part.group, &part.kind) == Some(to.kind);
            let name = part.name.as_ref();
            is_kind && name.is_none_or(|name| **name == *to.name.name)
        })
    });
    grants.iter().map(|grant| grant.key()).collect()
}
