//! Routes and virtual hosts that Envoy takes: one that it does not take is closed alone.

use judge::{Domains, Fault, judge};
use prost::{Message, Name};
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteConfiguration, RouteMatch, VirtualHost,
};

/// The status of requests for what is closed.
const UNAVAILABLE: u32 = 503;
/// What stands in place of a name that is not one.
const CLOSED: &str = "closed";

/// Judges a message that has to be encoded for that.
fn judged<M: Message + Name>(message: &M) -> Result<(), Fault> {
    judge(&M::full_name(), &message.encode_to_vec())
}

/// A route that answers 503, in place of an encoded one that Envoy would refuse.
///
/// It takes the requests of the route, and more where Envoy refuses what tells them apart: they could otherwise reach
/// a route behind it.
pub(crate) fn closed_route(route: &Route, encoded: &[u8]) -> Option<(Route, Fault)> {
    let fault = judge(&Route::full_name(), encoded).err()?;
    let matched = sound(route.r#match.clone().unwrap_or_default());
    Some((closed(route, matched), fault))
}

/// A route that answers 503 to these requests, in place of another that takes no more than them.
pub(crate) fn closed(route: &Route, matched: RouteMatch) -> Route {
    let closed = Route {
        name: route.name.clone(),
        r#match: Some(matched),
        metadata: route.metadata.clone(),
        action: Some(unavailable()),
        ..Route::default()
    };
    match judged(&closed) {
        Ok(()) => closed,
        Err(_) => closes_all(),
    }
}

/// A route that answers every request with 503.
pub(crate) fn closes_all() -> Route {
    Route {
        name: CLOSED.to_owned(),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(unavailable()),
        ..Route::default()
    }
}

fn unavailable() -> Action {
    Action::DirectResponse(DirectResponseAction {
        status: UNAVAILABLE,
        body: Some(DataSource {
            specifier: Some(data_source::Specifier::InlineString(
                "refused: this route is not valid".to_owned(),
            )),
            ..DataSource::default()
        }),
        ..DirectResponseAction::default()
    })
}

/// A match without what Envoy refuses of it; it takes the same requests, or more.
fn sound(mut matched: RouteMatch) -> RouteMatch {
    matched.headers.retain(|one| judged(one).is_ok());
    matched.query_parameters.retain(|one| judged(one).is_ok());
    matched.dynamic_metadata.retain(|one| judged(one).is_ok());
    matched.filter_state.retain(|one| judged(one).is_ok());
    matched.cookies.retain(|one| judged(one).is_ok());
    if judged(&matched).is_ok() {
        return matched;
    }
    matched.runtime_fraction = None;
    matched.path_specifier = Some(PathSpecifier::Prefix(beginning(&matched).to_owned()));
    match judged(&matched) {
        Ok(()) => matched,
        Err(_) => closes_all().r#match.unwrap_or_default(),
    }
}

/// What every path begins with that a match takes, at least `/`, without what is wrong with it.
pub(crate) fn beginning(matched: &RouteMatch) -> &str {
    let prefix = match &matched.path_specifier {
        Some(PathSpecifier::SafeRegex(regex)) => literal_start(&regex.regex),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => prefix,
        _ => "",
    };
    match prefix.starts_with('/') {
        true => prefix,
        false => "/",
    }
}

/// What every text begins with that an expression could match, whatever is wrong with the rest of it.
fn literal_start(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    // Another branch begins otherwise, and flags change what letters mean.
    if regex.contains(['|', '\\']) || regex.contains("(?") {
        return "";
    }
    match regex.find(|c| ".+*?()[]{}^$".contains(c)) {
        None => regex,
        // What may be absent is the character before the sign.
        Some(end) if regex[end..].starts_with(['*', '?', '{']) => {
            let kept = regex[..end].char_indices().next_back();
            &regex[..kept.map_or(0, |(at, _)| at)]
        }
        Some(end) => &regex[..end],
    }
}

/// The own fields of a virtual host, encoded; closed where Envoy would refuse them. `None` if it has no domain that is
/// one.
pub(crate) fn head(host: VirtualHost) -> Option<(Vec<u8>, Option<Fault>)> {
    let bytes = host.encode_to_vec();
    let Err(fault) = judge(&VirtualHost::full_name(), &bytes) else {
        return Some((bytes, None));
    };
    let closed = closed_host(host);
    let bytes = closed.encode_to_vec();
    judge(&VirtualHost::full_name(), &bytes).ok()?;
    Some((bytes, Some(fault)))
}

fn closed_host(host: VirtualHost) -> VirtualHost {
    VirtualHost {
        name: match host.name.is_empty() {
            true => CLOSED.to_owned(),
            false => host.name,
        },
        domains: host.domains,
        routes: vec![closes_all()],
        ..VirtualHost::default()
    }
}

/// A whole configuration, as patches left it: what Envoy would refuse of it is closed.
pub(crate) fn configuration(config: RouteConfiguration) -> (Vec<u8>, Vec<Fault>) {
    let mut found = Vec::new();
    let mut config = config;
    let mut domains = Domains::default();
    for (at, host) in config.virtual_hosts.iter_mut().enumerate() {
        host.domains
            .retain(|domain| match domains.take(domain, at) {
                Ok(()) => true,
                Err(fault) => {
                    found.push(fault);
                    false
                }
            });
    }
    config.virtual_hosts.retain(|host| !host.domains.is_empty());
    let bytes = config.encode_to_vec();
    if judge(&RouteConfiguration::full_name(), &bytes).is_ok() {
        return (bytes, found);
    }
    for host in &mut config.virtual_hosts {
        for route in &mut host.routes {
            if let Some((closed, fault)) = closed_route(route, &route.encode_to_vec()) {
                *route = closed;
                found.push(fault);
            }
        }
        if let Err(fault) = judged(host) {
            *host = closed_host(std::mem::take(host));
            found.push(fault);
        }
    }
    if let Err(fault) = judged(&config) {
        found.push(fault);
        config = RouteConfiguration {
            name: config.name,
            virtual_hosts: vec![VirtualHost {
                name: CLOSED.to_owned(),
                domains: vec!["*".to_owned()],
                routes: vec![closes_all()],
                ..VirtualHost::default()
            }],
            ..RouteConfiguration::default()
        };
    }
    (config.encode_to_vec(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_expression_begins_with_stays() {
        for (regex, start) in [
            ("/a", "/a"),
            ("^/api/v[", "/api/v"),
            ("/ab*", "/a"),
            ("/ab{2", "/a"),
            ("/ab+(", "/ab"),
            ("/a(?!b)", ""),
            ("/a|/b[", ""),
            (r"/a\x{100}", ""),
            ("[invalid", ""),
        ] {
            assert_eq!(literal_start(regex), start, "{regex}");
        }
    }
}
