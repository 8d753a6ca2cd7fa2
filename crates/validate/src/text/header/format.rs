//! Envoy's substitution formats: text with commands as `%REQ(x-user?x-id:5)%`.
//!
//! A command that an Envoy does not know, or whose arguments it cannot read, costs the whole resource that holds it. So a
//! format passes only if every supported version takes it. `%ENVIRONMENT(...)%` does not pass: what is in the
//! environment of a shared gateway is not for the author of a route to read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Check, is_token};

/// Digits of the length that a command may be cut to: more of them are not a number to Envoy.
const MOST_DIGITS: usize = 18;

/// The arguments of a command.
#[derive(Clone, Copy, PartialEq)]
enum Arguments {
    None,
    /// Any, or none.
    Optional,
    /// Any.
    Text,
    /// The name of a header, and that of another to use where the first is absent.
    Header,
    /// A key of a filter state, and how its value is written.
    State,
    Metadata,
    Path,
    /// Two points in time and a unit.
    Points,
    /// How a status of gRPC is written.
    Status,
    /// A key without colons.
    Key,
    /// An expression in CEL.
    Expression,
}

/// A command.
#[derive(Clone, Copy)]
struct Command {
    arguments: Arguments,
    /// Whether its value may be cut to a length.
    may_be_cut: bool,
    /// Whether others than the proxy say how long its value is.
    is_long: bool,
}

/// How long other values are at most, in bytes: numbers, addresses, names, reasons.
const SHORT: usize = 512;
/// How many bytes of a time the bytes of its format make at most: `%c` makes 24, and fractions of seconds have 15 digits.
const OF_TIME: usize = 16;

static COMMANDS: LazyLock<BTreeMap<&str, Command>> = LazyLock::new(|| {
    let lines = include_str!("commands.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.split_once(' '))
        .map(|(name, of)| {
            use Arguments::{
                Expression, Header, Key, Metadata, None, Optional, Path, Points, State, Status,
                Text,
            };
            let of_stated = of.strip_suffix(" long");
            let (of, is_long) = (of_stated.unwrap_or(of), of_stated.is_some());
            let (arguments, may_be_cut) = match of {
                "optional" => (Optional, false),
                "text" => (Text, false),
                "text cut" => (Text, true),
                "header" => (Header, true),
                "state" => (State, true),
                "metadata" => (Metadata, true),
                "path" => (Path, true),
                "points" => (Points, false),
                "status" => (Status, false),
                "key" => (Key, false),
                "expression" => (Expression, true),
                _ => (None, false),
            };
            let command = Command {
                arguments,
                may_be_cut,
                is_long,
            };
            (name, command)
        })
        .collect()
});

/// The most bytes that a format becomes. `long` says how long the value of a command, by its name and arguments, may be that
/// others than the proxy have a say in.
pub(super) fn expanded_size(format: &str, mut long: impl FnMut(&str, &str) -> usize) -> usize {
    let mut size = format.len();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = &rest[at..];
        let command = Written::read(rest).filter(|_| !rest.starts_with("%%"));
        let Some(command) = command else {
            let sign = if rest.starts_with("%%") { 2 } else { 1 };
            rest = &rest[sign..];
            continue;
        };
        size = size.saturating_add(command.expanded_size(&mut long));
        rest = &rest[command.length..];
    }
    size
}

/// A text that Envoy reads as a format.
pub(super) fn check(format: &str) -> Check {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%%") {
            rest = after;
            continue;
        }
        let Some(command) = Written::read(rest) else {
            return Err(
                "a `%` starts a command that does not end: write `%%` for the sign".to_owned(),
            );
        };
        command.check()?;
        rest = &rest[command.length..];
    }
    Ok(())
}

/// A command as it is written.
struct Written<'a> {
    name: &'a str,
    arguments: &'a str,
    /// The length that its value is cut to.
    cut: Option<&'a str>,
    /// Bytes of the whole.
    length: usize,
}

