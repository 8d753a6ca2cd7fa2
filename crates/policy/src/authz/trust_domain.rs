//! Trust domains in policies: a principal of one of the mesh's trust domains is one of all of them.
//!
//! Istio: pilot/pkg/security/trustdomain/bundle.go, 1.32.

use incr::KeyedSet;

/// The trust domain of a principal that means the mesh's own, whatever that is called.
const LOCAL: &str = "cluster.local";

/// The mesh's trust domain, then its aliases.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrustDomains(Vec<String>);

impl TrustDomains {
    /// From the mesh config.
    pub fn new(domain: &str, aliases: &[String]) -> Self {
        let all = std::iter::once(domain).chain(aliases.iter().map(String::as_str));
        Self(all.map(str::to_owned).collect())
    }

    /// How many there are, repetitions counted.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Principals (`domain/ns/namespace/sa/account`, wildcards at either end), each of the mesh's in all of its trust
    /// domains.
    pub fn of_principals(&self, principals: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        for principal in principals {
            match trust_domain(principal) {
                Some(domain) if domain == LOCAL || overlaps(domain, &self.0) => {
                    all.extend(self.aliases(principal, domain));
                }
                // Of any trust domain, of a foreign one, or no principal at all.
                _ => all.push(principal.clone()),
            }
        }
        all
    }

    /// The principal in each trust domain; as it is where its wildcard covers that.
    fn aliases(&self, principal: &str, stated: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for domain in &self.0 {
            let alias = if ends_like(domain, stated) {
                principal.to_owned()
            } else {
                format!("{domain}{}", &principal[stated.len()..])
            };
            if !all.contains(&alias) {
                all.push(alias);
            }
        }
        all
    }

    /// Trust domains, each of the mesh's as all of them.
    pub fn of_domains(&self, domains: &[String]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut seen = KeyedSet::default();
        for domain in domains {
            let known = self.0.contains(domain);
            let meant: &[String] = if known {
                &self.0
            } else {
                std::slice::from_ref(domain)
            };
            for domain in meant {
                if seen.insert(domain) {
                    all.push(domain.clone());
                }
            }
        }
        all
    }
}

/// The trust domain that a principal asks for, if it has the form of one and does not take any.
fn trust_domain(principal: &str) -> Option<&str> {
    let (domain, rest) = principal.split_once('/')?;
    (rest.matches('/').count() == 3 && domain != "*").then_some(domain)
}

/// Whether the domain is among others, with wildcards on either side.
fn overlaps(domain: &str, others: &[String]) -> bool {
    others.iter().any(|other| {
        domain == other
            || other == "*"
            || starts_like(domain, other)
            || starts_like(other, domain)
            || ends_like(domain, other)
            || ends_like(other, domain)
    })
}

fn starts_like(text: &str, pattern: &str) -> bool {
    pattern
        .strip_suffix('*')
        .is_some_and(|p| text.starts_with(p))
}

fn ends_like(text: &str, pattern: &str) -> bool {
    pattern.strip_prefix('*').is_some_and(|p| text.ends_with(p))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use testkit::cases;

    fn texts(value: &Value) -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|v| Some(v.as_str()?.to_owned())).collect()
    }

    #[test]
    fn principals_are_those_of_the_recording() {
        for case in cases(
            "trustdomain",
            "trustdomain.Bundle.ReplaceTrustDomainAliases",
        ) {
            let domains = TrustDomains(texts(&case["in"]["self"]["TrustDomains"]));
            let found = domains.of_principals(&texts(&case["in"]["principals"]));
            assert_eq!(found, texts(&case["out"]), "{case}");
        }
    }

    #[test]
    fn lists_are_those_of_the_recording() {
        for case in cases("trustdomain", "trustdomain.NewBundle") {
            let domain = case["in"]["trustDomain"].as_str().unwrap();
            let found = TrustDomains::new(domain, &texts(&case["in"]["trustDomainAliases"]));
            assert_eq!(found.0, texts(&case["out"]["TrustDomains"]), "{case}");
        }
    }

    #[test]
    fn trust_domains_are_replaced_as_in_the_recording() {
        let table = "trustdomain";
        for case in cases(table, "trustdomain.replaceTrustDomainInPrincipal") {
            let principal = case["in"]["principal"].as_str().unwrap();
            let domains = TrustDomains(vec![case["in"]["trustDomain"].as_str().unwrap().into()]);
            let found = trust_domain(principal).map(|d| domains.aliases(principal, d));
            let wanted = case["out"][1]
                .is_null()
                .then(|| texts(&case["out"])[..1].to_vec());
            assert_eq!(found, wanted, "{case}");
        }
    }

    #[test]
    fn overlaps_are_those_of_the_recording() {
        for case in cases("trustdomain", "trustdomain.stringMatch") {
            let domain = case["in"]["a"].as_str().unwrap();
            let found = overlaps(domain, &texts(&case["in"]["list"]));
            assert_eq!(Some(found), case["out"].as_bool(), "{case}");
        }
    }

    #[test]
    fn a_domain_of_the_mesh_is_all_of_them_once() {
        let domains = TrustDomains::new("new", &["old".to_owned()]);
        let stated = ["old", "else", "new"].map(str::to_owned);
        assert_eq!(domains.of_domains(&stated), ["new", "old", "else"]);
    }
}
