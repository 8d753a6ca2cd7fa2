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
    /// All that came, if anything did.
    pub fn take(&mut self) -> Option<Bytes> {
        if self.octets.is_empty() {
            return None;
        }
        // Never more than a window.
        self.taken += self.octets.len() as u32;
        Some(Bytes::from(std::mem::take(&mut self.octets)))
    }

    /// Whether everything was taken and there will be no more.
    pub fn is_over(&self) -> bool {
        self.ended && self.octets.is_empty()
    }
}
