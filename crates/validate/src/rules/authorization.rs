//! AuthorizationPolicy.

use proto_istio::security::authorization_policy::{Action, ActionDetail};
use proto_istio::security::{AuthorizationPolicy, Condition, Operation, Rule, Source};

use super::selector;
use crate::report::{At, Report};
use crate::text::{
    Check, attribute, empty_values, ips, path_template, ports, service_accounts, trust_domains,
};

pub(super) fn check(policy: &AuthorizationPolicy, at: &At<'_>, report: &mut Report) {
    selector::policy(
        policy.selector.as_ref(),
        policy.target_ref.as_ref(),
        &policy.target_refs,
        at,
        report,
    );
    let action = policy.action();
    let provider = policy.action_detail.as_ref();
    let at_rules = at.field("rules");
    if matches!(action, Action::Custom | Action::Deny) && policy.rules.is_empty() {
        let message = format!("{} without rules does nothing", action.as_str_name());
        report.error(&at_rules, message);
        report.help("a rule `{}` holds for every request");
    }
    if action == Action::Custom {
        let Some(ActionDetail::Provider(named)) = provider else {
            if !policy.rules.is_empty() {
                report.error(&at.field("provider"), "CUSTOM needs the name of a provider");
            }
            return rules(policy, action, &at_rules, report);
        };
        if named.name.is_empty() && !policy.rules.is_empty() {
            let at = at.field("provider");
            report.error(&at.field("name"), "CUSTOM needs the name of a provider");
        }
    } else if provider.is_some() {
        let message = format!("{} has no provider, only CUSTOM", action.as_str_name());
        report.error(&at.field("provider"), message);
    }
    rules(policy, action, &at_rules, report);
}

fn rules(policy: &AuthorizationPolicy, action: Action, at: &At<'_>, report: &mut Report) {
    for (at, rule) in at.each(&policy.rules) {
        if action == Action::Custom {
            custom(rule, &at, report);
        }
        let (mut from_tcp, mut to_tcp) = (false, false);
        let (mut has_from, mut has_to) = (false, false);
        for (at, from) in at.field("from").each(&rule.from) {
            let at = at.field("source");
            let Some(of) = &from.source else {
                report.error(&at, "a source is needed");
                continue;
            };
            has_from = true;
            from_tcp |= source(of, &at, report);
        }
        for (at, to) in at.field("to").each(&rule.to) {
            let at = at.field("operation");
            let Some(of) = &to.operation else {
                report.error(&at, "an operation is needed");
                continue;
            };
            has_to = true;
            to_tcp |= operation(of, &at, report);
        }
        for (at, of) in at.field("when").each(&rule.when) {
            condition(of, &at, report);
        }
        let only_http = (has_from && !has_to && !from_tcp) || (has_to && !to_tcp);
        if action == Action::Deny && only_http {
            let message = "matches only HTTP attributes, so it denies all connections on TCP ports";
            report.warning(&at, message);
            report.help("name the ports it is for");
        }
    }
}

/// What a provider cannot be asked by.
fn custom(rule: &Rule, at: &At<'_>, report: &mut Report) {
    const MESSAGE: &str = "is not supported where the action is CUSTOM";
    for (at, from) in at.field("from").each(&rule.from) {
        let Some(source) = &from.source else { continue };
        let at = at.field("source");
        let unsupported = [
            ("namespaces", &source.namespaces),
            ("notNamespaces", &source.not_namespaces),
            ("serviceAccounts", &source.service_accounts),
            ("notServiceAccounts", &source.not_service_accounts),
            ("trustDomains", &source.trust_domains),
            ("notTrustDomains", &source.not_trust_domains),
            ("principals", &source.principals),
            ("notPrincipals", &source.not_principals),
            ("requestPrincipals", &source.request_principals),
            ("notRequestPrincipals", &source.not_request_principals),
        ];
        for (field, values) in unsupported {
            if !values.is_empty() {
                report.error(&at.field(field), MESSAGE);
            }
        }
    }
    for (at, when) in at.field("when").each(&rule.when) {
        let of_mesh = [
            "source.namespace",
            "source.serviceAccount",
            "source.trustDomain",
            "source.principal",
        ];
        let key = when.key.as_str();
        if of_mesh.contains(&key) || key.starts_with("request.auth.") {
            report.error(&at.field("key"), format!("{key} {MESSAGE}"));
        }
    }
}

