use super::*;

fn only(text: &str) -> Node<'_> {
    let mut all: Vec<_> = documents(text).collect();
    assert_eq!(all.len(), 1);
    all.remove(0).node.unwrap()
}

fn json(node: &Node<'_>) -> serde_json::Value {
    serde::Deserialize::deserialize(node).unwrap()
}

#[test]
fn documents_are_cut_at_separators_and_keep_their_lines() {
    let all: Vec<_> =
        documents("# none\n---\na: 1\n---\n\n# c\nb: [\n---\nc: |\n  ---\n  x\n--- {d: 1}\n")
            .collect();
    let lines: Vec<_> = all.iter().map(|d| (d.line, d.node.is_ok())).collect();
    assert_eq!(lines, [(3, true), (7, false), (9, true), (12, true)]);
    let text = all[2].node.as_ref().unwrap().get("c").unwrap();
    assert_eq!(text.as_str(), Some("---\nx\n"));
}

#[test]
fn values_know_where_they_stand() {
    let node = only("---\na:\n  - bb: ccc\n");
    let Value::Seq(items) = &node.get("a").unwrap().value else {
        panic!("a list")
    };
    let entry = &items[0].entries().unwrap()[0];
    let at = |span: Span| (span.line, span.column, span.length);
    assert_eq!(at(entry.at), (3, 5, 2));
    assert_eq!(at(entry.value.span), (3, 9, 3));
}

#[test]
fn merge_keys_add_what_is_missing() {
    let node = only("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\nc: *x\n");
    assert_eq!(
        json(&node),
        serde_json::json!({"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}, "c": {"k": 1, "l": 2}})
    );
}

#[test]
fn aliases_of_aliases_are_bounded() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let before = format!("*a{}", i - 1);
        let items = [before.as_str(); 9].join(", ");
        text += &format!("a{i}: &a{i} [{items}]\n");
    }
    let mut all = documents(&text);
    let error = all.next().unwrap().node.unwrap_err();
    assert!(error.message.contains("too large"), "{error:?}");
}

#[test]
fn depth_is_bounded() {
    for text in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
    ] {
        assert!(documents(&text).next().unwrap().node.is_err());
    }
}

#[test]
fn the_last_of_doubled_keys_wins_and_is_reported() {
    let all: Vec<_> = documents("a:\n- k: 1\n  l: 2\n  k: 3\n").collect();
    assert_eq!(
        json(all[0].node.as_ref().unwrap()),
        serde_json::json!({"a": [{"l": 2, "k": 3}]})
    );
    assert_eq!(all[0].duplicates[0].path.to_string(), "a[0].k");
    assert_eq!(all[0].duplicates[0].first_line, 2);
}

#[test]
fn json_is_read_with_escapes_that_yaml_does_not_know() {
    let node = only("{\n\t\"a\": \"\\ud83d\\ude00\\/\",\n\t\"b\": 1.5e2}");
    assert_eq!(json(&node), serde_json::json!({"a": "😀/", "b": 150}));
}
