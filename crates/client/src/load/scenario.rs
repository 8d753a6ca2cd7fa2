//! Scenarios: a mesh, proxies, and what happens to them, as a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::mesh::{Change, MeshShape};
use crate::error::Error;

/// A scenario, as its file says it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is to show.
    pub about: String,
    /// The mesh.
    pub mesh: MeshShape,
    /// How the mesh and its changes come to the server.
    #[serde(default)]
    pub through: Way,
    /// How proxies connect.
    #[serde(default)]
    pub over: Over,
    /// Simulated proxies.
    pub proxies: usize,
    /// How these differ.
    #[serde(default)]
    pub nodes: Nodes,
    /// One proxy in this many stops reading once it is configured; 0 for none.
    #[serde(default)]
    pub slow: usize,
    /// One proxy in this many refuses what it is sent once it is configured; 0 for none.
    #[serde(default)]
    pub refusing: usize,
    /// The server keeps on disk what it needs for a warm start.
    #[serde(default)]
    pub state: bool,
    /// What happens, one after the other.
    pub steps: Vec<Step>,
}

/// How proxies differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Nodes {
    /// As in clusters: each stands beside an endpoint of the mesh, with names, labels, node, zone and services of its own.
    #[default]
    Real,
    /// In name and namespace only.
    Alike,
}

/// How proxies connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// As they are.
    #[default]
    Plaintext,
    /// Encrypted, each with the certificate of its workload.
    MutualTls,
}

/// How configuration comes to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Files of a folder.
    #[default]
    Files,
    /// The Kubernetes API over its store.
    Api,
}

/// Something that happens.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// One change after the other, each followed to the last proxy.
    Change {
        /// To what.
        what: Change,
        /// How often.
        times: usize,
    },
    /// Changes at steady rates, whether proxies have them or not.
    Churn {
        /// For how long.
        seconds: f64,
        /// Changes of endpoints per second.
        #[serde(default)]
        endpoint: f64,
        /// Changes of rules per second.
        #[serde(default)]
        rule: f64,
        /// Services that come or go per second.
        #[serde(default)]
        service: f64,
    },
    /// Every proxy connects again, and says what it has.
    Reconnect,
    /// The server is killed and started again, and every proxy connects again.
    Restart,
    /// Nothing.
    Idle {
        /// For how long.
        seconds: f64,
    },
}

impl Step {
    /// What it is called in results.
    pub fn label(&self) -> String {
        match self {
            Step::Change { what, .. } => match what {
                Change::Endpoint => "endpoint change".to_owned(),
                Change::Rule => "rule change".to_owned(),
                Change::Service => "service added or removed".to_owned(),
                Change::Route => "route change".to_owned(),
                Change::Ingress => "ingress change".to_owned(),
            },
            Step::Churn { .. } => "churn".to_owned(),
            Step::Reconnect => "reconnect".to_owned(),
            Step::Restart => "restart".to_owned(),
            Step::Idle { .. } => "idle".to_owned(),
        }
    }
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// If there is none, or it is no scenario.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Template {
            path: path.to_owned(),
            source,
        })?;
        serde_json::from_slice(&text).map_err(|source| Error::Scenario {
            path: path.to_owned(),
            source,
        })
    }

    /// The namespaces of its proxies.
    pub fn namespaces(&self) -> Vec<String> {
        (0..self.mesh.namespaces.max(1))
            .map(|n| format!("n{n}"))
            .collect()
    }
}
