//! Metrics of the application beside those of the proxy: Prometheus asks the agent, the agent asks the application.
// Istio: pkg/kube/inject/webhook.go applyPrometheusMerge, applySecurePrometheusAnnotation, 1.32.

use model::mesh::MeshConfig;
use model::own_port::own_port;
use serde::Serialize;
use validate::annotation::truth;

use crate::Fault;
use crate::pod::{PROXY, Pod, env_mut, variable};
use crate::typed::escaped;

const SCRAPE: &str = "prometheus_io_scrape";
const PORT: &str = "prometheus_io_port";
const PATH: &str = "prometheus_io_path";
const TARGETS: &str = "prometheus_istio_io_scrape_targets";
const SECURE_PORT: &str = "prometheus_istio_io_secure_port";

/// Whether the mesh, or the pod for itself, has metrics merged.
const MERGE: &str = "prometheus.istio.io/merge-metrics";
/// The variable that tells the agent where the application's metrics are.
const VARIABLE: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";

/// The most targets of one pod.
const MOST_TARGETS: usize = 1_000;

/// The name of an annotation as Prometheus sees it: what is no letter or digit is an underscore.
fn is(annotation: &str, sanitized: &str) -> bool {
    annotation.len() == sanitized.len()
        && annotation.bytes().zip(sanitized.bytes()).all(|(a, b)| {
            let a = if a.is_ascii_alphanumeric() { a } else { b'_' };
            a == b
        })
}

fn stated<'p>(pod: &'p Pod, sanitized: &'static str) -> impl Iterator<Item = &'p str> {
    let all = pod.annotations();
    all.filter_map(move |(name, value)| is(name, sanitized).then_some(value))
}

/// The port that the pod states.
pub(crate) fn port(pod: &Pod) -> Option<&str> {
    stated(pod, PORT).next()
}

/// Takes out all that tells Prometheus where to ask.
pub(crate) fn clear(pod: &mut Pod) {
    pod.retain_annotations(|name| {
        let mut ours = [SCRAPE, PORT, PATH, TARGETS].into_iter();
        !ours.any(|annotation| is(name, annotation))
    });
}

/// Whether metrics of a pod are merged.
pub(crate) fn is_merged(pod: &Pod, mesh: &MeshConfig) -> bool {
    let own = pod.annotation(MERGE).and_then(truth);
    own.unwrap_or(mesh.enable_prometheus_merge.unwrap_or(true))
}

/// A place where metrics of the application are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) port: String,
    pub(crate) path: String,
}

/// What the annotations of a pod say of its metrics, in the order in which the agent is told.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Scrape {
    scrape: String,
    pub(crate) path: String,
    pub(crate) port: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<Target>,
}

