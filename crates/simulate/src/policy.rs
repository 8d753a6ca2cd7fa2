//! Whether the policies of a proxy let a request pass: its RBAC filters, as far as a call says what they look at.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use prost_types::Any;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::listener::v3::FilterChain;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::rbac::v3::permission::Rule;
use proto_envoy::envoy::config::rbac::v3::principal::Identifier;
use proto_envoy::envoy::config::rbac::v3::rbac::Action;
use proto_envoy::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac};
use proto_envoy::envoy::config::route::v3::FilterConfig;
use proto_envoy::envoy::extensions::filters::http::rbac::v3::{Rbac as HttpRbac, RbacPerRoute};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use proto_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use proto_envoy::envoy::r#type::matcher::v3::{
    MetadataMatcher, PathMatcher, StringMatcher, path_matcher,
};

use crate::call::{Call, Tls};
use crate::matcher::{header, string};
use crate::walk::unpack;

/// What the policies of a proxy say of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// They let it pass, or there are none.
    #[default]
    Allowed,
    /// They do not: the rule that denies it or, where none allows it, those that could have.
    Denied(Vec<String>),
    /// That depends on what the call does not say, rule by rule.
    Depends(Vec<String>),
}

impl Verdict {
    /// This one, and that of a further filter.
    pub(crate) fn and(self, further: Verdict) -> Verdict {
        match (self, further) {
            (Self::Denied(why), _) | (_, Self::Denied(why)) => Self::Denied(why),
            (Self::Depends(mut on), Self::Depends(further)) => {
                on.extend(further);
                Self::Depends(on)
            }
            (Self::Depends(on), _) | (_, Self::Depends(on)) => Self::Depends(on),
            (Self::Allowed, Self::Allowed) => Self::Allowed,
        }
    }
}

/// Whether something holds, or what that depends on.
pub(crate) type Holds = Result<bool, &'static str>;

const CLIENT: &str = "the address of the client";
pub(crate) const OTHER_FILTERS: &str = "what other filters know";

/// What is said of a connection before anything of it is read.
pub(crate) fn of_connection(chain: &FilterChain, call: &Call) -> Verdict {
    let rules = chain.filters.iter().filter_map(|f| match &f.config_type {
        Some(ConfigType::TypedConfig(any)) => unpack::<NetworkRbac>(any)?.rules,
        _ => None,
    });
    combined(rules.map(|rules| judge(&rules, call)))
}

/// What is said of a request; `levels` is what its route, virtual host and route configuration say of filters, in this order.
pub(crate) fn of_request(
    manager: &HttpConnectionManager,
    levels: &[&BTreeMap<String, Any>],
    call: &Call,
) -> Verdict {
    let rules = manager.http_filters.iter().filter_map(|f| rules(f, levels));
    combined(rules.map(|rules| judge(&rules, call)))
}

fn combined(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.fold(Verdict::Allowed, Verdict::and)
}

/// The rules of a filter, if it is one with rules and acts on the request.
fn rules(filter: &HttpFilter, levels: &[&BTreeMap<String, Any>]) -> Option<Rbac> {
    let Some(http_filter::ConfigType::TypedConfig(config)) = &filter.config_type else {
        return None;
    };
    let own = unpack::<HttpRbac>(config)?;
    let here = match said(filter, levels) {
        Said::Off => return None,
        Said::Own => None,
        Said::Here(here) => unpack::<RbacPerRoute>(&here),
    };
    match here {
        Some(here) => here.rbac?.rules,
        None => own.rules,
    }
}

/// What is said of a filter for a request.
pub(crate) enum Said {
    /// It does not see the request.
    Off,
    /// Nothing but its own configuration.
    Own,
    /// This.
    Here(Any),
}

/// What the levels say of a filter.
pub(crate) fn said(filter: &HttpFilter, levels: &[&BTreeMap<String, Any>]) -> Said {
    let mut stated = levels.iter().filter_map(|level| level.get(&filter.name));
    let Some(stated) = stated.next() else {
        return match filter.disabled {
            true => Said::Off,
            false => Said::Own,
        };
    };
    match unpack::<FilterConfig>(stated) {
        Some(wrapped) if wrapped.disabled => Said::Off,
        Some(wrapped) => wrapped.config.map_or(Said::Own, Said::Here),
        None => Said::Here(stated.clone()),
    }
}

