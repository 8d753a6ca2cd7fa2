//! Telemetry.

use proto_istio::telemetry::metric_selector::MetricMatch;
use proto_istio::telemetry::metrics_overrides::tag_override::Operation;
use proto_istio::telemetry::tracing::custom_tag::Type;
use proto_istio::telemetry::{Metrics, ProviderRef, Telemetry, Tracing};

use super::selector;
use crate::cel;
use crate::report::{At, Report};
use crate::text::expansion;

pub(super) fn check(telemetry: &Telemetry, at: &At<'_>, report: &mut Report) {
    selector::policy(
        telemetry.selector.as_ref(),
        telemetry.target_ref.as_ref(),
        &telemetry.target_refs,
        at,
        report,
    );
    for (at, of) in at.field("metrics").each(&telemetry.metrics) {
        metrics(of, &at, report);
    }
    let at_tracing = at.field("tracing");
    if telemetry.tracing.len() > 1 {
        report.warning(&at_tracing, "only the first entry is used");
    }
    for (at, of) in at_tracing.each(&telemetry.tracing) {
        tracing(of, &at, report);
    }
    for (at, logging) in at.field("accessLogging").each(&telemetry.access_logging) {
        if let Some(filter) = &logging.filter
            && let Err(fault) = cel::envoy::check(&filter.expression)
        {
            report.error(&at.field("filter").field("expression"), fault);
        }
        providers(&logging.providers, &at, report);
    }
}

fn metrics(metrics: &Metrics, at: &At<'_>, report: &mut Report) {
    providers(&metrics.providers, at, report);
    for (at, of) in at.field("overrides").each(&metrics.overrides) {
        let at_tags = at.field("tagOverrides");
        for (name, tag) in &of.tag_overrides {
            let at = at_tags.field(name);
            if name.is_empty() {
                report.warning(&at, "the name of the tag is empty");
            }
            match tag.operation() {
                Operation::Upsert if tag.value.is_empty() => {
                    report.error(&at.field("value"), "UPSERT needs a value");
                }
                Operation::Remove if !tag.value.is_empty() => {
                    report.error(&at.field("value"), "REMOVE has no value");
                }
                Operation::Upsert => {
                    report.check(&at.field("value"), cel::envoy::check(&tag.value));
                }
                _ => {}
            }
        }
        if let Some(MetricMatch::CustomMetric(name)) =
            of.r#match.as_ref().and_then(|m| m.metric_match.as_ref())
            && name.is_empty()
        {
            let at = at.field("match");
            report.error(&at.field("customMetric"), "a name is needed");
        }
    }
}

fn tracing(tracing: &Tracing, at: &At<'_>, report: &mut Report) {
    if tracing.providers.len() > 1 {
        report.warning(&at.field("providers"), "only the first one is used");
    }
    providers(&tracing.providers, at, report);
    let share = tracing.random_sampling_percentage;
    if share.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
        let at = at.field("randomSamplingPercentage");
        report.error(&at, "must be between 0 and 100");
    }
    let at_tags = at.field("customTags");
    for (name, tag) in &tracing.custom_tags {
        let at = at_tags.field(name);
        if name.is_empty() {
            report.error(&at, "the name of the tag is empty");
        }
        if let Some(Type::Formatter(formatter)) = &tag.r#type {
            let size = expansion(&formatter.value);
            report.check(&at.field("formatter").field("value"), size);
        }
        let (field, text) = match &tag.r#type {
            Some(Type::Literal(literal)) => ("literal", &literal.value),
            Some(Type::Header(header)) => ("header", &header.name),
            Some(Type::Environment(environment)) => ("environment", &environment.name),
            _ => continue,
        };
        if text.is_empty() {
            report.error(&at.field(field), "must not be empty");
        }
    }
}

fn providers(providers: &[ProviderRef], at: &At<'_>, report: &mut Report) {
    for (at, provider) in at.field("providers").each(providers) {
        if provider.name.is_empty() {
            report.error(&at.field("name"), "the name of a provider is needed");
        }
    }
}
