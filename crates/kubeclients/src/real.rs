//! Writing objects to a real API, and taking all of them away again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use futures::future::join_all;
use http::{Method, Request, StatusCode};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::corpus::{by_age, implied_namespaces, label, text};

/// Who writes, as the API notes it.
const MANAGER: &str = "on-kubetest";

/// A collection of the API.
#[derive(Clone, Debug)]
struct Served {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: String,
    plural: String,
    namespaced: bool,
    has_status: bool,
    can_empty: bool,
}

impl Served {
    fn path(&self, namespace: &str) -> String {
        match (self.namespaced, namespace) {
            (true, namespace) if !namespace.is_empty() => {
                format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
            }
            _ => format!("{}/{}", self.root, self.plural),
        }
    }
}

/// An object that the API refuses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Refused {
    /// `KIND NAMESPACE/NAME`.
    pub object: String,
    /// What the API says.
    pub why: String,
}

/// An API that objects are written to.
pub struct RealApi {
    client: Client,
    /// By `apiVersion` and `kind`.
    served: BTreeMap<(String, String), Served>,
}

impl RealApi {
    /// The API of a kubeconfig.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or the API does not answer.
    pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let mut api = Self {
            client: Client::try_from(config)?,
            served: BTreeMap::new(),
        };
        api.discover().await?;
        Ok(api)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> kube::Result<Value> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = body.map_or_else(Vec::new, |b| b.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, kind);
        let request = request.body(bytes).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    async fn get(&self, path: &str) -> kube::Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    /// Learns what the API serves.
    async fn discover(&mut self) -> anyhow::Result<()> {
        let groups = self.get("/apis").await?;
        let versions = groups["groups"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|g| {
                let all = g["versions"].as_array().into_iter().flatten();
                all.map(|v| format!("/apis/{}", text(v, "/groupVersion")))
            });
        let roots: Vec<String> = ["/api/v1".to_owned()].into_iter().chain(versions).collect();
        self.served.clear();
        for root in roots {
            let found = self.get(&root).await?;
            let resources = found["resources"].as_array().cloned().unwrap_or_default();
            let names: BTreeSet<&str> = resources.iter().map(|r| text(r, "/name")).collect();
            for resource in resources.iter().filter(|r| !text(r, "/name").contains('/')) {
                let plural = text(resource, "/name").to_owned();
                let has = |verb: &str| {
                    resource["verbs"]
                        .as_array()
                        .is_some_and(|v| v.iter().any(|v| v == verb))
                };
                let served = Served {
                    has_status: names.contains(format!("{plural}/status").as_str()),
                    namespaced: resource["namespaced"] == true,
                    can_empty: has("list") && has("delete"),
                    root: root.clone(),
                    plural,
                };
                let version = text(&found, "/groupVersion").to_owned();
                self.served
                    .insert((version, text(resource, "/kind").to_owned()), served);
            }
        }
        Ok(())
    }

