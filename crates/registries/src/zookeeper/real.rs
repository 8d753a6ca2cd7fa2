//! A real ZooKeeper, as it is changed, killed and started again.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::jute::Writer;
use super::*;
use crate::backends::{Backend, Read, eventually, figures};
use crate::report::{Instance, Report};

/// A client that writes.
pub(crate) struct Writes {
    socket: TcpStream,
}

impl Writes {
    /// A server answers probes before it grants sessions.
    pub(crate) async fn new(port: u16) -> Self {
        eventually(async || Self::connect(port).await.ok()).await
    }

    pub(crate) async fn connect(port: u16) -> std::io::Result<Self> {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        socket.write_all(&wire::connect(10_000)).await?;
        let mut greeting = [0; 41];
        socket.read_exact(&mut greeting).await?;
        Ok(Self { socket })
    }

    async fn record(&mut self) -> Vec<u8> {
        let length = self.socket.read_i32().await.unwrap();
        let mut record = vec![0; length as usize];
        self.socket.read_exact(&mut record).await.unwrap();
        record
    }

    async fn call(&mut self, request: Writer) -> i32 {
        self.socket.write_all(&request.frame()).await.unwrap();
        let record = self.record().await;
        i32::from_be_bytes(record[12..16].try_into().unwrap())
    }

    /// Makes a node; it goes with this client where `flags` is 1.
    pub(crate) async fn create(&mut self, path: &str, content: &str, flags: i32) {
        let head = Writer::new()
            .int(1)
            .int(1)
            .buffer(path.as_bytes())
            .buffer(content.as_bytes());
        let acl = head.int(1).int(31).buffer(b"world").buffer(b"anyone");
        let error = self.call(acl.int(flags)).await;
        assert!(matches!(error, 0 | -110), "{path}: {error}");
    }

    pub(crate) async fn set(&mut self, path: &str, content: &str) {
        let request = Writer::new().int(1).int(5).buffer(path.as_bytes());
        assert_eq!(
            self.call(request.buffer(content.as_bytes()).int(-1)).await,
            0
        );
    }

    pub(crate) async fn delete(&mut self, path: &str) {
        let request = Writer::new().int(1).int(2).buffer(path.as_bytes());
        assert_eq!(self.call(request.int(-1)).await, 0);
    }
}

fn provider(n: usize, more: &str) -> String {
    format!(
        "/dubbo/com.acme.A/providers/dubbo%3A%2F%2F10.0.{}.{}%3A20880%2Fcom.acme.A%3Fversion%3D1{more}",
        n / 250,
        n % 250
    )
}

fn application(address: &str, status: &str) -> String {
    format!(
        r#"{{"address":"{address}","port":80,"payload":{{"metadata":{{"instance_status":"{status}"}}}}}}"#
    )
}

const A: &str = "providers:com.acme.A:1:.zookeeper";
const WEB: &str = "web.services.zookeeper";

fn options(port: u16) -> Options {
    Options {
        servers: vec![format!("127.0.0.1:{port}").into()],
        ..Options::default()
    }
}

fn read(port: u16) -> Read {
    Read::new(Box::new(ZooKeeper::new(options(port))))
}

fn is_whole(report: &Report) -> bool {
    matches!(report, Report::Whole(_))
}

