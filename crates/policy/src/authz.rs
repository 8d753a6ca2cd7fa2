//! AuthorizationPolicies as filters: who may do what, checked by Envoy itself (RBAC) or by an authorizer that is asked.
//!
//! Where something cannot be generated, less is allowed and more is denied: a rule that allows is dropped, a condition of
//! a rule that denies is left out, and what an unknown authorizer should have been asked about is denied.
//!
//! Istio: pilot/pkg/security/authz/builder/builder.go, 1.32.

mod condition;
mod grpc;
mod matcher;
mod provider;
mod rule;
mod trust_domain;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::{AuthorizationPolicy, RequestAuthentication};
use model::labels::Labels;
use model::names::Namespace;
use model::object::{Meta, Object, ObjectName};
use model::settings::{MeshConfig, Settings};
use prost::Message;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::config::rbac::v3::{Policy, Rbac, permission, principal, rbac::Action};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use proto_istio::security::Rule;
use proto_istio::security::authorization_policy::{Action as Stated, ActionDetail};
use store::{Reads, Snapshot};

use crate::filters;
use crate::provider_cluster::{self, ProviderCluster};
use condition::Unfit;
pub use grpc::grpc;
use mesh::capabilities::name::{EXT_AUTHZ_HTTP, EXT_AUTHZ_NETWORK, HTTP_RBAC, NETWORK_RBAC};
use mesh::finding;
use mesh::finding::code;
use mesh::limits;
use mesh::policy_target::{Target, oldest_first};
use provider::{POLICY_PREFIX, SHADOW_PREFIX, authorizer};
use rule::{Generation, Strictness};
pub use trust_domain::TrustDomains;
use xds::any;

/// Whose rules are logged only.
const DRY_RUN: &str = "istio.io/dry-run";
const TCP_STAT_PREFIX: &str = "tcp.";
/// What the names of rules end in that deny because their authorizer cannot be asked.
const BAD_PROVIDER: &str = "-deny-due-to-bad-CUSTOM-action";

type PolicyObject = Arc<Object<AuthorizationPolicy>>;

/// The policies for a workload, those of the root namespace first, each oldest first.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    custom: Vec<PolicyObject>,
    audit: Vec<PolicyObject>,
    deny: Vec<PolicyObject>,
    allow: Vec<PolicyObject>,
}

impl Policies {
    /// The policies for workloads with these labels in that namespace.
    pub fn of_workload(cx: &Cx<'_, Snapshot>, namespace: &Namespace, labels: &Labels) -> Self {
        let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
        let mut found = Self::default();
        let spaces: BTreeSet<(bool, &Namespace)> =
            [(*namespace != root, namespace), (false, &root)].into();
        for (_, space) in spaces {
            for policy in oldest_first::<AuthorizationPolicy>(cx, space) {
                let target = Target {
                    namespace: space,
                    selector: policy.spec.selector.as_ref(),
                    target_refs: &policy.spec.target_refs,
                    target_ref: policy.spec.target_ref.as_ref(),
                };
                if target.covers(namespace, labels) {
                    found.add(policy);
                }
            }
            let closed = oldest_first::<RequestAuthentication>(cx, space).into_iter();
            for policy in closed.filter(|policy| policy.meta.closed.is_some()) {
                let target = Target {
                    namespace: space,
                    selector: policy.spec.selector.as_ref(),
                    target_refs: &policy.spec.target_refs,
                    target_ref: policy.spec.target_ref.as_ref(),
                };
                if target.covers(namespace, labels) {
                    found.add(denying(&policy));
                }
            }
        }
        found
    }

    /// The policy that says most.
    pub fn largest(&self) -> Option<&PolicyObject> {
        let all = [&self.custom, &self.audit, &self.deny, &self.allow];
        let all = all.into_iter().flatten();
        all.max_by_key(|policy| policy.spec.encoded_len())
    }

    /// Adds a policy after all others of its action.
    pub fn add(&mut self, policy: PolicyObject) {
        let list = match policy.spec.action() {
            Stated::Allow => &mut self.allow,
            Stated::Deny => &mut self.deny,
            Stated::Audit => &mut self.audit,
            Stated::Custom => &mut self.custom,
        };
        list.push(policy);
    }
}

