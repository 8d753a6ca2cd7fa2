//! How much may be made of one route: every match of a rule repeats all else that the rule says.

use model::{Diagnostic, ObjectKey, Severity};

use super::RouteError;
use crate::gateway_api::limits::{HOST_BYTES, ROUTE_BYTES};
use crate::outcome::{code, finding};

/// What the routes of an object may weigh still. It is left out as a whole where that is too little, and no other is.
pub(super) struct Budget<'a> {
    route: &'a ObjectKey,
    room: usize,
    exceeded: Option<Diagnostic>,
}

impl<'a> Budget<'a> {
    /// What a single host would take.
    pub(super) fn of(route: &'a ObjectKey) -> Self {
        Self {
            route,
            room: HOST_BYTES,
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
        let each = bytes.saturating_add(ROUTE_BYTES);
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
        let at = format!("spec.rules[{rule}]");
        let message = format!(
            "nothing of the route is served: its matches, each with all that its rule says, weigh more than {} MiB",
            HOST_BYTES >> 20
        );
        let error = RouteError::refusal(format!("{at}: {message}"));
        let found = finding(self.route, code::OVER_LIMIT, Severity::Error, at, message);
        self.exceeded = Some(found);
        Err(error)
    }

    /// What was too much.
    pub(super) fn excess(self) -> Option<Diagnostic> {
        self.exceeded
    }
}
