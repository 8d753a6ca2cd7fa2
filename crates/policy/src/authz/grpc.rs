//! AuthorizationPolicies for servers that check requests themselves, with gRPC's own RBAC filter.
//!
//! It knows rules that deny and rules that allow, and of what is asked for less than Envoy
//! (<https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md>): a condition that it does not know matches nothing there, or,
//! in grpc-go of some versions, everything. So that this protects nothing less, such a condition holds where a rule denies and
//! does not where one allows, and none of them is sent. Nobody is asked: what a policy with the action CUSTOM is about is
//! denied.
//!
//! Istio: pilot/pkg/networking/grpcgen/lds.go buildRBAC, 1.32. There CUSTOM is ignored, and policies that allow nothing allow
//! everything.

use mesh::capabilities::name::HTTP_RBAC;
use mesh::finding::code;
use model::diagnostic::Diagnostic;
use proto_envoy::envoy::config::rbac::v3::permission::Rule;
use proto_envoy::envoy::config::rbac::v3::principal::Identifier;
use proto_envoy::envoy::config::rbac::v3::rbac::Action;
use proto_envoy::envoy::config::rbac::v3::{Permission, Principal, Rbac};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use xds::any;

use super::{Building, Policies, PolicyObject, Surroundings, condition, dry_run, empty};
use crate::filters;

/// The name of the filter with the rules that deny.
const DENYING: &str = "envoy.filters.http.rbac.DENY";

/// The filters of a gRPC server.
pub fn grpc(
    policies: &Policies,
    around: &Surroundings<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<hcm::HttpFilter> {
    let mut building = Building::new(around, false, diagnostics);
    let enforced = |policy: &&PolicyObject| !dry_run(policy);
    // Without rules such a policy is about nothing.
    let about = |policy: &&PolicyObject| enforced(policy) && !policy.spec.rules.is_empty();
    let mut denied = empty(Action::Deny);
    for policy in policies.deny.iter().filter(about) {
        building.checked(policy, Action::Deny, &mut denied);
    }
    for policy in policies.custom.iter().filter(about) {
        building.checked(policy, Action::Deny, &mut denied);
        let why = "everything the policy is about is denied: gRPC servers ask no authorizer";
        let path = "spec.action".to_owned();
        building.report(policy, code::NO_AUTHORIZER, path, why.to_owned());
    }
    let mut filters = Vec::new();
    if !denied.policies.is_empty() {
        filters.push(filter(DENYING, denied));
    }
    let mut allowing = policies.allow.iter().filter(enforced).peekable();
    if allowing.peek().is_some() {
        let mut allowed = empty(Action::Allow);
        for policy in allowing {
            building.checked(policy, Action::Allow, &mut allowed);
        }
        filters.push(filter(HTTP_RBAC, allowed));
    }
    filters
}

fn filter(name: &str, rules: Rbac) -> hcm::HttpFilter {
    let config = HttpRbac {
        rules: Some(rules),
        ..HttpRbac::default()
    };
    filters::http(name, any(&config))
}

impl Building<'_, '_> {
    /// Adds the rules of a policy as gRPC checks them.
    fn checked(&mut self, policy: &PolicyObject, action: Action, rules: &mut Rbac) {
        let object = &policy.meta.name;
        let named = |at: usize| format!("{}-{}-{at}", object.namespace, object.name);
        let mut own = empty(action);
        self.rules(policy, action, &named, &mut own);
        let denies = action == Action::Deny;
        let mut is_unknown = false;
        for (mut name, mut rule) in own.policies {
            for permission in &mut rule.permissions {
                is_unknown |= settle(permission, denies);
            }
            for principal in &mut rule.principals {
                is_unknown |= settle_principal(principal, denies);
            }
            // Dashes of two policies may fall differently and give one name.
            while rules.policies.contains_key(&name) {
                name.push('+');
            }
            rules.policies.insert(name, rule);
        }
        if is_unknown {
            let effect = match denies {
                true => "the condition is left out, and the rule takes all that its others match",
                false => "the rule allows nothing by them",
            };
            let why = format!(
                "gRPC servers know no tokens, path templates, SNI and metadata of filters: {effect}"
            );
            let path = "spec.rules".to_owned();
            self.report(policy, code::NOT_UNDERSTOOD, path, why);
        }
    }
}

/// Puts what always `holds`, or never does, in place of conditions that gRPC does not know. Returns whether there were any.
fn settle(permission: &mut Permission, holds: bool) -> bool {
    if permission.rule.as_ref().is_some_and(is_unknown) {
        let always = condition::permission(Rule::Any(true));
        *permission = match holds {
            true => always,
            false => condition::permission(Rule::NotRule(Box::new(always))),
        };
        return true;
    }
    match &mut permission.rule {
        Some(Rule::AndRules(set) | Rule::OrRules(set)) => {
            let mut found = false;
            for rule in &mut set.rules {
                found |= settle(rule, holds);
            }
            found
        }
        Some(Rule::NotRule(rule)) => settle(rule, !holds),
        _ => false,
    }
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `metadata`"
)]
fn is_unknown(rule: &Rule) -> bool {
    matches!(
        rule,
        Rule::UriTemplate(_)
            | Rule::RequestedServerName(_)
            | Rule::Metadata(_)
            | Rule::SourcedMetadata(_)
            | Rule::Matcher(_)
    )
}

/// [`settle`] for who sends a request.
fn settle_principal(principal: &mut Principal, holds: bool) -> bool {
    if principal
        .identifier
        .as_ref()
        .is_some_and(is_unknown_identifier)
    {
        let always = condition::principal(Identifier::Any(true));
        *principal = match holds {
            true => always,
            false => condition::principal(Identifier::NotId(Box::new(always))),
        };
        return true;
    }
    match &mut principal.identifier {
        Some(Identifier::AndIds(set) | Identifier::OrIds(set)) => {
            let mut found = false;
            for id in &mut set.ids {
                found |= settle_principal(id, holds);
            }
            found
        }
        Some(Identifier::NotId(id)) => settle_principal(id, !holds),
        _ => false,
    }
}

/// Whether gRPC does not know it. What it knows is listed: a kind of condition that is new to Envoy is new to gRPC as well.
fn is_unknown_identifier(identifier: &Identifier) -> bool {
    !matches!(
        identifier,
        Identifier::AndIds(_)
            | Identifier::OrIds(_)
            | Identifier::NotId(_)
            | Identifier::Any(_)
            | Identifier::Authenticated(_)
            | Identifier::DirectRemoteIp(_)
            | Identifier::RemoteIp(_)
            | Identifier::Header(_)
            | Identifier::UrlPath(_)
    )
}
