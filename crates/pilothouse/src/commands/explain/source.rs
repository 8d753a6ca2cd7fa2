//! Where explanations come from: a server, or objects of folders.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use explain::{Budget, Explainer, Explanation, Participation, Target};
use mesh::view::ProxyKey;
use model::node::Identity;
use serde::de::DeserializeOwned;
use store::Snapshot;
use xds::{ResourceSet, TypeUrl};

use super::super::credentials;
use super::super::proxy::ProxyOptions;
use super::super::proxy_config::{debug_page, gather};

/// Who explains.
pub(in crate::commands) enum Explanations {
    /// A server, of a connected proxy.
    Server {
        /// Where it answers HTTP.
        address: String,
        /// The proxy, as servers know it.
        proxy: String,
    },
    /// This program, of a proxy that is described.
    Here(Box<Explainer>, Budget),
}

impl Explanations {
    /// Those of a server.
    pub(in crate::commands) fn of_server(address: &str, proxy: &str) -> Self {
        Self::Server {
            address: address.to_owned(),
            proxy: proxy.to_owned(),
        }
    }

    /// The objects that made each of these resources of a type, or parts of them.
    ///
    /// # Errors
    ///
    /// When the proxy has no such resource, or the server does not answer.
    pub(in crate::commands) async fn explain(
        &mut self,
        ty: TypeUrl,
        targets: &[Target],
    ) -> anyhow::Result<Vec<Explanation>> {
        match self {
            Self::Here(explainer, budget) => Ok(explainer.explain(ty, targets, *budget)?),
            Self::Server { address, proxy } => {
                let mut parameters = vec![("type", explain::type_name(ty))];
                for target in targets {
                    parameters.push(("name", &target.name));
                    parameters.push(("part", &target.part));
                }
                ask(address, proxy, &parameters).await
            }
        }
    }

    /// The resources that an object takes part in.
    ///
    /// # Errors
    ///
    /// When there is no such object, or the server does not answer.
    pub(super) async fn participation(&mut self, object: &str) -> anyhow::Result<Participation> {
        match self {
            Self::Here(explainer, _) => {
                let key = explainer.find_object(object).map_err(anyhow::Error::msg)?;
                let found = explainer.participation(&key, &TypeUrl::ALL);
                found.with_context(|| format!("there is no {key}"))
            }
            Self::Server { address, proxy } => ask(address, proxy, &[("object", object)]).await,
        }
    }

    /// Those of secrets with these names that the proxy has and can use, as far as that is known.
    pub(in crate::commands) async fn held(
        &mut self,
        names: BTreeSet<String>,
    ) -> Option<BTreeSet<String>> {
        match self {
            Self::Here(explainer, _) => explainer.held(names),
            Self::Server { address, proxy } => credentials::usable(address, proxy).await.ok()?,
        }
    }

    /// The objects, with what is derived from them; `None` if a server has them.
    pub(in crate::commands) fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Here(explainer, _) => Some(explainer.snapshot()),
            Self::Server { .. } => None,
        }
    }

    /// What the proxy gets of a type; `None` if a server has to be asked.
    pub(in crate::commands) fn resources(&mut self, ty: TypeUrl) -> Option<ResourceSet> {
        match self {
            Self::Here(explainer, _) => Some(explainer.resources(ty)),
            Self::Server { .. } => None,
        }
    }
}

/// The answer of a server.
async fn ask<T: DeserializeOwned>(
    address: &str,
    proxy: &str,
    parameters: &[(&str, &str)],
) -> anyhow::Result<T> {
    let mut path = format!("/debug/explain?proxyID={}", encoded(proxy));
    for (key, value) in parameters {
        path.push_str(&format!("&{key}={}", encoded(value)));
    }
    let answer = debug_page(address, &path).await?;
    serde_json::from_value(answer).context("the server answers in another form")
}

impl ProxyOptions {
    /// Explanations of the proxy that the flags describe, or a node in a file, from the folders. Each answer may take
    /// that long.
    ///
    /// # Errors
    ///
    /// When a folder cannot be read, or no proxy is described.
    pub(in crate::commands) fn explanations(
        &self,
        proxy: &str,
        node: Option<&Path>,
        time: Duration,
    ) -> anyhow::Result<Explanations> {
        let described = |snapshot: &Snapshot| {
            let Some(file) = node else {
                return self.introduced(proxy, Some(snapshot));
            };
            let options = client::NodeOptions {
                node: Some(file.to_owned()),
                ..client::NodeOptions::default()
            };
            Ok(options.envoy()?)
        };
        let (snapshot, mut node) = gather::read(&self.config_dir, self.setting(), described)?;
        // It is taken to be who it says: who has the folder may see what such a proxy gets.
        let account = node.metadata.get("SERVICE_ACCOUNT");
        node.identity = Some(Identity {
            namespace: node.namespace.clone(),
            service_account: account.and_then(|a| a.as_str()).unwrap_or("default").into(),
        });
        let explainer = Explainer::new(snapshot, ProxyKey::new(Arc::new(node)));
        let budget = Budget {
            time,
            ..Budget::default()
        };
        Ok(Explanations::Here(Box::new(explainer), budget))
    }
}

/// A value in a query: all but letters, digits and a few signs is escaped.
fn encoded(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
