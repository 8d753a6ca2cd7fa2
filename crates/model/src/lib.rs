//! Names, hosts, selectors and config objects: parse, default and validate each kind.
