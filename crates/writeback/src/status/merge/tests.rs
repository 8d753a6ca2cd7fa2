use super::*;

const NOW: &str = "2026-11-23T12:00:00Z";
const THEN: &str = "2026-01-01T00:00:00Z";

fn condition(kind: &str, status: &str, since: Option<&str>) -> Value {
    let mut condition =
        json!({"type": kind, "status": status, "reason": "R", "observedGeneration": 2});
    if let Some(since) = since {
        condition[TRANSITION] = since.into();
    }
    condition
}

/// What a field holds next; it then holds all that is wanted, and is not changed again.
fn merged(merge: &Merge, held: &Value, wanted: &Value) -> Value {
    let part = |of: &Value| merge.part(of, wanted, "shop");
    let next = merge.merged(held, wanted, "shop", NOW);
    assert_eq!(part(&next), part(wanted));
    assert_eq!(merge.merged(&next, wanted, "shop", "later"), next);
    next
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let held = json!([
        condition("Theirs", "Unknown", Some(THEN)),
        condition("Accepted", "True", Some(THEN)),
        condition("Programmed", "False", Some(THEN)),
    ]);
    let mut accepted = condition("Accepted", "True", None);
    accepted["observedGeneration"] = 3.into();
    let wanted = json!([
        accepted,
        condition("Programmed", "True", None),
        condition("ResolvedRefs", "True", None),
    ]);
    let next = merged(&Merge::Conditions, &held, &wanted);
    assert_eq!(next[0], held[0]);
    assert_eq!(next[1]["observedGeneration"], 3);
    let times: Vec<&str> = items(&next)
        .iter()
        .map(|c| c[TRANSITION].as_str().unwrap())
        .collect();
    assert_eq!(times, [THEN, THEN, NOW, NOW]);
}

#[test]
fn listeners_that_are_gone_go_and_others_keep_the_times_of_their_conditions() {
    let listener = |name: &str, routes: u32, since| {
        let conditions = [condition("Accepted", "True", since)];
        json!({"name": name, "attachedRoutes": routes, "conditions": conditions})
    };
    let held = json!([
        listener("gone", 1, Some(THEN)),
        listener("http", 1, Some(THEN))
    ]);
    let wanted = json!([listener("http", 2, None), listener("https", 0, None)]);
    let next = merged(&Merge::ByName, &held, &wanted);
    let expected = [
        listener("http", 2, Some(THEN)),
        listener("https", 0, Some(NOW)),
    ];
    assert_eq!(next, json!(expected));
}

fn entry(by: &str, reference: Value, since: Option<&str>) -> Value {
    let conditions = [condition("Accepted", "True", since)];
    json!({"controllerName": by, "parentRef": reference, "conditions": conditions})
}

#[test]
fn entries_of_other_controllers_stay_where_they_are() {
    let merge = Merge::ByController(["us".into()].into());
    let held = json!([
        entry("them", json!({"name": "a"}), None),
        entry("us", json!({"name": "gone"}), Some(THEN)),
        // As an API server stores it.
        entry(
            "us",
            json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "a", "namespace": "shop"}),
            Some(THEN)
        ),
        entry("them", json!({"name": "b"}), Some(THEN)),
    ]);
    let wanted = json!([
        entry("us", json!({"name": "a", "sectionName": "http"}), None),
        entry("us", json!({"name": "a"}), None),
    ]);
    let next = merged(&merge, &held, &wanted);
    let expected = json!([
        held[0],
        entry("us", json!({"name": "a"}), Some(THEN)),
        held[3],
        entry("us", json!({"name": "a", "sectionName": "http"}), Some(NOW)),
    ]);
    assert_eq!(next, expected);
    // Nothing of ours is wanted any more.
    let next = merged(&merge, &held, &json!([]));
    assert_eq!(next, json!([held[0], held[3]]));
}

#[test]
fn defaults_that_an_api_server_fills_in_are_no_difference() {
    let merge = Merge::ByController(["us".into()].into());
    let wanted = json!([entry("us", json!({"name": "a"}), None)]);
    let mut held = merge.merged(&Value::Null, &wanted, "shop", NOW);
    held[0]["parentRef"]["kind"] = "Gateway".into();
    let part = |of: &Value| merge.part(of, &wanted, "shop");
    assert_eq!(part(&held), part(&wanted));
}
