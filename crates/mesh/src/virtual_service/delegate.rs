//! Routes that another VirtualService refines.
//!
//! Istio: pilot/pkg/model/virtualservice.go MergeHTTPRoutes and virtualservice_controller.go, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::Cx;
use model::kinds::istio::VirtualService;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use prost::Message;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{Delegate, HttpMatchRequest, HttpRoute, StringMatch};
use store::{Reads, Snapshot};

use super::weight::{self, Route};
use super::{export_to, resolve};
use crate::limits::{self, Exceeded};

/// The routes of a rule, those of its delegates merged in.
pub(super) struct Merged {
    pub(super) routes: Vec<HttpRoute>,
    /// Which routes of the root answer 503, because they and their delegates have too many matches.
    pub(super) refused: Vec<usize>,
}

/// What merging may cost.
pub(super) struct Budget {
    bytes: limits::Budget,
    steps: limits::Budget,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: limits::Budget::new(limits::RULE_BYTES),
            steps: limits::Budget::new(limits::MERGE_STEPS),
        }
    }
}

/// The routes of a delegate, short names written out.
struct Leaf {
    routes: Vec<HttpRoute>,
    weights: Vec<Route>,
}

/// Puts the routes of its delegates in the place of each route that names one. A delegate that is missing or not
/// exported to the root's namespace takes away the route that names it and no other. Where both together have too many
/// matches, the route of the root stays, for what its own matches take, and answers 503: nothing is reached that was not
/// written, and no later route takes what this one was for.
pub(super) fn merge_all(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    routes: Vec<HttpRoute>,
    from: &mut Vec<ObjectName>,
) -> Merged {
    let mut merged = Merged {
        routes: Vec::with_capacity(routes.len()),
        refused: Vec::new(),
    };
    let mut budget = Budget::default();
    let mut leaves: BTreeMap<ObjectName, Leaf> = BTreeMap::new();
    for (at, mut root) in routes.into_iter().enumerate() {
        let Some(delegate) = root.delegate.take() else {
            merged.routes.push(root);
            continue;
        };
        let Ok(object) = find(cx, namespace, &delegate) else {
            continue;
        };
        let name = &object.meta.name;
        let leaf = leaves.entry(name.clone()).or_insert_with(|| {
            if !from.contains(name) {
                from.push(name.clone());
            }
            let routes = resolved_routes(cx, &object);
            let weights = routes.iter().map(Route::of).collect();
            Leaf { routes, weights }
        });
        let (before, left) = (merged.routes.len(), budget.bytes);
        if merge_leaf(&root, leaf, &mut budget, &mut merged.routes).is_err() {
            merged.routes.truncate(before);
            merged.refused.push(at);
            budget.bytes = left;
            let refused = weight::refused_route(root.name, root.r#match);
            budget.bytes.spend_up_to(Route::of(&refused).total());
            merged.routes.push(refused);
        }
    }
    merged
}

fn merge_leaf(
    root: &HttpRoute,
    leaf: &Leaf,
    budget: &mut Budget,
    merged: &mut Vec<HttpRoute>,
) -> Result<(), Exceeded> {
    let inherited = Route::of(root).rest;
    for (route, weight) in leaf.routes.iter().zip(&leaf.weights) {
        // Comparing is paid for before the route is copied.
        let pairs = root.r#match.len().max(1).saturating_mul(weight.count);
        budget.steps.spend(pairs)?;
        let fixed = Route {
            rest: inherited.saturating_add(weight.rest),
            count: 1,
            matches: 0,
        };
        let mut matching = Matching {
            each: fixed.total(),
            bytes: &mut budget.bytes,
        };
        let Some(matches) = matching.merge(&root.r#match, &route.r#match)? else {
            continue;
        };
        let route = HttpRoute {
            r#match: matches,
            ..route.clone()
        };
        merged.push(merge(root, route));
    }
    Ok(())
}

/// The delegate that a route of `namespace` names. The error says why there is none for it.
pub fn find(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    delegate: &Delegate,
) -> Result<Arc<Object<VirtualService>>, String> {
    let of_delegate = if delegate.namespace.is_empty() {
        namespace.clone()
    } else {
        delegate.namespace.as_str().into()
    };
    let name = ObjectName::new(of_delegate, delegate.name.as_str());
    let Some(object) = cx.get::<VirtualService>(&name) else {
        return Err(format!("there is no VirtualService {name}"));
    };
    if !object.spec.hosts.is_empty() {
        return Err(format!(
            "VirtualService {name} has hosts, so it is no delegate"
        ));
    }
    if !export_to(cx, &object).allows(namespace) {
        return Err(format!(
            "VirtualService {name} is not exported to {namespace}"
        ));
    }
    Ok(object)
}

/// What comparing the matches of routes with those of their delegates is charged; 0 where no route has a delegate.
pub(super) fn steps(cx: &Cx<'_, Snapshot>, namespace: &Namespace, routes: &[HttpRoute]) -> usize {
    let of = |route: &HttpRoute| {
        let Ok(leaf) = find(cx, namespace, route.delegate.as_ref()?) else {
            return Some(0);
        };
        let matches = |route: &HttpRoute| route.r#match.len().max(1);
        let compared: usize = leaf.spec.http.iter().map(matches).sum();
        Some(limits::product([
            matches(route),
            compared,
            limits::MERGE_STEP_BYTES,
        ]))
    };
    routes.iter().filter_map(of).fold(0, usize::saturating_add)
}

fn resolved_routes(cx: &Cx<'_, Snapshot>, object: &Object<VirtualService>) -> Vec<HttpRoute> {
    let mut spec = VirtualService {
        http: object.spec.http.clone(),
        ..VirtualService::default()
    };
    resolve::resolve(&mut spec, object.namespace(), &cx.settings().domain);
    spec.http
}

/// The delegate's route, its matches merged already, with what the root's adds.
pub(super) fn merge(root: &HttpRoute, mut route: HttpRoute) -> HttpRoute {
    route.name = join(&root.name, &route.name);
    macro_rules! inherit {
        ($($field:ident),*) => {$(
            if route.$field.is_none() {
                route.$field.clone_from(&root.$field);
            }
        )*};
    }
    inherit!(
        rewrite,
        direct_response,
        timeout,
        retries,
        fault,
        mirror,
        mirror_percent,
        mirror_percentage,
        cors_policy,
        headers
    );
    if route.mirrors.is_empty() {
        route.mirrors.clone_from(&root.mirrors);
    }
    route
}

fn join(root: &str, leaf: &str) -> String {
    match (root, leaf) {
        ("", leaf) => leaf.to_owned(),
        (root, "") => root.to_owned(),
        (root, leaf) => format!("{root}-{leaf}"),
    }
}

/// Matches being merged.
pub(super) struct Matching<'a> {
    /// What the route weighs for each of its matches.
    pub(super) each: usize,
    pub(super) bytes: &'a mut limits::Budget,
}

