//! The key that signs tokens of service accounts, and those that check them.
//!
//! `sa.key` in the folder of keys signs; it is made where there is none. `sa.previous.key` only checks: a key is rotated by
//! moving it there, and tokens that it signed count until they end.

use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::jwt::{Jwt, Keys, TokenError};
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize, SigningKey};
use serde_json::{Value, json};
use x509_cert::der::asn1::UintRef;
use x509_cert::der::{Decode, Reader, SliceReader};

use crate::pki::PkiError;
use disk::private;

/// The key that signs.
pub(crate) const SIGNING: &str = "sa.key";
/// The key that signed before.
pub(crate) const PREVIOUS: &str = "sa.previous.key";
/// How tokens are signed: what every verifier understands.
const ALGORITHM: &str = "RS256";

/// Keys of tokens.
pub(super) struct SigningKeys {
    signing: KeyPair,
    id: String,
    jwks: String,
    checking: Keys,
}

impl SigningKeys {
    /// The keys in a folder; the one that signs is made where there is none that can be used.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or written.
    pub(super) fn open(folder: &Path) -> Result<Self, PkiError> {
        let path = folder.join(SIGNING);
        let signing = match read(&path)? {
            Some(key) => key,
            None => {
                if path.exists() {
                    tracing::warn!(file = %path.display(), "The key of service accounts cannot be used and is replaced; tokens that it signed no longer count.");
                }
                private::own_folder(folder).map_err(|e| file(folder, &e))?;
                let made = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
                let key = made.map_err(unusable)?;
                let pem = key.serialize_pem();
                let written = private::replace(&path, pem.as_bytes(), &private::open_gate);
                written.map_err(|e| file(&path, &e))?;
                key
            }
        };
        let previous = read(&folder.join(PREVIOUS))?;
        let all = std::iter::once(&signing).chain(&previous);
        let keys: Vec<Value> = all.map(jwk).collect::<Result<_, _>>()?;
        let jwks = json!({"keys": keys}).to_string();
        Ok(Self {
            id: id(&signing),
            checking: Keys::read(&jwks),
            jwks,
            signing,
        })
    }

    /// The public keys.
    pub(super) fn jwks(&self) -> &str {
        &self.jwks
    }

    /// A token that says this.
    ///
    /// # Errors
    ///
    /// When the library cannot sign.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, PkiError> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"alg": ALGORITHM, "kid": self.id});
        let signed = format!("{}.{}", part(&head), part(claims));
        let signature = self.signing.sign(signed.as_bytes()).map_err(unusable)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Whether one of the keys signed a token.
    ///
    /// # Errors
    ///
    /// When none did.
    pub(super) fn check(&self, token: &Jwt<'_>) -> Result<(), TokenError> {
        if token.algorithm != ALGORITHM {
            return Err(TokenError::Algorithm(token.algorithm.clone()));
        }
        match token.is_signed_by(&self.checking) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }
}

/// A key; `None` for a file that is absent, or holds no RSA key.
fn read(path: &Path) -> Result<Option<KeyPair>, PkiError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Ok(None),
        // A disk that cannot be read is no reason to make new keys.
        Err(error) => return Err(file(path, &error)),
    };
    let key = KeyPair::from_pem(&text).ok();
    Ok(key.filter(|key| key.is_compatible(&PKCS_RSA_SHA256)))
}

/// The public half as a JWK.
fn jwk(key: &KeyPair) -> Result<Value, PkiError> {
    let (n, e) = components(key.public_key_raw()).map_err(unusable)?;
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    Ok(
        json!({"use": "sig", "kty": "RSA", "kid": id(key), "alg": ALGORITHM, "n": text(n), "e": text(e)}),
    )
}

/// Modulus and exponent of an RSAPublicKey (RFC 8017, A.1.1).
fn components(der: &[u8]) -> x509_cert::der::Result<(&[u8], &[u8])> {
    let mut reader = SliceReader::new(der)?;
    reader.sequence(|numbers| {
        let n = UintRef::decode(numbers)?;
        let e = UintRef::decode(numbers)?;
        Ok((n.as_bytes(), e.as_bytes()))
    })
}

/// The id of a key: the hash of its public half, as with Kubernetes.
fn id(key: &KeyPair) -> String {
    let hash = digest(&SHA256, &key.subject_public_key_info());
    URL_SAFE_NO_PAD.encode(hash)
}

fn file(path: &Path, reason: &dyn std::fmt::Display) -> PkiError {
    PkiError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn unusable(error: impl std::fmt::Display) -> PkiError {
    PkiError::Certificates(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn token(keys: &SigningKeys) -> String {
        keys.sign(&json!({"sub": "a"})).unwrap()
    }

    fn checks(keys: &SigningKeys, token: &str) -> bool {
        keys.check(&Jwt::parse(token).unwrap()).is_ok()
    }

    #[test]
    fn a_key_is_made_once_and_rotated_by_moving_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki");
        let first = SigningKeys::open(&folder).unwrap();
        let mode = fs::metadata(folder.join(SIGNING)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let old = token(&first);
        let again = SigningKeys::open(&folder).unwrap();
        assert!(checks(&again, &old) && again.jwks == first.jwks);

        fs::rename(folder.join(SIGNING), folder.join(PREVIOUS)).unwrap();
        let rotated = SigningKeys::open(&folder).unwrap();
        assert_ne!(rotated.id, first.id);
        assert!(checks(&rotated, &old) && checks(&rotated, &token(&rotated)));
        assert!(!checks(&first, &token(&rotated)));

        fs::remove_file(folder.join(PREVIOUS)).unwrap();
        fs::write(folder.join(SIGNING), "cut off").unwrap();
        let replaced = SigningKeys::open(&folder).unwrap();
        assert!(!checks(&replaced, &old) && !checks(&replaced, &token(&rotated)));
        fs::remove_file(folder.join(SIGNING)).unwrap();
        fs::create_dir(folder.join(SIGNING)).unwrap();
        assert!(SigningKeys::open(&folder).is_err(), "it cannot be read");
    }
}
