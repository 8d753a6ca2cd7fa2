//! The log: a line for each event, whatever names and messages hold.
//!
//! A name with a line break would otherwise write lines of its own. Events are escaped where they are written, so that no
//! message needs to think of it.

use std::io::{IsTerminal, Result, Stderr, Write};

use tracing_subscriber::EnvFilter;

/// Writes events to the standard error from here on.
pub(crate) fn start(level: &str, json: bool) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|error| {
        eprintln!("pilothouse: --log {level:?}: {error}; using info");
        EnvFilter::new("info")
    });
    let colours = !json && std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(move || Lines::<Stderr> {
            to: std::io::stderr(),
            colours,
        });
    if json {
        subscriber.json().init();
    } else {
        subscriber.with_ansi(colours).init();
    }
}

/// Writes events, each as one line.
struct Lines<W> {
    to: W,
    /// Whether the subscriber colours what it writes. It escapes the sign that begins a colour in what it is given.
    colours: bool,
}

impl<W: Write> Write for Lines<W> {
    /// Takes in a whole event, as the subscriber writes it.
    fn write(&mut self, event: &[u8]) -> Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        let breaks = |c: char| {
            let colour = c == '\u{1b}' && self.colours;
            (c.is_control() && c != '\t' && !colour) || matches!(c, '\u{2028}' | '\u{2029}')
        };
        if !line.contains(breaks) {
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let mut escaped = String::with_capacity(line.len() + 16);
        for c in line.chars() {
            match breaks(c) {
                true => escaped.extend(c.escape_default()),
                false => escaped.push(c),
            }
        }
        escaped.push_str(end);
        self.to.write_all(escaped.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_name_writes_no_line_of_its_own() {
        let kept = Kept::default();
        let to = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_target(false)
            .with_writer(move || Lines {
                to: to.clone(),
                colours: false,
            });
        tracing::subscriber::with_default(subscriber.finish(), || {
            let name = "a\n2026 FAKE\r\u{85}\u{1b}[2J\u{2028}é";
            tracing::warn!(%name, "{name} is refused.");
            tracing::info!("fine\tas it is");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.split(['\n', '\r', '\u{85}', '\u{2028}']).collect();
        assert_eq!(lines.len(), 3, "{text:?}");
        assert!(lines[0].contains("a\\n2026 FAKE\\r"), "{text:?}");
        assert!(
            lines[0].contains('é') && !text.contains('\u{1b}'),
            "{text:?}"
        );
        assert!(
            lines[1].ends_with("fine\tas it is") && lines[2].is_empty(),
            "{text:?}"
        );
    }
}
