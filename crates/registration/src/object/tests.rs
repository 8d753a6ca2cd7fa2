use model::Kind;
use model::kinds::AnyObject;
use model::parse::{Validation, from_json};

use super::*;
use crate::claim::Wish;

fn group(spec: Value) -> Group {
    let object = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec,
    });
    let read = from_json(
        object,
        &std::path::Path::new("t").into(),
        Validation::Strict,
    );
    match read.documents.into_iter().find_map(|d| d.object) {
        Some(AnyObject::WorkloadGroup(object)) => Group { object, owns: true },
        other => panic!("{other:?} {:?}", read.diagnostics),
    }
}

fn claim() -> Claim {
    Claim {
        entry: model::ObjectName::new("shop", "web-10.0.0.1"),
        wish: Wish::Register {
            group: "web".into(),
        },
        address: "10.0.0.1".parse().unwrap(),
        network: "n1".into(),
        labels: [("app".into(), "node".into())].into(),
        locality: "r/z".into(),
        probed: true,
        identity: None,
        peer: "10.0.0.1".parse().unwrap(),
    }
}

fn at(second: i128) -> Wall {
    Wall(second * 1_000_000_000)
}

#[test]
fn an_entry_has_what_the_group_and_the_node_say() {
    let group = group(json!({
        "metadata": {"labels": {"app": "meta", "of": "meta"}, "annotations": {"a": "b", GROUP: "other"}},
        "template": {
            "labels": {"app": "template", "of": "template", "version": "v1"}, "ports": {"http": 8080},
            "serviceAccount": "vm", "weight": 7, "network": "n0", "locality": "x",
        },
    }));
    let made = made_of(&group, &claim(), "me", at(10));
    let labels = json!({"app": "node", "of": "meta", "version": "v1"});
    assert_eq!(
        made,
        json!({
            "apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry",
            "metadata": {
                "name": "web-10.0.0.1", "namespace": "shop", "labels": labels,
                "annotations": {
                    "a": "b", GROUP: "web", PROBED: "true", CONTROLLER: "me", CONNECTED: "1970-01-01T00:00:10Z",
                },
                "ownerReferences": [{
                    "apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup", "name": "web", "uid": "u1",
                    "controller": true,
                }],
            },
            "spec": {
                "address": "10.0.0.1", "labels": labels, "ports": {"http": 8080}, "serviceAccount": "vm", "weight": 7,
                "network": "n1", "locality": "r/z",
            },
        })
    );
    let kind = Kind::WorkloadEntry;
    let read = from_json(
        made.clone(),
        &std::path::Path::new("t").into(),
        Validation::Strict,
    );
    assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
    let Some(AnyObject::WorkloadEntry(object)) = read.documents.into_iter().find_map(|d| d.object)
    else {
        panic!("no {kind:?}");
    };
    assert_eq!(Seen::of(&object), Seen::of_json(&made));
}

#[test]
fn a_group_of_another_place_does_not_own_its_entries() {
    let group = Group {
        owns: false,
        ..group(json!({"template": {}}))
    };
    let made = made_of(&group, &claim(), "me", at(10));
    assert_eq!(made["metadata"].get("ownerReferences"), None);
}

#[test]
fn connection_and_health_leave_the_rest_as_it_is() {
    let mut object = json!({
        "metadata": {"annotations": {"a": "b"}, "resourceVersion": "5"}, "spec": {"address": "10.0.0.1"},
        "status": {"conditions": [{"type": "Other"}], "observedGeneration": "3"},
    });
    object = connected(&object, "me", at(1));
    object = disconnected(&object, at(2));
    let seen = Seen::of_json(&object);
    assert_eq!((seen.connected, seen.disconnected), (None, Some(at(2))));
    assert_eq!(seen.controller.as_deref(), Some("me"));
    object = connected(&object, "you", at(3));
    let report = |healthy, message: &str, second| Report {
        healthy,
        message: message.into(),
        at: at(second),
    };
    object = with_health(&object, Some(&report(false, "no", 4)));
    object = with_health(&object, Some(&report(false, "still no", 5)));
    assert_eq!(
        object,
        json!({
            "metadata": {
                "annotations": {"a": "b", CONTROLLER: "you", CONNECTED: "1970-01-01T00:00:03Z"},
                "resourceVersion": "5",
            },
            "spec": {"address": "10.0.0.1"},
            "status": {
                "conditions": [
                    {"type": "Other"},
                    {
                        "type": "Healthy", "status": "False", "message": "still no",
                        "lastProbeTime": "1970-01-01T00:00:05Z", "lastTransitionTime": "1970-01-01T00:00:04Z",
                    },
                ],
                "observedGeneration": "3",
            },
        })
    );
    assert!(report(false, "still no", 9).is_told_by(&Seen::of_json(&object)));
    assert!(!report(true, "", 9).is_told_by(&Seen::of_json(&object)));
    object = with_health(&object, None);
    assert_eq!(object["status"]["conditions"], json!([{"type": "Other"}]));
}

#[test]
fn an_entry_of_another_workload_is_taken() {
    let group = group(json!({"template": {}}));
    let made = made_of(&group, &claim(), "me", at(10));
    let seen = Seen::of_json(&made);
    assert_eq!(seen.is_taken(&claim()), None);
    let taken = |change: fn(&mut Claim)| {
        let mut claim = claim();
        change(&mut claim);
        seen.is_taken(&claim).is_some()
    };
    assert!(taken(|c| c.address = "10.0.0.2".parse().unwrap()));
    assert!(taken(|c| c.network = "n2".into()));
    assert!(taken(|c| c.wish = Wish::Register { group: "w".into() }));
    let written = Seen {
        group: None,
        ..seen.clone()
    };
    assert!(written.is_taken(&claim()).is_some());
}
