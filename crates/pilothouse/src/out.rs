//! The standard output. Its reader may have enough before everything is printed, as `head` has; then a command ends, and
//! nothing has failed.

use std::io::{ErrorKind, Result, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the reader of the standard output has gone.
static LEFT: AtomicBool = AtomicBool::new(false);

/// The standard output.
pub(crate) struct Out(Stdout);

/// The standard output.
pub(crate) fn out() -> Out {
    Out(std::io::stdout())
}

/// Whether the reader of the standard output has left while something was printed. A command that failed afterwards
/// failed because of it.
pub(crate) fn reader_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        noted(self.0.flush())
    }
}

fn noted<T>(result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            LEFT.store(true, Ordering::Relaxed);
        }
    })
}
