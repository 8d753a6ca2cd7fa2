//! Verdicts over messages as JSON, from a table.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use prost::Message;
use prost_reflect::DynamicMessage;

const TABLE: &str = include_str!("verdicts.txt");

fn encoded(name: &str, json: &str) -> Vec<u8> {
    let json = json
        .replace("LONG", &"a".repeat(300))
        .replace("FULL", &"a".repeat(xds::NAME_BYTES))
        .replace("HUGE", &"a".repeat(xds::NAME_BYTES + 1));
    let descriptor = descriptors::pool().get_message_by_name(name);
    let descriptor = descriptor.unwrap_or_else(|| panic!("{name} is not a message"));
    let mut reader = serde_json::Deserializer::from_str(&json);
    let message = DynamicMessage::deserialize(descriptor, &mut reader);
    let message = message.unwrap_or_else(|e| panic!("{json}: {e}"));
    message.encode_to_vec()
}

#[test]
fn what_envoy_refuses_is_refused_at_its_field() {
    let mut wrong = Vec::new();
    let mut judged = 0;
    for line in TABLE
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let (place, rest) = line.split_once(' ').unwrap();
        let (name, json) = rest.trim_start().split_once(' ').unwrap();
        let name = format!("envoy.{name}");
        let verdict = pilothouse_judge::judge(&name, &encoded(&name, json.trim_start()));
        let found = match &verdict {
            Ok(()) => "-".to_owned(),
            Err(fault) if fault.place().is_empty() => ".".to_owned(),
            Err(fault) => fault.place(),
        };
        let expected = match place {
            "route" => found.starts_with("route"),
            place => found == place,
        };
        if !expected {
            wrong.push(format!("{line}\n    found {found}: {verdict:?}"));
        }
        judged += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(judged > 90, "only {judged} verdicts");
}

#[test]
fn bytes_that_are_cut_are_refused_or_taken_but_do_not_panic() {
    let whole = encoded(
        "envoy.config.route.v3.Route",
        r#"{"match": {"prefix": "/"}, "route": {"cluster": "a", "timeout": "1s"}}"#,
    );
    for end in 0..whole.len() {
        let judged = pilothouse_judge::judge("envoy.config.route.v3.Route", &whole[..end]);
        assert!(judged.is_err(), "{end}");
    }
}