/// Principals that state the scheme `spiffe://`. Istio puts it before the principal of a rule, so these match no peer.
fn without_scheme(values: &[String], at: &At<'_>, report: &mut Report) {
    const SCHEME: &str = "spiffe://";
    for (at, value) in at.each(values) {
        let Some((scheme, name)) = value.split_at_checked(SCHEME.len()) else {
            continue;
        };
        if scheme.eq_ignore_ascii_case(SCHEME) {
            let message = format!("{value:?} matches nobody: names stand without `{SCHEME}` here");
            report.warning(&at, message);
            let name = match name {
                "" => "cluster.local/ns/NAMESPACE/sa/ACCOUNT",
                name => name,
            };
            report.help(format!("write {name:?}"));
        }
    }
}

/// Whether TCP has something of the source.
fn source(source: &Source, at: &At<'_>, report: &mut Report) -> bool {
    type Values<'a> = (&'a str, &'a [String], fn(&[String]) -> Check);
    let addresses = |values: &[String]| empty_values(values).and_then(|()| ips(values));
    let of_tcp: [Values<'_>; 10] = [
        ("principals", &source.principals, empty_values),
        ("notPrincipals", &source.not_principals, empty_values),
        ("namespaces", &source.namespaces, empty_values),
        ("notNamespaces", &source.not_namespaces, empty_values),
        ("ipBlocks", &source.ip_blocks, addresses),
        ("notIpBlocks", &source.not_ip_blocks, addresses),
        ("remoteIpBlocks", &source.remote_ip_blocks, addresses),
        ("notRemoteIpBlocks", &source.not_remote_ip_blocks, addresses),
        (
            "serviceAccounts",
            &source.service_accounts,
            service_accounts,
        ),
        (
            "notServiceAccounts",
            &source.not_service_accounts,
            service_accounts,
        ),
    ];
    let of_http: [Values<'_>; 4] = [
        (
            "requestPrincipals",
            &source.request_principals,
            empty_values,
        ),
        (
            "notRequestPrincipals",
            &source.not_request_principals,
            empty_values,
        ),
        ("trustDomains", &source.trust_domains, trust_domains),
        ("notTrustDomains", &source.not_trust_domains, trust_domains),
    ];
    for (field, values, fault) in of_tcp.iter().chain(&of_http) {
        report.check(&at.field(field), fault(values));
    }
    for (field, values, _) in &of_tcp[..2] {
        without_scheme(values, &at.field(field), report);
    }
    let set = |values: &Values<'_>| !values.1.is_empty();
    if of_tcp[..4].iter().any(set) && of_tcp[8..].iter().any(set) {
        let message = "`serviceAccounts` may not be set beside namespaces or principals";
        report.error(at, message);
    }
    if !of_tcp.iter().chain(&of_http).any(set) {
        report.error(at, "the source says nothing");
    }
    of_tcp.iter().any(set)
}

/// Whether TCP has something of the operation.
fn operation(operation: &Operation, at: &At<'_>, report: &mut Report) -> bool {
    type Values<'a> = (&'a str, &'a [String], fn(&[String]) -> Check);
    let paths = |values: &[String]| empty_values(values).and_then(|()| path_template(values));
    let lists: [Values<'_>; 8] = [
        ("ports", &operation.ports, ports),
        ("notPorts", &operation.not_ports, ports),
        ("methods", &operation.methods, empty_values),
        ("notMethods", &operation.not_methods, empty_values),
        ("paths", &operation.paths, paths),
        ("notPaths", &operation.not_paths, paths),
        ("hosts", &operation.hosts, empty_values),
        ("notHosts", &operation.not_hosts, empty_values),
    ];
    for (field, values, fault) in lists {
        report.check(&at.field(field), fault(values));
    }
    if lists.iter().all(|(_, values, _)| values.is_empty()) {
        report.error(at, "the operation says nothing");
    }
    lists[..2].iter().any(|(_, values, _)| !values.is_empty())
}

fn condition(condition: &Condition, at: &At<'_>, report: &mut Report) {
    if condition.key.is_empty() {
        return report.error(&at.field("key"), "a key is needed");
    }
    if condition.values.is_empty() && condition.not_values.is_empty() {
        return report.error(at, "one of `values` and `notValues` is needed");
    }
    let lists = [
        ("values", &condition.values),
        ("notValues", &condition.not_values),
    ];
    let mut told = false;
    for (field, values) in lists {
        if ["source.principal", "source.trustDomain"].contains(&condition.key.as_str()) {
            without_scheme(values, &at.field(field), report);
        }
        if let Err(fault) = attribute(&condition.key, values) {
            // A bad key is told once.
            let of_key = attribute(&condition.key, &[]).is_err();
            if !(of_key && told) {
                let field = if of_key { "key" } else { field };
                report.error(&at.field(field), fault);
            }
            told = of_key;
        }
    }
}
