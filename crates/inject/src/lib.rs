//! Injection: a pod with a sidecar, or whatever else templates say, made of a pod without.
//!
//! [`inject`] renders the templates that a pod asks for and lays what they make over the pod as strategic merge patches;
//! then containers of the pod's own are laid over injected ones of the same name, probes and metrics are led through the
//! agent, and containers are put into the order in which they have to start. For equal templates and values the pod is
//! the one that istiod makes, unless a text of a user would change its shape: that is refused ([`shape`]). Nothing here reads the clock, the environment or a file, and all that a pod or a template
//! can make of it is bounded.
// Istio: pkg/kube/inject/webhook.go injectPod, 1.32.

pub mod builtin;
mod config;
mod containers;
mod data;
mod diff;
mod functions;
pub mod gateway;
mod go;
mod message;
mod numbers;
mod openshift;
mod owner;
mod path;
mod pod;
mod policy;
mod probes;
mod prometheus;
mod proxy_config;
mod shape;
mod status;
mod typed;
mod types;
mod values;
pub mod workload;

#[cfg(test)]
mod recorded;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Labels;
use model::mesh::{MeshConfig, ProxyConfig};
use serde_json::Value;

pub use config::{CONFIG_KEY, Injection, Policy, SIDECAR, Selector, VALUES_KEY};
pub use owner::Workload;
pub use policy::Skipped;
pub use proxy_config::effective as effective_proxy_config;
pub use values::Values;

use pod::{PROXY, Pod, env_mut, name};

/// The most templates that one pod may ask for.
const MOST_TEMPLATES: usize = 32;
/// The most bytes of a pod, and of what one template makes of it.
pub const LARGEST_POD: usize = 4 << 20;
/// The most bytes of the pod that comes out. No API takes more.
const LARGEST_RESULT: usize = 8 << 20;

/// Why a pod cannot be injected, as its author is told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    /// A fault with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// What holds for all pods.
#[derive(Clone)]
pub struct Settings {
    /// Policy, templates and values.
    pub injection: Arc<Injection>,
    /// Mesh config.
    pub mesh: Arc<MeshConfig>,
    /// The revision that injects.
    pub revision: String,
    /// `COMPLIANCE_POLICY`.
    pub compliance_policy: String,
    /// Whether the platform is OpenShift, which gives each namespace users of its own.
    pub openshift: bool,
}

/// What holds for one pod.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The namespace, for pods that state none.
    pub namespace: &'a str,
    /// Annotations of the namespace. Read on OpenShift.
    pub namespace_annotations: Option<&'a Labels>,
    /// The path that was called, with variables of the proxy.
    pub path: &'a str,
    /// Whether the nodes that may run it keep init containers running that say so: version 1.33 of Kubernetes and later.
    pub native_sidecars: bool,
    /// The configuration of its proxy, see [`effective_proxy_config`]. Without one, that which no ProxyConfig is part of.
    pub proxy_config: Option<&'a ProxyConfig>,
}

/// What became of a pod.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Templates were laid over it.
    Injected(Injected),
    /// Nothing: it is not to be injected.
    Skipped {
        /// Why not.
        reason: Skipped,
        /// What it says that makes no sense.
        warnings: Vec<String>,
    },
}

/// A pod after injection.
#[derive(Clone, PartialEq, Debug)]
pub struct Injected {
    /// The pod, as Kubernetes' types hold it.
    pub pod: Value,
    /// What makes it of the one that came in, as operations of RFC 6902.
    pub patch: Vec<Value>,
    /// What was injected, as the annotation `sidecar.istio.io/status` has it.
    pub status: String,
    /// What the pod says that makes no sense, or will not work.
    pub warnings: Vec<String>,
}

/// Injects a pod as the webhook does: if it, or the policy, asks for it.
///
/// # Errors
///
/// When the pod cannot be read, its annotations make no sense, or a template fails.
pub fn inject(pod: &Value, request: &Request<'_>, settings: &Settings) -> Result<Outcome, Fault> {
    let mut warnings = Vec::new();
    let raw = pod;
    let mut pod = read(raw)?;
    let mut patch = diff::completion(raw, &pod.0);
    if pod.meta("namespace").is_empty() && !request.namespace.is_empty() {
        pod.0["metadata"]["namespace"] = request.namespace.into();
    }
    if let Some(reason) = policy::skipped(&pod, &settings.injection, &mut warnings) {
        return Ok(Outcome::Skipped { reason, warnings });
    }
    let own;
    let proxy = match request.proxy_config {
        Some(stated) => stated,
        None => {
            let annotation = pod.annotation(proxy_config::ANNOTATION);
            let (namespace, labels) = (pod.meta("namespace"), pod.labels());
            let none = std::iter::empty();
            own = effective_proxy_config(&settings.mesh, none, namespace, &labels, annotation);
            &own
        }
    };
    let task = Task {
        workload: Workload::of(&pod),
        proxy,
        namespace: request.namespace_annotations.filter(|_| settings.openshift),
        native_sidecars: request.native_sidecars,
        variables: path::variables(request.path),
        default_templates: &settings.injection.default_templates,
        aliases: &settings.injection.aliases,
        annotations: &settings.injection.annotations,
    };
    if settings.openshift {
        openshift::forget_user(&mut pod);
    }
    let mut injected = task.run(&pod, settings, warnings)?;
    patch.append(&mut injected.patch);
    injected.patch = patch;
    Ok(Outcome::Injected(injected))
}

