//! The log: a line for each event, whatever names and messages hold.
//!
//! A name with a line break would otherwise write lines of its own. Events are escaped where they are written, so that no
//! message needs to think of it. Whoever logs waits for nobody: a thread writes the lines ([`queue`]), so that neither a full
//! pipe nor one that is closed stops any work.

mod queue;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Arguments};
use std::fs::File;
use std::io::{IsTerminal, Result, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use queue::Queue;

/// What is logged where nothing else is said.
const DEFAULT: &str = "info";

/// How long the end of the program waits for the reader of the log.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way to the standard error, once the log has begun.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Tells the user something on the standard error, as `eprintln!` does; where nobody reads it, nothing happens.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::log::tell(format_args!($($words)*))
    };
}
pub(crate) use say;

/// Writes a line to the standard error: after what is logged, where something is.
pub(crate) fn tell(words: Arguments<'_>) {
    match QUEUE.get() {
        Some(queue) => queue.put(format!("{words}\n").into_bytes()),
        // Nobody can be told of a failure.
        None => _ = writeln!(std::io::stderr(), "{words}"),
    }
}

/// Writes events to the standard error from here on.
pub(crate) fn start(level: &str, json: bool) {
    let queue = match to_stderr(json) {
        Ok(queue) => QUEUE.get_or_init(|| queue),
        Err(error) => return say!("pilothouse: there is no log: {error}"),
    };
    let filter = filter(level).unwrap_or_else(|why| {
        say!("pilothouse: --log {level:?}: {why}; using {DEFAULT}");
        EnvFilter::new(DEFAULT)
    });
    let colours = !json && std::io::stderr().is_terminal();
    let stated = filter.to_string();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(move || Lines {
            to: Put(queue),
            colours,
        });
    if json {
        let subscriber = subscriber.json().with_filter_reloading();
        let log = subscriber.reload_handle();
        subscriber.init();
        changed_by(&stated, move |filter| log.reload(filter));
    } else {
        let subscriber = subscriber
            .with_ansi(colours)
            .fmt_fields(debug_fn(put_field))
            .with_filter_reloading();
        let log = subscriber.reload_handle();
        subscriber.init();
        changed_by(&stated, move |filter| log.reload(filter));
    }
    // The usual hook writes to the standard error, and would wait for its reader.
    std::panic::set_hook(Box::new(on_panic));
}

/// Has `change` change what is logged from here on, which by now is `stated`.
fn changed_by(
    stated: &str,
    change: impl Fn(EnvFilter) -> std::result::Result<(), tracing_subscriber::reload::Error>
    + Send
    + Sync
    + 'static,
) {
    server::levels::install(stated, move |text| {
        change(filter(text)?).map_err(|error| error.to_string())
    });
}

/// Waits until what was logged is written; not for long where nobody takes it.
pub(crate) fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(PATIENCE);
    }
}

/// The thread that writes to the standard error.
fn to_stderr(json: bool) -> Result<Queue> {
    // Not by way of Rust's handle: while the thread waits for a reader, that would be locked for everybody.
    let stderr = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let missing = Box::new(move |count| missing(count, json));
    Queue::start(stderr, missing, server::dropped::add)
}

/// The line that says that lines are missing, as the log writes lines.
fn missing(count: u64, json: bool) -> String {
    let mut time = String::new();
    // A line without its time is better than none.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let words = match count {
        1 => "1 line of the log was dropped: it was not written in time.".to_owned(),
        _ => format!("{count} lines of the log were dropped: they were not written in time."),
    };
    match json {
        false => format!("{time}  WARN {words} lines={count}\n"),
        true => {
            let fields = serde_json::json!({"message": words, "lines": count});
            let line = serde_json::json!({"timestamp": time, "level": "WARN", "fields": fields});
            format!("{line}\n")
        }
    }
}

