//! How much generation makes of what objects say, where lists multiply each other.
//!
//! A list that an object states costs what it says. Where two lists meet, be they of one object or of several, their
//! product is judged before it is built, and what exceeds a limit here fails closed: less is reached, never more, and a
//! finding names the object and the field. Every limit is far above what a mesh of 50,000 services needs; they are no
//! flags, since nothing that works is near them.
//!
//! docs/security.md has the table; docs/differences.md says what istiod does instead.

use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::object::ObjectName;

use crate::finding::{about_named, code};

/// What the routes of one VirtualService may weigh, delegates merged in: for each match, what the match and its route
/// say and [`ROUTE_BYTES`]. 5,000 routes of 6 kB are less.
pub const RULE_BYTES: usize = 32 << 20;

/// What Envoy's route, or filter chain, holds beside what a match says: names, metadata, defaults.
pub const ROUTE_BYTES: usize = 512;

/// How many matches of routes and delegates one VirtualService may compare. 200 matches and a delegate with 5,000 are as
/// many.
pub const MERGE_STEPS: usize = 1_000_000;

/// What the routes of one VirtualService may weigh in all virtual hosts and filter chains of one proxy together: each
/// host and port has a copy.
pub const COPIED_BYTES: usize = 128 << 20;

/// How often a gateway takes the routes of a rule that names it several times. What comes later matches nothing new.
pub const REPEATED_GATEWAYS: usize = 4;

/// How many ports a ServiceEntry may serve: hosts, times addresses, times ports.
pub const ENTRY_PORTS: usize = 16_384;

/// How many endpoints a ServiceEntry may have: hosts, times addresses, times workloads, times ports.
pub const ENTRY_ENDPOINTS: usize = 250_000;

/// What the names of servers that a ServiceEntry states may weigh: the names, times hosts, times ports.
pub const ENTRY_NAME_BYTES: usize = 32 << 20;

/// What a DestinationRule whose host is a wildcard may hold: every service that it covers has a copy.
pub const WILDCARD_RULE_BYTES: usize = 16 << 10;

/// What a DestinationRule may say of how requests are hashed: every route to the host repeats it.
pub const HASH_BYTES: usize = 1 << 10;

/// What the clusters of one service may weigh: for each port and subset, the policies of the rule and the subset, the
/// names of servers, and [`CLUSTER_BYTES`].
pub const SERVICE_BYTES: usize = 32 << 20;

/// What Envoy's cluster holds beside what objects say.
pub const CLUSTER_BYTES: usize = 4 << 10;

/// How many endpoints the subsets of one service may list, all subsets and ports together: one that several subsets
/// choose counts for each. The clusters of the service itself are not counted.
pub const SUBSET_ENDPOINTS: usize = 250_000;

/// How many endpoints may be compared with the subsets of one service: subsets, times endpoints of all ports.
pub const SUBSET_STEPS: usize = 100_000_000;

/// What the AuthorizationPolicies of one workload may add by repeating conditions under `when` for each source and
/// operation: values, and [`CONDITION_BYTES`] for each. What is written once is not counted.
pub const POLICY_BYTES: usize = 16 << 20;

/// What Envoy's principal or permission holds beside the value.
pub const CONDITION_BYTES: usize = 64;

/// What the filter chains of one side of a proxy may repeat: the filters of policies and extensions, times the chains.
pub const REPEATED_BYTES: usize = 128 << 20;

/// What a Telemetry may hold: every logger and filter of every chain has a copy.
pub const TELEMETRY_BYTES: usize = 64 << 10;

/// What the filter chains may weigh that the servers of one gateway proxy have for clusters or rules' server names, TLS
/// passed through: what a route says and [`CHAIN_BYTES`] for each chain. Each server has those of every service or rule.
pub const GATEWAY_BYTES: usize = 64 << 20;

/// What Envoy's filter chain holds beside what objects say.
pub const CHAIN_BYTES: usize = 512;

/// How many ports the Gateways of a namespace may open at one of its own proxies, and those of the root namespace at any. How many
/// others may is `PILOTHOUSE_NAMESPACE_PORTS`.
pub const OWN_GATEWAY_PORTS: usize = 1_000;

/// How many services the egress listeners of one Sidecar may be compared with: listeners, times services.
pub const EGRESS_STEPS: usize = 50_000_000;

/// How large an expression for proxy versions may become when it is compiled, in bytes.
pub const VERSION_PATTERN_BYTES: usize = 256 << 10;

/// How many different expressions for proxy versions an EnvoyFilter may have.
pub const VERSION_PATTERNS: usize = 64;

/// What laying a patch of an EnvoyFilter over something costs beside its value, in the limits of [`PatchLimit`]: it is
/// read and written again.
pub const PATCH_BYTES: usize = 1 << 10;

/// The same, where patches are counted once for each filter chain.
pub const CHAIN_PATCH_BYTES: usize = 64;

/// How many patches of a kind may work on one proxy: each is compared with whatever is of that kind.
pub const PATCHES_OF_KIND: usize = 10_000;

/// How large patches may be that are repeated, in bytes with [`PATCH_BYTES`] for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PatchLimit {
    /// One patch.
    pub each: usize,
    /// All of one proxy that name the same, or name nothing.
    pub together: usize,
}

