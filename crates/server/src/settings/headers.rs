//! Headers whose values providers take from the environment of the control plane.

use model::settings::MeshConfig;
use proto_istio::mesh::mesh_config::extension_provider::http_header::HeaderValue;
use proto_istio::mesh::mesh_config::extension_provider::open_telemetry_tracing_provider::Sampling;
use proto_istio::mesh::mesh_config::extension_provider::{HttpHeader, Provider};

/// Puts the values of headers in that providers take from the environment of the control plane.
pub(super) fn fill_headers(mesh: &mut MeshConfig, variable: impl Fn(&str) -> Option<String>) {
    for provider in &mut mesh.extension_providers {
        let headers: Vec<&mut HttpHeader> = match &mut provider.provider {
            Some(Provider::Zipkin(p)) => p.headers.iter_mut().collect(),
            Some(Provider::Opentelemetry(p)) => {
                let http = p.http.iter_mut().flat_map(|h| &mut h.headers);
                let grpc = p.grpc.iter_mut().flat_map(|g| &mut g.initial_metadata);
                let sampler = p.sampling.iter_mut().flat_map(|s| match s {
                    Sampling::DynatraceSampler(s) => s.http_service.iter_mut(),
                });
                let sampler = sampler.flat_map(|api| api.http.iter_mut());
                let sampler = sampler.flat_map(|http| &mut http.headers);
                http.chain(grpc).chain(sampler).collect()
            }
            _ => Vec::new(),
        };
        for header in headers {
            if let Some(HeaderValue::EnvName(name)) = &header.header_value
                && let Some(value) = variable(name)
            {
                header.header_value = Some(HeaderValue::Value(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_providers_take_values_of_the_environment() {
        let mut mesh: MeshConfig = serde_json::from_str(
            r#"{"extensionProviders": [
                {"name": "a", "zipkin": {"headers": [
                    {"name": "token", "envName": "TOKEN"}, {"name": "none", "envName": "NONE"}]}},
                {"name": "b", "opentelemetry": {"http": {"path": "/", "headers": [
                    {"name": "plain", "value": "x"}, {"name": "token", "envName": "TOKEN"}]}}}]}"#,
        )
        .unwrap();
        fill_headers(&mut mesh, |name| (name == "TOKEN").then(|| "secret".into()));
        let shown = serde_json::to_value(&mesh.extension_providers).unwrap();
        let (a, b) = (&shown[0]["zipkin"], &shown[1]["opentelemetry"]["http"]);
        assert_eq!(a["headers"][0]["value"], "secret");
        assert_eq!(a["headers"][1]["envName"], "NONE");
        assert_eq!(b["headers"][0]["value"], "x");
        assert_eq!(b["headers"][1]["value"], "secret");
    }
}