    /// Installs definitions, and waits until what they define is served.
    ///
    /// # Errors
    ///
    /// When the API refuses one, or does not serve it after half a minute.
    pub async fn define(&mut self, definitions: &[Value]) -> anyhow::Result<()> {
        let root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for definition in definitions {
            let mut definition = definition.clone();
            strip(&mut definition);
            let made = self.ask(Method::POST, root, Some(&definition)).await;
            made.with_context(|| label(&definition))?;
        }
        for definition in definitions {
            let group = text(definition, "/spec/group");
            let plural = text(definition, "/spec/names/plural");
            let versions = definition["spec"]["versions"]
                .as_array()
                .into_iter()
                .flatten();
            for version in versions.filter(|v| v["served"] == true) {
                let path = format!("/apis/{group}/{}/{plural}?limit=1", text(version, "/name"));
                let mut left = 300;
                while let Err(error) = self.get(&path).await {
                    left -= 1;
                    anyhow::ensure!(left > 0, "{path} is not served: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.discover().await
    }

    /// Takes away all that was written, and what programs wrote since.
    ///
    /// # Errors
    ///
    /// When the API does not let us.
    pub async fn empty(&self) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        let all = self.served.values().filter(|s| s.can_empty);
        let all: Vec<&Served> = all
            .filter(|s| {
                !matches!(
                    s.plural.as_str(),
                    "events"
                        | "customresourcedefinitions"
                        | "apiservices"
                        | "ipaddresses"
                        | "servicecidrs"
                )
            })
            .filter(|s| s.plural != "namespaces" && seen.insert((group(&s.root), s.plural.clone())))
            .collect();
        for result in join_all(all.into_iter().map(|s| self.empty_collection(s))).await {
            result?;
        }
        let namespaces = self.get("/api/v1/namespaces").await?;
        for namespace in namespaces["items"].as_array().into_iter().flatten() {
            self.remove_namespace(namespace).await?;
        }
        Ok(())
    }

    async fn empty_collection(&self, served: &Served) -> anyhow::Result<()> {
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let listed = self.get(&served.path("")).await?;
        for object in listed["items"].as_array().into_iter().flatten() {
            let namespace = text(object, "/metadata/namespace");
            let name = text(object, "/metadata/name");
            let system = namespace.is_empty() || namespace.starts_with("kube-");
            if (system && !is_ours(object))
                || (served.plural == "services" && (namespace, name) == ("default", "kubernetes"))
            {
                continue;
            }
            let path = format!("{}/{name}", served.path(namespace));
            if object["metadata"]["finalizers"].is_array() {
                self.ask(
                    Method::PATCH,
                    &path,
                    Some(&json!({"metadata": {"finalizers": null}})),
                )
                .await?;
            }
            match self.ask(Method::DELETE, &path, Some(&now)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => {
                    other.with_context(|| path)?;
                }
            }
        }
        Ok(())
    }

    async fn remove_namespace(&self, namespace: &Value) -> anyhow::Result<()> {
        let name = text(namespace, "/metadata/name");
        let path = format!("/api/v1/namespaces/{name}");
        if name == "default" || name.starts_with("kube-") {
            let bare = json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}, "spec": namespace["spec"]});
            self.ask(Method::PUT, &path, Some(&bare)).await?;
            return Ok(());
        }
        self.ask(Method::DELETE, &path, None).await?;
        // There is no controller that would do it, and what was in the namespace is gone.
        let free = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}});
        self.ask(Method::PUT, &format!("{path}/finalize"), Some(&free))
            .await?;
        Ok(())
    }

    /// No proxy is to see the Service of the API itself, which is in every cluster and in no folder.
    ///
    /// # Errors
    ///
    /// When the API does not let us.
    pub async fn hide_itself(&self) -> kube::Result<()> {
        let hidden = json!({"metadata": {"annotations": {"networking.istio.io/exportTo": "~"}}});
        let path = "/api/v1/namespaces/default/services/kubernetes";
        self.ask(Method::PATCH, path, Some(&hidden)).await?;
        Ok(())
    }

    /// Writes objects, each namespace first, then by age. Returns those that the API refuses.
    ///
    /// # Errors
    ///
    /// When a namespace cannot be made.
    pub async fn apply(&self, mut objects: Vec<Value>) -> anyhow::Result<Vec<Refused>> {
        for object in &mut objects {
            let namespaced = self.of(object).is_none_or(|s| s.namespaced);
            if namespaced && text(object, "/metadata/namespace").is_empty() {
                object["metadata"]["namespace"] = "default".into();
            }
        }
        let implied = implied_namespaces(&objects);
        let (written, rest): (Vec<Value>, Vec<Value>) =
            objects.into_iter().partition(|o| o["kind"] == "Namespace");
        for namespace in implied.iter().chain(&written) {
            let written = self.write(namespace).await;
            written.with_context(|| label(namespace))?;
        }
        let mut refused = Vec::new();
        for (n, age) in by_age(rest).into_iter().enumerate() {
            next_second(n > 0).await;
            // Kinds side by side, the objects of a kind one after another.
            let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for object in age {
                kinds
                    .entry(text(&object, "/kind").to_owned())
                    .or_default()
                    .push(object);
            }
            let all = join_all(kinds.into_values().map(|of_kind| self.write_all(of_kind))).await;
            refused.extend(all.into_iter().flatten());
        }
        refused.sort();
        Ok(refused)
    }

    async fn write_all(&self, objects: Vec<Value>) -> Vec<Refused> {
        let mut refused = Vec::new();
        for object in objects {
            if let Err(error) = self.write(&object).await {
                let why = reason(&error).replace('\n', " ");
                refused.push(Refused {
                    object: label(&object),
                    why,
                });
            }
        }
        refused
    }

    fn of(&self, object: &Value) -> Option<&Served> {
        let key = (
            text(object, "/apiVersion").to_owned(),
            text(object, "/kind").to_owned(),
        );
        self.served.get(&key)
    }

    /// Removes an object.
    ///
    /// # Errors
    ///
    /// When the API does not let us.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        let served = self.of(object).context("the API has no such kind")?;
        let collection = served.path(text(object, "/metadata/namespace"));
        let path = format!("{collection}/{}", text(object, "/metadata/name"));
        self.ask(Method::DELETE, &path, None).await?;
        Ok(())
    }

    /// Makes an object, or changes it to this, with its status.
    ///
    /// # Errors
    ///
    /// When the API refuses it.
    pub async fn write(&self, object: &Value) -> anyhow::Result<()> {
        let served = self.of(object).context("the API has no such kind")?;
        let mut body = object.clone();
        let status = strip(&mut body);
        let collection = served.path(text(object, "/metadata/namespace"));
        let path = format!("{collection}/{}", text(object, "/metadata/name"));
        let made = self
            .ask(
                Method::POST,
                &format!("{collection}?fieldManager={MANAGER}"),
                Some(&body),
            )
            .await;
        match made {
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT => {
                self.ask(
                    Method::PATCH,
                    &format!("{path}?fieldManager={MANAGER}"),
                    Some(&body),
                )
                .await?;
            }
            other => {
                other?;
            }
        }
        if served.has_status && !status.is_null() {
            let status = json!({"status": status});
            let written = self
                .ask(
                    Method::PATCH,
                    &format!("{path}/status?fieldManager={MANAGER}"),
                    Some(&status),
                )
                .await;
            written.context("its status")?;
        }
        Ok(())
    }
}

