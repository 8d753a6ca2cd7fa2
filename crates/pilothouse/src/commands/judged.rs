//! What a server would close of objects that are valid by themselves: by the annotations and paths of Ingresses of ingress-nginx, and
//! by values of routes of the Gateway API that Envoy refuses; and the endpoints that a server leaves out. Each is judged as a
//! server does.

use convert::gateway_api::refused_values;
use mesh::finding::code;
use mesh::machine;
use model::settings::Features;
use model::{AnyObject, Diagnostic, Kind, Severity};

/// The kinds that are looked at.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    let of_nginx = migrate::alone::KINDS.into_iter();
    of_nginx.chain([Kind::HttpRoute, Kind::GrpcRoute])
}

/// What is wrong with Ingresses of ingress-nginx, and with routes.
pub(super) fn judge(objects: Vec<AnyObject>) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = objects.iter().flat_map(of_values).collect();
    let of_nginx = migrate::alone::findings(objects).into_iter();
    found.extend(
        of_nginx.map(|found| found.help("judged as a server with `--ingress-class nginx` does")),
    );
    found
}

/// The values of a route of the Gateway API that Envoy refuses.
pub(super) fn of_values(object: &AnyObject) -> Vec<Diagnostic> {
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
pub(super) fn of_endpoints(features: &Features, object: &AnyObject) -> Option<Diagnostic> {
    let found = machine::of_object(features, object)?;
    Some(found.about(object.key(), object.meta().origin.clone()))
}
