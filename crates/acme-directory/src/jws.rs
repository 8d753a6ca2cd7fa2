//! Signed requests. RFC 8555, section 6.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::Value;

use super::{Problem, Shared};

/// What was signed, and by whom.
pub(super) struct Signed {
    pub(super) payload: Value,
    /// The number of the account; 0 for a key without one.
    pub(super) account: u64,
    /// The public key.
    pub(super) key: Vec<u8>,
    /// The key as it was given, if it was.
    pub(super) jwk: Value,
}

pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, Problem> {
    let text = value.as_str().unwrap_or_default();
    let read = URL_SAFE_NO_PAD.decode(text);
    read.map_err(|_| Problem::malformed("no base64url"))
}

/// The public key of a JWK of the curve P-256.
fn key_of(jwk: &Value) -> Result<Vec<u8>, Problem> {
    if jwk["kty"] != "EC" || jwk["crv"] != "P-256" {
        let said = "only keys of P-256".to_owned();
        return Err(Problem(StatusCode::BAD_REQUEST, "badPublicKey", said));
    }
    let point = [vec![4], bytes(&jwk["x"])?, bytes(&jwk["y"])?].concat();
    Ok(point)
}

/// The thumbprint of a public key. RFC 7638.
pub(super) fn thumbprint(key: &[u8]) -> String {
    let (x, y) = key[1..].split_at(32);
    let encode = |part| URL_SAFE_NO_PAD.encode(part);
    let jwk = format!(
        r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#,
        encode(x),
        encode(y)
    );
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, jwk.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

impl Shared {
    /// Checks who signed a request, for which URL, and that it was signed for this moment.
    pub(super) fn verify(
        &self,
        body: &[u8],
        url: &str,
        refuse_nonce: bool,
    ) -> Result<Signed, Problem> {
        let unread = |_| Problem::malformed("no JSON");
        let jws: Value = serde_json::from_slice(body).map_err(unread)?;
        let header = bytes(&jws["protected"])?;
        let header: Value = serde_json::from_slice(&header).map_err(unread)?;
        if header["alg"] != "ES256" || header["url"] != url {
            let said = format!("signed for {}", header["url"]);
            return Err(Problem(StatusCode::UNAUTHORIZED, "unauthorized", said));
        }
        let nonce = header["nonce"].as_str().unwrap_or_default();
        let is_good = self.state().nonces.remove(nonce);
        if refuse_nonce || !is_good {
            let said = format!("{nonce:?} is no nonce");
            return Err(Problem(StatusCode::BAD_REQUEST, "badNonce", said));
        }
        let (account, key) = match header["kid"].as_str() {
            None => (0, key_of(&header["jwk"])?),
            Some(_) if url.ends_with("/account") => {
                return Err(Problem::malformed("an account is made with a key"));
            }
            Some(kid) => {
                let number = kid.rsplit('/').next().and_then(|n| n.parse().ok());
                let number = number.unwrap_or_default();
                let key = self.state().accounts.get(&number).cloned();
                let said = kid.to_owned();
                let unknown = Problem(StatusCode::BAD_REQUEST, "accountDoesNotExist", said);
                (number, key.ok_or(unknown)?)
            }
        };
        let text = |part: &str| jws[part].as_str().unwrap_or_default().to_owned();
        let signed = format!("{}.{}", text("protected"), text("payload"));
        let signature = bytes(&jws["signature"])?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key)
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| Problem::malformed("the signature is wrong"))?;
        let payload = bytes(&jws["payload"])?;
        let payload = match payload.is_empty() {
            // POST-as-GET.
            true => Value::Null,
            false => serde_json::from_slice(&payload).map_err(unread)?,
        };
        Ok(Signed {
            payload,
            account,
            key,
            jwk: header["jwk"].clone(),
        })
    }
}

/// Checks that whoever has the key of an account elsewhere has signed the key of this one.
pub(super) fn check_binding(
    binding: &Value,
    id: &str,
    key: &[u8],
    jwk: &Value,
) -> Result<(), Problem> {
    let refused = |said: &str| {
        let said = said.to_owned();
        Problem(StatusCode::FORBIDDEN, "externalAccountRequired", said)
    };
    let header = bytes(&binding["protected"])?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| refused("no binding"))?;
    if header["alg"] != "HS256" || header["kid"] != id {
        return Err(refused("bound to another account"));
    }
    let text = |part: &str| binding[part].as_str().unwrap_or_default().to_owned();
    let signed = format!("{}.{}", text("protected"), text("payload"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::verify(&key, signed.as_bytes(), &bytes(&binding["signature"])?)
        .map_err(|_| refused("the signature is wrong"))?;
    let payload = bytes(&binding["payload"])?;
    let bound: Value = serde_json::from_slice(&payload).map_err(|_| refused("no key"))?;
    match bound["x"] == jwk["x"] && bound["y"] == jwk["y"] {
        true => Ok(()),
        false => Err(refused("bound to another key")),
    }
}
