//! Which keys of a JWKS Envoy can use.
// Envoy: the verdicts of its library for tokens, as recorded in verdicts.txt.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

/// Bytes of the modulus of an RSA key.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 64..=2048;
/// Bits of its exponent.
const MOST_EXPONENT_BITS: u32 = 33;
/// Bytes of a key of Ed25519.
const ED25519_BYTES: usize = 32;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether tokens can be checked by a key.
pub(super) fn is_usable(key: &Value) -> bool {
    let algorithm = key["alg"].as_str().unwrap_or_default();
    let is_for = |starts: &[&str]| {
        algorithm.is_empty() || starts.iter().any(|start| algorithm.starts_with(start))
    };
    let bytes = |field: &str| {
        let text = key[field].as_str()?;
        let is_whole = !text.ends_with('=') || text.len().is_multiple_of(4);
        is_whole.then(|| BASE64.decode(text).ok()).flatten()
    };
    let usable = match key["kty"].as_str() {
        Some("RSA") => is_for(&["RS", "PS"]).then(|| rsa(&bytes("n")?, &bytes("e")?)),
        Some("EC") => curve(key["crv"].as_str(), algorithm)
            .and_then(|curve| {
                let (x, y) = (bytes("x")?, bytes("y")?);
                Some(point(&curve, &x, &y))
            })
            .map(Some),
        Some("OKP") => (key["crv"] == "Ed25519" && matches!(algorithm, "" | "EdDSA"))
            .then(|| Some(bytes("x")?.len() == ED25519_BYTES)),
        Some("oct") => is_for(&["HS"]).then(|| Some(!bytes("k")?.is_empty())),
        _ => None,
    };
    usable.flatten() == Some(true)
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<bool> {
    let zeros = modulus.iter().take_while(|b| **b == 0).count();
    let is_odd = |bytes: &[u8]| bytes.last().is_some_and(|last| last % 2 == 1);
    let number = exponent
        .iter()
        .try_fold(0_u64, |n, b| n.checked_mul(256)?.checked_add(u64::from(*b)))?;
    Some(
        RSA_BYTES.contains(&(modulus.len() - zeros))
            && is_odd(modulus)
            && is_odd(exponent)
            && number > 1
            && u64::BITS - number.leading_zeros() <= MOST_EXPONENT_BITS,
    )
}

/// A curve, and the bytes of a coordinate on it.
struct Curve {
    points: &'static dyn VerificationAlgorithm,
    bytes: usize,
}

fn curve(name: Option<&str>, algorithm: &str) -> Option<Curve> {
    let (points, bytes): (&'static dyn VerificationAlgorithm, usize) = match (name, algorithm) {
        (Some("P-256"), "" | "ES256") | (None, "" | "ES256") => (&ECDSA_P256_SHA256_FIXED, 32),
        (Some("P-384"), "" | "ES384") | (None, "ES384") => (&ECDSA_P384_SHA384_FIXED, 48),
        (Some("P-521"), "" | "ES512") | (None, "ES512") => (&ECDSA_P521_SHA512_FIXED, 66),
        _ => return None,
    };
    Some(Curve { points, bytes })
}

/// Whether the coordinates are those of a point on the curve.
fn point(curve: &Curve, x: &[u8], y: &[u8]) -> bool {
    if x.len() > curve.bytes || y.len() > curve.bytes {
        return false;
    }
    let mut encoded = vec![4];
    for coordinate in [x, y] {
        encoded.resize(encoded.len() + curve.bytes - coordinate.len(), 0);
        encoded.extend_from_slice(coordinate);
    }
    ParsedPublicKey::new(curve.points, encoded).is_ok()
}
