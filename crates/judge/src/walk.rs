//! One pass over an encoded message by its table.

use crate::fault::Fault;
use crate::table::{self, Field, Kind, Message, Rule};
use crate::wire::{Fields, Value, varint};
use crate::{check, whole};

/// How deep messages may be nested, as in Envoy.
const DEEPEST: u32 = 100;
/// The most whole seconds that Envoy counts in nanoseconds.
const MOST_SECONDS: i64 = i64::MAX / 1_000_000_000 - 1;
const NANOS: i128 = 1_000_000_000;
/// The highest number of fields of one message that are counted.
const COUNTERS: usize = 8;

/// Judges an encoded message of the type with that full name (`envoy.config.route.v3.Route`). A type that no table knows
/// has nothing that could be wrong.
///
/// # Errors
///
/// The first value that Envoy would refuse.
pub fn judge(name: &str, message: &[u8]) -> Result<(), Fault> {
    match table::of(name) {
        Some(table) => walk(table, message, DEEPEST),
        None => Ok(()),
    }
}

/// Judges an encoded message of the type with that URL (`type.googleapis.com/envoy.config.route.v3.Route`).
///
/// # Errors
///
/// The first value that Envoy would refuse.
pub fn judge_any(type_url: &str, message: &[u8]) -> Result<(), Fault> {
    judge(name_of(type_url), message)
}

fn name_of(type_url: &str) -> &str {
    type_url.rsplit_once('/').map_or(type_url, |(_, name)| name)
}

fn walk(table: &'static Message, message: &[u8], depth: u32) -> Result<(), Fault> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::new("is nested too deep"));
    };
    let mut seen = 0;
    let mut counts = [0u32; COUNTERS];
    for field in Fields::of(message) {
        let (number, value) = field?;
        let Some(field) = table.field(number) else {
            continue;
        };
        seen |= field.bit;
        let items = self::field(field, value, depth).map_err(|fault| fault.within(field.name))?;
        if let Some(count) = counts.get_mut(usize::from(field.counter)) {
            *count = count.saturating_add(items);
        }
    }
    if let Some(missing) = (0..)
        .zip(table.must)
        .find(|(bit, _)| seen & (1 << bit) == 0)
    {
        return Err(Fault::new("is missing").within(missing.1));
    }
    for ((name, least, most), count) in table.counted.iter().zip(counts) {
        if count < *least || count > *most {
            let why = format!("has {count} items, not between {least} and {most}");
            return Err(Fault::new(why).within(name));
        }
    }
    for number in table.unique {
        let name = table.field(*number).map_or("", |field| field.name);
        repeats_nothing(message, *number).map_err(|fault| fault.within(name))?;
    }
    for check in table.whole {
        whole::check(*check, message)?;
    }
    Ok(())
}

/// Judges a value of a field; says how many items it is.
fn field(field: &'static Field, value: Value<'_>, depth: u32) -> Result<u32, Fault> {
    match (&field.kind, value) {
        (Kind::Skipped, _) => {}
        (Kind::Text | Kind::Bytes, Value::Bytes(bytes)) => self::value(field, Read::Bytes(bytes))?,
        (Kind::Message(at), Value::Bytes(bytes)) => {
            if let Some(table) = table::at(*at) {
                walk(table, bytes, depth)?;
            }
        }
        (Kind::Any, Value::Bytes(bytes)) => any(bytes, depth)?,
        (Kind::Duration, Value::Bytes(bytes)) => self::value(field, Read::Nanos(duration(bytes)?))?,
        (Kind::Wrapped(kind), Value::Bytes(bytes)) => {
            let mut held = None;
            for inner in Fields::of(bytes) {
                if let (1, value) = inner? {
                    held = Some(value);
                }
            }
            let read = match held {
                Some(value) => read(kind, value)?,
                None => absent(kind),
            };
            self::value(field, read)?;
        }
        // Numbers of a list are written one after another.
        (kind, Value::Bytes(packed)) => return self::packed(field, kind, packed),
        (kind, one) => self::value(field, read(kind, one)?)?,
    }
    Ok(1)
}

