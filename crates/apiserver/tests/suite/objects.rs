//! Objects: made, changed, listed, deleted.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use serde_json::{Value, json};

use crate::{APPLY, JSON, MAPS, MERGE, ROUTES, STRATEGIC, World, map, route};

#[tokio::test]
async fn an_object_that_is_made_has_what_the_api_gives_it() {
    let world = World::new().await;
    let (status, made) = world.post(ROUTES, route("a", "a.com")).await;
    assert_eq!(status, 201, "{made}");
    let meta = &made["metadata"];
    assert_eq!(
        (meta["namespace"].as_str(), meta["generation"].as_i64()),
        (Some("default"), Some(1))
    );
    assert!(
        meta["uid"].as_str().unwrap().len() == 36
            && meta["creationTimestamp"].as_str().unwrap().ends_with('Z')
    );
    let (status, again) = world.post(ROUTES, route("a", "a.com")).await;
    assert_eq!(
        (status.as_u16(), again["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );
    assert_eq!(
        again["message"],
        "virtualservices.networking.istio.io \"a\" already exists"
    );
    let (_, old) = world
        .get("/apis/networking.istio.io/v1alpha3/namespaces/default/virtualservices/a")
        .await;
    assert_eq!(old["apiVersion"], "networking.istio.io/v1alpha3");
    assert_eq!(old["metadata"]["uid"], meta["uid"]);
    let (_, named) = world
        .post(MAPS, json!({"metadata": {"generateName": "x-"}}))
        .await;
    assert!(named["metadata"]["name"].as_str().unwrap().len() == 7);
}

#[tokio::test]
async fn a_stale_write_is_a_conflict_and_changes_nothing() {
    let world = World::new().await;
    let (_, made) = world.post(ROUTES, route("a", "a.com")).await;
    let uri = format!("{ROUTES}/a");
    let mut next = made.clone();
    next["spec"]["hosts"] = json!(["b.com"]);
    let (status, second) = world.put(&uri, next.clone()).await;
    assert_eq!(
        (status.as_u16(), second["metadata"]["generation"].as_i64()),
        (200, Some(2))
    );
    next["spec"]["hosts"] = json!(["c.com"]);
    let (status, said) = world.put(&uri, next.clone()).await;
    assert_eq!(
        (status.as_u16(), said["reason"].as_str()),
        (409, Some("Conflict"))
    );
    assert_eq!(world.get(&uri).await.1, second);
    next["metadata"]["resourceVersion"] = json!("");
    let (status, said) = world.put(&uri, next).await;
    assert_eq!(status, 422, "{said}");
    let (status, same) = world.put(&uri, second.clone()).await;
    assert_eq!(
        (status.as_u16(), &same),
        (200, &second),
        "what changes nothing is no revision"
    );
}

#[tokio::test]
async fn what_is_not_valid_is_refused_with_the_field() {
    let world = World::new().await;
    let mut bad = route("a", "a.com");
    bad["spec"]["http"][0]["route"][0]["weight"] = json!("x");
    let (status, said) = world.post(ROUTES, bad).await;
    assert_eq!(
        (status.as_u16(), said["reason"].as_str()),
        (422, Some("Invalid"))
    );
    assert_eq!(
        said["details"]["causes"][0]["field"],
        "spec.http[0].route[0].weight"
    );
    let mut odd = route("a", "a.com");
    odd["spec"]["hots"] = json!([]);
    let strict = format!("{ROUTES}?fieldValidation=Strict");
    let (status, said) = world.post(&strict, odd.clone()).await;
    assert_eq!(status, 400);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("strict decoding error: unknown field \"spec.hots\""),
        "{said}"
    );
    let (status, made) = world.post(ROUTES, odd).await;
    assert!(status == 201 && made["spec"].get("hots").is_none());
    let (status, said) = world.post(MAPS, map("Not_A_Name", "1")).await;
    assert_eq!(
        (
            status.as_u16(),
            said["details"]["causes"][0]["field"].as_str()
        ),
        (422, Some("metadata.name"))
    );
    let (status, _) = world
        .post("/api/v1/namespaces/none/configmaps", map("a", "1"))
        .await;
    assert_eq!(status, 404);
    let request = Request::new(Method::POST, MAPS, Who::local()).with_body("application/json", "{");
    assert_eq!(world.send(request).await.0, 400);
    let yaml = "metadata:\n  name: of-yaml\ndata:\n  a: b\n";
    let request =
        Request::new(Method::POST, MAPS, Who::local()).with_body("application/yaml", yaml);
    assert_eq!(world.send(request).await.0, 201);
}

#[tokio::test]
async fn patches_change_and_dry_runs_do_not() {
    let world = World::new().await;
    world.post(MAPS, map("a", "1")).await;
    let uri = format!("{MAPS}/a");
    let (_, tried) = world
        .patch(
            MERGE,
            &format!("{uri}?dryRun=All"),
            json!({"data": {"k": "2"}}),
        )
        .await;
    assert_eq!(tried["data"]["k"], "2");
    assert_eq!(world.get(&uri).await.1["data"]["k"], "1");
    let (status, patched) = world
        .patch(STRATEGIC, &uri, json!({"data": {"l": "3"}}))
        .await;
    assert_eq!(
        (status.as_u16(), &patched["data"]),
        (200, &json!({"k": "1", "l": "3"}))
    );
    let (status, patched) = world
        .patch(JSON, &uri, json!([{"op": "remove", "path": "/data/k"}]))
        .await;
    assert_eq!(
        (status.as_u16(), &patched["data"]),
        (200, &json!({"l": "3"}))
    );
    let (status, said) = world
        .patch(
            MERGE,
            &uri,
            json!({"metadata": {"resourceVersion": "1"}, "data": {"l": "4"}}),
        )
        .await;
    assert_eq!(
        (status.as_u16(), said["reason"].as_str()),
        (409, Some("Conflict"))
    );
    world.post(ROUTES, route("a", "a.com")).await;
    let (status, _) = world
        .patch(STRATEGIC, &format!("{ROUTES}/a"), json!({}))
        .await;
    assert_eq!(
        status, 415,
        "strategic patches are for Kubernetes' own kinds"
    );
    let (status, made) = world
        .post(&format!("{MAPS}?dryRun=All"), map("tried", "1"))
        .await;
    assert!(status == 201 && made["metadata"]["uid"].is_string());
    assert_eq!(world.get(&format!("{MAPS}/tried")).await.0, 404);
}

#[tokio::test]
async fn the_status_is_written_apart() {
    let world = World::new().await;
    let mut with_status = route("a", "a.com");
    with_status["status"] = json!({"x": 1});
    let (_, made) = world.post(ROUTES, with_status).await;
    assert!(made.get("status").is_none());
    let uri = format!("{ROUTES}/a");
    let change = json!({"spec": {"hosts": ["b.com"]}, "status": {"observedGeneration": "1"}});
    let (status, after) = world
        .patch(MERGE, &format!("{uri}/status"), change.clone())
        .await;
    assert_eq!(status, 200, "{after}");
    assert_eq!(
        (&after["spec"]["hosts"], &after["status"]),
        (&json!(["a.com"]), &json!({"observedGeneration": "1"}))
    );
    assert_eq!(after["metadata"]["generation"], 1);
    let (_, after) = world
        .patch(MERGE, &uri, json!({"status": {"observedGeneration": "9"}}))
        .await;
    assert_eq!(after["status"]["observedGeneration"], "1");
    assert_eq!(world.get(&format!("{MAPS}/a/status")).await.0, 404);
}

#[tokio::test]
async fn deleting_minds_finalizers_preconditions_and_dependents() {
    let world = World::new().await;
    let (_, owner) = world.post(MAPS, map("owner", "1")).await;
    let mut owned = map("owned", "1");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    world.post(MAPS, owned).await;
    let mut held = map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.post(MAPS, held).await;

    let wrong = json!({"preconditions": {"uid": "x"}});
    assert_eq!(
        world
            .body(Method::DELETE, &format!("{MAPS}/owner"), wrong)
            .await
            .0,
        409
    );
    let (status, said) = world.delete(&format!("{MAPS}/owner")).await;
    assert_eq!(
        (
            status.as_u16(),
            said["status"].as_str(),
            said["details"]["kind"].as_str()
        ),
        (200, Some("Success"), Some("configmaps"))
    );
    assert_eq!(
        world.get(&format!("{MAPS}/owned")).await.0,
        404,
        "what it owned went with it"
    );
    assert_eq!(world.delete(&format!("{MAPS}/owner")).await.0, 404);

    let uri = format!("{MAPS}/held");
    let (_, going) = world.delete(&uri).await;
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let (status, _) = world
        .patch(
            MERGE,
            &uri,
            json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        )
        .await;
    assert_eq!(status, 422);
    world
        .patch(MERGE, &uri, json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(world.get(&uri).await.0, 404);

    world.post(MAPS, map("a", "x")).await;
    world.post(MAPS, map("b", "y")).await;
    let (status, _) = world.delete(&format!("{MAPS}?labelSelector=v%3Dx")).await;
    assert_eq!(status, 200);
    assert_eq!(
        world.get(MAPS).await.1["items"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let world = World::new().await;
    let (status, made) = world
        .post("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}))
        .await;
    assert_eq!(
        (status.as_u16(), made["status"]["phase"].as_str()),
        (201, Some("Active"))
    );
    world
        .post("/api/v1/namespaces/shop/configmaps", map("a", "1"))
        .await;
    let (_, going) = world.delete("/api/v1/namespaces/shop").await;
    assert_eq!(going["status"]["phase"], "Terminating");
    for _ in 0..2000 {
        if world.get("/api/v1/namespaces/shop").await.0 == 404 {
            assert_eq!(world.get("/api/v1/configmaps").await.1["items"], json!([]));
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the namespace stays");
}

#[tokio::test]
async fn a_definition_adds_a_kind() {
    let world = World::new().await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bikes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bikes", "kind": "Bike", "shortNames": ["bk"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["wheels"], "properties": {"wheels": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"}}}}}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, made) = world.post(definitions, definition).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["status"]["conditions"][1]["type"], "Established");
    let bikes = "/apis/example.com/v1/namespaces/default/bikes";
    let (status, bike) = world
        .post(
            bikes,
            json!({"metadata": {"name": "a"}, "spec": {"wheels": 2, "bell": true}}),
        )
        .await;
    assert_eq!(
        (status.as_u16(), &bike["spec"]),
        (201, &json!({"wheels": 2, "colour": "red"}))
    );
    let (status, said) = world
        .post(
            bikes,
            json!({"metadata": {"name": "b"}, "spec": {"wheels": 0}}),
        )
        .await;
    assert_eq!(
        (
            status.as_u16(),
            said["details"]["causes"][0]["field"].as_str()
        ),
        (422, Some("spec.wheels"))
    );
    let (_, found) = world.get("/apis/example.com/v1").await;
    assert_eq!(found["resources"][0]["shortNames"], json!(["bk"]));
    let (_, document) = world.get("/openapi/v3/apis/example.com/v1").await;
    assert!(
        document["components"]["schemas"]["com.example.v1.Bike"]["properties"]["spec"].is_object()
    );
    world
        .delete(&format!("{definitions}/bikes.example.com"))
        .await;
    assert_eq!(world.get(bikes).await.0, 404);
}

#[tokio::test]
async fn discovery_tells_every_kind() {
    let world = World::new().await;
    let (_, core) = world.get("/api/v1").await;
    let names: Vec<_> = core["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    for name in [
        "configmaps",
        "secrets",
        "services",
        "namespaces",
        "namespaces/status",
        "events",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    let mut request = Request::new(Method::GET, "/apis", Who::local());
    request.accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
            .to_owned();
    let (_, all) = world.send(request).await;
    let istio = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "networking.istio.io")
        .unwrap();
    assert_eq!(istio["versions"][0]["version"], "v1");
    // A name that several groups have means that of Kubernetes for kubectl, which takes the first.
    let names = |items: &Value, name: fn(&Value) -> &Value| -> Vec<String> {
        let items = items.as_array().unwrap().iter();
        items
            .map(|item| name(item).as_str().unwrap().to_owned())
            .collect()
    };
    let (_, plain) = world.get("/apis").await;
    for groups in [
        names(&all["items"], |item| &item["metadata"]["name"]),
        names(&plain["groups"], |group| &group["name"]),
    ] {
        let at = |name: &str| groups.iter().position(|group| group == name);
        assert!(
            at("networking.k8s.io") < at("networking.internal.knative.dev"),
            "{groups:?}"
        );
        assert!(at("authorization.k8s.io") < at("gateway.networking.k8s.io"));
    }
    let (_, index) = world.get("/openapi/v3").await;
    for path in index["paths"].as_object().unwrap().keys() {
        assert_eq!(
            world.get(&format!("/openapi/v3/{path}")).await.0,
            200,
            "{path}"
        );
    }
    assert_eq!(world.get("/version").await.1["major"], "1");
    assert_eq!(world.get("/apis/none.example.com").await.0, 404);
}

#[tokio::test]
async fn what_the_rules_of_a_kind_forbid_is_refused_with_every_field() {
    let world = World::new().await;
    let mut bad = route("a", "a.com");
    bad["spec"]["http"][0]["route"] = json!([
        {"destination": {"host": "a.com"}, "weight": 0},
        {"destination": {"host": "b.com"}, "weight": 0},
    ]);
    bad["spec"]["http"][0]["match"] = json!([{"uri": {"regex": "["}}]);
    let (status, said) = world.post(ROUTES, bad.clone()).await;
    assert_eq!(
        (status.as_u16(), said["reason"].as_str()),
        (422, Some("Invalid"))
    );
    let causes = said["details"]["causes"].as_array().unwrap();
    let mut fields: Vec<_> = causes
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["spec.http[0].match[0].uri", "spec.http[0].route"],
        "{said}"
    );
    assert_eq!(world.get(&format!("{ROUTES}/a")).await.0, 404);
    // What is there is held to the same rules when it changes, by whichever way.
    assert_eq!(world.post(ROUTES, route("a", "a.com")).await.0, 201);
    let uri = format!("{ROUTES}/a");
    let spec = json!({"spec": bad["spec"]});
    assert_eq!(world.patch(MERGE, &uri, spec).await.0, 422);
    let applied = format!("{uri}?fieldManager=test&force=true");
    assert_eq!(world.patch(APPLY, &applied, bad).await.0, 422);
}

