//! What becomes of ingress-nginx's global options.

use std::sync::Arc;

use annotations::{Defaults, spec};

use super::{Line, Verdict, annotation, worst_first};

/// What becomes of each option, the worst first.
pub(super) fn lines(defaults: &Defaults) -> Vec<Line> {
    let keys = defaults.nginx.iter().map(|(key, _)| key);
    worst_first(keys.map(line).collect())
}

fn line(key: &Arc<str>) -> Line {
    match spec::find_option(key) {
        Some(known) => annotation::by_spec(key, known),
        None => Line {
            key: key.clone(),
            verdict: Verdict::Different,
            how: vec!["ingress-nginx has no option of this name: nothing reads it".into()],
        },
    }
}