fn is_lost(report: &Report) -> bool {
    matches!(report, Report::Lost(_))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_registered_changed_and_removed_is_reported() {
    let Some(backend) = Backend::start("zookeeper", 12190, &[]) else {
        return;
    };
    let mut writes = Writes::new(backend.port).await;
    let mut read = read(backend.port);
    assert_eq!(read.next().await, Report::Whole([].into()));
    for path in ["/dubbo", "/dubbo/com.acme.A", "/dubbo/com.acme.A/providers"] {
        writes.create(path, "", 0).await;
    }
    writes.create(&provider(1, ""), "", 1).await;
    let first = read.service(A, |i| i.len() == 1).await;
    assert_eq!(
        (&*first[0].address, first[0].port, first[0].weight),
        ("10.0.0.1", 20880, 1.0)
    );
    writes.create(&provider(2, "%26weight%3D50"), "", 0).await;
    let both = read.service(A, |i| i.len() == 2).await;
    assert_eq!(
        both.iter().map(|i| i.weight).collect::<Vec<_>>(),
        [100.0, 50.0]
    );

    writes.create("/services", "", 0).await;
    writes.create("/services/web", "", 0).await;
    writes
        .create("/services/web/x", &application("10.1.0.1", "UP"), 0)
        .await;
    read.service(WEB, |i| i.len() == 1 && i[0].healthy).await;
    writes
        .set(
            "/services/web/x",
            &application("10.1.0.1", "OUT_OF_SERVICE"),
        )
        .await;
    read.service(WEB, |i| i.len() == 1 && !i[0].healthy).await;
    writes.delete("/services/web/x").await;
    read.service(WEB, <[Instance]>::is_empty).await;
    writes.delete("/services/web").await;
    let left = Report::Whole([Arc::from(A)].into());
    read.until(|r| *r == left).await;

    // A provider that ends takes its node along.
    let closing = Writer::new().int(1).int(-11);
    writes.call(closing).await;
    read.service(A, |i| i.len() == 1 && *i[0].address == *"10.0.0.2")
        .await;
    Writes::new(backend.port)
        .await
        .delete(&provider(2, "%26weight%3D50"))
        .await;
    read.service(A, <[Instance]>::is_empty).await;
    read.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_is_lost_and_read_again_without_an_empty_report() {
    let Some(backend) = Backend::start("zookeeper", 12192, &[]) else {
        return;
    };
    let register = async || {
        let mut writes = Writes::new(backend.port).await;
        writes.create("/services", "", 0).await;
        writes.create("/services/web", "", 0).await;
        writes
            .create("/services/web/x", &application("10.1.0.1", "UP"), 0)
            .await;
    };
    register().await;
    let mut reading = read(backend.port);
    assert!(
        matches!(&reading.until(is_whole).await[..], [Report::Service(n, _), _] if **n == *WEB)
    );

    // Still for longer than the session holds: lost, and back by itself.
    backend.signal("STOP");
    let start = Instant::now();
    assert_eq!(reading.until(is_lost).await.len(), 1);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let error = (&mut reading.ended).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    backend.signal("CONT");
    let mut reading = read(backend.port);
    assert_eq!(reading.until(is_whole).await.len(), 2);

    backend.signal("KILL");
    assert_eq!(reading.until(is_lost).await.len(), 1);
    let error = (&mut reading.ended).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");

    // With its data, as it was; then without, until it is written again.
    backend.again();
    let mut reading = eventually(async || {
        let mut reading = read(backend.port);
        matches!(reading.next().await, Report::Service(..)).then_some(reading)
    })
    .await;
    reading.until(is_whole).await;
    backend.signal("KILL");
    reading.until(is_lost).await;
    backend.restart();
    Writes::new(backend.port).await;
    let mut reading = read(backend.port);
    assert_eq!(reading.next().await, Report::Whole([].into()));
    register().await;
    reading.service(WEB, |i| i.len() == 1).await;
    reading.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_not_for_everyone_are_read_by_a_user() {
    let Some(backend) = Backend::start("zookeeper", 12194, &[]) else {
        return;
    };
    let mut writes = Writes::new(backend.port).await;
    writes
        .socket
        .write_all(&wire::authenticate("me", "hunter2"))
        .await
        .unwrap();
    writes.record().await;
    let head = Writer::new().int(1).int(1).buffer(b"/services").buffer(b"");
    // Everything for those that made it: the scheme `auth`.
    let acl = head.int(1).int(31).buffer(b"auth").buffer(b"");
    assert_eq!(writes.call(acl.int(0)).await, 0);
    let error = (&mut read(backend.port).ended).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("/services"), "{error}");
    let mut options = options(backend.port);
    options.user = Some(("me".into(), Redacted::new("hunter2")));
    let mut reading = Read::new(Box::new(ZooKeeper::new(options)));
    assert_eq!(reading.next().await, Report::Whole([].into()));
    reading.stop().await;
}

/// How soon a change is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn latency_of_zookeeper() {
    let Some(backend) = Backend::start("zookeeper", 12196, &[]) else {
        return;
    };
    let mut writes = Writes::new(backend.port).await;
    let mut reading = read(backend.port);
    for path in [
        "/dubbo",
        "/dubbo/com.acme.A",
        "/dubbo/com.acme.A/providers",
        "/services",
        "/services/web",
    ] {
        writes.create(path, "", 0).await;
    }
    let (mut interfaces, mut applications) = (Vec::new(), Vec::new());
    for n in 1..=60 {
        let start = Instant::now();
        writes.create(&provider(n, ""), "", 1).await;
        reading.service(A, |i| i.len() == n).await;
        interfaces.push(start.elapsed());
        let start = Instant::now();
        writes
            .create(
                &format!("/services/web/{n}"),
                &application("10.1.0.1", "UP"),
                1,
            )
            .await;
        reading.service(WEB, |i| i.len() == n).await;
        applications.push(start.elapsed());
    }
    println!("provider of Dubbo to report: {}", figures(interfaces));
    println!(
        "instance of Spring Cloud to report: {}",
        figures(applications)
    );
}
