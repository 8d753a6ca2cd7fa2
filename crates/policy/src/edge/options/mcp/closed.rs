//! What is closed at a proxy without Higress's library: requests that servers inside of the gateway would answer, or that something
//! has to answer in the place of a server which does not speak MCP. Whatever else has their path would take them for its own.
//!
//! Which requests a server and a rule are for is the library's affair, and the same here.
//!
//! Higress: plugins/golang-filter/mcp-session/common/match.go, 2.1. A host that is not stated is any, as it was up to 2.1.5; later
//! it is none.

use model::diagnostic::Severity;
use model::edge::McpEntry;
use model::re2::quote;
use proto_envoy::envoy::config::core::v3::DataSource;
use proto_envoy::envoy::config::core::v3::data_source::Specifier;
use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, Route, RouteMatch,
};
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto_envoy::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use validate::text::re2;

use super::super::Wrong;
use super::{MatchRule, McpServers, SSE, STREAMABLE};
use crate::edge::can::GO;

/// The name of routes that close.
const ROUTE: &str = "mcp-closed";
/// How much is told of one section.
const MOST_TOLD: usize = 32;

/// Requests that are closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closed {
    /// For which hosts.
    hosts: Vec<Hosts>,
    /// For which paths.
    path: Option<PathSpecifier>,
}

/// Hosts, in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Hosts {
    Ending(String),
    Beginning(String),
    One(String),
}

/// How many of the requests for a host are for a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    Some,
    None,
}

impl Hosts {
    fn read(pattern: &str) -> Self {
        let pattern = match pattern {
            "" => "*".to_owned(),
            stated => stated.to_ascii_lowercase(),
        };
        if let Some(end) = pattern.strip_prefix('*') {
            Self::Ending(end.to_owned())
        } else if let Some(begin) = pattern.strip_suffix('*') {
            Self::Beginning(begin.to_owned())
        } else {
            Self::One(pattern)
        }
    }

    /// Of the requests for a domain of a virtual host.
    fn share_of(&self, domain: &str) -> Share {
        let all_or = |all: bool, other: Share| if all { Share::All } else { other };
        let some = |some: bool| if some { Share::Some } else { Share::None };
        match (domain.strip_prefix('*'), self) {
            (None, Self::Ending(end)) => all_or(domain.ends_with(&**end), Share::None),
            (None, Self::Beginning(begin)) => all_or(domain.starts_with(&**begin), Share::None),
            (None, Self::One(one)) => all_or(domain == one, Share::None),
            (Some(rest), Self::Ending(end)) => {
                all_or(rest.ends_with(&**end), some(end.ends_with(rest)))
            }
            (Some(_), Self::Beginning(_)) => Share::Some,
            (Some(rest), Self::One(one)) => some(one.ends_with(rest)),
        }
    }

    /// Of the requests for all domains of a virtual host.
    fn share_of_all(&self, domains: &[String]) -> Share {
        let mut shares = domains.iter().map(|domain| self.share_of(domain));
        let first = shares.next().unwrap_or(Share::None);
        match shares.all(|share| share == first) {
            true => first,
            false => Share::Some,
        }
    }

    fn text(&self) -> &str {
        let (Self::Ending(text) | Self::Beginning(text) | Self::One(text)) = self;
        text
    }

    fn authority(&self) -> HeaderMatcher {
        let host = match self {
            Self::Ending(end) => format!(".*{}", quote(end)),
            Self::Beginning(begin) => format!("{}.*", quote(begin)),
            Self::One(one) => quote(one),
        };
        HeaderMatcher {
            name: ":authority".to_owned(),
            header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
                match_pattern: Some(MatchPattern::SafeRegex(regex(format!(
                    "(?i){host}(:[0-9]+)?"
                )))),
                ..StringMatcher::default()
            })),
            ..HeaderMatcher::default()
        }
    }
}

