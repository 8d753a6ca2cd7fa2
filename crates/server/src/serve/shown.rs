//! What the store shows of this control plane's configuration to clients that look for it there, as istioctl does: the
//! ConfigMaps `istio` and `istio-sidecar-injector`, and the webhook configuration of injection where pods are injected.
// Istio: manifests/charts/istio-control/istio-discovery/templates/{mutatingwebhook,configmap,istiod-injector-configmap}.yaml, 1.32.

use std::sync::Arc;

use apiserver::api::Api;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ca::{Authority, Roots};
use model::settings::Settings;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::ServeOptions;
use crate::debug::mesh_page;
use crate::http::Pages;
use crate::webhooks::{Configuration, InjectorSource};

const CONFIG_MAPS: &str = "configmaps";
const WEBHOOKS: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

/// Shows it in the store from here on, as it changes.
pub(super) fn follow(
    options: &ServeOptions,
    api: Option<&Arc<Api>>,
    (pages, injection): (&Pages, &InjectorSource),
    (tasks, stop): (&TaskTracker, &CancellationToken),
) {
    let Some(api) = api.cloned() else {
        return;
    };
    let plane = Plane::of(options);
    let roots = pages.authority.get().map(Authority::roots);
    let (mut settled, mut injected) = (pages.settled.clone(), injection.changes());
    let (mut roots, stop) = (roots, stop.clone());
    tasks.spawn(async move {
        loop {
            let mesh = plane.mesh(settled.borrow_and_update().settings());
            let pem = roots.as_mut().map(|roots| roots.borrow_and_update().pem());
            let configuration = injected.borrow_and_update().clone();
            let injector = plane.injector(&configuration);
            let webhooks = plane.webhooks(&configuration, &pem.unwrap_or_default());
            let maps = [mesh, injector].map(|map| (CONFIG_MAPS, map));
            let webhooks = webhooks.map(|webhooks| (WEBHOOKS, webhooks));
            api.show(maps.into_iter().chain(webhooks).collect());
            tokio::select! {
                changed = settled.changed() => if changed.is_err() { return },
                changed = injected.changed() => if changed.is_err() { return },
                () = renewed(roots.as_mut()) => {}
                () = stop.cancelled() => return,
            }
        }
    });
}

/// Resolves when the roots are others; never where there are none.
async fn renewed(roots: Option<&mut watch::Receiver<Arc<Roots>>>) {
    if let Some(roots) = roots
        && roots.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// What of the options says what the objects are called and hold.
struct Plane {
    namespace: String,
    /// Empty for the default revision.
    revision: String,
    cluster: String,
    domain: String,
    /// Whether the port for webhooks injects.
    injects: bool,
}

impl Plane {
    fn of(options: &ServeOptions) -> Self {
        let revision = match options.revision.as_str() {
            "default" => "",
            revision => revision,
        };
        Self {
            namespace: options.namespace.clone(),
            revision: revision.to_owned(),
            cluster: options.cluster_id.clone(),
            domain: options.domain.clone(),
            injects: options.webhooks.https_addr.is_some() && options.webhooks.inject,
        }
    }

    /// A name of the chart: that of another revision has it behind.
    fn named(&self, name: &str) -> String {
        match self.revision.as_str() {
            "" => name.to_owned(),
            revision => format!("{name}-{revision}"),
        }
    }

    fn shown_revision(&self) -> &str {
        match self.revision.as_str() {
            "" => "default",
            revision => revision,
        }
    }

    fn config_map(&self, name: &str, data: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.named(name), "namespace": self.namespace,
                "labels": {"istio.io/rev": self.shown_revision()},
            },
            "data": data,
        })
    }

    /// The mesh configuration and the networks in force.
    fn mesh(&self, settings: &Settings) -> Value {
        let networks = serde_json::to_value(&*settings.networks).unwrap_or_default();
        let data = json!({
            "mesh": pretty(&mesh_page(&settings.mesh)),
            "meshNetworks": pretty(&networks),
        });
        self.config_map("istio", &data)
    }

    /// What is injected; where nothing is, what clients read of the cluster alone.
    fn injector(&self, configuration: &Configuration) -> Value {
        let data = match &configuration.documents {
            Some(documents) => json!({"config": documents.config, "values": documents.values}),
            None => json!({"values": pretty(&self.values())}),
        };
        self.config_map("istio-sidecar-injector", &data)
    }

    fn values(&self) -> Value {
        json!({
            "revision": self.revision,
            "global": {
                "istioNamespace": self.namespace,
                "multiCluster": {"clusterName": self.cluster},
                "proxy": {"clusterDomain": self.domain},
            },
        })
    }

    /// Which pods are injected, where there is something to inject. The store asks by it.
    fn webhooks(&self, configuration: &Configuration, roots: &str) -> Option<Value> {
        if !self.injects || configuration.injection.is_none() {
            return None;
        }
        let client = json!({
            "service": {
                "name": self.named("istiod"), "namespace": self.namespace, "path": "/inject", "port": 443,
            },
            "caBundle": STANDARD.encode(roots),
        });
        let selected = self.selected();
        let hooks = selected.into_iter().map(|(name, namespaces, objects)| {
            json!({
                "name": format!("{name}.sidecar-injector.istio.io"),
                "clientConfig": client,
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                }],
                "namespaceSelector": {"matchExpressions": namespaces},
                "objectSelector": {"matchExpressions": objects},
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            })
        });
        let hooks: Vec<Value> = hooks.collect();
        Some(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": self.named("istio-sidecar-injector"),
                "labels": {"app": "sidecar-injector", "istio.io/rev": self.shown_revision()},
            },
            "webhooks": hooks,
        }))
    }

    /// The webhooks, each with the namespaces and the pods that it is asked about.
    fn selected(&self) -> Vec<(&'static str, Value, Value)> {
        let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let no = |key: &str| json!({"key": key, "operator": "DoesNotExist"});
        let revision = is("istio.io/rev", self.shown_revision());
        let no_revision = no("istio.io/rev");
        let (switch, no_switch) = (is("istio-injection", "enabled"), no("istio-injection"));
        let asked = is("sidecar.istio.io/inject", "true");
        let mut not_refused = is("sidecar.istio.io/inject", "false");
        not_refused["operator"] = "NotIn".into();
        let mut all = vec![
            (
                "rev.namespace",
                json!([revision, no_switch]),
                json!([not_refused]),
            ),
            (
                "rev.object",
                json!([no_revision, no_switch]),
                json!([not_refused, revision]),
            ),
        ];
        if self.revision.is_empty() {
            all.push(("namespace", json!([switch]), json!([not_refused])));
            all.push((
                "object",
                json!([no_switch, no_revision]),
                json!([asked, no_revision]),
            ));
        }
        all
    }
}

