//! A rule of a policy as a policy of Envoy's.
//!
//! Istio: pilot/pkg/security/authz/model/model.go, 1.32.

use permission::Rule as PermissionRule;
use principal::Identifier;
use proto_envoy::envoy::config::rbac::v3::{Permission, Policy, Principal, permission, principal};
use proto_istio::security::Rule;

use super::condition::{self, Attribute, Unfit};
use super::trust_domain::TrustDomains;
use mesh::limits;

/// What happens where a condition makes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strictness {
    /// The rule is dropped: less is allowed.
    Drop,
    /// The condition is dropped: more is denied, asked about or logged.
    Widen,
}

struct Condition {
    attribute: Attribute,
    values: Vec<String>,
    not_values: Vec<String>,
}

impl Condition {
    fn new(attribute: Attribute, values: &[String], not_values: &[String]) -> Option<Self> {
        (!values.is_empty() || !not_values.is_empty()).then(|| Self {
            attribute,
            values: values.to_vec(),
            not_values: not_values.to_vec(),
        })
    }
}

impl Condition {
    /// About the bytes that Envoy's condition has.
    fn weight(&self) -> usize {
        let values = self.values.iter().chain(&self.not_values);
        values.fold(0, |sum, value| {
            sum.saturating_add(value.len() + limits::CONDITION_BYTES)
        })
    }
}

fn power(base: usize, exponent: usize) -> usize {
    base.saturating_pow(u32::try_from(exponent).unwrap_or(u32::MAX))
}

/// Principals that are written out again for each source; of more, each stands once.
const MOST_REPEATED: usize = 64;

/// Takes everybody and everything.
fn everything() -> Policy {
    Policy {
        permissions: vec![condition::permission(PermissionRule::Any(true))],
        principals: vec![condition::principal(Identifier::Any(true))],
        ..Policy::default()
    }
}

/// How a rule is generated.
pub(super) struct Generation<'a> {
    /// The policy's namespace, of accounts without one.
    pub(super) namespace: &'a str,
    pub(super) trust_domains: &'a TrustDomains,
    pub(super) tcp: bool,
    pub(super) strictness: Strictness,
    /// What repeating conditions may still add.
    pub(super) budget: &'a mut limits::Budget,
    /// Told of conditions that make nothing.
    pub(super) unfit: &'a mut dyn FnMut(Unfit),
}

