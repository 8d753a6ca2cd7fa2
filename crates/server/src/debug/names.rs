//! Which pages there are, and which of istiod's there cannot be.

use super::parameter;

/// The pages, with what each shows.
pub(super) const INDEX: &[(&str, &str)] = &[
    ("adsz", "connected proxies and what they watch"),
    ("analysis", "what is wrong between objects"),
    (
        "ca",
        "which CA signs, and the roots that peers are judged by",
    ),
    (
        "certs",
        "certificates that are ordered by ACME: until when each is valid, when it is renewed, and why one failed",
    ),
    (
        "certz",
        "certificates made for workloads, and the roots; with proxyID=, those that a proxy gets",
    ),
    (
        "clusterz",
        "the configured cluster and the remote ones: which Secret names each, and whether it was read",
    ),
    (
        "authorizationz",
        "AuthorizationPolicies in force, by namespace",
    ),
    (
        "config_dump?proxyID=",
        "everything one proxy should have, as Envoy's admin page prints it; with include_eds, its endpoints as well; with types=cds,lds, these alone",
    ),
    (
        "configz",
        "objects in force, and what is wrong with objects",
    ),
    ("connections", "connected proxies, and from where"),
    (
        "ecdsz?proxyID=",
        "the configurations of extensions that one proxy should have",
    ),
    (
        "edsz?proxyID=",
        "the endpoints that one proxy should have, by cluster",
    ),
    ("endpointShardz", "endpoints by service and source"),
    ("endpointz", "the same as endpointShardz"),
    (
        "engine",
        "figures of the engine: derived values, evaluations, by query",
    ),
    (
        "explain?proxyID=",
        "with type= and name=, the objects that made resources of a proxy; with object=, the resources that an object takes part in",
    ),
    (
        "heap",
        "where memory in use was allocated, for pprof; needs a build with the feature heap-profile",
    ),
    (
        "log",
        "what is logged; POST with level= changes it, as --log takes it",
    ),
    (
        "memory",
        "who holds memory: resources by type, view and service, memos by query, proxies",
    ),
    (
        "mesh",
        "the mesh configuration in force, without tokens and values of headers",
    ),
    (
        "ndsz?proxyID=",
        "the name table that one proxy should have, if it has one",
    ),
    ("inject", "the templates of injection in force"),
    (
        "instancesz",
        "the ports of services that connected proxies serve; with proxyID=, those of one",
    ),
    ("mcsz", "services that clusters export and import"),
    ("networkz", "gateways between networks"),
    (
        "pushcontext",
        "AuthorizationPolicies and gateways between networks",
    ),
    (
        "registries",
        "registries outside of Kubernetes: whether each answers, what is held of it, and why it was lost last",
    ),
    ("registryz", "services"),
    (
        "revisions?after=",
        "the latest revisions: responses they led to, and how long after the change the last was written",
    ),
    ("resourcesz", "the kinds of objects that are read"),
    (
        "sidecarz?proxyID=",
        "what one proxy may see: services by egress listener, DestinationRules, its Sidecar",
    ),
    ("status", "objects with the status that they get"),
    (
        "sources",
        "the sources of configuration: how far each is, and why one failed",
    ),
    (
        "syncz",
        "what was sent to each proxy and what it acknowledged; with namespace=, those of a namespace",
    ),
    (
        "telemetryz?proxyID=",
        "the Telemetry resources in force for one proxy",
    ),
    (
        "writing",
        "what is written into the API, by whom, and how that goes",
    ),
    (
        "warm",
        "what is kept on disk for the next start, and who is served from it",
    ),
];

/// Pages of istiod that have no meaning here, with the reason. What follows `?` has to be asked for by name.
pub(super) const ABSENT: &[(&str, &str)] = &[
    (
        "adsz?push",
        "nothing is pushed on request: every change is sent as it comes, and /debug/syncz shows what was not acknowledged",
    ),
    (
        "ambientz",
        "ztunnels are not served, so no index of their workloads is kept",
    ),
    (
        "cachez",
        "no responses are cached: /debug/engine and /debug/memory tell what is derived and kept",
    ),
    (
        "config_distribution",
        "versions of single objects are not tracked by proxy: /debug/revisions shows which revision was written, /debug/syncz which was acknowledged",
    ),
    (
        "force_disconnect",
        "connections are not closed on request: restart the proxy",
    ),
    (
        "krtz",
        "there are no collections of krt: /debug/engine shows what is derived",
    ),
    (
        "pprof",
        "these are profiles of Go programs: /debug/heap and /debug/memory tell who holds memory",
    ),
    (
        "push_status",
        "the mesh is not pushed as a whole: /debug/configz?findings shows what cannot be honoured, /debug/revisions what was sent",
    ),
];

/// Whether there is a page of that name, or one of istiod that cannot be here.
pub(super) fn is_page(name: &str) -> bool {
    name.is_empty() || list().any(|page| page == name) || absent(name, "").is_some()
}

/// The names of the pages.
pub(super) fn list() -> impl Iterator<Item = &'static str> {
    INDEX.iter().map(|(page, _)| without_query(page))
}

/// Why there cannot be a page.
pub(super) fn absent(name: &str, query: &str) -> Option<&'static str> {
    let is_asked_for = |page: &str| match page.split_once('?') {
        Some((page, wanted)) => page == name && parameter(query, wanted).is_some(),
        None => name.split('/').next() == Some(page),
    };
    let mut all = ABSENT.iter();
    all.find(|(page, _)| is_asked_for(page))
        .map(|(_, why)| *why)
}

fn without_query(page: &str) -> &str {
    page.split_once('?').map_or(page, |(page, _)| page)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The list of istiod 1.32.
    const ISTIOD: [&str; 29] = [
        "adsz",
        "adsz?push=true",
        "ambientz",
        "authorizationz",
        "cachez",
        "cachez?clear=true",
        "cachez?sizes=true",
        "clusterz",
        "config_dump",
        "configz",
        "connections",
        "ecdsz",
        "edsz",
        "endpointShardz",
        "endpointz",
        "inject",
        "instancesz",
        "krtz",
        "mcsz",
        "mesh",
        "ndsz",
        "networkz",
        "push_status",
        "pushcontext",
        "registryz",
        "resourcesz",
        "sidecarz",
        "syncz",
        "telemetryz",
    ];

    #[test]
    fn every_page_of_istiod_is_there_or_says_why_not() {
        for page in ISTIOD {
            let (name, query) = page.split_once('?').unwrap_or((page, ""));
            assert!(is_page(name), "{page}");
            let listed = list().any(|known| known == name);
            assert!(listed || absent(name, query).is_some(), "{page}");
        }
        assert!(!is_page("nosuch"));
        let names: BTreeSet<&str> = list().collect();
        assert_eq!(names.len(), INDEX.len());
    }

    #[test]
    fn what_cannot_be_is_told_by_name_and_query() {
        assert!(absent("adsz", "").is_none());
        assert!(absent("adsz", "push=true").is_some());
        assert!(absent("pprof/heap", "").is_some());
        assert!(absent("pprofile", "").is_none());
    }
}
