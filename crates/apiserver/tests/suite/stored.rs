//! Kinds of Kubernetes that are stored for clients: listed, described, applied, patched.

use apiserver::access::{Access, Who};
use apiserver::api::Request;
use apiserver::source::ApiSource;
use http::Method;
use serde_json::{Value, json};
use source_api::{Delivery, Sink, Source, SourceEvent};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::duplicates::ask;
use crate::{APPLY, MERGE, STRATEGIC, World};

/// Path of the kind, its name, and an object.
fn examples() -> Vec<(&'static str, &'static str, Value)> {
    let labels = json!({"matchLabels": {"app": "web"}});
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}]}]}});
    let job = json!({"template": template, "backoffLimit": 2});
    let role = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "web", "namespace": "default"}, {"kind": "User", "name": "ann"}]);
    let reference = json!({"kind": "Role", "name": "web"});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    vec![
        (
            "policy/v1/namespaces/default/poddisruptionbudgets",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%", "selector": labels}}),
        ),
        (
            "autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
        ),
        (
            "apps/v1/namespaces/default/statefulsets",
            "StatefulSet",
            json!({"spec": {"selector": labels, "template": template, "serviceName": "web", "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}}),
        ),
        (
            "apps/v1/namespaces/default/daemonsets",
            "DaemonSet",
            json!({"spec": {"selector": labels, "template": template, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}}),
        ),
        (
            "apps/v1/namespaces/default/replicasets",
            "ReplicaSet",
            json!({"spec": {"selector": labels, "template": template}}),
        ),
        (
            "apps/v1/namespaces/default/controllerrevisions",
            "ControllerRevision",
            json!({"revision": 1, "data": {"a": [1]}}),
        ),
        (
            "batch/v1/namespaces/default/jobs",
            "Job",
            json!({"spec": job}),
        ),
        (
            "batch/v1/namespaces/default/cronjobs",
            "CronJob",
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": job}}}),
        ),
        (
            "rbac.authorization.k8s.io/v1/namespaces/default/roles",
            "Role",
            json!({"rules": role}),
        ),
        (
            "rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            "RoleBinding",
            json!({"roleRef": reference, "subjects": subjects}),
        ),
        (
            "rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRole",
            json!({"rules": role, "aggregationRule": {"clusterRoleSelectors": [labels]}}),
        ),
        (
            "rbac.authorization.k8s.io/v1/clusterrolebindings",
            "ClusterRoleBinding",
            json!({"roleRef": reference, "subjects": subjects}),
        ),
        (
            "coordination.k8s.io/v1/namespaces/default/leases",
            "Lease",
            json!({"spec": {"holderIdentity": "a"}}),
        ),
        (
            "networking.k8s.io/v1/namespaces/default/networkpolicies",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": labels}], "ports": [{"port": 80}]}], "policyTypes": ["Ingress"]}}),
        ),
        (
            "scheduling.k8s.io/v1/priorityclasses",
            "PriorityClass",
            json!({"value": 5}),
        ),
    ]
}

#[tokio::test]
async fn every_stored_kind_is_listed_described_applied_and_patched() {
    let world = World::new().await;
    for (path, kind, mut object) in examples() {
        let list = format!("/apis/{path}");
        let (group, rest) = path.split_once('/').unwrap();
        let version = rest.split('/').next().unwrap();
        let (status, none) = world.get(&list).await;
        assert_eq!(
            (status.as_u16(), &none["kind"], &none["items"]),
            (200, &json!(format!("{kind}List")), &json!([])),
            "{list}"
        );
        object["apiVersion"] = format!("{group}/{version}").into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "web"});
        let uri = format!("{list}/web?fieldManager=test&fieldValidation=Strict");
        let (status, made) = world.patch(APPLY, &uri, object.clone()).await;
        assert_eq!(status, 201, "{made}");
        let (status, again) = world.patch(APPLY, &uri, object.clone()).await;
        assert_eq!((status.as_u16(), &again), (200, &made));
        for (key, value) in object.as_object().unwrap() {
            if key == "spec" && kind != "HorizontalPodAutoscaler" {
                assert_eq!(made[key], *value, "{kind}");
            }
        }
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        let (status, after) = world.patch(STRATEGIC, &format!("{list}/web"), patch).await;
        assert_eq!(
            (status.as_u16(), &after["metadata"]["labels"]["a"]),
            (200, &json!("b"))
        );
        let (_, found) = world.get(&list).await;
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{kind}");

        let mut odd = object.clone();
        odd["sepc"] = json!({});
        let (status, said) = world.patch(APPLY, &uri, odd).await;
        assert!(
            status == 400
                && said["message"]
                    .as_str()
                    .unwrap()
                    .contains("unknown field \"sepc\""),
            "{said}"
        );
        let (_, document) = world
            .get(&format!("/openapi/v3/apis/{group}/{version}"))
            .await;
        let mut name: Vec<&str> = group.split('.').collect();
        name.reverse();
        let name = format!("{}.{version}.{kind}", name.join("."));
        let schema = &document["components"]["schemas"][&name];
        let described = |v: &Value| v["description"].is_string();
        let fields = schema["properties"]
            .as_object()
            .unwrap_or_else(|| panic!("{name}"));
        assert!(fields.values().any(described), "{name}");
    }
    // They are named in Argo CD's and istiod's way: one list of all namespaces.
    let (status, all) = world.get("/apis/policy/v1/poddisruptionbudgets").await;
    assert_eq!(
        (status.as_u16(), all["items"].as_array().unwrap().len()),
        (200, 1)
    );
}

