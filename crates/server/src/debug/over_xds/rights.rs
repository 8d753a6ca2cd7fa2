//! Who may ask for which debug pages.
//!
//! Whoever is of the root namespace, or of one that the options name, may ask for all; who is of another namespace for what the
//! proxies of that namespace have. As with pages over HTTP, programs of this machine may ask for all without proof.
//!
//! Istio: pilot/pkg/xds/debug.go shouldAllowDebugEndpoint, debuggen.go, 1.32.

use std::collections::BTreeSet;

use ads::server::{Client, Proven};
use apiserver::this_machine;
use http::Request;
use identity::Caller;
use model::names::Namespace;
use model::node::Identity;

use crate::own::Own;

/// A client on a plaintext port that is a program of this machine.
pub(crate) struct ThisMachine;

impl ThisMachine {
    /// Whether a client is one, by its address, the name that it asks for (`:authority`) and its headers: as with pages over HTTP.
    pub(crate) fn speaks(client: &Client, request: &Request<()>) -> bool {
        this_machine::check(client.peer.ip(), request.uri(), request.headers()).is_ok()
    }
}

/// What a client may ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rights {
    /// Everything.
    All,
    /// What proxies of these namespaces have.
    Of(BTreeSet<Namespace>),
}

impl Rights {
    /// Those of a client; `None` if it has proven nothing.
    pub(crate) fn of(
        proven: &Proven,
        is_local: bool,
        privileged: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let caller = proven.caller.as_ref()?;
        if caller.is::<ThisMachine>() || (is_local && caller.is::<Own>()) {
            return Some(Rights::All);
        }
        let namespaces: BTreeSet<Namespace> =
            if let Some(identity) = caller.downcast_ref::<Identity>() {
                [identity.namespace.clone()].into()
            } else {
                let caller = caller.downcast_ref::<Caller>()?;
                caller.ids.iter().map(|id| id.namespace.clone()).collect()
            };
        let all = namespaces
            .iter()
            .any(|namespace| privileged(namespace.as_str()));
        Some(match all {
            true => Rights::All,
            false => Rights::Of(namespaces),
        })
    }

    /// Whether they cover the proxies of a namespace.
    pub(in crate::debug) fn cover(&self, namespace: &Namespace) -> bool {
        match self {
            Rights::All => true,
            Rights::Of(namespaces) => namespaces.contains(namespace),
        }
    }

    /// Whether they cover a proxy that is called `NAME.NAMESPACE`. Other ways to call one are for those who may ask for all.
    pub(super) fn cover_named(&self, proxy: &str) -> bool {
        let namespace = proxy.rsplit_once('.').map(|(_, namespace)| namespace);
        match self {
            Rights::All => true,
            Rights::Of(_) if proxy.contains('~') => false,
            Rights::Of(_) => namespace.is_some_and(|namespace| self.cover(&namespace.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use super::*;

    fn rights(caller: Option<Arc<dyn Any + Send + Sync>>, is_local: bool) -> Option<Rights> {
        let proven = Proven {
            caller,
            until: None,
        };
        Rights::of(&proven, is_local, |namespace| namespace == "istio-system")
    }

    fn of(namespace: &str) -> Option<Rights> {
        let identity = Identity {
            namespace: namespace.into(),
            service_account: "a".into(),
        };
        rights(Some(Arc::new(identity)), false)
    }

    #[test]
    fn the_root_namespace_may_ask_for_all_and_others_for_their_own() {
        assert_eq!(rights(None, true), None);
        assert_eq!(rights(Some(Arc::new(())), true), None);
        assert_eq!(of("istio-system"), Some(Rights::All));
        assert_eq!(rights(Some(Arc::new(ThisMachine)), true), Some(Rights::All));
        assert_eq!(rights(Some(Arc::new(Own)), true), Some(Rights::All));
        assert_eq!(rights(Some(Arc::new(Own)), false), None);
        let shop = of("shop").unwrap();
        assert!(shop.cover(&"shop".into()) && !shop.cover(&"bank".into()));
        assert!(shop.cover_named("a.b.shop"));
        for other in ["a.bank", "shop", "sidecar~10.0.0.1~a.bank~x.shop", ""] {
            assert!(!shop.cover_named(other), "{other}");
        }
    }

    #[test]
    fn what_a_proxy_of_this_machine_passes_on_is_not_of_this_machine() {
        let client = |address: [u8; 4]| Client::plaintext((address, 4000).into());
        let mut request = asking("http://localhost:15010/a.B/C");
        assert!(ThisMachine::speaks(&client([127, 0, 0, 1]), &request));
        assert!(!ThisMachine::speaks(&client([10, 0, 0, 1]), &request));
        let forwarded = "10.0.0.9".parse().unwrap();
        request.headers_mut().insert("x-forwarded-for", forwarded);
        assert!(!ThisMachine::speaks(&client([127, 0, 0, 1]), &request));
    }

    #[test]
    fn who_asks_for_another_name_is_not_of_this_machine() {
        let client = Client::plaintext(([127, 0, 0, 1], 4000).into());
        let speaks = |uri: &str| ThisMachine::speaks(&client, &asking(uri));
        for own in ["http://127.0.0.1:15010/a.B/C", "http://[::1]:15010/a.B/C"] {
            assert!(speaks(own), "{own}");
        }
        // A proxy that adds no header, or a name that leads here.
        for other in [
            "http://istiod.example.com/a.B/C",
            "http://rebind.example.com:15010/a.B/C",
            "http://10.0.0.1:15010/a.B/C",
            "/a.B/C",
        ] {
            assert!(!speaks(other), "{other}");
        }
    }

    fn asking(uri: &str) -> Request<()> {
        let mut request = Request::new(());
        *request.uri_mut() = uri.parse().unwrap();
        request
    }
}
