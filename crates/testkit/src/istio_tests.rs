//! Istio's own tests of generation, recorded: what they put in, what came out, and the requests they sent through it.

mod objects;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use model::mesh::MeshConfig;
use model::node::Node;
use model::settings::Features;
use serde_json::{Map, Value, json};
use xds::TypeUrl;

use crate::message::decode_recorded;
use crate::recorded::recording;
use crate::world::{World, as_istiod, node, settings};

/// One recorded test.
pub struct IstioTest {
    /// The file of recordings it stands in, without what all have in common.
    pub group: String,
    /// Its name in Istio.
    pub name: String,
    /// What it put in; several where it changed that and generated again.
    inputs: Vec<Arc<Input>>,
    /// What was generated, in order.
    pub outputs: Vec<Output>,
    /// The requests it sent, and where they went: through what the test of this name put in.
    pub calls: Vec<Value>,
    /// The test whose inputs these are.
    pub inputs_of: String,
}

struct Input {
    scenario: Value,
    kube: Value,
}

/// What was generated for a proxy.
pub struct Output {
    /// Which type of resource.
    pub ty: TypeUrl,
    /// Resources by name, as JSON.
    pub resources: BTreeMap<String, Value>,
    /// Which of the inputs it was made of.
    input: usize,
    proxy: Value,
    features: Value,
}

impl Output {
    /// Whether traffic to a port of the workload has chains of its own.
    fn serves(&self, port: u16) -> bool {
        let inbound = self.resources.get("virtualInbound");
        inbound.is_some_and(|l| {
            let chains = l["filter_chains"].as_array().into_iter().flatten();
            chains
                .map(|c| &c["filter_chain_match"]["destination_port"])
                .any(|p| *p == port)
        })
    }
}

impl IstioTest {
    /// Every recorded test that has outputs or calls; empty where there are no recordings.
    ///
    /// # Panics
    ///
    /// When a file is no recording.
    pub fn recorded() -> Vec<Self> {
        let Some(folder) = recording("istio-tables/xds-scenarios") else {
            return Vec::new();
        };
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut files: Vec<_> = entries.flatten().map(|e| e.path()).collect();
        files.sort();
        let packed = files
            .iter()
            .filter(|f| f.extension().is_some_and(|e| e == "gz"));
        packed.flat_map(|file| read(file)).collect()
    }

    /// The world and the proxy of an output.
    pub fn world_of(&self, output: &Output) -> (World, Arc<Node>) {
        let input = &self.inputs[output.input];
        let mut settings = settings("");
        if input.scenario["meshConfig"].is_object() {
            // A nanosecond more tells the default in their tables.
            let mesh = input.scenario["meshConfig"].to_string();
            let mesh = mesh.replace("10.000000001s", "10s");
            // Recorded as it was in force: what is not there was not set, defaults included.
            let mesh: MeshConfig =
                serde_json::from_str(&mesh).unwrap_or_else(|e| panic!("{}: {e}", self.name));
            settings.mesh = Arc::new(mesh);
        }
        let recorded = [&input.scenario["features"], &output.features];
        let flags = recorded
            .iter()
            .filter_map(|f| f.as_object())
            .flatten()
            .filter_map(|(name, value)| Some((flag(name)?.to_owned(), text(value))));
        settings.features = Arc::new(Features::from_env(as_istiod().chain(flags)));
        let mut world = World::new(settings);
        let helped = self.outputs.iter().any(|o| o.serves(8080));
        let objects = objects::of(&input.scenario, &input.kube, &output.proxy, helped);
        world.apply_json(&objects);
        (world, proxy(&output.proxy))
    }

    /// What the proxy of an output is: `sidecar`, `router`, `waypoint`.
    pub fn role<'a>(&self, output: &'a Output) -> &'a str {
        output.proxy["type"].as_str().unwrap_or_default()
    }

    /// Whether what it put in stands in kinds that are read elsewhere, or it is about ambient mode.
    pub fn is_elsewhere(&self) -> bool {
        let of_kube = |input: &Arc<Input>| {
            let objects = objects::kube(&input.kube);
            objects.iter().any(|o| {
                o["kind"] == "Ingress"
                    || o["apiVersion"]
                        .as_str()
                        .is_some_and(|v| v.starts_with("gateway.networking.k8s.io"))
            })
        };
        let of_config = |input: &Arc<Input>| {
            let configs = input.scenario["configs"].as_array();
            configs.into_iter().flatten().any(|o| {
                o["apiVersion"]
                    .as_str()
                    .is_some_and(|v| v.starts_with("gateway.networking.k8s.io"))
            })
        };
        let ambient = |o: &Output| {
            let flags = o.features.as_object();
            flags.is_some_and(|f| {
                f.keys()
                    .any(|k| k.starts_with("EnableAmbient") || k == "EnableHBONESend")
            }) || self.role(o) == "waypoint"
        };
        self.inputs.iter().any(|i| of_kube(i) || of_config(i)) || self.outputs.iter().any(ambient)
    }
}

