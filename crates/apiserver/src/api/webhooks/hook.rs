//! Webhooks as configurations state them, ready to be asked.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use model::kinds::gateway_api::LabelSelector;
use serde::Deserialize;
use validate::cel::Condition;

use super::client::{Client, ClientConfig};
use super::rule::Rule;
use crate::api::implied::{Implied, with_implied};
use crate::store::{ResourceName, Store, Stored};

/// Where the kinds of configurations are kept.
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// A version of AdmissionReview.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    /// Whether rules match other versions of a resource as well.
    pub(super) equivalent: bool,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    /// Or why they cannot be read.
    pub(super) conditions: Result<Vec<Condition>, String>,
    pub(super) timeout: Duration,
    /// Whether a request goes on where the webhook cannot be called.
    pub(super) ignore: bool,
    /// Whether it is asked again when one behind it changes the object.
    pub(super) again: bool,
    pub(super) dry_runs: bool,
    /// The first version it reads that is known here.
    pub(super) review: Option<ReviewVersion>,
    pub(super) client: Client,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    name: String,
    client_config: ClientConfig,
    #[serde(default)]
    rules: Vec<Rule>,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    namespace_selector: Option<LabelSelector>,
    object_selector: Option<LabelSelector>,
    #[serde(default)]
    match_conditions: Vec<WrittenCondition>,
    timeout_seconds: Option<u64>,
    side_effects: Option<String>,
    #[serde(default)]
    admission_review_versions: Vec<String>,
    reinvocation_policy: Option<String>,
}

#[derive(Deserialize)]
struct WrittenCondition {
    expression: String,
}

impl Hook {
    fn of(written: Written) -> Self {
        let conditions = written.match_conditions.iter().map(|condition| {
            let expression = &condition.expression;
            Condition::compile(expression)
                .map_err(|fault| format!("expression '{expression}' resulted in error: {fault}"))
        });
        let mut versions = written.admission_review_versions.iter();
        Self {
            conditions: conditions.collect(),
            name: written.name,
            rules: written.rules,
            equivalent: written.match_policy.as_deref() != Some("Exact"),
            namespaces: written.namespace_selector.unwrap_or_default(),
            objects: written.object_selector.unwrap_or_default(),
            timeout: Duration::from_secs(written.timeout_seconds.unwrap_or(10).clamp(1, 30)),
            ignore: written.failure_policy.as_deref() == Some("Ignore"),
            again: written.reinvocation_policy.as_deref() == Some("IfNeeded"),
            dry_runs: matches!(
                written.side_effects.as_deref(),
                Some("None" | "NoneOnDryRun")
            ),
            review: versions.find_map(|version| match version.as_str() {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1Beta1),
                _ => None,
            }),
            client: Client::new(written.client_config),
        }
    }
}

/// The webhooks of one configuration, as it is at a revision.
#[derive(Debug)]
struct Configuration {
    name: Arc<str>,
    /// What it was read from.
    stored: Arc<Stored>,
    hooks: Vec<Arc<Hook>>,
}

impl Configuration {
    fn read(name: &Arc<str>, stored: &Arc<Stored>) -> Self {
        let object = stored.value();
        let written = object["webhooks"].as_array().into_iter().flatten();
        let hooks = written.filter_map(|hook| match Written::deserialize(hook) {
            Ok(written) => Some(Arc::new(Hook::of(written))),
            Err(error) => {
                let hook = hook["name"].as_str().unwrap_or_default();
                tracing::warn!(configuration = %name, hook, %error, "A stored webhook cannot be read and is not asked.");
                None
            }
        });
        Self {
            name: name.clone(),
            stored: stored.clone(),
            hooks: hooks.collect(),
        }
    }

    fn is_of(&self, name: &Arc<str>, stored: &Arc<Stored>) -> bool {
        self.name == *name && Arc::ptr_eq(&self.stored, stored)
    }
}

/// All webhooks of a sort, in the order in which they are asked.
#[derive(Debug)]
struct Sort {
    resource: ResourceName,
    configurations: Arc<[Arc<Configuration>]>,
    hooks: Arc<[Arc<Hook>]>,
}

impl Sort {
    fn empty(resource: &str) -> Self {
        Self {
            resource: resource.into(),
            configurations: Arc::new([]),
            hooks: Arc::new([]),
        }
    }

    fn is_of(&self, there: &[(Arc<str>, Arc<Stored>)]) -> bool {
        let known = self.configurations.iter();
        let mut pairs = there.iter().zip(known);
        there.len() == self.configurations.len()
            && pairs.all(|((name, stored), known)| known.is_of(name, stored))
    }

    /// What there is now; what has not changed is not read again.
    fn read(&self, there: &[(Arc<str>, Arc<Stored>)]) -> Self {
        let known: HashMap<_, _> = self
            .configurations
            .iter()
            .map(|known| (&known.name, known))
            .collect();
        let configurations = there.iter().map(|(name, stored)| {
            let known = known.get(name).filter(|known| known.is_of(name, stored));
            match known {
                Some(known) => (*known).clone(),
                None => Arc::new(Configuration::read(name, stored)),
            }
        });
        let configurations: Arc<[Arc<Configuration>]> = configurations.collect();
        let hooks = configurations.iter().flat_map(|c| c.hooks.iter().cloned());
        Self {
            resource: self.resource.clone(),
            hooks: hooks.collect(),
            configurations,
        }
    }
}

/// The webhooks that are stored or implied.
#[derive(Debug)]
pub(super) struct Hooks {
    mutating: RwLock<Sort>,
    validating: RwLock<Sort>,
}

impl Hooks {
    pub(super) fn new() -> Self {
        Self {
            mutating: RwLock::new(Sort::empty(MUTATING)),
            validating: RwLock::new(Sort::empty(VALIDATING)),
        }
    }

    /// Those that change objects, by the names of their configurations.
    pub(super) fn mutating(&self, store: &Store, implied: &Implied) -> Arc<[Arc<Hook>]> {
        current(&self.mutating, store, implied)
    }

    /// Those that judge objects, by the names of their configurations.
    pub(super) fn validating(&self, store: &Store, implied: &Implied) -> Arc<[Arc<Hook>]> {
        current(&self.validating, store, implied)
    }
}

fn current(sort: &RwLock<Sort>, store: &Store, implied: &Implied) -> Arc<[Arc<Hook>]> {
    let known = || sort.read().unwrap_or_else(PoisonError::into_inner);
    let there: Vec<_> = {
        let (memory, known) = (store.read(), known());
        let implied = implied.all(&memory, &known.resource, None, None);
        let all = with_implied(memory.list(&known.resource, None, None), &implied);
        let there: Vec<_> = all
            .map(|(id, stored)| (id.name.clone(), stored.clone()))
            .collect();
        if known.is_of(&there) {
            return known.hooks.clone();
        }
        there
    };
    // Conditions take a while to compile, and nobody waits for it.
    let read = known().read(&there);
    let hooks = read.hooks.clone();
    *sort.write().unwrap_or_else(PoisonError::into_inner) = read;
    hooks
}
