//! What proxies were served last, on disk, for the next start.
//!
//! A [`Journal`] writes the sets of connected proxies to one file; [`load`] reads them back as [`Kept`]: for a node that
//! introduces itself, the sets it had. Everything is content-addressed: a resource and a set are written once, however
//! many views have them, and a save costs what differs since the one before.
//!
//! It knows neither sources nor streams, and does not judge whether what it read is still true: that is corrected when
//! the sources have been read. Types that may hold secrets are never written ([`is_kept`]).

mod folder;
mod format;
mod journal;
mod kept;
mod node;
mod retry;

pub use folder::{Folder, OpenError};
pub use format::{Ignored, Origin, is_kept};
pub use journal::{Journal, Saved, Served};
pub use kept::{Kept, load};
pub use node::NodeKeys;
