//! Listener filters of inbound listeners: each inspector looks only at ports where a filter chain needs to know.
//!
//! Istio: pilot/pkg/networking/core/listener_inbound.go populateListenerFilters, 1.32.

use std::collections::BTreeMap;

use model::node::Interception;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::config::listener::v3::listener_filter_chain_match_predicate::{
    MatchSet, Rule,
};
use proto_envoy::envoy::r#type::v3::Int32Range;

use policy::filters::{self, TLS_TRANSPORT};

#[derive(Clone, Copy, Default)]
struct Needs {
    tls: bool,
    http: bool,
}

/// The listener filters that these chains need.
pub(super) fn listener_filters(
    chains: &[listener::FilterChain],
    interception: Interception,
    binds: bool,
) -> Vec<listener::ListenerFilter> {
    let mut list = Vec::with_capacity(4);
    if !binds {
        list.push(filters::original_dst());
        if interception == Interception::Tproxy {
            list.push(filters::original_src());
        }
    }
    let needs = needs(chains);
    if needs.values().any(|n| n.tls) {
        let disabled = tls_disabled(&needs);
        list.push(with(filters::tls_inspector(), disabled));
    }
    // After the TLS inspector: what that found to be TLS is not looked into again.
    if needs.values().any(|n| n.http) {
        let ports = needs.iter().filter(|(_, n)| !n.http).map(|(port, _)| *port);
        list.push(with(filters::http_inspector(), any_of(ports)));
    }
    list
}

/// What is needed, by destination port; port 0 stands for all others.
fn needs(chains: &[listener::FilterChain]) -> BTreeMap<u32, Needs> {
    let mut needs: BTreeMap<u32, Needs> = BTreeMap::new();
    for chain in chains {
        let matching = chain.filter_chain_match.as_ref();
        let port = matching.and_then(|m| m.destination_port).unwrap_or(0);
        let entry = needs.entry(port).or_default();
        entry.tls |= matching.is_some_and(|m| m.transport_protocol == TLS_TRANSPORT);
        entry.http |= matching.is_some_and(|m| {
            m.application_protocols
                .iter()
                .any(|p| p == "http/1.1" || p == "h2c")
        });
    }
    needs
}

/// Where the TLS inspector must not look. If unlisted ports need it, the ports that do not are excepted; otherwise it
/// looks at nothing but the ports that do.
fn tls_disabled(
    needs: &BTreeMap<u32, Needs>,
) -> Option<listener::ListenerFilterChainMatchPredicate> {
    let by_default = needs.get(&0).is_some_and(|n| n.tls);
    let ports = needs
        .iter()
        .filter(|(port, n)| **port != 0 && n.tls != by_default)
        .map(|(port, _)| *port);
    let predicate = any_of(ports)?;
    Some(if by_default {
        predicate
    } else {
        rule(Rule::NotMatch(Box::new(predicate)))
    })
}

fn any_of(ports: impl Iterator<Item = u32>) -> Option<listener::ListenerFilterChainMatchPredicate> {
    let mut rules: Vec<_> = ports
        .filter_map(|port| i32::try_from(port).ok())
        .map(|port| {
            rule(Rule::DestinationPortRange(Int32Range {
                start: port,
                end: port + 1,
            }))
        })
        .collect();
    if rules.len() < 2 {
        return rules.pop();
    }
    Some(rule(Rule::OrMatch(MatchSet { rules })))
}

fn rule(rule: Rule) -> listener::ListenerFilterChainMatchPredicate {
    listener::ListenerFilterChainMatchPredicate { rule: Some(rule) }
}

fn with(
    mut filter: listener::ListenerFilter,
    disabled: Option<listener::ListenerFilterChainMatchPredicate>,
) -> listener::ListenerFilter {
    filter.filter_disabled = disabled;
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::capabilities::name;

    fn chain(port: u32, tls: bool, http: bool) -> listener::FilterChain {
        listener::FilterChain {
            filter_chain_match: Some(listener::FilterChainMatch {
                destination_port: (port != 0).then_some(port),
                transport_protocol: if tls { TLS_TRANSPORT } else { "raw_buffer" }.to_owned(),
                application_protocols: http.then(|| "http/1.1".to_owned()).into_iter().collect(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn names(filters: &[listener::ListenerFilter]) -> Vec<&str> {
        filters.iter().map(|f| f.name.as_str()).collect()
    }

    #[test]
    fn what_no_chain_needs_is_not_looked_for() {
        let filters = listener_filters(&[chain(80, false, false)], Interception::Redirect, false);
        assert_eq!(names(&filters), [name::ORIGINAL_DST]);
        let filters = listener_filters(&[chain(80, false, false)], Interception::None, true);
        assert!(filters.is_empty());
    }

    #[test]
    fn ports_that_need_nothing_are_excepted_where_all_others_need_it() {
        let chains = [chain(0, true, true), chain(80, false, false)];
        let filters = listener_filters(&chains, Interception::Tproxy, false);
        let expected = [
            name::ORIGINAL_DST,
            name::ORIGINAL_SRC,
            name::TLS_INSPECTOR,
            name::HTTP_INSPECTOR,
        ];
        assert_eq!(names(&filters), expected);
        for filter in &filters[2..] {
            let rule = filter.filter_disabled.as_ref().and_then(|p| p.rule.clone());
            let range = Int32Range { start: 80, end: 81 };
            assert_eq!(rule, Some(Rule::DestinationPortRange(range)));
        }
    }

    #[test]
    fn the_tls_inspector_looks_at_single_ports_where_others_do_not_need_it() {
        let chains = [chain(0, false, false), chain(443, true, false)];
        let filters = listener_filters(&chains, Interception::None, true);
        let rule = filters[0]
            .filter_disabled
            .as_ref()
            .and_then(|p| p.rule.clone());
        assert!(matches!(rule, Some(Rule::NotMatch(_))));
    }
}
