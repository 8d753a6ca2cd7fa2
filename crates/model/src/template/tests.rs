use super::*;
use crate::kinds::Kind;
use crate::redacted::Redacted;

fn asker(namespace: &str) -> Asker {
    Asker {
        kind: Kind::VirtualService,
        name: ObjectName::new(namespace, "rule"),
        path: "spec".into(),
        gateways: Gateways::Of([Namespace::from("edge"), "ops".into()].into()),
    }
}

fn found(text: &str) -> Option<(String, Vec<String>)> {
    let (marked, found) = marked(text, &asker("shop"))?;
    let said = |r: &SecretRef| format!("{} asks for {} {}", r.asking, r.secret, r.key);
    Some((marked, found.iter().map(said).collect()))
}

fn keys(mark: &Mark) -> String {
    mark.secret()
        .map_or_else(String::new, |r| format!("<{}>", r.key))
}

#[test]
fn templates_are_found_with_the_namespace_that_asks() {
    let (marked, found) = found("a ${secret.db.pass.word} ${secret.ops/key.k_1}").unwrap();
    assert_eq!(
        found,
        [
            "shop asks for shop/db pass.word",
            "shop asks for ops/key k_1"
        ]
    );
    assert_eq!(filled(&marked, keys), "a <pass.word> <k_1>");
    assert_eq!(
        written(&marked),
        "a ${secret.db.pass.word} ${secret.ops/key.k_1}"
    );
    // Which gateways may have values, and which object asks, comes along.
    filled(&marked, |mark| {
        assert_eq!(mark.asker, asker("shop"));
        String::new()
    });
}

#[test]
fn what_is_not_a_template_stays() {
    for text in [
        "",
        "${secret.}",
        "${secret.db}",
        "${secret.db.}",
        "${secret.db.a b}",
        "${secret.a/b/c.d}",
        "${secret./b.c}",
        "${secret.UPPER.k}",
        "${secret.db.key",
        "$ {secret.db.key}",
        "${configmap.a.b}",
    ] {
        assert_eq!(found(text), None, "{text}");
        assert_eq!(written(text), text);
    }
    let (marked, found) = found("${secret.${secret.db.key}").unwrap();
    assert_eq!(found, ["shop asks for shop/db key"]);
    assert_eq!(filled(&marked, |_| "v".into()), "${secret.v");
}

#[test]
fn a_hidden_text_is_opened_and_shown_to_nobody() {
    let hidden = Mark::hidden(&asker("shop"), Redacted::new("a:b\0\nc:d"));
    let sealed = hidden.sealed().unwrap();
    assert!(!sealed.contains("a:b"));
    assert_eq!(written(&format!("x {sealed}")), "x redacted");
    let opened = filled(&sealed, |mark| match &mark.content {
        Content::Hidden(text) => text.reveal().to_owned(),
        _ => String::new(),
    });
    assert_eq!(opened, "a:b\0\nc:d");
}

#[test]
fn a_mark_cannot_be_written_or_changed() {
    let sealed = found("${secret.db.key}").unwrap().0;
    let mut forged: Vec<String> = vec![
        "\u{FDD0}ops\u{FDD0}{secret.ops/key.k}".into(),
        "\u{FDD0}\u{FDD0}".into(),
        "\u{FDD0}shop\u{FDD0}{secret.db".into(),
        "a\u{FDD0}".into(),
    ];
    let digits = sealed.trim_matches('\u{FDD0}');
    for at in 0..digits.len() {
        let mut changed: Vec<char> = digits.chars().collect();
        changed[at] = if changed[at] == '0' { '1' } else { '0' };
        let changed: String = changed.into_iter().collect();
        forged.push(format!("\u{FDD0}{changed}\u{FDD0}"));
        forged.push(format!("\u{FDD0}{}\u{FDD0}", &digits[at + 1..]));
    }
    for text in forged {
        let filled = filled(&text, |_| "value".into());
        let leaves_none = !filled.contains("value") && !is_marked(filled.as_bytes());
        assert!(leaves_none, "{text}");
    }
}

#[test]
fn the_character_of_marks_is_taken_out_in_every_spelling() {
    for (text, expected) in [
        ("\u{FDD0}ops\u{FDD0}", "\u{FFFD}ops\u{FFFD}"),
        (r#"{"a":"\ufdd0x\uFDD0"}"#, r#"{"a":"\ufffdx\ufffd"}"#),
        (r"\\ufdd0 \\\ufdD0", r"\\ufffd \\\ufffd"),
        (r"\U0000FDD0", r"\U0000fffd"),
        ("\u{FDD0}\\ufdd0\u{e9}", "\u{FFFD}\\ufffd\u{e9}"),
    ] {
        assert_eq!(clean(text).as_deref(), Some(expected), "{text}");
    }
    for text in [
        "",
        "ufdd0",
        r"\u",
        r"\ufdd",
        r"\\",
        "\\u\u{e9}\u{e9}\u{e9}",
        r"\U00",
        "${secret.db.k}",
    ] {
        assert_eq!(clean(text), None, "{text}");
    }
}
