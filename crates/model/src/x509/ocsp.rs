//! What Envoy reads of an OCSP response before it staples it: which certificate it is about.

use super::der::{
    BYTES, ENUMERATED, EXPLICIT_0, GENERALIZED_TIME, INTEGER, OID, SEQUENCE, element, expect,
};

/// The type of response that has a form.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];
const SUCCESSFUL: &[u8] = &[0];

/// The serial number of the one certificate that a successful response is about.
pub(super) fn serial(der: &[u8]) -> Option<&[u8]> {
    let (response, []) = expect(der, SEQUENCE)? else {
        return None;
    };
    let (SUCCESSFUL, bytes) = expect(response, ENUMERATED)? else {
        return None;
    };
    let (bytes, _) = expect(bytes, EXPLICIT_0)?;
    let (bytes, _) = expect(bytes, SEQUENCE)?;
    let (BASIC, bytes) = expect(bytes, OID)? else {
        return None;
    };
    let (bytes, _) = expect(bytes, BYTES)?;
    let (basic, _) = expect(bytes, SEQUENCE)?;
    let (mut data, _) = expect(basic, SEQUENCE)?;
    if let Some((_, rest)) = expect(data, EXPLICIT_0) {
        // Its version.
        data = rest;
    }
    let (_responder, _, data) = element(data)?;
    let (_, data) = expect(data, GENERALIZED_TIME)?;
    let (answers, _) = expect(data, SEQUENCE)?;
    let (answer, []) = expect(answers, SEQUENCE)? else {
        return None;
    };
    let (certificate, rest) = expect(answer, SEQUENCE)?;
    let (_status, _, rest) = element(rest)?;
    expect(rest, GENERALIZED_TIME)?;
    let (_, rest) = expect(certificate, SEQUENCE)?;
    let (_, rest) = expect(rest, BYTES)?;
    let (_, rest) = expect(rest, BYTES)?;
    Some(expect(rest, INTEGER)?.0)
}