#[tokio::test]
async fn values_are_checked_and_defaults_set_as_their_kind_has_them() {
    let world = World::new().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let wrong = json!({"metadata": {"name": "a"}, "spec": {"minAvailable": [], "unhealthyPodEvictionPolicy": "No"}});
    let (status, said) = world.post(budgets, wrong).await;
    let fields = said["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = fields
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert_eq!(status, 422);
    assert_eq!(
        fields,
        ["spec.minAvailable", "spec.unhealthyPodEvictionPolicy"]
    );

    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = json!({"metadata": {"name": "system:read:er"}, "roleRef": {"kind": "Role", "name": "a"},
        "subjects": [{"kind": "Group", "name": "ops"}, {"kind": "ServiceAccount", "name": "x", "namespace": "y"}]});
    let (status, made) = world.post(bindings, binding).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(made["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert!(made["subjects"][1].get("apiGroup").is_none());
    let uri = format!("{bindings}/system:read:er");
    let other = json!({"roleRef": {"name": "b"}});
    let (status, said) = world.patch(MERGE, &uri, other).await;
    assert_eq!(
        (status.as_u16(), &said["details"]["causes"][0]["field"]),
        (422, &json!("roleRef"))
    );

    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let (_, made) = world.post(scalers, scaler).await;
    assert_eq!(
        (
            &made["spec"]["minReplicas"],
            &made["metadata"]["generation"]
        ),
        (&json!(1), &json!(1))
    );
    let status = json!({"status": {"currentReplicas": 2, "desiredReplicas": 2}});
    let (code, after) = world
        .patch(MERGE, &format!("{scalers}/a/status"), status)
        .await;
    assert_eq!(
        (
            code.as_u16(),
            &after["status"]["currentReplicas"],
            &after["metadata"]["generation"]
        ),
        (200, &json!(2), &json!(1))
    );
    let (_, said) = world
        .post(scalers, json!({"metadata": {"name": "b"}}))
        .await;
    assert_eq!(said["reason"], "Invalid", "{said}");
    let mut request = Request::new(Method::GET, scalers, Who::local());
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let (_, table) = world.send(request).await;
    let row = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        row[..5],
        [
            json!("a"),
            json!("Deployment/web"),
            json!("1"),
            json!(3),
            json!(2)
        ]
    );
}

#[tokio::test]
async fn lists_of_containers_are_merged_by_name() {
    let world = World::new().await;
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let container = |name: &str| json!({"name": name, "image": format!("{name}:1")});
    let set = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [container("web"), container("log")]}}}});
    assert_eq!(world.post(sets, set).await.0, 201);
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "log:2"}]}}}});
    let (status, after) = world.patch(STRATEGIC, &format!("{sets}/a"), change).await;
    let images = after["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    let images: Vec<&str> = images
        .iter()
        .map(|c| c["image"].as_str().unwrap())
        .collect();
    assert_eq!((status.as_u16(), images), (200, vec!["web:1", "log:2"]));
    assert_eq!(after["metadata"]["generation"], 2);
}

