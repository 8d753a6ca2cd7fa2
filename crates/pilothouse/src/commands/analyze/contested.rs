//! What several objects want and only one has: hosts, addresses, and the ports of gateways, as generation finds it.
//!
//! Who has a port of a gateway depends on the namespace of its proxy, its labels and its Services. So findings
//! are reported for the proxies that have Pods or Deployments in the files, credentials that these do not get among them. A Gateway whose
//! selector matches none of these has findings only where nothing depends on the proxy: if all Gateways that the proxy may serve are of
//! one namespace. What no proxy would serve is reported for every Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Engine;
use mesh::finding::code;
use mesh::gateways::ServedNowhere;
use mesh::view::ProxyKey;
use model::kinds::kube;
use model::node::Identity;
use model::{AnyObject, Diagnostic, Kind, Labels, Namespace};
use serde_json::{Map, Value, json};
use store::Snapshot;
use xlate::findings::{Contested, ContestedAt};

use crate::commands::text::counted;

/// The codes that are told here.
pub(super) const CODES: [&str; 4] = [
    code::SERVER_REFUSED,
    code::NO_CREDENTIAL,
    code::HOST_TAKEN,
    code::NOT_OWNED,
];

/// The service account of Pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// The most selectors that are compared with each other.
const MOST_SELECTORS: usize = 100;

/// The labels by which a Gateway selects proxies.
type Selector = BTreeMap<String, String>;

/// The selectors of Gateways, with the namespaces of those that have each.
type Selectors = BTreeMap<Selector, BTreeSet<Namespace>>;

/// What is known of the proxies of one namespace that have the same labels.
#[derive(Default)]
struct Workload {
    /// The name of one of them.
    name: Arc<str>,
    /// The service account of that one; `None` where no workload is known.
    account: Option<Arc<str>>,
    /// The ports that their containers state.
    ports: Vec<kube::ContainerPort>,
}

/// Proxies, by namespace and labels.
type Proxies = BTreeMap<(Namespace, Labels), Workload>;

/// What is found about a snapshot.
pub(super) struct Found {
    /// The findings.
    pub(super) findings: Vec<Diagnostic>,
    /// What would let more be found.
    pub(super) advice: Option<String>,
}

/// The findings about a snapshot.
pub(super) fn find(engine: &Engine<Snapshot>, snapshot: &Snapshot) -> Found {
    let mut found = engine.get(snapshot, &Contested).to_vec();
    for object in snapshot.tables.iter_any(Kind::Gateway) {
        let at_none = engine.get(snapshot, &ServedNowhere(object.meta().name.clone()));
        found.extend(at_none.iter().cloned());
    }
    let selectors = selectors(snapshot);
    let (proxies, unknown) = proxies(snapshot, &selectors);
    for ((namespace, labels), workload) in proxies {
        if let Some(proxy) = key(&namespace, &labels, &workload) {
            let at_proxy = engine.get(snapshot, &ContestedAt(proxy));
            found.extend(at_proxy.iter().cloned());
        }
    }
    found.retain(|finding| CODES.contains(&finding.code));
    found.sort();
    found.dedup();
    Found {
        findings: found,
        advice: advice(&unknown),
    }
}

/// The advice to add Deployments to the files, if they do not show which proxies these selectors select.
fn advice(unknown: &[&Selector]) -> Option<String> {
    let first = unknown.first()?;
    let pairs = first.iter().map(|(key, value)| format!("{key}={value}"));
    let labels = pairs.collect::<Vec<_>>().join(",");
    let others = match unknown.len() - 1 {
        0 => String::new(),
        others => format!(" (and {})", counted(others, "other selector")),
    };
    Some(format!(
        "Gateways select the proxies with {labels}{others}, which are not in these files: with a Deployment of each shared gateway in \
         the folder, analyze reports the ports, files, hosts and credentials that Gateways do not get there"
    ))
}

/// The selectors of Gateways, but for those that are reached through Services.
fn selectors(snapshot: &Snapshot) -> Selectors {
    let mut all = Selectors::new();
    for object in snapshot.tables.iter_any(Kind::Gateway) {
        let AnyObject::Gateway(gateway) = object else {
            continue;
        };
        if gateway.meta.gateway_api().is_none() {
            let selector = gateway.spec.selector.clone();
            let namespaces = all.entry(selector).or_default();
            namespaces.insert(gateway.namespace().clone());
        }
    }
    all
}

