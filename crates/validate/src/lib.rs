//! What objects and settings must say to have a meaning, and how findings are printed.
//!
//! Reading (`model::parse`) knows the structure of each kind; this crate knows its rules. [`parse`] is both: errors
//! refuse an object, warnings do not, and each names the field, and with it the line. Nothing here compares objects
//! with one another. No I/O.

pub mod annotation;
pub mod cel;
pub mod mesh;
pub mod overlay;
pub mod quantity;
pub mod report;
pub mod rules;
pub mod schema;
pub mod text;
pub mod written;

use std::path::Path;
use std::sync::Arc;

use model::parse::{Judge, Parsed, Raw, Remark, Validation, parse_judged};
use model::{AnyObject, Kind};

use report::Report;

/// All rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules;

impl Judge for Rules {
    fn written(&self, kind: Kind, raw: Raw<'_>, out: &mut Vec<Remark>) {
        let mut report = Report(std::mem::take(out));
        written::check(kind, raw, &mut report);
        *out = report.0;
    }

    fn object(&self, object: &AnyObject, out: &mut Vec<Remark>) {
        let mut report = Report(std::mem::take(out));
        rules::object(object, &mut report);
        *out = report.0;
    }
}

/// Reads the objects of a text and judges each by all rules. `file` is where it comes from, for people to find it.
pub fn parse(text: &str, file: &Arc<Path>, validation: Validation) -> Parsed {
    parse_judged(text, file, validation, &Rules)
}

/// As [`parse`], of bytes that are not UTF-8.
pub fn parse_undecoded(bytes: &[u8], file: &Arc<Path>, validation: Validation) -> Parsed {
    model::parse::parse_undecoded(bytes, file, validation, &Rules)
}
