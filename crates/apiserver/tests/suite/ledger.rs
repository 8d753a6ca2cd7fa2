//! The ledger: history, differences, going back.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use serde_json::json;

use crate::{MAPS, MERGE, ROUTES, World, map, route};
use serde_json::Value;

/// The user by whose name the control plane writes.
const OWN: &str = "system:pilothouse";

async fn own(world: &World, method: Method, uri: &str, body: Value) -> Value {
    let request = Request::new(method, uri, Who::new(OWN, &["system:masters"]));
    let kind = match request.method {
        Method::PATCH => MERGE,
        _ => "application/json",
    };
    let request = match body.is_null() {
        true => request,
        false => request.with_body(kind, body.to_string()),
    };
    let (status, said) = world.send(request).await;
    assert!(status.is_success(), "{uri}: {said}");
    said
}

fn names(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap().iter();
    all.map(|object| object["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn history_tells_who_did_what() {
    let world = World::new().await;
    world
        .post(&format!("{MAPS}?fieldManager=make"), map("a", "1"))
        .await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a?fieldManager=edit"),
            json!({"data": {"k": "2"}}),
        )
        .await;
    world.delete(&format!("{MAPS}/a")).await;
    let (_, history) = world.get("/pilothouse/history?resource=cm&name=a").await;
    let lines: Vec<_> = history["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            format!(
                "{} {} {}",
                r["change"].as_str().unwrap(),
                r["manager"].as_str().unwrap(),
                r["user"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "deleted pilothouse local",
            "changed edit local",
            "created make local"
        ]
    );
    assert_eq!(
        world
            .get("/pilothouse/history?resource=nothing&name=a")
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn a_rollback_is_shown_first_and_is_a_new_revision() {
    let world = World::new().await;
    let (_, made) = world.post(ROUTES, route("a", "a.com")).await;
    let (_, gone) = world.post(ROUTES, route("gone", "g.com")).await;
    let then: u64 = gone["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    world
        .patch(
            MERGE,
            &format!("{ROUTES}/a"),
            json!({"spec": {"hosts": ["b.com"]}}),
        )
        .await;
    world.delete(&format!("{ROUTES}/gone")).await;
    world.post(ROUTES, route("new", "n.com")).await;
    let (_, diff) = world.get(&format!("/pilothouse/diff?from={then}")).await;
    let changes: Vec<_> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(changes, ["a", "gone", "new"]);
    let (_, was) = world
        .get(&format!(
            "/pilothouse/at?revision={then}&resource=vs&name=a"
        ))
        .await;
    assert_eq!(was, made);

    let roll = format!("/pilothouse/rollback?revision={then}");
    let (status, tried) = world.post(&format!("{roll}&dryRun=All"), json!({})).await;
    assert_eq!(
        (status.as_u16(), tried["changes"].as_array().unwrap().len()),
        (200, 3)
    );
    assert_eq!(world.get(&format!("{ROUTES}/gone")).await.0, 404);
    let (status, done) = world.post(&roll, json!({})).await;
    assert_eq!(
        (status.as_u16(), done["dryRun"].as_bool()),
        (200, Some(false)),
        "{done}"
    );
    let (_, back) = world.get(&format!("{ROUTES}/a")).await;
    assert_eq!(
        (
            &back["spec"],
            &back["metadata"]["uid"],
            back["metadata"]["generation"].as_i64()
        ),
        (&made["spec"], &made["metadata"]["uid"], Some(3))
    );
    let (_, again) = world.get(&format!("{ROUTES}/gone")).await;
    assert_eq!(again["spec"], gone["spec"]);
    assert_ne!(again["metadata"]["uid"], gone["metadata"]["uid"]);
    assert_eq!(world.get(&format!("{ROUTES}/new")).await.0, 404);
    let (_, none) = world
        .get(&format!("/pilothouse/diff?from={}", done["revision"]))
        .await;
    assert_eq!(none["changes"], json!([]));
}

#[tokio::test]
async fn the_ledger_is_for_those_who_may_do_everything() {
    let world = World::new().await;
    let request = Request::new(Method::GET, "/pilothouse/history", Who::new("eve", &[]));
    assert_eq!(world.send(request).await.0, 403);
    let request = Request::new(Method::GET, MAPS, Who::new("eve", &[]));
    let (status, said) = world.send(request).await;
    assert_eq!(status, 403);
    assert_eq!(
        said["message"],
        "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
}

const CORE: &str = "/api/v1/namespaces/default";
const ENTRIES: &str = "/apis/networking.istio.io/v1/namespaces/default/workloadentries";

fn entry(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry",
        "metadata": {"name": name, "annotations": annotations}, "spec": {"address": "10.0.0.1"},
    })
}

/// The annotation of a workload that has registered itself.
fn registered() -> Value {
    json!({"istio.io/autoRegistrationGroup": "vms"})
}

/// Objects that operators and the control plane have made; the revision of the last one.
async fn at_first(world: &World) -> String {
    world.post(ROUTES, route("a", "a.com")).await;
    world.post(ROUTES, route("b", "b.com")).await;
    let gone = entry("gone", registered());
    own(world, Method::POST, ENTRIES, gone).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": {"k": "djE="},
    });
    let (_, last) = world.post(&format!("{CORE}/secrets"), secret).await;
    let revision = last["metadata"]["resourceVersion"].as_str();
    revision.unwrap().to_owned()
}

/// What operators do, and what happens meanwhile; the status that routes get.
async fn meanwhile(world: &World) -> Value {
    let hosts = json!({"spec": {"hosts": ["c.com"]}});
    world.patch(MERGE, &format!("{ROUTES}/a"), hosts).await;
    let v2 = json!({"data": {"k": "djI="}});
    world
        .patch(MERGE, &format!("{CORE}/secrets/mine"), v2)
        .await;
    world.post(ENTRIES, entry("by-hand", json!({}))).await;
    let gone = format!("{ENTRIES}/gone");
    own(world, Method::DELETE, &gone, Value::Null).await;
    own(world, Method::POST, ENTRIES, entry("came", registered())).await;
    for (kind, plural, name) in [
        ("Secret", "secrets", "istio-ca-secret"),
        ("ConfigMap", "configmaps", "istio-ca-root-cert"),
    ] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        own(world, Method::POST, &format!("{CORE}/{plural}"), object).await;
    }
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}});
    let accounts = format!("{CORE}/serviceaccounts");
    world.post(&accounts, account).await;
    let said = json!({"status": {"conditions": [{"type": "Reconciled", "status": "True"}]}});
    for name in ["a", "b"] {
        let path = format!("{ROUTES}/{name}/status");
        own(world, Method::PATCH, &path, said.clone()).await;
    }
    said["status"].clone()
}