fn mesh_proxy_config(settings: &Settings) -> ProxyConfig {
    settings.mesh.default_config.clone().unwrap_or_default()
}

fn read(pod: &Value) -> Result<Pod, Fault> {
    let mut pod = Pod::read(pod)?;
    let bytes = pod.0.to_string().len();
    if bytes > LARGEST_POD {
        return Err(Fault::new(format!(
            "the pod has {bytes} bytes, {LARGEST_POD} at most are injected"
        )));
    }
    // They say nothing of the pod, and can be most of it.
    if let Some(meta) = pod.0["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    Ok(pod)
}

/// One injection.
pub(crate) struct Task<'a> {
    pub(crate) workload: Workload,
    pub(crate) proxy: &'a ProxyConfig,
    pub(crate) namespace: Option<&'a Labels>,
    pub(crate) native_sidecars: bool,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) default_templates: &'a [String],
    pub(crate) aliases: &'a BTreeMap<String, Vec<String>>,
    pub(crate) annotations: &'a BTreeMap<String, String>,
}

impl Task<'_> {
    pub(crate) fn run(
        mut self,
        pod: &Pod,
        settings: &Settings,
        mut warnings: Vec<String>,
    ) -> Result<Injected, Fault> {
        check_dns(pod, &mut warnings);
        let variables = self.proxy.proxy_metadata.keys();
        let odd = variables.filter_map(|name| validate::text::variable_name(name).err());
        warnings.extend(odd.map(|why| format!("a variable of the proxy is left out: {why}")));
        let wrap = |what: &'static str| move |e: Fault| Fault::new(format!("{what}: {e}"));
        let (merged, template) = self
            .render(pod, settings)
            .map_err(wrap("failed to run injection template"))?;
        let mut merged = containers::reapply(merged, pod, &template, self.proxy)
            .map_err(wrap("failed to re apply container"))?;
        let status = status::status(&template, &settings.revision);
        self.finish(&mut merged, pod, &status, settings, &mut warnings)
            .map_err(wrap("failed to process pod"))?;
        let merged = Pod::read(&merged.0)?;
        if merged.0.to_string().len() > LARGEST_RESULT {
            return Err(Fault::new(format!(
                "the injected pod has more than {LARGEST_RESULT} bytes"
            )));
        }
        Ok(Injected {
            patch: diff::difference(&pod.0, &merged.0),
            pod: merged.0,
            status,
            warnings,
        })
    }

    /// The pod with all templates laid over it, and the templates alone.
    fn render(&mut self, pod: &Pod, settings: &Settings) -> Result<(Pod, Pod), Fault> {
        check_annotations(pod)?;
        self.add_cluster_and_network(pod, settings);
        let injection = &settings.injection;
        let stripped = containers::stripped(pod, status_port(settings));
        let stripped = containers::with_overrides(stripped)?;
        let stripped = Pod::read(&stripped.0)?;
        let data = data::data(
            &data::Of {
                pod: &stripped,
                workload: &self.workload,
                proxy: self.proxy,
                native_sidecars: self.native_sidecars,
                ids: openshift::ids(self.namespace),
            },
            settings,
        )?;
        let mut merged = pod.clone();
        let mut template = Pod::empty()?;
        let native = match merged.annotation("sidecar.istio.io/nativeSidecar") {
            Some("true") => true,
            Some("false") => false,
            _ => self.native_sidecars,
        };
        for name in self.wanted_templates(pod)? {
            let Some(parsed) = injection.templates.get(name) else {
                let known: Vec<&str> = injection.templates.keys().map(String::as_str).collect();
                let known = known.join(", ");
                return Err(Fault::new(format!(
                    "requested template {name:?} not found; have {known}"
                )));
            };
            let patch = data.rendered(parsed, &injection.functions, |text| {
                config::document(text).map_err(|e| {
                    Fault::new(format!(
                        "failed applying injection overlay: strategic merge: invalid JSON document: {e}"
                    ))
                })
            })?;
            template = template
                .overlaid(&patch)
                .map_err(|e| Fault::new(format!("failed applying injection overlay: {e}")))?;
            if native {
                containers::move_native(&mut merged, &template);
            }
            merged = merged.overlaid(&patch).map_err(|e| {
                Fault::new(format!(
                    "failed parsing generated injected YAML (check Istio sidecar injector configuration): {e}"
                ))
            })?;
        }
        Ok((merged, template))
    }

    /// Cluster and network of the proxy: of the values unless the path states them; the network of the pod's label most
    /// of all.
    fn add_cluster_and_network(&mut self, pod: &Pod, settings: &Settings) {
        let values = &settings.injection.values;
        for (variable, value) in [
            (path::CLUSTER, "/global/multiCluster/clusterName"),
            (path::NETWORK, "/global/network"),
        ] {
            let stated = self.variables.get(variable).is_some_and(|v| !v.is_empty());
            let value = values.text(value);
            // A label without a value keeps the network of the values out.
            let kept_out = variable == path::NETWORK && pod.label(NETWORK_LABEL).is_some();
            if !stated && !kept_out && !value.is_empty() {
                self.variables.insert(variable.to_owned(), value.to_owned());
            }
        }
        if let Some(network) = pod.label(NETWORK_LABEL).filter(|n| !n.is_empty()) {
            self.variables
                .insert(path::NETWORK.to_owned(), network.to_owned());
        }
    }

    /// Names of the templates that a pod asks for, aliases resolved.
    fn wanted_templates<'t>(&'t self, pod: &'t Pod) -> Result<Vec<&'t str>, Fault> {
        let asked: Vec<&str> = match pod.annotation("inject.istio.io/templates") {
            Some(names) => names.split(',').map(str::trim).collect(),
            None => self.default_templates.iter().map(String::as_str).collect(),
        };
        let mut out = Vec::new();
        for name in asked {
            match self.aliases.get(name) {
                Some(names) => out.extend(names.iter().map(String::as_str)),
                None => out.push(name),
            }
            if out.len() > MOST_TEMPLATES {
                return Err(Fault::new(format!(
                    "more than {MOST_TEMPLATES} templates are requested"
                )));
            }
        }
        Ok(out)
    }

    /// What templates cannot say.
    fn finish(
        &self,
        merged: &mut Pod,
        original: &Pod,
        status: &str,
        settings: &Settings,
        warnings: &mut Vec<String>,
    ) -> Result<(), Fault> {
        let agent = status_port(settings);
        let values = &settings.injection.values;
        if let Some(sidecar) = merged.container_mut(PROXY) {
            let env = env_mut(sidecar);
            env.retain(|variable| !self.variables.contains_key(name(variable)));
            let stated = self.variables.iter();
            env.extend(stated.map(|(name, value)| pod::variable(name, value)));
        }
        prometheus::merge(merged, &settings.mesh, agent, warnings)?;
        prometheus::name_secure_port(merged);
        probes::rewrite(merged, values.rewrites_probes(), agent);
        if let Some(network) = self.variables.get(path::NETWORK) {
            merged.set_label(NETWORK_LABEL, network);
        }
        merged.annotate(status::STATUS, status);
        for (name, value) in self.annotations {
            merged.annotate(name, value);
        }
        let annotated = original.annotation(proxy_config::ANNOTATION);
        let config = mesh_proxy_config(settings);
        let config = match annotated {
            Some(text) => proxy_config::apply(config, text)?,
            None => config,
        };
        let holds = config.hold_application_until_proxy_starts;
        containers::reorder(merged, holds.unwrap_or_default() || values.holds());
        Ok(())
    }
}

