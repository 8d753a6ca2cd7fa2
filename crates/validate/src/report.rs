//! Findings of rules, with the path of the field they are about.

use std::fmt::Display;

use model::Severity;
use model::parse::{Path, Remark, Step, code};

/// Codes of what this crate finds, beside those of reading.
pub mod codes {
    /// A value beyond what the definition of the kind allows.
    pub const LIMIT: &str = "PIL0020";
}

/// The field that a rule looks at. It costs nothing until something is found there.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    above: Option<&'a At<'a>>,
    step: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Top,
    Field(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    /// The whole object.
    pub const TOP: At<'static> = At {
        above: None,
        step: Segment::Top,
    };

    /// A field, or the value of a key.
    pub fn field<'b>(&'b self, name: &'b str) -> At<'b> {
        At {
            above: Some(self),
            step: Segment::Field(name),
        }
    }

    /// An item of a list.
    pub fn item<'b>(&'b self, index: usize) -> At<'b> {
        At {
            above: Some(self),
            step: Segment::Item(index),
        }
    }

    /// Each item of a list with its place.
    pub fn each<'b, 't, T>(&'b self, items: &'t [T]) -> impl Iterator<Item = (At<'b>, &'t T)> {
        items
            .iter()
            .enumerate()
            .map(|(index, item)| (self.item(index), item))
    }

    /// The path from the top.
    pub fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(here) = at {
            match here.step {
                Segment::Top => {}
                Segment::Field(name) => steps.push(Step::Field(name.into())),
                Segment::Item(index) => steps.push(Step::Index(index)),
            }
            at = here.above;
        }
        steps.reverse();
        Path(steps)
    }
}

/// What the rules have found.
#[derive(Debug, Default)]
pub struct Report(pub Vec<Remark>);

impl Report {
    /// The field has no meaning.
    pub fn error(&mut self, at: &At<'_>, message: impl Display) {
        self.say(at, Severity::Error, code::INVALID, message);
    }

    /// The field works, probably not as meant.
    pub fn warning(&mut self, at: &At<'_>, message: impl Display) {
        self.say(at, Severity::Warning, code::INVALID, message);
    }

    /// A finding of any kind.
    pub fn say(
        &mut self,
        at: &At<'_>,
        severity: Severity,
        code: &'static str,
        message: impl Display,
    ) {
        self.0.push(Remark {
            path: at.path(),
            severity,
            code,
            message: message.to_string(),
            help: None,
        });
    }

    /// An error, where a check of a text names a fault.
    pub fn check(&mut self, at: &At<'_>, fault: Result<(), String>) {
        if let Err(fault) = fault {
            self.error(at, fault);
        }
    }

    /// What to do about the last finding.
    pub fn help(&mut self, help: impl Display) {
        if let Some(last) = self.0.last_mut() {
            last.help = Some(help.to_string());
        }
    }

    /// The errors among the findings.
    pub fn into_errors(self) -> impl Iterator<Item = Remark> {
        self.0.into_iter().filter(|r| r.severity == Severity::Error)
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|r| r.severity == Severity::Error)
    }

    /// Whether there is a warning.
    pub fn has_warnings(&self) -> bool {
        self.0.iter().any(|r| r.severity == Severity::Warning)
    }
}
