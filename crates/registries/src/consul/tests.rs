use proptest::prelude::*;

use super::*;

#[test]
fn instances_are_read_with_what_is_missing() {
    let body = br#"[
        {"Node": {"Address": "10.0.0.9"}, "Service": {"Address": "", "Port": 80, "Meta": null,
          "Tags": ["a", "b"], "Weights": {"Passing": 3, "Warning": 1}},
         "Checks": [{"Status": "passing"}, {"Status": "passing"}]},
        {"Node": {"Address": "10.0.0.9"}, "Service": {"Address": "10.0.0.2", "Port": 81,
          "Meta": {"protocol": "grpc"}, "Tags": null}, "Checks": [{"Status": "warning"}]},
        {"Service": {"Address": "10.0.0.3", "Port": 70000}, "Checks": null},
        {}
    ]"#;
    let all = decode::instances(body, "").unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|i| (&*i.address, i.port, i.weight, i.healthy))
        .collect();
    assert_eq!(
        shown,
        [
            ("10.0.0.9", 80, 3.0, true),
            ("10.0.0.2", 81, 1.0, false),
            ("10.0.0.3", 0, 1.0, true),
            ("", 0, 1.0, true),
        ]
    );
    assert_eq!(&*all[1].metadata["protocol"], "grpc");
    assert_eq!(decode::instances(body, "b").unwrap().len(), 1);
}

#[test]
fn services_are_chosen_by_tag() {
    let body = br#"{"a": ["x"], "b": [], "c": null, "d": ["y", "x"]}"#;
    let named = |tag| decode::names(body, tag).unwrap().join(" ");
    assert_eq!((&*named(""), &*named("x")), ("a b c d", "a d"));
    let rows =
        br#"[{"Name": "a", "Tags": ["x"], "InstanceCount": 2}, {"Name": "b", "Nodes": null}]"#;
    let rows = |tag| decode::summary(rows, tag).unwrap().len();
    assert_eq!((rows(""), rows("x")), (2, 1));
}

#[test]
fn hosts_have_no_underscore() {
    assert_eq!(&*host("my_app", "dc_1"), "my-app.dc-1.consul");
}

#[test]
fn tokens_do_not_show() {
    let header = secret(HeaderName::from_static("x-consul-token"), "hush").unwrap();
    assert!(!format!("{header:?}").contains("hush"));
    assert!(secret(HeaderName::from_static("a"), "line\nbreak").is_none());
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(body: Vec<u8>, text in "[\\[\\]{}\":,a-zA-Z0-9 ]{0,80}") {
        for body in [&body, text.as_bytes()] {
            let _ = decode::instances(body, "a");
            let _ = decode::names(body, "");
            let _ = decode::summary(body, "");
            let _ = decode::datacenter(body);
        }
    }
}
