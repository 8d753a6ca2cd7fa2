//! A server whose folder holds traps, and whose pages are asked by strangers, from outside.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    http: SocketAddr,
    dir: TempDir,
}

impl Server {
    /// Serves a relative `config` of a folder that `fill` has filled, with at most so many file descriptors.
    fn start(descriptors: u32, fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("config")).unwrap();
        fill(&dir.path().join("config"));
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
        };
        let (xds, http) = (free(), free());
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", r#"ulimit -n "$0" && exec "$@""#])
            .arg(descriptors.to_string())
            .arg(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["serve", "--config-dir", "config"])
            .args(["--grpc-addr", &xds.to_string()])
            .args(["--http-addr", &http.to_string()])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, http, dir };
        until("it is ready", || {
            server.status("/ready", "").as_deref() == Some("200")
        });
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    fn answer(&self, path: &str, headers: &str) -> Option<String> {
        let mut socket = TcpStream::connect(self.http).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let host = match headers.contains("Host:") {
            true => String::new(),
            false => format!("Host: {}\r\n", self.http),
        };
        let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The status of the answer, if there is one soon.
    fn status(&self, path: &str, headers: &str) -> Option<String> {
        let answer = self.answer(path, headers)?;
        answer.split(' ').nth(1).map(str::to_owned)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn entry(name: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: a}}\nspec:\n  \
         hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n"
    )
}

#[test]
fn traps_in_a_folder_are_told_and_hold_up_neither_start_nor_edits_nor_end() {
    let secrets = tempfile::tempdir().unwrap();
    fs::write(secrets.path().join("token"), "hunter2").unwrap();
    let mut server = Server::start(1024, |config| {
        fs::write(config.join("good.yaml"), entry("one")).unwrap();
        let pipe = Command::new("mkfifo")
            .arg(config.join("pipe.yaml"))
            .status();
        assert!(pipe.unwrap().success());
        symlink("/dev/zero", config.join("zero.yaml")).unwrap();
        symlink(secrets.path().join("token"), config.join("token.yaml")).unwrap();
        symlink(secrets.path(), config.join("folder")).unwrap();
        fs::write(config.join("copied.yaml"), "hunter2").unwrap();
    });
    let log = server.log();
    for told in [
        "config/pipe.yaml:1: error[PIL0010]: it is a named pipe, not a regular file",
        "config/zero.yaml:1: error[PIL0010]: it leads to /dev/zero, which is outside the folder",
        "config/token.yaml:1: error[PIL0010]: it leads to ",
        "config/folder:1: error[PIL0010]: it leads to ",
        "config/copied.yaml:1: error[PIL0002]: expected an object, found a text",
    ] {
        assert!(log.contains(told), "{told}\n{log}");
    }
    assert!(!log.contains("hunter2"), "{log}");
    let config = server.dir.path().join("config");
    let listed = |name: &str| {
        let page = server.answer("/debug/configz", "").unwrap();
        page.contains(&format!("{name}.example.com"))
    };
    assert!(listed("one"));
    // The folder is a relative one, and watched all the same.
    let edited = Instant::now();
    fs::write(config.join("more.yaml"), entry("two")).unwrap();
    until("the edit is seen", || listed("two"));
    assert!(edited.elapsed() < Duration::from_secs(10));
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    until("it ends", || server.child.try_wait().unwrap().is_some());
    assert!(server.log().contains("Stopped."));
}

#[test]
fn debug_pages_are_not_shown_to_web_pages_and_what_proxies_pass_on() {
    let server = Server::start(1024, |_| ());
    let port = server.http.port();
    let status = |path: &str, headers: &str| server.status(path, headers).unwrap();
    for own in [
        "",
        "Host: localhost\r\n",
        "Host: [::1]:8080\r\nSec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(status("/debug/configz", own), "200", "{own}");
    }
    for strange in [
        format!("Host: rebind.example.com:{port}\r\n"),
        "Origin: http://example.com\r\n".to_owned(),
        "Sec-Fetch-Site: cross-site\r\n".to_owned(),
        "X-Forwarded-For: 10.1.2.3\r\n".to_owned(),
        "Via: 1.1 proxy\r\n".to_owned(),
    ] {
        for page in ["/debug", "/debug/configz", "/debug/config_dump?proxyID=a.b"] {
            assert_eq!(status(page, &strange), "403", "{page} {strange}");
        }
        for page in ["/ready", "/live", "/metrics", "/version"] {
            assert_eq!(status(page, &strange), "200", "{page} {strange}");
        }
    }
    let rebound = server
        .answer("/debug", "Host: rebind.example.com\r\n")
        .unwrap();
    assert!(
        rebound.contains("use one of these in the address"),
        "{rebound}"
    );
}

#[test]
fn clients_that_hold_connections_do_not_keep_the_server_from_saying_that_it_is_ready() {
    let server = Server::start(128, |_| ());
    // Some say nothing, some half a request, some read no answer.
    let words = [
        "",
        "GET /ready HTTP/1.1\r\nHo",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    let mut held = Vec::new();
    for number in 0..300 {
        let Ok(mut socket) = TcpStream::connect(server.http) else {
            break;
        };
        let _ = socket.write_all(words[number % words.len()].as_bytes());
        held.push(socket);
        if number % 50 == 49 {
            let start = Instant::now();
            assert_eq!(
                server.status("/ready", "").as_deref(),
                Some("200"),
                "after {number}"
            );
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
    let open = fs::read_dir(format!("/proc/{}/fd", server.child.id()))
        .unwrap()
        .count();
    assert!(open < 100, "{open} of 128 descriptors are open");
}
