//! Base64, base32 and checksums.

use aws_lc_rs::digest::{self, Algorithm};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::BASE32;

use super::S;
use crate::functions::Functions;
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    functions.add("b64enc", &[S], |meter, args| {
        meter.make(args.str(0).len().saturating_mul(2))?;
        Ok(STANDARD.encode(args.str(0)).into())
    });
    functions.add("b32enc", &[S], |meter, args| {
        meter.make(args.str(0).len().saturating_mul(2))?;
        Ok(BASE32.encode(args.str(0).as_bytes()).into())
    });
    // What cannot be decoded gives the error as text, as in Sprig.
    functions.add("b64dec", &[S], |meter, args| {
        meter.make(args.str(0).len())?;
        let bare: String = args
            .str(0)
            .chars()
            .filter(|c| !matches!(c, '\r' | '\n'))
            .collect();
        Ok(match STANDARD.decode(bare) {
            Ok(bytes) => text(&bytes),
            Err(error) => {
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _)
                    | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => args.str(0).len() / 4 * 4,
                };
                format!("illegal base64 data at input byte {at}").into()
            }
        })
    });
    functions.add("b32dec", &[S], |meter, args| {
        meter.make(args.str(0).len())?;
        Ok(match BASE32.decode(args.str(0).as_bytes()) {
            Ok(bytes) => text(&bytes),
            Err(error) => format!("illegal base32 data at input byte {}", error.position).into(),
        })
    });
    let sums: [(&str, &'static Algorithm); 3] = [
        ("sha1sum", &digest::SHA1_FOR_LEGACY_USE_ONLY),
        ("sha256sum", &digest::SHA256),
        ("sha512sum", &digest::SHA512),
    ];
    for (name, algorithm) in sums {
        functions.add(name, &[S], move |meter, args| {
            meter.step(args.str(0).len() / 64)?;
            let sum = digest::digest(algorithm, args.str(0).as_bytes());
            Ok(sum
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
                .into())
        });
    }
    functions.add("adler32sum", &[S], |meter, args| {
        meter.step(args.str(0).len() / 64)?;
        Ok(adler32(args.str(0).as_bytes()).to_string().into())
    });
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}
