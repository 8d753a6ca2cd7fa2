//! Services and ServiceEntries as parents: routes of the mesh.

use std::sync::Arc;

use model::kinds::gateway_api::{Gateway, GatewayClass, ParentRef};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::{NamespaceSpec, Service};
use model::{Kind, Labels, ObjectKey, ObjectName};

use super::super::class::{ClassOf, Controller};
use super::{Attaching, Attachment, refusal};

const WAYPOINT: &str = "istio.io/use-waypoint";
const WAYPOINT_NAMESPACE: &str = "istio.io/use-waypoint-namespace";

/// Why no waypoint would route by a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoWaypoint {
    /// Neither the parent nor its namespace names one.
    NoLabel,
    /// The parent is not there.
    NoParent,
}

/// A Service or ServiceEntry, as far as routes depend on it.
struct Parent {
    labels: Labels,
    hosts: Arc<[Arc<str>]>,
}

impl Attaching<'_, '_, '_> {
    /// The attachment to a service; `None` where a waypoint of another controller serves it.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go extractParentReferenceInfo and referenceAllowed, 1.32.
    pub(super) fn at_service(&self, reference: &ParentRef, key: ObjectKey) -> Option<Attachment> {
        let is_ambient = self.read.settings().features.ambient;
        let mut attachment = Attachment {
            reference: reference.clone(),
            parent: key.clone(),
            listener: None,
            hosts: Arc::from([]),
            not_owned: Arc::from([]),
            refused: None,
            no_waypoint: None,
        };
        let Some(parent) = self.parent(&key) else {
            attachment.refused = refusal::no_parent(&key);
            attachment.no_waypoint = is_ambient.then_some(NoWaypoint::NoParent);
            return Some(attachment);
        };
        let namespace = ObjectName::new("", &*key.name.namespace);
        let namespace = self.read.get::<NamespaceSpec>(&namespace);
        let of_namespace = namespace.as_ref().map(|namespace| &namespace.meta.labels);
        if self.is_of_another(&key, &parent.labels, of_namespace) {
            return None;
        }
        let names = |labels: &Labels| {
            let name = labels.get(WAYPOINT).unwrap_or_default();
            !name.is_empty() && !name.eq_ignore_ascii_case("none")
        };
        if is_ambient && !names(&parent.labels) && of_namespace.is_some_and(|labels| !names(labels))
        {
            attachment.no_waypoint = Some(NoWaypoint::NoLabel);
        }
        attachment.refused = refusal::at_service(self.route.kind);
        if attachment.refused.is_none() {
            attachment.hosts = parent.hosts;
        }
        Some(attachment)
    }

    fn parent(&self, key: &ObjectKey) -> Option<Parent> {
        if key.kind == Kind::ServiceEntry {
            let entry = self.read.get::<ServiceEntry>(&key.name)?;
            let hosts = entry.spec.hosts.iter();
            return Some(Parent {
                labels: entry.meta.labels.clone(),
                hosts: hosts.map(|host| host.as_str().into()).collect(),
            });
        }
        let service = self.read.get::<Service>(&key.name)?;
        let ObjectName {
            namespace, name, ..
        } = &key.name;
        let domain = &self.read.settings().domain;
        Some(Parent {
            labels: service.meta.labels.clone(),
            hosts: Arc::from([format!("{name}.{namespace}.svc.{domain}").into()]),
        })
    }

    /// Whether a waypoint serves the parent that another controller runs.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go waypointManagedByAnotherController, 1.32.
    fn is_of_another(
        &self,
        parent: &ObjectKey,
        own: &Labels,
        of_namespace: Option<&Labels>,
    ) -> bool {
        let labels = match own.get(WAYPOINT) {
            Some(_) => Some(own),
            None => of_namespace,
        };
        let Some((labels, name)) = labels.and_then(|l| Some((l, l.get(WAYPOINT)?))) else {
            return false;
        };
        if name.is_empty() || name.eq_ignore_ascii_case("none") {
            return false;
        }
        let namespace = labels.get(WAYPOINT_NAMESPACE).filter(|n| !n.is_empty());
        let namespace = namespace.unwrap_or(&parent.name.namespace);
        let waypoint = ObjectName::new(namespace, name);
        let Some(waypoint) = self.read.get::<Gateway>(&waypoint) else {
            return false;
        };
        let class = &waypoint.spec.gateway_class_name;
        let ours = self.read.derived(ClassOf(class.clone()));
        let is_ours = matches!(*ours, Some(Controller::Gateway | Controller::Waypoint));
        let object = ObjectName::new("", class.clone());
        !is_ours && self.read.get::<GatewayClass>(&object).is_some()
    }
}
