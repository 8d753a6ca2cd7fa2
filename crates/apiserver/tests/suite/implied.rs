//! Objects that are there without being stored, and Secrets that are filled.

use std::collections::BTreeSet;

use apiserver::pki::{Files, server_names};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::watch::Events;
use crate::{APPLY, MERGE, World};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROUTES: &str = "virtualservices.networking.istio.io";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|o| o["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn kinds_that_are_built_in_have_definitions_that_stay() {
    let world = World::new().await;
    let (_, all) = world.get(DEFINITIONS).await;
    let listed = names(&all);
    assert!(listed.is_sorted());
    for name in [
        ROUTES,
        "gateways.gateway.networking.k8s.io",
        "mcpbridges.networking.higress.io",
    ] {
        assert!(listed.contains(&name), "{name}");
    }
    // Those of Kubernetes have none there either.
    assert!(!listed.iter().any(|name| name.starts_with("services.")));
    let path = format!("{DEFINITIONS}/{ROUTES}");
    let (_, one) = world.get(&path).await;
    assert_eq!(one["status"]["conditions"][1]["type"], "Established");
    assert_eq!(one["spec"]["versions"][0]["served"], true);
    assert_eq!(world.get(&path).await.1, one, "the same each time");
    let gateway = format!("{DEFINITIONS}/gateways.gateway.networking.k8s.io");
    let (_, gateway) = world.get(&gateway).await;
    let release = &gateway["metadata"]["annotations"]["gateway.networking.k8s.io/bundle-version"];
    assert!(release.as_str().unwrap().starts_with('v'));

    let (status, said) = world.delete(&path).await;
    assert_eq!(status, 403, "{said}");
    assert_eq!(world.delete(DEFINITIONS).await.0, 200);
    assert_eq!(names(&world.get(DEFINITIONS).await.1), listed);
    let first = format!("{DEFINITIONS}?limit=2");
    let (_, first) = world.get(&first).await;
    let rest = first["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = world.get(&format!("{DEFINITIONS}?continue={rest}")).await;
    assert_eq!([names(&first), names(&rest)].concat(), listed);
}

fn mesh(text: &str) -> Vec<(&'static str, Value)> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": "default"}, "data": {"mesh": text},
    });
    vec![("configmaps", map)]
}

#[tokio::test]
async fn what_the_control_plane_shows_is_there_until_somebody_writes_it() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let path = format!("{MAPS}/istio");
    let world = World::new().await;
    assert_eq!(world.get(&path).await.0, 404);
    world.api.show(mesh("a: 1"));
    let (_, first) = world.get(&path).await;
    assert_eq!(first["data"]["mesh"], "a: 1");
    assert_eq!(names(&world.get("/api/v1/configmaps").await.1), ["istio"]);
    let (status, said) = world.delete(&path).await;
    assert_eq!(status, 403, "{said}");

    // Equal again is no change; another one ends the watch, so that its client lists anew.
    let mut events = Events::at(&world, MAPS, "").await;
    assert_eq!(events.told().await, "ADDED istio");
    world.api.show(mesh("a: 1"));
    assert_eq!(world.get(&path).await.1, first);
    world.api.show(mesh("a: 2"));
    let end = events.next().await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    let (_, second) = world.get(&path).await;
    assert_eq!(second["data"]["mesh"], "a: 2");
    let since = |map: &Value| map["metadata"]["creationTimestamp"].clone();
    assert_eq!(since(&second), since(&first));

    let written = json!({"data": {"mesh": "mine: true"}});
    let (status, said) = world.patch(MERGE, &path, written).await;
    assert_eq!(status, 200, "{said}");
    world.api.show(mesh("a: 3"));
    assert_eq!(world.get(&path).await.1["data"]["mesh"], "mine: true");
    assert_eq!(world.delete(&path).await.0, 200);
    assert_eq!(world.get(&path).await.1["data"]["mesh"], "a: 3");
    world.api.show(Vec::new());
    assert_eq!(world.get(&path).await.0, 404);
}

#[tokio::test]
async fn webhooks_that_are_shown_are_asked() {
    let world = World::new().await;
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        })
    };
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(world.post(pods, pod("one")).await.0, 201);
    // Nobody answers there.
    let hook = json!({
        "name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [hook],
    });
    let resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
    world.api.show(vec![(resource, configuration)]);
    let (status, said) = world.post(pods, pod("two")).await;
    assert_eq!(status, 500, "{said}");
    assert!(
        said["message"].as_str().unwrap().contains("a.b.c"),
        "{said}"
    );
    world.api.show(Vec::new());
    assert_eq!(world.post(pods, pod("two")).await.0, 201);
}

#[tokio::test]
async fn a_definition_that_is_written_stands_in_the_place_of_one_that_is_built_in() {
    let world = World::new().await;
    let path = format!("{DEFINITIONS}/{ROUTES}");
    let mut events = Events::at(&world, DEFINITIONS, "resourceVersion=1").await;
    let labels = json!({"metadata": {"labels": {"mine": "yes"}}});
    let (status, changed) = world.patch(MERGE, &path, labels).await;
    assert_eq!(status, 200, "{changed}");
    assert_ne!(changed["metadata"]["resourceVersion"], "1");
    assert_eq!(events.told().await, format!("MODIFIED {ROUTES}"));
    let (_, all) = world.get(DEFINITIONS).await;
    assert_eq!(
        names(&all).iter().filter(|name| **name == ROUTES).count(),
        1
    );
    assert_eq!(
        world.get(&path).await.1["metadata"]["labels"]["mine"],
        "yes"
    );

    assert_eq!(world.delete(&path).await.0, 200);
    assert_eq!(events.told().await, format!("MODIFIED {ROUTES}"));
    let (_, back) = world.get(&path).await;
    assert_eq!(back["metadata"]["labels"]["mine"], Value::Null);
    assert_eq!(back["metadata"]["uid"], changed["metadata"]["uid"]);
    // As installers do it.
    back_with(&world, &path, &back).await;
}