const NETWORK_LABEL: &str = "topology.istio.io/network";

/// The port of the agent.
fn status_port(settings: &Settings) -> i32 {
    let proxy = settings.mesh.default_config.as_ref();
    proxy.map_or(0, |proxy| proxy.status_port)
}

/// Refuses annotations whose values make no sense.
fn check_annotations(pod: &Pod) -> Result<(), Fault> {
    let faults: Vec<String> = pod
        .annotations()
        .filter_map(|(name, value)| {
            let fault = validate::annotation::fault(name, value)?;
            Some(format!(
                "\t* invalid value '{value}' for annotation '{name}': {fault}\n"
            ))
        })
        .collect();
    match faults.len() {
        0 => Ok(()),
        1 => Err(Fault::new(format!("1 error occurred:\n{}\n", faults[0]))),
        many => Err(Fault::new(format!(
            "{many} errors occurred:\n{}\n",
            faults.concat()
        ))),
    }
}

/// A proxy finds its control plane by the cluster's DNS.
fn check_dns(pod: &Pod, warnings: &mut Vec<String>) {
    if let Some(policy) = pod.0["spec"]["dnsPolicy"].as_str()
        && policy != "ClusterFirst"
    {
        let name = format!("{}/{}", pod.meta("namespace"), pod.potential_name());
        warnings.push(format!(
            "{name:?}'s DNSPolicy is not \"ClusterFirst\". The Envoy sidecar may not able to connect to Istio Pilot"
        ));
    }
}
