//! Config from files.
