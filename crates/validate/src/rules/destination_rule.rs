//! DestinationRule.

use std::collections::{BTreeMap, BTreeSet};

use model::{Meta, labels};
use proto_istio::networking::DestinationRule;

use super::export_to::{self, Exports};
use super::{selector, traffic_policy};
use crate::report::{At, Report};
use crate::text::{Check, is_label, wildcard_domain};

pub(super) fn check(rule: &DestinationRule, meta: &Meta, at: &At<'_>, report: &mut Report) {
    report.check(&at.field("host"), wildcard_domain(&rule.host));
    let policy = rule.traffic_policy.as_ref();
    let namespace = meta.namespace();
    traffic_policy::check(policy, namespace, &at.field("trafficPolicy"), report);
    let mut names = BTreeSet::new();
    for (at, subset) in at.field("subsets").each(&rule.subsets) {
        if !names.insert(&subset.name) {
            let message = format!("there is another subset {:?}", subset.name);
            report.error(&at.field("name"), message);
        }
        report.check(&at.field("name"), subset_name(&subset.name));
        label_pairs(&subset.labels, &at.field("labels"), report);
        let policy = subset.traffic_policy.as_ref();
        let mut found = Report::default();
        traffic_policy::check(policy, namespace, &at.field("trafficPolicy"), &mut found);
        // As in Istio, only the policy for all subsets warns.
        report.0.extend(found.into_errors());
    }
    let may = match &rule.workload_selector {
        Some(_) => Exports::OwnNamespace,
        None => Exports::Any,
    };
    export_to::check(&rule.export_to, namespace, may, at, report);
    // The selector stands under another name than in policies.
    let mut found = Report::default();
    selector::workloads(rule.workload_selector.as_ref(), at, &mut found);
    for mut remark in found.0 {
        if let Some(step) = remark.path.0.get_mut(1) {
            *step = model::parse::Step::Field("workloadSelector".into());
        }
        report.0.push(remark);
    }
}

/// The name of a subset.
pub(super) fn subset_name(name: &str) -> Check {
    match name {
        "" => Err("a subset needs a name".to_owned()),
        _ if is_label(name) => Ok(()),
        _ => Err(format!("{name:?} is not a subset name")),
    }
}

/// Pairs that labels of workloads can be.
pub(super) fn label_pairs(pairs: &BTreeMap<String, String>, at: &At<'_>, report: &mut Report) {
    for (key, value) in pairs {
        if let Some(fault) = labels::fault(key, value) {
            report.error(&at.field(key), format!("`{key}: {value}` {fault}"));
        }
    }
}