/// The proxies that Gateways select, and the selectors whose proxies the files do not show.
fn proxies<'s>(snapshot: &Snapshot, selectors: &'s Selectors) -> (Proxies, Vec<&'s Selector>) {
    // By one of the labels that each asks for: few workloads have it.
    let mut by_label: BTreeMap<(&str, &str), Vec<&Selector>> = BTreeMap::new();
    for selector in selectors.keys() {
        if let Some((key, value)) = selector.iter().next() {
            let pair = (key.as_str(), value.as_str());
            by_label.entry(pair).or_default().push(selector);
        }
    }
    let mut used: BTreeSet<&Selector> = BTreeSet::new();
    let mut proxies = Proxies::new();
    for (namespace, labels, workload) in workloads(snapshot) {
        let pairs = labels.iter();
        let asking = pairs.filter_map(|(key, value)| by_label.get(&(&**key, &**value)));
        let mut is_selected = false;
        for selector in asking.flatten().copied() {
            if labels.matches_map(selector) {
                used.insert(selector);
                is_selected = true;
            }
        }
        if is_selected {
            proxies.entry((namespace, labels)).or_insert(workload);
        }
    }
    let mut unknown = Vec::new();
    let compares = selectors.len() <= MOST_SELECTORS;
    for selector in selectors
        .keys()
        .filter(|s| !s.is_empty() && !used.contains(s))
    {
        match compares
            .then(|| only_namespace(selector, selectors))
            .flatten()
        {
            Some(namespace) => {
                let place = (namespace.clone(), Labels::from(selector));
                proxies.entry(place).or_default();
            }
            None => unknown.push(selector),
        }
    }
    (proxies, unknown)
}

/// Pods, and those that Deployments will make.
fn workloads(snapshot: &Snapshot) -> impl Iterator<Item = (Namespace, Labels, Workload)> {
    let workload = |name: &str, pod: &kube::Pod| {
        let ports = pod.containers.iter().flat_map(|container| &container.ports);
        let account = match &*pod.service_account_name {
            "" => DEFAULT_ACCOUNT.into(),
            _ => pod.service_account_name.clone(),
        };
        Workload {
            name: name.into(),
            account: Some(account),
            ports: ports.cloned().collect(),
        }
    };
    let pods = snapshot.tables.iter_any(Kind::Pod);
    let deployments = snapshot.tables.iter_any(Kind::Deployment);
    pods.chain(deployments)
        .filter_map(move |object| match object {
            AnyObject::Pod(pod) => {
                let name = &pod.meta.name;
                let of = workload(&name.name, &pod.spec);
                Some((name.namespace.clone(), pod.meta.labels.clone(), of))
            }
            AnyObject::Deployment(deployment) => {
                let (name, template) = (&deployment.meta.name, &deployment.spec.template);
                let of = workload(&name.name, &template.spec);
                let labels = template.metadata.labels.clone();
                Some((name.namespace.clone(), labels, of))
            }
            _ => None,
        })
}

