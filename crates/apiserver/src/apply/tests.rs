use serde_json::json;

use super::*;

fn writer<'a>(manager: &'a str, time: &'a str) -> Writer<'a> {
    Writer {
        manager,
        api_version: "v1",
        subresource: "",
        time,
    }
}

fn service_schema() -> std::sync::Arc<Value> {
    crate::schema::builtin("Service").unwrap()
}

fn applied(live: &Value, manager: &str, config: Value, force: bool) -> Result<Value, Failure> {
    apply(
        live,
        &config,
        Some(&service_schema()),
        &writer(manager, "t1"),
        force,
    )
}

fn service(ports: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports}})
}

#[test]
fn what_is_applied_is_managed_by_who_applied_it() {
    let live = applied(
        &json!({"metadata": {}}),
        "one",
        service(json!([{"port": 80, "name": "http"}])),
        false,
    )
    .unwrap();
    let entry = &live["metadata"]["managedFields"][0];
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}})
    );
    let again = apply(
        &live,
        &service(json!([{"port": 80, "name": "http"}])),
        Some(&service_schema()),
        &writer("one", "t2"),
        false,
    )
    .unwrap();
    assert_eq!(again, live, "applying the same again changes nothing");
}

#[test]
fn what_is_not_applied_any_more_goes_unless_others_manage_it() {
    let live = applied(
        &json!({"metadata": {}}),
        "one",
        service(json!([{"port": 80, "name": "a"}, {"port": 81}])),
        false,
    )
    .unwrap();
    let both = applied(&live, "two", service(json!([{"port": 81}])), false).unwrap();
    let after = applied(&both, "one", service(json!([{"port": 80}])), false).unwrap();
    assert_eq!(after["spec"]["ports"], json!([{"port": 80}, {"port": 81}]));
    let after = applied(
        &after,
        "two",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}),
        false,
    )
    .unwrap();
    assert_eq!(after["spec"]["ports"], json!([{"port": 80}]));
    assert_eq!(
        after["metadata"]["managedFields"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_change_of_what_others_manage_is_a_conflict_and_can_be_forced() {
    let live = applied(
        &json!({"metadata": {}}),
        "one",
        service(json!([{"port": 80, "name": "a"}])),
        false,
    )
    .unwrap();
    let error = applied(
        &live,
        "two",
        service(json!([{"port": 80, "name": "b"}])),
        false,
    )
    .unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.ports[port=80,protocol=\"TCP\"].name"
    );
    assert_eq!(error.details["causes"][0]["reason"], "FieldManagerConflict");
    let forced = applied(
        &live,
        "two",
        service(json!([{"port": 80, "name": "b"}])),
        true,
    )
    .unwrap();
    let managers = Managers::of(&forced);
    let of = |name: &str| {
        managers
            .get(&writer(name, ""), Operation::Apply)
            .unwrap()
            .fields
            .to_json()
    };
    assert!(
        of("one")["f:spec"]["f:ports"]["k:{\"port\":80,\"protocol\":\"TCP\"}"]
            .get("f:name")
            .is_none()
    );
    assert!(
        of("two")["f:spec"]["f:ports"]["k:{\"port\":80,\"protocol\":\"TCP\"}"]
            .get("f:name")
            .is_some()
    );
    // The same value is no conflict: both manage it then.
    assert!(
        applied(
            &live,
            "three",
            service(json!([{"port": 80, "name": "a"}])),
            false
        )
        .is_ok()
    );
}

#[test]
fn whoever_updates_manages_what_changed() {
    let mut created = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "1"}});
    record(None, &mut created, None, &writer("make", "t1"));
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(
        *fields,
        json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:data": {".": {}, "f:k": {}}})
    );
    let mut updated = created.clone();
    updated["data"] = json!({"k": "2", "l": "3"});
    record(Some(&created), &mut updated, None, &writer("edit", "t2"));
    let managers = Managers::of(&updated);
    let of = |name: &str| {
        managers
            .get(&writer(name, ""), Operation::Update)
            .unwrap()
            .fields
            .to_json()
    };
    assert_eq!(
        of("make"),
        json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:data": {}})
    );
    assert_eq!(of("edit"), json!({"f:data": {"f:k": {}, "f:l": {}}}));
    let mut less = updated.clone();
    less.as_object_mut().unwrap().remove("data");
    record(Some(&updated), &mut less, None, &writer("edit", "t3"));
    let managers = Managers::of(&less);
    assert!(
        managers
            .get(&writer("edit", ""), Operation::Update)
            .is_none()
    );
}

#[test]
fn a_field_set_by_an_update_conflicts_with_an_apply_of_another_version() {
    let mut created = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}});
    record(
        None,
        &mut created,
        None,
        &writer("make", "2026-01-01T00:00:00Z"),
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}});
    let error = apply(&created, &config, None, &writer("two", "t2"), false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"make\" using v1: .data.k"
    );
}

#[test]
fn a_configuration_that_says_twice_what_an_item_is_to_be_is_refused() {
    let twice = |ports| applied(&json!({"metadata": {}}), "a", service(ports), true);
    let same = twice(json!([{"port": 80, "name": "x"}, {"port": 80, "protocol": "TCP"}]));
    let message = same.unwrap_err().message;
    assert!(
        message
            .contains(r#"(/a; /v1, Kind=Service): .spec.ports[port=80,protocol="TCP"]: duplicate"#),
        "{message}"
    );
    // Found by fuzzing: items without any key are the same item.
    assert!(twice(json!([{"name": "x"}, {"name": "y"}])).is_err());
    assert!(twice(json!([{"port": 80}, {"port": 80, "protocol": "UDP"}])).is_ok());
}
