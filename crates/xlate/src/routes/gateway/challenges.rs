//! Answers to challenges of certificate authorities, before everything else that a host says over plain text.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::re2::quote;
use proto_envoy::envoy::config::core::v3::DataSource;
use proto_envoy::envoy::config::core::v3::data_source::Specifier;
use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::redirect_action::SchemeRewriteSpecifier;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, RedirectAction, Route, RouteMatch,
};
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto_envoy::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};

use model::challenges::{Answer, PATH};

use super::Host;
use crate::routes::matching::any_request;

/// Gives each answer to the virtual host that takes the requests for its host: that of its name, else the most specific wildcard.
pub(super) fn spread(
    answers: &BTreeMap<Arc<str>, Vec<Answer>>,
    hosts: &mut BTreeMap<String, Host>,
) {
    for (host, of_host) in answers {
        let mut rest = Some(&**host);
        let above = std::iter::from_fn(|| {
            let (_, after) = rest?.split_once('.')?;
            rest = Some(after);
            Some(format!("*.{after}"))
        });
        let mut takers = std::iter::once(host.to_string())
            .chain(above)
            .chain(["*".to_owned()]);
        let taker = takers.find(|domain| hosts.contains_key(domain));
        if let Some(taker) = taker.and_then(|domain| hosts.get_mut(&domain)) {
            taker.answers.extend(of_host.iter().cloned());
        }
    }
}

/// The routes of the answers. Where a host sends everything to HTTPS, they stand before that, as a route.
pub(super) fn routes(answers: &[Answer], domains: &[String], require_tls: bool) -> Vec<Route> {
    let mut routes: Vec<Route> = answers
        .iter()
        .map(|answer| {
            let is_alone = matches!(domains, [only] if **only == *answer.host);
            let headers = (!is_alone).then(|| authority(&answer.host));
            route(
                RouteMatch {
                    path_specifier: Some(PathSpecifier::Path(format!("{PATH}{}", answer.token))),
                    headers: headers.into_iter().collect(),
                    ..RouteMatch::default()
                },
                Action::DirectResponse(DirectResponseAction {
                    status: 200,
                    body: Some(DataSource {
                        specifier: Some(Specifier::InlineString(answer.text.to_string())),
                        ..DataSource::default()
                    }),
                    ..DirectResponseAction::default()
                }),
            )
        })
        .collect();
    if require_tls {
        let secured = RedirectAction {
            scheme_rewrite_specifier: Some(SchemeRewriteSpecifier::HttpsRedirect(true)),
            ..RedirectAction::default()
        };
        routes.push(route(any_request(), Action::Redirect(secured)));
    }
    routes
}

fn route(matched: RouteMatch, action: Action) -> Route {
    Route {
        name: "acme-challenge".to_owned(),
        r#match: Some(matched),
        action: Some(action),
        ..Route::default()
    }
}

/// Requests for a host, with or without a port.
fn authority(host: &str) -> HeaderMatcher {
    let regex = format!("(?i){}(:[0-9]+)?", quote(host));
    HeaderMatcher {
        name: ":authority".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(RegexMatcher {
                regex,
                ..RegexMatcher::default()
            })),
            ..StringMatcher::default()
        })),
        ..HeaderMatcher::default()
    }
}
