//! Values of headers, which are formats for Envoy.

use validate::text::{header_name_to_set, header_value, literal_format};

/// Commands of formats that annotations may use, as Higress lets them.
const COMMANDS: [&str; 12] = [
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_TLS_VERSION",
    "DOWNSTREAM_PEER_SUBJECT",
    "HOSTNAME",
    "PROTOCOL",
    "REQUESTED_SERVER_NAME",
    "START_TIME",
    "UPSTREAM_CLUSTER",
    "RESPONSE_CODE",
];

/// A text as a format that gives just it.
pub(super) fn literal(text: &str) -> String {
    literal_format(text).into_owned()
}

/// A value of an annotation as a format: commands that are known stay, every other percent sign is itself.
pub(super) fn value(text: &str) -> String {
    let mut format = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        format.push_str(before);
        match after.split_once('%') {
            Some((command, after)) if is_command(command) => {
                format.push_str(&format!("%{command}%"));
                rest = after;
            }
            Some(("", after)) => {
                format.push_str("%%");
                rest = after;
            }
            _ => {
                format.push_str("%%");
                rest = after;
            }
        }
    }
    format.push_str(rest);
    format
}

fn is_command(text: &str) -> bool {
    let header = text
        .strip_prefix("REQ(")
        .and_then(|rest| rest.strip_suffix(')'));
    match header {
        Some(name) => {
            let name = name.strip_prefix(':').unwrap_or(name);
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        }
        None => COMMANDS.contains(&text),
    }
}

/// Whether a header may be set to a value.
pub(super) fn is_header(name: &str, value: &str) -> bool {
    header_name_to_set(name).is_ok()
        && value.bytes().all(|b| b >= b' ' && b != 0x7f || b == b'\t')
        && header_value(&literal(value)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_commands_stay() {
        let table = [
            ("plain", "plain"),
            ("100%", "100%%"),
            ("%%", "%%"),
            ("%REQ(x-id)% 5%", "%REQ(x-id)% 5%%"),
            ("%REQ(x id)%", "%%REQ(x id)%%"),
            ("%NO% %HOSTNAME%", "%%NO%% %HOSTNAME%"),
            ("%a%HOSTNAME%", "%%a%HOSTNAME%"),
        ];
        for (text, wanted) in table {
            assert_eq!(value(text), wanted, "{text}");
        }
    }
}
