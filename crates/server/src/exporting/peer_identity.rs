//! Identities that may read configuration, as a flag states them.

use std::str::FromStr;

use model::spiffe::SpiffeId;

/// In place of a namespace or an account: any.
const ANY: &str = "*";

/// Identities of one trust domain: one service account, all of a namespace, or all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerIdentity(SpiffeId);

impl PeerIdentity {
    /// Whether an identity is one of these.
    pub(super) fn covers(&self, id: &SpiffeId) -> bool {
        let Self(stated) = self;
        let is_same = |stated: &str, proven: &str| stated == ANY || stated == proven;
        *stated.trust_domain == *id.trust_domain
            && is_same(stated.namespace.as_str(), id.namespace.as_str())
            && is_same(&stated.service_account, &id.service_account)
    }
}

impl FromStr for PeerIdentity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT";
        let id: SpiffeId = text
            .parse()
            .map_err(|_| format!("{text} does not have the form {FORM}"))?;
        if !id.is_whole() || id.trust_domain.is_empty() {
            return Err(format!("{text} has an empty part"));
        }
        // Anything but a whole part would match nobody, and look as if it did.
        let parts = [id.namespace.as_str(), &id.service_account];
        let has_wrong = parts.iter().any(|part| *part != ANY && part.contains(ANY));
        if id.trust_domain.contains(ANY) || has_wrong {
            return Err(format!(
                "{text}: {ANY} stands for a whole namespace or account, not for a part of one or a trust domain"
            ));
        }
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_covers_what_it_names() {
        let covers = |stated: &str, id: &str| {
            let stated: PeerIdentity = stated.parse().unwrap();
            stated.covers(&id.parse().unwrap())
        };
        let istiod = "spiffe://east/ns/istio-system/sa/istiod";
        for (stated, covered) in [
            (istiod, true),
            ("spiffe://east/ns/istio-system/sa/*", true),
            ("spiffe://east/ns/*/sa/*", true),
            ("spiffe://east/ns/*/sa/istiod", true),
            ("spiffe://east/ns/istio-system/sa/other", false),
            ("spiffe://east/ns/shop/sa/*", false),
            ("spiffe://west/ns/*/sa/*", false),
        ] {
            assert_eq!(covers(stated, istiod), covered, "{stated}");
        }
    }

    #[test]
    fn what_names_nobody_is_refused() {
        for text in [
            "",
            "east",
            "spiffe://east",
            "spiffe://*/ns/a/sa/b",
            "spiffe:///ns/a/sa/b",
            "spiffe://east/ns//sa/b",
            "spiffe://east/ns/a/sa/",
            "spiffe://east/ns/a/sa/web-*",
            "spiffe://east/ns/*/sa/b/c",
        ] {
            assert!(text.parse::<PeerIdentity>().is_err(), "{text}");
        }
    }
}
