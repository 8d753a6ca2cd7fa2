//! Memoised queries over a versioned input, with recorded reads.