/// What denies everything where a RequestAuthentication was rejected: which tokens it would have refused is not known.
fn denying(policy: &Object<RequestAuthentication>) -> PolicyObject {
    let ObjectName {
        namespace, name, ..
    } = &policy.meta.name;
    // The rules of filters are told apart by the names of policies.
    let name = ObjectName::new(namespace.clone(), format!("RequestAuthentication/{name}"));
    let spec = AuthorizationPolicy {
        action: Stated::Deny.into(),
        rules: vec![Rule::default()],
        ..AuthorizationPolicy::default()
    };
    Arc::new(Object {
        meta: Meta::new(name, policy.meta.origin.clone()),
        spec,
        status: Default::default(),
    })
}

/// What policies depend on besides themselves.
pub struct Surroundings<'a> {
    /// The mesh config, which names authorizers.
    pub mesh: &'a MeshConfig,
    /// The mesh's trust domains.
    pub trust_domains: TrustDomains,
    /// Whether several authorizers may be asked about one workload.
    pub several_providers: bool,
    /// Finds the cluster of a service and port.
    pub lookup: &'a dyn Fn(&str, u32) -> Option<ProviderCluster>,
}

impl<'a> Surroundings<'a> {
    /// Those of a snapshot.
    pub fn with<T>(
        cx: &Cx<'_, Snapshot>,
        settings: &Settings,
        use_: impl FnOnce(&Surroundings<'_>) -> T,
    ) -> T {
        let lookup = |service: &str, port| provider_cluster::lookup(cx, service, port);
        let mesh = &settings.mesh;
        use_(&Surroundings {
            mesh,
            trust_domains: TrustDomains::new(&mesh.trust_domain, &mesh.trust_domain_aliases),
            several_providers: settings.features.multiple_custom_authz_providers,
            lookup: &lookup,
        })
    }
}

/// The filters of one kind of chain.
pub struct Filters<T> {
    /// Those that ask authorizers.
    pub custom: Vec<T>,
    /// Envoy's own.
    pub local: Vec<T>,
}

/// The filters of HTTP chains.
pub fn http(
    policies: &Policies,
    around: &Surroundings<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Filters<hcm::HttpFilter> {
    let mut building = Building::new(around, false, diagnostics);
    let rbac = |rules: Sets| {
        filters::http(
            HTTP_RBAC,
            any(&HttpRbac {
                shadow_rules_stat_prefix: rules.shadow_prefix(),
                rules: rules.enforced,
                shadow_rules: rules.shadow,
                ..Default::default()
            }),
        )
    };
    building.filters(policies, rbac, |authorizer| {
        Some(filters::http(EXT_AUTHZ_HTTP, any(&authorizer.http)))
    })
}

/// The filters of TCP chains.
pub fn tcp(
    policies: &Policies,
    around: &Surroundings<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Filters<listener::Filter> {
    let mut building = Building::new(around, true, diagnostics);
    let rbac = |rules: Sets| {
        filters::network(
            NETWORK_RBAC,
            any(&NetworkRbac {
                stat_prefix: TCP_STAT_PREFIX.to_owned(),
                shadow_rules_stat_prefix: rules.shadow_prefix(),
                rules: rules.enforced,
                shadow_rules: rules.shadow,
                ..Default::default()
            }),
        )
    };
    building.filters(policies, rbac, |authorizer| {
        let tcp = authorizer.tcp.as_ref()?;
        Some(filters::network(EXT_AUTHZ_NETWORK, any(tcp)))
    })
}

/// The rules of one filter.
#[derive(Default)]
struct Sets {
    enforced: Option<Rbac>,
    shadow: Option<Rbac>,
    /// What the shadow rules leave their findings under, where that is not said by their action.
    prefix: Option<&'static str>,
}

impl Sets {
    fn enforced(rules: Rbac) -> Self {
        Self {
            enforced: Some(rules),
            shadow: None,
            prefix: Some(""),
        }
    }

    fn shadow_prefix(&self) -> String {
        let of_action = || match self.shadow.as_ref().map(Rbac::action) {
            // Istio takes the action of no rules at all for the default, which is to allow.
            None | Some(Action::Allow) => "istio_dry_run_allow_",
            Some(Action::Deny) => "istio_dry_run_deny_",
            Some(Action::Log) => "",
        };
        self.prefix.unwrap_or_else(of_action).to_owned()
    }
}

/// What becomes of the policies of one authorizer.
enum Asked {
    /// It cannot be asked: all that its rules take is denied.
    Denied(Rbac),
    Authorizer {
        sets: Sets,
        authorizer: Box<provider::Authorizer>,
    },
}

struct Building<'a, 'd> {
    around: &'a Surroundings<'a>,
    tcp: bool,
    /// What repeating conditions may still add, in all policies together.
    budget: limits::Budget,
    /// What was told already.
    told: BTreeSet<Diagnostic>,
    diagnostics: &'d mut Vec<Diagnostic>,
}

impl<'a, 'd> Building<'a, 'd> {
    fn new(around: &'a Surroundings<'a>, tcp: bool, diagnostics: &'d mut Vec<Diagnostic>) -> Self {
        Self {
            around,
            tcp,
            budget: limits::Budget::new(limits::POLICY_BYTES),
            told: diagnostics.iter().cloned().collect(),
            diagnostics,
        }
    }
}

impl Building<'_, '_> {
    /// The filters, each made of its rules or of its authorizer; `ask` is `None` for one that understands requests only.
    fn filters<T>(
        &mut self,
        policies: &Policies,
        rbac: impl Fn(Sets) -> T,
        ask: impl Fn(&provider::Authorizer) -> Option<T>,
    ) -> Filters<T> {
        let mut custom = Vec::new();
        for asked in self.custom(&policies.custom) {
            match asked {
                Asked::Denied(rules) => custom.push(rbac(Sets::enforced(rules))),
                Asked::Authorizer { sets, authorizer } => {
                    if let Some(filter) = ask(&authorizer) {
                        custom.extend([rbac(sets), filter]);
                    }
                }
            }
        }
        Filters {
            custom,
            local: self.local(policies).into_iter().map(rbac).collect(),
        }
    }

    /// What Envoy checks itself, in order: what is logged, what is denied, what is allowed.
    fn local(&mut self, policies: &Policies) -> Vec<Sets> {
        [
            (&policies.audit, Action::Log),
            (&policies.deny, Action::Deny),
            (&policies.allow, Action::Allow),
        ]
        .into_iter()
        .filter(|(list, _)| !list.is_empty())
        .map(|(list, action)| {
            let mut sets = Sets::default();
            for policy in list {
                let set = match dry_run(policy) {
                    true => &mut sets.shadow,
                    false => &mut sets.enforced,
                };
                let rules = set.get_or_insert_with(|| empty(action));
                let named = rule_name("", &policy.meta.name);
                self.rules(policy, action, &named, rules);
            }
            sets
        })
        .collect()
    }

    /// What authorizers are asked about, each by itself.
    fn custom(&mut self, policies: &[PolicyObject]) -> Vec<Asked> {
        let mut by_provider: BTreeMap<&str, (Rbac, Rbac, Vec<&PolicyObject>)> = BTreeMap::new();
        for policy in policies {
            let provider = match &policy.spec.action_detail {
                Some(ActionDetail::Provider(provider)) => provider.name.as_str(),
                None => "",
            };
            let (enforced, dry, of) = by_provider
                .entry(provider)
                .or_insert_with(|| (empty(Action::Deny), empty(Action::Deny), Vec::new()));
            of.push(policy);
            let prefix = match provider {
                "" => format!("{POLICY_PREFIX}-"),
                provider => format!("{POLICY_PREFIX}-{provider}-"),
            };
            let rules = if dry_run(policy) { dry } else { enforced };
            let named = rule_name(&prefix, &policy.meta.name);
            self.rules(policy, Action::Deny, &named, rules);
        }
        let several = by_provider.len() > 1 && !self.around.several_providers;
        by_provider
            .into_iter()
            .map(|(provider, (enforced, dry, of))| {
                let found = if several {
                    Err("several authorizers are named for one workload".to_owned())
                } else {
                    authorizer(self.around.mesh, self.around.lookup, provider)
                };
                match found {
                    Ok(authorizer) => {
                        if self.tcp && authorizer.tcp.is_none() {
                            for policy in of {
                                let why = format!(
                                    "authorizer {provider:?} understands requests only: \
                                     connections to TCP ports are let through unasked"
                                );
                                self.report(
                                    policy,
                                    code::UNASKED,
                                    "spec.provider.name".to_owned(),
                                    why,
                                );
                            }
                        }
                        Asked::Authorizer {
                            sets: Sets {
                                shadow: Some(enforced),
                                enforced: (!dry.policies.is_empty()).then_some(dry),
                                prefix: Some(SHADOW_PREFIX),
                            },
                            authorizer: Box::new(authorizer),
                        }
                    }
                    Err(why) => {
                        for policy in of {
                            self.report(
                                policy,
                                code::NO_AUTHORIZER,
                                "spec.provider.name".to_owned(),
                                format!("everything the policy is about is denied: {why}"),
                            );
                        }
                        Asked::Denied(denied(enforced))
                    }
                }
            })
            .collect()
    }

    /// Adds the rules of a policy, under their names.
    fn rules(
        &mut self,
        policy: &PolicyObject,
        action: Action,
        named: &dyn Fn(usize) -> String,
        rules: &mut Rbac,
    ) {
        let name = &policy.meta.name;
        for (at, rule) in policy.spec.rules.iter().enumerate() {
            let mut problems = Vec::new();
            let strictness = match action {
                Action::Allow => Strictness::Drop,
                Action::Deny | Action::Log => Strictness::Widen,
            };
            let mut generation = Generation {
                namespace: &name.namespace,
                trust_domains: &self.around.trust_domains,
                tcp: self.tcp,
                strictness,
                budget: &mut self.budget,
                unfit: &mut |why| problems.push(why),
            };
            let generated = generation.policy(rule);
            for why in problems {
                let (code, why) = match why {
                    Unfit::TooLarge => {
                        self.tell(too_large(name, at, strictness));
                        continue;
                    }
                    Unfit::Invalid(why) => (code::NOT_UNDERSTOOD, why),
                    Unfit::RequestsOnly(what) => (
                        code::REQUESTS_ONLY,
                        format!("a TCP port does not know {what} of its connections"),
                    ),
                };
                let effect = match strictness {
                    Strictness::Drop => "the whole rule is left out and allows nothing",
                    Strictness::Widen => {
                        "the condition is left out, and the rule takes all that its others match"
                    }
                };
                let path = format!("spec.rules[{at}]");
                self.report(policy, code, path, format!("{why}: {effect}"));
            }
            rules
                .policies
                .extend(generated.map(|policy| (named(at), policy)));
        }
        if policy.spec.rules.is_empty() {
            rules.policies.insert(named(0), never());
        }
    }

    fn report(&mut self, policy: &PolicyObject, code: &'static str, path: String, why: String) {
        self.tell(finding::about(policy, code, Severity::Error, why).at(path));
    }

    fn tell(&mut self, diagnostic: Diagnostic) {
        if self.told.insert(diagnostic.clone()) {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// The names of a policy's rules.
fn rule_name(prefix: &str, policy: &ObjectName) -> impl Fn(usize) -> String {
    move |at| {
        format!(
            "{prefix}ns[{}]-policy[{}]-rule[{at}]",
            policy.namespace, policy.name
        )
    }
}

/// What is said of a rule whose conditions are too many.
fn too_large(policy: &ObjectName, rule: usize, strictness: Strictness) -> Diagnostic {
    let effect = match strictness {
        Strictness::Drop => "the rule is left out and allows nothing",
        Strictness::Widen => "the rule takes everything",
    };
    let why = format!(
        "{effect}: conditions, repeated for each source and operation, are more than {} MiB for the workload",
        limits::POLICY_BYTES >> 20
    );
    let of = (Kind::AuthorizationPolicy, policy);
    limits::exceeded(of, format!("spec.rules[{rule}].when"), why)
}

fn dry_run(policy: &PolicyObject) -> bool {
    matches!(
        policy.meta.annotations.get(DRY_RUN),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True")
    )
}

fn empty(action: Action) -> Rbac {
    Rbac {
        action: action as i32,
        ..Default::default()
    }
}

fn denied(rules: Rbac) -> Rbac {
    Rbac {
        action: Action::Deny as i32,
        policies: rules
            .policies
            .into_iter()
            .map(|(name, policy)| (format!("{name}{BAD_PROVIDER}"), policy))
            .collect(),
        ..Default::default()
    }
}

/// A policy that nothing matches: without rules nothing is allowed.
fn never() -> Policy {
    let any = condition::permission(permission::Rule::Any(true));
    let anybody = condition::principal(principal::Identifier::Any(true));
    Policy {
        permissions: vec![condition::permission(permission::Rule::NotRule(Box::new(
            any,
        )))],
        principals: vec![condition::principal(principal::Identifier::NotId(
            Box::new(anybody),
        ))],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
