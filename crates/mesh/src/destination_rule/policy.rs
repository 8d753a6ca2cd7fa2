//! The traffic policy of one port: top level, port level, subset and mesh default laid over each other.

use proto_istio::networking::traffic_policy::{ProxyProtocol, RetryBudget, TunnelSettings};
use proto_istio::networking::{
    ClientTlsSettings, ConnectionPoolSettings, LoadBalancerSettings, OutlierDetection,
    TrafficPolicy,
};

use super::{MergedDestinationRule, subset, top_policy};

/// What applies to one port, borrowed from the rules it comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy<'a> {
    /// Limits and timeouts of connections.
    pub connection_pool: Option<&'a ConnectionPoolSettings>,
    /// When endpoints are ejected.
    pub outlier_detection: Option<&'a OutlierDetection>,
    /// How endpoints are chosen.
    pub load_balancer: Option<&'a LoadBalancerSettings>,
    /// TLS towards the endpoints.
    pub tls: Option<&'a ClientTlsSettings>,
    /// Tunnelling of TCP through CONNECT or POST.
    pub tunnel: Option<&'a TunnelSettings>,
    /// PROXY protocol towards the endpoints.
    pub proxy_protocol: Option<&'a ProxyProtocol>,
    /// The budget of concurrent retries.
    pub retry_budget: Option<&'a RetryBudget>,
}

impl<'a> Policy<'a> {
    /// What a policy says of a port. Settings of the port replace the others whole: what they leave out has its
    /// default value. The second value says whether there are settings of the port.
    ///
    /// Istio: pilot/pkg/networking/util/util.go GetPortLevelTrafficPolicy, 1.32.
    pub fn of_port(policy: Option<&'a TrafficPolicy>, port: u16) -> (Option<Self>, bool) {
        let Some(policy) = policy else {
            return (None, false);
        };
        let wanted = u32::from(port);
        let own = policy
            .port_level_settings
            .iter()
            .find(|p| p.port.as_ref().is_some_and(|p| p.number == wanted));
        match own {
            Some(own) => {
                let policy = Self {
                    connection_pool: own.connection_pool.as_ref(),
                    outlier_detection: own.outlier_detection.as_ref(),
                    load_balancer: own.load_balancer.as_ref(),
                    tls: own.tls.as_ref(),
                    ..Self::default()
                };
                (Some(policy), true)
            }
            None => {
                let policy = Self {
                    connection_pool: policy.connection_pool.as_ref(),
                    outlier_detection: policy.outlier_detection.as_ref(),
                    load_balancer: policy.load_balancer.as_ref(),
                    tls: policy.tls.as_ref(),
                    tunnel: policy.tunnel.as_ref(),
                    proxy_protocol: policy.proxy_protocol.as_ref(),
                    retry_budget: policy.retry_budget.as_ref(),
                };
                (Some(policy), false)
            }
        }
    }

    /// Lays the policy of a subset over that of the rule, for one port.
    ///
    /// Istio: pilot/pkg/networking/util/util.go MergeSubsetTrafficPolicy, 1.32.
    pub fn with_subset(
        base: Option<Self>,
        over: Option<&'a TrafficPolicy>,
        port: u16,
    ) -> Option<Self> {
        let (over, of_port) = Self::of_port(over, port);
        let Some(over) = over else { return base };
        let Some(base) = base else { return Some(over) };
        // Settings of a port inherit none of these four.
        let inherited = if of_port { Self::default() } else { base };
        Some(Self {
            connection_pool: over.connection_pool.or(inherited.connection_pool),
            outlier_detection: over.outlier_detection.or(inherited.outlier_detection),
            load_balancer: over.load_balancer.or(inherited.load_balancer),
            tls: over.tls.or(inherited.tls),
            tunnel: over.tunnel.or(base.tunnel),
            proxy_protocol: over.proxy_protocol.or(base.proxy_protocol),
            retry_budget: over.retry_budget.or(base.retry_budget),
        })
    }

    /// What a rule says of a port of a service, or of one of its subsets.
    pub fn of_rule(
        rule: Option<&'a MergedDestinationRule>,
        subset_name: &str,
        port: u16,
    ) -> Option<Self> {
        let base = Self::of_port(top_policy(rule), port).0;
        let over = subset(rule, subset_name).and_then(|s| s.traffic_policy.as_ref());
        Self::with_subset(base, over, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::cases;

    use testkit::message;

    fn plain(policy: Policy<'_>) -> TrafficPolicy {
        TrafficPolicy {
            load_balancer: policy.load_balancer.cloned(),
            connection_pool: policy.connection_pool.cloned(),
            outlier_detection: policy.outlier_detection.cloned(),
            tls: policy.tls.cloned(),
            port_level_settings: Vec::new(),
            tunnel: policy.tunnel.cloned(),
            proxy_protocol: policy.proxy_protocol.cloned(),
            retry_budget: policy.retry_budget.cloned(),
        }
    }

    #[test]
    fn subsets_and_ports_are_laid_over_rules_as_in_the_recordings() {
        for case in cases("networking-util", "util.MergeSubsetTrafficPolicy") {
            let base: Option<TrafficPolicy> = message(&case["in"]["original"]);
            let over: Option<TrafficPolicy> = message(&case["in"]["subsetPolicy"]);
            let mut wanted: Option<TrafficPolicy> = message(&case["out"]);
            if let Some(wanted) = &mut wanted {
                // Settings of other ports do not matter once the port is known.
                wanted.port_level_settings.clear();
            }
            let port = case["in"]["port"]["Port"].as_u64().unwrap_or_default();
            let port = u16::try_from(port).expect("a port");
            let base = Policy::of_port(base.as_ref(), port).0;
            let found = Policy::with_subset(base, over.as_ref(), port);
            assert_eq!(found.map(plain), wanted, "{}", case["test"]);
        }
    }
}
