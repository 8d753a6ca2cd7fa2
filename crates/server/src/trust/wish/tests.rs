use writeback::objects::Wish as _;

use super::*;

#[test]
fn a_config_map_is_made_or_gets_a_key_and_keeps_the_others() {
    let wish = Wish::Entry {
        key: "root-cert.pem",
        value: "ROOT".into(),
    };
    let made = wish.over(None).unwrap();
    assert_eq!(
        made["metadata"]["labels"],
        json!({"istio.io/config": "true"})
    );
    assert_eq!(made["data"], json!({"root-cert.pem": "ROOT"}));
    assert_eq!(wish.over(Some(&made)), None);
    let theirs =
        json!({"metadata": {"managedFields": [{}], "labels": {"a": "b"}}, "data": {"x": "y"}});
    let next = wish.over(Some(&theirs)).unwrap();
    assert_eq!(next["data"], json!({"x": "y", "root-cert.pem": "ROOT"}));
    assert_eq!(next["metadata"], json!({"labels": {"a": "b"}}));
}

#[test]
fn a_trust_bundle_is_of_istiods_signer() {
    let wish = Wish::TrustBundle("ROOT".into());
    let made = wish.over(None).unwrap();
    let spec = json!({"signerName": "istio.io/istiod-ca", "trustBundle": "ROOT"});
    assert_eq!(made["spec"], spec);
    assert_eq!(wish.over(Some(&made)), None);
}

fn configuration(revision: &str, names: &[&str]) -> Value {
    let webhooks = names.iter().map(|name| {
        json!({"name": name, "clientConfig": {"service": {"name": "istiod"}, "caBundle": ""},
            "failurePolicy": "Ignore"})
    });
    json!({"metadata": {"labels": {"istio.io/rev": revision}}, "webhooks": webhooks.collect::<Vec<_>>()})
}

#[test]
fn only_injectors_of_the_revision_get_the_roots() {
    let wish = Wish::Injectors {
        revision: "v2".into(),
        roots: "ROOT".into(),
    };
    let names = ["rev.sidecar-injector.istio.io", "other.example.com"];
    let next = wish.over(Some(&configuration("v2", &names))).unwrap();
    assert_eq!(next["webhooks"][0]["clientConfig"]["caBundle"], "Uk9PVA==");
    assert_eq!(
        next["webhooks"][0]["clientConfig"]["service"]["name"],
        "istiod"
    );
    assert_eq!(next["webhooks"][0]["failurePolicy"], "Ignore");
    assert_eq!(next["webhooks"][1]["clientConfig"]["caBundle"], "");
    assert_eq!(wish.over(Some(&next)), None);
    // It may be another's by now, or gone.
    assert_eq!(wish.over(Some(&configuration("v1", &names))), None);
    assert_eq!(wish.over(None), None);
}

#[test]
fn validation_fails_closed_only_when_it_is_known_to_work() {
    let wish = |fail| Wish::Validators {
        revision: "default".into(),
        roots: "ROOT".into(),
        fail,
    };
    let names = ["validation.istio.io", "deprecated.validation.istio.io"];
    let open = wish(false)
        .over(Some(&configuration("default", &names)))
        .unwrap();
    let policies = |of: &Value| {
        let all = of["webhooks"].as_array().unwrap().iter();
        all.map(|w| w["failurePolicy"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(policies(&open), ["Ignore", "Ignore"]);
    let closed = wish(true).over(Some(&open)).unwrap();
    assert_eq!(policies(&closed), ["Fail", "Fail"]);
    // What an operator closed is not opened.
    assert_eq!(wish(false).over(Some(&closed)), None);
}
