//! What is wrong with an Ingress by itself.

use model::ObjectName;

use super::rules::RulesOf;
use super::{charge, class};
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
        if !class::is_on(&read.settings().features) {
            return Outcome::default();
        }
        let rules = read.derived(RulesOf(self.0.clone()));
        let findings = rules.iter().flat_map(|rules| rules.findings.clone());
        let excess = charge::is_over(read, &self.0).then(|| charge::excess(&self.0));
        Outcome {
            objects: Vec::new(),
            findings: findings.chain(excess).collect(),
        }
    }
}
