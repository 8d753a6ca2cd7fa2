//! Tokens, right and wrong.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize, SigningKey};
use serde_json::{Value, json};

/// The issuer of the rule.
pub(crate) const ISSUER: &str = "https://issuer.test";

/// Keys that may sign a token.
pub(crate) struct Keys {
    store: KeyPair,
    foreign: KeyPair,
    rule: EcdsaKeyPair,
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

impl Keys {
    /// The store's key is `pem`.
    pub(crate) fn new(pem: &str) -> Self {
        Self {
            store: KeyPair::from_pem(pem).unwrap(),
            foreign: KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
            rule: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    /// The key of the rule, as its issuer tells it.
    pub(crate) fn of_rule(&self) -> Value {
        let point = self.rule.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "rule", "x": text(&point[1..33]), "y": text(&point[33..])}]})
    }

    /// The token that a case describes; `issued` is what the store has issued for it.
    pub(crate) fn token(&self, case: &Value, issued: &str) -> String {
        if let Some(raw) = case["raw"].as_str() {
            return raw.to_owned();
        }
        let of = case["of"].as_str().unwrap();
        let (mut head, mut claims) = match of {
            "store" => {
                let mut parts = issued.split('.');
                let mut next = || decoded(parts.next().unwrap());
                (next(), next())
            }
            "rule" => (
                json!({"alg": "ES256", "kid": "rule"}),
                json!({"iss": ISSUER, "aud": ["istio-ca"], "sub": "system:serviceaccount:shop:web", "exp": now() + 600}),
            ),
            other => panic!("unknown issuer {other}"),
        };
        let sign = case["sign"].as_str().unwrap_or(of);
        if sign == "rule" {
            head["alg"] = "ES256".into();
        }
        change(&mut head, &case["head"]);
        change(&mut claims, &case["claims"]);
        let signed = format!("{}.{}", encoded(&head), encoded(&claims));
        let signature = self.signature(sign, &signed);
        let mut token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        if let Some(cut) = case["cut"].as_u64() {
            token.truncate(token.len() - usize::try_from(cut).unwrap());
        }
        if !case["forge"].is_null() {
            change(&mut claims, &case["forge"]);
            let (_, signature) = token.rsplit_once('.').unwrap();
            token = format!("{}.{}.{signature}", encoded(&head), encoded(&claims));
        }
        token
    }

    fn signature(&self, by: &str, signed: &str) -> Vec<u8> {
        let bytes = signed.as_bytes();
        match by {
            "store" => self.store.sign(bytes).unwrap(),
            "foreign" => self.foreign.sign(bytes).unwrap(),
            "rule" => {
                let signature = self.rule.sign(&SystemRandom::new(), bytes).unwrap();
                signature.as_ref().to_vec()
            }
            "hmac" => {
                let public = self.store.subject_public_key_info();
                let key = hmac::Key::new(hmac::HMAC_SHA256, &public);
                hmac::sign(&key, bytes).as_ref().to_vec()
            }
            "none" => Vec::new(),
            other => panic!("unknown key {other}"),
        }
    }
}

/// Puts fields in place of others. Times are seconds from now.
fn change(object: &mut Value, changes: &Value) {
    for (field, value) in changes.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            (_, Value::Null) => {
                object.as_object_mut().unwrap().remove(field);
            }
            ("exp" | "nbf" | "iat", Value::Number(seconds)) => {
                let at = i64::try_from(now()).unwrap() + seconds.as_i64().unwrap();
                object[field] = at.into();
            }
            ("more", Value::Number(bytes)) => {
                object[field] = "x"
                    .repeat(usize::try_from(bytes.as_u64().unwrap()).unwrap())
                    .into();
            }
            _ => object[field] = value.clone(),
        }
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}