/// The namespace of all Gateways that a proxy with the labels of a selector serves; `None` where there are several, or where more
/// labels of the proxy could make it serve others as well.
fn only_namespace<'s>(selector: &Selector, all: &'s Selectors) -> Option<&'s Namespace> {
    let mut namespaces: BTreeSet<&Namespace> = BTreeSet::new();
    for (other, of) in all {
        let mut pairs = other.iter();
        if pairs.any(|(key, value)| selector.get(key).is_some_and(|own| own != value)) {
            // No proxy has both.
            continue;
        }
        if other.keys().any(|key| !selector.contains_key(key)) {
            return None;
        }
        namespaces.extend(of);
    }
    let mut namespaces = namespaces.into_iter();
    match (namespaces.next(), namespaces.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// A gateway proxy as it would introduce itself.
fn key(namespace: &Namespace, labels: &Labels, workload: &Workload) -> Option<ProxyKey> {
    let name = match &*workload.name {
        "" => "gateway",
        name => name,
    };
    let labels = labels.iter();
    let labels: Map<String, Value> = labels
        .map(|(key, value)| (key.to_string(), Value::from(&**value)))
        .collect();
    let ports = serde_json::to_string(&workload.ports).ok()?;
    let metadata = json!({"NAMESPACE": &**namespace, "LABELS": labels, "POD_PORTS": ports});
    let id = format!("router~0.0.0.0~{name}.{namespace}~{namespace}.svc.cluster.local");
    let mut node = mesh::node::from_envoy(&client::node(&id, &metadata)).ok()?;
    node.identity = workload.account.clone().map(|account| Identity {
        namespace: namespace.clone(),
        service_account: account,
    });
    Some(ProxyKey::new(Arc::new(node)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use model::Diagnostic;

    use super::super::{AnalyzeOptions, Outcome, files};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: AnalyzeOptions,
    }

    fn analyzed(documents: &[String]) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, documents.join("\n---\n")).unwrap();
        let Cli { options } = Cli::parse_from(["analyze".to_owned(), file.display().to_string()]);
        files::analyze(&options, &options.wanted()).unwrap()
    }

    /// What is found with that code: `object path: message`.
    fn with_code(outcome: &Outcome, code: &str) -> Vec<String> {
        let found = outcome.findings.iter().filter(|f| f.code == code);
        let shown = |f: &Diagnostic| {
            let object = f.object.as_ref().unwrap();
            format!("{object} {}: {}", f.path, f.message)
        };
        found.map(shown).collect()
    }

    fn gateway(namespace: &str, servers: &str) -> String {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {{name: web, namespace: {namespace}}}, \
             spec: {{selector: {{app: edge}}, servers: [{servers}]}}}}"
        )
    }

    fn deployment() -> String {
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: edge, namespace: infra}, \
         spec: {selector: {matchLabels: {app: edge}}, template: {metadata: {labels: {app: edge}}, \
         spec: {serviceAccountName: edge, containers: [{name: proxy, image: proxy}]}}}}"
            .to_owned()
    }

    const HTTP: &str = "{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.example.com]}";

    #[test]
    fn what_no_proxy_serves_is_found_however_many_namespaces_select_the_proxy() {
        let refused = "{port: {number: 8080, name: local, protocol: HTTP}, bind: 127.0.0.2, hosts: ['*']}, \
                       {port: {number: 15000, name: admin, protocol: HTTP}, hosts: ['*']}";
        let expected = [
            "Gateway shop/web spec.servers[0]: the server is not served: servers may bind 127.0.0.2 only where PILOTHOUSE_GATEWAY_BINDS \
             lists it",
            "Gateway shop/web spec.servers[1]: the server is not served on port 15000: it is a port of Envoy or its agent (Envoy admin)",
        ];
        let one = vec![gateway("shop", refused)];
        let two = vec![gateway("shop", refused), gateway("bank", HTTP)];
        let known = vec![
            gateway("shop", refused),
            gateway("bank", HTTP),
            deployment(),
        ];
        for documents in [&one, &two, &known] {
            let outcome = analyzed(documents);
            assert_eq!(with_code(&outcome, "PIL0501"), expected, "{documents:?}");
            let is_shared = documents.len() == 2;
            assert_eq!(outcome.advice.is_some(), is_shared, "{documents:?}");
        }
        let advice = analyzed(&two).advice.unwrap();
        assert!(advice.contains("app=edge"), "{advice}");
        // A Service may lead from the port to another one of the proxy.
        let service = "{apiVersion: v1, kind: Service, metadata: {name: edge, namespace: infra}, \
                       spec: {selector: {app: edge}, ports: [{name: http, port: 15000, targetPort: 8443}]}}";
        let translated = [two, vec![service.to_owned()]].concat();
        let found = with_code(&analyzed(&translated), "PIL0501");
        assert_eq!(found, expected[..1]);
    }

    #[test]
    fn a_secret_that_is_there_and_not_for_the_proxy_is_not_called_missing() {
        let tls = |name: &str| {
            gateway(
                "infra",
                &format!(
                    "{{port: {{number: 443, name: https, protocol: HTTPS}}, hosts: [a.example.com], \
                     tls: {{mode: SIMPLE, credentialName: '{name}'}}}}"
                ),
            )
        };
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: bank-cert, namespace: bank}, data: {tls.crt: YQ==, tls.key: YQ==}}";
        let found = |name: &str, code: &str| {
            let outcome = analyzed(&[tls(name), deployment(), secret.to_owned()]);
            with_code(&outcome, code)
        };
        for (name, why) in [
            (
                "kubernetes-gateway://bank/bank-cert",
                "no ReferenceGrant in bank allows it",
            ),
            (
                "kubernetes://bank/bank-cert",
                "it is for proxies of the namespace bank, and this one is of infra",
            ),
        ] {
            assert_eq!(found(name, "IST0101"), [""; 0], "{name}");
            assert_eq!(
                found(name, "PIL0502"),
                [format!(
                    "Gateway infra/web spec.servers[0].tls: {name} may not be read by the proxy: {why}: clients get no answer"
                )]
            );
        }
        // One that is not there is reported once.
        let missing = "kubernetes-gateway://infra/none";
        assert_eq!(
            found(missing, "IST0101"),
            [
                "Gateway infra/web spec.servers[0].tls.credentialName: there is no Secret infra/none, where the gateway's workloads look \
                 for it"
            ]
        );
        assert_eq!(found(missing, "PIL0502"), [""; 0]);
    }

    #[test]
    fn objects_that_are_derived_are_counted_apart() {
        let listener = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: web, namespace: infra}, \
                        spec: {gatewayClassName: pilothouse, listeners: [{name: http, port: 80, protocol: HTTP}]}}";
        assert_eq!(
            analyzed(&[listener.to_owned()]).checked,
            "1 object, 1 derived"
        );
        assert_eq!(analyzed(&[gateway("infra", HTTP)]).checked, "1 object");
    }
}
