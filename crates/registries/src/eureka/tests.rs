use proptest::prelude::*;

use super::decode::*;
use super::host;

fn instance(id: &str, status: &str, action: &str) -> String {
    format!(
        r#"{{"instanceId": "{id}", "ipAddr": "10.0.0.{id}", "status": "{status}", "actionType": "{action}",
            "port": {{"$": 80, "@enabled": "true"}}, "metadata": {{"@class": "x", "zone": "a", "n": 1}}}}"#
    )
}

fn answer(hash: &str, instances: &[String]) -> Vec<u8> {
    let list = instances.join(",");
    format!(
        r#"{{"applications": {{"apps__hashcode": "{hash}", "versions__delta": 1,
            "application": [{{"name": "SHOP", "instance": [{list}]}}]}}}}"#
    )
    .into_bytes()
}

fn shown(all: &Applications) -> String {
    let instances = all.instances("SHOP").unwrap_or_default();
    let shown = instances.iter().map(|i| {
        format!(
            "{}:{}{}",
            i.address,
            i.port,
            if i.healthy { "" } else { "!" }
        )
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn changes_come_to_what_the_server_has() {
    let body = answer("UP_2_", &[instance("1", "UP", ""), instance("2", "UP", "")]);
    let mut all = Applications::read(&body).unwrap();
    assert_eq!(shown(&all), "10.0.0.1:80 10.0.0.2:80");
    let metadata = &all.instances("SHOP").unwrap()[0].metadata;
    assert_eq!((metadata.len(), &*metadata["n"]), (2, "1"));
    let changes = [
        instance("1", "DOWN", "MODIFIED"),
        instance("2", "UP", "DELETED"),
        instance("3", "UP", "ADDED"),
    ];
    let delta = Delta::read(&answer("DOWN_1_UP_1_", &changes)).unwrap();
    assert_eq!(all.apply(delta).unwrap().len(), 1);
    assert_eq!(shown(&all), "10.0.0.1:80! 10.0.0.3:80");
    // The same again is no change.
    let delta = Delta::read(&answer("DOWN_1_UP_1_", &changes)).unwrap();
    assert_eq!(all.apply(delta), Some(Vec::new()));
    // Something was missed.
    let delta = Delta::read(&answer("UP_7_", &[])).unwrap();
    assert_eq!(all.apply(delta), None);
}

#[test]
fn a_list_of_one_may_be_that_one() {
    let body = br#"{"applications": {"application": {"name": "a", "instance":
        {"hostName": "h", "status": "UP", "port": {"$": "7", "@enabled": "false"}, "securePort": {"$": "8", "@enabled": true}}}}}"#;
    let all = Applications::read(body).unwrap();
    let instances = all.instances("a").unwrap();
    assert_eq!((&*instances[0].address, instances[0].port), ("h", 8));
    assert_eq!(instances[0].protocol.as_deref(), Some("https"));
    assert!(Applications::read(b"{}").is_err());
    assert!(Applications::read(br#"{"applications": {}}"#).is_ok());
}

#[test]
fn hosts_are_upper_case() {
    assert_eq!(&*host("shop"), "SHOP.eureka");
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(body: Vec<u8>, text in "[\\[\\]{}\":,a-zA-Z0-9 ]{0,80}") {
        let _ = Applications::read(&body);
        let _ = Delta::read(text.as_bytes());
    }
}
