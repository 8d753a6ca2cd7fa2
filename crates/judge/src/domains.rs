//! The domains of a route configuration: each belongs to one virtual host.

use std::collections::HashMap;

use crate::check::is_header_value;
use crate::fault::Fault;

/// The domains that virtual hosts have taken, the first that wants one gets it. Envoy compares them without case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Domains {
    by_domain: HashMap<String, usize, foldhash::fast::RandomState>,
}

impl Domains {
    /// Takes a domain for the virtual host at a place.
    ///
    /// # Errors
    ///
    /// When it is not one, or another virtual host, or the same, has it.
    pub fn take(&mut self, domain: &str, host: usize) -> Result<(), Fault> {
        if domain.is_empty() {
            return Err(Fault::new("an empty domain matches nothing"));
        }
        if !is_header_value(domain.as_bytes(), false) {
            let why = format!("{domain:?} has a line break or NUL");
            return Err(Fault::new(why));
        }
        let domain = domain.to_ascii_lowercase();
        if self.by_domain.contains_key(&domain) {
            let why = format!("the domain {domain:?} is that of another virtual host");
            return Err(Fault::new(why));
        }
        self.by_domain.insert(domain, host);
        Ok(())
    }

    /// The place of the virtual host that has a domain, which is given in lower case.
    pub fn owner(&self, domain: &str) -> Option<usize> {
        self.by_domain.get(domain).copied()
    }
}
