//! Files of the machine: [`open`] reads what was put into a folder or named by the operator, [`private`] writes what only its owner
//! may read.

pub mod open;
pub mod private;
