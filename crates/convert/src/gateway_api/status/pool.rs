//! The status of InferencePools: what became of each at each of the Gateways whose routes send to it.
//!
//! Istio: pilot/pkg/config/kube/gateway/inferencepool_collection.go, 1.32.

use std::collections::BTreeMap;

use model::kinds::gateway_api::{EndpointPickerRef, HttpRoute, InferencePool};
use model::kinds::kube::Service;
use model::{ObjectKey, ObjectName};
use serde_json::{Value, json};
use store::index::{ObjectIndex, reference_value};

use super::Conditions;
use crate::gateway_api::attachment::{Attachment, AttachmentsOf};
use crate::gateway_api::route::of_kind_by;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

const ACCEPTED: &str = "Accepted";
const RESOLVED_REFS: &str = "ResolvedRefs";

/// How many parents a status may have.
const MOST_PARENTS: usize = 32;

/// The status of a pool: the parents of the HTTPRoutes that name it as a backend, by kind and name.
pub(super) fn status(read: &Reader<'_, '_, Routes>, name: &ObjectName) -> Option<Value> {
    let features = &read.settings().features;
    if !features.gateway_api || !features.inference_extension {
        return None;
    }
    let pool = read.get::<InferencePool>(name)?;
    let routes = of_kind_by::<HttpRoute>(read, ObjectIndex::Target, &reference_value(&pool.key()));
    // A parent accepts the pool if it accepts one of its routes.
    let mut parents: BTreeMap<ObjectKey, Option<String>> = BTreeMap::new();
    for route in routes {
        for (parent, refused) in read.derived(AtParents(route.clone())).iter() {
            let message = refused
                .as_ref()
                .map(|why| format!("{route} is not accepted: {why}"));
            let so_far = parents.entry(parent.clone()).or_insert(message.clone());
            if message.is_none() {
                *so_far = None;
            }
        }
    }
    let unresolved = unresolved(read, name, &pool.spec.endpoint_picker_ref);
    let told = parents.into_iter().take(MOST_PARENTS);
    let told = told.map(|(parent, refused)| {
        let mut conditions = Conditions::default();
        match refused {
            None => conditions.holds(ACCEPTED, ACCEPTED, "an accepted HTTPRoute sends to it"),
            Some(why) => conditions.fails(ACCEPTED, "HTTPRouteNotAccepted", why),
        }
        match &unresolved {
            None => conditions.holds(
                RESOLVED_REFS,
                RESOLVED_REFS,
                "the Service of the endpoint picker is there",
            ),
            Some(why) => conditions.fails(RESOLVED_REFS, "InvalidExtensionRef", why.clone()),
        }
        json!({
            "parentRef": {
                "group": parent.kind.group(),
                "kind": parent.kind.name(),
                "namespace": *parent.name.namespace,
                "name": *parent.name.name,
            },
            "controllerName": features.gateway_controller.as_str(),
            "conditions": conditions.list(pool.meta.generation),
        })
    });
    let told: Value = told.collect();
    Some(json!({ "parents": told }))
}

/// Why the endpoint picker is not found, if it is not.
fn unresolved(
    read: &Reader<'_, '_, Routes>,
    pool: &ObjectName,
    picker: &EndpointPickerRef,
) -> Option<String> {
    let EndpointPickerRef { kind, name, .. } = picker;
    if !picker.is_service() {
        return Some(format!("an endpoint picker is a Service, not a {kind}"));
    }
    if name.is_empty() {
        return Some("no endpoint picker is named".to_owned());
    }
    let service = ObjectName::new(pool.namespace.clone(), name.clone());
    if !*read.derived(HasService(service.clone())) {
        return Some(format!(
            "there is no Service {service}, the endpoint picker"
        ));
    }
    let port = picker.port.as_ref();
    port.is_none()
        .then(|| format!("no port of the Service {service} is stated, the endpoint picker"))
}

/// Whether there is a Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HasService(ObjectName);

impl Derive for HasService {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        read.get::<Service>(&self.0).is_some()
    }
}

/// The Gateways and ListenerSets that an HTTPRoute names and that are ours, each with the reason why it refuses the route,
/// if it does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AtParents(ObjectKey);

impl Derive for AtParents {
    type Stratum = Routes;
    type Value = Vec<(ObjectKey, Option<String>)>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let attachments = read.derived(AttachmentsOf(self.0.clone()));
        let of_gateways = attachments.iter().filter(|a| a.listener.is_some());
        let mut parents: BTreeMap<&ObjectKey, Vec<&Attachment>> = BTreeMap::new();
        for attachment in of_gateways {
            let of_parent = parents.entry(&attachment.parent).or_default();
            of_parent.push(attachment);
        }
        let of_parent = |(parent, attached): (&ObjectKey, Vec<&Attachment>)| {
            let mut refused = attached.iter().map(|a| a.refused.as_ref());
            let first = refused.clone().flatten().min_by_key(|r| r.reason);
            let accepts = refused.any(|refused| refused.is_none());
            let why = first.filter(|_| !accepts);
            (parent.clone(), why.map(|r| r.message.to_string()))
        };
        parents.into_iter().map(of_parent).collect()
    }
}
