//! The ConfigMap `higress-https`: which Secret a host has, also as Higress's own tests say where the recordings are at hand.

use model::Namespace;
use pilothouse_convert::edge::https::Https;
use serde_json::{Value, json};
use testkit::{Score, differences, recording};

use crate::edge::world::{Edge, loaded};

/// Tests that nothing here corresponds to, with how many rows each has at least.
const NOT_TAKEN: [&str; 5] = [
    // ConfigMaps with what Higress's client keeps of orders: here orders and accounts are Secrets.
    "TestGetConfigmapStoreNameByKey",
    "TestExists",
    "TestLoad",
    "TestStore",
    "TestDelete",
];

fn read(config: &Value) -> Https {
    Https::read(&config.to_string(), &Namespace::from("own")).unwrap()
}

fn matched(row: &Value) -> (Value, Value) {
    let https = read(&json!({"credentialConfig": row["credentialCfg"]}));
    let domain = row["domain"].as_str().unwrap();
    let found = https.secret(domain).map_or("", |name| name.name.as_str());
    (row["expected"].clone(), found.into())
}

fn parsed(row: &Value) -> (Value, Value) {
    let entry = json!({"domains": ["a.test"], "tlsSecret": row["tlsSecret"]});
    let https = read(&json!({"credentialConfig": [entry]}));
    let found = https.secret("a.test");
    let namespace = found.map_or("", |name| &*name.namespace);
    let namespace = if namespace == "own" { "" } else { namespace };
    let name = found.map_or("", |name| name.name.as_str());
    (
        json!([row["expectedNamespace"], row["expectedSecretName"]]),
        json!([namespace, name]),
    )
}

#[test]
fn a_host_has_the_secret_that_higress_gives_it() {
    let Some(path) = recording("higress-tables/cert.json") else {
        return;
    };
    let tables: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut score = Score::default();
    for table in &tables {
        let test = table["test"].as_str().unwrap();
        let compare = match test {
            "TestMatchSecretNameByDomain" => matched,
            "TestParseTLSSecret" => parsed,
            _ => {
                assert!(
                    NOT_TAKEN.contains(&test),
                    "{test} is neither taken nor left out"
                );
                continue;
            }
        };
        for row in table["cases"].as_array().unwrap() {
            let (wanted, found) = compare(row);
            score.count(test, &differences(&wanted, &found));
        }
    }
    score.as_listed(include_str!("../../differences/https.txt"));
}

fn ingress(name: &str, created: u32, tls: &str) -> String {
    format!(
        "---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}, namespace: shop, creationTimestamp: '2026-01-01T00:00:0{created}Z'}}
spec:
  ingressClassName: higress
  {tls}
  rules: [{{host: a.test, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]
"
    )
}

fn secret(namespace: &str, name: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: {namespace}}}, \
         stringData: {{tls.crt: C, tls.key: K}}}}\n"
    )
}

fn https(config: &str) -> String {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "higress-https", "namespace": "higress-system"},
        "data": {"cert": config},
    });
    format!("---\n{map}\n")
}

/// The credential of the host's HTTPS server, and what is found.
fn served(objects: &[String]) -> (String, Vec<String>) {
    let shown = Edge::of(&loaded(&objects.concat())).shown();
    let all = shown["objects"].as_array().unwrap();
    let gateway = all
        .iter()
        .find(|o| o["object"].as_str().unwrap().starts_with("Gateway"));
    let servers = gateway.unwrap()["spec"]["servers"].as_array().unwrap();
    let credential = servers
        .iter()
        .find_map(|s| s["tls"]["credentialName"].as_str());
    let found = shown["findings"].as_array().unwrap().iter();
    let found = found.map(|f| f.as_str().unwrap().to_owned());
    (
        credential.unwrap_or_default().to_owned(),
        found.filter(|f| !f.contains("no Service")).collect(),
    )
}

