//! Public and private keys, as far as they tell that they are not each other's.

use super::der::{BYTES, EXPLICIT_0, EXPLICIT_1, INTEGER, OID, SEQUENCE, bits, expect};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// How many bits of RSA a certificate may have that is presented to others.
const MOST_RSA_BITS: usize = 4096;
/// P-256, P-384 and P-521.
const CURVES: [&[u8]; 3] = [
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x2b, 0x81, 0x04, 0x00, 0x22],
    &[0x2b, 0x81, 0x04, 0x00, 0x23],
];

/// The key in a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PublicKey<'a> {
    /// By its modulus.
    Rsa(&'a [u8]),
    /// By its point, and its curve where that has a name.
    Ec(&'a [u8], Option<&'a [u8]>),
    /// Of another kind, or in a form that is not read here.
    Other,
}

impl<'a> PublicKey<'a> {
    /// What stands in `SubjectPublicKeyInfo`.
    pub(super) fn read(info: &'a [u8]) -> Self {
        Self::known(info).unwrap_or(Self::Other)
    }

    fn known(info: &'a [u8]) -> Option<Self> {
        let (algorithm, key) = expect(info, SEQUENCE)?;
        let (algorithm, parameters) = expect(algorithm, OID)?;
        let key = bits(key)?;
        match algorithm {
            RSA => {
                let (numbers, _) = expect(key, SEQUENCE)?;
                Some(Self::Rsa(expect(numbers, INTEGER)?.0))
            }
            EC => Some(Self::Ec(
                key,
                expect(parameters, OID).map(|(curve, _)| curve),
            )),
            _ => None,
        }
    }

    /// Whether a signature of the other half takes so long that a few connections stop a proxy: with 16384 bits of RSA a
    /// third of a second, with 4096 some 5 ms. Envoy takes both.
    pub(super) fn is_long(self) -> bool {
        matches!(self, Self::Rsa(modulus) if bit_length(modulus) > MOST_RSA_BITS)
    }

    /// Whether Envoy takes certificates with such a key.
    pub(super) fn is_strong(self) -> bool {
        match self {
            Self::Rsa(modulus) => bit_length(modulus) >= 2048,
            Self::Ec(_, curve) => curve.is_some_and(|curve| CURVES.contains(&curve)),
            Self::Other => true,
        }
    }
}

/// A private key, by what it says of its public one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PrivateKey<'a> {
    /// The modulus.
    Rsa(&'a [u8]),
    /// The point, where it is stated.
    Ec(Option<&'a [u8]>),
    /// Of another kind.
    Other,
}

impl<'a> PrivateKey<'a> {
    /// The key in a block of PEM with this label.
    pub(super) fn read(label: &str, der: &'a [u8]) -> Option<Self> {
        let (content, _) = expect(der, SEQUENCE)?;
        match label {
            "RSA PRIVATE KEY" => Self::rsa(content),
            "EC PRIVATE KEY" => Self::ec(content),
            "PRIVATE KEY" => {
                let (_, rest) = expect(content, INTEGER)?;
                let (algorithm, rest) = expect(rest, SEQUENCE)?;
                let (algorithm, _) = expect(algorithm, OID)?;
                let (key, _) = expect(rest, BYTES)?;
                match algorithm {
                    RSA => Self::rsa(expect(key, SEQUENCE)?.0),
                    EC => Self::ec(expect(key, SEQUENCE)?.0),
                    _ => Some(Self::Other),
                }
            }
            _ => Some(Self::Other),
        }
    }

    fn rsa(content: &'a [u8]) -> Option<Self> {
        let (_, rest) = expect(content, INTEGER)?;
        Some(Self::Rsa(expect(rest, INTEGER)?.0))
    }

    fn ec(content: &'a [u8]) -> Option<Self> {
        let (_, rest) = expect(content, INTEGER)?;
        let (_, mut rest) = expect(rest, BYTES)?;
        if let Some((_, after)) = expect(rest, EXPLICIT_0) {
            rest = after;
        }
        Some(Self::Ec(
            expect(rest, EXPLICIT_1).and_then(|(key, _)| bits(key)),
        ))
    }

    /// Whether nothing speaks against its being the other half of a public key.
    pub(super) fn may_be_of(self, public: PublicKey<'_>) -> bool {
        match (self, public) {
            (Self::Rsa(own), PublicKey::Rsa(other)) => own == other,
            // One point has a short and a long form.
            (Self::Ec(Some(own)), PublicKey::Ec(other, _)) => {
                own.len() != other.len() || own == other
            }
            (Self::Rsa(_), PublicKey::Ec(..)) | (Self::Ec(_), PublicKey::Rsa(_)) => false,
            _ => true,
        }
    }
}

/// How many bits a number has.
fn bit_length(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let rest = &number[zeros..];
    rest.first()
        .map_or(0, |first| rest.len() * 8 - first.leading_zeros() as usize)
}
