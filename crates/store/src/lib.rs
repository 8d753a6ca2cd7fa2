//! Applies changes to the indexed snapshot and says what changed.
