//! Subject alternative names: what a certificate says of whom it is of.

use std::net::IpAddr;

use x509_cert::der::asn1::{Ia5String, OctetString};
use x509_cert::ext::pkix::name::GeneralName;

/// What begins the identity of a workload.
pub const SPIFFE: &str = "spiffe://";

/// Most names of a certificate.
pub const MOST: usize = 64;

/// The longest name: that of a SPIFFE identity.
const LONGEST: usize = 2048;

/// Why names cannot stand in a certificate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SanError {
    /// There is none.
    #[error("a certificate without any name is of nobody")]
    None,
    /// There are too many.
    #[error("{0} names are more than a certificate may have ({MOST})")]
    TooMany(usize),
    /// One cannot be written.
    #[error("{0:?} cannot be a name in a certificate")]
    Unfit(String),
}

/// Names as certificates have them: a URI for `spiffe://…`, an address for an address, else a DNS name.
///
/// # Errors
///
/// When there is none, there are too many, or one has characters that end or hide a name elsewhere.
// Istio: security/pkg/pki/util/san.go, 1.32. There a comma in a name makes two of it.
pub fn general_names<S: AsRef<str>>(names: &[S]) -> Result<Vec<GeneralName>, SanError> {
    match names.len() {
        0 => return Err(SanError::None),
        MOST.. if names.len() > MOST => return Err(SanError::TooMany(names.len())),
        _ => {}
    }
    names
        .iter()
        .map(|name| general_name(name.as_ref()))
        .collect()
}

fn general_name(name: &str) -> Result<GeneralName, SanError> {
    let unfit = || SanError::Unfit(name.chars().take(128).collect());
    let fits = name.bytes().all(|b| b.is_ascii_graphic() && b != b',');
    if name.is_empty() || name.len() > LONGEST || !fits {
        return Err(unfit());
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(GeneralName::from(address.to_canonical()));
    }
    let text = Ia5String::new(name).map_err(|_| unfit())?;
    Ok(match name.starts_with(SPIFFE) {
        true => GeneralName::UniformResourceIdentifier(text),
        false => GeneralName::DnsName(text),
    })
}

/// A name of a certificate or a request, as text; `None` for kinds that the mesh has no use for.
pub(crate) fn text(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::UniformResourceIdentifier(text) | GeneralName::DnsName(text) => {
            Some(text.as_str().to_owned())
        }
        GeneralName::IpAddress(bytes) => address(bytes).map(|a| a.to_string()),
        _ => None,
    }
}

fn address(bytes: &OctetString) -> Option<IpAddr> {
    let bytes = bytes.as_bytes();
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_its_kind() {
        let names = [
            "spiffe://a/ns/b/sa/c",
            "istiod.istio-system.svc",
            "::ffff:10.0.0.1",
        ];
        let made = general_names(&names).unwrap();
        assert!(matches!(made[0], GeneralName::UniformResourceIdentifier(_)));
        assert!(matches!(made[1], GeneralName::DnsName(_)));
        assert!(matches!(&made[2], GeneralName::IpAddress(a) if a.as_bytes() == [10, 0, 0, 1]));
        let read: Vec<_> = made.iter().filter_map(text).collect();
        assert_eq!(read, [names[0], names[1], "10.0.0.1"]);
    }

    #[test]
    fn names_that_could_be_read_as_others_are_refused() {
        for bad in ["", "a,b", "a b", "a\0b", "ä", "a\nb", &"a".repeat(2049)] {
            assert!(general_names(&[bad]).is_err(), "{bad:?}");
        }
        assert_eq!(general_names::<&str>(&[]), Err(SanError::None));
        assert_eq!(general_names(&["a"; 65]), Err(SanError::TooMany(65)));
    }
}