#[tokio::test]
async fn a_rollback_of_everything_undoes_configuration_and_nothing_else() {
    let world = World::new().await;
    let then = at_first(&world).await;
    let said = meanwhile(&world).await;
    let roll = format!("/pilothouse/rollback?revision={then}");
    let (status, done) = world.post(&roll, json!({})).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(names(&done["changes"]), ["mine", "a", "by-hand"]);
    let mut left = names(&done["left"]);
    left.sort_unstable();
    assert_eq!(
        left,
        [
            "came",
            "gone",
            "istio-ca-root-cert",
            "istio-ca-secret",
            "web"
        ]
    );
    let (_, a) = world.get(&format!("{ROUTES}/a")).await;
    assert_eq!(a["spec"]["hosts"], json!(["a.com"]));
    assert_eq!(a["status"], said);
    for (path, there) in [
        (format!("{ENTRIES}/came"), true),
        (format!("{ENTRIES}/gone"), false),
        (format!("{ENTRIES}/by-hand"), false),
        (format!("{CORE}/secrets/istio-ca-secret"), true),
        (format!("{CORE}/configmaps/istio-ca-root-cert"), true),
        (format!("{CORE}/serviceaccounts/web"), true),
    ] {
        assert_eq!(world.get(&path).await.0 == 200, there, "{path}");
    }

    // What is named is put back, whatever it is.
    let named = format!("{roll}&resource=sa&name=web");
    let (status, done) = world.post(&named, json!({})).await;
    assert_eq!(
        (status.as_u16(), names(&done["changes"])),
        (200, vec!["web"])
    );
    let account = format!("{CORE}/serviceaccounts/web");
    assert_eq!(world.get(&account).await.0, 404);
}