impl<'a> Written<'a> {
    /// The command at the start of a text.
    fn read(text: &'a str) -> Option<Self> {
        let of_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        let after = text.strip_prefix('%')?;
        let end = after.bytes().position(|b| !of_name(b))?;
        let (name, rest) = after.split_at(end);
        if name.is_empty() {
            return None;
        }
        if let Some((cut, after)) = ending(rest) {
            let length = text.len() - after.len();
            return Some(Self {
                name,
                arguments: "",
                cut,
                length,
            });
        }
        // The arguments end at the first bracket after which the command ends.
        let inner = rest.strip_prefix('(')?;
        let ends = inner.match_indices(')');
        let (at, (cut, after)) = ends
            .filter_map(|(at, _)| Some((at, ending(&inner[at + 1..])?)))
            .next()?;
        Some(Self {
            name,
            arguments: &inner[..at],
            cut,
            length: text.len() - after.len(),
        })
    }

    /// The most bytes of its value.
    fn expanded_size(&self, long: impl FnOnce(&str, &str) -> usize) -> usize {
        let size = match COMMANDS.get(self.name) {
            Some(command) if !command.is_long => {
                SHORT + self.arguments.len().saturating_mul(OF_TIME)
            }
            _ => long(self.name, self.arguments),
        };
        // What has more digits than a number is longer than anything.
        let cut = self.cut.and_then(|digits| digits.parse().ok());
        size.min(cut.unwrap_or(usize::MAX))
    }

    fn check(&self) -> Check {
        let name = self.name;
        if name == "ENVIRONMENT" {
            return Err("the environment of a proxy cannot be read: %ENVIRONMENT(...)%".to_owned());
        }
        let Some(command) = COMMANDS.get(name) else {
            return Err(format!(
                "%{name}% is not a command that every Envoy knows: write `%%` for the sign"
            ));
        };
        let too_long = |digits: &str| digits.len() > MOST_DIGITS;
        if self
            .cut
            .is_some_and(|digits| !command.may_be_cut || too_long(digits))
        {
            return Err(format!(
                "the value of %{name}% cannot be cut to that length"
            ));
        }
        if !command.arguments.take(self.arguments) {
            let arguments = self.arguments;
            return Err(format!("{arguments:?} is not what %{name}(...)% takes"));
        }
        Ok(())
    }
}

/// How a command ends: with `%`, or `:LENGTH%`; and what stands after it.
fn ending(text: &str) -> Option<(Option<&str>, &str)> {
    if let Some(after) = text.strip_prefix('%') {
        return Some((None, after));
    }
    let (digits, after) = text.strip_prefix(':')?.split_once('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some((Some(digits), after))
}

impl Arguments {
    fn take(self, text: &str) -> bool {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next();
        match self {
            Self::None => text.is_empty(),
            Self::Optional => true,
            Self::Text => !text.is_empty(),
            Self::Key => !text.is_empty() && !text.contains(':'),
            Self::Header => {
                let (name, other) = text.split_once('?').unwrap_or((text, ""));
                !text.is_empty() && is_header(name) && is_header(other)
            }
            Self::State => match (part(), part(), part()) {
                (Some(""), ..) => false,
                (_, None | Some("" | "PLAIN" | "TYPED"), None) => true,
                (_, Some("FIELD"), Some(field)) => !field.is_empty(),
                _ => false,
            },
            Self::Metadata => matches!(
                part(),
                Some(
                    "DYNAMIC" | "CLUSTER" | "ROUTE" | "UPSTREAM_HOST" | "LISTENER" | "VIRTUAL_HOST"
                )
            ),
            Self::Path => {
                matches!(part(), Some("" | "NQ" | "WQ"))
                    && matches!(part(), None | Some("" | "PATH" | "ORIG" | "ORIG_OR_PATH"))
                    && part().is_none()
            }
            Self::Points => {
                part().is_some()
                    && part().is_some()
                    && matches!(part(), None | Some("ms" | "us" | "ns"))
            }
            Self::Status => {
                matches!(text, "" | "SNAKE_STRING" | "CAMEL_STRING" | "NUMBER")
            }
            Self::Expression => crate::cel::envoy::check(text).is_ok(),
        }
    }
}

/// The name of a header, or nothing.
fn is_header(name: &str) -> bool {
    let bare = name.strip_prefix(':').unwrap_or(name);
    name.is_empty() || is_token(bare)
}