#[tokio::test]
async fn endpoints_that_nobody_reads_are_told_to_their_authors_and_operators() {
    let world = World::new().await;
    let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db"}});
    let path = "/api/v1/namespaces/default/endpoints";
    let request = Request::new(Method::POST, path, Who::local());
    let request = request.with_body("application/json", body.to_string());
    let response = world.api.handle(request).await;
    assert_eq!(response.status(), 201);
    let said = response.headers()["warning"].to_str().unwrap();
    assert!(
        said.contains("EndpointSlice of discovery.k8s.io/v1"),
        "{said}"
    );

    let owner = model::Owner::new(10, "store");
    let source = Box::new(ApiSource::new(owner.clone(), world.api.store().clone()));
    let (sink, mut deliveries) = Sink::channel(owner, 100);
    let stop = CancellationToken::new();
    let running = tokio::spawn(source.run(sink, stop.clone()));
    let found = async |deliveries: &mut UnboundedReceiver<Delivery>| loop {
        let delivery = deliveries.recv().await.unwrap();
        if let SourceEvent::Findings(_, found) = delivery.event {
            return found;
        }
    };
    let first = found(&mut deliveries).await;
    assert_eq!(first.len(), 1);
    assert!(
        first[0].to_string().contains("Endpoints default/db"),
        "{first:?}"
    );
    world.delete(&format!("{path}/db")).await;
    assert_eq!(found(&mut deliveries).await, []);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn events_are_shown_with_what_happened_and_to_what() {
    let world = World::new().await;
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "web.1"}, "type": "Warning", "reason": "Failed", "message": "it failed \n",
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"}, "lastTimestamp": "2020-01-01T00:00:00Z",
        "source": {"component": "kubelet", "host": "n1"}});
    assert_eq!(world.post(events, event).await.0, 201);
    let mut request = Request::new(Method::GET, events, Who::local());
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let (_, table) = world.send(request).await;
    let heads = table["columnDefinitions"].as_array().unwrap().iter();
    let heads: Vec<&str> = heads
        .filter(|head| head["priority"] == 0)
        .map(|head| head["name"].as_str().unwrap())
        .collect();
    assert_eq!(heads, ["Last Seen", "Type", "Reason", "Object", "Message"]);
    let row = table["rows"][0]["cells"].as_array().unwrap();
    assert!(row[0].as_str().unwrap().contains('y'), "{row:?}");
    let shown = [
        json!("Warning"),
        json!("Failed"),
        json!("pod/web"),
        json!(null),
        json!("kubelet, n1"),
        json!("it failed"),
        json!(null),
        json!(1),
        json!("web.1"),
    ];
    assert_eq!(row[1..], shown);
}

#[tokio::test]
async fn what_nothing_obeys_is_answered_with_a_warning() {
    let world = World::new().await;
    for (path, kind, mut object) in examples() {
        object["metadata"] = json!({"name": "unread"});
        let uri = format!("/apis/{path}");
        let body = object.to_string();
        let answer = ask(&world, Method::POST, &uri, "application/json", &body).await;
        assert_eq!(answer.status, 201, "{kind}: {}", answer.body);
        let counted_on = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
            .iter()
            .chain(&["NetworkPolicy", "ResourceQuota", "LimitRange"])
            .any(|known| *known == kind);
        let warned = answer.warnings.iter();
        let warned = warned.filter(|said| said.contains(" is stored and not obeyed: "));
        assert_eq!(warned.count(), usize::from(counted_on), "{kind}");
    }
}

#[tokio::test]
async fn whoever_asks_what_they_may_do_is_told_all_of_it() {
    let world = World::new().await;
    let file = world.dir.path().join("access.yaml");
    let grants = "grants:\n- {user: ann, role: read, namespaces: [default]}\n- {user: bob, role: write, namespaces: [default]}\n";
    std::fs::write(&file, grants).unwrap();
    world.api.set_access(Access::read(&file).unwrap());
    let review = json!({"spec": {"namespace": "default"}});
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let verbs = async |who: &str, plural: &str| {
        let request = Request::new(Method::POST, uri, Who::new(who, &[]));
        let request = request.with_body("application/json", review.to_string());
        let (status, answer) = world.send(request).await;
        assert_eq!(status, 201, "{answer}");
        let rules = answer["status"]["resourceRules"].as_array().unwrap();
        let of = |list: &Value, name: &str| list.as_array().unwrap().contains(&json!(name));
        let found = rules
            .iter()
            .find(|rule| of(&rule["apiGroups"], "") && of(&rule["resources"], plural));
        found.map_or(0, |rule| rule["verbs"].as_array().unwrap().len())
    };
    assert_eq!(verbs("ann", "configmaps").await, 3);
    assert_eq!(verbs("ann", "secrets").await, 0);
    assert_eq!(verbs("bob", "secrets").await, 8);
    assert_eq!(verbs("bob", "namespaces").await, 3);
    assert_eq!(verbs("bob", "nodes").await, 0);
    assert_eq!(verbs("eve", "configmaps").await, 0);
    let (status, answer) = world.post(uri, json!({"spec": {}})).await;
    assert_eq!(status, 400, "{answer}");
}
