//! Istio config and services to Envoy resources.
