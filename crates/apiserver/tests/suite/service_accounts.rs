//! Tokens of service accounts: issued, judged, bound, and good for signing in.

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::pki::{Files, Given, server_names};
use apiserver::store::{Keep, Store};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::World;
use crate::tls::ask_for;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn world() -> World {
    let world = World::new().await;
    let (status, _) = world
        .post(ACCOUNTS, json!({"metadata": {"name": "web"}}))
        .await;
    assert_eq!(status, StatusCode::CREATED);
    world
}

async fn request(world: &World, spec: Value) -> (StatusCode, Value) {
    world
        .post(&format!("{ACCOUNTS}/web/token"), json!({"spec": spec}))
        .await
}

async fn token(world: &World, spec: Value) -> String {
    let (status, answer) = request(world, spec).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// The status of a review.
async fn review(world: &World, token: &str, audiences: &[&str]) -> Value {
    let body = json!({"spec": {"token": token, "audiences": audiences}});
    let (status, mut answer) = world.post(REVIEWS, body).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["status"].take()
}

fn pod(account: &str) -> Value {
    json!({"metadata": {"name": "web-1"}, "spec": {"serviceAccountName": account, "nodeName": "one", "containers": [{"name": "a", "image": "b"}]}})
}

#[tokio::test]
async fn a_token_tells_whose_it_is_to_those_it_is_for() {
    let world = world().await;
    let token = token(&world, json!({"audiences": ["istio-ca", "vault"]})).await;
    let status = review(&world, &token, &["other", "istio-ca"]).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!(["istio-ca"]));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:web");
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ];
    assert_eq!(user["groups"], json!(groups));
    assert!(user["uid"].as_str().is_some_and(|uid| uid.len() == 36));
    for audiences in [&["other"][..], &[]] {
        let status = review(&world, &token, audiences).await;
        assert_eq!(status["authenticated"], json!(null), "{audiences:?}");
        let error = status["error"].as_str().unwrap();
        assert!(
            error.contains("audience") && !error.contains(&token),
            "{error}"
        );
    }
    // Deleting the account revokes its tokens, and one of its name is another.
    world.delete(&format!("{ACCOUNTS}/web")).await;
    assert_eq!(
        review(&world, &token, &["istio-ca"]).await["authenticated"],
        json!(null)
    );
    world
        .post(ACCOUNTS, json!({"metadata": {"name": "web"}}))
        .await;
    assert_eq!(
        review(&world, &token, &["istio-ca"]).await["authenticated"],
        json!(null)
    );
}

