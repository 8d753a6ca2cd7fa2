//! Objects of policies and of what workloads are.

use super::Pick;

impl Pick {
    pub(super) fn policy(&self, namespace: &str) -> (&'static str, &'static str, String) {
        let variant = self.variant;
        match self.kind {
            14 => (
                "AuthorizationPolicy",
                "security.istio.io/v1",
                format!(
                    "spec:\n{}  action: {}\n  rules:\n  - to: [{{operation: {{paths: [\"/{variant}\"]}}}}]\n    \
                     from: [{{source: {{namespaces: [{namespace}]}}}}]\n",
                    self.selector("selector", "matchLabels"),
                    ["ALLOW", "DENY", "AUDIT"][usize::from(variant % 3)],
                ),
            ),
            15 => (
                "RequestAuthentication",
                "security.istio.io/v1",
                format!(
                    "spec:\n{}  jwtRules:\n  - {{issuer: \"https://issuer{}.example.com\", jwksUri: \"https://issuer{}.example.com/keys\"}}\n",
                    self.selector("selector", "matchLabels"),
                    variant % 2,
                    variant % 2,
                ),
            ),
            16 => (
                "Telemetry",
                "telemetry.istio.io/v1",
                format!(
                    "spec:\n{}  accessLogging: [{{providers: [{{name: envoy}}], disabled: {}}}]\n  \
                     metrics: [{{providers: [{{name: prometheus}}], overrides: [{{match: {{metric: {}}}, disabled: true}}]}}]\n",
                    self.selector("selector", "matchLabels"),
                    variant.is_multiple_of(2),
                    ["REQUEST_COUNT", "REQUEST_SIZE"][usize::from(variant % 2)],
                ),
            ),
            17 if variant > 5 => (
                "WasmPlugin",
                "extensions.higress.io/v1alpha1",
                format!(
                    "spec:\n  url: \"oci://registry.example.com/plugin:v{}\"\n  phase: AUTHN\n  imagePullSecret: n{}\n  \
                     defaultConfig: {{key: \"${{secret.n{}.key}}\"}}\n  matchRules: [{{ingress: [one/n{}], routeType: GRPC}}]\n",
                    variant - 6,
                    variant - 6,
                    variant % 2,
                    variant % 3,
                ),
            ),
            17 => (
                "WasmPlugin",
                "extensions.istio.io/v1alpha1",
                format!(
                    "spec:\n{}  url: \"oci://registry.example.com/plugin:v{variant}\"\n  phase: {}\n  imagePullSecret: n{}\n  \
                     pluginConfig: {{key: \"${{secret.{}n{}.cert}}\"}}\n",
                    self.selector("selector", "matchLabels"),
                    ["AUTHN", "AUTHZ", "STATS"][usize::from(variant % 3)],
                    variant % 3,
                    ["", "two/"][usize::from(variant % 2)],
                    variant % 3,
                ),
            ),
            18 => ("Secret", "v1", self.secret()),
            19 => (
                "ProxyConfig",
                "networking.istio.io/v1beta1",
                format!(
                    "spec:\n{}  concurrency: {variant}\n",
                    self.selector("selector", "matchLabels")
                ),
            ),
            20 => (
                "WorkloadGroup",
                "networking.istio.io/v1",
                format!(
                    "spec:\n  metadata: {{labels: {{app: {}}}}}\n  template: {{serviceAccount: sa{variant}}}\n",
                    self.app()
                ),
            ),
            _ => ("Node", "v1", "spec: {}\n".to_owned()),
        }
    }

    fn secret(&self) -> String {
        match self.variant % 3 {
            0 => format!(
                "type: kubernetes.io/tls\nstringData: {{tls.crt: \"certificate {}\", tls.key: key}}\n",
                self.variant
            ),
            1 => format!(
                "stringData: {{cert: \"c{}\", key: k, cacert: a}}\n",
                self.variant
            ),
            _ => "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: \"{}\"}\n"
                .to_owned(),
        }
    }
}
