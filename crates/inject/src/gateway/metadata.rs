//! Labels and annotations that a Gateway hands on to what is deployed for it.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go extractInfrastructureMetadata, setLabelOverrides, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Labels;

use super::{Deployment, Switches};

/// Names with this prefix are those of the Gateway API itself.
const RESERVED: &str = "gateway.networking.k8s.io/";
/// Whether a pod takes part in the ambient mesh.
const DATAPLANE_MODE: &str = "istio.io/dataplane-mode";
/// The network of a pod.
const NETWORK: &str = "topology.istio.io/network";

pub(super) type Pairs = BTreeMap<Arc<str>, Arc<str>>;

/// Prefixes of what would make injection put containers of an annotation's choice beside the proxies.
const INJECTED: [&str; 3] = [
    "inject.istio.io/",
    "sidecar.istio.io/",
    "proxy.istio.io/overrides",
];

/// What is handed on: what the infrastructure states, else the Gateway's own.
fn handed_on(stated: Option<&Pairs>, own: &Labels, switches: &Switches) -> Pairs {
    let mut pairs = stated_or_own(stated, own, switches.copy_metadata);
    if !switches.any_overlay {
        pairs.retain(|name, _| !INJECTED.iter().any(|prefix| name.starts_with(prefix)));
    }
    pairs
}

fn stated_or_own(stated: Option<&Pairs>, own: &Labels, copies: bool) -> Pairs {
    let pair = |(name, value): (&Arc<str>, &Arc<str>)| (name.clone(), value.clone());
    match stated.filter(|stated| !stated.is_empty()) {
        Some(stated) => {
            let stated = stated.iter();
            let ours = stated.filter(|(name, _)| !name.starts_with(RESERVED));
            ours.map(pair).collect()
        }
        None if copies => own.iter().map(pair).collect(),
        None => Pairs::new(),
    }
}

/// Annotations.
pub(super) fn annotations(of: &Deployment<'_>) -> Pairs {
    let infrastructure = of.gateway.spec.infrastructure.as_ref();
    let stated = infrastructure.map(|i| &i.annotations);
    let own = &of.gateway.meta.annotations;
    handed_on(stated, own, &of.switches)
}

/// Labels.
pub(super) fn labels(of: &Deployment<'_>) -> Pairs {
    let infrastructure = of.gateway.spec.infrastructure.as_ref();
    let own = &of.gateway.meta.labels;
    let mut labels = handed_on(infrastructure.map(|i| &i.labels), own, &of.switches);
    let says = own.contains(DATAPLANE_MODE) || labels.contains_key(DATAPLANE_MODE);
    if of.switches.ambient && of.class.stays_out && !says {
        labels.insert(DATAPLANE_MODE.into(), "none".into());
    }
    let network = of.settings.injection.values.text("/global/network");
    if of.class.names_network && !own.contains(NETWORK) && !network.is_empty() {
        labels.insert(NETWORK.into(), network.into());
    }
    labels
}
