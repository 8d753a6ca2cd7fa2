//! What istiod made of Ingresses, where the recordings are at hand.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::derived::Semantics;
use model::kinds::kube::{Ingress, IngressClass};
use model::parse::{Validation, parse};
use model::{AnyObject, Change, Kind, Labels, Meta, Object, ObjectName, Origin, Owner, SourceId};
use pilothouse_convert::ingress::{is_served, length_of};
use pilothouse_convert::status;
use proto_istio::mesh::mesh_config::IngressControllerMode;
use proto_istio::networking::StringMatch;
use serde_json::{Value, json};
use testkit::{Scenario, Score, World, cases, differences, recording, settings};

/// A recorded object with the fields of Go's structures.
fn object(recorded: &Value) -> Object<Ingress> {
    let meta = &recorded["ObjectMeta"];
    let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
    let annotations = meta["annotations"].as_object().into_iter().flatten();
    let annotations = annotations.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
    Object {
        meta: Meta {
            name: ObjectName::new(text("namespace"), text("name")),
            labels: Labels::default(),
            annotations: annotations.collect(),
            created: Default::default(),
            maker: None,
            derived: None,
            closed: None,
            templates: None,
            uid: "".into(),
            resource_version: "".into(),
            generation: 0,
            origin: Origin::Source(SourceId {
                rank: 0,
                name: "test".into(),
            }),
        },
        spec: serde_json::from_value(recorded["Spec"].clone()).unwrap(),
        status: (),
    }
}

#[test]
fn classes_decide_as_istiod_has_it() {
    let mut score = Score::default();
    for case in cases("ingress", "ingress.shouldProcessIngressWithClass") {
        let input = &case["in"];
        let mut mesh = settings("").mesh.as_ref().clone();
        mesh.ingress_class = input["mesh"]["ingressClass"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        mesh.ingress_controller_mode = match &input["mesh"]["ingressControllerMode"] {
            Value::String(name) => IngressControllerMode::from_str_name(name).unwrap().into(),
            number => i32::try_from(number.as_i64().unwrap_or_default()).unwrap(),
        };
        let class: Option<IngressClass> = match &input["ingressClass"] {
            Value::Null => None,
            class => Some(serde_json::from_value(class["Spec"].clone()).unwrap()),
        };
        let served = is_served(&mesh, &object(&input["ingress"]), class.as_ref());
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"], &json!(served)),
        );
    }
    score.all_as_recorded();
}

#[test]
fn paths_are_as_long_as_istiod_has_it() {
    let mut score = Score::default();
    for case in cases("ingress", "ingress.getMatchURILength") {
        let uri: StringMatch = serde_json::from_value(case["in"]["match"]["uri"].clone()).unwrap();
        let (length, exact) = length_of(Some(&uri));
        let found = json!([length, exact]);
        score.count("uri", &differences(&case["out"], &found));
    }
    score.all_as_recorded();
}

/// The objects of Istio's test, which the recording does not show.
const AROUND: &str = "
apiVersion: v1
kind: Pod
metadata: {name: ingressgateway, namespace: istio-system, labels: {istio: ingressgateway}}
spec: {nodeName: foo_node}
status: {phase: Running}
---
apiVersion: v1
kind: Node
metadata: {name: foo_node}
status: {addresses: [{type: ExternalIP, address: 10.0.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingress, namespace: istio-system}
status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingress-hostname, namespace: istio-system}
status: {loadBalancer: {ingress: [{hostname: foo.bar.com}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: any, namespace: default, annotations: {kubernetes.io/ingress.class: istio}}
";

#[test]
fn addresses_are_those_that_istiod_finds() {
    let mut score = Score::default();
    for case in cases("ingress", "ingress.runningAddresses") {
        let test = case["test"].as_str().unwrap();
        let service = match test.rsplit('/').next().unwrap() {
            "service" => "istio-ingress",
            "hostname" => "istio-ingress-hostname",
            _ => "''",
        };
        let mut world = World::new(settings(&format!("ingressService: {service}")));
        world.put(AROUND);
        let statuses = status::all(&world.store.snapshot());
        let addresses = statuses[0].status["loadBalancer"]["ingress"]
            .as_array()
            .unwrap();
        let found = addresses.iter().map(|a| match &a["ip"] {
            Value::Null => a["hostname"].clone(),
            ip => ip.clone(),
        });
        score.count(test, &differences(&case["out"], &found.collect()));
    }
    score.all_as_recorded();
}

#[test]
fn objects_are_those_that_istiod_makes() {
    let Some(folder) = recording("istio/pilot/pkg/config/kube/ingress/testdata") else {
        return;
    };
    let mut score = Score::default();
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for golden in entries
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "golden"))
    {
        let input = golden.with_extension("");
        let mut settings = settings("ingressControllerMode: DEFAULT");
        settings.domain = "mydomain".into();
        let mut world = World::new(settings);
        let source = Owner::new(0, "test");
        let put = |object| Change::Put(source.clone(), object);
        world.apply(read(&input).into_iter().map(put));
        let mut expected: Vec<Value> = read(golden).iter().map(shown).collect();
        let key = |o: &Value| (o["kind"].to_string(), o["metadata"]["name"].to_string());
        expected.sort_by_key(key);
        let mut found = derived(&world);
        found.sort_by_key(key);
        let name = golden.file_name().unwrap().to_string_lossy().into_owned();
        score.count(&name, &differences(&json!(expected), &json!(found)));
    }
    score.all_as_recorded();
}

fn read(path: &Path) -> Vec<AnyObject> {
    let file: Arc<Path> = path.into();
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = parse(&text, &file, Validation::Warn);
    parsed.objects().cloned().collect()
}

fn derived(world: &World) -> Vec<Value> {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService];
    let objects = kinds
        .into_iter()
        .flat_map(|kind| snapshot.tables.iter_any(kind));
    objects.map(|object| shown(&object)).collect()
}

/// What the recordings show of an object. Istio marks with an annotation what is typed here.
fn shown(object: &AnyObject) -> Value {
    let meta = object.meta();
    let semantics = meta.derived.as_ref().map(|derived| &derived.semantics);
    let marked = meta.annotations.get("internal.istio.io/route-semantics");
    let of_ingress = semantics == Some(&Semantics::Ingress) || marked == Some("ingress");
    json!({
        "kind": object.key().kind.name(),
        "metadata": {"name": *meta.name.name, "namespace": *meta.name.namespace},
        "of ingress": of_ingress || object.key().kind == Kind::Gateway,
        "spec": object.spec_json(),
    })
}

#[test]
fn gateways_get_what_istiod_sent_them() {
    let mut score = Score::default();
    let mine =
        |name: &String| name.starts_with("istio-ingress-") || name.starts_with("kube-ingress");
    for name in Scenario::names().into_iter().filter(mine) {
        let Some(scenario) = Scenario::recorded(&name) else {
            continue;
        };
        for (node, ty, expected, generated) in scenario.compared() {
            let missing = expected.keys().filter(|k| !generated.contains_key(*k));
            let mut found: Vec<String> = missing.map(|k| format!("no {k}")).collect();
            for (key, expected) in &expected {
                let ours = generated.get(key).cloned().unwrap_or_default();
                found.extend(differences(expected, &ours));
            }
            score.count(&format!("{name} {node} {ty:?}"), &found);
        }
    }
    score.all_as_recorded();
}
