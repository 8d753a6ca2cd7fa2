//! Recorded tables of Higress, and servers that are none.

use serde_json::Value;
use testkit::Score;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::backends::Read;
use crate::recorded;
use crate::report::{Instance, Report};

fn compare(score: &mut Score, case: &Value, host: &str, protocol: &str, instance: &Instance) {
    let config = &case["expectedConfig"];
    let endpoint = serde_json::json!({
        "ip": instance.address, "port": instance.port.to_string(), "metadata": instance.metadata,
    });
    let got = serde_json::json!({
        "endpoints": [endpoint], "host": host, "protocol": protocol, "serviceType": config["serviceType"],
    });
    score.count(
        case["name"].as_str().unwrap(),
        &testkit::differences(config, &got),
    );
}

/// Hosts get `.zookeeper` behind what is recorded, where they are made objects.
fn host(name: &str) -> &str {
    name.strip_suffix(".zookeeper").unwrap()
}

#[test]
fn urls_of_dubbo_are_read_as_higress_reads_them() {
    let mut score = Score::default();
    for case in recorded::cases("TestGetDubboConfig") {
        let url = case["url"].as_str().unwrap();
        let (path, node) = url.rsplit_once('/').unwrap();
        let interface = path.split('/').nth(2).unwrap();
        let provider = dubbo::provider(interface, node).unwrap();
        let protocol = provider.instance.protocol.clone().unwrap();
        compare(
            &mut score,
            &case,
            host(&provider.service),
            &protocol,
            &provider.instance,
        );
    }
    score.all_as_recorded();
}

#[test]
fn instances_of_spring_cloud_are_read_as_higress_reads_them() {
    let mut score = Score::default();
    for case in recorded::cases("TestGetSpringCloudConfig") {
        let content = case["content"].as_str().unwrap().to_owned();
        let mut tree = tree::Tree::new(&[("/services".into(), Layout::Applications)]);
        let (mut out, mut asks) = (Outbox::default(), tree.begin());
        let names = ["service-provider", "x"].map(Arc::from);
        for name in names {
            let found = wire::Found::Children(vec![name]);
            asks = tree.answered(asks.remove(0), found, &mut out).unwrap();
        }
        tree.answered(asks.remove(0), wire::Found::Data(content.into()), &mut out)
            .unwrap();
        let Some(Report::Service(name, instances)) = out.pop() else {
            panic!("nothing is reported");
        };
        // What an instance says nothing of is Higress's default, which is given where objects are made.
        let protocol = instances[0].protocol.as_deref().unwrap_or("HTTP");
        compare(&mut score, &case, host(&name), protocol, &instances[0]);
    }
    score.all_as_recorded();
}

#[test]
fn paths_are_read_beside_the_usual_ones() {
    let options = Options {
        paths: ["/dubbo/", "own/path", "/", "/a//b", "/a/../b"]
            .map(Arc::from)
            .to_vec(),
        ..Options::default()
    };
    let roots = options.roots();
    let paths: Vec<&str> = roots.iter().map(|(p, _)| &**p).collect();
    assert_eq!(paths, ["/dubbo", "/services", "own/path", "/"]);
}

#[test]
fn changes_that_nobody_asked_for_end_the_session() {
    let framed = |w: jute::Writer| w.frame();
    let answer = framed(jute::Writer::new().int(1).long(0).int(-101));
    let change = || {
        framed(
            jute::Writer::new()
                .int(-1)
                .long(0)
                .int(0)
                .int(4)
                .int(3)
                .buffer(b"/dubbo"),
        )
    };
    let replayed = |octets: Vec<Vec<u8>>| replay(&octets.concat());
    assert_eq!(replayed(vec![answer.clone(), change()]), []);
    let reports = replayed(vec![answer, change(), change()]);
    assert!(
        matches!(&reports[..], [Report::Lost(why)] if why.contains("nobody asked for")),
        "{reports:?}"
    );
}

/// A server that takes a connection, says something whenever it is spoken to, and does nothing more.
async fn stranger(says: Vec<Vec<u8>>, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            for says in &says {
                let _ = socket.read(&mut [0; 1024]).await;
                let _ = socket.write_all(says).await;
            }
            kept.extend((!closes).then_some(socket));
        }
    });
    address
}

fn greeting(timeout_ms: i32) -> Vec<u8> {
    let session = jute::Writer::new().int(0).int(timeout_ms).long(7);
    session.buffer(&[0; 16]).bool(false).frame()
}

#[tokio::test]
async fn what_is_no_zookeeper_is_an_error_soon() {
    let framed = |octets: &[u8]| [&(octets.len() as i32).to_be_bytes()[..], octets].concat();
    let with = |more: Vec<u8>| vec![greeting(600), more];
    for (says, closes, error) in [
        (vec![Vec::new()], true, "closed the connection"),
        (vec![Vec::new()], false, "does not answer"),
        (
            vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()],
            false,
            "no ZooKeeper",
        ),
        (vec![greeting(0)], false, "grants no session"),
        (vec![greeting(-1)], false, "grants no session"),
        // Half a word, then silence.
        (vec![greeting(600)[..9].to_vec()], false, "does not answer"),
        (with(Vec::new()), false, "does not answer"),
        (with(Vec::new()), true, "closed the connection"),
        (with(vec![0x7f, 0xff, 0xff, 0xff]), false, "cannot be read"),
        (with(framed(&[0; 3])), false, "cannot be read"),
        (
            with(framed(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            false,
            "was not asked",
        ),
        (
            with(framed(&[
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9,
            ])),
            false,
            "cannot be read",
        ),
        (
            with(framed(&[
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 154,
            ])),
            false,
            "does not tell",
        ),
        (
            with(framed(&[
                255, 255, 255, 252, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 141,
            ])),
            false,
            "credentials",
        ),
    ] {
        let server = stranger(says.clone(), closes).await;
        let options = Options {
            servers: vec![server.into()],
            ..Options::default()
        };
        let mut read = Read::new(Box::new(ZooKeeper::new(options)));
        let Report::Lost(why) = read.next().await else {
            panic!("something is reported");
        };
        assert!(why.contains(error), "{why}: {says:?}");
        (&mut read.ended).await.unwrap().unwrap_err();
    }
}
