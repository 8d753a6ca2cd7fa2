//! Parts of objects and settings are judged as by Istio's own functions, over what its tests recorded.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use model::parse::Validation;
use model::{Diagnostic, Severity};
use pilothouse_validate::report::{At, Report, codes};
use pilothouse_validate::{mesh, rules, text};
use proto_istio::networking;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{Score, Table};

/// Whether there is an error, and a warning.
type Verdict = (bool, bool);

/// What was recorded: an error's text, an error and a warning, or neither.
fn recorded(out: &Value) -> Verdict {
    match out {
        Value::String(text) => (!text.is_empty(), false),
        Value::Object(both) => {
            let has = |key: &str| both.get(key).is_some_and(|v| !v.is_null() && v != "");
            (has("Err"), has("Warning"))
        }
        Value::Array(both) => {
            let has = |at: usize| both.get(at).is_some_and(|v| !v.is_null() && v != "");
            (has(1), has(0))
        }
        _ => (false, false),
    }
}

fn judge(object: &Value, prefix: &str) -> Vec<Diagnostic> {
    let file = Path::new("case.json").into();
    let parsed = pilothouse_validate::parse(&object.to_string(), &file, Validation::Strict);
    let mut found = parsed.diagnostics;
    // Limits of definitions are not for these functions to know.
    found.retain(|d| d.path.starts_with(prefix) && d.code != codes::LIMIT);
    found
}

fn istio(group: &str, kind: &str, namespace: &str, spec: Value) -> Value {
    let group = format!("{group}.istio.io/v1");
    json!({ "apiVersion": group, "kind": kind,
        "metadata": { "name": "x", "namespace": namespace }, "spec": spec })
}

fn route(http: Value) -> Value {
    let spec = json!({ "hosts": ["a.b"], "gateways": ["g"], "http": [http] });
    istio("networking", "VirtualService", "ns", spec)
}

fn rule(namespace: &str, policy: Value) -> Value {
    let spec = json!({ "host": "a.b", "trafficPolicy": policy });
    istio("networking", "DestinationRule", namespace, spec)
}

fn server(server: Value) -> Value {
    istio(
        "networking",
        "Gateway",
        "ns",
        json!({ "servers": [server] }),
    )
}

