//! Clients by their addresses, as a policy of Envoy's access control.

use std::collections::BTreeSet;

use ipnet::IpNet;
use model::edge::AddressRules;
use proto_envoy::envoy::config::core::v3::CidrRange;
use proto_envoy::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac as Rules, permission, principal, rbac,
};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};

/// The name of the only policy.
const POLICY: &str = "addresses";

/// Refuses clients that the rules do not allow.
pub(super) fn enforced(rules: &AddressRules) -> RbacPerRoute {
    RbacPerRoute {
        rbac: Some(Rbac {
            rules: Some(policy(allowed(rules))),
            ..Rbac::default()
        }),
    }
}

/// Writes down, under names that start so, whether the rules allow a client.
pub(super) fn noted(rules: &AddressRules, prefix: &str) -> RbacPerRoute {
    note(allowed(rules), prefix)
}

/// Writes down, under names that start so, whether a client has one of the addresses.
pub(super) fn noted_ranges(ranges: &BTreeSet<IpNet>, prefix: &str) -> RbacPerRoute {
    note(one_of(ranges), prefix)
}

fn note(principal: Principal, prefix: &str) -> RbacPerRoute {
    RbacPerRoute {
        rbac: Some(Rbac {
            shadow_rules: Some(policy(principal)),
            shadow_rules_stat_prefix: prefix.to_owned(),
            ..Rbac::default()
        }),
    }
}

fn allowed(rules: &AddressRules) -> Principal {
    let mut ids = Vec::new();
    if !rules.allowed.is_empty() {
        ids.push(one_of(&rules.allowed));
    }
    if !rules.denied.is_empty() {
        let denied = Box::new(one_of(&rules.denied));
        ids.push(is(principal::Identifier::NotId(denied)));
    }
    match ids.is_empty() {
        true => is(principal::Identifier::Any(true)),
        false => is(principal::Identifier::AndIds(principal::Set { ids })),
    }
}

fn one_of(ranges: &BTreeSet<IpNet>) -> Principal {
    let ids = ranges.iter().map(|range| {
        is(principal::Identifier::RemoteIp(CidrRange {
            address_prefix: range.network().to_string(),
            prefix_len: Some(u32::from(range.prefix_len())),
        }))
    });
    let ids: Vec<Principal> = ids.collect();
    match ids.is_empty() {
        // A list without members would be refused.
        true => is(principal::Identifier::NotId(Box::new(is(
            principal::Identifier::Any(true),
        )))),
        false => is(principal::Identifier::OrIds(principal::Set { ids })),
    }
}

fn is(identifier: principal::Identifier) -> Principal {
    Principal {
        identifier: Some(identifier),
    }
}

fn policy(principal: Principal) -> Rules {
    let policy = Policy {
        permissions: vec![Permission {
            rule: Some(permission::Rule::Any(true)),
        }],
        principals: vec![principal],
        ..Policy::default()
    };
    Rules {
        action: rbac::Action::Allow as i32,
        policies: [(POLICY.to_owned(), policy)].into(),
        ..Rules::default()
    }
}
