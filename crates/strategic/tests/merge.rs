//! Patches and what they make, case by case.

use pilothouse_strategic::{Shape, Strategy, merge};
use serde_json::Value;

/// What is known of the fields of the cases, by their names.
#[derive(Clone, Copy)]
struct ByName(Strategy<'static>);

impl Shape for ByName {
    fn field(self, name: &str) -> Option<Self> {
        Some(Self(match name {
            "items" => Strategy::MergeBy("name"),
            "ports" => Strategy::MergeBy("port"),
            "words" => Strategy::Merge,
            "whole" => Strategy::Replace,
            _ => Strategy::Plain,
        }))
    }

    fn items(self) -> Option<Self> {
        Some(Self(Strategy::Plain))
    }

    fn strategy(&self) -> Strategy<'_> {
        self.0
    }
}

#[test]
fn objects_become_what_is_expected() {
    let cases = include_str!("cases.txt").split("\n\n").skip(1);
    let mut count = 0;
    for case in cases {
        let mut lines = case.lines();
        let name = lines.next().unwrap();
        let mut json = || serde_json::from_str::<Value>(lines.next().unwrap());
        let (mut object, patch, wanted) = (json().unwrap(), json().unwrap(), json().ok());
        let done = merge(&mut object, &patch, Some(ByName(Strategy::Plain)));
        let got = done.ok().map(|()| object);
        assert_eq!(got, wanted, "{name}");
        count += 1;
    }
    assert!(count > 20);
}

#[test]
fn without_a_shape_lists_are_replaced() {
    let mut object = serde_json::json!({"items": [{"name": "a"}]});
    let patch = serde_json::json!({"items": [{"name": "b"}]});
    merge(&mut object, &patch, None::<ByName>).unwrap();
    assert_eq!(object, patch);
    assert!(merge(&mut object, &Value::Null, None::<ByName>).is_err());
}