async fn back_with(world: &World, path: &str, definition: &Value) {
    let config = json!({
        "apiVersion": definition["apiVersion"], "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]}, "spec": definition["spec"],
    });
    let apply = format!("{path}?fieldManager=me&force=true");
    let (status, said) = world.patch(APPLY, &apply, config).await;
    assert_eq!(status, 201, "{said}");
}

#[tokio::test]
async fn each_namespace_has_an_account_by_the_name_default() {
    let world = World::new().await;
    let mut events = Events::at(&world, "/api/v1/serviceaccounts", "").await;
    assert_eq!(events.told().await, "ADDED default");
    let namespace = json!({"metadata": {"name": "shop"}});
    assert_eq!(world.post("/api/v1/namespaces", namespace).await.0, 201);
    assert_eq!(events.told().await, "ADDED default");
    let (_, all) = world.get("/api/v1/serviceaccounts").await;
    assert_eq!(names(&all), ["default", "default"]);
    assert_eq!(names(&world.get(ACCOUNTS).await.1), ["default"]);

    let token = json!({"spec": {"audiences": ["istio-ca"]}});
    let path = "/api/v1/namespaces/shop/serviceaccounts/default";
    let (status, issued) = world.post(&format!("{path}/token"), token).await;
    assert_eq!(status, 201, "{issued}");
    let review = json!({"spec": {"token": issued["status"]["token"], "audiences": ["istio-ca"]}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, reviewed) = world.post(reviews, review.clone()).await;
    let user = &reviewed["status"]["user"];
    assert_eq!(user["username"], "system:serviceaccount:shop:default");

    let secrets = json!({"imagePullSecrets": [{"name": "a"}]});
    assert_eq!(world.patch(MERGE, path, secrets.clone()).await.0, 200);
    assert_eq!(
        world.get(path).await.1["imagePullSecrets"],
        secrets["imagePullSecrets"]
    );
    let (_, reviewed) = world.post(reviews, review.clone()).await;
    assert_eq!(reviewed["status"]["user"], *user);
    let mut uids = BTreeSet::from([world.get(path).await.1["metadata"]["uid"].to_string()]);
    for _ in 0..2 {
        assert_eq!(world.delete(path).await.0, 200);
        let (_, account) = world.get(path).await;
        assert_eq!(account["imagePullSecrets"], Value::Null);
        // It is another one, and what was issued to the former ends with that.
        assert!(uids.insert(account["metadata"]["uid"].to_string()));
        let (_, reviewed) = world.post(reviews, review.clone()).await;
        assert_ne!(reviewed["status"]["authenticated"], true, "{reviewed}");
    }
    let nowhere = "/api/v1/namespaces/nowhere/serviceaccounts/default";
    assert_eq!(world.get(nowhere).await.0, 404);
}

fn secret(name: &str, account: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token"})
}

#[tokio::test]
async fn a_secret_for_a_token_is_filled_and_its_end_revokes_it() {
    let world = World::new().await;
    Files::of(world.dir.path())
        .prepare(&server_names([127, 0, 0, 1].into()))
        .unwrap();
    world
        .post(ACCOUNTS, json!({"metadata": {"name": "reader"}}))
        .await;
    let (status, made) = world.post(SECRETS, secret("a", "reader")).await;
    assert_eq!(status, 201, "{made}");
    let text = |key: &str| {
        let value = made["data"][key].as_str().unwrap();
        String::from_utf8(STANDARD.decode(value).unwrap()).unwrap()
    };
    assert_eq!(text("namespace"), "default");
    assert!(text("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let annotations = &made["metadata"]["annotations"];
    assert!(annotations["kubernetes.io/service-account.uid"].is_string());
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = json!({"spec": {"token": text("token")}});
    let (_, reviewed) = world.post(reviews, review.clone()).await;
    let user = &reviewed["status"]["user"]["username"];
    assert_eq!(user, "system:serviceaccount:default:reader");

    // What is there stays, and what is taken out comes anew.
    let path = format!("{SECRETS}/a");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (_, changed) = world.patch(MERGE, &path, labels).await;
    assert_eq!(changed["data"], made["data"]);
    let (_, changed) = world
        .patch(MERGE, &path, json!({"data": {"token": null}}))
        .await;
    assert_ne!(changed["data"]["token"], made["data"]["token"]);
    assert!(changed["data"]["token"].is_string());
    assert_eq!(world.delete(&path).await.0, 200);
    let (_, reviewed) = world.post(reviews, review).await;
    assert_eq!(reviewed["status"]["authenticated"], Value::Null);
}

#[tokio::test]
async fn a_secret_for_a_token_names_its_account() {
    let world = World::new().await;
    let (status, said) = world.post(SECRETS, secret("a", "")).await;
    assert_eq!(status, 422, "{said}");
    let (status, made) = world.post(SECRETS, secret("a", "nobody")).await;
    assert_eq!((status.as_u16(), &made["data"]), (201, &Value::Null));
    world
        .post(ACCOUNTS, json!({"metadata": {"name": "nobody"}}))
        .await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (_, filled) = world.patch(MERGE, &format!("{SECRETS}/a"), labels).await;
    assert!(filled["data"]["token"].is_string(), "{filled}");
}