impl Matching<'_> {
    /// Every pair of a root's and a delegate's match that can hold together; none where some match of the delegate fits
    /// no match of the root.
    pub(super) fn merge(
        &mut self,
        root: &[HttpMatchRequest],
        leaf: &[HttpMatchRequest],
    ) -> Result<Option<Vec<HttpMatchRequest>>, Exceeded> {
        if root.is_empty() || leaf.is_empty() {
            let only = if root.is_empty() { leaf } else { root };
            for one in only {
                self.pay(one.encoded_len())?;
            }
            if only.is_empty() {
                self.pay(0)?;
            }
            return Ok(Some(only.to_vec()));
        }
        let sizes: Vec<usize> = root.iter().map(Message::encoded_len).collect();
        let mut merged = Vec::new();
        for leaf in leaf {
            let size = leaf.encoded_len();
            let before = merged.len();
            for (root, root_size) in root.iter().zip(&sizes) {
                if !conflict(root, leaf) {
                    self.pay(root_size.saturating_add(size))?;
                    merged.push(merge_match(root, leaf));
                }
            }
            if merged.len() == before {
                return Ok(None);
            }
        }
        Ok(Some(merged))
    }

    fn pay(&mut self, size: usize) -> Result<(), Exceeded> {
        self.bytes.spend(self.each.saturating_add(size))
    }
}

