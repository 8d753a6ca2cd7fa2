//! The route of a path, and that of its probes.

use std::collections::BTreeMap;

use model::kinds::knative::IngressSplit;
use model::kinds::kube::IntOrString;
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    Headers, HttpMatchRequest, HttpRetry, HttpRewrite, HttpRoute, HttpRouteDestination, StringMatch,
};
use validate::text::literal_format;

use super::name;
use super::rules::Path;
use crate::edge::{self, BackendPort, Fault as Wrong};
use crate::outcome::code;
use crate::reader::Reader;
use crate::refer::{Author, Named, Target, may_name};
use crate::strata::Routes;

/// The header with the version of an Ingress.
const HASH: &str = "K-Network-Hash";
/// What stands in it where the version is asked for.
const ASKED: &str = "override";

/// Why a path is closed: a code, the field below it, and a sentence about that.
pub(super) type Fault = (&'static str, String, String);

/// The route of a path.
pub(super) fn of_path(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    path: &Path,
) -> Result<HttpRoute, Fault> {
    let route = HttpRoute {
        name: name::of_routes(ingress),
        r#match: vec![matched(path)],
        route: destinations(read, ingress, path)?,
        rewrite: (!path.rewrite_host.is_empty()).then(|| HttpRewrite {
            authority: path.rewrite_host.to_string(),
            ..HttpRewrite::default()
        }),
        headers: (!apart(path)).then(|| set(path.append.iter())).flatten(),
        // Nothing is sent again: backends need not expect it.
        retries: Some(HttpRetry::default()),
        ..HttpRoute::default()
    };
    match edge::refused(route.clone()) {
        None => Ok(route),
        Some(fault) => Err((code::CLOSED, String::new(), fault)),
    }
}

/// The requests of a path.
pub(super) fn matched(path: &Path) -> HttpMatchRequest {
    let uri = (&*path.path != "/").then(|| text(MatchType::Prefix(path.path.to_string())));
    let headers = path.headers.iter();
    HttpMatchRequest {
        uri,
        headers: headers
            .map(|(name, value)| (name.clone(), text(MatchType::Exact(value.to_string()))))
            .collect(),
        ..HttpMatchRequest::default()
    }
}

fn text(match_type: MatchType) -> StringMatch {
    StringMatch {
        match_type: Some(match_type),
    }
}

/// The same route for probes, which tell the version; none where the path itself is about their header.
///
/// Knative: networking/pkg/ingress/ingress.go InsertProbe, 1.19.
pub(super) fn of_probes(route: &HttpRoute, hash: &str) -> Option<HttpRoute> {
    let mut route = route.clone();
    let header = HASH.to_ascii_lowercase();
    let asked = text(MatchType::Exact(ASKED.to_owned()));
    for matched in &mut route.r#match {
        if matched
            .headers
            .insert(header.clone(), asked.clone())
            .is_some()
        {
            return None;
        }
    }
    let headers = route.headers.get_or_insert_default();
    let request = headers.request.get_or_insert_default();
    request
        .set
        .retain(|name, _| !name.eq_ignore_ascii_case(HASH));
    request.set.insert(HASH.to_owned(), hash.to_owned());
    Some(route)
}

/// Whether requests get headers that differ by the Service that they go to.
fn apart(path: &Path) -> bool {
    path.splits
        .iter()
        .any(|split| !split.append_headers.is_empty())
}

/// Headers that requests get, in place of those of these names that they have. Their values are texts and not formats.
fn set<T: AsRef<str>>(pairs: impl Iterator<Item = (T, T)>) -> Option<Headers> {
    let set: BTreeMap<String, String> = pairs
        .map(|(name, value)| {
            let value = literal_format(value.as_ref()).into_owned();
            (name.as_ref().to_owned(), value)
        })
        .collect();
    (!set.is_empty()).then(|| Headers {
        request: Some(HeaderOperations {
            set,
            ..HeaderOperations::default()
        }),
        response: None,
    })
}

fn destinations(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    path: &Path,
) -> Result<Vec<HttpRouteDestination>, Fault> {
    let only = path.splits.len() == 1;
    // Who gets nothing need not be there.
    let used = path.splits.iter().enumerate();
    let used: Vec<_> = used.filter(|(_, s)| only || s.percent > 0).collect();
    if used.is_empty() {
        let message = "sends requests to no Service".to_owned();
        return Err((code::NO_BACKEND, ".splits".to_owned(), message));
    }
    let shares: Vec<u32> = used
        .iter()
        .map(|(_, split)| u32::try_from(split.percent).unwrap_or(0))
        .collect();
    let each = used.iter().zip(edge::hundredths(&shares));
    let each = each.map(|((n, split), weight)| {
        let at = format!(".splits[{n}]");
        let (target, port) =
            backend(read, ingress, split).map_err(|fault| (fault.code, at, fault.sentence))?;
        let mut to = edge::to(&target, port, None, weight);
        if apart(path) {
            to.headers = set(appended(path, split).into_iter());
        }
        Ok(to)
    });
    each.collect()
}

/// The headers that the requests of a split get: its own before those of the path.
fn appended<'p>(path: &'p Path, split: &'p IngressSplit) -> Vec<(&'p str, &'p str)> {
    let own = |name: &str| {
        let mut names = split.append_headers.keys();
        names.any(|own| own.eq_ignore_ascii_case(name))
    };
    let of_path = path.append.iter().filter(|(name, _)| !own(name));
    let all = of_path.chain(&split.append_headers);
    all.map(|(name, value)| (&**name, &**value)).collect()
}

/// The Service of a split and its port; otherwise what is wrong.
fn backend(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    split: &IngressSplit,
) -> Result<(Target, u16), Wrong> {
    if *split.service_namespace != *ingress.namespace.as_str() {
        return Err("the Service is of another namespace".to_owned().into());
    }
    let service = ObjectName::new(ingress.namespace.clone(), &*split.service_name);
    let port = match &split.service_port {
        None => return Err("states no port".to_owned().into()),
        Some(IntOrString::String(name)) => match name.parse() {
            Ok(number) => BackendPort::Number(number),
            Err(_) => BackendPort::Name(name.clone()),
        },
        Some(IntOrString::Int(number)) => match u16::try_from(*number) {
            Ok(number) if number > 0 => BackendPort::Number(number),
            _ => return Err(format!("{number} is not a port").into()),
        },
    };
    let number = edge::port(read, &service, Some(&port))?;
    let service = ObjectKey {
        kind: Kind::Service,
        name: service,
    };
    let by = Author::new(Kind::KnativeIngress, ingress);
    Ok((may_name(read, by, Named::Object(service))?, number))
}
