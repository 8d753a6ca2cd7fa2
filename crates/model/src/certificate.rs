//! Certificates that are made here: for whom, and what was made.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A private key in PEM. `Debug` shows its length only, and memory is overwritten when the last copy is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Arc<Zeroizing<Vec<u8>>>);

impl PrivateKey {
    /// A key in PEM.
    pub fn from_pem(pem: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Zeroizing::new(pem.into())))
    }

    /// The key itself, to hand it to whom it belongs.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// The certificate of a workload's identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadCertificate {
    /// The certificate and those between it and a root, in PEM, that of the workload first.
    pub chain: Arc<str>,
    /// Its key.
    pub key: PrivateKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_never_shown() {
        let certificate = WorkloadCertificate {
            chain: "chain".into(),
            key: PrivateKey::from_pem("hidden"),
        };
        let shown = format!("{certificate:?}");
        assert!(shown.contains("<6 bytes>"), "{shown}");
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