/// An object with the input of a recorded function in it, and where.
fn object(function: &str, input: &Value) -> Option<(Value, &'static str)> {
    let to = json!([{ "destination": { "host": "a.b" } }]);
    let name = function.rsplit('.').next()?;
    Some(match name {
        "validateHTTPRoute" => {
            let mut object = route(input["http"].clone());
            if input["delegate"] == true {
                object["spec"].as_object_mut()?.remove("hosts");
            }
            if input["gatewaySemantics"] == true {
                object["metadata"]["annotations"] =
                    json!({ "internal.istio.io/route-semantics": "gateway" });
            }
            (object, "spec.http[0]")
        }
        "validateTLSOptions" => {
            let protocol = if input["tls"].is_null() {
                "TCP"
            } else {
                "HTTPS"
            };
            let port = json!({ "number": 1, "name": "a", "protocol": protocol });
            let of = json!({ "port": port, "hosts": ["a.b"], "tls": input["tls"] });
            (server(of), "spec.servers[0].tls")
        }
        "validateServer" => (server(input["server"].clone()), "spec.servers[0]"),
        "validateServerPort" => {
            let of = json!({ "port": input["port"], "bind": input["bind"], "hosts": ["a.b"] });
            (server(of), "spec.servers[0].port")
        }
        "validateConnectionPool" => {
            let policy = json!({ "connectionPool": input["settings"] });
            (rule("ns", policy), "spec.trafficPolicy.connectionPool")
        }
        "validateOutlierDetection" => {
            let policy = json!({ "outlierDetection": input["outlier"] });
            (rule("ns", policy), "spec.trafficPolicy.outlierDetection")
        }
        "validateLoadBalancer" => {
            let policy =
                json!({ "loadBalancer": input["settings"], "outlierDetection": input["outlier"] });
            (rule("ns", policy), "spec.trafficPolicy.loadBalancer")
        }
        "validateTrafficPolicy" => {
            let namespace = input["configNamespace"].as_str()?;
            (
                rule(namespace, input["policy"].clone()),
                "spec.trafficPolicy",
            )
        }
        "validateExportTo" => {
            let namespace = input["namespace"].as_str()?;
            let exports = &input["exportTo"];
            let object = if input["isServiceEntry"] == true {
                let spec = json!({ "hosts": ["a.b"], "exportTo": exports });
                istio("networking", "ServiceEntry", namespace, spec)
            } else if input["isDestinationRuleWithSelector"] == true {
                let spec = json!({ "host": "a.b", "exportTo": exports,
                    "workloadSelector": { "matchLabels": { "a": "b" } } });
                istio("networking", "DestinationRule", namespace, spec)
            } else {
                let spec = json!({ "host": "a.b", "exportTo": exports });
                istio("networking", "DestinationRule", namespace, spec)
            };
            (object, "spec.exportTo")
        }
        "validateRouteDestinations" => {
            let spec = json!({ "hosts": ["a.b"], "tcp": [{ "route": input["weights"] }] });
            let mut object = istio("networking", "VirtualService", "ns", spec);
            if input["gatewaySemantics"] == true {
                object["metadata"]["annotations"] =
                    json!({ "internal.istio.io/route-semantics": "gateway" });
            }
            (object, "spec.tcp[0].route")
        }
        "validateDestination" => {
            let to = json!([{ "destination": input["destination"] }]);
            (
                route(json!({ "route": to })),
                "spec.http[0].route[0].destination",
            )
        }
        "validateHTTPFaultInjectionAbort" => {
            let fault = json!({ "abort": input["abort"], "delay": {} });
            let http = json!({ "route": to, "fault": fault });
            (route(http), "spec.http[0].fault.abort")
        }
        "validateHTTPFaultInjectionDelay" => {
            let fault = json!({ "delay": input["delay"] });
            let http = json!({ "route": to, "fault": fault });
            (route(http), "spec.http[0].fault.delay")
        }
        "validateHTTPStatus" => {
            let fault = json!({ "abort": { "httpStatus": input["status"] } });
            let http = json!({ "route": to, "fault": fault });
            (route(http), "spec.http[0].fault.abort.httpStatus")
        }
        "validateHTTPRedirect" => {
            let http = json!({ "match": input["matches"], "redirect": input["redirect"] });
            (route(http), "spec.http[0].redirect")
        }
        "validateHTTPDirectResponse" => {
            let http = json!({ "directResponse": input["directResponse"] });
            (route(http), "spec.http[0].directResponse")
        }
        "validateHTTPRewrite" => {
            let http = json!({ "route": to, "rewrite": input["rewrite"] });
            (route(http), "spec.http[0].rewrite")
        }
        "validateURIRegexRewrite" => {
            let rewrite = json!({ "uriRegexRewrite": input["regexRewrite"] });
            let http = json!({ "route": to, "rewrite": rewrite });
            (route(http), "spec.http[0].rewrite.uriRegexRewrite")
        }
        "validateCORSPolicy" => {
            let http = json!({ "route": to, "corsPolicy": input["policy"] });
            (route(http), "spec.http[0].corsPolicy")
        }
        _ => return None,
    })
}

/// The verdict of a check of a text.
fn of_text(function: &str, input: &Value) -> Option<text::Check> {
    let field = |name: &str| input[name].as_str().unwrap_or_default();
    let list = |name: &str| -> Vec<String> {
        serde_json::from_value(input[name].clone()).unwrap_or_default()
    };
    let duration = |name: &str| serde_json::from_value(input[name].clone()).ok();
    Some(match function.rsplit('.').next()? {
        "ValidateHTTPHeaderNameOrJwtClaimRoute" => text::header_name_to_match(field("name")),
        "ValidateHTTPHeaderValue" => text::header_value(field("value")),
        "ValidatePortName" => text::port_name(field("name")),
        "ValidateWildcardDomainForVirtualServiceBoundToGateway" => {
            text::host_of_gateway_route(input["sni"] == true, field("domain"))
        }
        "ValidateWildcardDomain" => text::wildcard_domain(field("domain")),
        "ValidateTrustDomain" => text::trust_domain(field("domain")),
        "ValidateFQDN" => text::fqdn(field("fqdn")),
        "ValidateIPAddress" => text::ip(field("addr")),
        "ValidateIPSubnet" => text::subnet(field("subnet")),
        "ValidateDuration" => text::duration(duration("pd")?),
        "ValidateAttribute" => text::attribute(field("key"), &list("values")),
        "CheckValidPathTemplate" => text::path_template(&list("paths")),
        "CheckTrustDomainValues" => text::trust_domains(&list("values")),
        "CheckWildcardValues" => text::wildcards(&list("values")),
        "ParseJwksURI" => text::jwks_uri(field("jwksURI")),
        "CheckServiceAccount" => text::service_accounts(&list("values")),
        "ValidateIPs" => text::ips(&list("ips")),
        "ValidatePorts" => text::ports(&list("ports")),
        _ => return None,
    })
}