impl Generation<'_> {
    /// Envoy's policy of a rule; `None` where it must be dropped.
    pub(super) fn policy(&mut self, rule: &Rule) -> Option<Policy> {
        let mut asked = Vec::new();
        let mut asking = Vec::new();
        for when in &rule.when {
            let Some(attribute) = Attribute::of_key(&when.key) else {
                (self.unfit)(Unfit::Invalid(format!(
                    "there is no attribute {}",
                    when.key
                )));
                match self.strictness {
                    Strictness::Drop => return None,
                    Strictness::Widen => continue,
                }
            };
            let side = match attribute.is_permission() {
                true => &mut asked,
                false => &mut asking,
            };
            side.extend(Condition::new(attribute, &when.values, &when.not_values));
        }
        if self.weighs_too_much(rule, &asked, &asking) {
            (self.unfit)(Unfit::TooLarge);
            return match self.strictness {
                Strictness::Drop => None,
                Strictness::Widen => Some(everything()),
            };
        }
        // Istio writes the aliases out once for each source, in conditions that all of them share.
        for condition in &mut asking {
            let times = self.migrations(rule, condition);
            for _ in 0..times {
                self.migrate(condition);
            }
        }
        let permissions = self.permissions(rule, &asked).ok()?;
        let principals = self.principals(rule, &asking).ok()?;
        Some(Policy {
            permissions,
            principals,
            ..Default::default()
        })
    }

    /// Whether the conditions under `when` weigh too much, written out for everybody who asks and everything that is
    /// asked for.
    fn weighs_too_much(&mut self, rule: &Rule, asked: &[Condition], asking: &[Condition]) -> bool {
        let grown = |condition: &Condition| match condition.attribute {
            Attribute::Principal => {
                power(self.trust_domains.len(), self.migrations(rule, condition))
            }
            Attribute::TrustDomain => self.trust_domains.len(),
            _ => 1,
        };
        let asking = asking
            .iter()
            .map(|c| c.weight().saturating_mul(grown(c)))
            .fold(0, usize::saturating_add)
            .saturating_mul(rule.from.len().max(1) - 1);
        let asked = asked
            .iter()
            .map(Condition::weight)
            .fold(0, usize::saturating_add);
        let asked = asked.saturating_mul(rule.to.len().max(1) - 1);
        self.budget.spend(asking.saturating_add(asked)).is_err()
    }

    /// How often the aliases of trust domains are written out in a condition of a rule. Each time repeats what is there
    /// for each alias, and after the first time nothing new comes.
    fn migrations(&self, rule: &Rule, condition: &Condition) -> usize {
        let times = rule.from.len().max(1);
        let domains = self.trust_domains.len();
        if condition.attribute != Attribute::Principal || domains < 2 {
            return times.min(2);
        }
        let values = condition.values.len() + condition.not_values.len();
        match power(domains, times).saturating_mul(values) > MOST_REPEATED {
            true => 1,
            false => times,
        }
    }

    fn permissions(&mut self, rule: &Rule, common: &[Condition]) -> Result<Vec<Permission>, Unfit> {
        if rule.to.is_empty() {
            return Ok(vec![self.permission(&[], common)?]);
        }
        rule.to
            .iter()
            .map(|to| {
                let o = to.operation.clone().unwrap_or_default();
                let own: Vec<Condition> = [
                    (Attribute::Host, o.hosts, o.not_hosts),
                    (Attribute::Method, o.methods, o.not_methods),
                    (Attribute::Path, o.paths, o.not_paths),
                    (Attribute::DestinationPort, o.ports, o.not_ports),
                ]
                .into_iter()
                .filter_map(|(attribute, v, n)| Condition::new(attribute, &v, &n))
                .collect();
                self.permission(&own, common)
            })
            .collect()
    }

    fn principals(&mut self, rule: &Rule, common: &[Condition]) -> Result<Vec<Principal>, Unfit> {
        if rule.from.is_empty() {
            return Ok(vec![self.principal(&[], common)?]);
        }
        rule.from
            .iter()
            .map(|from| {
                let s = from.source.clone().unwrap_or_default();
                let own: Vec<Condition> = [
                    (Attribute::Principal, s.principals, s.not_principals),
                    (
                        Attribute::RequestPrincipal,
                        s.request_principals,
                        s.not_request_principals,
                    ),
                    (
                        Attribute::ServiceAccount,
                        s.service_accounts,
                        s.not_service_accounts,
                    ),
                    (Attribute::TrustDomain, s.trust_domains, s.not_trust_domains),
                    (Attribute::Namespace, s.namespaces, s.not_namespaces),
                    (
                        Attribute::RemoteIp,
                        s.remote_ip_blocks,
                        s.not_remote_ip_blocks,
                    ),
                    (Attribute::SourceIp, s.ip_blocks, s.not_ip_blocks),
                ]
                .into_iter()
                .filter_map(|(attribute, v, n)| Condition::new(attribute, &v, &n))
                .map(|mut condition| {
                    self.migrate(&mut condition);
                    condition
                })
                .collect();
                self.principal(&own, common)
            })
            .collect()
    }

    fn permission(&mut self, own: &[Condition], common: &[Condition]) -> Result<Permission, Unfit> {
        let mut rules = Vec::new();
        for condition in own.iter().chain(common) {
            let attribute = &condition.attribute;
            if let Err(why) = attribute.check(self.tcp) {
                self.leave_out(why)?;
                continue;
            }
            let mut unfit = |why| self.leave_out(why);
            rules.extend(attribute_values(&condition.values, |v| {
                attribute.permission(v, &mut unfit)
            })?);
            let not = attribute_values(&condition.not_values, |v| {
                attribute.permission(v, &mut unfit)
            })?;
            rules.extend(not.map(|p| condition::permission(PermissionRule::NotRule(Box::new(p)))));
        }
        if rules.is_empty() {
            rules.push(condition::permission(PermissionRule::Any(true)));
        }
        Ok(condition::permission(PermissionRule::AndRules(
            permission::Set { rules },
        )))
    }

    fn principal(&mut self, own: &[Condition], common: &[Condition]) -> Result<Principal, Unfit> {
        let mut ids = Vec::new();
        for condition in own.iter().chain(common) {
            let attribute = &condition.attribute;
            if let Err(why) = attribute.check(self.tcp) {
                self.leave_out(why)?;
                continue;
            }
            let namespace = self.namespace;
            let mut unfit = |why| self.leave_out(why);
            ids.extend(attribute_values(&condition.values, |v| {
                attribute.principal(v, namespace, &mut unfit)
            })?);
            let not = attribute_values(&condition.not_values, |v| {
                attribute.principal(v, namespace, &mut unfit)
            })?;
            ids.extend(not.map(|p| condition::principal(Identifier::NotId(Box::new(p)))));
        }
        if ids.is_empty() {
            ids.push(condition::principal(Identifier::Any(true)));
        }
        Ok(condition::principal(Identifier::AndIds(principal::Set {
            ids,
        })))
    }

    /// Writes out the aliases of trust domains.
    fn migrate(&self, condition: &mut Condition) {
        let domains = self.trust_domains;
        for values in [&mut condition.values, &mut condition.not_values] {
            *values = match condition.attribute {
                Attribute::Principal => domains.of_principals(values),
                Attribute::TrustDomain => domains.of_domains(values),
                _ => return,
            };
        }
    }

    /// Drops the rule, or what makes no sense of it.
    fn leave_out(&mut self, why: Unfit) -> Result<(), Unfit> {
        (self.unfit)(why.clone());
        match self.strictness {
            Strictness::Drop => Err(why),
            Strictness::Widen => Ok(()),
        }
    }
}

fn attribute_values<T>(
    values: &[String],
    mut make: impl FnMut(&[String]) -> Result<Option<T>, Unfit>,
) -> Result<Option<T>, Unfit> {
    if values.is_empty() {
        return Ok(None);
    }
    make(values)
}
