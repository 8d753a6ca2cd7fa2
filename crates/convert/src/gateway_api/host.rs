//! The routes of one host of one parent, merged of all HTTPRoutes and GRPCRoutes that attach there.
//!
//! Istio: pilot/pkg/config/kube/gateway/route_collections.go mergeHTTPRoutes, 1.32.

mod merge;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Diagnostic, Namespace, ObjectKey, ObjectName};
use store::index::{ObjectIndex, parent_host_value, reference_value};

use self::merge::{Merging, Part};
use super::attachment::{Attachment, AttachmentsOf, excess, of_others};
use super::route::of_requests_by;
use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The VirtualServices of a host of a Gateway or ListenerSet, one for each listener that serves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostOfParent(pub ObjectKey, pub Arc<str>);

impl Derive for HostOfParent {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let Self(parent, host) = self;
        let value = parent_host_value(parent, host);
        let is_here = |attachment: &Attachment| {
            attachment.parent == *parent && attachment.hosts.contains(host)
        };
        let routes: Vec<ObjectKey> =
            of_requests_by(read, ObjectIndex::ParentHost, &value).collect();
        let refused = routes.iter();
        let refused = refused.flat_map(|route| of_others(read, route, parent, host));
        let mut findings: BTreeSet<Diagnostic> = refused.collect();
        let routes = routes.into_iter();
        let parts = parts(read, routes, false, is_here, &mut findings);
        let mut gateways = BTreeSet::new();
        for part in &parts {
            gateways.extend(part.gateways(is_here));
        }
        let mut merging = Merging::new(read, parent, findings);
        for gateway in gateways {
            let ObjectName {
                namespace, name, ..
            } = gateway;
            let here = parts.iter();
            let here = here.filter(|part| part.gateways(is_here).any(|own| own == gateway));
            merging.add(
                format!("{namespace}~{name}~{host}"),
                format!("{namespace}/{name}"),
                host,
                None,
                here,
            );
        }
        merging.outcome()
    }
}

/// The VirtualServices of a service of the mesh, by the routes of one namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostOfMesh {
    /// The namespace of the routes.
    pub namespace: Namespace,
    /// The Service or ServiceEntry.
    pub parent: ObjectKey,
    /// One port of it; all where absent.
    pub port: Option<u16>,
}

impl Derive for HostOfMesh {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let value = reference_value(&self.parent);
        let routes = of_requests_by(read, ObjectIndex::Parent, &value);
        let routes = routes.filter(|route| route.name.namespace == self.namespace);
        let is_here = |attachment: &Attachment| {
            attachment.parent == self.parent && attachment.reference.port == self.port
        };
        let mut findings = BTreeSet::new();
        let parts = parts(read, routes, true, is_here, &mut findings);
        let hosts: BTreeSet<&Arc<str>> = parts.iter().flat_map(|p| p.hosts(is_here)).collect();
        let mut merging = Merging::new(read, &self.parent, findings);
        for host in hosts {
            let name = match self.port {
                Some(port) => format!("{}~{port}~{host}", self.namespace),
                None => format!("{}~{host}", self.namespace),
            };
            merging.add(name, "mesh".to_owned(), host, self.port, parts.iter());
        }
        merging.outcome()
    }
}

/// Those of the routes that are accepted somewhere here, the oldest first.
fn parts(
    read: &Reader<'_, '_, Routes>,
    routes: impl Iterator<Item = ObjectKey>,
    in_mesh: bool,
    is_here: impl Fn(&Attachment) -> bool,
    findings: &mut BTreeSet<Diagnostic>,
) -> Vec<Part> {
    let parts = routes.filter_map(|route| {
        let attachments = read.derived(AttachmentsOf(route.clone()));
        findings.extend(excess(&route, &attachments));
        let accepted = |a: &Attachment| a.refused.is_none() && is_here(a);
        let is_part = attachments.iter().any(accepted);
        is_part.then(|| Part::new(read, route, in_mesh, attachments))
    });
    let mut parts: Vec<Part> = parts.collect();
    parts.sort_by(Part::cmp_age);
    parts
}
