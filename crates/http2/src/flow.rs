//! Windows: how much each side may send (RFC 9113, section 5.2).

/// A window that nothing was said about.
pub(crate) const INITIAL: u32 = 65_535;
/// What all streams of a connection may have sent that was not taken: two that are full. It bounds what is kept for a client
/// whose calls take nothing in.
pub(crate) const CONNECTION: u32 = 2 * (INITIAL + 1);
const LARGEST: i64 = (1 << 31) - 1;

/// How much may be sent; less than nothing after the client made its initial window smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow(i64);

impl SendWindow {
    pub(crate) fn new(window: u32) -> Self {
        Self(i64::from(window))
    }

    pub(crate) fn left(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    pub(crate) fn spend(&mut self, count: usize) {
        self.0 -= count as i64;
    }

    /// False if it became larger than a window can be.
    #[must_use]
    pub(crate) fn add(&mut self, more: i64) -> bool {
        self.0 += more;
        self.0 <= LARGEST
    }
}

/// How much the client may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveWindow {
    size: u32,
    left: u32,
    /// What it may send again and was not told of.
    owed: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self {
            size,
            left: size,
            owed: 0,
        }
    }

    /// So much came; false if that was more than allowed.
    #[must_use]
    pub(crate) fn spend(&mut self, count: usize) -> bool {
        let left = u32::try_from(count).ok();
        match left.and_then(|count| self.left.checked_sub(count)) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// So much was taken. Returns by how much the client should be told that it may send more, if it should.
    pub(crate) fn give_back(&mut self, count: u32) -> Option<u32> {
        self.owed += count;
        if self.owed < self.size / 2 {
            return None;
        }
        let more = std::mem::take(&mut self.owed);
        self.left += more;
        Some(more)
    }
}