impl Closed {
    fn new<'a>(hosts: impl IntoIterator<Item = &'a str>, compares: &str, path: &str) -> Self {
        Self {
            hosts: hosts.into_iter().map(Hosts::read).collect(),
            path: specifier(compares, path),
        }
    }

    /// What its routes weigh at most in a virtual host, if each weighs so much beside what it says.
    pub fn weight(&self, of_route: usize) -> usize {
        self.weigh(&self.hosts, of_route)
    }

    /// What its routes weigh in a virtual host, if each weighs so much beside what it says.
    pub fn weight_in(&self, domains: &[String], of_route: usize) -> usize {
        let hosts = self.hosts.iter();
        self.weigh(
            hosts.filter(|h| h.share_of_all(domains) != Share::None),
            of_route,
        )
    }

    fn weigh<'a>(&self, hosts: impl IntoIterator<Item = &'a Hosts>, of_route: usize) -> usize {
        let path = match &self.path {
            Some(PathSpecifier::Path(path) | PathSpecifier::Prefix(path)) => path.len(),
            Some(PathSpecifier::SafeRegex(regex)) => regex.regex.len(),
            _ => 0,
        };
        let hosts = hosts.into_iter();
        hosts.map(|host| host.text().len() + path + of_route).sum()
    }

    /// The routes of a virtual host that close them, as far as they are for it.
    pub fn routes(&self, domains: &[String]) -> Vec<Route> {
        let mut headers = Vec::new();
        for host in &self.hosts {
            match host.share_of_all(domains) {
                Share::None => {}
                Share::Some => headers.push(vec![host.authority()]),
                Share::All => {
                    headers = vec![Vec::new()];
                    break;
                }
            }
        }
        let matched = headers.into_iter().map(|headers| RouteMatch {
            path_specifier: self.path.clone(),
            headers,
            ..RouteMatch::default()
        });
        matched.map(refusal).collect()
    }
}

/// A route that closes everything.
pub fn whole() -> Route {
    refusal(RouteMatch {
        path_specifier: specifier("prefix", ""),
        ..RouteMatch::default()
    })
}

fn refusal(matched: RouteMatch) -> Route {
    let why = format!("refused: this proxy has no {GO}");
    Route {
        name: ROUTE.to_owned(),
        r#match: Some(matched),
        action: Some(Action::DirectResponse(DirectResponseAction {
            status: 503,
            body: Some(DataSource {
                specifier: Some(Specifier::InlineString(why)),
                ..DataSource::default()
            }),
            ..DirectResponseAction::default()
        })),
        ..Route::default()
    }
}

fn regex(regex: String) -> RegexMatcher {
    RegexMatcher {
        regex,
        ..RegexMatcher::default()
    }
}

fn specifier(compares: &str, path: &str) -> Option<PathSpecifier> {
    if path.is_empty() {
        return Some(PathSpecifier::Prefix("/".to_owned()));
    }
    Some(match compares {
        "exact" => PathSpecifier::Path(path.to_owned()),
        "prefix" => PathSpecifier::Prefix(path.to_owned()),
        "suffix" => PathSpecifier::SafeRegex(regex(format!(".*{}", quote(path)))),
        "contains" => PathSpecifier::SafeRegex(regex(format!(".*{}.*", quote(path)))),
        _ => PathSpecifier::SafeRegex(regex(format!(".*(?:{path}).*"))),
    })
}

/// Whether Envoy can compare paths as a rule says.
pub(super) fn is_sound(rule: &MatchRule) -> Result<(), String> {
    if rule.path_match == "regex" {
        re2(&rule.path).map_err(|why| why.to_string())?;
    }
    match specifier(&rule.path_match, &rule.path) {
        Some(PathSpecifier::SafeRegex(regex)) => re2(&regex.regex).map_err(|why| why.to_string()),
        _ => Ok(()),
    }
}