#[tokio::test]
async fn what_the_rules_of_a_kind_warn_of_is_taken_with_a_warning() {
    let world = World::new().await;
    let mut odd = route("a", "a.com");
    odd["spec"]["http"][0]["fault"] = json!({"abort": {"percentage": {"value": 10}}});
    let request = Request::new(Method::POST, ROUTES, Who::local())
        .with_body("application/json", odd.to_string());
    let response = world.api.handle(request).await;
    assert_eq!(response.status(), 201);
    let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
    assert_eq!(
        warnings,
        ["299 - \"spec.http[0].fault.abort: nothing is aborted without a status\""]
    );
}

#[tokio::test]
async fn an_object_that_goes_is_not_held_to_rules() {
    let world = World::new().await;
    let mut kept = route("a", "a.com");
    kept["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(world.post(ROUTES, kept).await.0, 201);
    let uri = format!("{ROUTES}/a");
    let routes = json!({"spec": {"http": [{"match": [{"uri": {"regex": "["}}], "route": [{"destination": {"host": "a.com"}}]}]}});
    assert_eq!(world.patch(MERGE, &uri, routes.clone()).await.0, 422);
    assert_eq!(world.delete(&uri).await.0, 200);
    assert_eq!(world.patch(MERGE, &uri, routes).await.0, 200);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(world.patch(MERGE, &uri, free).await.0, 200);
    assert_eq!(world.get(&uri).await.0, 404);
}
