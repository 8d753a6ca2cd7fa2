//! Lines on their way to where the log goes, written by a thread of their own.
//!
//! Whoever logs only puts a line here: never waits for the reader of the log, and hears of no failure. Where nobody takes
//! the lines, because the reader is slow, has gone, or the disk is full, those that find no room are dropped and counted.
//! The next line that can be written again is preceded by one that says how many are missing.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many lines may wait.
const WAITING_LINES: usize = 16_384;
/// How many bytes of lines may wait.
const WAITING_BYTES: usize = 8 << 20;
/// How long until a writer that would block is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// Makes the line that says how many lines were dropped.
pub(crate) type Missing = Box<dyn Fn(u64) -> String + Send>;

/// The way to the thread that writes. Clones share it.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Tells the thread of lines, and those that wait for it of what it has written.
    changed: Condvar,
    /// Called with the number of lines for each loss.
    on_drop: Box<dyn Fn(u64) + Send + Sync>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that the thread has taken and not yet written.
    writing: usize,
    /// Lines that were dropped since the log last said so.
    missing: u64,
}

impl Queue {
    /// Starts a thread that writes to `to`. `missing` makes the line about dropped lines; `on_drop` counts them.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub(crate) fn start(
        to: impl Write + Send + 'static,
        missing: Missing,
        on_drop: impl Fn(u64) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            on_drop: Box::new(on_drop),
        });
        let queue = Self(shared.clone());
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || shared.write_all(to, &missing))?;
        Ok(queue)
    }

    /// Puts a line where it will be written, or drops it if too much waits there.
    pub(crate) fn put(&self, line: Vec<u8>) {
        let mut state = self.0.state();
        let full = state.lines.len() >= WAITING_LINES
            || state.bytes.saturating_add(line.len()) > WAITING_BYTES;
        if full {
            state.missing += 1;
            drop(state);
            (self.0.on_drop)(1);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.0.changed.notify_all();
    }

    /// Waits until everything is written that was put here before, at most for `patience`. Returns whether it was.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.0.state();
        while !state.lines.is_empty() || state.writing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines as they come, for the life of the process.
    fn write_all(&self, mut to: impl Write, missing: &Missing) {
        loop {
            let mut state = self.state();
            while state.lines.is_empty() {
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            }
            let lines = std::mem::take(&mut state.lines);
            state.bytes = 0;
            state.writing = lines.len();
            drop(state);
            for line in lines {
                self.write_line(&mut to, &line, missing);
                self.state().writing -= 1;
            }
            self.changed.notify_all();
        }
    }

    /// Writes a line, after one about those that are missing before it.
    fn write_line(&self, to: &mut impl Write, line: &[u8], missing: &Missing) {
        let before = self.state().missing;
        let said = match before {
            0 => Ok(()),
            count => whole(to, missing(count).as_bytes()),
        };
        if said.is_ok() {
            self.state().missing -= before;
        }
        if said.and_then(|()| whole(to, line)).is_err() {
            self.state().missing += 1;
            (self.on_drop)(1);
        }
    }
}

/// Writes all of a line, however long its reader takes.
fn whole(to: &mut impl Write, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match to.write(line) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => line = line.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The other end of what is shared with another program may have asked for this.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// How long anything may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A reader that takes lines, none, or breaks.
    #[derive(Clone, Default)]
    struct Reader(Arc<(Mutex<Taken>, Condvar)>);

    #[derive(Default)]
    struct Taken {
        text: Vec<u8>,
        stuck: bool,
        broken: bool,
    }

    impl Reader {
        fn set(&self, change: impl FnOnce(&mut Taken)) {
            change(&mut self.0.0.lock().unwrap());
            self.0.1.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.0.lock().unwrap().text.clone()).unwrap()
        }
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.0.0.lock().unwrap();
            let mut taken = self.0.1.wait_while(taken, |taken| taken.stuck).unwrap();
            if taken.broken {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let part = bytes.len().min(3);
            taken.text.extend_from_slice(&bytes[..part]);
            Ok(part)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue(reader: &Reader) -> (Queue, Arc<AtomicU64>) {
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        let missing: Missing = Box::new(|count| format!("{count} missing\n"));
        let on_drop = move |count| _ = counted.fetch_add(count, Ordering::SeqCst);
        let queue = Queue::start(reader.clone(), missing, on_drop).unwrap();
        (queue, dropped)
    }

    fn put(queue: &Queue, line: &str) {
        queue.put(line.as_bytes().to_vec());
    }

    #[test]
    fn lines_are_written_whole_and_in_order() {
        let reader = Reader::default();
        let (queue, dropped) = queue(&reader);
        let lines: Vec<String> = (0..1000).map(|n| format!("line {n}\n")).collect();
        lines.iter().for_each(|line| put(&queue, line));
        assert!(queue.flush(PATIENCE));
        assert_eq!(reader.text(), lines.concat());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_reader_that_takes_nothing_delays_nobody_and_is_told_what_it_missed() {
        let reader = Reader::default();
        let (queue, dropped) = queue(&reader);
        reader.set(|taken| taken.stuck = true);
        let all = 3 * WAITING_LINES as u64;
        (0..all).for_each(|n| put(&queue, &format!("{n}\n")));
        assert!(!queue.flush(Duration::from_millis(10)));
        let lost = dropped.load(Ordering::SeqCst);
        // The thread may have taken as much as may wait.
        assert!(
            lost >= all - 2 * WAITING_LINES as u64 && lost < all,
            "{lost}"
        );

        reader.set(|taken| taken.stuck = false);
        assert!(queue.flush(PATIENCE));
        put(&queue, "after\n");
        assert!(queue.flush(PATIENCE));
        let text = reader.text();
        let said: u64 = text
            .lines()
            .filter_map(|line| line.strip_suffix(" missing")?.parse::<u64>().ok())
            .sum();
        assert_eq!(said, lost);
        assert!(text.ends_with("after\n"));
        let numbers = text.lines().filter(|line| line.parse::<u64>().is_ok());
        assert_eq!(numbers.count() as u64, all - lost);
    }

    #[test]
    fn long_lines_have_a_bound_too() {
        let reader = Reader::default();
        let (queue, dropped) = queue(&reader);
        reader.set(|taken| taken.stuck = true);
        (0..64).for_each(|_| queue.put(vec![b'x'; 1 << 20]));
        // Eight that wait, and eight that the thread may have taken.
        assert!(dropped.load(Ordering::SeqCst) >= 48);
    }

    #[test]
    fn a_broken_reader_is_counted_and_tried_again() {
        let reader = Reader::default();
        let (queue, dropped) = queue(&reader);
        reader.set(|taken| taken.broken = true);
        (0..5).for_each(|n| put(&queue, &format!("{n}\n")));
        assert!(queue.flush(PATIENCE));
        assert_eq!(dropped.load(Ordering::SeqCst), 5);
        reader.set(|taken| taken.broken = false);
        put(&queue, "back\n");
        assert!(queue.flush(PATIENCE));
        assert_eq!(reader.text(), "5 missing\nback\n");
    }
}
