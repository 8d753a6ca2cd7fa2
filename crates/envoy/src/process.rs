//! Child processes that never outlive us.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);

/// A child process with its output in a file. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts a program. What it prints goes to `log`.
    ///
    /// The kernel ends it when the calling thread ends (where `setpriv` of util-linux is there to ask for that), so
    /// call it on a thread that lives as long as the child should.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(name: &str, program: &Path, args: &[String], log: &Path) -> anyhow::Result<Self> {
        Self::start_with(name, program, args, &[], log)
    }

    /// [`Process::start`] with further environment variables.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start_with(
        name: &str,
        program: &Path,
        args: &[String],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt;

        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = if *HAS_SETPRIV {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // A group of its own, so that Ctrl-C reaches only us and we end things in order.
        command
            .args(args)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            child,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fails if the process has ended, with the end of what it printed.
    ///
    /// # Errors
    ///
    /// When the process has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.ended(status)),
        }
    }

    fn ended(&self, status: ExitStatus) -> anyhow::Error {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(12)..].join("\n  ");
        anyhow::anyhow!(
            "{} ended ({status}); the end of {}:\n  {tail}",
            self.name,
            self.log.display()
        )
    }

    /// Ends the process at once, as a crash would.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks the process to end.
    pub fn terminate(&mut self) {
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid(&self.child)) {
            // It may have ended in between, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

static HAS_SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    let help = Command::new("setpriv")
        .arg("--help")
        .stdin(Stdio::null())
        .output();
    help.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("--pdeathsig"))
});

/// Asks all to end, and kills those that will not.
pub async fn stop(mut processes: Vec<Process>) {
    for process in &mut processes {
        process.terminate();
    }
    let end = Instant::now() + GRACE;
    while Instant::now() < end {
        processes.retain_mut(|p| !matches!(p.child.try_wait(), Ok(Some(_))));
        if processes.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