impl Scrape {
    pub(crate) fn of(pod: &Pod, warnings: &mut Vec<String>) -> Self {
        let mut out = Self::default();
        let last = |sanitized| stated(pod, sanitized).last().unwrap_or_default().to_owned();
        out.scrape = last(SCRAPE);
        out.path = last(PATH);
        out.port = last(PORT);
        for list in stated(pod, TARGETS) {
            match targets(list) {
                Ok(targets) => out.targets = targets,
                Err(e) => {
                    warnings.push(format!("failed to parse the scrape targets {list:?}: {e}"))
                }
            }
        }
        out
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses ports that are none, and those of the proxy itself.
    fn check(&self, agent: i32) -> Result<(), Fault> {
        let fault = |text: String| Err(Fault::new(text));
        if self.targets.is_empty() {
            if self.port.is_empty() {
                return Ok(());
            }
            let (what, port) = ("invalid prometheus scrape configuration", &self.port);
            return match check_port(port, agent) {
                Ok(()) => Ok(()),
                Err(Wrong::NoPort) => fault(format!("{what}: invalid port {port:?}")),
                Err(Wrong::Agent) => {
                    fault(format!("{what}: port {port} conflicts with agent port"))
                }
                Err(Wrong::Reserved(why)) => fault(format!(
                    "{what}: port {port} is reserved for Istio ({why}) and cannot be scraped"
                )),
            };
        }
        let what = "invalid prometheus scrape targets";
        for Target { port, .. } in &self.targets {
            match check_port(port, agent) {
                Ok(()) => {}
                Err(Wrong::NoPort) => {
                    return fault(format!("{what}: invalid target port {port:?}"));
                }
                Err(Wrong::Agent) => {
                    return fault(format!(
                        "{what}: target port {port} conflicts with agent port"
                    ));
                }
                Err(Wrong::Reserved(why)) => {
                    return fault(format!(
                        "{what}: target port {port} is reserved for Istio ({why}) and cannot be scraped"
                    ));
                }
            }
        }
        Ok(())
    }
}

enum Wrong {
    NoPort,
    Agent,
    Reserved(&'static str),
}

/// Whether a port can be asked for metrics.
fn check_port(text: &str, agent: i32) -> Result<(), Wrong> {
    let port = text.parse::<u16>().ok().filter(|port| *port != 0);
    let port = port.ok_or(Wrong::NoPort)?;
    if i32::from(port) == agent {
        return Err(Wrong::Agent);
    }
    match own_port(port) {
        Some(own) => Err(Wrong::Reserved(own.holder)),
        None => Ok(()),
    }
}

/// Targets as `port:path`, separated by commas.
fn targets(list: &str) -> Result<Vec<Target>, String> {
    let mut out = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (port, path) = entry.split_once(':').unwrap_or((entry, ""));
        let (port, path) = (port.trim(), path.trim());
        if port.is_empty() {
            return Err(format!("empty port in scrape target {entry:?}"));
        }
        if out.len() == MOST_TARGETS {
            return Err(format!("there are more than {MOST_TARGETS}"));
        }
        let path = if path.is_empty() { "/metrics" } else { path };
        out.push(Target {
            port: port.to_owned(),
            path: path.to_owned(),
        });
    }
    Ok(out)
}

/// Has Prometheus ask the agent, and tells the agent where the application's metrics are.
pub(crate) fn merge(
    pod: &mut Pod,
    mesh: &MeshConfig,
    status_port: i32,
    warnings: &mut Vec<String>,
) -> Result<(), Fault> {
    let wanted = stated(pod, SCRAPE).find_map(truth).unwrap_or(true);
    // A port that is the agent's already is the owner's wish, or an earlier injection's work.
    let done = port(pod).is_some_and(|port| port == status_port.to_string());
    if !wanted || !is_merged(pod, mesh) || done {
        return Ok(());
    }
    let mut scrape = Scrape::of(pod, warnings);
    // Agents that know nothing of targets ask the first.
    if let Some(first) = scrape.targets.first() {
        scrape.port.clone_from(&first.port);
        scrape.path.clone_from(&first.path);
    }
    scrape.check(status_port)?;
    if !scrape.is_empty()
        && let Some(sidecar) = pod.container_mut(PROXY)
    {
        let told = escaped(&serde_json::to_string(&scrape).unwrap_or_default());
        env_mut(sidecar).push(variable(VARIABLE, &told));
    }
    clear(pod);
    pod.annotate("prometheus.io/port", status_port.to_string());
    pod.annotate("prometheus.io/path", "/stats/prometheus");
    pod.annotate("prometheus.io/scrape", "true");
    Ok(())
}

/// Names the port of metrics over TLS, where the proxy has one and the owner names none.
pub(crate) fn name_secure_port(pod: &mut Pod) {
    if stated(pod, SECURE_PORT).next().is_some() {
        return;
    }
    let env = pod.container(PROXY).and_then(|c| c["env"].as_array());
    let mut env = env.into_iter().flatten();
    let port = env.find_map(|variable| {
        let ours = variable["name"] == "ENVOY_SECURE_MERGED_METRICS_PORT";
        let value = variable["value"].as_str().filter(|_| ours)?;
        (!matches!(value, "" | "0")).then(|| value.to_owned())
    });
    if let Some(port) = port {
        pod.annotate("prometheus.istio.io/secure-port", port);
    }
}
