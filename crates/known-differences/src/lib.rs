//! Exact lists of known differences: which cases do not come out as recorded, and why.
//!
//! A share of equal cases lets one regression hide behind one repair. A list does not: a difference that is not listed
//! fails, and so does a listed case that no longer differs. It does not compare anything itself.
//!
//! ```
//! use std::collections::BTreeSet;
//! use pilothouse_known_differences::Known;
//!
//! let known = Known::parse("
//! ## Lines like this one are comments. A reason stands at the start of a line, its cases are indented below it.
//! istiod hands these addresses out in the order of events
//!   a case
//! ").unwrap();
//! let found = BTreeSet::from(["a case".to_owned()]);
//! assert!(known.judge(&found, |_| true).is_empty());
//! assert_eq!(known.judge(&BTreeSet::new(), |_| true), ["is listed and no longer differs, take it off the list: a case"]);
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// Cases that are known to differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// The reason of each case.
    reasons: BTreeMap<String, String>,
}

impl Known {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// When a case has no reason, a reason has no case, or a case stands in the list twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reasons = BTreeMap::new();
        let mut reason: Option<(&str, usize)> = None;
        for (line, number) in text.lines().zip(1..) {
            let case = line.trim();
            if case.is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.starts_with(char::is_whitespace) {
                no_empty_reason(reason)?;
                reason = Some((case, 0));
                continue;
            }
            let Some((reason, cases)) = &mut reason else {
                return Err(format!("line {number}: no reason stands above {case}"));
            };
            *cases += 1;
            if reasons
                .insert(case.to_owned(), (*reason).to_owned())
                .is_some()
            {
                return Err(format!("line {number}: {case} is listed twice"));
            }
        }
        no_empty_reason(reason)?;
        Ok(Self { reasons })
    }

    /// Why a case differs, if it is known to.
    pub fn reason(&self, case: &str) -> Option<&str> {
        self.reasons.get(case).map(String::as_str)
    }

    /// The listed cases, sorted.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.reasons.keys().map(String::as_str)
    }

    /// What is wrong, a line each: differences that are not listed, and listed cases that do not differ any more, as far
    /// as they were looked at.
    pub fn judge(&self, found: &BTreeSet<String>, looked_at: impl Fn(&str) -> bool) -> Vec<String> {
        let unexpected = found.iter().filter(|case| self.reason(case).is_none());
        let unexpected = unexpected.map(|case| format!("differs and is not listed: {case}"));
        let equal = self
            .cases()
            .filter(|case| looked_at(case) && !found.contains(*case));
        let equal = equal
            .map(|case| format!("is listed and no longer differs, take it off the list: {case}"));
        unexpected.chain(equal).collect()
    }
}

fn no_empty_reason(reason: Option<(&str, usize)>) -> Result<(), String> {
    match reason {
        Some((reason, 0)) => Err(format!("no case stands below the reason: {reason}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cases: &[&str]) -> BTreeSet<String> {
        cases.iter().map(|case| (*case).to_owned()).collect()
    }

    #[test]
    fn only_the_listed_cases_may_differ_and_each_of_them_must() {
        let known = Known::parse("one reason\n  a\n  b\n\n# note\nanother\n  c d\n").unwrap();
        assert_eq!(known.judge(&set(&["a", "b", "c d"]), |_| true), [""; 0]);
        assert_eq!(known.reason("c d"), Some("another"));
        // As many as are listed, but others.
        let judged = known.judge(&set(&["a", "b", "e"]), |_| true);
        assert_eq!(judged.len(), 2, "{judged:?}");
        assert!(judged[0].ends_with("not listed: e") && judged[1].ends_with("list: c d"));
        // What was not looked at may still differ.
        assert_eq!(known.judge(&set(&["a"]), |case| case == "a"), [""; 0]);
    }

    #[test]
    fn a_list_states_a_reason_for_each_case_once() {
        for bad in [
            "  a\n",
            "reason\n",
            "one\n  a\ntwo\n  a\n",
            "one\ntwo\n  a\n",
        ] {
            assert!(Known::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Known::parse("# nothing\n\n"), Ok(Known::default()));
    }
}
