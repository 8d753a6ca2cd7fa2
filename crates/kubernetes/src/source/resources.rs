//! Which kinds are left out, as operators state it.

use std::str::FromStr;
use std::sync::Arc;

use model::Kind;

/// Definitions by name (`wasmplugins.extensions.istio.io`), or by the end of their names (`*.istio.io`).
///
/// Istio: pkg/kube/kclient/crdwatcher.go, 1.32.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resources(Vec<String>);

impl FromStr for Resources {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = text.split(',').map(str::trim).filter(|n| !n.is_empty());
        Ok(Self(named.map(str::to_owned).collect()))
    }
}

impl Resources {
    fn name(&self, definition: &str) -> bool {
        let names = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(end) => definition.ends_with(end),
            None => pattern == definition,
        };
        self.0.iter().any(names)
    }

    /// The kinds that are read where those that these name are ignored, but for those that `included` names. Kinds that
    /// every API has cannot be ignored.
    pub fn without(&self, included: &Self) -> Arc<[Kind]> {
        let is_read = |kind: &Kind| {
            let definition = format!("{}.{}", kind.plural(), kind.group());
            is_built_in(*kind) || !self.name(&definition) || included.name(&definition)
        };
        Kind::ALL.iter().copied().filter(is_read).collect()
    }
}

/// Whether every API serves a kind, without a definition.
pub(super) fn is_built_in(kind: Kind) -> bool {
    matches!(
        kind.group(),
        "" | "apps"
            | "discovery.k8s.io"
            | "networking.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_kinds_are_left_out_unless_included() {
        let of = |text: &str| text.parse::<Resources>().unwrap();
        let all = of("").without(&of(""));
        assert_eq!(*all, *Kind::ALL);
        let some = of("*.istio.io, gateways.gateway.networking.k8s.io,services.")
            .without(&of("wasmplugins.extensions.istio.io"));
        for (kind, read) in [
            (Kind::VirtualService, false),
            (Kind::WasmPlugin, true),
            (Kind::KubeGateway, false),
            (Kind::HttpRoute, true),
            (Kind::Service, true),
            (Kind::HigressWasmPlugin, true),
        ] {
            assert_eq!(some.contains(&kind), read, "{kind:?}");
        }
    }
}
