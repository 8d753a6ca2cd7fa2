//! A server whose folder holds traps, and whose pages are asked by strangers, from outside.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{PORTS, Server, exchange, request, until};

/// A server of a folder with a relative `config`.
struct Attacked {
    server: Server,
    dir: TempDir,
}

impl Attacked {
    /// Once `fill` has filled the folder; with at most so many file descriptors.
    fn start(descriptors: u32, fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("config")).unwrap();
        fill(&dir.path().join("config"));
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"ulimit -n "$0" && exec "$@""#])
            .arg(descriptors.to_string())
            .arg(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["serve", "--config-dir", "config"])
            .args(PORTS)
            .current_dir(dir.path());
        let server = Server::run(command).ready();
        Self { server, dir }
    }

    fn answer(&self, path: &str, headers: &str) -> Option<String> {
        let host = match headers.contains("Host:") {
            true => String::new(),
            false => format!("Host: {}\r\n", self.server.http),
        };
        let request = request("GET", path, &format!("{host}{headers}"), "");
        exchange(self.server.http, &request)
    }

    /// The status of the answer, if there is one.
    fn status(&self, path: &str, headers: &str) -> Option<String> {
        let answer = self.answer(path, headers)?;
        answer.split(' ').nth(1).map(str::to_owned)
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
    let mut server = Attacked::start(1024, |config| {
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
    let log = server.server.log();
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
    server.server.end("TERM");
    until("its last words are read", || {
        server.server.log().contains("Stopped.")
    });
}

#[test]
fn debug_pages_are_not_shown_to_web_pages_and_what_proxies_pass_on() {
    let server = Attacked::start(1024, |_| ());
    let port = server.server.http.port();
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
    let server = Attacked::start(128, |_| ());
    // Some say nothing, some half a request, some read no answer.
    let words = [
        "",
        "GET /ready HTTP/1.1\r\nHo",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    let mut held = Vec::new();
    for number in 0..300 {
        let Ok(mut socket) = TcpStream::connect(server.server.http) else {
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
    let open = fs::read_dir(format!("/proc/{}/fd", server.server.id()))
        .unwrap()
        .count();
    assert!(open < 100, "{open} of 128 descriptors are open");
}
