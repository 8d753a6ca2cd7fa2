//! Under which names objects hold certificates: those of generic Secrets, or those of Secrets for TLS.
//!
//! Istio: pilot/pkg/credentials/kube/secrets.go ExtractCertInfo and ExtractRoot, 1.32.

/// A certificate with its key.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// The certificate and those between it and a root.
    pub chain: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
    /// What its authority last said of it.
    pub staple: Option<&'a [u8]>,
}

/// Roots to trust.
#[derive(Clone, Copy)]
pub struct Roots<'a> {
    /// The roots.
    pub certificates: &'a [u8],
    /// The certificates that they revoked.
    pub revoked: Option<&'a [u8]>,
}

/// The certificate that an object holds; `data` gives what it has under a name.
pub fn pair_of<'a>(data: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Pair<'a>> {
    let value = |key: &str| data(key).filter(|v| !v.is_empty());
    let pair = |chain, key, staple| {
        let (chain, key) = value(chain).zip(value(key))?;
        Some(Pair { chain, key, staple })
    };
    pair("cert", "key", None).or_else(|| pair("tls.crt", "tls.key", value("tls.ocsp-staple")))
}

/// The roots that an object holds; `data` gives what it has under a name.
pub fn roots_of<'a>(data: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Roots<'a>> {
    let roots = |name, revoked| {
        let certificates = data(name).filter(|v| !v.is_empty())?;
        let revoked = data(revoked);
        Some(Roots {
            certificates,
            revoked,
        })
    };
    roots("cacert", "crl").or_else(|| roots("ca.crt", "ca.crl"))
}
