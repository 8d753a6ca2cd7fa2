//! What a server would close of objects that are valid by themselves: by the annotations and paths of Ingresses of ingress-nginx, and
//! by values of routes of the Gateway API that Envoy refuses; and the endpoints that a server leaves out. Each is judged as a
//! server does.

use convert::gateway_api::refused_values;
use mesh::finding::code;
use mesh::machine;
use migrate::alone;
use model::settings::Features;
use model::{AnyObject, Diagnostic, Kind, Severity};

/// The kinds that are looked at.
pub fn kinds() -> impl Iterator<Item = Kind> {
    let of_nginx = alone::KINDS.into_iter();
    of_nginx.chain([Kind::HttpRoute, Kind::GrpcRoute])
}

/// What is wrong with Ingresses of ingress-nginx, and with routes.
pub fn judge(objects: Vec<AnyObject>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = objects.iter().flat_map(of_values).collect();
    found.extend(of_nginx(objects, &[]));
    found
}

/// What is wrong with Ingresses of ingress-nginx. Judges those of `classes` or, if there are none, of ingress-nginx's own classes.
fn of_nginx(objects: Vec<AnyObject>, classes: &[String]) -> impl Iterator<Item = Diagnostic> {
    let found = alone::findings(objects, classes).into_iter();
    found.map(|found| found.help("judged as a server with `--ingress-class nginx` does"))
}

/// Every fault that one object has by itself, on a server with these features.
pub fn of_one(features: &Features, object: &AnyObject) -> Vec<Diagnostic> {
    let mut found = of_values(object);
    found.extend(of_endpoints(features, object));
    if let Some(classes) = nginx_classes(features).filter(|_| object.kind() == Kind::Ingress) {
        found.extend(of_nginx(vec![object.clone()], &classes));
    }
    found
}

/// The classes whose Ingresses a server serves as ingress-nginx does, none where they are ingress-nginx's own; `None` where it serves all
/// Ingresses as Higress does, to which the same annotations mean something else.
fn nginx_classes(features: &Features) -> Option<Vec<String>> {
    let classes = &features.edge_classes;
    match features.edge_dialect.as_str() {
        "higress" if !classes.is_empty() => None,
        "nginx" if classes.iter().all(|class| **class != *"*") => {
            Some(classes.iter().map(ToString::to_string).collect())
        }
        _ => Some(Vec::new()),
    }
}

/// The values of a route of the Gateway API that Envoy refuses.
pub fn of_values(object: &AnyObject) -> Vec<Diagnostic> {
    let refused = refused_values(object).into_iter();
    let found = refused.map(|(at, why)| {
        let message =
            format!("Envoy refuses the value, so requests that it could be about get 503: {why}");
        Diagnostic::new(code::REFUSED_BY_ENVOY, Severity::Error, message)
            .about(object.key(), object.meta().origin.clone())
            .at(at)
    });
    found.collect()
}

/// The endpoints of an object that a server leaves out, as they are on the machine of each proxy.
pub fn of_endpoints(features: &Features, object: &AnyObject) -> Option<Diagnostic> {
    let found = machine::of_object(features, object)?;
    Some(found.about(object.key(), object.meta().origin.clone()))
}