fn judge(rbac: &Rbac, call: &Call) -> Verdict {
    let action = rbac.action();
    if action == Action::Log {
        return Verdict::Allowed;
    }
    let mut unknown = Vec::new();
    for (name, policy) in &rbac.policies {
        match (matches(policy, call), action) {
            (Ok(true), Action::Deny) => return Verdict::Denied(vec![format!("{name} denies it")]),
            (Ok(true), _) => return Verdict::Allowed,
            (Ok(false), _) => {}
            (Err(what), _) => unknown.push(format!("{name} depends on {what}")),
        }
    }
    match (unknown.is_empty(), action) {
        (false, _) => Verdict::Depends(unknown),
        (true, Action::Allow) => {
            let names = rbac.policies.keys();
            Verdict::Denied(
                names
                    .map(|name| format!("{name} does not allow it"))
                    .collect(),
            )
        }
        (true, _) => Verdict::Allowed,
    }
}

/// Whether a rule is about a request.
pub(crate) fn matches(policy: &Policy, call: &Call) -> Holds {
    let has_condition = policy.condition.is_some() || policy.checked_condition.is_some();
    let parts = [
        any(policy.permissions.iter().map(|p| permits(p, call))),
        any(policy.principals.iter().map(|p| is_client(p, call))),
        match has_condition {
            true => Err("an expression"),
            false => Ok(true),
        },
    ];
    all(parts.into_iter())
}

fn all(parts: impl Iterator<Item = Holds>) -> Holds {
    let mut unknown = None;
    for part in parts {
        match part {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(what) => unknown = unknown.or(Some(what)),
        }
    }
    unknown.map_or(Ok(true), Err)
}

/// Whether any of several holds.
pub(crate) fn any(parts: impl Iterator<Item = Holds>) -> Holds {
    all(parts.map(not)).map(|none| !none)
}

fn not(part: Holds) -> Holds {
    part.map(|holds| !holds)
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `metadata`"
)]
fn permits(permission: &Permission, call: &Call) -> Holds {
    let Some(rule) = &permission.rule else {
        return Ok(false);
    };
    match rule {
        Rule::AndRules(set) => all(set.rules.iter().map(|rule| permits(rule, call))),
        Rule::OrRules(set) => any(set.rules.iter().map(|rule| permits(rule, call))),
        Rule::NotRule(rule) => not(permits(rule, call)),
        Rule::Any(holds) => Ok(*holds),
        Rule::Header(wanted) => Ok(header(wanted, call)),
        Rule::UrlPath(wanted) => Ok(path(wanted, call)),
        Rule::DestinationIp(range) => within(range, call.address, "the address that it is sent to"),
        Rule::DestinationPort(port) => Ok(*port == u32::from(call.port)),
        Rule::DestinationPortRange(range) => {
            Ok((range.start..range.end).contains(&i32::from(call.port)))
        }
        Rule::Metadata(wanted) => metadata(wanted, call),
        Rule::RequestedServerName(wanted) => Ok(string(wanted, &call.sni)),
        Rule::UriTemplate(_) => Err("a template of paths"),
        Rule::Matcher(_) | Rule::SourcedMetadata(_) => Err(OTHER_FILTERS),
    }
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `metadata`"
)]
fn is_client(principal: &Principal, call: &Call) -> Holds {
    let Some(identifier) = &principal.identifier else {
        return Ok(false);
    };
    match identifier {
        Identifier::AndIds(set) => all(set.ids.iter().map(|id| is_client(id, call))),
        Identifier::OrIds(set) => any(set.ids.iter().map(|id| is_client(id, call))),
        Identifier::NotId(id) => not(is_client(id, call)),
        Identifier::Any(holds) => Ok(*holds),
        Identifier::Authenticated(wanted) => identity(wanted.principal_name.as_ref(), call),
        Identifier::SourceIp(range) | Identifier::DirectRemoteIp(range) => {
            within(range, call.client.address, CLIENT)
        }
        Identifier::RemoteIp(_) if call.header("x-forwarded-for").is_some() => {
            Err("which proxies are trusted")
        }
        Identifier::RemoteIp(range) => within(range, call.client.address, CLIENT),
        Identifier::Header(wanted) => Ok(header(wanted, call)),
        Identifier::UrlPath(wanted) => Ok(path(wanted, call)),
        Identifier::Metadata(wanted) => metadata(wanted, call),
        Identifier::FilterState(_) | Identifier::SourcedMetadata(_) | Identifier::Custom(_) => {
            Err(OTHER_FILTERS)
        }
    }
}

