//! Rules that are delegated to other VirtualServices.

use incr::Cx;
use model::kinds::istio::VirtualService;
use model::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::finding::Report;

pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    for (i, rule) in object.spec.http.iter().enumerate() {
        let Some(delegate) = &rule.delegate else {
            continue;
        };
        let namespace = match delegate.namespace.as_str() {
            "" => object.namespace().clone(),
            stated => stated.into(),
        };
        let name = ObjectName::new(namespace, delegate.name.as_str());
        let path = format!("spec.http[{i}].delegate");
        match cx.get::<VirtualService>(&name) {
            None => {
                report
                    .add(
                        object,
                        &code::DELEGATE_NOT_FOUND,
                        path,
                        format!("there is no VirtualService {name} to delegate to"),
                    )
                    .help("the rule is left out until it exists");
            }
            Some(found) if !found.spec.hosts.is_empty() => {
                report
                    .add(
                        object,
                        &code::DELEGATE_NOT_FOUND,
                        path,
                        format!("the VirtualService {name} has hosts of its own, so nothing can be delegated to it"),
                    )
                    .help("remove spec.hosts from the VirtualService that is delegated to");
            }
            Some(_) => {}
        }
    }
}