impl McpServers {
    /// What is closed at a proxy without the library; `entries` is what annotations tell it.
    pub fn closed<'a>(&self, entries: impl Iterator<Item = &'a McpEntry>) -> Vec<Closed> {
        if !self.enable {
            return Vec::new();
        }
        let of_servers = self.servers.iter().map(|server| {
            let stated = server.domain_list.iter().map(|domain| &**domain);
            let any = server.domain_list.is_empty().then_some("");
            Closed::new(stated.chain(any), "prefix", &server.path)
        });
        let rules = self.match_list.iter();
        let rules = rules.filter(|rule| self.enable_user_level_server || !rule.speaks());
        let rules = rules.map(|rule| Closed::new([&*rule.domain], &rule.path_match, &rule.path));
        let entries = entries.filter(|_| self.enable_user_level_server);
        let of_entries = entries.map(|entry| {
            let domains = entry.domains.iter().map(|domain| &**domain);
            Closed::new(domains, entry.compares, &entry.path)
        });
        of_servers.chain(rules).chain(of_entries).collect()
    }

    /// What is told of the section for a proxy without the library: the field, and what helps.
    pub fn lacking(&self) -> Vec<(Severity, Wrong, Option<String>)> {
        if !self.enable {
            return Vec::new();
        }
        let error = |at: String, what: &str, path: &str| {
            let why = format!("{what}needs {GO}, which the proxy lacks: requests{path} get 503");
            (Severity::Error, Wrong::new(at, why), None)
        };
        let mut told = Vec::new();
        if self.enable_user_level_server {
            let at = "mcpServer.enable_user_level_server".to_owned();
            told.push(error(
                at,
                "",
                " for servers of `match_list` and of annotations",
            ));
        }
        for (place, server) in self.servers.iter().enumerate() {
            let at = format!("mcpServer.servers[{place}]");
            told.push(error(
                at,
                "is inside of the gateway and ",
                &format!(" for {:?}", server.path),
            ));
        }
        for (place, rule) in self.match_list.iter().enumerate() {
            let at = format!("mcpServer.match_list[{place}]");
            let path = format!(" for {:?}", rule.path);
            if !rule.speaks() {
                told.push(error(
                    at,
                    "is for a server that does not speak MCP and ",
                    &path,
                ));
            } else if !self.enable_user_level_server {
                let why = format!(
                    "has no effect, as the proxy lacks {GO}: requests{path} go where routes send them"
                );
                told.push((Severity::Warning, Wrong::new(at, why), Some(rule.instead())));
            }
        }
        told.truncate(MOST_TOLD);
        told
    }
}

impl MatchRule {
    /// Whether the backend speaks MCP.
    fn speaks(&self) -> bool {
        matches!(&*self.upstream, SSE | STREAMABLE)
    }

    /// What does the same on any Envoy: a route that leads to the server, and keeps sessions.
    fn instead(&self) -> String {
        format!(
            "annotate the Ingress that leads to it: `higress.io/mcp-server: \"true\"` and \
             `higress.io/mcp-server-upstream-type: {}`",
            self.upstream
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hosts that a route is for, by the domains of virtual hosts.
    fn taken(pattern: &str, domains: &[&str]) -> &'static str {
        let domains: Vec<String> = domains.iter().map(|d| (*d).to_owned()).collect();
        match &*Closed::new([pattern], "prefix", "/x").routes(&domains) {
            [] => "none",
            [route] => match route.r#match.as_ref().is_some_and(|m| m.headers.is_empty()) {
                true => "all",
                false => "some",
            },
            _ => "several",
        }
    }

    #[test]
    fn a_pattern_is_of_hosts_as_the_library_compares_them() {
        for (pattern, domains, wanted) in [
            ("", ["a.test"].as_slice(), "all"),
            ("*", &["*"], "all"),
            ("a.test", &["A.test"], "none"),
            ("A.test", &["a.test"], "all"),
            ("a.test", &["b.test"], "none"),
            ("a.test", &["a.test", "b.test"], "some"),
            ("a.test", &["*.test"], "some"),
            ("a.test", &["*.other"], "none"),
            ("a.test", &["*"], "some"),
            ("*.test", &["a.test"], "all"),
            ("*.test", &["*.b.test"], "all"),
            ("*.b.test", &["*.test"], "some"),
            ("*.test", &["*.other"], "none"),
            ("a.*", &["a.test"], "all"),
            ("a.*", &["b.test"], "none"),
            ("a.*", &["*.test"], "some"),
        ] {
            assert_eq!(taken(pattern, domains), wanted, "{pattern} of {domains:?}");
        }
    }
}