const NAMES: &str = "credentialConfig: [{domains: [a.test], tlsSecret: named}]";
const OF_CONFIG: &str = "kubernetes-gateway://higress-system/named";
const OF_INGRESS: &str = "kubernetes-gateway://shop/own";

#[test]
fn an_ingress_that_asks_for_tls_and_names_no_secret_gets_that_of_the_config_map() {
    let named = secret("higress-system", "named");
    let asks = ingress("one", 1, "tls: [{hosts: [a.test]}]");
    assert_eq!(
        served(&[asks.clone(), named.clone(), https(NAMES)]),
        (OF_CONFIG.to_owned(), vec![])
    );
    // One that does not ask for TLS gets none.
    let (credential, _) = served(&[ingress("one", 1, ""), named.clone(), https(NAMES)]);
    assert_eq!(credential, "");
    // One that names its own has its own.
    let names = ingress("one", 1, "tls: [{hosts: [a.test], secretName: own}]");
    let (credential, _) = served(&[names, secret("shop", "own"), named, https(NAMES)]);
    assert_eq!(credential, OF_INGRESS);
    // One that is not there yet is said to be missing.
    let (credential, found) = served(&[asks, https(NAMES)]);
    assert_eq!(credential, OF_CONFIG);
    assert!(
        found[0].contains("there is no Secret higress-system/named"),
        "{found:?}"
    );
}

#[test]
fn the_oldest_ingress_that_has_a_certificate_decides() {
    let older = ingress("older", 1, "tls: [{hosts: [a.test]}]");
    let newer = ingress("newer", 2, "tls: [{hosts: [a.test], secretName: own}]");
    let secrets = secret("shop", "own") + &secret("higress-system", "named");
    let all = [older, newer, secrets];
    let with = |config: &str| {
        let objects: Vec<String> = all.iter().cloned().chain([https(config)]).collect();
        served(&objects).0
    };
    assert_eq!(with(NAMES), OF_CONFIG);
    assert_eq!(with("credentialConfig: []"), OF_INGRESS);
}

#[test]
fn a_secret_that_is_missing_is_stood_in_for_where_that_is_wanted() {
    let names = ingress("one", 1, "tls: [{hosts: [a.test], secretName: own}]");
    let named = secret("higress-system", "named");
    let config = format!("{{fallbackForInvalidSecret: true, {NAMES}}}");
    let (credential, found) = served(&[names.clone(), named.clone(), https(&config)]);
    assert_eq!(credential, OF_CONFIG);
    assert!(found[0].contains("stands in for it"), "{found:?}");
    let (credential, _) = served(&[names.clone(), named.clone(), https(NAMES)]);
    assert_eq!(credential, OF_INGRESS);
    let own = secret("shop", "own");
    let (credential, found) = served(&[names, named, own, https(&config)]);
    assert_eq!((credential.as_str(), found), (OF_INGRESS, vec![]));
}

#[test]
fn what_is_wrong_with_an_entry_is_found_and_the_others_count() {
    let config = "{renewBeforeDays: 0, credentialConfig: [{domains: [b.test], tlsSecret: a/b/c}, {domains: [a.test], tlsSecret: named}]}";
    let asks = ingress("one", 1, "tls: [{hosts: [a.test]}]");
    let (credential, found) = served(&[
        asks.clone(),
        secret("higress-system", "named"),
        https(config),
    ]);
    assert_eq!(credential, OF_CONFIG);
    let about = |field: &str| {
        let begins =
            format!("PIL0723 warning ConfigMap higress-system/higress-https data[cert].{field}: ");
        found.iter().any(|f| f.starts_with(&begins))
    };
    assert!(
        about("renewBeforeDays") && about("credentialConfig[0].tlsSecret"),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "{found:?}");
    let (credential, found) = served(&[asks, https("[")]);
    assert_eq!(credential, "");
    assert!(
        found.iter().any(|f| f.starts_with("PIL0723 error")),
        "{found:?}"
    );
}
