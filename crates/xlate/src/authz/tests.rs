//! Policies against what Istio's own tests have recorded.

use std::path::{Path, PathBuf};

use model::kinds::Kinded;
use prost_types::Any;
use serde_json::{Value, json};

use super::*;

fn shared() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance")
}

fn policies(text: &str) -> Policies {
    let mut found = Policies::default();
    let file = Arc::from(Path::new("policies.yaml"));
    let parsed = model::parse::parse(text, &file, Default::default());
    for object in parsed.objects() {
        if let Some(policy) = AuthorizationPolicy::of(object) {
            found.add(policy.clone());
        }
    }
    found
}

fn shown(name: &str, config: &Any) -> Value {
    let typed = crate::json::from_bytes(&config.type_url, &config.value);
    json!({ "name": name, "typedConfig": typed })
}

fn lookup(service: &str, port: u32) -> Option<ProviderCluster> {
    const HOST: &str = "my-custom-ext-authz.foo.svc.cluster.local";
    (service.strip_prefix("foo/").unwrap_or(service) == HOST).then(|| ProviderCluster {
        host: HOST.to_owned(),
        cluster: format!("outbound|{port}||{HOST}"),
    })
}

#[test]
fn filters_are_those_of_the_recording() {
    let table = shared().join("istio-tables/authz-builder.json");
    let Ok(table) = std::fs::read_to_string(table) else {
        eprintln!("skipped: no authz-builder.json");
        return;
    };
    let table: Value = serde_json::from_str(&table).unwrap();
    let inputs = shared().join("istio/pilot/pkg/security/authz/builder/testdata");
    let (mut equal, mut all) = (0, 0);
    for case in table["cases"].as_array().unwrap() {
        let Ok(text) = std::fs::read_to_string(inputs.join(case["in"].as_str().unwrap())) else {
            continue;
        };
        // The other form is that of waypoints.
        if case["extended"] == true {
            continue;
        }
        all += 1;
        let mesh: MeshConfig = match &case["meshConfig"] {
            Value::Null => MeshConfig::default(),
            config => serde_json::from_value(config.clone()).unwrap(),
        };
        let domains: Vec<String> =
            serde_json::from_value(case["trustDomains"]["TrustDomains"].clone())
                .unwrap_or_default();
        let around = Surroundings {
            mesh: &mesh,
            trust_domains: match domains.split_first() {
                Some((first, others)) => TrustDomains::new(first, others),
                None => TrustDomains::new("cluster.local", &[]),
            },
            several_providers: case["features"]["EnableMultipleCustomAuthzProviders"] == true,
            lookup: &lookup,
        };
        let policies = policies(&text);
        let mut diagnostics = Vec::new();
        let found: Vec<Value> = if case["kind"] == "tcp" {
            let made = tcp(&policies, &around, &mut diagnostics);
            made.custom
                .iter()
                .chain(&made.local)
                .map(|f| match &f.config_type {
                    Some(listener::filter::ConfigType::TypedConfig(c)) => shown(&f.name, c),
                    _ => Value::Null,
                })
                .collect()
        } else {
            let made = http(&policies, &around, &mut diagnostics);
            made.custom
                .iter()
                .chain(&made.local)
                .map(|f| match &f.config_type {
                    Some(hcm::http_filter::ConfigType::TypedConfig(c)) => shown(&f.name, c),
                    _ => Value::Null,
                })
                .collect()
        };
        let wanted = case["got"].as_array().cloned().unwrap_or_default();
        if found == wanted {
            equal += 1;
        } else {
            eprintln!(
                "{}:\nfound  {}\nwanted {}",
                case["test"],
                Value::from(found),
                Value::from(wanted)
            );
        }
    }
    assert_eq!(equal, all);
}

#[test]
fn a_rule_that_denies_by_an_unknown_attribute_denies_more_and_says_so() {
    let policies = policies(
        r#"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: typo, namespace: shop}
spec:
  action: DENY
  rules: [{when: [{key: source.namspace, values: [evil]}]}]
"#,
    );
    let mesh = MeshConfig::default();
    let around = Surroundings {
        mesh: &mesh,
        trust_domains: TrustDomains::new("cluster.local", &[]),
        several_providers: false,
        lookup: &lookup,
    };
    let mut diagnostics = Vec::new();
    let made = http(&policies, &around, &mut diagnostics);
    assert_eq!(made.local.len(), 1);
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].code, code::NOT_UNDERSTOOD);
    assert_eq!(&*diagnostics[0].path, "spec.rules[0]");
}
