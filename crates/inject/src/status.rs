//! The annotations in which injection remembers what it did.

use serde::Serialize;
use serde_json::{Value, json};

use crate::Fault;
use crate::pod::{CONTAINERS, INIT_CONTAINERS, Pod, name};
use crate::typed::{escaped, to_json, typed};

/// Names of what was injected.
pub(crate) const STATUS: &str = "sidecar.istio.io/status";
/// Containers that the pod had of its own under names of injected ones.
pub(crate) const OVERRIDES: &str = "proxy.istio.io/overrides";

/// Names that an earlier injection left behind.
pub(crate) struct Earlier(Value);

impl Earlier {
    /// Those of a pod; `None` if it was never injected, or what it says cannot be read.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let status: Value = serde_json::from_str(pod.annotation(STATUS)?).ok()?;
        let names = |field: &str| match &status[field] {
            Value::Null => true,
            Value::Array(names) => names.iter().all(Value::is_string),
            _ => false,
        };
        let fit = status.is_object() && names(CONTAINERS) && names(INIT_CONTAINERS);
        fit.then_some(Self(status))
    }

    /// The names of a list.
    pub(crate) fn names(&self, list: &str) -> impl Iterator<Item = &str> {
        let names = self.0[list].as_array();
        names.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// What the templates injected, as the annotation says it.
// Istio: pkg/kube/inject/webhook.go getInjectionStatus, 1.32.
pub(crate) fn status(injected: &Pod, revision: &str) -> String {
    let names = |list: &str| {
        let names: Vec<String> = injected
            .list(list)
            .iter()
            .map(|c| name(c).to_owned())
            .collect();
        (!names.is_empty()).then_some(names)
    };
    let status = Status {
        init_containers: names(INIT_CONTAINERS),
        containers: names(CONTAINERS),
        volumes: names("volumes"),
        image_pull_secrets: names("imagePullSecrets"),
        revision: if revision.is_empty() {
            "default"
        } else {
            revision
        },
    };
    escaped(&serde_json::to_string(&status).unwrap_or_default())
}

/// Names of what was injected, in the order in which the annotation has them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    init_containers: Option<Vec<String>>,
    containers: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    image_pull_secrets: Option<Vec<String>>,
    revision: &'a str,
}

/// Containers of a pod that stand under names of injected ones.
#[derive(Default)]
pub(crate) struct Overrides {
    pub(crate) containers: Vec<Value>,
    pub(crate) init_containers: Vec<Value>,
}

impl Overrides {
    /// Those that an earlier injection remembered.
    pub(crate) fn of(pod: &Pod) -> Result<Self, Fault> {
        let Some(text) = pod.annotation(OVERRIDES) else {
            return Ok(Self::default());
        };
        let read: Value = serde_json::from_str(text).map_err(|e| Fault::new(e.to_string()))?;
        let mut read = typed(&read, "ContainerOverrides")?;
        let mut list = |field: &str| match read[field].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        Ok(Self {
            containers: list(CONTAINERS),
            init_containers: list(INIT_CONTAINERS),
        })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.init_containers.is_empty()
    }

    /// As the annotation holds them.
    pub(crate) fn to_json(&self) -> Result<String, Fault> {
        let both = json!({CONTAINERS: self.containers, INIT_CONTAINERS: self.init_containers});
        Ok(to_json(
            &typed(&both, "ContainerOverrides")?,
            "ContainerOverrides",
        ))
    }
}