/// JSON for people, which is YAML for those who read that.
fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::Documents;

    fn plane(revision: &str, injects: bool) -> Plane {
        Plane {
            namespace: "istio-system".to_owned(),
            revision: revision.to_owned(),
            cluster: "Kubernetes".to_owned(),
            domain: "cluster.local".to_owned(),
            injects,
        }
    }

    fn configured() -> Configuration {
        let (config, values) = (
            inject::builtin::config(),
            inject::builtin::VALUES.to_owned(),
        );
        let injection = inject::Injection::read(&config, &values, Default::default()).unwrap();
        Configuration {
            injection: Some(Arc::new(injection)),
            documents: Some(Arc::new(Documents { config, values })),
            fault: None,
        }
    }

    #[test]
    fn the_mesh_config_in_force_is_shown_without_what_proves_something() {
        let settings = testkit::settings(
            "accessLogFile: /dev/stdout\nextensionProviders:\n- name: trace\n  lightstep:\n    service: a.b\n    port: 1\n    \
             accessToken: secret\n",
        );
        let map = plane("", false).mesh(&settings);
        assert_eq!(map["metadata"]["name"], "istio");
        let text = map["data"]["mesh"].as_str().unwrap();
        assert!(!text.contains("secret"), "{text}");
        let mesh: Value = serde_json::from_str(text).unwrap();
        assert_eq!(mesh["accessLogFile"], "/dev/stdout");
        assert!(map["data"]["meshNetworks"].is_string());
    }

    #[test]
    fn what_is_injected_is_shown_and_without_it_the_cluster_alone() {
        let plane = plane("canary", true);
        let map = plane.injector(&configured());
        assert_eq!(map["metadata"]["name"], "istio-sidecar-injector-canary");
        assert_eq!(map["data"]["config"], inject::builtin::config());
        let map = plane.injector(&Configuration::default());
        assert_eq!(map["data"].get("config"), None);
        let values = map["data"]["values"].as_str().unwrap();
        let values: Value = serde_json::from_str(values).unwrap();
        assert_eq!(
            values["global"]["multiCluster"]["clusterName"],
            "Kubernetes"
        );
    }

    #[test]
    fn there_is_a_webhook_configuration_where_pods_are_injected() {
        let nothing = Configuration::default();
        assert_eq!(plane("", true).webhooks(&nothing, "PEM"), None);
        assert_eq!(plane("", false).webhooks(&configured(), "PEM"), None);
        let names = |revision: &str| {
            let object = plane(revision, true)
                .webhooks(&configured(), "PEM")
                .unwrap();
            let hooks = object["webhooks"].as_array().unwrap().iter();
            let names = hooks.map(|hook| hook["name"].as_str().unwrap().to_owned());
            (
                object["metadata"]["name"].clone(),
                names.collect::<Vec<_>>(),
            )
        };
        let (name, hooks) = names("");
        assert_eq!((name, hooks.len()), (json!("istio-sidecar-injector"), 4));
        let (name, hooks) = names("canary");
        assert_eq!(name, "istio-sidecar-injector-canary");
        assert_eq!(hooks[0], "rev.namespace.sidecar-injector.istio.io");
        assert_eq!(hooks.len(), 2);
    }
}
