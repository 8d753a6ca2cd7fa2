//! What a route makes of the texts that a request or its answer brings: formats of headers repeat them, and a rewrite puts a
//! text in place of each match in a path. One request must not become many times as long by that.

use std::collections::BTreeMap;

use model::diagnostic::{Diagnostic, Severity};
use model::object::ObjectKey;
use model::work::{EXPANDED_BYTES, STATED_BYTES};
use proto_envoy::envoy::config::core::v3::HeaderValueOption;
use proto_envoy::envoy::config::route::v3::redirect_action::PathRewriteSpecifier;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto_envoy::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use proto_envoy::envoy::config::route::v3::{Route, RouteAction};
use proto_envoy::envoy::r#type::matcher::v3::RegexMatchAndSubstitute;
use validate::text::{expanded_size, rewritten_size};

use crate::judged;
use mesh::finding::code;

const PATH: &str = ":path";

/// The finding about a route whose formats may become too much: what came of it.
pub(super) fn finding(object: Option<ObjectKey>, effect: &str) -> Diagnostic {
    let why = format!(
        "{effect}: the headers that it sets, and the path that it rewrites, may become more than {} MiB long for one request",
        EXPANDED_BYTES >> 20
    );
    Diagnostic {
        object,
        ..Diagnostic::new(code::OVER_LIMIT, Severity::Error, why)
    }
    .help("write how many bytes of a text are wanted, as in `%REQ(x-user):100%`, and let expressions begin with `^`")
}

/// A route that answers 503 in place of another, to the same requests.
pub(super) fn closed(route: &Route) -> Route {
    judged::closed(route, route.r#match.clone().unwrap_or_default())
}

/// Whether what a route makes of one request may become too long.
///
/// Envoy sets headers of a request first for the cluster and then for the route, then rewrites the path, and sets headers of
/// the answer in that order: each step repeats what those before it made.
pub(super) fn exceeds(route: &Route) -> bool {
    let clusters = clusters(route);
    let mut request = Texts::default();
    let mut size = request.set_of_any(clusters, |cluster| {
        cluster.request_headers_to_add.as_slice()
    });
    size = size.saturating_add(request.set(&route.request_headers_to_add));
    let path = path_size(route);
    request.sizes.insert(PATH.to_owned(), path);
    let mut response = Texts {
        request: Some(&request),
        ..Texts::default()
    };
    let of_clusters = response.set_of_any(clusters, |cluster| {
        cluster.response_headers_to_add.as_slice()
    });
    let of_route = response.set(&route.response_headers_to_add);
    let sizes = [of_clusters, of_route, path];
    sizes.into_iter().fold(size, usize::saturating_add) > EXPANDED_BYTES
}

fn clusters(route: &Route) -> &[ClusterWeight] {
    match &route.action {
        Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::WeightedClusters(weighted)),
            ..
        })) => &weighted.clusters,
        _ => &[],
    }
}

/// How long the path is after the route has changed it, in bytes.
fn path_size(route: &Route) -> usize {
    let by_regex = |rewrite: &RegexMatchAndSubstitute| {
        let pattern = rewrite.pattern.as_ref().map_or("", |p| &p.regex);
        rewritten_size(pattern, &rewrite.substitution)
    };
    let by_text = |text: &str| STATED_BYTES.saturating_add(text.len());
    match &route.action {
        Some(Action::Route(action)) => match &action.regex_rewrite {
            Some(rewrite) => by_regex(rewrite),
            None => by_text(&action.prefix_rewrite),
        },
        Some(Action::Redirect(redirect)) => match &redirect.path_rewrite_specifier {
            Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => by_regex(rewrite),
            Some(PathRewriteSpecifier::PrefixRewrite(text)) => by_text(text),
            _ => STATED_BYTES,
        },
        _ => STATED_BYTES,
    }
}

/// How long texts of a request or an answer may be, in bytes.
#[derive(Default)]
struct Texts<'r> {
    /// The headers that the route sets, by their names in small letters.
    sizes: BTreeMap<String, usize>,
    /// The texts of the request that an answer is for.
    request: Option<&'r Texts<'r>>,
}

