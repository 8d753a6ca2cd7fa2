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
    assert_eq!(all[0].duplicates[0].first_line, Some(2));
}

#[test]
fn json_is_read_with_escapes_that_yaml_does_not_know() {
    let node = only("{\n\t\"a\": \"\\ud83d\\ude00\\/\",\n\t\"b\": 1.5e2}");
    assert_eq!(json(&node), serde_json::json!({"a": "😀/", "b": 150}));
}

#[test]
fn duplicate_keys_of_json_that_is_not_yaml_are_found_with_the_earlier_value() {
    let text = r#"{"u": "\ud83d\ude00", "a": [{"k": 1, "k": 2}], "u": "x"}"#;
    let all: Vec<_> = documents(text).collect();
    let found: Vec<_> = all[0]
        .duplicates
        .iter()
        .map(|d| (d.path.to_string(), json(&d.earlier), d.message()))
        .collect();
    let message = "the key stands twice".to_owned();
    let wanted = [
        ("a[0].k".to_owned(), serde_json::json!(1), message.clone()),
        ("u".to_owned(), serde_json::json!("😀"), message),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn paths_of_duplicate_keys_are_bounded() {
    // Of each the path would be as long as the document.
    let below = "{a: 1, a: 2}, ".repeat(2_000);
    let all: Vec<_> = [
        format!("? {}\n: [{below}]\n", "k".repeat(200_000)),
        format!(
            r#"{{"u": "\ud83d\ude00", "{}": [{}]}}"#,
            "k".repeat(200_000),
            below.trim_end_matches(", ").replace('a', "\"a\"")
        ),
    ]
    .iter()
    .map(|text| {
        documents(text)
            .next()
            .map(|d| (d.node.is_ok(), d.duplicates.len()))
    })
    .collect();
    assert_eq!(all, [Some((true, 6)); 2], "as many as 1 MiB holds");
}

/// As kubectl reads it.
#[test]
fn quoted_texts_may_go_on_below_their_keys() {
    let text = "---\ndata:\n  single: 'A long line that\n  a generator''s end\n\n  wrapped'\n  double: \"a\\\n  b \\\"\nc\"\n  \
                list: [1]\nlast: {x: 'y'}\n";
    let node = only(text);
    assert_eq!(
        json(&node),
        serde_json::json!({
            "data": {"single": "A long line that a generator's end\nwrapped", "double": "ab \" c", "list": [1]},
            "last": {"x": "y"},
        })
    );
    assert_eq!(node.get("last").unwrap().span.line, 11);
}

#[test]
fn other_mistakes_beside_such_texts_are_found() {
    for text in ["a:\n  b: 'x\n  y'\nc: [\n", "a:\n  b: 'x\n  y\nc: d\n"] {
        let error = documents(text).next().unwrap().node;
        assert!(error.is_err(), "{text}");
    }
}

/// Reading again is bounded, whatever there is to move.
#[test]
fn many_such_texts_are_read_or_left() {
    let one = |key: usize| format!("  k{key}: 'x\n  y'\n");
    let all = |count| (0..count).map(one).collect::<String>();
    assert!(
        documents(&format!("a:\n{}", all(100)))
            .next()
            .unwrap()
            .node
            .is_ok()
    );
    let many = format!("a:\n{}", all(20_000));
    assert!(documents(&many).next().unwrap().node.is_err());
}