/// Whether the certificate of the client has such a name. Who has none is nobody.
fn identity(wanted: Option<&StringMatcher>, call: &Call) -> Holds {
    match (call.tls, wanted, &call.client.identity) {
        (Tls::None | Tls::Simple, ..) => Ok(false),
        (Tls::Mesh, None, _) => Ok(true),
        (Tls::Mesh, Some(wanted), Some(identity)) => Ok(string(wanted, identity)),
        (Tls::Mesh, Some(_), None) => Err("who the client is"),
    }
}

/// What a token said is known where there can be none: it may stand in any header or parameter.
fn metadata(wanted: &MetadataMatcher, call: &Call) -> Holds {
    let of_proxy = |(name, _): &(String, String)| name == "x-forwarded-proto";
    match call.headers.iter().all(of_proxy) && !call.path.contains('?') {
        true => Ok(wanted.invert),
        false => Err("the claims of a token"),
    }
}

fn path(wanted: &PathMatcher, call: &Call) -> bool {
    match &wanted.rule {
        Some(path_matcher::Rule::Path(wanted)) => string(wanted, call.bare_path()),
        None => false,
    }
}

fn within(range: &CidrRange, address: Option<IpAddr>, what: &'static str) -> Holds {
    let address = address.ok_or(what)?;
    let length = u8::try_from(range.prefix_len.unwrap_or(0)).unwrap_or(u8::MAX);
    let network = range.address_prefix.parse::<IpAddr>().ok();
    let network = network.and_then(|network| IpNet::new(network, length).ok());
    Ok(network.is_some_and(|network| network.contains(&address)))
}

#[cfg(test)]
mod tests {
    use proto_envoy::envoy::config::rbac::v3::principal::{Authenticated, Set};
    use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

    use super::*;
    use crate::call::Client;

    fn exact(text: &str) -> StringMatcher {
        StringMatcher {
            match_pattern: Some(MatchPattern::Exact(text.to_owned())),
            ..StringMatcher::default()
        }
    }

    /// Rules with one policy: for a port, and for a client of an identity from a network.
    fn rbac(action: Action) -> Rbac {
        let id = |identifier| Principal {
            identifier: Some(identifier),
        };
        let from = Identifier::AndIds(Set {
            ids: vec![
                id(Identifier::Authenticated(Authenticated {
                    principal_name: Some(exact("spiffe://td/ns/shop/sa/front")),
                })),
                id(Identifier::DirectRemoteIp(CidrRange {
                    address_prefix: "10.0.0.0".to_owned(),
                    prefix_len: Some(8),
                })),
            ],
        });
        let policy = Policy {
            permissions: vec![Permission {
                rule: Some(Rule::DestinationPort(80)),
            }],
            principals: vec![id(from)],
            ..Policy::default()
        };
        Rbac {
            action: action.into(),
            policies: [("p".to_owned(), policy)].into(),
            ..Rbac::default()
        }
    }

    fn call(port: u16, tls: Tls, identity: Option<&str>, address: Option<&str>) -> Call {
        Call {
            port,
            tls,
            client: Client {
                identity: identity.map(str::to_owned),
                address: address.and_then(|a| a.parse().ok()),
            },
            ..Call::default()
        }
    }

