//! What a client sent of a request's body.

use bytes::Bytes;

/// What came and was not taken yet.
#[derive(Debug, Default)]
pub struct Input {
    pub(crate) octets: Vec<u8>,
    pub(crate) ended: bool,
    /// Octets that were taken since the client was told that it may send as many again.
    pub(crate) taken: u32,
}

impl Input {
    /// What can be taken.
    pub fn peek(&self) -> &[u8] {
        &self.octets
    }

    /// All that came, if anything did.
    pub fn take(&mut self) -> Option<Bytes> {
        self.take_up_to(usize::MAX)
    }

    /// So many octets of what came, or all if it is less; `None` if that is nothing.
    pub fn take_up_to(&mut self, count: usize) -> Option<Bytes> {
        let octets = if count < self.octets.len() {
            let rest = self.octets.split_off(count);
            std::mem::replace(&mut self.octets, rest)
        } else {
            std::mem::take(&mut self.octets)
        };
        // Never more than a window.
        self.taken += octets.len() as u32;
        (!octets.is_empty()).then(|| Bytes::from(octets))
    }

    /// Whether everything was taken and there will be no more.
    pub fn is_over(&self) -> bool {
        self.ended && self.octets.is_empty()
    }
}
