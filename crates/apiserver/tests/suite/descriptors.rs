//! A server without descriptors answers those it has, and everybody again when there are some, without a restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use apiserver::http::{LOCAL_SOCKET, Security, serve, serve_local};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{MAPS, World};

const CHILD: &str = "PILOTHOUSE_DESCRIPTORS_TEST";
/// How many descriptors the server may have.
const MOST: u64 = 48;

/// Not a test by itself: serves with few descriptors, when the test below starts it.
#[test]
fn child_that_serves() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        serve_local(world.dir.path(), world.api.clone(), stop.clone()).unwrap();
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = Some(MOST);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        println!("serving {address} {}", world.dir.path().display());
        serve(listener, Security::InsecureLocal, world.api.clone(), stop).await;
    });
}

/// The status of an answer, if one comes soon.
fn ask(mut stream: impl Read + Write, head: &str, body: &str) -> Option<String> {
    let length = body.len();
    let text =
        format!("{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[9..]).into_owned())
}

#[test]
fn a_server_without_descriptors_recovers_by_itself() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::child_that_serves", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.find_map(|l| l.unwrap().strip_prefix("serving ").map(str::to_owned));
    let line = line.unwrap();
    let (address, folder) = line.split_once(' ').unwrap();
    let socket = std::path::Path::new(folder).join(LOCAL_SOCKET);
    let tcp = || {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        stream
    };
    let unix = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        stream
    };
    let map = |name: &str| format!("{{\"metadata\": {{\"name\": \"{name}\"}}}}");
    let known = tcp();
    known
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let post = format!("POST {MAPS}");
    assert_eq!(ask(&known, &post, &map("a")).as_deref(), Some("201"));
    // In turn, so that both listeners meet the error.
    let held: Vec<_> = (0..60).map(|_| (tcp(), unix())).collect();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        ask(tcp(), "GET /livez", ""),
        None,
        "the server has no descriptors"
    );
    assert!(child.try_wait().unwrap().is_none(), "the server lives");
    drop(held);
    let start = Instant::now();
    let mut n = 0;
    loop {
        n += 1;
        let by_tcp = ask(tcp(), &post, &map(&format!("tcp{n}")));
        let by_unix = ask(unix(), &post, &map(&format!("unix{n}")));
        if by_tcp.as_deref() == Some("201") && by_unix.as_deref() == Some("201") {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{by_tcp:?} {by_unix:?}"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
