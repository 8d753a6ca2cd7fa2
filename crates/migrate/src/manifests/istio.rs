//! Manifests of Istio's kinds.

use convert::edge;
use model::{AnyObject, Kind, Object};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, HttpRoute, StringMatch, VirtualService};

use super::lost::{self, ISTIO, Lost};
use super::{Kinds, Manifest, Manifests, credential, made_from, matched, of_host};
use crate::World;

/// The file of objects that are about no host.
const SERVICES: &str = "_services.yaml";

impl Manifests {
    /// As objects of Istio's kinds.
    pub fn of_istio(world: &World) -> Self {
        let kinds = [
            Kind::Gateway,
            Kind::VirtualService,
            Kind::DestinationRule,
            Kind::ServiceEntry,
        ];
        let mut all: Vec<AnyObject> = kinds
            .iter()
            .flat_map(|kind| world.snapshot.tables.iter_any(*kind))
            .filter(|object| object.meta().is_edge())
            .collect();
        all.sort_by_cached_key(|object| {
            let kind = kinds.iter().position(|kind| *kind == object.kind());
            (kind, object.key().name)
        });
        let mut manifests = Self {
            kinds: Kinds::Istio,
            ..Self::default()
        };
        for object in &all {
            manifests.add(object);
        }
        manifests
    }

    fn add(&mut self, object: &AnyObject) {
        let mut comments = vec![made_from(object)];
        let (file, mut spec) = match object {
            AnyObject::Gateway(gateway) => {
                let hosts = gateway.spec.servers.iter().flat_map(|s| &s.hosts);
                (of_host(hosts.clone().next()), object.spec_json())
            }
            AnyObject::VirtualService(service) => {
                let spec = self.routes(service, &mut comments);
                let spec = serde_json::to_value(spec).unwrap_or_default();
                (of_host(service.spec.hosts.first()), spec)
            }
            _ => (SERVICES.to_owned(), object.spec_json()),
        };
        let key = object.key();
        for copy in credential::rename(&mut spec, &key.name.namespace) {
            comments.push(format!("Needs a copy of the Secret {copy}."));
            self.copies.insert(format!("Secret {copy}"));
        }
        self.put(&file, Manifest::new(&key, spec, &comments));
    }

    /// The routes of a host, closed where they would be open.
    fn routes(
        &mut self,
        service: &Object<VirtualService>,
        comments: &mut Vec<String>,
    ) -> VirtualService {
        let mut spec = service.spec.clone();
        let derived = service.meta.derived.as_ref();
        let host = spec.hosts.join(",");
        for (at, http) in spec.http.iter_mut().enumerate() {
            let name = format!("{}, {}", http.name, matched(http));
            http.r#match = http.r#match.iter().flat_map(by_elements).collect();
            let edge = derived.and_then(|derived| derived.edge.get(&at));
            let mut lost = edge.map(|edge| lost::of(edge, &ISTIO)).unwrap_or_default();
            if derived.is_some_and(|derived| derived.sessions.contains_key(&at)) {
                lost.push(lost::SESSION);
            }
            if lost.is_empty() {
                continue;
            }
            self.lose(&host, &name, &lost, comments);
            if lost.iter().any(|lost| lost.closes) {
                *http = closed(http, &lost);
            }
        }
        spec
    }
}

/// A match by the elements of paths, as those of Ingresses are: Istio's prefixes are texts, so that `/a` has `/ab` as well.
fn by_elements(matched: &HttpMatchRequest) -> Vec<HttpMatchRequest> {
    let uri = matched.uri.as_ref().and_then(|uri| uri.match_type.as_ref());
    let prefix = match uri {
        Some(MatchType::Prefix(prefix)) => prefix.trim_end_matches('/'),
        _ => "",
    };
    if prefix.is_empty() {
        return vec![matched.clone()];
    }
    let with = |uri| HttpMatchRequest {
        uri: Some(StringMatch {
            match_type: Some(uri),
        }),
        ..matched.clone()
    };
    vec![
        with(MatchType::Exact(prefix.to_owned())),
        with(MatchType::Prefix(format!("{prefix}/"))),
    ]
}

/// The route that answers 503 and says why.
fn closed(http: &HttpRoute, lost: &[Lost]) -> HttpRoute {
    let what: Vec<&str> = lost.iter().map(|lost| lost.what).collect();
    let reason = format!("not carried: {}", what.join(", "));
    edge::closed(&http.name, http.r#match.clone(), &reason)
}
