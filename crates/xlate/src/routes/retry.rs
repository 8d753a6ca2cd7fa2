//! Retry policies.
//!
//! Istio: pilot/pkg/networking/core/route/retry/retry.go, 1.32.

use model::work;
use proto_envoy::envoy::config::route::v3::RetryPolicy;
use proto_envoy::envoy::config::route::v3::retry_policy::{
    RetryBackOff, RetryHostPredicate, RetryPriority, retry_host_predicate, retry_priority,
};
use proto_envoy::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use proto_envoy::envoy::extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig;
use proto_istio::networking::HttpRetry;

use xds::any;

const CONDITIONS: &str =
    "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";
const STATUS_CODES: &str = "retriable-status-codes";

/// The policy of an outbound route: that of the rule, else of the mesh, else the default. None where retries are
/// switched off. With a consistent hash a retry goes to the same host.
pub(super) fn outbound(stated: Option<&HttpRetry>, consistent_hash: bool) -> Option<RetryPolicy> {
    let mut policy = RetryPolicy {
        num_retries: Some(2),
        retry_on: CONDITIONS.to_owned(),
        host_selection_retry_max_attempts: 5,
        ..RetryPolicy::default()
    };
    let mut other_hosts = !consistent_hash;
    if let Some(stated) = stated {
        apply(&mut policy, stated)?;
        policy.per_try_timeout = stated.per_try_timeout.map(Into::into);
        other_hosts = stated.retry_ignore_previous_hosts.unwrap_or(other_hosts);
        if stated.retry_remote_localities == Some(true) {
            policy.retry_priority = Some(previous_priorities());
        }
    }
    if other_hosts {
        policy.retry_host_predicate = vec![previous_hosts()];
    }
    Some(policy)
}

/// The policy of an inbound route: that of the mesh, else the default. None where retries are switched off.
pub(crate) fn inbound(stated: Option<&HttpRetry>) -> Option<RetryPolicy> {
    let mut policy = RetryPolicy {
        num_retries: Some(2),
        retry_on: "reset-before-request".to_owned(),
        ..RetryPolicy::default()
    };
    if let Some(stated) = stated {
        apply(&mut policy, stated)?;
    }
    Some(policy)
}

/// Takes what a policy states; none where it switches retries off.
fn apply(policy: &mut RetryPolicy, stated: &HttpRetry) -> Option<()> {
    let attempts = u32::try_from(stated.attempts).ok().filter(|n| *n > 0)?;
    policy.num_retries = Some(attempts.min(work::RETRIES));
    if !stated.retry_on.is_empty() {
        (policy.retry_on, policy.retriable_status_codes) = conditions(&stated.retry_on);
        if !policy.retriable_status_codes.is_empty() && !policy.retry_on.contains(STATUS_CODES) {
            policy.retry_on.push(',');
            policy.retry_on.push_str(STATUS_CODES);
        }
    }
    policy.retry_back_off = stated.backoff.map(|base| RetryBackOff {
        base_interval: Some(base.into()),
        max_interval: None,
    });
    Some(())
}

/// Splits a list of conditions into Envoy's words and status codes.
fn conditions(text: &str) -> (String, Vec<u32>) {
    let mut words = Vec::new();
    let mut codes = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        match part.parse::<u32>().ok().filter(|code| is_status(*code)) {
            Some(code) => codes.push(code),
            None => words.push(part),
        }
    }
    (words.join(","), codes)
}

/// Whether a number is a registered HTTP status.
fn is_status(code: u32) -> bool {
    matches!(
        code,
        100..=103
            | 200..=208
            | 226
            | 300..=305
            | 307
            | 308
            | 400..=418
            | 421..=426
            | 428
            | 429
            | 431
            | 451
            | 500..=508
            | 510
            | 511
    )
}

fn previous_hosts() -> RetryHostPredicate {
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(any(
            &PreviousHostsPredicate::default(),
        ))),
    }
}

fn previous_priorities() -> RetryPriority {
    RetryPriority {
        name: "envoy.retry_priorities.previous_priorities".to_owned(),
        config_type: Some(retry_priority::ConfigType::TypedConfig(any(
            &PreviousPrioritiesConfig {
                update_frequency: 2,
            },
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{conditions, outbound};
    use proto_istio::networking::HttpRetry;

    #[test]
    fn numbers_among_the_conditions_are_status_codes() {
        assert_eq!(
            conditions(" 503, reset ,,999"),
            ("reset,999".to_owned(), vec![503])
        );
    }

    #[test]
    fn status_codes_bring_the_condition_that_uses_them() {
        let stated = HttpRetry {
            attempts: 1,
            retry_on: "503".to_owned(),
            ..HttpRetry::default()
        };
        let policy = outbound(Some(&stated), false).unwrap();
        assert_eq!(policy.retry_on, ",retriable-status-codes");
    }

    #[test]
    fn no_attempts_are_no_policy() {
        assert_eq!(outbound(Some(&HttpRetry::default()), false), None);
    }
}
