//! What peers are judged by.

use crate::certificate::Certificate;

/// The roots of a mesh, as they are distributed. Changes when the CA is reloaded or rotates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roots {
    /// One certificate in PEM each, in the order of the CA: the one that signs first, where it is one of them.
    pub pems: Vec<String>,
    /// The certificates that lead from what is signed to a root, as they are sent behind a leaf.
    pub signing_chain: Vec<String>,
    /// Revocation lists in PEM.
    pub crl: Option<String>,
    /// Counts changes, from 1; 0 says that there are none yet.
    pub generation: u64,
}

impl Roots {
    /// All of them as one text.
    pub fn pem(&self) -> String {
        self.pems.concat()
    }

    /// Whether there are any.
    pub fn are_known(&self) -> bool {
        !self.pems.is_empty()
    }
}

/// Each certificate once, in the order given.
pub(crate) fn distinct(certificates: impl IntoIterator<Item = Certificate>) -> Vec<Certificate> {
    let mut kept: Vec<Certificate> = Vec::new();
    for certificate in certificates {
        if !kept.contains(&certificate) {
            kept.push(certificate);
        }
    }
    kept
}
