//! Load balancing, by localities too.

use std::collections::BTreeSet;

use model::hash_table::{self, ENVOY_MAGLEV, ENVOY_RING, HashTable};
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::{HashAlgorithm, HashKey};
use proto_istio::networking::load_balancer_settings::{ConsistentHashLb, LbPolicy};
use proto_istio::networking::{
    LoadBalancerSettings, LocalityLoadBalancerSetting, ZoneAwareLoadBalancerSetting,
};

use crate::report::{At, Report};
use crate::text::{
    Check, countable, duration, header_name_to_match, is_claim, one_line, query_parameter,
};

const TOPOLOGY: [&str; 3] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.istio.io/subzone",
];

/// Istio: pkg/config/validation/validation.go validateLoadBalancer, 1.32.
pub(super) fn check(
    settings: Option<&LoadBalancerSettings>,
    has_outlier: bool,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(settings) = settings else {
        return;
    };
    if let Some(LbPolicy::ConsistentHash(hash)) = &settings.lb_policy {
        consistent_hash(hash, &at.field("consistentHash"), report);
    }
    if settings.locality_lb_setting.is_some() && settings.zone_aware_lb_setting.is_some() {
        report.error(
            &at.field("zoneAwareLbSetting"),
            "only one of `localityLbSetting` and `zoneAwareLbSetting` may be set",
        );
    }
    let setting = settings.locality_lb_setting.as_ref();
    locality(setting, has_outlier, &at.field("localityLbSetting"), report);
    let setting = settings.zone_aware_lb_setting.as_ref();
    zone_aware(
        setting,
        has_outlier,
        &at.field("zoneAwareLbSetting"),
        report,
    );
    if let Some(warmup) = &settings.warmup {
        let at = at.field("warmup");
        let fault = match warmup.duration {
            Some(time) => duration(time),
            None => Err("a time is needed".to_owned()),
        };
        report.check(&at.field("duration"), fault);
        if warmup.minimum_percent.is_some_and(|share| share > 100.0) {
            report.error(&at.field("minimumPercent"), "must be at most 100");
        }
        if warmup.aggression.is_some_and(|much| much <= 0.0) {
            report.error(&at.field("aggression"), "must be more than 0");
        }
    }
}

fn consistent_hash(hash: &ConsistentHashLb, at: &At<'_>, report: &mut Report) {
    match &hash.hash_key {
        Some(HashKey::HttpHeaderName(name)) => {
            let fault = match is_claim(name) {
                true => Err(format!("{name:?} is not the name of a header")),
                false => header_name_to_match(name),
            };
            report.check(&at.field("httpHeaderName"), fault);
        }
        Some(HashKey::HttpQueryParameterName(name)) => {
            report.check(&at.field("httpQueryParameterName"), query_parameter(name));
        }
        _ => {}
    }
    if let Some(HashKey::HttpCookie(cookie)) = &hash.hash_key {
        let at = at.field("httpCookie");
        if cookie.name.is_empty() {
            report.error(&at.field("name"), "a cookie needs a name");
        }
        report.check(&at.field("name"), one_line(&cookie.name));
        report.check(&at.field("path"), one_line(&cookie.path));
        report.check(&at.field("ttl"), cookie.ttl.map_or(Ok(()), countable));
        let mut names = BTreeSet::new();
        for (at, attribute) in at.field("attributes").each(&cookie.attributes) {
            if attribute.name.is_empty() {
                report.error(&at.field("name"), "an attribute needs a name");
            } else if !names.insert(&attribute.name) {
                report.error(&at.field("name"), "the attribute is there twice");
            }
            report.check(&at.field("name"), one_line(&attribute.name));
            report.check(&at.field("value"), one_line(&attribute.value));
        }
    }
    if hash.minimum_ring_size != 0 {
        let at = at.field("minimumRingSize");
        report.warning(&at, "deprecated");
        report.help("use ringHash.minimumRingSize");
        if hash.hash_algorithm.is_some() {
            report.error(&at, "may not be set beside `ringHash` or `maglev`");
        }
        report.check(&at, ring_size(hash.minimum_ring_size));
        large_table(hash, &at, report);
    }
    if let Some(HashAlgorithm::RingHash(ring)) = &hash.hash_algorithm {
        let at = at.field("ringHash");
        let at = at.field("minimumRingSize");
        report.check(&at, ring_size(ring.minimum_ring_size));
        large_table(hash, &at, report);
    }
    if let Some(HashAlgorithm::Maglev(maglev)) = &hash.hash_algorithm {
        let (at, size) = (at.field("maglev"), maglev.table_size);
        let at = at.field("tableSize");
        if size == 0 {
            report.error(&at, "a size is needed");
        } else if size >= ENVOY_MAGLEV {
            report.error(&at, format!("must be less than {ENVOY_MAGLEV}"));
        } else if !is_prime(size) {
            report.error(&at, format!("must be a prime number, {size} is none"));
        } else {
            large_table(hash, &at, report);
        }
    }
}

/// Warns of a table that is made smaller.
fn large_table(hash: &ConsistentHashLb, at: &At<'_>, report: &mut Report) {
    let wanted = HashTable::of(hash);
    let served = wanted.at_most(hash_table::LARGEST);
    if served != wanted {
        let message = format!(
            "{} entries are too many, so {} are used: a proxy builds the table again whenever an endpoint comes or goes, and takes no other configuration meanwhile",
            wanted.size(),
            served.size()
        );
        report.warning(at, message);
    }
}

