//! The keys of an issuer, and whether one of them signed.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The most keys of an issuer that are looked at.
const MOST: usize = 100;

/// How a signature is checked.
enum Scheme {
    Rsa(&'static RsaParameters),
    /// With the name of the curve in keys.
    Curve(&'static EcdsaVerificationAlgorithm, &'static str),
}

fn scheme(algorithm: &str) -> Option<Scheme> {
    Some(match algorithm {
        "RS256" => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        "PS256" => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
        "PS384" => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
        "PS512" => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
        "ES256" => Scheme::Curve(&ECDSA_P256_SHA256_FIXED, "P-256"),
        "ES384" => Scheme::Curve(&ECDSA_P384_SHA384_FIXED, "P-384"),
        "ES512" => Scheme::Curve(&ECDSA_P521_SHA512_FIXED, "P-521"),
        _ => return None,
    })
}

/// Whether signatures of this algorithm can be checked.
pub fn is_known(algorithm: &str) -> bool {
    scheme(algorithm).is_some()
}

enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Curve { name: String, point: Vec<u8> },
}

struct Key {
    id: Option<String>,
    /// The only algorithm that the key is for.
    algorithm: Option<String>,
    material: Material,
}

impl Key {
    fn read(json: &Value) -> Option<Self> {
        if json["use"].as_str().is_some_and(|u| u != "sig") {
            return None;
        }
        let bytes = |field: &str| URL_SAFE_NO_PAD.decode(json[field].as_str()?).ok();
        let plain = |field: &str| {
            let bytes = bytes(field)?;
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let material = match json["kty"].as_str()? {
            "RSA" => Material::Rsa {
                n: plain("n")?,
                e: plain("e")?,
            },
            "EC" => Material::Curve {
                name: json["crv"].as_str()?.to_owned(),
                // An uncompressed point (SEC 1, 2.3.3).
                point: [vec![4], bytes("x")?, bytes("y")?].concat(),
            },
            _ => return None,
        };
        let text = |field: &str| json[field].as_str().map(str::to_owned);
        Some(Self {
            id: text("kid"),
            algorithm: text("alg"),
            material,
        })
    }

    fn signed(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|a| a != algorithm) {
            return false;
        }
        match (&self.material, scheme(algorithm)) {
            (Material::Rsa { n, e }, Some(Scheme::Rsa(parameters))) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }
            (Material::Curve { name, point }, Some(Scheme::Curve(curve, wanted))) => {
                name == wanted
                    && UnparsedPublicKey::new(curve, point)
                        .verify(message, signature)
                        .is_ok()
            }
            _ => false,
        }
    }
}

/// Keys that can be used.
pub struct Keys(Vec<Key>);

impl Keys {
    /// Reads a JWKS; keys that mean nothing here are left out.
    pub fn read(text: &str) -> Self {
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        let keys = json["keys"].as_array().into_iter().flatten();
        Self(keys.take(MOST).filter_map(Key::read).collect())
    }

    /// Whether a key signed the message: the one that is named, where the token names one.
    pub(super) fn verify(
        &self,
        algorithm: &str,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let named = |key: &&Key| id.is_none() || key.id.is_none() || key.id.as_deref() == id;
        let mut candidates = self.0.iter().filter(named);
        candidates.any(|key| key.signed(algorithm, message, signature))
    }
}