fn read(file: &Path) -> Vec<IstioTest> {
    let packed = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut lines = String::new();
    GzDecoder::new(packed.as_slice())
        .read_to_string(&mut lines)
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let group = name
        .trim_start_matches("pilot_pkg_")
        .trim_end_matches(".jsonl.gz");
    let mut rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}")))
        .collect();
    let mut inputs: BTreeMap<String, Vec<Arc<Input>>> = BTreeMap::new();
    for row in &mut rows {
        let Value::Array(scenarios) = row["scenario"].take() else {
            continue;
        };
        let kube = row["kube"].take();
        let list = scenarios.into_iter().enumerate().map(|(at, scenario)| {
            let kube = kube.get(at).or_else(|| kube.get(0));
            let kube = kube.cloned().unwrap_or_default();
            Arc::new(Input { scenario, kube })
        });
        inputs.insert(text(&row["test"]), list.collect());
    }
    rows.into_iter()
        .filter_map(|row| {
            let own = inputs.get_key_value(row["test"].as_str()?);
            let (of, inputs) = own.or_else(|| inputs.get_key_value(row["inputsFrom"].as_str()?))?;
            let mut test = IstioTest {
                group: group.to_owned(),
                name: text(&row["test"]),
                inputs: inputs.clone(),
                outputs: Vec::new(),
                inputs_of: of.clone(),
                calls: row["calls"].as_array().cloned().unwrap_or_default(),
            };
            let mut seen: BTreeMap<TypeUrl, usize> = BTreeMap::new();
            for output in row["outputs"].as_array().into_iter().flatten() {
                let ty = type_of(output["type"].as_str()?)?;
                let nth = seen.entry(ty).or_default();
                test.outputs.push(Output {
                    ty,
                    resources: by_name(ty, &output["resources"]),
                    input: *nth % test.inputs.len(),
                    proxy: output["proxy"].clone(),
                    features: output["features"].clone(),
                });
                *nth += 1;
            }
            (!test.outputs.is_empty() || !test.calls.is_empty()).then_some(test)
        })
        .collect()
}

fn type_of(short: &str) -> Option<TypeUrl> {
    match short {
        "LDS" => Some(TypeUrl::Listener),
        "CDS" => Some(TypeUrl::Cluster),
        "RDS" => Some(TypeUrl::Route),
        _ => None,
    }
}

fn by_name(ty: TypeUrl, resources: &Value) -> BTreeMap<String, Value> {
    let list = resources.as_array().into_iter().flatten();
    list.map(|r| (text(&r["name"]), decode_recorded(ty.as_str(), r)))
        .collect()
}

/// The proxy of a recorded description.
fn proxy(recorded: &Value) -> Arc<Node> {
    let namespace = text(&recorded["configNamespace"]);
    let mut metadata = Map::new();
    for (name, value) in recorded["metadata"].as_object().into_iter().flatten() {
        if name == "Raw" {
            metadata.extend(value.as_object().cloned().unwrap_or_default());
        } else {
            metadata.insert(metadata_field(name), value.clone());
        }
    }
    let ips: Vec<String> = recorded["ips"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    metadata.insert("INSTANCE_IPS".into(), ips.join(",").into());
    metadata
        .entry("NAMESPACE")
        .or_insert_with(|| namespace.clone().into());
    if recorded["labels"].is_object() {
        metadata.insert("LABELS".into(), recorded["labels"].clone());
    }
    let mut id = text(&recorded["id"]);
    if !id.contains('.') {
        id = format!("{id}.{namespace}");
    }
    let (role, domain) = (text(&recorded["type"]), text(&recorded["dnsDomain"]));
    let first = ips.first().map_or("", String::as_str);
    node(&json!({
        "id": format!("{role}~{first}~{id}~{domain}"),
        "metadata": metadata,
        "locality": recorded["locality"],
    }))
}

/// The name in JSON of a field of Istio's metadata.
fn metadata_field(name: &str) -> String {
    match name {
        "HTTP10" => return "HTTP10".into(),
        "HTTPProxyPort" => return "HTTP_PROXY_PORT".into(),
        "DNSCapture" => return "DNS_CAPTURE".into(),
        "DNSAutoAllocate" => return "DNS_AUTO_ALLOCATE".into(),
        "EnableHBONE" => return "ENABLE_HBONE".into(),
        _ => {}
    }
    // Upper case begins a word unless it goes on from upper case: `TLSClientKey`, `ClusterID`.
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, c) in chars.iter().enumerate() {
        let after_lower = at > 0 && chars[at - 1].is_lowercase();
        let before_lower = chars.get(at + 1).is_some_and(|n| n.is_lowercase());
        if at > 0 && c.is_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}

/// The variable that sets a feature; `None` where it does not concern what is generated here.
fn flag(feature: &str) -> Option<&'static str> {
    Some(match feature {
        "EnableDualStack" => "ISTIO_DUAL_STACK",
        "EnableIPAutoallocate" => "PILOT_ENABLE_IP_AUTOALLOCATE",
        "EnableRedisFilter" => "PILOT_ENABLE_REDIS_FILTER",
        "EnableTLSOnSidecarIngress" => "ENABLE_TLS_ON_SIDECAR_INGRESS",
        "EnableHeadlessFilterChainListener" => "PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER",
        "TraceSampling" => "PILOT_TRACE_SAMPLING",
        _ => return None,
    })
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
