//! A real Nacos, as it is changed, killed and started again.

use std::time::{Duration, Instant};

use super::*;
use crate::backends::{Backend, Read, figures};
use crate::http::{Ask, Connection};
use crate::report::{Instance, Report};
use model::redacted::Redacted;

/// Long enough that no instance becomes unhealthy in a test that sends no heartbeats.
const PATIENT: &str =
    r#"{"preserved.heart.beat.timeout":"900000","preserved.ip.delete.timeout":"900000","v":"1"}"#;

struct Server {
    backend: Backend,
    http: Connection,
    token: String,
}

impl Server {
    async fn start(port: u16, environment: &[(&'static str, &str)]) -> Option<Self> {
        let backend = Backend::start("nacos", port, environment)?;
        let http = Connection::open(&format!("127.0.0.1:{port}"))
            .await
            .unwrap();
        Some(Self {
            backend,
            http,
            token: String::new(),
        })
    }

    fn options(&self) -> Options {
        Options {
            servers: vec![format!("127.0.0.1:{}", self.backend.port).into()],
            ..Options::default()
        }
    }

    fn read(&self, options: Options) -> Read {
        Read::new(Box::new(Nacos::new(options)))
    }

    async fn post(&mut self, path: &str, query: &str) -> String {
        let target = format!("/nacos/v1/ns/{path}?{query}{}", self.token);
        let ask = Ask {
            target: &target,
            form: Some(String::new()),
            headers: &[],
        };
        let (status, body) = self.http.ask(ask, 1 << 20).await.unwrap();
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status.is_success(), "{target}: {body}");
        body
    }

    /// Registers an instance, or changes it.
    async fn register(&mut self, service: &str, ip: &str, more: &str) {
        let metadata = match more.contains("metadata") {
            true => String::new(),
            false => format!("&metadata={}", credentials::escaped(PATIENT)),
        };
        self.post(
            "instance",
            &format!("serviceName={service}&ip={ip}&port=80{metadata}{more}"),
        )
        .await;
    }

    async fn deregister(&self, service: &str, ip: &str) {
        let query = format!(
            "serviceName={service}&ip={ip}&port=80&ephemeral=true{}",
            self.token
        );
        let target = format!(
            "http://127.0.0.1:{}/nacos/v1/ns/instance?{query}",
            self.backend.port
        );
        let done = std::process::Command::new("curl")
            .args(["-fsS", "-m", "10", "-X", "DELETE", &target])
            .output();
        assert!(done.unwrap().status.success());
    }
}

fn host(service: &str) -> String {
    format!("{service}.DEFAULT-GROUP.public.nacos")
}

fn is_whole(report: &Report) -> bool {
    matches!(report, Report::Whole(_))
}

fn is_lost(report: &Report) -> bool {
    matches!(report, Report::Lost(_))
}

fn has(instances: &[Instance], address: &str) -> bool {
    instances.iter().any(|i| *i.address == *address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_registered_changed_and_removed_is_reported() {
    let Some(mut server) = Server::start(18850, &[]).await else {
        return;
    };
    server.register("my_svc", "10.0.0.1", "&weight=0.5").await;
    server
        .register("consumers:com.acme.A", "10.0.0.9", "")
        .await;
    server
        .register(
            "bridged",
            "10.0.0.8",
            "&metadata=register-resource%3Dmcp-bridge",
        )
        .await;
    let mut read = server.read(server.options());
    let came = read.until(is_whole).await;
    let names = [Arc::from(host("my_svc"))].into();
    assert_eq!(came.last(), Some(&Report::Whole(names)));
    let [Report::Service(name, instances), _] = &came[..] else {
        panic!("{came:?}");
    };
    assert_eq!((&**name, instances.len()), (&*host("my_svc"), 1));
    let first = &instances[0];
    assert_eq!(
        (&*first.address, first.port, first.weight, first.healthy),
        ("10.0.0.1", 80, 0.5, true)
    );
    assert_eq!(first.metadata.get("v").map(|v| &**v), Some("1"));

    server.register("my_svc", "10.0.0.2", "").await;
    read.service(&host("my_svc"), |i| i.len() == 2).await;
    server.register("my_svc", "10.0.0.2", "&weight=7").await;
    read.service(&host("my_svc"), |i| i.iter().any(|i| i.weight == 7.0))
        .await;
    let short = r#"{"preserved.heart.beat.interval":"500","preserved.heart.beat.timeout":"1000","preserved.ip.delete.timeout":"900000"}"#;
    let short = format!("&metadata={}", credentials::escaped(short));
    server.register("my_svc", "10.0.0.3", &short).await;
    read.service(&host("my_svc"), |i| {
        i.iter().any(|i| !i.healthy && *i.address == *"10.0.0.3")
    })
    .await;
    for ip in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        server.deregister("my_svc", ip).await;
    }
    read.service(&host("my_svc"), <[Instance]>::is_empty).await;
    // A service that is new is found by the next list.
    server.register("late", "10.0.0.4", "").await;
    read.service(&host("late"), |i| has(i, "10.0.0.4")).await;
    read.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_is_lost_and_read_again_without_an_empty_report() {
    let Some(mut server) = Server::start(18852, &[]).await else {
        return;
    };
    server.register("svc", "10.0.0.1", "").await;
    let mut read = server.read(server.options());
    read.until(is_whole).await;
    server.backend.signal("KILL");
    let came = read.until(is_lost).await;
    assert_eq!(came.len(), 1, "{came:?}");
    let error = (&mut read.ended).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");

    // Its data is gone; whoever runs it starts it again until it is there.
    server.backend.restart();
    server.http = Connection::open(&format!("127.0.0.1:{}", server.backend.port))
        .await
        .unwrap();
    server.register("svc", "10.0.0.2", "").await;
    let mut read = server.read(server.options());
    let came = read.until(is_whole).await;
    assert!(
        matches!(&came[0], Report::Service(_, i) if has(i, "10.0.0.2")),
        "{came:?}"
    );

    // A server that stands still is lost as well, within some seconds.
    server.backend.signal("STOP");
    let start = Instant::now();
    let came = read.until(is_lost).await;
    assert_eq!(came.len(), 1, "{came:?}");
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    server.backend.signal("CONT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_logs_in_and_again_before_the_token_ends() {
    let environment = [
        ("NACOS_AUTH", "me:hunter2"),
        ("JAVA_TOOL_OPTIONS", "-Dnacostest.tokenTtl=4"),
    ];
    let Some(mut server) = Server::start(18854, &environment).await else {
        return;
    };
    let mut options = server.options();
    let ended = (&mut server.read(options.clone()).ended)
        .await
        .unwrap()
        .unwrap_err();
    assert!(ended.to_string().contains("credentials"), "{ended}");
    options.credentials.user = Some(("me".into(), Redacted::new("wrong")));
    let ended = (&mut server.read(options.clone()).ended)
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        ended.to_string().contains("login") && !ended.to_string().contains("wrong"),
        "{ended}"
    );
    options.credentials.user = Some(("me".into(), Redacted::new("hunter2")));
    let mut read = server.read(options.clone());
    read.until(is_whole).await;
    let log_in = async |server: &mut Server| {
        let ask = Ask {
            target: "/nacos/v1/auth/users/login",
            form: Some("username=me&password=hunter2".to_owned()),
            headers: &[],
        };
        let (_, body) = server.http.ask(ask, 4096).await.unwrap();
        let granted: serde_json::Value = serde_json::from_slice(&body).unwrap();
        server.token = format!("&accessToken={}", granted["accessToken"].as_str().unwrap());
    };
    log_in(&mut server).await;
    server.register("svc", "10.0.0.1", "").await;
    // Longer than a token holds: found by a list, and subscribed to, with a later one.
    read.service(&host("svc"), |i| has(i, "10.0.0.1")).await;
    log_in(&mut server).await;
    server.register("svc", "10.0.0.2", "").await;
    read.service(&host("svc"), |i| has(i, "10.0.0.2")).await;
    read.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_read_where_one_does_not_answer() {
    let Some(mut server) = Server::start(18856, &[]).await else {
        return;
    };
    server.register("svc", "10.0.0.1", "").await;
    let there = server.options().servers[0].clone();
    let options = Options {
        servers: vec!["127.0.0.1:1".into(), there, "127.0.0.1:2".into()],
        namespace: "n_s".into(),
        ..Options::default()
    };
    let mut read = server.read(options);
    let came = read.until(is_whole).await;
    assert!(
        matches!(&came[0], Report::Service(n, _) if **n == *"svc.DEFAULT-GROUP.n-s.nacos"),
        "{came:?}"
    );
    read.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_speaks_http_alone_is_asked_again_and_again() {
    let Some(mut server) = Server::start(18862, &[]).await else {
        return;
    };
    server.register("my_svc", "10.0.0.1", "").await;
    // What the server is behind leads to its port of HTTP.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let behind = ("127.0.0.1", server.backend.port);
    let forward = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(behind).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    let options = Options {
        servers: vec![front.to_string().into()],
        ..Options::default()
    };
    let mut read = server.read(options);
    let came = read.until(is_whole).await;
    assert!(
        matches!(&came[..], [Report::Service(_, i), _] if has(i, "10.0.0.1")),
        "{came:?}"
    );
    server.register("my_svc", "10.0.0.2", "").await;
    let told = read.until(|r| matches!(r, Report::Service(..))).await;
    assert!(
        matches!(&told[..], [Report::Service(_, i)] if i.len() == 2),
        "{told:?}"
    );
    forward.abort();
    server.backend.signal("KILL");
    assert!(matches!(&read.until(is_lost).await[..], [_]));
}

/// How soon a change is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn latency_of_nacos() {
    let Some(mut server) = Server::start(18858, &[]).await else {
        return;
    };
    server.register("svc", "10.0.0.1", "").await;
    let mut read = server.read(server.options());
    read.until(is_whole).await;
    let mut times = Vec::new();
    for n in 0..60 {
        let ip = format!("10.1.0.{n}");
        let start = Instant::now();
        server.register("svc", &ip, "").await;
        read.service(&host("svc"), |i| has(i, &ip)).await;
        times.push(start.elapsed());
    }
    println!("registration to report: {}", figures(times));
}