fn typed<T: DeserializeOwned>(input: &Value, field: &str) -> Option<T> {
    serde_json::from_value(input[field].clone()).ok()
}

/// The verdict about a part of mesh config.
fn of_settings(function: &str, input: &Value) -> Option<Report> {
    let (top, mut report) = (At::TOP, Report::default());
    let r = &mut report;
    match function.rsplit('.').next()? {
        "ValidateMeshConfigProxyConfig" => {
            mesh::proxy_config(&typed(input, "config")?, &top, r);
        }
        "ValidateZoneAwareLbSetting" => {
            let lb: Option<networking::ZoneAwareLoadBalancerSetting> = typed(input, "lb")?;
            rules::zone_aware(lb.as_ref(), !input["outlier"].is_null(), &top, r);
        }
        "ValidateLocalityLbSetting" => {
            let lb: Option<networking::LocalityLoadBalancerSetting> = typed(input, "lb")?;
            rules::locality(lb.as_ref(), !input["outlier"].is_null(), &top, r);
        }
        "ValidateTLS" => {
            let tls: Option<networking::ClientTlsSettings> = typed(input, "settings")?;
            let namespace = input["configNamespace"].as_str()?;
            rules::client_tls(tls.as_ref(), namespace, &top, r);
        }
        "ValidateHTTPRetry" => {
            let retries: Option<networking::HttpRetry> = typed(input, "retries")?;
            rules::retries(retries.as_ref(), &top, r);
        }
        "validateMeshConfigDefaultInboundHTTPRetryPolicy" => {
            let retries: Option<networking::HttpRetry> = typed(input, "retry")?;
            mesh::inbound_retries(retries.as_ref(), &top, r);
        }
        "validateMeshConfigDefaultTrafficPolicy" => {
            let policy: Option<_> = typed(input, "dtp")?;
            mesh::default_traffic_policy(policy.as_ref(), &top, r);
        }
        "validateConnectionSettings" => mesh::connection_settings(&typed(input, "cs")?, &top, r),
        "ValidateMeshConfig" => mesh::config(&typed(input, "mesh")?, r),
        "validateServiceSettings" => {
            mesh::config(&typed(input, "config")?, r);
            r.0.retain(|f| f.path.to_string().starts_with("serviceSettings"));
        }
        "ValidateMeshNetworks" => mesh::networks(&typed(input, "meshnetworks")?, r),
        "validateLocalities" => {
            let from: Vec<String> = typed(input, "localities")?;
            let distribute: Vec<Value> = from
                .iter()
                .map(|from| json!({ "from": from, "to": { "a": 100 } }))
                .collect();
            let lb = json!({ "distribute": distribute });
            rules::locality(serde_json::from_value(lb).ok().as_ref(), true, &top, r);
        }
        "validateExtensionProviderService" => {
            provider(
                &json!({ "zipkin": { "service": input["service"], "port": 1 } }),
                r,
            )?;
        }
        "ValidateExtensionProviderEnvoyHTTPAls" => {
            provider(&json!({ "envoyHttpAls": input["provider"] }), r)?
        }
        "ValidateExtensionProviderEnvoyTCPAls" => {
            provider(&json!({ "envoyTcpAls": input["provider"] }), r)?
        }
        "ValidateExtensionProviderEnvoyOtelAls" => {
            provider(&json!({ "envoyOtelAls": input["provider"] }), r)?
        }
        "ValidateExtensionProviderTracingOpentelemetry" => {
            provider(&json!({ "opentelemetry": input["provider"] }), r)?
        }
        "ValidateExtensionProviderEnvoyExtAuthzHTTP" => {
            provider(&json!({ "envoyExtAuthzHttp": input["config"] }), r)?
        }
        "ValidateExtensionProviderEnvoyExtAuthzGRPC" => {
            provider(&json!({ "envoyExtAuthzGrpc": input["config"] }), r)?
        }
        "validateExtensionProviderTracingZipkin" => {
            provider(&json!({ "zipkin": input["config"] }), r)?
        }
        "validateExtensionProviderTracingDatadog" => {
            provider(&json!({ "datadog": input["config"] }), r)?
        }
        "validateExtensionProviderTracingLightStep" => {
            provider(&json!({ "lightstep": input["config"] }), r)?
        }
        "validateExtensionProviderTracingOpenCensusAgent" => {
            provider(&json!({ "opencensus": input["config"] }), r)?
        }
        "validateExtensionProviderTracingSkyWalking" => {
            provider(&json!({ "skywalking": input["config"] }), r)?
        }
        _ => return None,
    }
    Some(report)
}

