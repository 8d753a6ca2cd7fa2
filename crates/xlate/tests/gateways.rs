//! Listeners and secrets of gateways, and what policies add to listeners, against recordings of the real istiod where
//! those are at hand.
//!
//! `RECORDED=gw-https` names scenarios, and prints their differences.

use pilothouse_xlate::TypeUrl;
use serde_json::Value;
use testkit::{Scenario, differences};

/// Scenarios of gateways and policies. Those of patches, Wasm and the Gateway API are others' matters.
const GROUPS: &[&str] = &[
    "ap-",
    "gw-",
    "istio-authz-",
    "istio-bench-",
    "istio-bookinfo-",
    "istio-net-ingress",
    "pa-",
    "ra-",
    "trust-",
    "vs-",
];

#[test]
fn gateways_and_policies_give_the_listeners_and_secrets_that_were_recorded() {
    let only = std::env::var("RECORDED").ok();
    let (mut equal, mut all) = (0, 0);
    for name in Scenario::names() {
        let wanted = match &only {
            Some(part) => name.contains(part.as_str()),
            None => GROUPS.iter().any(|group| name.starts_with(group)),
        };
        let Some(scenario) = Some(&name)
            .filter(|_| wanted)
            .and_then(|n| Scenario::recorded(n))
        else {
            continue;
        };
        let (mut of_equal, mut of_all) = (0, 0);
        for proxy in scenario.nodes.keys() {
            for ty in [TypeUrl::Listener, TypeUrl::Secret] {
                let (e, a) = score(&scenario, proxy, ty, only.is_some());
                of_equal += e;
                of_all += a;
            }
        }
        println!("{of_equal:4}/{of_all:<4} {name}");
        equal += of_equal;
        all += of_all;
    }
    println!("{equal}/{all} equal");
    assert!(only.is_some() || equal * 100 >= all * 97);
}

fn score(scenario: &Scenario, proxy: &str, ty: TypeUrl, explain: bool) -> (usize, usize) {
    let Some(expected) = scenario.expected(proxy, ty) else {
        return (0, 0);
    };
    let ours = scenario.generated(proxy, ty);
    let mut names: Vec<&String> = expected.keys().collect();
    // Secrets are subscribed to by name: more of them than are named are none too much.
    if ty == TypeUrl::Listener {
        names.extend(ours.keys().filter(|name| !expected.contains_key(*name)));
    }
    let mut equal = 0;
    for name in &names {
        let wanted = expected.get(*name).unwrap_or(&Value::Null);
        let got = ours.get(*name).unwrap_or(&Value::Null);
        let found = differences(wanted, got);
        equal += usize::from(found.is_empty());
        for line in found.iter().take(if explain { 6 } else { 0 }) {
            println!("{proxy} {} {name}: {line}", ty.short());
        }
    }
    (equal, names.len())
}
