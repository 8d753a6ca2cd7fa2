//! Elements of DER, and a certificate made of them.

use crate::civil;

use super::key::PublicKey;

/// From when to when, in seconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// It is not valid before.
    pub not_before: i64,
    /// It is not valid after.
    pub not_after: i64,
}

/// What a certificate says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certificate<'a> {
    /// When it is valid.
    pub validity: Validity,
    /// Whether it is that of an authority.
    pub authority: bool,
    /// Its number among those of its authority.
    pub(super) serial: &'a [u8],
    /// Whether it is not to be shown without an OCSP response.
    pub(super) must_staple: bool,
    /// Whose it is, as a key.
    pub(super) key: PublicKey<'a>,
    /// The extension `subjectAltName`.
    names: Option<&'a [u8]>,
}

const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const BYTES: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const EXPLICIT_0: u8 = 0xa0;
pub(super) const EXPLICIT_1: u8 = 0xa1;
const EXPLICIT_3: u8 = 0xa3;
/// A name for DNS among those of a certificate.
const DNS_NAME: u8 = 0x82;
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;

/// The extension that says whose certificate it is: an authority's, or not.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
/// The extension that says what of TLS it is not to be used without (RFC 7633).
const TLS_FEATURE: [u8; 8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x18];
/// Its value where that is an OCSP response.
const MUST_STAPLE: [u8; 5] = [0x30, 0x03, 0x02, 0x01, 0x05];

/// The first element: its tag, its content, and what follows it.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if *first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        length = digits.iter().fold(0, |n, d| n << 8 | usize::from(*d));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// The content of the first element, which has this tag, and what follows it.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// A string of whole bytes.
pub(super) fn bits(bytes: &[u8]) -> Option<&[u8]> {
    let (content, _) = expect(bytes, BITS)?;
    let (unused, content) = content.split_first()?;
    (*unused == 0).then_some(content)
}

/// Whether the bytes start with a whole sequence.
pub(super) fn is_sequence(der: &[u8]) -> bool {
    expect(der, SEQUENCE).is_some()
}

/// A certificate in DER.
pub fn certificate(der: &[u8]) -> Option<Certificate<'_>> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut body, signature) = expect(certificate, SEQUENCE)?;
    let (_, signature) = expect(signature, SEQUENCE)?;
    element(signature)?;
    if let Some((_, rest)) = expect(body, EXPLICIT_0) {
        body = rest;
    }
    let (serial, body) = expect(body, INTEGER)?;
    let (_, body) = expect(body, SEQUENCE)?;
    let (_, body) = expect(body, SEQUENCE)?;
    let (validity, body) = expect(body, SEQUENCE)?;
    let (_, body) = expect(body, SEQUENCE)?;
    let (key, body) = expect(body, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Certificate {
        validity: Validity {
            not_before,
            not_after,
        },
        authority: is_authority(body),
        serial,
        must_staple: extension(body, &TLS_FEATURE) == Some(&MUST_STAPLE),
        key: PublicKey::read(key),
        names: extension(body, &SUBJECT_ALT_NAME),
    })
}

/// Whether what follows the key of a certificate says that it is an authority's.
fn is_authority(body: &[u8]) -> bool {
    let constraints = extension(body, &BASIC_CONSTRAINTS).and_then(|value| expect(value, SEQUENCE));
    let authority = constraints.and_then(|(inner, _)| expect(inner, BOOLEAN));
    authority.is_some_and(|(value, _)| value.first().is_some_and(|b| *b != 0))
}

/// The value of an extension, in what follows the key of a certificate.
fn extension<'a>(mut body: &'a [u8], named: &[u8]) -> Option<&'a [u8]> {
    let extensions = loop {
        match element(body)? {
            (EXPLICIT_3, extensions, _) => break extensions,
            (_, _, rest) => body = rest,
        }
    };
    let (mut extensions, _) = expect(extensions, SEQUENCE)?;
    while let Some((extension, rest)) = expect(extensions, SEQUENCE) {
        extensions = rest;
        let (name, mut value) = expect(extension, OID)?;
        if name != named {
            continue;
        }
        if let Some((_, rest)) = expect(value, BOOLEAN) {
            // Whether it is critical.
            value = rest;
        }
        return Some(expect(value, BYTES)?.0);
    }
    None
}

impl Certificate<'_> {
    /// Whether a name that it has for DNS is that of a host, or a wildcard of which the host is one.
    pub fn names(&self, host: &str) -> bool {
        let Some((mut names, _)) = self.names.and_then(|names| expect(names, SEQUENCE)) else {
            return false;
        };
        let above = host.split_once('.').map(|(_, above)| above);
        while let Some((tag, name, rest)) = element(names) {
            names = rest;
            let name = std::str::from_utf8(name).unwrap_or_default();
            let is_wildcard = |name: &str| {
                let of = name.strip_prefix("*.");
                of.zip(above)
                    .is_some_and(|(of, above)| of.eq_ignore_ascii_case(above))
            };
            if tag == DNS_NAME && (name.eq_ignore_ascii_case(host) || is_wildcard(name)) {
                return true;
            }
        }
        false
    }
}

/// A time as `YYMMDDhhmmssZ` or with four digits of the year.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let text = match tag {
        UTC_TIME if text.len() == 12 => {
            let century = if text < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME if text.len() == 14 => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let days = civil::days(year, month, day);
    Some((days * 86_400 + hour * 3600 + minute * 60 + second, rest))
}

#[cfg(test)]
mod tests {
    use super::super::key::PublicKey;
    use super::{Certificate, Validity, certificate, element, time};

    #[test]
    fn times_of_both_forms_are_read() {
        let utc = [&[0x17, 13][..], b"240229120000Z"].concat();
        assert_eq!(time(&utc).map(|(t, _)| t), Some(1_709_208_000));
        let long = [&[0x18, 15][..], b"20240229120000Z"].concat();
        assert_eq!(time(&long).map(|(t, _)| t), Some(1_709_208_000));
        let bad = [&[0x17, 13][..], b"241329120000Z"].concat();
        assert_eq!(time(&bad), None);
    }

    #[test]
    fn a_certificate_names_hosts_and_those_of_its_wildcards() {
        let name =
            |text: &str| [&[0x82, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let names = [name("shop.example.com"), name("*.EXAMPLE.org")].concat();
        let names = [&[0x30, u8::try_from(names.len()).unwrap()][..], &names].concat();
        let certificate = Certificate {
            validity: Validity {
                not_before: 0,
                not_after: 0,
            },
            authority: false,
            serial: &[],
            must_staple: false,
            key: PublicKey::read(&[]),
            names: Some(&names),
        };
        for (host, wanted) in [
            ("shop.example.com", true),
            ("SHOP.example.com", true),
            ("a.example.org", true),
            ("a.b.example.org", false),
            ("example.org", false),
            ("example.com", false),
        ] {
            assert_eq!(certificate.names(host), wanted, "{host}");
        }
    }

    #[test]
    fn what_is_cut_short_is_no_certificate() {
        assert_eq!(element(&[0x30, 5, 1]), None);
        assert_eq!(element(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
        assert_eq!(certificate(&[0x30, 0x03, 0x30, 0x01, 0x00]), None);
        assert_eq!(certificate(b"text"), None);
    }
}
