//! Who may read configuration: all of it, of every namespace.
//!
//! Identities of the root namespace may, as at istiod, and programs of this machine at the plaintext port. istiod's own client
//! shows neither certificate nor token, so that one elsewhere is known by its address alone, where the operator says so.

use ads::server::Asker;
use ads::{Code, Status};
use identity::Caller;

use super::ExportOptions;
use crate::debug::over_xds::Rights;
use crate::quiet::beginning;

/// A client that was let in by its address, and has proven nothing: it is no proxy.
pub(crate) struct Admitted;

/// Whether a client may read configuration.
///
/// Istio: pilot/pkg/xds/ads.go, 1.32, whose words these are.
pub(super) fn admitted(asker: &Asker, root: &str, options: &ExportOptions) -> Result<(), Status> {
    let address = asker.peer.ip();
    if options.admits(address) {
        return Ok(());
    }
    let caller = asker.proven.caller.as_ref();
    let caller = caller.and_then(|caller| caller.downcast_ref::<Caller>());
    if caller.is_some_and(|caller| options.admits_identity(caller)) {
        return Ok(());
    }
    let is_local = address.to_canonical().is_loopback();
    match Rights::of(&asker.proven, is_local, |namespace| namespace == root) {
        Some(Rights::All) => Ok(()),
        Some(Rights::Of(_)) => Err(Status::new(
            Code::PermissionDenied,
            format!(
                "only identities of the root namespace, {root}, and those of --mcp-identities may read configuration"
            ),
        )),
        None => Err(Status::new(
            Code::Unauthenticated,
            format!(
                "{} may not read configuration: it has not authenticated as an identity of the root namespace, {root}, and --mcp-peers does not list its address",
                beginning(&asker.id)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use ads::Protocol;
    use ads::server::Proven;
    use model::node::Identity;

    use super::*;
    use crate::config::cidrs;
    use crate::debug::over_xds::ThisMachine;

    fn code(caller: Option<Arc<dyn Any + Send + Sync>>, address: &str) -> Option<Code> {
        let asker = Asker {
            id: "sidecar~10.0.0.9~a.b~b".into(),
            node: None,
            peer: address.parse().unwrap(),
            proven: Proven {
                caller,
                until: None,
            },
            protocol: Protocol::Sotw,
        };
        let options = ExportOptions {
            mcp_peers: cidrs("10.7.0.0/16").unwrap(),
            mcp_identities: vec!["spiffe://cluster.local/ns/peers/sa/*".parse().unwrap()],
        };
        let admitted = admitted(&asker, "istio-system", &options);
        admitted.err().map(|status| status.code)
    }

    fn of(namespace: &str) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(Identity {
            namespace: namespace.into(),
            service_account: "istiod".into(),
        }))
    }

    #[test]
    fn identities_that_the_operator_names_may_read_all() {
        let by_certificate = |id: &str| -> Option<Arc<dyn Any + Send + Sync>> {
            Some(Arc::new(Caller {
                source: identity::Source::ClientCertificate,
                ids: vec![id.parse().unwrap()],
                pod: None,
                until: None,
            }))
        };
        for (id, refused) in [
            ("spiffe://cluster.local/ns/peers/sa/a", None),
            ("spiffe://cluster.local/ns/istio-system/sa/a", None),
            (
                "spiffe://cluster.local/ns/shop/sa/a",
                Some(Code::PermissionDenied),
            ),
            ("spiffe://other/ns/peers/sa/a", Some(Code::PermissionDenied)),
        ] {
            assert_eq!(code(by_certificate(id), "10.0.0.9:4000"), refused, "{id}");
        }
    }

    #[test]
    fn the_root_namespace_this_machine_and_admitted_addresses_may_read_all() {
        const LOCAL: &str = "127.0.0.1:4000";
        const REMOTE: &str = "10.0.0.9:4000";
        assert_eq!(code(of("istio-system"), REMOTE), None);
        assert_eq!(code(Some(Arc::new(ThisMachine)), LOCAL), None);
        assert_eq!(code(None, "10.7.1.1:4000"), None);
        assert_eq!(code(of("shop"), "[::ffff:10.7.1.1]:4000"), None);
        assert_eq!(code(of("shop"), REMOTE), Some(Code::PermissionDenied));
        assert_eq!(code(of("shop"), LOCAL), Some(Code::PermissionDenied));
        for address in [LOCAL, REMOTE, "[::1]:4000"] {
            assert_eq!(code(None, address), Some(Code::Unauthenticated));
        }
        assert_eq!(
            code(Some(Arc::new(Admitted)), REMOTE),
            Some(Code::Unauthenticated)
        );
    }
}
