//! What istiod sent proxies that Gateways and routes of the Gateway API concern.
//!
//! `SCENARIO=istio-gwapi-http cargo test -p pilothouse-convert --test suite gateway_api::scenarios -- --nocapture` shows how one differs.

use std::collections::BTreeSet;

use testkit::{Scenario, Score, differences};

/// Selects one scenario, and shows how it differs.
const VARIABLE: &str = "SCENARIO";

#[test]
fn proxies_get_what_istiod_sent_them() {
    let one = std::env::var(VARIABLE).ok();
    let is_ours = |name: &String| match &one {
        Some(one) => name == one,
        None => name.starts_with("istio-gwapi-") || name.starts_with("kube-gateway"),
    };
    let mut score = Score::default();
    for name in Scenario::names().into_iter().filter(is_ours) {
        let Some(scenario) = Scenario::recorded(&name) else {
            continue;
        };
        for (node, ty, expected, generated) in scenario.compared() {
            let keys: BTreeSet<&String> = expected.keys().chain(generated.keys()).collect();
            for key in keys {
                let found = match (expected.get(key), generated.get(key)) {
                    (Some(expected), Some(generated)) => differences(expected, generated),
                    (Some(_), None) => vec!["is missing".to_owned()],
                    (None, _) => vec!["is not recorded".to_owned()],
                };
                let case = format!("{name} {node} {ty:?} {key}");
                if one.is_some() {
                    found
                        .iter()
                        .for_each(|found| eprintln!("{case}\n    {found}"));
                }
                score.count(&case, &found);
            }
        }
    }
    if one.is_none() {
        score.as_listed(include_str!("../../differences/scenarios.txt"));
    }
}
