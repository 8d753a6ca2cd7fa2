//! Conditions as statuses hold them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is reported about one aspect of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    /// Whether it holds.
    holds: bool,
    /// Why, in one word for programs.
    reason: &'static str,
    /// Why, for people.
    message: Cow<'static, str>,
}

/// The conditions of an object, or of a part of it, by type.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Conditions(BTreeMap<&'static str, Condition>);

impl Conditions {
    /// States that something holds, in place of what was said of it before.
    pub(crate) fn holds(
        &mut self,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.set(kind, true, reason, message);
    }

    /// States that something does not hold, in place of what was said of it before.
    pub(crate) fn fails(
        &mut self,
        kind: &'static str,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.set(kind, false, reason, message);
    }

    fn set(
        &mut self,
        kind: &'static str,
        holds: bool,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) {
        let message = message.into();
        let condition = Condition {
            holds,
            reason,
            message,
        };
        self.0.insert(kind, condition);
    }

    /// The message of the first of these types that does not hold.
    pub(crate) fn first_failing(&self, kinds: &[&str]) -> Option<&str> {
        let mut stated = kinds.iter().filter_map(|kind| self.0.get(*kind));
        let failing = stated.find(|condition| !condition.holds)?;
        Some(&failing.message)
    }

    /// The list `conditions` of a status, by type; about the object as it was at that generation.
    pub(crate) fn list(&self, generation: i64) -> Value {
        let conditions = self.0.iter().map(|(kind, condition)| {
            json!({
                "type": kind,
                "status": if condition.holds { "True" } else { "False" },
                "observedGeneration": generation,
                "reason": condition.reason,
                "message": condition.message,
            })
        });
        conditions.collect()
    }
}