/// Takes away what an API does not let be written; returns the status.
fn strip(object: &mut Value) -> Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in [
            "creationTimestamp",
            "uid",
            "resourceVersion",
            "generation",
            "managedFields",
            "deletionTimestamp",
        ] {
            meta.remove(field);
        }
    }
    let status = object.as_object_mut().and_then(|o| o.remove("status"));
    status.unwrap_or_default()
}

/// What the API says, without what the client adds.
fn reason(error: &anyhow::Error) -> String {
    let mut causes = error.chain();
    let said = causes.find_map(|cause| match cause.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status.message.clone()),
        _ => None,
    });
    said.unwrap_or_else(|| format!("{error:#}"))
}

fn group(root: &str) -> &str {
    root.strip_prefix("/apis/")
        .and_then(|r| r.split('/').next())
        .unwrap_or_default()
}

fn is_ours(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array();
    let names =
        |m: &Value| text(m, "/manager") == MANAGER || text(m, "/manager").starts_with("pilothouse");
    managers.is_some_and(|all| all.iter().any(names))
}

/// Times of objects are in whole seconds: waits for the next one if it must be another, or if little is left of this one.
async fn next_second(must: bool) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let gone = Duration::from_nanos(now.subsec_nanos().into());
    if must || gone > Duration::from_millis(600) {
        tokio::time::sleep(Duration::from_millis(1010).saturating_sub(gone)).await;
    }
}