/// What comparing a match of a route with one of its delegate is charged, beside what it makes.
pub const MERGE_STEP_BYTES: usize = 16;

/// Of patches for clusters, virtual hosts and routes, of which a proxy may have tens of thousands.
pub const PATCH_OF_MANY: PatchLimit = PatchLimit {
    each: 32 << 10,
    together: 64 << 10,
};

/// Of patches for route configurations, listener filters and filter chains.
pub const PATCH_OF_CHAINS: PatchLimit = PatchLimit {
    each: 64 << 10,
    together: 256 << 10,
};

/// Of patches that name the cluster, virtual host, route or route configuration; of listeners; and of filters, which may
/// hold programs. How often filters are repeated counts against [`REPEATED_BYTES`].
pub const PATCH_OF_ONE: PatchLimit = PatchLimit {
    each: 512 << 10,
    together: 2 << 20,
};

/// A product, or `usize::MAX` where it is larger.
pub fn product(factors: impl IntoIterator<Item = usize>) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

/// A limit is exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded;

/// What may still be spent.
#[derive(Clone, Copy, Debug)]
pub struct Budget(usize);

impl Budget {
    /// All of a limit.
    pub fn new(limit: usize) -> Self {
        Self(limit)
    }

    /// Takes a part; where that is more than is left, nothing is taken.
    pub fn spend(&mut self, part: usize) -> Result<(), Exceeded> {
        self.0 = self.0.checked_sub(part).ok_or(Exceeded)?;
        Ok(())
    }

    /// Takes a part, or all that is left.
    pub fn spend_up_to(&mut self, part: usize) {
        self.0 = self.0.saturating_sub(part);
    }
}

/// So many objects of a kind in a namespace are each reported as being over its budget.
const MOST_REPORTED: usize = 100;

/// The objects of one kind in a namespace that are over its budget, as they are reported: each of the first, and the rest in one
/// finding, so that whoever writes very many costs nobody the findings about them.
#[derive(Debug)]
pub struct OverBudget {
    kind: Kind,
    path: &'static str,
    effect: &'static str,
    count: usize,
    /// The first that is not reported by itself.
    next: Option<ObjectName>,
}

impl OverBudget {
    /// Of objects of a kind: the field that is too much, and what becomes of the object.
    pub fn new(kind: Kind, path: &'static str, effect: &'static str) -> Self {
        Self {
            kind,
            path,
            effect,
            count: 0,
            next: None,
        }
    }

    /// Reports each of them.
    pub fn report_all<'n>(
        mut self,
        names: impl IntoIterator<Item = &'n ObjectName>,
        found: &mut Vec<Diagnostic>,
    ) {
        for name in names {
            self.report(name, found);
        }
        self.finish(found);
    }

    /// Reports one of them.
    pub fn report(&mut self, name: &ObjectName, found: &mut Vec<Diagnostic>) {
        self.count += 1;
        if self.count <= MOST_REPORTED {
            found.push(self.finding(name, self.effect));
        } else if self.next.is_none() {
            self.next = Some(name.clone());
        }
    }

    /// Reports the rest.
    pub fn finish(self, found: &mut Vec<Diagnostic>) {
        if let Some(name) = &self.next {
            let effect = self.effect;
            let further = self.count - MOST_REPORTED - 1;
            let effect = match further {
                0 => effect.to_owned(),
                1 => format!("{effect}, and so it is with 1 other of the namespace"),
                _ => format!("{effect}, and so it is with {further} others of the namespace"),
            };
            found.push(self.finding(name, &effect));
        }
    }

    fn finding(&self, name: &ObjectName, effect: &str) -> Diagnostic {
        let why = format!(
            "{effect}: the objects of kind {} in the namespace {} together exceed its budget, and those that come before it have used it up",
            self.kind.name(),
            name.namespace
        );
        about_named(self.kind, name, code::OVER_BUDGET, Severity::Error, why)
            .at(self.path)
            .help("make lists of the object or of those before it shorter, delete some, or raise PILOTHOUSE_NAMESPACE_BUDGET")
    }
}

/// The finding that a field of an object makes too much.
pub fn exceeded(
    (kind, name): (Kind, &ObjectName),
    path: impl Into<String>,
    why: String,
) -> Diagnostic {
    about_named(kind, name, code::OVER_LIMIT, Severity::Error, why)
        .at(path.into())
        .help("split the object, or shorten one of the lists that multiply each other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_objects_over_a_budget_are_reported_each_and_the_rest_together() {
        let reported = |objects: usize| {
            let names: Vec<ObjectName> = (0..objects)
                .map(|n| ObjectName::new("shop", format!("s{n:03}")))
                .collect();
            let mut found = Vec::new();
            let over = OverBudget::new(Kind::Service, "spec.ports", "it is not there");
            over.report_all(&names, &mut found);
            found
        };
        assert_eq!(reported(MOST_REPORTED).len(), MOST_REPORTED);
        let found = reported(MOST_REPORTED + 3);
        let (last, each) = found.split_last().unwrap();
        assert_eq!(each.len(), MOST_REPORTED);
        assert!(each[0].message.starts_with("it is not there: the objects"));
        assert_eq!(
            last.object.as_ref().unwrap().to_string(),
            "Service shop/s100"
        );
        assert!(
            last.message
                .starts_with("it is not there, and so it is with 2 others of the namespace: ")
        );
    }
}
