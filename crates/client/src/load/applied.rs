//! Changes for servers that do not read the folder: another program is told of them.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program, which is told `apply PATH` or `delete PATH`, a line each, and answers each with a line. It is ended when
/// this is dropped.
#[derive(Debug)]
pub(super) struct Applier {
    child: Child,
    tell: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Applier {
    /// Starts a line for the shell, and tells it of a folder.
    pub(super) fn start(line: &str, folder: &Path) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("exec {line}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(tell), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the program has no standard input"));
        };
        let mut applier = Self {
            child,
            tell,
            answers: BufReader::new(answers),
        };
        applier.tell(folder)?;
        Ok(applier)
    }

    /// Tells of what was written, or is gone, and waits for the answer.
    pub(super) fn tell(&mut self, path: &Path) -> io::Result<()> {
        let verb = if path.exists() { "apply" } else { "delete" };
        writeln!(self.tell, "{verb} {}", path.display())?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::Error::other("the program of --apply ended")),
            _ => Ok(()),
        }
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_applied_and_what_is_gone_deleted() {
        let said = std::env::temp_dir().join(format!("pilothouse-applied-{}", std::process::id()));
        let line = format!(
            "sh -c 'while read l; do echo $l >> {}; echo; done'",
            said.display()
        );
        let mut applier = Applier::start(&line, Path::new("/")).unwrap();
        applier.tell(Path::new("/no/such/file")).unwrap();
        let lines = std::fs::read_to_string(&said).unwrap();
        std::fs::remove_file(said).unwrap();
        assert_eq!(lines, "apply /\ndelete /no/such/file\n");
        assert!(Applier::start("true", Path::new("/")).is_err());
    }
}
