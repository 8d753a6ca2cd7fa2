use serde_json::json;

use super::*;

const TAKEN: Taken = Taken {
    registers: true,
    health: true,
};

fn claim(id: &str, metadata: &Value, peer: &str) -> Result<Option<Claim>, Refusal> {
    let metadata = metadata.as_object().unwrap().clone();
    let labels = metadata.get("LABELS").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let node = Node {
        id: id.into(),
        role: model::node::Role::Sidecar,
        name: "vm".into(),
        namespace: metadata
            .get("NAMESPACE")
            .map_or("", |n| n.as_str().unwrap())
            .into(),
        dns_domain: "".into(),
        addresses: [id.split('~').nth(1).unwrap().parse().unwrap()].into(),
        labels: labels
            .map(|(k, v)| (k.as_str(), v.as_str().unwrap()))
            .collect(),
        locality: model::service::Locality::parse("r/z"),
        network: metadata
            .get("NETWORK")
            .map_or("", |n| n.as_str().unwrap())
            .into(),
        cluster: "".into(),
        service_cluster: "".into(),
        metadata: metadata.into(),
        version: None,
        extensions: None,
        identity: Identity::of_test_token("sa:shop:vm"),
        envoy_version: None,
    };
    Claim::of(&node, peer.parse().unwrap(), TAKEN)
}

#[test]
fn names_are_those_of_istio() {
    let long = "g".repeat(250);
    for (group, address, network, name) in [
        ("web", "10.0.0.1", "", "web-10.0.0.1"),
        ("web", "10.0.0.1", "vm-net", "web-10.0.0.1-vm-net"),
        ("web", "10.0.0.1", "vm.net", "web-10.0.0.1-vm.net"),
        ("web", "fd00::1", "", "web-fd00--1"),
        // What follows could not be a name as Istio makes it.
        ("web", "fd00::", "", "web-fd00--0"),
        ("web", "::1", "n", "web---1-n"),
        (
            "web",
            "10.0.0.1",
            "VM_Net/..\u{e9}1.",
            "web-10.0.0.1-vm-net-----1",
        ),
        ("web", "10.0.0.1", "/../", "web-10.0.0.1"),
        (&long, "10.0.0.1", "", &format!("{}-10.0.0.1", &long[6..])),
    ] {
        let made = entry_name(group, address.parse().unwrap(), network);
        assert_eq!(made, name);
        assert!(made.len() <= LONGEST_NAME);
        assert_eq!(object_name(&made), Some(&*made), "{made} is a name");
    }
}

#[test]
fn a_workload_asks_for_an_entry_of_its_own() {
    let metadata = json!({
        "NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web", "NETWORK": "n1",
        "LABELS": {"app": "web", "istio-locality": "r/z"},
        "PROXY_CONFIG": {"readinessProbe": {"httpGet": {"port": 80}}},
    });
    let claim = claim("sidecar~10.0.0.1~vm~x", &metadata, "1.2.3.4")
        .unwrap()
        .unwrap();
    assert_eq!(claim.entry.to_string(), "shop/web-10.0.0.1-n1");
    assert_eq!(claim.group().unwrap().to_string(), "shop/web");
    assert_eq!(
        claim.labels.keys().map(|k| &**k).collect::<Vec<_>>(),
        ["app"]
    );
    assert_eq!(&*claim.locality, "r/z");
    assert!(claim.probed);
}

#[test]
fn who_names_no_group_and_no_entry_asks_for_nothing() {
    let metadata = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": ""});
    assert_eq!(
        claim("sidecar~10.0.0.1~vm~x", &metadata, "1.2.3.4"),
        Ok(None)
    );
}

#[test]
fn an_entry_that_was_written_is_looked_after() {
    let metadata = json!({"NAMESPACE": "shop", "WORKLOAD_ENTRY": "vm-1"});
    let claim = claim("sidecar~10.0.0.1~vm~x", &metadata, "1.2.3.4")
        .unwrap()
        .unwrap();
    assert_eq!(claim.entry.to_string(), "shop/vm-1");
    assert_eq!(claim.wish, Wish::LookAfter);
}

#[test]
fn what_cannot_be_an_entry_is_refused_in_words() {
    let of = |address: &str, peer: &str, more: Value| {
        let mut metadata = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web"});
        let more = more.as_object().unwrap().clone();
        metadata.as_object_mut().unwrap().extend(more);
        let made = claim(&format!("sidecar~{address}~vm~x"), &metadata, peer);
        made.err().map(|refusal| refusal.to_string())
    };
    for address in [
        "0.0.0.0",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "ff02::1",
        "::",
    ] {
        let why = of(address, "10.1.1.1", json!({})).unwrap_or_default();
        assert!(why.contains("cannot have the address"), "{address}: {why}");
    }
    assert_eq!(
        of("127.0.0.5", "127.0.0.1", json!({})),
        None,
        "on this machine"
    );
    for (more, words) in [
        (json!({"NAMESPACE": ""}), "no namespace"),
        (
            json!({"AUTO_REGISTER_GROUP": "/../"}),
            "there is no WorkloadGroup",
        ),
        (
            json!({"AUTO_REGISTER_GROUP": "x".repeat(1000)}),
            "there is no WorkloadGroup",
        ),
        (
            json!({"AUTO_REGISTER_GROUP": "Web"}),
            "there is no WorkloadGroup",
        ),
        (
            json!({"NETWORK": "n".repeat(1000)}),
            "network that the node states is too long",
        ),
        (json!({"LABELS": {"a b": "c"}}), "is no key of a label"),
        (json!({"LABELS": {"a": "é"}}), "no label can have"),
        (json!({"LABELS": {"a": "v".repeat(64)}}), "more than 63"),
    ] {
        let why = of("10.0.0.1", "10.1.1.1", more).unwrap_or_default();
        assert!(why.contains(words), "{why}");
        assert!(why.len() < 400, "{}", why.len());
    }
    let many: serde_json::Map<_, _> = (0..65).map(|n| (format!("l{n}"), json!("v"))).collect();
    let why = of("10.0.0.1", "10.1.1.1", json!({"LABELS": many})).unwrap_or_default();
    assert!(why.contains("64 are the most"), "{why}");
}
