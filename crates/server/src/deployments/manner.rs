//! How objects of Gateways are applied: whose they are, and what of them never changes.

use inject::gateway::{MANAGED_LABEL, Managed, VERSION, VERSION_ANNOTATION, managed, over};
use model::labels::Labels;
use serde_json::Value;
use writeback::sets::{self, Claim};

/// How objects of Gateways are applied.
pub(super) struct Manner {
    /// The name of the controller, which is that of istiod: what it applied, we apply from here on.
    pub(super) controller: String,
}

impl sets::Manner for Manner {
    fn manager(&self) -> &str {
        &self.controller
    }

    fn claim(&self, gateway: &Value) -> Claim {
        let annotations = gateway["metadata"]["annotations"].as_object();
        let pairs = annotations.into_iter().flatten();
        let annotations: Labels = pairs
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect();
        match managed(&annotations) {
            Managed::Ours => Claim::Held,
            Managed::TakenOver => {
                Claim::Taken(sets::annotated(VERSION_ANNOTATION, &VERSION.to_string()))
            }
            Managed::Theirs => Claim::Theirs,
        }
    }

    /// An object without our label was made by somebody else.
    fn over(&self, wanted: &Value, now: &Value) -> Option<Value> {
        let labels = &now["metadata"]["labels"];
        labels[MANAGED_LABEL]
            .is_string()
            .then(|| over(wanted.clone(), now))
    }

    /// Autoscalers and budgets go that nothing asks for any more, if they were made for this very Gateway.
    fn is_left_over(&self, gateway: &Value, now: &Value) -> bool {
        let meta = &now["metadata"];
        let owners = meta["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        meta["labels"][MANAGED_LABEL].is_string()
            && owners.any(|owner| owner["uid"] == gateway["metadata"]["uid"])
    }
}
