//! VirtualServices as rules: hosts resolved, delegates merged.

use model::names::Namespace;
use model::object::{ObjectName, Timestamp};
use model::service::Visibility;
use proto_istio::networking::VirtualService;

/// A VirtualService ready to be used: short names resolved, delegates merged in, visibility decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// The root VirtualService.
    pub name: ObjectName,
    /// Every VirtualService that contributed, the root first.
    pub from: Vec<ObjectName>,
    /// When the root was created.
    pub created: Option<Timestamp>,
    /// Who may see it.
    pub export_to: Visibility,
    /// The rule itself.
    pub spec: VirtualService,
}

impl Rule {
    /// The namespace of the root.
    pub fn namespace(&self) -> &Namespace {
        &self.name.namespace
    }
}
