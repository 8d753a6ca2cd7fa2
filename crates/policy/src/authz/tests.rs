//! Policies against what Istio's own tests have recorded.

use std::path::Path;

use model::kinds::Kinded;
use prost_types::Any;
use serde_json::{Value, json};
use testkit::{Score, Table, recording};

use super::*;

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
    let typed = descriptors::json::from_bytes(&config.type_url, &config.value);
    json!({ "name": name, "typedConfig": typed })
}

fn lookup(service: &str, port: u32) -> Option<ProviderCluster> {
    const HOST: &str = "my-custom-ext-authz.foo.svc.cluster.local";
    (service.strip_prefix("foo/").unwrap_or(service) == HOST).then(|| ProviderCluster {
        host: HOST.to_owned(),
        cluster: format!("outbound|{port}||{HOST}"),
    })
}

/// The filters for policies, as the recording of Istio's test shows them.
fn filters(policies: &Policies, case: &Value, tcp_chain: bool) -> Vec<Value> {
    let mesh: MeshConfig = match &case["meshConfig"] {
        Value::Null => MeshConfig::default(),
        config => serde_json::from_value(config.clone()).unwrap(),
    };
    let domains: Vec<String> =
        serde_json::from_value(case["trustDomains"]["TrustDomains"].clone()).unwrap_or_default();
    let around = Surroundings {
        mesh: &mesh,
        trust_domains: match domains.split_first() {
            Some((first, others)) => TrustDomains::new(first, others),
            None => TrustDomains::new("cluster.local", &[]),
        },
        several_providers: case["features"]["EnableMultipleCustomAuthzProviders"] == true,
        lookup: &lookup,
    };
    let mut diagnostics = Vec::new();
    if tcp_chain {
        let made = tcp(policies, &around, &mut diagnostics);
        let all = made.custom.iter().chain(&made.local);
        all.map(|f| match &f.config_type {
            Some(listener::filter::ConfigType::TypedConfig(c)) => shown(&f.name, c),
            _ => Value::Null,
        })
        .collect()
    } else {
        let made = http(policies, &around, &mut diagnostics);
        let all = made.custom.iter().chain(&made.local);
        all.map(|f| match &f.config_type {
            Some(hcm::http_filter::ConfigType::TypedConfig(c)) => shown(&f.name, c),
            _ => Value::Null,
        })
        .collect()
    }
}

/// Counts whether the filters are those wanted.
fn compare(score: &mut Score, case: &Value, found: Vec<Value>, wanted: &Value) {
    let wanted = wanted.as_array().cloned().unwrap_or_default();
    let mut differences = Vec::new();
    if found != wanted {
        let (found, wanted) = (Value::from(found), Value::from(wanted));
        differences.push(format!("found {found}, wanted {wanted}"));
    }
    score.count(&case["test"].to_string(), &differences);
}

#[test]
fn filters_are_those_of_the_recording() {
    let Some(inputs) = recording("istio/pilot/pkg/security/authz/builder/testdata") else {
        return;
    };
    let table = Table::load("authz-builder").unwrap();
    let mut score = Score::default();
    for case in &table.cases {
        // Some of the inputs were not recorded.
        let Ok(text) = std::fs::read_to_string(inputs.join(case["in"].as_str().unwrap())) else {
            continue;
        };
        let found = filters(&policies(&text), case, case["kind"] == "tcp");
        compare(&mut score, case, found, &case["got"]);
    }
    score.all_as_recorded();
}

#[test]
fn builders_give_the_filters_of_the_recording() {
    let Some(surroundings) = Table::load("authz-builder") else {
        return;
    };
    let surroundings = surroundings.cases;
    let calls = Table::load("authz-builder-misc").unwrap().cases;
    let mut score = Score::default();
    for made in calls.iter().filter(|c| c["fn"] == "builder.New") {
        let same = |c: &&Value| c["test"] == made["test"];
        let mut built = calls.iter().filter(|c| c["fn"] != "builder.New");
        // Without the other table the mesh's providers and trust domains are not known.
        let (Some(built), Some(case)) = (built.find(same), surroundings.iter().find(same)) else {
            continue;
        };
        let mut policies = Policies::default();
        for list in ["Custom", "Audit", "Deny", "Allow"] {
            for policy in made["in"]["policies"][list]
                .as_array()
                .into_iter()
                .flatten()
            {
                let object = json!({
                    "apiVersion": "security.istio.io/v1",
                    "kind": "AuthorizationPolicy",
                    "metadata": {
                        "name": policy["Name"],
                        "namespace": policy["Namespace"],
                        "annotations": policy["Annotations"],
                    },
                    "spec": policy["Spec"],
                });
                let file = Arc::from(Path::new("policy.json"));
                let parsed = model::parse::parse(&object.to_string(), &file, Default::default());
                let object = parsed.objects().next().unwrap();
                policies.add(AuthorizationPolicy::of(object).unwrap().clone());
            }
        }
        // Each is asked for authorizers or for the rest.
        match made["in"]["option"]["IsCustomBuilder"] == true {
            true => {
                policies = Policies {
                    custom: policies.custom,
                    ..Policies::default()
                }
            }
            false => policies.custom.clear(),
        }
        let tcp_chain = built["fn"] == "builder.Builder.BuildTCP";
        let found = filters(&policies, case, tcp_chain);
        compare(&mut score, made, found, &built["out"]);
    }
    score.all_as_recorded();
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