fn ring_size(size: u64) -> Check {
    if size > ENVOY_RING {
        return Err(format!("must be at most {ENVOY_RING}"));
    }
    Ok(())
}

/// Envoy ends with a signal for a table of one entry.
fn is_prime(n: u64) -> bool {
    n >= 2
        && (n < 4
            || !n.is_multiple_of(2)
                && (3..)
                    .step_by(2)
                    .take_while(|f| f * f <= n)
                    .all(|f| !n.is_multiple_of(f)))
}

/// Istio: pkg/config/validation/agent/validation.go ValidateLocalityLbSetting, 1.32.
pub fn locality(
    setting: Option<&LocalityLoadBalancerSetting>,
    has_outlier: bool,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(setting) = setting else {
        return;
    };
    let failover = !setting.failover.is_empty();
    if !setting.distribute.is_empty() && failover {
        let message = "only one of `distribute` and `failover` may be set";
        return report.error(&at.field("failover"), message);
    }
    if failover {
        for (at, label) in at
            .field("failoverPriority")
            .each(&setting.failover_priority)
        {
            if TOPOLOGY.contains(&label.as_str()) {
                let message = format!("{label} has no place beside `failover`");
                return report.error(&at, message);
            }
        }
    }
    let all = at.field("distribute");
    let mut sources = Vec::new();
    for (at, distribute) in all.each(&setting.distribute) {
        sources.push(distribute.from.as_str());
        let at = at.field("to");
        let mut total = 0;
        for (place, weight) in &distribute.to {
            if !(1..=100).contains(weight) {
                let message = format!("the weight {weight} is not between 1 and 100");
                return report.error(&at.field(place), message);
            }
            total += weight;
        }
        if total != 100 {
            return report.error(&at, format!("the weights add up to {total} and not to 100"));
        }
        let places: Vec<&str> = distribute.to.keys().map(String::as_str).collect();
        report.check(&at, localities(&places));
    }
    report.check(&all, localities(&sources));
    if (failover || !setting.failover_priority.is_empty()) && !has_outlier {
        no_outlier(at, report);
    }
    let pairs = setting.failover.iter().map(|f| (&*f.from, &*f.to));
    failovers(pairs, &at.field("failover"), report);
}

/// Istio: pkg/config/validation/agent/validation.go ValidateZoneAwareLbSetting, 1.32.
pub fn zone_aware(
    setting: Option<&ZoneAwareLoadBalancerSetting>,
    has_outlier: bool,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(setting) = setting else {
        return;
    };
    for (at, label) in at
        .field("failoverPriority")
        .each(&setting.failover_priority)
    {
        if TOPOLOGY.contains(&label.as_str()) {
            report.error(
                &at,
                format!("{label} is looked at anyway, and has no place here"),
            );
        }
    }
    let fails_over = !setting.failover.is_empty() || !setting.failover_priority.is_empty();
    if fails_over && !has_outlier {
        no_outlier(at, report);
    }
    let pairs = setting.failover.iter().map(|f| (&*f.from, &*f.to));
    failovers(pairs, &at.field("failover"), report);
}

fn no_outlier(at: &At<'_>, report: &mut Report) {
    report.warning(
        at,
        "failover needs `outlierDetection`, or nothing is known to have failed",
    );
}

fn failovers<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    at: &At<'_>,
    report: &mut Report,
) {
    for (index, (from, to)) in pairs.enumerate() {
        let at = at.item(index);
        if from == to {
            report.error(&at, "`from` and `to` must be different regions");
        }
        if from.contains('/') || to.contains('/') {
            report.error(&at, "only regions can be named, without zones");
        }
        if from.contains('*') || to.contains('*') {
            report.error(&at, "a region has no wildcard");
        }
    }
}

/// Localities that do not overlap, as `region/zone/subzone` with a wildcard at the end.
///
/// Istio: pkg/config/validation/agent/validation.go validateLocalities, 1.32.
pub(crate) fn localities(localities: &[&str]) -> Check {
    let mut seen: Vec<Vec<&str>> = Vec::new();
    for locality in localities {
        let wildcards = locality.matches('*').count();
        if wildcards > 1 || (wildcards == 1 && !locality.ends_with('*')) {
            return Err(format!(
                "{locality:?}: a wildcard stands at the end, and once"
            ));
        }
        let parts: Vec<&str> = locality.splitn(3, '/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!("{locality:?} has an empty part"));
        }
        let overlaps = |other: &Vec<&str>| {
            // A locality covers what begins like it; `*` stands for any part.
            other == &["*"] || overlap(other, &parts)
        };
        if seen.iter().any(overlaps) {
            return Err(format!("{locality:?} overlaps with one before it"));
        }
        seen.push(parts);
    }
    Ok(())
}

/// Whether `earlier` takes some of what `later` names.
fn overlap(earlier: &[&str], later: &[&str]) -> bool {
    let shared = earlier.len().min(later.len());
    if later.len() == 1 {
        return earlier[0] == later[0];
    }
    let same = |at: usize| earlier[at] == later[at] || (at > 0 && earlier[at] == "*");
    match shared {
        1 => earlier[0] == later[0],
        _ => (0..shared).all(same),
    }
}
