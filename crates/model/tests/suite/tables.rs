//! What Istio's own functions answered, recorded as tables beside the repository; skipped where there are none.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_model::kinds::gateway_api::pool_service_name;
use pilothouse_model::mesh::{self, MeshConfig};
use pilothouse_model::protocol::Protocol;
use pilothouse_model::service::Locality;
use pilothouse_model::spiffe::{self, SpiffeId};
use pilothouse_model::{Labels, host, labels};
use serde_json::{Value, json};
use testkit::{Score, Table, recording};

fn table(name: &str) -> Vec<Value> {
    Table::load(name).map_or_else(Vec::new, |table| table.cases)
}

/// Runs every case whose function `run` knows, and names those that differ.
fn check(name: &str, run: impl Fn(&str, &Value) -> Option<Value>) {
    let mut score = Score::default();
    for case in table(name) {
        let function = case["fn"].as_str().unwrap();
        let Some(got) = run(function, &case["in"]) else {
            continue;
        };
        let differs = (got != case["out"]).then(|| format!("got {got}, recorded {}", case["out"]));
        score.count(&format!("{function} {}", case["in"]), differs.as_slice());
    }
    score.all_as_recorded();
}

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

fn label_map(value: &Value) -> Labels {
    value
        .as_object()
        .map(|map| {
            map.iter()
                .map(|(k, v)| (k.as_str(), v.as_str().unwrap()))
                .collect()
        })
        .unwrap_or_default()
}

#[test]
fn hosts_match_as_in_istio() {
    check("host", |function, input| {
        let text = |name: &str| input[name].as_str().unwrap_or_default();
        Some(match function {
            "host.MoreSpecific" => host::more_specific(text("a"), text("b")).into(),
            "host.Name.IsWildCarded" => text("self").starts_with('*').into(),
            "host.Name.Matches" => host::matches(text("self"), text("o")).into(),
            "host.Name.SubsetOf" => host::subset_of(text("self"), text("o")).into(),
            "host.Names.Intersection" => {
                host::intersection(&texts(&input["self"]), &texts(&input["other"])).into()
            }
            "host.NamesForNamespace" => {
                let hosts = texts(&input["hosts"]);
                host::in_namespace(hosts, text("namespace"))
                    .collect::<Vec<_>>()
                    .into()
            }
            _ => return None,
        })
    });
}

#[test]
fn every_pair_of_hosts_compares_as_in_istio() {
    let mut score = Score::default();
    for case in table("matrix-host") {
        let (a, b) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        let got = [
            host::matches(a, b),
            host::subset_of(a, b),
            host::more_specific(a, b),
        ];
        let recorded = [&case[2], &case[3], &case[4]].map(|v| v.as_bool().unwrap());
        let differs = (got != recorded).then(|| format!("got {got:?}, recorded {recorded:?}"));
        score.count(&format!("{a:?} {b:?}"), differs.as_slice());
    }
    score.all_as_recorded();
}

#[test]
fn protocols_are_read_as_in_istio() {
    check("protocol", |function, input| {
        let protocol = |name: &str| Protocol::parse(input[name].as_str().unwrap());
        Some(match function {
            "protocol.Parse" => protocol("s").name().into(),
            "protocol.Instance.IsHTTP" => protocol("self").is_http().into(),
            _ => return None,
        })
    });
}

#[test]
fn protocols_of_kubernetes_ports_are_found_as_in_istio() {
    let mut score = Score::default();
    for case in table("matrix-protocol-detection") {
        let got = Protocol::of_kube_port(
            i32::try_from(case["port"].as_i64().unwrap()).unwrap(),
            case["portName"].as_str().unwrap(),
            case["transport"].as_str().unwrap(),
            case["appProtocol"].as_str(),
        );
        let differs = (got.name() != case["protocol"]).then(|| format!("got {got}"));
        score.count(&case.to_string(), differs.as_slice());
    }
    score.all_as_recorded();
}

#[test]
fn labels_select_and_name_as_in_istio() {
    check("labels", |function, input| {
        let (this, that) = (label_map(&input["self"]), label_map(&input["that"]));
        let of = label_map(&input["labels"]);
        Some(match function {
            "labels.Instance.SubsetOf" => that.matches(&this).into(),
            // As selection of workloads by a service, where an empty selector selects nothing.
            "labels.Instance.Match" => (!this.is_empty() && that.matches(&this)).into(),
            "labels.Instance.Validate" => {
                let valid = this.iter().all(|(k, v)| labels::fault(k, v).is_none());
                if valid { Value::Null } else { return None }
            }
            "labels.GetApp" => {
                serde_json::json!([of.app().unwrap_or_default(), of.app().is_some()])
            }
            "labels.CanonicalService" => serde_json::json!([
                of.canonical_service().or(input["workloadName"].as_str()),
                of.canonical_revision().unwrap_or("latest"),
            ]),
            "labels.HasCanonicalServiceName" => of.canonical_service().is_some().into(),
            "labels.HasCanonicalServiceRevision" => of.canonical_revision().is_some().into(),
            _ => return None,
        })
    });
}

