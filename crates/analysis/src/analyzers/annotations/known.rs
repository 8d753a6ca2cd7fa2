//! The annotations of Istio's API: names, maturity, and the kinds that they have an effect on.

/// What is known of an annotation.
#[derive(Debug)]
pub(super) struct Known {
    /// Its name.
    pub(super) name: &'static str,
    /// Whether it may change or go.
    pub(super) alpha: bool,
    /// Whether it should no longer be used.
    pub(super) deprecated: bool,
    /// The kinds it has an effect on; all where empty.
    pub(super) kinds: &'static [&'static str],
}

/// The annotation of that name.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    let at = KNOWN.binary_search_by(|known| known.name.cmp(name)).ok()?;
    KNOWN.get(at)
}

/// The known annotation closest to a misspelt name.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    model::parse::nearest(name, KNOWN.iter().map(|known| known.name))
}

const fn stable(name: &'static str, kinds: &'static [&'static str]) -> Known {
    Known {
        name,
        alpha: false,
        deprecated: false,
        kinds,
    }
}

const fn alpha(name: &'static str, kinds: &'static [&'static str]) -> Known {
    Known {
        name,
        alpha: true,
        deprecated: false,
        kinds,
    }
}

const fn deprecated(known: Known) -> Known {
    Known {
        deprecated: true,
        ..known
    }
}

const POD: &[&str] = &["Pod"];

/// Sorted by name.
///
/// Istio: api/annotation/annotations.gen.go, 1.32.
const KNOWN: &[Known] = &[
    deprecated(alpha(
        "alpha.istio.io/canonical-serviceaccounts",
        &["Service"],
    )),
    deprecated(alpha(
        "alpha.istio.io/kubernetes-serviceaccounts",
        &["Service"],
    )),
    alpha("ambient.istio.io/bypass-inbound-capture", POD),
    alpha("ambient.istio.io/dns-capture", POD),
    stable("ambient.istio.io/redirection", POD),
    alpha(
        "ambient.istio.io/waypoint-inbound-binding",
        &["GatewayClass", "Gateway"],
    ),
    alpha("galley.istio.io/analyze-suppress", &[]),
    alpha("gateway.istio.io/controller-version", &[]),
    alpha("gateway.istio.io/name-override", &["Gateway"]),
    alpha("gateway.istio.io/service-account", &["Gateway"]),
    alpha("inject.istio.io/templates", POD),
    alpha("istio.io/autoRegistrationGroup", &["WorkloadEntry"]),
    alpha("istio.io/connectedAt", &["WorkloadEntry"]),
    alpha("istio.io/disconnectedAt", &["WorkloadEntry"]),
    alpha("istio.io/dry-run", &["AuthorizationPolicy"]),
    alpha("istio.io/reroute-virtual-interfaces", POD),
    alpha("istio.io/rev", POD),
    alpha(
        "istio.io/use-waypoint-canary-weight",
        &["Service", "ServiceEntry", "Namespace"],
    ),
    alpha("istio.io/workloadController", &["WorkloadEntry"]),
    stable("kubernetes.io/ingress.class", &["Ingress"]),
    alpha("networking.istio.io/exportTo", &["Service"]),
    alpha("networking.istio.io/service-type", &["Gateway"]),
    alpha(
        "networking.istio.io/traffic-distribution",
        &["Namespace", "Service", "ServiceEntry"],
    ),
    alpha("prometheus.istio.io/merge-metrics", POD),
    stable("proxy.istio.io/config", POD),
    alpha("proxy.istio.io/overrides", POD),
    alpha("readiness.status.sidecar.istio.io/applicationPorts", POD),
    alpha("readiness.status.sidecar.istio.io/failureThreshold", POD),
    alpha("readiness.status.sidecar.istio.io/initialDelaySeconds", POD),
    alpha("readiness.status.sidecar.istio.io/periodSeconds", POD),
    alpha("sidecar.istio.io/agentLogLevel", POD),
    alpha("sidecar.istio.io/bootstrapOverride", POD),
    alpha("sidecar.istio.io/componentLogLevel", POD),
    deprecated(alpha("sidecar.istio.io/discoveryAddress", POD)),
    deprecated(alpha("sidecar.istio.io/extraStatTags", POD)),
    deprecated(stable("sidecar.istio.io/inject", POD)),
    alpha("sidecar.istio.io/interceptionMode", POD),
    alpha("sidecar.istio.io/logLevel", POD),
    alpha("sidecar.istio.io/nativeSidecar", POD),
    alpha("sidecar.istio.io/proxyCPU", POD),
    alpha("sidecar.istio.io/proxyCPULimit", POD),
    alpha("sidecar.istio.io/proxyImage", POD),
    alpha("sidecar.istio.io/proxyImageType", POD),
    alpha("sidecar.istio.io/proxyMemory", POD),
    alpha("sidecar.istio.io/proxyMemoryLimit", POD),
    alpha("sidecar.istio.io/rewriteAppHTTPProbers", POD),
    deprecated(alpha("sidecar.istio.io/statsCompression", POD)),
    alpha("sidecar.istio.io/statsEvictionInterval", POD),
    alpha("sidecar.istio.io/statsFlushInterval", POD),
    alpha("sidecar.istio.io/statsHistogramBins", POD),
    alpha("sidecar.istio.io/statsHistogramBuckets", POD),
    deprecated(alpha("sidecar.istio.io/statsInclusionPrefixes", POD)),
    deprecated(alpha("sidecar.istio.io/statsInclusionRegexps", POD)),
    deprecated(alpha("sidecar.istio.io/statsInclusionSuffixes", POD)),
    alpha("sidecar.istio.io/status", POD),
    alpha("sidecar.istio.io/userVolume", POD),
    alpha("sidecar.istio.io/userVolumeMount", POD),
    alpha("status.sidecar.istio.io/port", POD),
    alpha("topology.istio.io/controlPlaneClusters", &["Namespace"]),
    stable("traffic.istio.io/nodeSelector", &["Service"]),
    alpha("traffic.sidecar.istio.io/excludeInboundPorts", POD),
    alpha("traffic.sidecar.istio.io/excludeInterfaces", POD),
    alpha("traffic.sidecar.istio.io/excludeOutboundIPRanges", POD),
    alpha("traffic.sidecar.istio.io/excludeOutboundPorts", POD),
    alpha("traffic.sidecar.istio.io/includeInboundPorts", POD),
    alpha("traffic.sidecar.istio.io/includeOutboundIPRanges", POD),
    alpha("traffic.sidecar.istio.io/includeOutboundPorts", POD),
    deprecated(alpha("traffic.sidecar.istio.io/kubevirtInterfaces", POD)),
];

#[cfg(test)]
mod tests {
    use super::KNOWN;

    #[test]
    fn annotations_are_sorted_by_name() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
    }
}
