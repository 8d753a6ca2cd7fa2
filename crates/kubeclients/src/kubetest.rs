//! Real API servers: `../shared/tools/backends/kubetest`, which is kube-apiserver with an etcd in one process.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// The program, where `../shared/tools/backends/bin/kubetest.sh install` put it.
pub fn program() -> Option<PathBuf> {
    let cache = std::env::var_os("BACKENDS_CACHE").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/mesh-test-backends"));
    let program = cache.or_else(home)?.join("kubetest");
    program.is_file().then_some(program)
}

/// The program, or a loud word that the test tests nothing. `PILOTHOUSE_REQUIRE_KUBETEST=1` makes that a failure.
///
/// # Panics
///
/// Where it is missing and required.
pub fn program_or_skip(test: &str) -> Option<PathBuf> {
    let found = program();
    if found.is_none() {
        let required = std::env::var_os("PILOTHOUSE_REQUIRE_KUBETEST").is_some_and(|v| v == "1");
        assert!(!required, "kubetest is required and not there");
        eprintln!("SKIPPED {test}: there is no kubetest here, nothing was tested");
    }
    found
}

/// How one is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its keys, its data, and its log.
    pub dir: PathBuf,
    /// 0 for a free one.
    pub port: u16,
    /// Whether what an earlier one left in its folder is removed.
    pub ephemeral: bool,
    /// The controllers of Kubernetes that run, by kubetest's names, with commas.
    pub controllers: &'static str,
    /// Flags of kube-apiserver.
    pub flags: Vec<OsString>,
}

impl Options {
    /// A new one without controllers.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            port: 0,
            ephemeral: true,
            controllers: "",
            flags: Vec::new(),
        }
    }

    /// Its kubeconfig, once it is ready.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Starts one in a process group of its own, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When there is no program, or it ends or is not ready within two minutes.
    pub fn start(&self) -> anyhow::Result<Kubetest> {
        let program = program().context(
            "kubetest is not installed: ../shared/tools/backends/bin/kubetest.sh install",
        )?;
        std::fs::create_dir_all(&self.dir)?;
        if self.kubeconfig().exists() {
            std::fs::remove_file(self.kubeconfig())?;
        }
        let log = File::create(self.dir.join("log"))?;
        let mut command = Command::new(program);
        command
            .arg("--dir")
            .arg(&self.dir)
            .args(["--port", &self.port.to_string()])
            .arg(format!("--ephemeral={}", self.ephemeral))
            .args(["--controllers", self.controllers, "--"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let mut kubetest = Kubetest {
            child: command.spawn()?,
            options: self.clone(),
        };
        let until = Instant::now() + Duration::from_secs(120);
        while !self.kubeconfig().exists() {
            if let Some(status) = kubetest.child.try_wait()? {
                let said = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                bail!("kubetest ended with {status}: {said}");
            }
            if Instant::now() > until {
                bail!("kubetest is not ready after two minutes");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(kubetest)
    }
}

/// One that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Kubetest {
    child: Child,
    options: Options,
}

impl Kubetest {
    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.options.kubeconfig()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as the kernel does when memory is short.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets it run on after this process; returns its id.
    pub fn leave(self) -> u32 {
        let mut this = std::mem::ManuallyDrop::new(self);
        // Its status is nobody's business from now on.
        let _ = this.child.try_wait();
        this.child.id()
    }
}

impl Drop for Kubetest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
