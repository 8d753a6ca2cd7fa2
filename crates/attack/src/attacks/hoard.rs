//! Everything that one tenant may write of a kind, so that lists multiply each other: 15 MB of it, in objects that are each
//! below every limit of one object.
//!
//! Proxies of the tenant and gateways that all share ask for whatever is made of it. What is measured is what everybody pays:
//! memory, and the time that a change of somebody else takes.

mod canaries;
mod objects;
mod proxies;
mod services;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::server::Setup;

/// How much of it there is.
const BYTES: usize = 15 << 20;

const SETUP: Setup = Setup {
    environment: &[("PILOTHOUSE_INGRESS_CLASSES", "nginx")],
    before: objects::before,
    ..Setup::PLAIN
};

const fn hoard(name: &'static str, about: &'static str, run: fn(Arc<Target>) -> Running) -> Attack {
    Attack {
        setup: SETUP,
        memory_mib: 300,
        cpu_s: 20.0,
        // Reading so much takes its time without optimisation, on a machine that others use as well.
        stall: Duration::from_secs(120),
        delay: Duration::from_secs(1),
        least: Duration::from_secs(10),
        ..Attack::new(name, "16", about, run)
    }
}

/// Of the audit: each canary repeats the rules of its base.
pub(super) const CANARY_BOMB: Attack = hoard(
    "canary-bomb",
    "Ingresses: 1,000 paths of one host and 130 canaries of them, and 700 canaries of 20 paths",
    |target| writes(target, canaries::bomb),
);

/// The same, below the limit of each host.
pub(super) const CANARY_HOSTS: Attack = hoard(
    "canary-hosts",
    "canaries of very many hosts, each host just below its limit",
    |target| writes(target, canaries::hosts),
);

pub(super) const INGRESSES: Attack = hoard(
    "hoard-ingresses",
    "Ingresses whose annotations say much of 100 paths of many hosts",
    |target| writes(target, canaries::paths),
);

pub(super) const RULES: Attack = hoard(
    "hoard-rules",
    "VirtualServices with 200 matches of a route that says much",
    |target| writes(target, objects::rules),
);

pub(super) const RULE_HOSTS: Attack = hoard(
    "hoard-rule-hosts",
    "VirtualServices with 200 hosts at several gateways",
    |target| writes(target, objects::rule_hosts),
);

pub(super) const DELEGATES: Attack = hoard(
    "hoard-delegates",
    "VirtualServices that delegate to the same one of 500 routes",
    |target| writes(target, objects::delegates),
);

pub(super) const SETTINGS: Attack = hoard(
    "hoard-settings",
    "DestinationRules with as many subsets as a service may have",
    |target| writes(target, objects::settings),
);

pub(super) const WILDCARDS: Attack = hoard(
    "hoard-wildcards",
    "DestinationRules with subsets for wildcards, and services below them",
    |target| writes(target, objects::wildcards),
);

pub(super) const ENTRIES: Attack = hoard(
    "hoard-entries",
    "ServiceEntries of 128 hosts times 128 ports",
    |target| writes(target, objects::entries),
);

pub(super) const ENDPOINTS: Attack = hoard(
    "hoard-endpoints",
    "ServiceEntries of 50 hosts times 10 ports times 490 endpoints",
    |target| writes(target, objects::endpoints),
);

pub(super) const PATCHES: Attack = hoard(
    "hoard-patches",
    "EnvoyFilters that put programs before the requests of every listener",
    |target| writes(target, objects::patches),
);

pub(super) const POLICIES: Attack = hoard(
    "hoard-policies",
    "AuthorizationPolicies of many addresses, which every filter chain repeats",
    |target| writes(target, objects::policies),
);

pub(super) const EXTENSIONS: Attack = hoard(
    "hoard-extensions",
    "WasmPlugins with large configurations, which every filter chain repeats",
    |target| writes(target, objects::extensions),
);

pub(super) const TELEMETRY: Attack = hoard(
    "hoard-telemetry",
    "Telemetries with large expressions, which every filter chain repeats",
    |target| writes(target, objects::telemetry),
);

pub(super) const SIDECARS: Attack = hoard(
    "hoard-sidecars",
    "Sidecars with very many egress listeners",
    |target| writes(target, objects::sidecars),
);

pub(super) const GATEWAYS: Attack = hoard(
    "hoard-gateways",
    "Gateways with 500 servers each, every server on a port of its own",
    |target| writes(target, objects::gateways),
);

pub(super) const SMALL_GATEWAYS: Attack = hoard(
    "hoard-small-gateways",
    "Gateways of one server with TLS, and a rule for all of their hosts",
    |target| writes(target, objects::small_gateways),
);

pub(super) const SMALL_RULES: Attack = hoard(
    "hoard-small-rules",
    "VirtualServices that each make less than is free",
    |target| writes(target, objects::small_rules),
);

pub(super) const SERVICES: Attack = hoard("hoard-services", "Services of 500 ports", |target| {
    writes(target, services::ports)
});

pub(super) const SMALL_SERVICES: Attack =
    hoard("hoard-small-services", "Services of one port", |target| {
        writes(target, services::small)
    });

pub(super) const SLICES: Attack = hoard(
    "hoard-slices",
    "EndpointSlices of 100 endpoints times 100 ports",
    |target| writes(target, services::slices),
);

pub(super) const SMALL_SLICES: Attack = hoard(
    "hoard-small-slices",
    "EndpointSlices that each make less than is free",
    |target| writes(target, services::small_slices),
);

pub(super) const WORKLOADS: Attack = hoard(
    "hoard-workloads",
    "1,000 WorkloadEntries that every Service and ServiceEntry selects",
    |target| writes(target, services::workloads),
);

pub(super) const PLAIN_INGRESSES: Attack = hoard(
    "hoard-plain-ingresses",
    "Ingresses of Istio's class with 100 paths of a host",
    |target| writes(target, canaries::plain),
);

pub(super) const LISTENERS: Attack = hoard(
    "hoard-listeners",
    "Gateways of the Gateway API with 64 listeners",
    |target| writes(target, objects::listeners),
);

pub(super) const ROUTES: Attack = hoard(
    "hoard-routes",
    "HTTPRoutes of 16 hosts at 64 listeners",
    |target| writes(target, objects::routes),
);

/// Writes what a function makes of a number of bytes, and takes it away at the end.
fn writes(target: Arc<Target>, of: fn(usize) -> String) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let readers = proxies::start(&target);
        let path = target.places.config.join("tenant.yaml");
        let text = of(target.many(BYTES));
        outcome.sent = text.len() as u64;
        let part = target.places.config.join(".tenant");
        fs::write(&part, text)?;
        fs::rename(&part, &path)?;
        target.hold().await;
        drop(readers);
        fs::remove_file(&path)?;
        Ok(outcome)
    })
}
