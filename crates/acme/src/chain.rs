//! Chains of certificates as directories give them: whether one is what was asked for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use model::x509;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The largest chain that is taken.
pub(crate) const LARGEST: usize = 128 << 10;
/// The most certificates of a chain.
const MOST: usize = 16;

/// What is known of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    /// In hexadecimal digits.
    pub(crate) serial: String,
}

/// A time as Higress writes it.
pub(crate) fn time(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// What the first certificate of a chain says: its DER, when it is valid, and the hosts that it names.
pub(crate) fn read(chain: &str) -> Result<(Vec<u8>, Chain, Vec<String>), &'static str> {
    if chain.len() > LARGEST {
        return Err("is too large");
    }
    let mut blocks = x509::pem(chain).filter(|block| block.label == "CERTIFICATE");
    let first = blocks.next().and_then(|block| block.der());
    let der = first.ok_or("holds no certificate in PEM")?;
    if blocks.count() >= MOST {
        return Err("holds too many certificates");
    }
    let read = x509_cert::Certificate::from_der(&der).map_err(|_| "holds no X.509 certificate")?;
    let validity = x509::certificate(&der).ok_or("holds no X.509 certificate")?;
    let at = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    };
    let certificate = &read.tbs_certificate;
    let names = certificate.get::<SubjectAltName>().ok().flatten();
    let names = names.map(|(_, names)| names.0).unwrap_or_default();
    let names = names.into_iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        _ => None,
    });
    let serial = certificate.serial_number.as_bytes();
    let known = Chain {
        not_before: at(validity.validity.not_before),
        not_after: at(validity.validity.not_after),
        serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let names = names.collect();
    Ok((der, known, names))
}

/// Whether a chain is for these hosts and belongs to the key, and is valid.
pub(crate) fn check(
    chain: &str,
    key: &[u8],
    hosts: &[Arc<str>],
    now: SystemTime,
) -> Result<Chain, String> {
    let (_, known, names) = read(chain).map_err(str::to_owned)?;
    x509::check_pair(chain.as_bytes(), key).map_err(|fault| fault.message().to_owned())?;
    if let Some(host) = hosts
        .iter()
        .find(|host| !names.iter().any(|n| **n == ***host))
    {
        return Err(format!("does not name {host}"));
    }
    if known.not_after <= now {
        return Err("has expired".to_owned());
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn made(names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key);
        (certificate.unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_chain_names_all_hosts_and_belongs_to_the_key() {
        let now = SystemTime::now();
        let (chain, key) = made(&["a.example", "*.b.example"]);
        let hosts =
            |names: &[&str]| -> Vec<Arc<str>> { names.iter().map(|n| (*n).into()).collect() };
        let of = |chain: &str, key: &str, names: &[&str]| {
            check(chain, key.as_bytes(), &hosts(names), now).map(|_| ())
        };
        assert_eq!(of(&chain, &key, &["*.b.example", "a.example"]), Ok(()));
        let other = of(&chain, &key, &["c.example"]);
        assert_eq!(other, Err("does not name c.example".to_owned()));
        let (_, strange) = made(&["a.example"]);
        assert!(of(&chain, &strange, &["a.example"]).is_err());
        assert!(of("", &key, &["a.example"]).is_err());
        assert!(of(&chain.repeat(20), &key, &["a.example"]).is_err());
        let late = SystemTime::now() + Duration::from_secs(400 * 365 * 86_400 * 10);
        assert!(check(&chain, key.as_bytes(), &hosts(&["a.example"]), late).is_err());
    }
}