    #[test]
    fn a_rule_is_asked_as_far_as_the_call_says_what_it_looks_at() {
        let front = Some("spiffe://td/ns/shop/sa/front");
        let allowed = |call: &Call| judge(&rbac(Action::Allow), call);
        let refused = Verdict::Denied(vec!["p does not allow it".to_owned()]);
        let whole = call(80, Tls::Mesh, front, Some("10.1.2.3"));
        assert_eq!(allowed(&whole), Verdict::Allowed);
        assert_eq!(allowed(&call(81, Tls::Mesh, None, None)), refused);
        assert_eq!(allowed(&call(80, Tls::None, None, None)), refused);
        assert_eq!(
            allowed(&call(80, Tls::Mesh, front, Some("11.0.0.1"))),
            refused
        );
        assert_eq!(
            allowed(&call(80, Tls::Mesh, None, Some("10.1.2.3"))),
            Verdict::Depends(vec!["p depends on who the client is".to_owned()])
        );
        assert_eq!(
            allowed(&call(80, Tls::Mesh, front, None)),
            Verdict::Depends(vec![format!("p depends on {CLIENT}")])
        );
        assert_eq!(
            judge(&rbac(Action::Deny), &whole),
            Verdict::Denied(vec!["p denies it".to_owned()])
        );
        let other = call(81, Tls::Mesh, front, None);
        assert_eq!(judge(&rbac(Action::Deny), &other), Verdict::Allowed);
        assert_eq!(judge(&rbac(Action::Log), &other), Verdict::Allowed);
        let nobody = Rbac::default();
        assert_eq!(judge(&nobody, &whole), Verdict::Denied(Vec::new()));
    }

    #[test]
    fn a_route_says_otherwise_or_turns_a_filter_off() {
        let packed = |name: &str, value: Vec<u8>| Any {
            type_url: format!("type.googleapis.com/{name}"),
            value,
        };
        let own = HttpRbac {
            rules: Some(Rbac::default()),
            ..HttpRbac::default()
        };
        let config = packed(
            "envoy.extensions.filters.http.rbac.v3.RBAC",
            prost::Message::encode_to_vec(&own),
        );
        let filter = HttpFilter {
            name: "rbac".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(config)),
            ..HttpFilter::default()
        };
        let of = |filter: &HttpFilter, levels: &[&BTreeMap<String, Any>]| rules(filter, levels);
        assert_eq!(of(&filter, &[]), Some(Rbac::default()));
        let here = RbacPerRoute {
            rbac: Some(HttpRbac {
                rules: Some(rbac(Action::Deny)),
                ..HttpRbac::default()
            }),
        };
        let here = packed(
            "envoy.extensions.filters.http.rbac.v3.RBACPerRoute",
            prost::Message::encode_to_vec(&here),
        );
        let route = BTreeMap::from([("rbac".to_owned(), here)]);
        assert_eq!(of(&filter, &[&route]), Some(rbac(Action::Deny)));
        let off = FilterConfig {
            disabled: true,
            ..FilterConfig::default()
        };
        let off = packed(
            "envoy.config.route.v3.FilterConfig",
            prost::Message::encode_to_vec(&off),
        );
        let off = BTreeMap::from([("rbac".to_owned(), off)]);
        assert_eq!(of(&filter, &[&off, &route]), None);
        let resting = HttpFilter {
            disabled: true,
            ..filter
        };
        assert_eq!(of(&resting, &[]), None);
        assert_eq!(of(&resting, &[&route]), Some(rbac(Action::Deny)));
    }

    #[test]
    fn a_denial_counts_before_what_is_not_known() {
        let depends = || Verdict::Depends(vec!["a".to_owned()]);
        let denied = || Verdict::Denied(vec!["b".to_owned()]);
        assert_eq!(depends().and(denied()), denied());
        assert_eq!(Verdict::Allowed.and(depends()), depends());
        assert_eq!(
            depends().and(depends()),
            Verdict::Depends(vec!["a".to_owned(), "a".to_owned()])
        );
    }
}
