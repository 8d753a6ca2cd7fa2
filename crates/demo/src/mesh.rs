//! Starts a mesh and ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use envoy::process::{self, Process};
use envoy::program::Envoy;
use tokio::net::TcpStream;

use crate::shop::{Block, GATEWAY, NAMESPACE, WORKLOADS, Workload};
use crate::{admin, control};

/// How long anything may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a mesh is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program `pilothouse`.
    pub pilothouse: PathBuf,
    /// Envoy.
    pub envoy: Envoy,
    /// Folder of YAML to serve.
    pub config: PathBuf,
    /// Folder for logs and bootstraps.
    pub run: PathBuf,
    /// Addresses.
    pub block: Block,
    /// Further flags of `pilothouse serve`.
    pub flags: Vec<String>,
    /// Further environment variables of it.
    pub variables: Vec<(&'static str, &'static str)>,
}

/// Workloads, proxies and the control plane are on one machine and of one user here: endpoints are at loopback, and Gateways
/// bind addresses of it.
const ON_ONE_MACHINE: [(&str, &str); 2] = [
    ("PILOTHOUSE_LOCAL_ENDPOINTS", "*"),
    ("PILOTHOUSE_GATEWAY_BINDS", "*"),
];

/// A proxy of the mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    /// Its name in the namespace [`NAMESPACE`].
    pub name: String,
    /// Its admin page.
    pub admin: SocketAddr,
}

impl Proxy {
    /// `name.namespace`, as Pilothouse's pages call it.
    pub fn id(&self) -> String {
        format!("{}.{NAMESPACE}", self.name)
    }
}

/// A running mesh. Everything in it ends when it is dropped.
#[derive(Debug)]
pub struct Mesh {
    setup: Setup,
    control: Option<Process>,
    others: Vec<Process>,
    proxies: Vec<Proxy>,
}

