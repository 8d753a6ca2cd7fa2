//! The program as its users run it, and what is asked of a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Flags for ports that the system chooses.
pub(crate) const PORTS: [&str; 4] = ["--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"];

/// The program with arguments, and nothing to read.
pub(crate) fn pilothouse(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command.args(args).stdin(Stdio::null());
    // Registries and backends of tests are on this machine.
    for name in ["PILOTHOUSE_LOCAL_ENDPOINTS", "PILOTHOUSE_GATEWAY_BINDS"] {
        command.env(name, "*");
    }
    command
}

/// What a command that has succeeded printed as JSON.
pub(crate) fn printed(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(what, || holds().then_some(()));
}

/// Waits until something is there.
pub(crate) fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    /// As a crash would end it.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that ends with the test.
pub(crate) struct Server {
    running: Running,
    log: Arc<Mutex<String>>,
    pub(crate) xds: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Server {
    /// `pilothouse serve` with these flags, once it listens.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::run(pilothouse(&[&["serve"], &PORTS[..], flags].concat()))
    }

    /// The same of a command that ends in it.
    pub(crate) fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut server = Self {
            running: Running(child),
            log,
            xds: ([127, 0, 0, 1], 0).into(),
            http: ([127, 0, 0, 1], 0).into(),
        };
        server.xds = server.told("Listening.", "xds=");
        server.http = server.told("Listening.", "http=");
        server
    }

    /// The same, once it serves.
    pub(crate) fn ready(self) -> Self {
        until("the server is ready", || self.is_ready());
        self
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/ready").is_some()
    }

    /// All that it has said.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The address that a line of its log says, once it says one.
    pub(crate) fn told(&mut self, words: &str, field: &str) -> SocketAddr {
        let start = Instant::now();
        loop {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(words));
            let of_field =
                line.and_then(|line| line.split(' ').find_map(|w| w.strip_prefix(field)));
            if let Some(address) = of_field {
                return address.parse().unwrap();
            }
            assert!(
                !self.has_ended() && start.elapsed() < PATIENCE,
                "{words}\n{log}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The body of a page that is there.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        let answer = exchange(self.http, &request("GET", path, "Host: localhost\r\n", ""))?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// A page as JSON; null where there is none.
    pub(crate) fn json(&self, path: &str) -> Value {
        let body = self.get(path).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// The value of a metric that is there.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics")?;
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value?.parse().ok()
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.running.0.try_wait().unwrap().is_some()
    }

    /// Sends a signal, and waits until it has ended.
    pub(crate) fn end(&mut self, signal: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        until("the server ends", || self.has_ended());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server said:\n{}", self.log());
        }
    }
}

/// A server whose Kubernetes API lets everybody in, over a store of its own.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
}

impl Api {
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Self {
        let store = [
            "--data",
            data.to_str().unwrap(),
            "--api-addr",
            "127.0.0.1:0",
        ];
        let quiet = ["--insecure-local", "--state-dir", "off"];
        let mut server = Server::start(&[&store, &quiet[..], flags].concat());
        let address = server.told("Serving the Kubernetes API.", "address=");
        Self { address, server }
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        ask(self.address, method, path, body)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Creates an object, as soon as that is possible.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        found("it is created", || {
            let made = self.ask("POST", path, object);
            (made["kind"] == object["kind"]).then_some(made)
        })
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        config.to_string()
    }
}

/// A request, and its answer's JSON; null where there is none.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let body = match body.is_null() {
        true => String::new(),
        false => body.to_string(),
    };
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let headers = format!(
        "Host: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n",
        body.len()
    );
    let answer = exchange(address, &request(method, path, &headers, &body)).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

/// A request of HTTP/1.1 after which the connection is closed.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n{body}")
}

/// The answer to a request, if there is one.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> Option<String> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    Some(answer)
}
