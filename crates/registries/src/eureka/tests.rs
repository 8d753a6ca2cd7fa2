use proptest::prelude::*;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::decode::*;
use super::*;
use crate::backends::Read;

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
    let applied = all.apply(delta);
    assert_eq!((applied.changed.len(), applied.is_all), (1, true));
    assert_eq!(shown(&all), "10.0.0.1:80! 10.0.0.3:80");
    // The same again is no change.
    let delta = Delta::read(&answer("DOWN_1_UP_1_", &changes)).unwrap();
    let none = Vec::new();
    assert_eq!(
        (all.apply(delta)),
        Applied {
            changed: none,
            is_all: true
        }
    );
    // Something was missed.
    let delta = Delta::read(&answer("UP_7_", &[])).unwrap();
    assert!(!all.apply(delta).is_all);
}

/// Answers each request with the next of these, and then no more.
async fn answering(bodies: Vec<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for body in bodies {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert!(socket.read_buf(&mut head).await.unwrap() > 0);
            }
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            socket
                .write_all(&[head.as_bytes(), &body].concat())
                .await
                .unwrap();
        }
    });
    port
}

#[tokio::test]
async fn what_changes_say_is_told_also_where_they_are_not_all() {
    let (one, two) = (instance("1", "UP", ""), instance("2", "UP", ""));
    let added = instance("2", "UP", "ADDED");
    let port = answering(vec![
        answer("UP_1_", std::slice::from_ref(&one)),
        // Something else was missed.
        answer("UP_3_", &[added]),
        answer("UP_2_", &[one, two]),
    ])
    .await;
    let mut read = Read::new(Box::new(Eureka::new(&Options {
        server: Server {
            tls: false,
            host: "127.0.0.1".into(),
            port,
        },
        path: "/eureka".into(),
        refresh: Duration::from_millis(20),
        basic: None,
    })));
    read.service("SHOP.eureka", |i| i.len() == 1).await;
    read.service("SHOP.eureka", |i| i.len() == 2).await;
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
