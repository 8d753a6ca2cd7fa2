//! Listeners and secrets of gateways, and what policies add to listeners, against recordings of the real istiod where
//! those are at hand.
//!
//! `RECORDED=gw-https` names scenarios, and prints their differences.

use serde_json::Value;
use testkit::{Scenario, Score, differences};
use xds::TypeUrl;

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
    let mut score = Score::default();
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
        for proxy in scenario.nodes.keys() {
            for ty in [TypeUrl::Listener, TypeUrl::Secret] {
                count(&mut score, &name, &scenario, proxy, ty, only.is_some());
            }
        }
    }
    if only.is_none() {
        score.all_as_recorded();
    }
}

fn count(
    score: &mut Score,
    scenario_name: &str,
    scenario: &Scenario,
    proxy: &str,
    ty: TypeUrl,
    explain: bool,
) {
    let Some(expected) = scenario.expected(proxy, ty) else {
        return;
    };
    let ours = scenario.generated(proxy, ty);
    let mut names: Vec<&String> = expected.keys().collect();
    // Secrets are subscribed to by name: more of them than are named are none too much.
    if ty == TypeUrl::Listener {
        names.extend(ours.keys().filter(|name| !expected.contains_key(*name)));
    }
    for name in names {
        let wanted = expected.get(name).unwrap_or(&Value::Null);
        let got = ours.get(name).unwrap_or(&Value::Null);
        let found = differences(wanted, got);
        score.count(&format!("{scenario_name}/{proxy} {name}"), &found);
        for line in found.iter().take(if explain { 6 } else { 0 }) {
            println!("{proxy} {} {name}: {line}", ty.short());
        }
    }
}
