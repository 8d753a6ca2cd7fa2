//! An object as JSON, and what its metadata says.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use model::civil;
use serde_json::{Map, Value};

/// A text of `metadata`; empty where it is absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata`, made where it is absent.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(map_mut(object).entry("metadata").or_insert(Value::Null))
}

/// The value as a map; whatever else it was is lost.
pub fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // It was made a map above.
        _ => unreachable!("a value that was made a map is one"),
    }
}

/// Sets a text of `metadata`.
pub fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    meta_mut(object).insert(field.to_owned(), value.into());
}

/// The texts of a list of `metadata`.
pub fn meta_list<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    let list = object["metadata"][field].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether somebody asked for the object to go.
pub fn is_terminating(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

/// A random version 4 UUID.
///
/// # Errors
///
/// When the system has no randomness.
pub fn new_uid() -> Result<String, getrandom::Error> {
    let mut b = [0u8; 16];
    getrandom::fill(&mut b)?;
    Ok(uuid(b, 4))
}

/// The UUID of a text, the same each time.
pub(crate) fn uid_of(text: &str) -> String {
    let mut b = [0u8; 16];
    let hash = digest(&SHA256, text.as_bytes());
    b.iter_mut().zip(hash.as_ref()).for_each(|(b, h)| *b = *h);
    uuid(b, 8)
}

fn uuid(mut b: [u8; 16], version: u8) -> String {
    b[6] = b[6] & 0x0f | (version << 4);
    b[8] = b[8] & 0x3f | 0x80;
    let hex = |part: &[u8]| part.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let parts = [&b[..4], &b[4..6], &b[6..8], &b[8..10], &b[10..]].map(hex);
    parts.join("-")
}

/// Five letters for `generateName`, of those that cannot spell words.
///
/// # Errors
///
/// When the system has no randomness.
pub fn new_suffix() -> Result<String, getrandom::Error> {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0u8; 5];
    getrandom::fill(&mut bytes)?;
    let letters = bytes
        .iter()
        .map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()]));
    Ok(letters.collect())
}

/// The time as `metadata` has it, in whole seconds of UTC.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    time_text(since.map_or(0, |d| d.as_secs()))
}

/// A time in whole seconds since the epoch as `2006-01-02T15:04:05Z`.
pub fn time_text(seconds: u64) -> String {
    civil::timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The seconds since the epoch of a time as [`time_text`] writes it.
pub fn parse_time(text: &str) -> Option<u64> {
    let digits: Vec<i64> = text
        .trim_end_matches('Z')
        .split(['-', 'T', ':', '.'])
        .take(6)
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [year, month, day, hour, minute, second] = digits.as_slice() else {
        return None;
    };
    if !(1..=12).contains(month) || !(1..=31).contains(day) || !(1970..10_000).contains(year) {
        return None;
    }
    // 60 is a leap second.
    if !(0..24).contains(hour) || !(0..60).contains(minute) || !(0..=60).contains(second) {
        return None;
    }
    let seconds = civil::days(*year, *month, *day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(time_text(seconds), text);
            assert_eq!(parse_time(text), Some(seconds));
        }
        for no_time in [
            "yesterday",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T9223372036854775807:00:00Z",
        ] {
            assert_eq!(parse_time(no_time), None, "{no_time}");
        }
    }

    #[test]
    fn a_uid_is_a_uuid_of_version_4() {
        let uid = new_uid().unwrap();
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert_ne!(uid, new_uid().unwrap());
        let uid = uid_of("a");
        assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'8'));
        assert_eq!(uid, uid_of("a"));
        assert_ne!(uid, uid_of("b"));
    }
}