#[test]
fn mesh_config_is_laid_over_defaults_as_in_istio() {
    let file = PathBuf::from("mesh.yaml").into();
    let config =
        |value: &Value| -> MeshConfig { proto_istio::json::from_value(value).unwrap().message };
    // Recorded configs are compared as configs: their JSON leaves out fields that hold the zero of their type.
    let mut score = Score::default();
    for case in table("meshconfig-load") {
        let (function, input) = (case["fn"].as_str().unwrap(), &case["in"]);
        let yaml = input["yaml"].as_str().unwrap_or_default();
        let out = &case["out"][0];
        let same = match function {
            "mesh.ApplyMeshConfig" => {
                let read = mesh::apply_mesh_config(yaml, config(&input["defaultConfig"]), &file);
                read.value == Some(config(out))
            }
            "mesh.ApplyMeshConfigDefaults" => {
                mesh::read_mesh_config(yaml, &file).value == Some(config(out))
            }
            "mesh.ApplyProxyConfig" => {
                let read = mesh::apply_proxy_config(yaml, config(&input["meshConfig"]), &file);
                read.value == Some(config(out))
            }
            "mesh.ParseMeshNetworks" => {
                let networks = serde_json::from_value(out.clone()).unwrap();
                mesh::read_mesh_networks(yaml, &file).value == Some(networks)
            }
            "mesh.EmptyMeshNetworks" => {
                mesh::read_mesh_networks("", &file).value == Some(Default::default())
            }
            // What comes of it is not recorded, but which key of the ConfigMap is looked at.
            "kubemesh.NewConfigMapSource" => {
                mesh::mesh_config_keys().contains(&input["key"].as_str().unwrap())
            }
            _ => false,
        };
        let differs = (!same).then(|| yaml.to_owned());
        score.count(&format!("{function} {}", case["test"]), differs.as_slice());
    }
    score.all_as_recorded();
}

#[test]
fn recorded_scenarios_have_mesh_configs_that_read() {
    let Some(root) = recording("scenarios") else {
        return;
    };
    let mut checked = 0;
    for scenario in std::fs::read_dir(root).unwrap().flatten() {
        let path = scenario.path().join("mesh.yaml");
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let read = mesh::read_mesh_config(&text, &path.into());
        assert!(
            read.value.is_some() && read.diagnostics.is_empty(),
            "{:?}",
            read.diagnostics
        );
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn localities_are_read_and_written_as_in_istio() {
    check("networking-util", |function, input| {
        Some(match function {
            "util.ConvertLocality" => {
                let locality = Locality::parse(input["locality"].as_str()?);
                let parts = [
                    ("region", locality.region),
                    ("zone", locality.zone),
                    ("subZone", locality.subzone),
                ];
                let stated = parts.iter().filter(|(_, part)| !part.is_empty());
                stated
                    .map(|(name, part)| (name.to_string(), Value::from(&**part)))
                    .collect()
            }
            "util.LocalityToString" => {
                let part = |name: &str| input["l"][name].as_str().unwrap_or_default().into();
                let locality = Locality {
                    region: part("region"),
                    zone: part("zone"),
                    subzone: part("subZone"),
                };
                locality.to_string().into()
            }
            _ => return None,
        })
    });
}

/// A SPIFFE id as it was recorded: fields that are empty are left out.
fn recorded_id(id: &SpiffeId) -> Value {
    let fields = [
        ("TrustDomain", &*id.trust_domain),
        ("Namespace", &id.namespace),
        ("ServiceAccount", &id.service_account),
    ];
    let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
    fields
        .map(|(name, text)| (name.to_owned(), Value::from(text)))
        .collect()
}

#[test]
fn spiffe_ids_are_read_and_written_as_in_istio() {
    check("spiffe", |function, input| {
        let text = |name: &str| input[name].as_str().unwrap_or_default();
        let made = |domain: &str| SpiffeId::new(domain, text("ns"), text("serviceAccount"));
        Some(match function {
            "spiffe.ParseIdentity" => match text("s").parse::<SpiffeId>() {
                Ok(id) => {
                    assert_eq!(id.to_string(), text("s"));
                    json!([recorded_id(&id), null])
                }
                Err(error) => json!([{}, error.to_string()]),
            },
            "spiffe.genSpiffeURI" => {
                let id = made(text("td"));
                let (namespace, account) = (text("ns"), text("serviceAccount"));
                let refused = (!id.is_whole()).then(|| {
                    format!("namespace or service account empty for SPIFFE uri ns={namespace} serviceAccount={account}")
                });
                json!([id.to_string(), refused])
            }
            "spiffe.MustGenSpiffeURIForTrustDomain" => made(text("td")).to_string().into(),
            "spiffe.MustGenSpiffeURI" => {
                let domain = input["meshCfg"]["trustDomain"].as_str().unwrap();
                made(domain).to_string().into()
            }
            "spiffe.ExpandWithTrustDomains" => {
                let ids: Vec<Arc<str>> = input["spiffeIdentities"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|id| id.as_str().into())
                    .collect();
                let aliases = texts(&input["trustDomainAliases"]);
                let aliases: Vec<String> = aliases.into_iter().map(str::to_owned).collect();
                let all = spiffe::with_domains(&ids, &aliases).into_iter();
                all.map(|id| (id.to_string(), json!({}))).collect()
            }
            // Pools of certificates and what was fetched were not recorded.
            _ => return None,
        })
    });
}

#[test]
fn pools_have_the_services_of_istio() {
    check("gateway-api-helpers", |function, input| {
        let is_ours = function == "gateway.InferencePoolServiceName";
        let pool = is_ours.then(|| input["poolName"].as_str().unwrap())?;
        Some(json!([*pool_service_name(pool), null]))
    });
}
