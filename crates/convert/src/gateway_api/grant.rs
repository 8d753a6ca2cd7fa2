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
    if *to.name.namespace == *namespace {
        return true;
    }
    let value = grant_value(from, namespace, to.kind, &to.name.namespace);
    let grants = read.list_by::<ReferenceGrant>(ObjectIndex::Grant, &value);
    let mut parts = grants.iter().flat_map(|grant| &grant.spec.to);
    parts.any(|part| {
        let is_kind = Kind::find(&part.group, &part.kind) == Some(to.kind);
        is_kind
            && part
                .name
                .as_ref()
                .is_none_or(|name| **name == *to.name.name)
    })
}
