//! Two small objects whose product is large.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};

/// H6.
pub(super) const DELEGATE_BOMB: Attack = Attack {
    memory_mib: 96,
    cpu_s: 6.0,
    // Reading 2,000 matches takes its time without optimisation.
    stall: Duration::from_secs(4),
    ..Attack::new(
        "delegate-bomb",
        "H6",
        "a VirtualService of 1,000 matches that delegates to another of 1,000 matches",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let path = target.places.config.join("bomb.yaml");
        let mut round = 0;
        while target.goes_on() {
            fs::write(&path, bomb(round))?;
            outcome.sent += 1;
            round += 1;
            target.rest(Duration::from_secs(10)).await;
        }
        fs::remove_file(&path)?;
        Ok(outcome)
    })
}

fn bomb(round: usize) -> String {
    // Prefixes that lie within each other, so that every pair of them is a match.
    let roots = (0..1_000).fold(String::new(), |mut out, n| {
        let _ = write!(
            out,
            "{{uri: {{prefix: /}}, headers: {{a{n}: {{exact: x}}}}}}, "
        );
        out
    });
    let parts = (0..1_000).fold(String::new(), |mut out, n| {
        let _ = write!(out, "{{uri: {{prefix: /p{n}}}}}, ");
        out
    });
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: bomb, namespace: n0}}\n\
         spec: {{hosts: [s0.n0.svc.cluster.local], http: [{{match: [{roots}], delegate: {{name: part, namespace: n0}}}}]}}\n\
         ---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: part, namespace: n0}}\n\
         spec: {{http: [{{timeout: {}s, match: [{parts}], route: [{{destination: {{host: s0.n0.svc.cluster.local}}}}]}}]}}\n",
        round + 1
    )
}
