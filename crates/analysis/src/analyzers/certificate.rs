//! As much of X.509 as tells from when to when a certificate is valid.
//!
//! Input is bounded by the Secret it stands in; nothing here recurses or allocates by what a length says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::civil;
use model::kinds::kube::Secret;

/// From when to when, in seconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// Why a Secret has no certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// None of the pairs of keys that are looked for is there and filled.
    NoPair,
    /// What is there is no certificate.
    NoCertificate,
}

/// The validity of the first certificate that a gateway would show from a Secret.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go ExtractCertInfo, pilot/pkg/xds/sds.go ValidateCertificate, 1.32.
pub(super) fn of_secret(secret: &Secret) -> Result<Validity, Fault> {
    let filled = |key: &str| secret.data.get(key).filter(|v| !v.is_empty());
    let pair = [("cert", "key"), ("tls.crt", "tls.key")]
        .into_iter()
        .find_map(|(certificate, key)| filled(key).and(filled(certificate)));
    let bytes = pair.ok_or(Fault::NoPair)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::NoCertificate)?;
    let der = first_pem(text).ok_or(Fault::NoCertificate)?;
    validity(&der).ok_or(Fault::NoCertificate)
}

/// The content of the first block of PEM.
fn first_pem(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(body).ok()
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const EXPLICIT_0: u8 = 0xa0;

/// The first element: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The validity that stands in a certificate in DER.
fn validity(der: &[u8]) -> Option<Validity> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut body, signature) = expect(certificate, SEQUENCE)?;
    let (_, signature) = expect(signature, SEQUENCE)?;
    element(signature)?;
    if let Some((_, rest)) = expect(body, EXPLICIT_0) {
        body = rest;
    }
    let (_, body) = expect(body, INTEGER)?;
    let (_, body) = expect(body, SEQUENCE)?;
    let (_, body) = expect(body, SEQUENCE)?;
    let (validity, body) = expect(body, SEQUENCE)?;
    let (_, body) = expect(body, SEQUENCE)?;
    expect(body, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Validity {
        not_before,
        not_after,
    })
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
    use super::{element, time, validity};

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
    fn what_is_cut_short_is_no_certificate() {
        assert_eq!(element(&[0x30, 5, 1]), None);
        assert_eq!(element(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
        assert_eq!(validity(&[0x30, 0x03, 0x30, 0x01, 0x00]), None);
        assert_eq!(validity(b"text"), None);
    }
}