impl Texts<'_> {
    /// Sets headers, whose formats all see the headers from before; how long they are together.
    fn set(&mut self, headers: &[HeaderValueOption]) -> usize {
        let set = self.expanded(headers);
        let size = set.values().copied().fold(0, usize::saturating_add);
        self.add(set);
        size
    }

    /// Sets the headers of one of several clusters, each of them as long as that of any is; how long those of one are at most.
    fn set_of_any(
        &mut self,
        clusters: &[ClusterWeight],
        headers: impl Fn(&ClusterWeight) -> &[HeaderValueOption],
    ) -> usize {
        let mut longest: BTreeMap<String, usize> = BTreeMap::new();
        let mut most = 0;
        for cluster in clusters {
            let set = self.expanded(headers(cluster));
            most = most.max(set.values().copied().fold(0, usize::saturating_add));
            for (name, size) in set {
                let of_name = longest.entry(name).or_default();
                *of_name = size.max(*of_name);
            }
        }
        self.add(longest);
        most
    }

    /// What formats become, by the names of headers.
    fn expanded(&self, headers: &[HeaderValueOption]) -> BTreeMap<String, usize> {
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for header in headers.iter().filter_map(|option| option.header.as_ref()) {
            let size = expanded_size(&header.value, |name, arguments| {
                self.size_of(name, arguments)
            });
            let of_name = sizes.entry(header.key.to_ascii_lowercase()).or_default();
            *of_name = of_name.saturating_add(size);
        }
        sizes
    }

    fn add(&mut self, set: BTreeMap<String, usize>) {
        for (name, size) in set {
            // What was there may stay before it.
            let of_name = self.sizes.entry(name).or_insert(STATED_BYTES);
            *of_name = of_name.saturating_add(size);
        }
    }

    /// How long the value of a command may be.
    fn size_of(&self, command: &str, arguments: &str) -> usize {
        let request = self.request.unwrap_or(self);
        let either = |texts: &Texts<'_>| {
            let names = arguments.split('?').map(|name| texts.header(name));
            names.max().unwrap_or(STATED_BYTES)
        };
        match command {
            "REQ" | "STREAM_INFO_REQ" => either(request),
            "RESP" | "TRAILER" => either(self),
            "PATH" | "QUERY_PARAM" => {
                let original = request.header("x-envoy-original-path");
                request.header(PATH).max(original)
            }
            // An expression may read any header.
            "CEL" => self.longest().max(request.longest()),
            _ => STATED_BYTES,
        }
    }

    fn header(&self, name: &str) -> usize {
        let size = self.sizes.get(&name.to_ascii_lowercase());
        size.copied().unwrap_or(STATED_BYTES)
    }

    fn longest(&self) -> usize {
        let sizes = self.sizes.values().copied();
        sizes.max().unwrap_or_default().max(STATED_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proto_envoy::envoy::config::core::v3::HeaderValue;
    use proto_envoy::envoy::config::route::v3::WeightedCluster;
    use proto_envoy::envoy::r#type::matcher::v3::RegexMatcher;

    use super::*;

    fn headers(list: &[(&str, &str)]) -> Vec<HeaderValueOption> {
        let header = |(key, value): &(&str, &str)| HeaderValueOption {
            header: Some(HeaderValue {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
                ..HeaderValue::default()
            }),
            ..HeaderValueOption::default()
        };
        list.iter().map(header).collect()
    }

    fn route(request: &[(&str, &str)], response: &[(&str, &str)]) -> Route {
        Route {
            request_headers_to_add: headers(request),
            response_headers_to_add: headers(response),
            ..Route::default()
        }
    }

    fn rewriting(pattern: &str, text: &str, response: &[(&str, &str)]) -> Route {
        let pattern = RegexMatcher {
            regex: pattern.to_owned(),
            ..RegexMatcher::default()
        };
        let action = RouteAction {
            regex_rewrite: Some(RegexMatchAndSubstitute {
                pattern: Some(pattern),
                substitution: text.to_owned(),
            }),
            ..RouteAction::default()
        };
        Route {
            action: Some(Action::Route(action)),
            ..route(&[], response)
        }
    }

    fn weighted(each: &[(&str, &str)], route: Route) -> Route {
        let cluster = || ClusterWeight {
            request_headers_to_add: headers(each),
            ..ClusterWeight::default()
        };
        let weighted = WeightedCluster {
            clusters: vec![cluster(), cluster()],
            ..WeightedCluster::default()
        };
        let action = RouteAction {
            cluster_specifier: Some(ClusterSpecifier::WeightedClusters(weighted)),
            ..RouteAction::default()
        };
        Route {
            action: Some(Action::Route(action)),
            ..route
        }
    }

    #[test]
    fn what_a_route_makes_of_a_request_has_a_bound() {
        let ten = "%REQ(x)%".repeat(10);
        let of_a = "%REQ(A?b)%".repeat(10);
        let of_path = "%REQ(:path)%".repeat(10);
        let cut = "%REQ(x):10%".repeat(1000);
        let values = |count: usize| vec![("a", &*ten); count];
        let text = "a".repeat(40);
        for (why, within) in [
            ("nothing", route(&[], &[])),
            ("60 texts", route(&values(6), &[])),
            ("of both", route(&values(3), &values(3))),
            ("texts that are cut", route(&[("a", &*cut)], &[])),
            (
                "of one of two clusters",
                weighted(&values(4), route(&values(2), &[])),
            ),
            ("a path", rewriting("a", &text, &[("a", "%REQ(x)%")])),
            (
                "a path that stays",
                rewriting("^a", &text, &[("a", &*of_path)]),
            ),
            (
                "what a step sees is from before it",
                route(&[("a", &*ten), ("c", &*of_a)], &[]),
            ),
        ] {
            assert!(!exceeds(&within), "{why}");
        }
        for (why, beyond) in [
            ("70 texts", route(&values(7), &[])),
            ("of both", route(&values(3), &values(4))),
            (
                "of a cluster and the route",
                weighted(&values(4), route(&values(3), &[])),
            ),
            (
                "of what the request was given",
                route(&values(1), &[("c", &*of_a)]),
            ),
            (
                "of what a cluster gave it",
                weighted(&values(1), route(&[("c", &*of_a)], &[])),
            ),
            (
                "of a path that grew",
                rewriting("a", &text, &[("a", &*of_path)]),
            ),
            ("a path", rewriting("a", &text.repeat(10), &[])),
        ] {
            assert!(exceeds(&beyond), "{why}");
        }
    }
}
