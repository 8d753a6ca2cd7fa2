//! Records of DNS, made and taken away by a program of the operator's.
//!
//! It is started without a shell as `PROGRAM present|cleanup HOST NAME VALUE`, and ends with 0 once the record can be asked for,
//! or is gone. It has the environment of the server, in which it finds its credentials.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::error::shown;
use crate::record::DnsRecord;

/// How much of what it says is read.
const MOST_SAID: u64 = 4096;

/// A program that makes records of DNS.
#[derive(Clone, Debug)]
pub struct DnsHook {
    program: PathBuf,
    patience: Duration,
}

impl DnsHook {
    /// A program, and how long it may take.
    pub fn new(program: &Path, patience: Duration) -> Self {
        Self {
            program: program.to_owned(),
            patience,
        }
    }

    /// Makes a record.
    pub(crate) async fn present(&self, record: &DnsRecord) -> Result<(), String> {
        self.run("present", record).await
    }

    /// Takes a record away.
    pub(crate) async fn clean_up(&self, record: &DnsRecord) -> Result<(), String> {
        self.run("cleanup", record).await
    }

    async fn run(&self, what: &str, record: &DnsRecord) -> Result<(), String> {
        let program = self.program.display();
        let mut child = Command::new(&self.program)
            .args([what, &record.domain, &record.name, &record.value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let mut errors = child.stderr.take();
        let running = async {
            let mut said = Vec::new();
            if let Some(errors) = &mut errors {
                let _ = errors.take(MOST_SAID).read_to_end(&mut said).await;
                // A program that says more must not wait for who reads it.
                let _ = tokio::io::copy(errors, &mut tokio::io::sink()).await;
            }
            (child.wait().await, said)
        };
        match tokio::time::timeout(self.patience, running).await {
            Ok((Ok(status), _)) if status.success() => Ok(()),
            Ok((Ok(status), said)) => {
                let said = String::from_utf8_lossy(&said);
                let said = shown(said.trim());
                Err(format!("{program} {what} ended with {status}: {said}"))
            }
            Ok((Err(error), _)) => Err(format!("{program} {what}: {error}")),
            Err(_) => Err(format!(
                "{program} {what} took longer than {:?}",
                self.patience
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn hook(script: &str) -> (tempfile::TempDir, DnsHook) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hook");
        let mut file = std::fs::File::create(&path).unwrap();
        write!(file, "#!/bin/sh\ncd {:?}\n{script}\n", folder.path()).unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        file.set_permissions(executable).unwrap();
        drop(file);
        let hook = DnsHook::new(&path, Duration::from_secs(2));
        (folder, hook)
    }

    fn record() -> DnsRecord {
        DnsRecord {
            domain: "a.example".to_owned(),
            name: "_acme-challenge.a.example".to_owned(),
            value: "x; touch harm $(touch harm)".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_program_gets_what_to_do_as_arguments_and_no_shell_reads_them() {
        let (folder, hook) = hook("printf '%s\\n' \"$@\" > said");
        hook.present(&record()).await.unwrap();
        let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let value = "x; touch harm $(touch harm)";
        assert_eq!(
            lines,
            ["present", "a.example", "_acme-challenge.a.example", value]
        );
        assert!(!folder.path().join("harm").exists());
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why_and_one_that_hangs_is_ended() {
        let (_folder, fails) = hook("echo no zone >&2; yes | head -c 100000 >&2; exit 3");
        let said = fails.present(&record()).await.unwrap_err();
        assert!(said.contains("no zone") && said.contains('3'), "{said}");
        let (_folder, hangs) = hook("exec sleep 600");
        let said = hangs.clean_up(&record()).await.unwrap_err();
        assert!(said.contains("longer than 2s"), "{said}");
        let absent = DnsHook::new(Path::new("/nonexistent/hook"), Duration::from_secs(1));
        assert!(absent.present(&record()).await.is_err());
    }
}
