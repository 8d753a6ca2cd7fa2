//! Numbers of a seed.

/// Draws numbers: the same from the same seed, on any machine. Sebastiano Vigna's SplitMix64.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        // Seeds that follow one another begin far from each other.
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from((z ^ (z >> 31)) % bound).unwrap_or_default()
    }

    /// Whether one of so many of a hundred was drawn.
    pub(super) fn chance(&mut self, of_hundred: u64) -> bool {
        (self.below(100) as u64) < of_hundred
    }

    /// One of a list, which is not empty.
    pub(super) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
