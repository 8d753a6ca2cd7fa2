//! What is wrong with an Ingress by itself.

use model::{Diagnostic, ObjectName};

use super::annotated::{AnnotatedBy, told};
use super::class::is_on;
use super::policy::PolicyOf;
use super::rules::RulesOf;
use super::{charge, key};
use crate::budget;
use crate::outcome::Outcome;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What is wrong with an Ingress by itself, whatever host it is about; makes nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FindingsOf(pub ObjectName);

impl Derive for FindingsOf {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !is_on(read) {
            return Outcome::default();
        }
        let annotated = read.derived(AnnotatedBy(self.0.clone()));
        let Some(annotated) = annotated.as_ref() else {
            return Outcome::default();
        };
        let notes = annotated.annotations.notes.iter();
        let mut findings: Vec<Diagnostic> = notes.map(|note| told(&self.0, note)).collect();
        let policy = read.derived(PolicyOf(self.0.clone()));
        findings.extend(policy.iter().flat_map(|policy| policy.findings.clone()));
        let rules = read.derived(RulesOf(self.0.clone()));
        findings.extend(rules.iter().flat_map(|rules| rules.findings.clone()));
        if charge::is_over(read, &self.0) {
            findings.push(budget::finding_of(&key(&self.0), "spec.rules"));
        }
        Outcome {
            objects: Vec::new(),
            findings: findings.into(),
        }
    }
}
