//! How many proxies are connected, by version.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::node::Node;
use prometheus::IntGaugeVec;

/// Connected proxies by the version they state. Clients state what they like, so few versions are told apart at one time,
/// and one that no proxy has is forgotten.
pub struct Connected {
    gauge: IntGaugeVec,
    counts: Mutex<BTreeMap<String, i64>>,
}

impl Connected {
    /// Versions that are told apart at one time; what comes then counts as `other`.
    const VERSIONS: usize = 32;

    pub(super) fn new(gauge: IntGaugeVec) -> Self {
        Self {
            gauge,
            counts: Mutex::default(),
        }
    }

    /// Counts a proxy; returns the label under which it counts, for [`Connected::left`].
    pub fn joined(&self, node: &Node) -> String {
        let mut label = version_label(node);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= Self::VERSIONS && !counts.contains_key(&label) {
            label = "other".to_owned();
        }
        let count = counts.entry(label.clone()).or_default();
        *count += 1;
        self.gauge.with_label_values(&[&label]).set(*count);
        label
    }

    /// A proxy that counts under this label is gone.
    pub fn left(&self, label: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(label) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            self.gauge.with_label_values(&[label]).set(*count);
        } else {
            counts.remove(label);
            // It is there: the count was.
            let _ = self.gauge.remove_label_values(&[label]);
        }
    }
}

/// `1.32.1`, or `1.32` without a patch; `unknown` where none is stated, `other` where it is no version.
fn version_label(node: &Node) -> String {
    match node.version {
        Some(v) if v.patch == u16::MAX => format!("{}.{}", v.major, v.minor),
        Some(v) => format!("{}.{}.{}", v.major, v.minor, v.patch),
        None if node.metadata.contains_key("ISTIO_VERSION") => "other".to_owned(),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn versions_are_few_and_go_with_their_proxies() {
        let metrics = Metrics::new().unwrap();
        let node = |version: &str| {
            testkit::node(&serde_json::json!({
                "id": "sidecar~10.0.0.1~a.b~c",
                "metadata": {"ISTIO_VERSION": version},
            }))
        };
        let mut labels = Vec::new();
        for n in 0..1000 {
            labels.push(
                metrics
                    .connected
                    .joined(&node(&format!("1.{n}.2{}", "x".repeat(200)))),
            );
            labels.push(metrics.connected.joined(&node(&"y".repeat(1000))));
        }
        let text = metrics.text().unwrap();
        let lines = text.lines().filter(|l| l.starts_with("pilot_xds{"));
        assert_eq!(lines.count(), Connected::VERSIONS);
        assert!(text.contains("pilot_xds{version=\"1.7.2\"} 1"), "{text}");
        assert!(text.contains("pilot_xds{version=\"other\"} 1969"), "{text}");
        for label in labels {
            metrics.connected.left(&label);
        }
        assert!(!metrics.text().unwrap().contains("pilot_xds{"));
    }
}
