//! A finding, and how analyzers report one.

use std::cmp::Ordering;
use std::sync::Arc;

use model::kinds::Kinded;
use model::{Diagnostic, Object, Severity, Timestamp};
use store::Snapshot;

use crate::code::Code;

/// What an analyzer found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is said to people.
    pub diagnostic: Diagnostic,
    /// Who found it.
    pub analyzer: &'static str,
    /// When it begins to hold; from ever where absent.
    pub since: Option<Timestamp>,
    /// When it ceases to hold; never where absent.
    pub until: Option<Timestamp>,
}

impl Finding {
    /// The finding, about the written object where it was found with one that was derived.
    pub fn placed(&self, snapshot: &Snapshot) -> Self {
        Self {
            diagnostic: snapshot.placed(self.diagnostic.clone()),
            ..self.clone()
        }
    }

    /// Whether it holds at a time.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= now) && self.until.is_none_or(|until| now < until)
    }

    /// The order findings are shown in: the worst first, then by object.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let rank = |f: &Self| {
            let d = &f.diagnostic;
            (std::cmp::Reverse(d.severity), d.code)
        };
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.diagnostic.cmp(&other.diagnostic))
    }
}

/// Where an analyzer puts what it finds.
pub(crate) struct Report<'a> {
    analyzer: &'static str,
    out: &'a mut Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(analyzer: &'static str, out: &'a mut Vec<Finding>) -> Self {
        Self { analyzer, out }
    }

    /// Reports something about a field of an object; the empty path is the object as a whole.
    pub(crate) fn add<T: Kinded>(
        &mut self,
        object: &Object<T>,
        code: &Code,
        path: impl Into<Arc<str>>,
        message: impl Into<Arc<str>>,
    ) -> Reported<'_> {
        let diagnostic = Diagnostic::new(code.id, code.severity, message)
            .about(object.key(), object.meta.origin.clone())
            .at(path);
        self.push(diagnostic)
    }

    /// Reports something about the settings of the mesh.
    pub(crate) fn settings(
        &mut self,
        code: &Code,
        path: impl Into<Arc<str>>,
        message: impl Into<Arc<str>>,
    ) -> Reported<'_> {
        self.push(Diagnostic::new(code.id, code.severity, message).at(path))
    }

    fn push(&mut self, diagnostic: Diagnostic) -> Reported<'_> {
        self.out.push(Finding {
            diagnostic,
            analyzer: self.analyzer,
            since: None,
            until: None,
        });
        Reported(self.out.last_mut().expect("just pushed"))
    }
}

/// A finding just reported, to say more about.
pub(crate) struct Reported<'a>(&'a mut Finding);

impl Reported<'_> {
    /// What to do about it.
    pub(crate) fn help(self, help: impl Into<Arc<str>>) -> Self {
        self.0.diagnostic.help = Some(help.into());
        self
    }

    /// It is about the name of the field, whatever its value.
    pub(crate) fn of_name(self) -> Self {
        self.0.diagnostic.of_name = true;
        self
    }

    /// It is no worse than that.
    pub(crate) fn at_most(self, severity: Severity) -> Self {
        let stated = &mut self.0.diagnostic.severity;
        *stated = severity.min(*stated);
        self
    }

    /// It holds from then on.
    pub(crate) fn since(self, time: Timestamp) -> Self {
        self.0.since = Some(time);
        self
    }

    /// It holds until then.
    pub(crate) fn until(self, time: Timestamp) -> Self {
        self.0.until = Some(time);
        self
    }
}
