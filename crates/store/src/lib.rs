//! Applies changes to the indexed snapshot and says what changed.
//!
//! The [`Store`] has one writer. Readers hold a [`Snapshot`]: persistent tables that cost nothing to keep. Generation
//! reads through [`Reads`], which records every read as an input key; what [`Store::apply`] returns are the keys that
//! its batch touched, so the engine marks exactly what read them.

mod discovery;
pub mod index;
pub mod input;
pub mod label_reader;
mod places;
pub mod reads;
pub mod shards;
pub mod snapshot;
pub mod store;
pub mod table;
pub mod template;

pub use discovery::discovers;
pub use index::{Indexed, ObjectIndex};
pub use input::Input;
pub use label_reader::{LabelReader, Reading};
pub use reads::Reads;
pub use snapshot::Snapshot;
pub use store::{ChangeSet, Reason, Store};
pub use table::Table;
