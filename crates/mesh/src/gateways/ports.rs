//! How many ports the Gateways of a namespace may open at a proxy, the oldest first.
//!
//! Each port is a socket for every worker of Envoy, and a process that may open no more files ends. A proxy of several
//! namespaces has room for a few ports of each; what shares a port with a server that is there needs none.

use std::collections::BTreeMap;

use incr::Cx;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::finding::{about_named, code};
use crate::limits::OWN_GATEWAY_PORTS;
use crate::root::is_root;

/// The ports that namespaces have opened at a proxy.
pub(super) struct Ports {
    /// The namespace of the proxy.
    home: Namespace,
    /// How many ports another namespace may open.
    of_others: usize,
    opened: BTreeMap<Namespace, usize>,
    refused: BTreeMap<ObjectName, Refused>,
}

/// What of a Gateway is not served.
struct Refused {
    finding: Diagnostic,
    /// Ports of servers beside the one that is reported.
    further: usize,
}

impl Ports {
    /// None of a proxy of that namespace.
    pub(super) fn new(cx: &Cx<'_, Snapshot>, home: &Namespace) -> Self {
        Self {
            home: home.clone(),
            of_others: cx.settings().features.namespace_ports.get(),
            opened: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Whether a Gateway may open a port that is not open; if not, that is reported once for each Gateway.
    pub(super) fn may_open(
        &mut self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Object<Gateway>,
        (field, port): (usize, u16),
    ) -> bool {
        let namespace = gateway.namespace();
        let is_own = *namespace == self.home || is_root(cx, namespace);
        let most = match is_own {
            true => OWN_GATEWAY_PORTS.max(self.of_others),
            false => self.of_others,
        };
        if self.opened.get(namespace).is_none_or(|open| *open < most) {
            return true;
        }
        let first = || {
            let why = format!(
                "the server is not served on port {port}: the Gateways of the namespace {namespace} have opened {most} ports at \
                 a proxy of {}, the oldest first, and may open no more there",
                self.home
            );
            let help = match is_own {
                true => "let servers share ports, or divide them among several proxies",
                false => {
                    "let servers share ports, serve them with a proxy of the namespace, or raise PILOTHOUSE_NAMESPACE_PORTS"
                }
            };
            Refused {
                finding: told(gateway, field, why).help(help),
                further: 0,
            }
        };
        self.refused
            .entry(gateway.meta.name.clone())
            .and_modify(|refused| refused.further += 1)
            .or_insert_with(first);
        false
    }

    /// A Gateway has opened a port.
    pub(super) fn open(&mut self, gateway: &Object<Gateway>) {
        *self.opened.entry(gateway.namespace().clone()).or_default() += 1;
    }

    /// What is reported.
    pub(super) fn findings(self) -> impl Iterator<Item = Diagnostic> {
        self.refused.into_values().map(|refused| {
            let Refused { finding, further } = refused;
            let message = match further {
                0 => return finding,
                1 => format!("{}; nor is 1 further port of the Gateway", finding.message),
                _ => format!(
                    "{}; nor are {further} further ports of the Gateway",
                    finding.message
                ),
            };
            Diagnostic {
                message: message.into(),
                ..finding
            }
        })
    }
}

/// A finding at a server of a Gateway, or at what the Gateway was made from.
fn told(gateway: &Object<Gateway>, field: usize, why: String) -> Diagnostic {
    let derived = gateway.meta.derived.as_ref();
    let (object, path) = match derived.and_then(|made| made.from.first()) {
        Some(from) => (from.clone(), "spec.listeners".to_owned()),
        None => (gateway.key(), format!("spec.servers[{field}]")),
    };
    about_named(
        object.kind,
        &object.name,
        code::OVER_BUDGET,
        Severity::Error,
        why,
    )
    .at(path)
}
