//! What is counted of each type of resource.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntGauge, IntGaugeVec, Opts, Registry,
};
use xds::ByType;

use super::{LATENCY_BUCKETS, counters};

/// What is counted of each type, under its label `type` (`cds`, `eds`, ...).
pub struct OfType {
    /// Responses sent.
    pub pushes: IntCounter,
    /// Bytes of a response.
    pub config_size: Histogram,
    /// Seconds from a change until a response with it is written.
    pub push_time: Histogram,
    /// Responses that proxies refused.
    pub rejects: IntCounter,
    /// Requests with an outdated nonce.
    pub expired_nonces: IntCounter,
    rejecting: IntGauge,
    silent: IntGauge,
}

/// Connected proxies that do not have what they were sent last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Behind {
    /// Those that refused it.
    pub rejecting: i64,
    /// Those that have not answered for long.
    pub silent: i64,
}

impl OfType {
    pub(super) fn all(registry: &Registry) -> prometheus::Result<ByType<Self>> {
        let vec = |name, help| counters(registry, name, help, "type");
        let pushes = vec("pilot_xds_pushes", "Responses sent, by type.")?;
        let rejects = vec(
            "pilot_total_xds_rejects",
            "Responses that proxies refused, by type.",
        )?;
        let expired_nonces = vec(
            "pilot_xds_expired_nonce",
            "Requests that answered an outdated response, by type.",
        )?;
        let config_size = HistogramVec::new(
            HistogramOpts::new(
                "pilot_xds_config_size_bytes",
                "Size of the responses sent, by type.",
            )
            .buckets(vec![1., 1e4, 1e5, 1e6, 4e6, 1e7, 4e7]),
            &["type"],
        )?;
        registry.register(Box::new(config_size.clone()))?;
        let push_time = HistogramVec::new(
            HistogramOpts::new(
                "pilot_xds_push_time",
                "Seconds from a change until a response with it is written, by type.",
            )
            .buckets(LATENCY_BUCKETS.to_vec()),
            &["type"],
        )?;
        registry.register(Box::new(push_time.clone()))?;
        let gauges = |name: &str, help: &str| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &["type"])?;
            registry.register(Box::new(gauges.clone()))?;
            Ok::<_, prometheus::Error>(gauges)
        };
        let rejecting = gauges(
            "pilothouse_rejecting_proxies",
            "Connected proxies that refused the newest response, by type.",
        )?;
        let silent = gauges(
            "pilothouse_silent_proxies",
            "Connected proxies that have not answered the newest response for a minute, by type.",
        )?;
        Ok(ByType::new(|ty| {
            let label = [ty.label()];
            Self {
                pushes: pushes.with_label_values(&label),
                config_size: config_size.with_label_values(&label),
                push_time: push_time.with_label_values(&label),
                rejects: rejects.with_label_values(&label),
                expired_nonces: expired_nonces.with_label_values(&label),
                rejecting: rejecting.with_label_values(&label),
                silent: silent.with_label_values(&label),
            }
        }))
    }

    /// Takes in how many proxies are behind.
    pub fn set_behind(&self, behind: Behind) {
        self.rejecting.set(behind.rejecting);
        self.silent.set(behind.silent);
    }
}