impl Mesh {
    /// Starts Pilothouse.
    ///
    /// # Errors
    ///
    /// When it does not get ready.
    pub async fn start(setup: Setup) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&setup.run)
            .with_context(|| format!("cannot create {}", setup.run.display()))?;
        let mut mesh = Self {
            setup,
            control: None,
            others: Vec::new(),
            proxies: Vec::new(),
        };
        mesh.start_control_plane().await?;
        Ok(mesh)
    }

    /// Its setup.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Its addresses.
    pub fn block(&self) -> Block {
        self.setup.block
    }

    /// Its proxies, in the order they were started.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Starts Pilothouse, again after [`Mesh::kill_control_plane`].
    ///
    /// # Errors
    ///
    /// When it does not get ready.
    pub async fn start_control_plane(&mut self) -> anyhow::Result<()> {
        let block = self.setup.block;
        for address in [block.xds(), block.pages()] {
            vacant(address)?;
        }
        let mut args = vec![
            "serve".to_owned(),
            format!("--config-dir={}", self.setup.config.display()),
            format!("--grpc-addr={}", block.xds()),
            format!("--http-addr={}", block.pages()),
        ];
        args.extend_from_slice(&self.setup.flags);
        let variables = [&ON_ONE_MACHINE[..], &self.setup.variables[..]].concat();
        let mut process = Process::start_with(
            "pilothouse",
            &self.setup.pilothouse,
            &args,
            &variables,
            &self.log("pilothouse"),
        )?;
        wait("pilothouse", &mut process, async || {
            control::is_ready(block.pages()).await
        })
        .await?;
        self.control = Some(process);
        Ok(())
    }

    /// Kills Pilothouse as a crash would.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill_control_plane(&mut self) -> anyhow::Result<()> {
        self.control
            .take()
            .context("Pilothouse is not running")?
            .kill()
    }

    /// Kills the proxies as a crash would.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill_proxies(&mut self) -> anyhow::Result<()> {
        for proxy in self.proxies.drain(..) {
            let name = process_of(&proxy.name);
            let place = self.others.iter().position(|other| other.name() == name);
            let place = place.with_context(|| format!("{name} is not running"))?;
            self.others.remove(place).kill()?;
        }
        Ok(())
    }

    /// Starts the application of a workload.
    ///
    /// # Errors
    ///
    /// When it does not get ready.
    pub async fn start_application(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let block = self.setup.block;
        let address = block.application(workload);
        vacant(address)?;
        let mut args = vec![
            "echo".to_owned(),
            "--name".to_owned(),
            workload.name(),
            format!("--listen={address}"),
        ];
        for (service, path) in workload.calls {
            args.push(format!(
                "--call=http://{service}{path}@{}",
                block.outbound(workload)
            ));
        }
        let name = format!("{}-app", workload.name());
        let mut process = Process::start(&name, &self.setup.pilothouse, &args, &self.log(&name))?;
        wait(&name, &mut process, async || {
            TcpStream::connect(address).await.is_ok()
        })
        .await?;
        self.others.push(process);
        Ok(())
    }

    /// Starts the proxy of a workload; [`Mesh::wait_for_proxies`] waits for it.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_sidecar(&mut self, workload: &Workload, more: &[&str]) -> anyhow::Result<()> {
        let block = self.setup.block;
        let labels = format!("app={},version={}", workload.app, workload.version);
        let address = block.proxy(workload).ip().to_string();
        let args = [
            "sidecar",
            "--ip",
            &address,
            "-l",
            &labels,
            "--service-account",
            workload.app,
        ];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        self.start_proxy(workload.name(), block.admin(workload), &args)
    }

    /// Starts the proxy of the gateway; [`Mesh::wait_for_proxies`] waits for it.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_gateway(&mut self) -> anyhow::Result<()> {
        self.start_gateway_with(&[])
    }

    /// [`Mesh::start_gateway`] with further flags of its bootstrap.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_gateway_with(&mut self, more: &[&str]) -> anyhow::Result<()> {
        let block = self.setup.block;
        vacant(block.gateway())?;
        let address = block.gateway().ip().to_string();
        let args = ["gateway", "--ip", &address, "-l", "istio=ingressgateway"];
        let args: Vec<&str> = args.iter().chain(more).copied().collect();
        self.start_proxy(GATEWAY.to_owned(), block.gateway_admin(), &args)
    }

    /// What `pilothouse` prints with these arguments.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn run(&self, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        let output = Command::new(&self.setup.pilothouse)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .context("cannot run pilothouse")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", said.trim());
        Ok(output.stdout)
    }

    fn start_proxy(
        &mut self,
        name: String,
        admin: SocketAddr,
        args: &[&str],
    ) -> anyhow::Result<()> {
        vacant(admin)?;
        let (xds, page) = (self.setup.block.xds().to_string(), admin.to_string());
        let mut all = vec!["bootstrap"];
        all.extend_from_slice(args);
        all.extend(["--name", &name, "--namespace", NAMESPACE, "--admin", &page]);
        if !args.contains(&"--xds") {
            all.extend(["--xds", &xds]);
        }
        let bootstrap = self.setup.run.join(format!("{name}.json"));
        std::fs::write(&bootstrap, self.run(&all)?)?;
        let args = [
            "-c",
            &bootstrap.display().to_string(),
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--file-flush-interval-msec",
            "100",
        ];
        let args = args.iter().chain(&envoy::FLAGS);
        let args: Vec<String> = args.map(|&a| a.to_owned()).collect();
        let process = process_of(&name);
        let log = self.log(&process);
        self.others.push(Process::start(
            &process,
            &self.setup.envoy.program,
            &args,
            &log,
        )?);
        self.proxies.push(Proxy { name, admin });
        Ok(())
    }

    /// Waits until every proxy has what it waits for at start.
    ///
    /// # Errors
    ///
    /// When one does not get there.
    pub async fn wait_for_proxies(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        for proxy in &self.proxies {
            while !admin::is_ready(proxy.admin).await {
                self.others.iter_mut().try_for_each(Process::check)?;
                if Instant::now() > end {
                    let log = self.log(&format!("{}-envoy", proxy.name));
                    bail!(
                        "{} did not get ready within {PATIENCE:?}; see {}",
                        proxy.name,
                        log.display()
                    );
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    /// Starts the whole shop: applications, their proxies and the gateway. `tell` hears of each step.
    ///
    /// # Errors
    ///
    /// When anything does not get ready.
    pub async fn start_shop(&mut self, tell: &mut dyn FnMut(String)) -> anyhow::Result<()> {
        for workload in WORKLOADS {
            self.start_application(workload).await?;
        }
        tell(format!(
            "{} small backends that say who they are and whom they asked",
            WORKLOADS.len()
        ));
        self.start_gateway()?;
        for workload in WORKLOADS {
            self.start_sidecar(workload, &[])?;
        }
        self.wait_for_proxies().await?;
        tell(format!(
            "{} Envoys: a gateway and a sidecar beside each backend",
            self.proxies.len()
        ));
        Ok(())
    }

    /// Ends everything in order.
    pub async fn stop(mut self) {
        process::stop(std::mem::take(&mut self.others)).await;
        process::stop(self.control.take().into_iter().collect()).await;
    }

    fn log(&self, name: &str) -> PathBuf {
        self.setup.run.join(format!("{name}.log"))
    }
}

async fn wait(
    name: &str,
    process: &mut Process,
    is_ready: impl AsyncFn() -> bool,
) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_ready().await {
        process.check()?;
        ensure!(
            Instant::now() < end,
            "{name} did not get ready within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Somebody else may have answered.
    process.check()
}

/// What the process of a proxy is called.
fn process_of(proxy: &str) -> String {
    format!("{proxy}-envoy")
}

/// Fails where somebody listens already: better said before than found in the log of a child.
fn vacant(address: SocketAddr) -> anyhow::Result<()> {
    let taken = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok();
    ensure!(
        !taken,
        "something listens on {address} already: is another demo running?"
    );
    Ok(())
}

/// The program `pilothouse` beside this one, which cargo builds into the same folder.
///
/// # Errors
///
/// When it is not there.
pub fn pilothouse_beside_us() -> anyhow::Result<PathBuf> {
    let us = std::env::current_exe()?;
    let found = us
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir: &Path| dir.join("pilothouse"))
        .find(|file| file.is_file());
    found.with_context(|| {
        format!(
            "there is no pilothouse beside {}: cargo build -p pilothouse",
            us.display()
        )
    })
}
