//! What istiod sent proxies that Gateways and routes of the Gateway API concern.
//!
//! `SCENARIO=istio-gwapi-http cargo test -p pilothouse-convert --test suite gateway_api::scenarios -- --nocapture` shows how one differs.

use std::collections::BTreeSet;

use testkit::{Scenario, differences};

/// Selects one scenario, and shows how it differs.
const VARIABLE: &str = "SCENARIO";

#[test]
fn proxies_get_what_istiod_sent_them() {
    let one = std::env::var(VARIABLE).ok();
    let is_ours = |name: &String| match &one {
        Some(one) => name == one,
        None => name.starts_with("istio-gwapi-") || name.starts_with("kube-gateway"),
    };
    let (mut all, mut different) = (0, 0);
    for name in Scenario::names().into_iter().filter(is_ours) {
        let Some(scenario) = Scenario::recorded(&name) else {
            continue;
        };
        for (node, ty, expected, generated) in scenario.compared() {
            let keys: BTreeSet<&String> = expected.keys().chain(generated.keys()).collect();
            all += keys.len();
            for key in keys {
                let found = match (expected.get(key), generated.get(key)) {
                    (Some(expected), Some(generated)) => differences(expected, generated),
                    (Some(_), None) => vec!["is missing".to_owned()],
                    (None, _) => vec!["is not recorded".to_owned()],
                };
                if !found.is_empty() {
                    different += 1;
                    let shown = if one.is_some() { found.len() } else { 2 };
                    eprintln!("{name} {node} {ty:?} {key}");
                    for difference in found.iter().take(shown) {
                        eprintln!("    {difference}");
                    }
                }
            }
        }
    }
    assert_eq!(different, 0, "of {all} resources");
}
