//! A mesh for one test: its own addresses, folder and processes.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use demo::http::{Client, Reply};
use demo::mesh::{Mesh, Setup};
use demo::shop::{Block, HOST};
use envoy::program::{self, Envoy};
use hyper::Method;
use tempfile::TempDir;

/// How long anything may take to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test stands on.
pub(crate) struct Rig {
    pub(crate) block: Block,
    dir: TempDir,
    envoy: Envoy,
    version: &'static str,
    variables: Vec<(&'static str, &'static str)>,
}

/// Runs a test with Envoy of that version, if it can be had.
pub(crate) async fn with(version: &'static str, test: impl AsyncFnOnce(Rig)) {
    let cache = root().join(".cache/envoy");
    match program::fetch(version, &cache) {
        Ok(envoy) => {
            // Bootstraps and logs of a test that fails stay.
            let dir = tempfile::Builder::new()
                .prefix("pilothouse-")
                .disable_cleanup(true)
                .tempdir()
                .unwrap();
            let path = dir.path().to_owned();
            println!("logs: {}", path.display());
            test(Rig {
                block: Block::free(),
                dir,
                envoy,
                version,
                variables: Vec::new(),
            })
            .await;
            std::fs::remove_dir_all(path).unwrap();
        }
        Err(error) if std::env::var_os("PILOTHOUSE_REQUIRE_ENVOY").is_some() => panic!("{error:#}"),
        Err(error) => {
            // Past the capture of the test harness, so that it is seen.
            let text = format!("\n!!! NOT TESTED with Envoy {version}: {error:#}\n");
            std::io::stderr().write_all(text.as_bytes()).unwrap();
        }
    }
}

impl Rig {
    /// Sets an environment variable of Pilothouse.
    pub(crate) fn set(&mut self, name: &'static str, value: &'static str) {
        self.variables.push((name, value));
    }

    /// Has Ingresses of these classes served by the gateway of `shop`; returns its ports for HTTP and HTTPS.
    pub(crate) fn serve_ingresses(&mut self, classes: &'static str) -> [u16; 2] {
        let ports = ports_of_all_addresses();
        let [plain, tls] = ports.map(|port| &*port.to_string().leak());
        self.set("PILOTHOUSE_INGRESS_CLASSES", classes);
        self.set("PILOTHOUSE_INGRESS_NAMESPACE", "shop");
        self.set("PILOTHOUSE_INGRESS_SELECTOR", "istio=ingressgateway");
        self.set("PILOTHOUSE_INGRESS_HTTP_PORT", plain);
        self.set("PILOTHOUSE_INGRESS_HTTPS_PORT", tls);
        ports
    }

    /// The folder that is served.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// Writes a file of the folder in one step; addresses are moved into the block of the test.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let folder = self.folder();
        std::fs::create_dir_all(&folder).unwrap();
        let scratch = folder.join(".scratch");
        std::fs::write(&scratch, self.block.place(text)).unwrap();
        std::fs::rename(&scratch, folder.join(name)).unwrap();
    }

    /// Takes files of `examples/shop` into the folder; all of them if none is named.
    pub(crate) fn example(&self, names: &[&str]) {
        let shop = root().join("examples/shop");
        if names.is_empty() {
            self.block.copy(&shop, &self.folder()).unwrap();
        }
        for name in names {
            self.write(name, &std::fs::read_to_string(shop.join(name)).unwrap());
        }
    }

    /// The path of a file beside the folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes mesh configuration and gives the flag that names it.
    pub(crate) fn mesh_config(&self, text: &str) -> String {
        let path = self.beside("mesh.yaml");
        std::fs::write(&path, self.block.place(text)).unwrap();
        format!("--mesh-config={}", path.display())
    }

    /// An address of the files, in the block of the test.
    pub(crate) fn address(&self, text: &str) -> SocketAddr {
        self.block.place(text).parse().unwrap()
    }

    /// The program of the Envoy that the test is about.
    pub(crate) fn envoy(&self) -> &Path {
        &self.envoy.program
    }

    /// Its version.
    pub(crate) fn version(&self) -> &'static str {
        self.version
    }

    /// Starts Pilothouse on the folder.
    pub(crate) async fn mesh(&self) -> Mesh {
        self.mesh_with(Vec::new()).await
    }

    /// Starts Pilothouse on the folder, with further flags.
    pub(crate) async fn mesh_with(&self, flags: Vec<String>) -> Mesh {
        let setup = Setup {
            pilothouse: pilothouse().to_owned(),
            envoy: self.envoy.clone(),
            config: self.folder(),
            run: self.dir.path().join("run"),
            block: self.block,
            flags,
            variables: self.variables.clone(),
        };
        Mesh::start(setup).await.unwrap()
    }

    /// Starts Pilothouse and a gateway.
    pub(crate) async fn gateway(&self) -> Mesh {
        self.gateway_with(Vec::new()).await
    }

    /// Starts Pilothouse with further flags, and a gateway.
    pub(crate) async fn gateway_with(&self, flags: Vec<String>) -> Mesh {
        let mut mesh = self.mesh_with(flags).await;
        mesh.start_gateway().unwrap();
        mesh.wait_for_proxies().await.unwrap();
        mesh
    }

    /// A client of the gateway.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.block.gateway(), HOST)
    }

    /// Asks the gateway once.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.client().get(path).await.unwrap()
    }

    /// Asks the gateway once, with headers.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.client()
            .send(Method::GET, path, headers)
            .await
            .unwrap()
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(
            start.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Ports for what is served at every address: none that anybody listens at, and none of those that systems give to
/// outgoing connections, of which a single one keeps a server from such a port.
pub(crate) fn ports_of_all_addresses<const PORTS: usize>() -> [u16; PORTS] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    // Processes that run side by side start far apart.
    let start = std::process::id() * 37;
    let mut ports = std::iter::repeat_with(|| start + u32::from(NEXT.fetch_add(1, Relaxed)))
        .map(|turn| 20_000 + u16::try_from(turn % 9_000).expect("below 9,000"))
        .filter(is_free);
    std::array::from_fn(|_| ports.next().expect("the numbers do not end"))
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program, as `$PILOTHOUSE` says or freshly built.
pub(crate) fn pilothouse() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(program) = std::env::var_os("PILOTHOUSE") {
            return program.into();
        }
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "pilothouse"])
            .status()
            .unwrap();
        assert!(status.success(), "pilothouse does not build");
        demo::mesh::pilothouse_beside_us().unwrap()
    })
}
