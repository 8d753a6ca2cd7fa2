//! What a parent of routes stands on.

use model::kinds::gateway_api::{Gateway, GatewayClass, ListenerSet};
use model::{Kind, ObjectKey, ObjectName};

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The objects without which nothing could attach to a parent: itself, the Gateway of a ListenerSet, and the GatewayClass
/// where there is an object of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct BasisOf(pub(super) ObjectKey);

impl Derive for BasisOf {
    type Stratum = Routes;
    type Value = Vec<ObjectKey>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Vec<ObjectKey> {
        let mut basis = vec![self.0.clone()];
        let mut gateway = Some(self.0.clone());
        if self.0.kind == Kind::ListenerSet {
            let set = read.get::<ListenerSet>(&self.0.name);
            gateway = set.and_then(|set| set.spec.parent_ref.key(&self.0.name.namespace));
            basis.extend(gateway.clone());
        }
        let gateway = gateway.filter(|key| key.kind == Kind::KubeGateway);
        let Some(gateway) = gateway.and_then(|key| read.get::<Gateway>(&key.name)) else {
            return basis;
        };
        let name = ObjectName::new("", gateway.spec.gateway_class_name.clone());
        if read.get::<GatewayClass>(&name).is_some() {
            basis.push(ObjectKey {
                kind: Kind::GatewayClass,
                name,
            });
        }
        basis
    }
}
