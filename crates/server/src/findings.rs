//! What was found wrong with objects, by source, for logs and debug pages.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::{Diagnostic, Severity, SourceId};

/// The findings in force.
#[derive(Default)]
pub struct Findings(Mutex<BTreeMap<SourceId, Vec<Diagnostic>>>);

/// How many findings there are of each level.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// What is not in force.
    pub errors: usize,
    /// What is probably not as meant.
    pub warnings: usize,
    /// What is good to know, and not in the log.
    pub infos: usize,
}

impl Findings {
    /// Replaces what a source found; returns what is new among it.
    pub fn replace(&self, source: &SourceId, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all
            .insert(source.clone(), found.clone())
            .unwrap_or_default();
        found.into_iter().filter(|d| !before.contains(d)).collect()
    }

    /// How many there are of each level.
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for finding in all.values().flatten() {
            match finding.severity {
                Severity::Error => count.errors += 1,
                Severity::Warning => count.warnings += 1,
                Severity::Info => count.infos += 1,
            }
        }
        count
    }

    /// All of them, by source.
    pub fn all(&self) -> Vec<Diagnostic> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .flatten()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_by_level() {
        let findings = Findings::default();
        let of = |name: &str, severities: &[Severity]| {
            let found = severities
                .iter()
                .map(|s| Diagnostic::new("PIL0000", *s, "it is so"));
            let source = model::Owner::new(0, name).source;
            findings.replace(&source, found.collect());
        };
        of("a", &[Severity::Error, Severity::Info]);
        of("b", &[Severity::Info, Severity::Warning]);
        let (errors, warnings, infos) = (1, 1, 2);
        let wanted = Count {
            errors,
            warnings,
            infos,
        };
        assert_eq!(findings.count(), wanted);
        of("a", &[]);
        assert_eq!((findings.count().errors, findings.count().infos), (0, 1));
    }
}
