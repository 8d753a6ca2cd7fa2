//! Servers of MCP that a Nacos lists, in its configuration: each becomes an Ingress, which is served like a written one.
//!
//! Nacos 3 made up the documents; where its own API does not answer, that of Nacos 1 and 2 is asked, which has the same
//! configuration. The list is read again and again, and each document with it. A server that speaks no MCP is refused, and one that is
//! off is not served.
// Higress: registry/nacos/mcpserver/client.go, watcher.go, 2.1.

mod ask;
mod document;
mod held;
mod route;
mod source;

#[cfg(test)]
mod real;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

pub use document::replay;
pub use route::Making;
pub use source::McpSource;

use super::Options;
use crate::keeper::Keep;

/// The group of services that Nacos makes for servers of MCP.
pub const ENDPOINTS: &str = "mcp-endpoints";
/// More servers of one registry than this are not read.
const MOST: usize = 2_000;
/// The largest document, and the largest page of a list, in bytes.
const LARGEST: usize = 1 << 20;

/// Which servers are read.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The Nacos.
    pub nacos: Options,
    /// The names of those that are read; all where absent.
    pub only: Option<BTreeSet<Arc<str>>>,
    /// How they are made into objects.
    pub making: Making,
    /// How long a server stays that the list does not have.
    pub patience: Keep,
}

/// How the reading is, for pages. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct McpState(Arc<Mutex<McpHealth>>);

/// How the reading is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct McpHealth {
    /// How many servers are served.
    pub served: usize,
    /// Servers that are not served, by their ids, and why.
    pub refused: BTreeMap<Arc<str>, Arc<str>>,
    /// Why the list was not read, where it was not last time.
    pub error: Option<Arc<str>>,
}

impl McpState {
    /// As it is now.
    pub fn get(&self) -> McpHealth {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, health: McpHealth) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}