fn merge_match(root: &HttpMatchRequest, leaf: &HttpMatchRequest) -> HttpMatchRequest {
    fn union<V: Clone>(
        root: &BTreeMap<String, V>,
        leaf: &BTreeMap<String, V>,
    ) -> BTreeMap<String, V> {
        let mut all = root.clone();
        all.extend(leaf.iter().map(|(k, v)| (k.clone(), v.clone())));
        all
    }
    fn either<T: Clone>(leaf: &Option<T>, root: &Option<T>) -> Option<T> {
        leaf.as_ref().or(root.as_ref()).cloned()
    }
    fn stated<'a>(leaf: &'a str, root: &'a str) -> String {
        if leaf.is_empty() { root } else { leaf }.to_owned()
    }
    HttpMatchRequest {
        name: join(&root.name, &leaf.name),
        uri: either(&leaf.uri, &root.uri),
        scheme: either(&leaf.scheme, &root.scheme),
        method: either(&leaf.method, &root.method),
        authority: either(&leaf.authority, &root.authority),
        headers: union(&root.headers, &leaf.headers),
        without_headers: union(&root.without_headers, &leaf.without_headers),
        query_params: union(&root.query_params, &leaf.query_params),
        port: if leaf.port == 0 { root.port } else { leaf.port },
        source_labels: union(&root.source_labels, &leaf.source_labels),
        source_namespace: stated(&leaf.source_namespace, &root.source_namespace),
        gateways: if leaf.gateways.is_empty() {
            root.gateways.clone()
        } else {
            leaf.gateways.clone()
        },
        stat_prefix: stated(&leaf.stat_prefix, &root.stat_prefix),
        ignore_uri_case: leaf.ignore_uri_case,
    }
}

/// Whether no request can satisfy both, or the delegate's is not within the root's.
pub(super) fn conflict(root: &HttpMatchRequest, leaf: &HttpMatchRequest) -> bool {
    let text = |root: Option<&StringMatch>, leaf: Option<&StringMatch>| {
        root.zip(leaf)
            .is_some_and(|(root, leaf)| text_conflict(root, leaf))
    };
    let texts = |root: &BTreeMap<String, StringMatch>, leaf: &BTreeMap<String, StringMatch>| {
        leaf.iter().any(|(k, v)| text(root.get(k), Some(v)))
    };
    text(root.uri.as_ref(), leaf.uri.as_ref())
        || text(root.scheme.as_ref(), leaf.scheme.as_ref())
        || text(root.method.as_ref(), leaf.method.as_ref())
        || text(root.authority.as_ref(), leaf.authority.as_ref())
        || texts(&root.headers, &leaf.headers)
        || texts(&root.without_headers, &leaf.without_headers)
        || texts(&root.query_params, &leaf.query_params)
        || root.ignore_uri_case != leaf.ignore_uri_case
        || (root.port > 0 && leaf.port > 0 && root.port != leaf.port)
        || (!root.source_namespace.is_empty() && leaf.source_namespace != root.source_namespace)
        || leaf
            .source_labels
            .iter()
            .any(|(k, v)| root.source_labels.get(k).is_some_and(|r| r != v))
        || (!root.gateways.is_empty()
            && !leaf.gateways.is_empty()
            && (root.gateways.len() < leaf.gateways.len()
                || leaf.gateways.iter().any(|g| !root.gateways.contains(g))))
}

fn text_conflict(root: &StringMatch, leaf: &StringMatch) -> bool {
    // An empty text says nothing, whatever its kind.
    fn stated(m: &StringMatch) -> Option<&MatchType> {
        m.match_type.as_ref().filter(|m| match m {
            MatchType::Exact(t) | MatchType::Prefix(t) | MatchType::Regex(t) => !t.is_empty(),
        })
    }
    match (stated(root), stated(leaf)) {
        (Some(MatchType::Exact(root)), Some(MatchType::Exact(leaf))) => root != leaf,
        (Some(MatchType::Prefix(root)), Some(MatchType::Prefix(leaf) | MatchType::Exact(leaf))) => {
            !leaf.starts_with(root.as_str())
        }
        _ => true,
    }
}
