//! Telemetry resources and the mesh's default providers: what a proxy measures, logs and traces.
//!
//! This is about *what*; `xlate::listeners` makes filters, access loggers and tracers of it.
//!
//! Istio: pilot/pkg/model/telemetry.go, 1.32.

mod findings;
pub mod logging;
pub mod metrics;
pub mod tracing;

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::class::Class;
use mesh::label_names::Reader;
use mesh::limits;
use mesh::policy_target::{Target, oldest_first};
use mesh::proxy::Traits;
use model::Object;
use model::kinds::istio::Telemetry;
use model::labels::Labels;
use model::names::Namespace;
use model::settings::MeshConfig;
use prost::Message;
use proto_istio::mesh::mesh_config::ExtensionProvider;
use proto_istio::telemetry::{ProviderRef, WorkloadMode};
use store::{Reads, Snapshot};

pub use findings::findings;

/// The Telemetry resources in force for a workload: of the root namespace, of its namespace, then those that select it.
/// What comes later overrides what comes before.
#[derive(Clone, Debug)]
pub struct Applied(pub Vec<Arc<Object<Telemetry>>>);

impl PartialEq for Applied {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(a, b)| Arc::ptr_eq(a, b) || a.means_the_same(b))
    }
}

/// The resources in force for workloads of a namespace with these labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AppliedTo {
    /// Namespace of the workload.
    pub namespace: Namespace,
    /// Its labels by which Telemetry selects.
    pub labels: Labels,
}

impl AppliedTo {
    /// What decides those of a proxy.
    pub fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            namespace: proxy.namespace().clone(),
            labels: proxy.labels_for(cx, Reader::Telemetry),
        }
    }
}

impl Query<Snapshot> for AppliedTo {
    type Value = Applied;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Applied {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let mut applied = Vec::new();
        if !root.is_empty() {
            applied.extend(
                oldest_first::<Telemetry>(cx, &root)
                    .into_iter()
                    .find(is_namespace_wide),
            );
        }
        let own = oldest_first::<Telemetry>(cx, &self.namespace);
        if self.namespace != root {
            applied.extend(own.iter().find(|t| is_namespace_wide(t)).cloned());
        }
        applied.extend(
            own.into_iter().filter(|t| {
                !is_namespace_wide(t) && target(t).covers(&self.namespace, &self.labels)
            }),
        );
        applied.retain(|telemetry| !is_too_large(telemetry));
        Applied(applied)
    }
}

/// Whether a resource holds too much to be repeated in every filter chain.
pub fn is_too_large(object: &Object<Telemetry>) -> bool {
    object.spec.encoded_len() > limits::TELEMETRY_BYTES
}

fn target(object: &Object<Telemetry>) -> Target<'_> {
    Target {
        namespace: object.namespace(),
        selector: object.spec.selector.as_ref(),
        target_refs: &object.spec.target_refs,
        target_ref: object.spec.target_ref.as_ref(),
    }
}

fn is_namespace_wide(object: &Arc<Object<Telemetry>>) -> bool {
    target(object).is_namespace_wide()
}

/// The extension provider of that name, in any case.
pub fn provider<'a>(mesh: &'a MeshConfig, name: &str) -> Option<&'a ExtensionProvider> {
    mesh.extension_providers
        .iter()
        .find(|p| p.name.eq_ignore_ascii_case(name))
}

/// Which workload mode a side of a proxy has.
fn mode(class: Class) -> WorkloadMode {
    match class {
        Class::SidecarInbound => WorkloadMode::Server,
        Class::SidecarOutbound | Class::Gateway => WorkloadMode::Client,
    }
}

fn names(providers: &[ProviderRef]) -> Vec<&str> {
    providers.iter().map(|p| p.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SourceId;
    use model::object::{Meta, ObjectName, Origin};

    /// Resources from their specs as JSON, the widest first.
    pub(super) fn applied(specs: &[&str]) -> Applied {
        let object = |spec: &&str| {
            Arc::new(Object::<Telemetry> {
                meta: Meta::new(
                    ObjectName::new("ns", "t"),
                    Origin::Source(SourceId {
                        rank: 0,
                        name: "test".into(),
                    }),
                ),
                spec: serde_json::from_str(spec).expect("a test's resource is valid"),
                status: (),
            })
        };
        Applied(specs.iter().map(object).collect())
    }

    /// Mesh config from JSON.
    pub(super) fn mesh(json: &str) -> MeshConfig {
        serde_json::from_str(json).expect("a test's mesh config is valid")
    }
}