fn packed(field: &'static Field, kind: &Kind, mut packed: &[u8]) -> Result<u32, Fault> {
    let mut items = 0;
    while !packed.is_empty() {
        let value = match kind {
            Kind::Float => fixed(&mut packed).map(|b| Value::Fixed32(u32::from_le_bytes(b))),
            Kind::Double => fixed(&mut packed).map(|b| Value::Fixed64(u64::from_le_bytes(b))),
            Kind::Signed | Kind::Unsigned | Kind::Zigzag => varint(&mut packed).map(Value::Varint),
            _ => None,
        };
        let value = value.ok_or_else(|| Fault::new("cannot be read"))?;
        self::value(field, read(kind, value)?)?;
        items += 1;
    }
    Ok(items)
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*value)
}

/// A value whose type is known.
#[derive(Clone, Copy)]
enum Read<'a> {
    Signed(i64),
    Unsigned(u64),
    Real(f64),
    Bytes(&'a [u8]),
    Nanos(i128),
}

impl Read<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Read::Signed(n) => *n == 0,
            Read::Unsigned(n) => *n == 0,
            Read::Real(n) => *n == 0.0,
            Read::Bytes(bytes) => bytes.is_empty(),
            Read::Nanos(_) => false,
        }
    }
}

fn read<'a>(kind: &Kind, value: Value<'a>) -> Result<Read<'a>, Fault> {
    Ok(match (kind, value) {
        (Kind::Signed, Value::Varint(n)) => Read::Signed(n.cast_signed()),
        (Kind::Unsigned, Value::Varint(n)) => Read::Unsigned(n),
        (Kind::Zigzag, Value::Varint(n)) => {
            Read::Signed((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
        }
        (Kind::Fixed, Value::Fixed32(n)) => Read::Unsigned(n.into()),
        (Kind::Fixed, Value::Fixed64(n)) => Read::Unsigned(n),
        (Kind::SignedFixed, Value::Fixed32(n)) => Read::Signed(n.cast_signed().into()),
        (Kind::SignedFixed, Value::Fixed64(n)) => Read::Signed(n.cast_signed()),
        (Kind::Float, Value::Fixed32(n)) => Read::Real(f32::from_bits(n).into()),
        (Kind::Double, Value::Fixed64(n)) => Read::Real(f64::from_bits(n)),
        (Kind::Text | Kind::Bytes, Value::Bytes(bytes)) => Read::Bytes(bytes),
        _ => return Err(Fault::new("is written as another type")),
    })
}

/// The default of a type.
fn absent(kind: &Kind) -> Read<'static> {
    match kind {
        Kind::Float | Kind::Double => Read::Real(0.0),
        Kind::Text | Kind::Bytes => Read::Bytes(&[]),
        Kind::Signed | Kind::Zigzag | Kind::SignedFixed => Read::Signed(0),
        _ => Read::Unsigned(0),
    }
}

fn value(field: &'static Field, read: Read<'_>) -> Result<(), Fault> {
    if field.ignore_empty && read.is_empty() {
        return Ok(());
    }
    field.rules.iter().try_for_each(|one| rule(one, read))
}

fn rule(rule: &Rule, read: Read<'_>) -> Result<(), Fault> {
    let fine = match (rule, read) {
        (Rule::Signed(low, high), Read::Signed(n)) => (*low..=*high).contains(&n),
        (Rule::Unsigned(low, high), Read::Unsigned(n)) => (*low..=*high).contains(&n),
        // Envoy compares as well: what is not a number passes.
        (Rule::Real(low, high), Read::Real(n)) => !(n < *low || n > *high),
        (Rule::OneOf(known), Read::Signed(n)) => known.contains(&n),
        (Rule::Nanos(low, high), Read::Nanos(n)) => (*low..=*high).contains(&n),
        (Rule::Size(low, high), Read::Bytes(bytes)) => {
            (*low..=*high).contains(&(bytes.len() as u64))
        }
        (Rule::Length(low, high), Read::Bytes(bytes)) => {
            let characters = || bytes.iter().filter(|b| **b & 0xc0 != 0x80).count() as u64;
            let length = bytes.len() as u64;
            // There are at most as many characters as bytes.
            (length <= *high || characters() <= *high)
                && (*low <= 1 && length >= *low || characters() >= *low)
        }
        (Rule::Prefix(text), Read::Bytes(bytes)) => bytes.starts_with(text.as_bytes()),
        (Rule::Suffix(text), Read::Bytes(bytes)) => bytes.ends_with(text.as_bytes()),
        (Rule::Among(words), Read::Bytes(bytes)) => words.iter().any(|w| w.as_bytes() == bytes),
        (Rule::HeaderName(strict), Read::Bytes(bytes)) => check::is_header_name(bytes, *strict),
        (Rule::HeaderValue(strict), Read::Bytes(bytes)) => check::is_header_value(bytes, *strict),
        (Rule::Check(one), Read::Bytes(bytes)) => return check::text(*one, bytes),
        (Rule::Check(one), Read::Unsigned(number)) => return check::number(*one, number),
        _ => true,
    };
    match fine {
        true => Ok(()),
        false => Err(Fault::new(refusal(rule, read))),
    }
}

