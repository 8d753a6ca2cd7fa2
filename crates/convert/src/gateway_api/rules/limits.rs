//! How much may be made of one route.
//!
//! What is bounded are products: of the matches of a rule and all else that the rule says, which every match repeats, and
//! of that and the hosts and parents of the route, each pair of which has a copy. A route beyond a limit is left out as a
//! whole, never another one.

use model::kinds::gateway_api::Route;
use model::{Diagnostic, ObjectKey, Severity};

use super::{RouteError, reason};
use crate::outcome::{code, finding};

/// What the routes of one HTTPRoute or GRPCRoute may weigh: half of what generation takes of a VirtualService.
const ROUTE_BYTES: usize = 16 << 20;

/// What they may weigh in all hosts and parents together.
const COPIED_BYTES: usize = 128 << 20;

/// What a route costs beside what it says.
const OVERHEAD: usize = 512;

/// What the routes of an object may weigh still.
pub(super) struct Budget<'a> {
    route: &'a ObjectKey,
    room: usize,
    limit: usize,
    copies: usize,
    exceeded: Option<Diagnostic>,
}

impl<'a> Budget<'a> {
    pub(super) fn of<T: Route>(route: &'a ObjectKey, spec: &T) -> Self {
        let hosts = spec.hostnames().len().max(1);
        let parents = spec.parent_refs().len().max(1);
        let copies = hosts.saturating_mul(parents);
        let limit = ROUTE_BYTES.min(COPIED_BYTES / copies);
        Self {
            route,
            room: limit,
            limit,
            copies,
            exceeded: None,
        }
    }

    /// Takes what every match of a rule repeats.
    ///
    /// # Errors
    /// It is too much.
    pub(super) fn take_copies(
        &mut self,
        rule: usize,
        bytes: usize,
        matches: usize,
    ) -> Result<(), RouteError> {
        let each = bytes.saturating_add(OVERHEAD);
        self.take(rule, each.saturating_mul(matches.max(1)))
    }

    /// Takes what a part of a rule weighs.
    ///
    /// # Errors
    /// It is too much.
    pub(super) fn take(&mut self, rule: usize, bytes: usize) -> Result<(), RouteError> {
        if let Some(room) = self.room.checked_sub(bytes) {
            self.room = room;
            return Ok(());
        }
        let message = format!(
            "is not served: its routes weigh more than {} kB, the limit for {} pairs of a host and a parent",
            self.limit >> 10,
            self.copies
        );
        let at = format!("spec.rules[{rule}]");
        let error = RouteError::new(
            reason::UNSUPPORTED_VALUE,
            format!("{at}: the route {message}"),
        );
        self.exceeded = Some(finding(
            self.route,
            code::OVER_LIMIT,
            Severity::Error,
            at,
            message,
        ));
        Err(error)
    }

    /// What was too much.
    pub(super) fn excess(self) -> Option<Diagnostic> {
        self.exceeded
    }
}
