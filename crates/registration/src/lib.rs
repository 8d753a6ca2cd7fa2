//! Workloads that register themselves when they connect, as WorkloadEntries.
//!
//! A proxy outside of Kubernetes that names a WorkloadGroup (`AUTO_REGISTER_GROUP`) gets an entry made of the group while it
//! is connected, and loses it when it stays away for longer than the grace period; whichever replica it connects to. What
//! its agent says of its health becomes a condition of the entry. [`Core`] decides all of that without sockets, clocks or
//! tasks; [`Registrar`] runs it over a [`Place`](writeback::Place). Nothing here generates resources of Envoy.
//!
//! Istio: pilot/pkg/autoregistration, 1.32.

mod claim;
mod core;
mod entry;
mod memory;
mod object;
mod presence;
mod refusal;
mod registrar;
mod wall;

use std::sync::Arc;
use std::time::Duration;

use model::object::ObjectName;

pub use claim::{Claim, Taken, Wish, entry_name};
pub use core::{Answer, Core, Write};
pub use entry::{Op, Purpose};
pub use memory::MemoryPlace;
pub use object::{CONTROLLER, Group, Report, Seen};
pub use presence::{Instance, Presence};
pub use refusal::{Fault, Refusal};
pub use registrar::{Registrar, Seat, Setup, Where};
pub use wall::Wall;

/// How entries are looked after.
#[derive(Clone, Debug)]
pub struct Options {
    /// This replica, as entries name it.
    pub instance: Arc<str>,
    /// Entries are only for proxies whose identity is verified and is that of the entry.
    pub validate_identity: bool,
    /// What proxies report of their health is written.
    pub health: bool,
    /// How long a workload may be away before its entry is cleaned up.
    pub grace: Duration,
    /// Most entries that are looked after at once.
    pub most_entries: usize,
    /// Most of them for workloads that connect from one address.
    pub most_entries_of_peer: usize,
    /// Most writes at once.
    pub most_writes: usize,
}

/// A point in time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since some start; never goes back.
    pub since: Duration,
    /// The time of day.
    pub wall: Wall,
}

/// A stream that is or was connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// The configuration in force, as far as it matters here.
pub trait View: Send + Sync {
    /// Whether every source has been read.
    fn is_complete(&self) -> bool;
    /// A group.
    fn group(&self, name: &ObjectName) -> Option<Group>;
    /// An entry.
    fn entry(&self, name: &ObjectName) -> Option<Seen>;
    /// Every entry that some replica looks or looked after.
    fn registered(&self) -> Vec<(ObjectName, Seen)>;
}

/// Something that happened, for logs and metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// An entry was made.
    Registered(ObjectName),
    /// An entry's workload came again.
    Updated(ObjectName),
    /// An entry's workload is gone.
    Unregistered(ObjectName),
    /// An entry's workload did not come again.
    CleanedUp(ObjectName),
    /// A claim was refused.
    Refused {
        /// The entry that it is about.
        entry: ObjectName,
        /// Why.
        refusal: Refusal,
        /// Whether the stream ends with it.
        told: bool,
    },
    /// A write failed, and is tried again.
    Failed {
        /// Of this entry.
        entry: ObjectName,
        /// Why.
        reason: Arc<str>,
    },
}