#[tokio::test]
async fn a_token_can_be_bound_to_a_pod() {
    let world = world().await;
    let pods = "/api/v1/namespaces/default/pods";
    let reference = json!({"audiences": ["a"], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web-1"}});
    assert_eq!(
        request(&world, reference.clone()).await.0,
        StatusCode::NOT_FOUND
    );
    world.post(pods, pod("other")).await;
    assert_eq!(
        request(&world, reference.clone()).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    world.delete(&format!("{pods}/web-1")).await;
    world.post(pods, pod("web")).await;
    let mut stale = reference.clone();
    stale["boundObjectRef"]["uid"] = "another".into();
    assert_eq!(
        request(&world, stale).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let token = token(&world, reference).await;
    let status = review(&world, &token, &["a"]).await;
    let extra = &status["user"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/pod-name"],
        json!(["web-1"])
    );
    assert_eq!(
        extra["authentication.kubernetes.io/node-name"],
        json!(["one"])
    );
    world.delete(&format!("{pods}/web-1")).await;
    assert_eq!(
        review(&world, &token, &["a"]).await["authenticated"],
        json!(null)
    );
}

#[tokio::test]
async fn what_is_asked_of_a_token_has_limits() {
    let world = world().await;
    for (spec, status) in [
        (
            json!({"expirationSeconds": 599}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({"expirationSeconds": -1}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({"expirationSeconds": "1h"}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({"audiences": vec!["a"; 33]}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (json!({"expirationSeconds": 600}), StatusCode::CREATED),
    ] {
        assert_eq!(request(&world, spec.clone()).await.0, status, "{spec}");
    }
    let (_, long) = request(&world, json!({"expirationSeconds": u32::MAX})).await;
    assert_eq!(long["spec"]["expirationSeconds"], 365 * 24 * 3600);
    let path = format!("{ACCOUNTS}/nobody/token");
    assert_eq!(world.post(&path, json!({})).await.0, StatusCode::NOT_FOUND);
    let path = format!("{ACCOUNTS}/web/token");
    assert_eq!(
        world.post(&path, json!([])).await.0,
        StatusCode::BAD_REQUEST
    );
    let other = json!({"kind": "ConfigMap"});
    assert_eq!(world.post(&path, other).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(world.get(&path).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let (status, tried) = world.post(&format!("{path}?dryRun=All"), json!({})).await;
    assert!(status.is_success() && tried["status"].is_null(), "{tried}");
    assert_eq!(
        world.post(REVIEWS, json!({"spec": {}})).await.0,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn who_may_write_in_a_namespace_gets_tokens_and_only_admins_review_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access");
    std::fs::write(&path, "users: []\ngrants: [{user: bob, role: write, namespaces: [default]}, {user: eve, role: read, namespaces: ['*']}]").unwrap();
    let world = world().await;
    world.api.set_access(Access::read(&path).unwrap());
    let ask = |user: &'static str, path: String, body: Value| {
        let request = Request::new(Method::POST, &path, Who::new(user, &[]));
        world.send(request.with_body("application/json", body.to_string()))
    };
    let token = format!("{ACCOUNTS}/web/token");
    assert_eq!(
        ask("bob", token.clone(), json!({})).await.0,
        StatusCode::CREATED
    );
    assert_eq!(
        ask("eve", token.clone(), json!({})).await.0,
        StatusCode::FORBIDDEN
    );
    let elsewhere = token.replace("default", "else");
    assert_eq!(
        ask("bob", elsewhere, json!({})).await.0,
        StatusCode::FORBIDDEN
    );
    for user in ["bob", "eve"] {
        let review = json!({"spec": {"token": "a"}});
        let (status, answer) = ask(user, REVIEWS.to_owned(), review).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    }
}

#[tokio::test]
async fn a_service_account_signs_in_and_may_do_what_it_is_granted() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::of(dir.path());
    let admin = files
        .prepare(&server_names("127.0.0.1".parse().unwrap()))
        .unwrap();
    let security = Security::Tls(files.server(&Given::default()).unwrap());
    let path = dir.path().join("access");
    std::fs::write(&path, "users: []\ngrants: [{user: 'system:serviceaccount:default:web', role: read, namespaces: ['*']}]").unwrap();
    let access = Access::read(&path).unwrap().with_admin(&admin).unwrap();
    let store = Store::open(dir.path(), Keep::default()).unwrap();
    let api = Api::start(store, access, Audit::default(), &["default"])
        .await
        .unwrap();
    let world = World { api, dir };
    for account in ["web", "db"] {
        world
            .post(ACCOUNTS, json!({"metadata": {"name": account}}))
            .await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(
        listener,
        security,
        world.api.clone(),
        CancellationToken::new(),
    ));
    let ca = std::fs::read(files.ca()).unwrap();
    let namespaces = "/api/v1/namespaces";
    let path = format!("{ACCOUNTS}/db/token");
    let (_, other) = world.post(&path, json!({})).await;
    let other = other["status"]["token"].as_str().unwrap().to_owned();
    for (token, wanted) in [
        (token(&world, json!({})).await, "200"),
        (
            token(&world, json!({"audiences": ["istio-ca"]})).await,
            "401",
        ),
        (other, "403"),
    ] {
        let answer = ask_for(namespaces, address, &ca, None, &token).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {wanted}")),
            "{answer}"
        );
    }
    // What verifiers need is for everybody.
    let metadata = ask_for("/.well-known/openid-configuration", address, &ca, None, "").await;
    assert!(
        metadata.contains(
            "\"jwks_uri\":\"https://kubernetes.default.svc.cluster.local/openid/v1/jwks\""
        ),
        "{metadata}"
    );
    let keys = ask_for("/openid/v1/jwks", address, &ca, None, "").await;
    assert!(
        keys.contains("\"kty\":\"RSA\"") && !keys.contains("\"d\":"),
        "{keys}"
    );
    // The operator's token is reviewed as well, for those who ask about the API.
    assert_eq!(
        review(&world, &admin, &[]).await["user"]["username"],
        "admin"
    );
    assert_eq!(
        review(&world, &admin, &["istio-ca"]).await["authenticated"],
        json!(null)
    );
}
