//! Injection into the pod of a request.
// Istio: pkg/kube/inject/webhook.go inject, 1.32.

use std::sync::Arc;
use std::time::Duration;

use admission::{Request, Response};
use inject::{Outcome as Injected, Settings, effective_proxy_config};
use model::Labels;
use model::ObjectName;
use model::mesh::ProxyConfig;
use serde_json::Value;
use store::Snapshot;

use super::configuration::InjectorSource;

/// The oldest minor version of Kubernetes whose nodes keep such containers running.
const NATIVE: u32 = 33;

/// How long a configuration that was just written may take to arrive.
const MOMENT: Duration = Duration::from_secs(1);

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The pod is changed.
    Injected(Response),
    /// The pod gets nothing.
    Skipped(Response),
    /// The pod, or what the templates make of it, makes no sense.
    Refused(String),
    /// There are no templates.
    NotConfigured(String),
}

/// Injects pods.
pub struct Injector {
    source: Arc<InjectorSource>,
    enabled: bool,
    revision: String,
    /// `ENABLE_NATIVE_SIDECARS`; none where the versions of nodes decide.
    native_sidecars: Option<bool>,
    compliance_policy: String,
    openshift: bool,
}

impl Injector {
    /// An injector of a revision, with the switches of the environment.
    pub fn new(source: Arc<InjectorSource>, enabled: bool, revision: &str) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        Self {
            source,
            enabled,
            revision: revision.to_owned(),
            native_sidecars: match variable("ENABLE_NATIVE_SIDECARS").as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            compliance_policy: variable("COMPLIANCE_POLICY"),
            openshift: variable("PLATFORM") == "openshift",
        }
    }

    /// Waits a moment for the configuration if there is none: whoever has just written it may ask before it has arrived here.
    pub(super) async fn settle(&self) {
        if self.enabled {
            self.source.configured(MOMENT).await;
        }
    }

    pub(super) fn inject(&self, request: &Request, path: &str) -> Outcome {
        if !self.enabled {
            return Outcome::NotConfigured("injection is off (--inject=false)".to_owned());
        }
        let configured = self.source.configuration();
        let (Some(injection), Some(snapshot)) = (configured.injection, self.source.snapshot())
        else {
            let map = self.source.config_map();
            let why = match configured.fault {
                Some(fault) => format!("the configuration of injection cannot be used: {fault}"),
                None => format!("injection is not configured: there is no ConfigMap {map}"),
            };
            return Outcome::NotConfigured(why);
        };
        let settings = Settings {
            injection,
            mesh: snapshot.settings.mesh.clone(),
            revision: self.revision.clone(),
            compliance_policy: self.compliance_policy.clone(),
            openshift: self.openshift,
        };
        let pod = &request.object;
        let stated = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let namespace = match stated {
            "" => request.namespace.as_str(),
            stated => stated,
        };
        let proxy_config = proxy_config(&snapshot, pod, namespace);
        let annotations = snapshot
            .tables
            .namespaces
            .get(&ObjectName::new("", namespace))
            .map(|object| &object.meta.annotations);
        let asked = inject::Request {
            namespace: &request.namespace,
            namespace_annotations: annotations,
            path,
            native_sidecars: self.native_sidecars.unwrap_or_else(|| {
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
                nodes_are_new(&snapshot, node)
            }),
            proxy_config: Some(&proxy_config),
        };
        match inject::inject(pod, &asked, &settings) {
            Ok(Injected::Injected(injected)) => Outcome::Injected(Response {
                patch: Some(Value::Array(injected.patch)),
                warnings: injected.warnings,
                ..Response::allowed()
            }),
            Ok(Injected::Skipped { warnings, .. }) => Outcome::Skipped(Response {
                warnings,
                ..Response::allowed()
            }),
            Err(fault) => Outcome::Refused(fault.to_string()),
        }
    }
}

/// The configuration of the pod's proxy.
fn proxy_config(snapshot: &Snapshot, pod: &Value, namespace: &str) -> ProxyConfig {
    let pairs = |field: &str| -> Labels {
        let map = pod["metadata"][field].as_object().into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            .collect()
    };
    let mut all: Vec<_> = snapshot.tables.proxy_configs.iter().collect();
    all.sort_by_key(|object| object.meta.created);
    let all = all
        .iter()
        .map(|object| (object.meta.namespace().as_str(), &object.spec));
    let annotations = pairs("annotations");
    effective_proxy_config(
        &snapshot.settings.mesh,
        all,
        namespace,
        &pairs("labels"),
        annotations.get("proxy.istio.io/config"),
    )
}

/// Whether the node of a pod, or where it has none yet every node, is new enough for native sidecars.
fn nodes_are_new(snapshot: &Snapshot, node: &str) -> bool {
    let is_new = |version: &str| {
        let minor = version.trim_start_matches('v').split('.').nth(1);
        minor
            .and_then(|m| m.parse::<u32>().ok())
            .is_some_and(|m| m >= NATIVE)
    };
    let nodes = &snapshot.tables.nodes;
    let own = nodes
        .get(&ObjectName::new("", node))
        .filter(|_| !node.is_empty());
    match own {
        Some(own) => is_new(&own.status.node_info.kubelet_version),
        None => nodes
            .iter()
            .filter(|node| node.meta.name.cluster.is_none())
            .all(|node| is_new(&node.status.node_info.kubelet_version)),
    }
}