/// Why a rule refuses a value.
fn refusal(rule: &Rule, read: Read<'_>) -> String {
    let shown = match read {
        Read::Signed(n) => n.to_string(),
        Read::Unsigned(n) => n.to_string(),
        Read::Real(n) => n.to_string(),
        Read::Nanos(n) => format!("{}s", n as f64 / NANOS as f64),
        Read::Bytes(bytes) => check::shown(bytes),
    };
    match rule {
        Rule::Signed(low, high) => format!("{shown} is not between {low} and {high}"),
        Rule::Unsigned(low, high) => format!("{shown} is not between {low} and {high}"),
        Rule::Real(low, high) => format!("{shown} is not between {low} and {high}"),
        Rule::OneOf(_) => format!("{shown} is not a known value"),
        Rule::Nanos(..) => format!("{shown} is too short or too long a time"),
        Rule::Length(..) | Rule::Size(..) if shown == "\"\"" => "is empty".to_owned(),
        Rule::Length(_, high) => format!("is longer than {high} characters, or too short"),
        Rule::Size(_, high) => format!("is longer than {high} bytes, or too short"),
        Rule::Prefix(text) => format!("{shown} does not start with {text:?}"),
        Rule::Suffix(text) => format!("{shown} does not end with {text:?}"),
        Rule::Among(_) => format!("{shown} is not a known value"),
        Rule::HeaderName(_) => format!("{shown} is not the name of a header"),
        Rule::HeaderValue(_) => format!("{shown} has a line break or another control character"),
        Rule::Check(_) => format!("{shown} is not valid"),
    }
}

/// The message in an `Any`, where a table knows its type.
fn any(bytes: &[u8], depth: u32) -> Result<(), Fault> {
    let (mut type_url, mut message) = (&[][..], &[][..]);
    for field in Fields::of(bytes) {
        match field? {
            (1, Value::Bytes(url)) => type_url = url,
            (2, Value::Bytes(value)) => message = value,
            _ => {}
        }
    }
    let name = str::from_utf8(type_url).map(name_of);
    match name.ok().and_then(table::of) {
        Some(table) => walk(table, message, depth),
        None => Ok(()),
    }
}

/// A time in nanoseconds. Envoy takes none that is negative, and none that it cannot count in nanoseconds.
fn duration(bytes: &[u8]) -> Result<i128, Fault> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in Fields::of(bytes) {
        match field? {
            (1, Value::Varint(n)) => seconds = n.cast_signed(),
            (2, Value::Varint(n)) => nanos = n.cast_signed(),
            _ => {}
        }
    }
    if seconds < 0 || nanos < 0 {
        return Err(Fault::new("is a negative time"));
    }
    if seconds > MOST_SECONDS || nanos > 999_999_999 {
        return Err(Fault::new("is a longer time than Envoy can count"));
    }
    Ok(i128::from(seconds) * NANOS + i128::from(nanos))
}

/// Whether no value of a repeated field occurs twice.
fn repeats_nothing(message: &[u8], number: u32) -> Result<(), Fault> {
    let mut values = Vec::new();
    for field in Fields::of(message) {
        match field? {
            (found, Value::Bytes(bytes)) if found == number => values.push(bytes),
            _ => {}
        }
    }
    values.sort_unstable();
    match values.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Fault::new(format!("has {} twice", check::shown(pair[0])))),
        None => Ok(()),
    }
}
