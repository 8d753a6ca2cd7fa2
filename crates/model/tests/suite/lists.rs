//! Lists of objects.

use std::path::Path;

use pilothouse_model::parse::{Validation, parse};

#[test]
fn a_list_is_told_what_is_wrong_with_it_as_its_items_are() {
    let item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v";
    for (text, wanted, objects) in [
        (
            format!("kind: List\napiVersion: v1\nitems:\n- {item}}}}}\n"),
            "",
            1,
        ),
        (
            format!("kind: List\napiVersion: v1\nItems:\n- {item}}}}}\n"),
            "unknown field `Items`",
            0,
        ),
        (
            format!("kind: List\napiVersion: v1\nitems:\n- {item}, k: w}}}}\n"),
            "the key stands twice",
            0,
        ),
        (
            format!("kind: List\napiVersion: v1\nitems:\n- {item}}}}}\nitems: []\n"),
            "the key stands twice",
            0,
        ),
        (
            "kind: List\napiVersion: v1\nitems: 3\n".to_owned(),
            "expected a list",
            0,
        ),
        (
            "kind: List\napiVersion: v1\n".to_owned(),
            "the list has no items",
            0,
        ),
        (
            "kind: List\napiVersion: v1\nitems: null\n".to_owned(),
            "",
            0,
        ),
    ] {
        let parsed = parse(&text, &Path::new("f.yaml").into(), Validation::Strict);
        let found: Vec<String> = parsed.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(found.is_empty(), wanted.is_empty(), "{text}: {found:?}");
        assert!(
            wanted.is_empty() || found[0].contains(wanted),
            "{text}: {found:?}"
        );
        assert_eq!(parsed.objects().count(), objects, "{text}");
    }
}