/// What is logged, as `--log` says. What no level is stated for is logged as by default.
fn filter(level: &str) -> std::result::Result<EnvFilter, String> {
    let stated = || level.split(',').map(str::trim).filter(|s| !s.is_empty());
    let of_all = |text: &str| {
        text.parse::<tracing_subscriber::filter::LevelFilter>()
            .is_ok()
    };
    let of_part = |text: &str| text.contains(['=', '[', ':']) || text.starts_with("pilothouse_");
    if let Some(wrong) = stated().find(|text| !of_all(text) && !of_part(text)) {
        return Err(format!(
            "{wrong:?} is no level; levels are error, warn, info, debug, trace and off"
        ));
    }
    let whole = match stated().any(of_all) {
        true => level.to_owned(),
        // Otherwise the errors of all other parts would be silent.
        false => format!("{DEFAULT},{level}"),
    };
    EnvFilter::try_new(whole).map_err(|error| error.to_string())
}

fn on_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let words = panic_words(info.payload());
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => {
            tracing::error!(thread, place, backtrace = %trace, "A thread panicked, which is a bug: {words}");
        }
        _ => tracing::error!(thread, place, "A thread panicked, which is a bug: {words}"),
    }
}

fn panic_words(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it does not say why")
}

/// Writes the message of an event, or a field after it. A value with a space in it is quoted, whatever it is: it would otherwise
/// have no end.
fn put_field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let name = field.name();
    if name == "message" {
        return write!(to, "{value:?}");
    }
    // Where an event of another crate's logging comes from has a place of its own.
    if name.starts_with("log.") {
        return Ok(());
    }
    let text = format!("{value:?}");
    match to.has_ansi_escapes() {
        true => write!(to, " \u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
        false => write!(to, " {name}=")?,
    }
    let has_end = text.starts_with(['[', '{']) || is_quoted(&text);
    match text.contains(char::is_whitespace) && !has_end {
        true => write!(to, "{text:?}"),
        false => to.write_str(&text),
    }
}

/// Whether a text is one in quotes, as texts are shown.
fn is_quoted(text: &str) -> bool {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let mut escaped = false;
        !inner.chars().any(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })
    })
}

/// Puts what is written to it where it will be written.
struct Put(&'static Queue);

impl Write for Put {
    fn write(&mut self, line: &[u8]) -> Result<usize> {
        self.0.put(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
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

    #[test]
    fn a_value_of_several_words_is_quoted() {
        let kept = Kept::default();
        let to = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_ansi(false)
            .with_target(false)
            .fmt_fields(debug_fn(put_field))
            .with_writer(move || to.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            let (reason, peer) = ("\"a\" is not \"b\"", "127.0.0.1:1");
            tracing::warn!(%peer, %reason, text = "a b", times = 1, "Connections were refused.");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let wanted = r#"WARN Connections were refused. peer=127.0.0.1:1 reason="\"a\" is not \"b\"" text="a b" times=1"#;
        assert_eq!(text.trim(), wanted);
    }

    #[test]
    fn only_levels_and_parts_of_the_program_can_be_named() {
        let shown = |level: &str| filter(level).map(|filter| filter.to_string());
        assert!(
            shown("verbose")
                .unwrap_err()
                .contains("\"verbose\" is no level")
        );
        assert!(shown("info,verbos").is_err());
        assert!(shown("foo=bar=1").is_err());
        for level in ["warn", "WARN", "off", "debug"] {
            assert!(shown(level).is_ok(), "{level}");
        }
        // What is not named is not silent.
        let of_part = shown("pilothouse_server=debug").unwrap();
        assert!(of_part.contains("info"), "{of_part}");
        let both = shown("error,pilothouse_server=debug").unwrap();
        assert!(!both.contains("info"), "{both}");
    }

    #[test]
    fn missing_lines_are_told_as_the_log_tells_things() {
        let text = missing(1, false);
        assert!(
            text.contains("  WARN 1 line of the log was dropped"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&missing(7, true)).unwrap();
        assert_eq!(json["level"], "WARN");
        assert_eq!(json["fields"]["lines"], 7);
    }
}
