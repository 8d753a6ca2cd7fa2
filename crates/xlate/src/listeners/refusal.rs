//! What a chain does when a filter that protects it cannot be loaded by the proxy: it refuses everything.

use std::collections::BTreeSet;

use mesh::capabilities::Loadable;
use policy::traffic_extension::Phases;
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::config::route::v3 as route;

const FORBIDDEN: u32 = 403;

/// Takes the filters out that the proxy cannot load, and names their extensions.
pub fn take_missing<F>(
    loadable: &Loadable,
    filters: &mut Phases<F>,
    name: impl Fn(&F) -> &str,
) -> Vec<String> {
    let mut missing = Vec::new();
    for list in [&mut filters.custom, &mut filters.authn, &mut filters.authz] {
        list.retain(|filter| {
            let known = loadable.has(name(filter));
            if !known {
                missing.push(name(filter).to_owned());
            }
            known
        });
    }
    missing.sort();
    missing.dedup();
    missing
}

/// The extensions of filters that the proxy cannot load.
pub fn missing<'f, F>(
    loadable: &Loadable,
    filters: &'f Phases<F>,
    name: impl Fn(&'f F) -> &'f str,
) -> BTreeSet<&'f str> {
    let lists = [&filters.custom, &filters.authn, &filters.authz];
    let names = lists.into_iter().flatten().map(name);
    names.filter(|name| !loadable.has(name)).collect()
}

/// Routes that refuse every request, and say which extensions are missing.
pub fn routes(missing: &[String]) -> route::RouteConfiguration {
    let text = format!("refused: this proxy lacks {}", missing.join(", "));
    let response = route::DirectResponseAction {
        status: FORBIDDEN,
        body: Some(DataSource {
            specifier: Some(data_source::Specifier::InlineString(text)),
            ..Default::default()
        }),
        ..Default::default()
    };
    let everything = route::Route {
        name: "refused".to_owned(),
        r#match: Some(route::RouteMatch {
            path_specifier: Some(route::route_match::PathSpecifier::Prefix("/".to_owned())),
            ..Default::default()
        }),
        action: Some(route::route::Action::DirectResponse(response)),
        ..Default::default()
    };
    route::RouteConfiguration {
        name: "refused".to_owned(),
        virtual_hosts: vec![route::VirtualHost {
            name: "refused".to_owned(),
            domains: vec!["*".to_owned()],
            routes: vec![everything],
            ..Default::default()
        }],
        validate_clusters: Some(false),
        ..Default::default()
    }
}
