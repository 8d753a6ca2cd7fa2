//! Checks of single values that Envoy's code makes, or that its protos call by name.

use std::net::IpAddr;

use proto_envoy::envoy::config::core::v3::{Address, address::Address as Place};
use xds::NAME_BYTES;

use crate::fault::Fault;
use crate::table::Check;

/// The longest path of a Unix socket that Linux takes, without the byte that ends it.
const LONGEST_SOCKET: usize = 107;
/// So much of a value is shown.
const SHOWN: usize = 60;

/// A value as messages show it.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Whether the bytes are the name of a header: by the lenient rule, anything but NUL and line breaks.
pub(crate) fn is_header_name(bytes: &[u8], strict: bool) -> bool {
    if !strict {
        return is_header_value(bytes, false);
    }
    let name = bytes.strip_prefix(b":").unwrap_or(bytes);
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_|~`".contains(b);
    !name.is_empty() && name.iter().all(of_name)
}

/// Whether the bytes are the value of a header: by the lenient rule, anything but NUL and line breaks.
pub(crate) fn is_header_value(bytes: &[u8], strict: bool) -> bool {
    bytes.iter().all(|b| match strict {
        true => *b == b'\t' || *b >= b' ' && *b != 0x7f,
        false => !matches!(b, 0 | b'\n' | b'\r'),
    })
}

/// Judges a text.
pub(crate) fn text(check: Check, bytes: &[u8]) -> Result<(), Fault> {
    let text = str::from_utf8(bytes).map_err(|_| Fault::new("is not UTF-8"))?;
    match check {
        Check::Regex => validate::text::re2_program(text).map_err(Fault::new),
        Check::Removable if text.starts_with(':') || text.eq_ignore_ascii_case("host") => {
            Err(Fault::new(format!("the header {text:?} cannot be removed")))
        }
        Check::SeparatedPrefix if !is_separated_prefix(text) => Err(Fault::new(format!(
            "{} is not a path without `?`, `#` and a slash at its end",
            shown(bytes)
        ))),
        Check::SocketPath if bytes.len() > LONGEST_SOCKET => Err(Fault::new(format!(
            "has {} bytes, more than the {LONGEST_SOCKET} of a path of a socket",
            bytes.len()
        ))),
        Check::KeyHash if !is_key_hash(bytes) => Err(Fault::new(format!(
            "{} is not a SHA-256 in base64",
            shown(bytes)
        ))),
        Check::CertificateHash if !is_certificate_hash(bytes) => Err(Fault::new(format!(
            "{} is not a SHA-256 in hexadecimal digits",
            shown(bytes)
        ))),
        Check::ResourceName if bytes.len() > NAME_BYTES => Err(Fault::new(format!(
            "has {} bytes, more than the {NAME_BYTES} of a name that a proxy may ask for",
            bytes.len()
        ))),
        Check::Removable
        | Check::SeparatedPrefix
        | Check::SocketPath
        | Check::Prime
        | Check::KeyHash
        | Check::CertificateHash
        | Check::ResourceName => Ok(()),
    }
}

/// Whether a text is 32 bytes in base64: 43 digits, of which the last has two bits that say nothing and are not set.
fn is_key_hash(bytes: &[u8]) -> bool {
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    match bytes {
        [digits @ .., last, b'='] => {
            digits.len() == 42 && digits.iter().all(is_digit) && b"AEIMQUYcgkosw048".contains(last)
        }
        _ => false,
    }
}

/// Whether a text is 32 bytes in hexadecimal digits; one of 95 characters may have colons, wherever they stand.
fn is_certificate_hash(bytes: &[u8]) -> bool {
    let has_colons = bytes.len() == 95;
    let mut digits = bytes.iter().filter(|b| !has_colons || **b != b':');
    digits.clone().count() == 64 && digits.all(u8::is_ascii_hexdigit)
}

/// Judges a number.
pub(crate) fn number(check: Check, number: u64) -> Result<(), Fault> {
    match check {
        Check::Prime if !is_prime(number) => {
            Err(Fault::new(format!("{number} is not a prime number")))
        }
        _ => Ok(()),
    }
}

fn is_prime(number: u64) -> bool {
    let mut divisors = (2..).take_while(|d: &u64| d.saturating_mul(*d) <= number);
    number >= 2 && !divisors.any(|d| number.is_multiple_of(d))
}

fn is_separated_prefix(text: &str) -> bool {
    let has_end = text.len() >= 2 && !text.ends_with('/');
    has_end && !text.contains(['?', '#'])
}

/// Judges the address of an endpoint of which no name is resolved: it is an IP address, or that of a socket.
///
/// # Errors
///
/// When it is not.
pub fn endpoint_address(address: &Address) -> Result<(), Fault> {
    match &address.address {
        Some(Place::SocketAddress(socket)) if socket.resolver_name.is_empty() => {
            match socket.address.parse::<IpAddr>() {
                Ok(_) => Ok(()),
                Err(_) => {
                    let shown = shown(socket.address.as_bytes());
                    Err(Fault::new(format!("{shown} is not an IP address")))
                }
            }
        }
        Some(_) => Ok(()),
        None => Err(Fault::new("has no address")),
    }
}
