//! Test support: golden runner, snapshot builders, recorded-table readers.