fn provider(json: &Value, report: &mut Report) -> Option<()> {
    let provider = serde_json::from_value(json.clone()).ok()?;
    mesh::provider(&provider, &At::TOP, report);
    Some(())
}

/// Functions that check what this program has no place for: flags of istiod's own, helpers, types of Go.
const ELSEWHERE: [&str; 9] = [
    "ValidateMaxServerConnectionAge",
    "ValidateConnectTimeout",
    "ValidateProtocolDetectionTimeout",
    "ValidateDrainDuration",
    "ValidateControlPlaneAuthPolicy",
    "parseAutoGeneratedSNIDomain",
    "IsValidLiteral",
    "ContainsPathTemplate",
    "ValidateStrictHTTPHeaderName",
];

fn score(table: &str, differences: &str) {
    let Some(table) = Table::load(table) else {
        return;
    };
    let mut score = Score::default();
    for case in &table.cases {
        let (function, input) = (case["fn"].as_str().unwrap(), &case["in"]);
        let text = case.to_string();
        // Recordings do not tell null from an empty message, and leave out the middle of long texts.
        if text.contains("cannot be null") || text.contains("chars>") || text.contains("$repeat") {
            continue;
        }
        let has = |found: &[Diagnostic], s| found.iter().any(|d| d.severity == s);
        let mut wanted = recorded(&case["out"]);
        if function.ends_with("ParseJwksURI") {
            wanted = (!case["out"][1].is_null(), false);
        }
        let (got, told): (Verdict, String) = if let Some((object, prefix)) = object(function, input)
        {
            let found = judge(&object, prefix);
            let told: Vec<String> = found.iter().map(ToString::to_string).collect();
            let got = (has(&found, Severity::Error), has(&found, Severity::Warning));
            (got, told.join("; "))
        } else if let Some(check) = of_text(function, input) {
            ((check.is_err(), false), format!("{check:?}"))
        } else if let Some(report) = of_settings(function, input) {
            let told = format!("{:?}", report.0);
            ((report.has_errors(), report.has_warnings()), told)
        } else if ELSEWHERE.iter().any(|f| function.ends_with(f)) {
            continue;
        } else {
            ((true, false), "not known, or of another type".to_owned())
        };
        // The text of an error does not tell of warnings.
        let tells = case["out"].is_object() || case["out"].is_array();
        let equal = got.0 == wanted.0 && (got.0 || !tells || got.1 == wanted.1);
        let differences = if equal {
            vec![]
        } else {
            vec![format!("wanted {wanted:?}, got {told}, of {input}")]
        };
        score.count(function, &differences);
    }
    score.as_listed(differences);
}

#[test]
fn fields_are_judged_as_recorded() {
    score(
        "validation-fields",
        include_str!("../differences/fields.txt"),
    );
}

#[test]
fn mesh_config_is_judged_as_recorded() {
    score(
        "validation-meshconfig",
        include_str!("../differences/mesh-config.txt"),
    );
}

#[test]
fn security_values_are_judged_as_recorded() {
    score("security-validation", "");
}

#[test]
fn filters_without_configuration_are_named_as_recorded() {
    let Some(table) = Table::load("validation-envoyfilter-misc") else {
        return;
    };
    // Recordings do not hold the messages: a filter with a configuration, and one without.
    let name = "envoy.filters.network.tcp_proxy";
    let config = json!({ "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy" });
    let filters = [
        json!({ "name": name, "typed_config": config }),
        json!({ "name": name }),
    ];
    assert_eq!(table.cases.len(), filters.len());
    for (case, filter) in table.cases.iter().zip(filters) {
        let patch = json!({ "applyTo": "NETWORK_FILTER",
            "match": { "listener": { "filterChain": { "filter": { "name": name } } } },
            "patch": { "operation": "ADD", "value": filter } });
        let object = json!({ "apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter",
            "metadata": { "name": "x" }, "spec": { "configPatches": [patch] } });
        let found = judge(&object, "spec.configPatches[0]");
        let named: Vec<&str> = found
            .iter()
            .filter_map(|d| d.message.strip_prefix("the filter \"")?.split('"').next())
            .collect();
        let wanted = case["out"].as_array().into_iter().flatten();
        let wanted: Vec<&str> = wanted.filter_map(Value::as_str).collect();
        assert_eq!(named, wanted);
    }
}
