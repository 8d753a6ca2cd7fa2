//! Which Ingresses are served.
//!
//! Istio: pilot/pkg/config/kube/ingress/virtualservices.go shouldProcessIngressWithClass, 1.32.

use model::kinds::kube::{Ingress, IngressClass};
use model::{Object, ObjectKey, ObjectName};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::IngressControllerMode as Mode;

use crate::edge;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The controller of IngressClasses that Istio serves.
pub const CONTROLLER: &str = "istio.io/ingress-controller";
/// What named the class before there were IngressClasses. It beats them still.
const ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Whether an Ingress is served; `class` is the IngressClass that it names, if that is there.
pub fn is_served(
    mesh: &MeshConfig,
    ingress: &Object<Ingress>,
    class: Option<&IngressClass>,
) -> bool {
    let mode = Mode::try_from(mesh.ingress_controller_mode);
    if let Some(named) = ingress.meta.annotations.get(ANNOTATION) {
        return matches!(mode, Ok(Mode::Strict | Mode::Default)) && named == mesh.ingress_class;
    }
    match class {
        Some(class) => &*class.controller == CONTROLLER,
        None => mode == Ok(Mode::Default),
    }
}

/// Whether an Ingress is served, and by which class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ServedBy(pub(super) ObjectName);

/// Why an Ingress is served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Served {
    /// By what it and the mesh config say.
    Itself,
    /// By this IngressClass, without which it would not be.
    Class(ObjectKey),
}

impl Derive for ServedBy {
    type Stratum = Routes;
    type Value = Option<Served>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Served> {
        let mesh = &read.settings().mesh;
        // istiod does not even start to look at them.
        if mesh.ingress_controller_mode() == Mode::Off {
            return None;
        }
        // It reads the Ingresses of the configured cluster only; those of others are served with their annotations.
        if self.0.cluster.is_some() {
            return None;
        }
        // Those that are served with their annotations are served once.
        if read.derived(edge::ServedBy(self.0.clone())).is_some() {
            return None;
        }
        let ingress = read.get::<Ingress>(&self.0)?;
        // Without annotations nothing of it protects.
        if ingress.meta.closed.is_some() {
            return None;
        }
        let named = ingress.spec.ingress_class_name.as_deref();
        let name = named.map(|name| ObjectName::new("", name));
        let class = name
            .as_ref()
            .and_then(|name| read.get::<IngressClass>(name));
        if !is_served(mesh, &ingress, class.as_ref().map(|class| &class.spec)) {
            return None;
        }
        Some(match class {
            Some(class) if !is_served(mesh, &ingress, None) => Served::Class(class.key()),
            _ => Served::Itself,
        })
    }
}
