//! Sequences of changes: drawn by a seed, written as text, made as small as they can be.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use model::access::{Access, AccessKey};
use model::certificate::{PrivateKey, WorkloadCertificate};
use model::change::{Change, Collection, Contents, ServiceKey, ShardKey};
use model::edge::{EdgeDocuments, EdgeFile};
use model::jwks::{FetchedKeys, KeySource};
use model::mesh::read_mesh_networks;
use model::module::{FetchedModule, Module, ModuleSource, Pull};
use model::node::Identity;
use model::outside::Outside;
use model::redacted::Redacted;
use model::service::{Address, Endpoint};
use model::settings::{AccessReviews, Features, Settings};
use model::trust::MeshRoots;
use model::{AnyObject, Hostname, ObjectName, Owner, SourceId};
use testkit::{World, settings};

use crate::incremental::objects::edge::{OPTIONS, options};
use crate::incremental::objects::gateways::NEIGHBOURS;
use crate::incremental::objects::{PICKS, Pick};

/// One change of the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Put(u8, Vec<Pick>),
    Delete(u8, Pick),
    /// An owner's shard of a service has endpoints with these numbers.
    Shard(u8, u8, Vec<u8>),
    /// An owner's shard no longer knows a service.
    NoShard(u8, u8),
    Settings(u8),
    /// What came of fetching the keys of an issuer.
    Keys(u8, u8),
    /// What came of fetching the module of a plugin.
    Module(u8, u8),
    /// The addresses of the name of a gateway between networks.
    Addresses(u8, u8),
    /// The roots of our authority.
    Roots(u8),
    /// What options of an edge are read from beside their ConfigMap.
    Documents(u8),
    /// The ConfigMap with options of an edge, or none.
    Options(u8),
    /// What was made for an identity.
    Certificate(u8, u8),
    /// What the API of a cluster says of the access of a gateway to Secrets.
    Access(u8, u8),
    /// An owner tells a kind again, or the endpoints; these objects are what it has of it.
    Again(u8, Vec<Pick>),
    Gone(u8),
    /// A proxy comes or goes.
    Toggle(u8),
}

pub(crate) const PROXIES: u8 = 8;
/// The remote clusters, of the owners from the third on.
const CLUSTERS: [&str; 2] = ["remote", "west"];
const OWNERS: u8 = 4;
const SETTINGS: u8 = 14;
/// How many documents beside the ConfigMap with options there are.
const DOCUMENTS: u8 = 4;
/// How many modules there are.
const MODULES: u8 = 4;

/// Draws numbers: the same from the same seed, on any machine. Sebastiano Vigna's SplitMix64.
struct Draw {
    state: u64,
    /// The numbers of the kinds that are drawn from; all if there are none.
    kinds: &'static [u8],
    /// What was drawn of them: three times of four one of these is drawn again, in any variant or in the one opposite, so
    /// that variants that hardly differ follow each other.
    drawn: Vec<Pick>,
}

impl Draw {
    fn below(&mut self, bound: u8) -> u8 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(bound)) as u8
    }

    fn pick(&mut self) -> Pick {
        let [kind, namespace, name, variant] = PICKS.map(|bound| self.below(bound));
        if self.kinds.is_empty() {
            return [kind, namespace, name, variant].into();
        }
        if self.below(4) > 0 && !self.drawn.is_empty() {
            let again = usize::from(self.below(u8::MAX)) % self.drawn.len();
            let is_opposite = self.below(2) == 0;
            let again = &mut self.drawn[again];
            again.vary((!is_opposite).then_some(variant));
            return again.clone();
        }
        let kind = self.kinds[usize::from(kind) * self.kinds.len() / usize::from(PICKS[0])];
        let pick = Pick::from([kind, namespace, name, variant]);
        self.drawn.push(pick.clone());
        pick
    }

    fn picks(&mut self, most: u8) -> Vec<Pick> {
        (0..=self.below(most)).map(|_| self.pick()).collect()
    }

    /// Most of the time the first: what only others hold hides nothing.
    fn owner(&mut self) -> u8 {
        self.below(8).saturating_sub(8 - OWNERS)
    }

    fn step(&mut self) -> Step {
        match self.below(28) {
            0..=9 => Step::Put(self.owner(), self.picks(4)),
            10..=13 => Step::Delete(self.owner(), self.pick()),
            14 | 15 => {
                let endpoints = (0..self.below(3)).map(|_| self.below(4)).collect();
                Step::Shard(self.owner(), self.below(3), endpoints)
            }
            16 => Step::NoShard(self.owner(), self.below(3)),
            17 => Step::Settings(self.below(SETTINGS)),
            18 => Step::Keys(self.below(2), self.below(3)),
            19 => Step::Again(self.owner(), self.picks(2)),
            20 => Step::Gone(self.owner()),
            21 => Step::Addresses(self.below(2), self.below(4)),
            22 => Step::Access(self.below(4), self.below(4)),
            24 => Step::Roots(self.below(3)),
            25 => match self.below(OPTIONS + 1 + DOCUMENTS + MODULES) {
                at if at <= OPTIONS => Step::Options(at),
                at if at <= OPTIONS + DOCUMENTS => Step::Documents(at - OPTIONS - 1),
                at => Step::Module(at - OPTIONS - 1 - DOCUMENTS, self.below(4)),
            },
            23 => Step::Certificate(self.below(2), self.below(3)),
            _ => Step::Toggle(self.below(PROXIES)),
        }
    }
}

/// The steps of a seed. They begin with a world that has something in it. Every other seed is of the Gateway API and what
/// belongs to it.
pub(crate) fn of_seed(seed: u64, steps: usize) -> Vec<Step> {
    let (kinds, first): (&[u8], usize) = match seed % 2 {
        0 => (&[], 10),
        _ => (&NEIGHBOURS, 60),
    };
    let mut draw = Draw {
        state: seed,
        kinds,
        drawn: Vec::new(),
    };
    let first = (0..first).map(|_| draw.pick()).collect();
    let mut script = vec![Step::Settings(0), Step::Put(0, first)];
    script.extend((0..PROXIES).map(Step::Toggle));
    script.extend((0..steps).map(|_| draw.step()));
    script
}

/// The fewest of the steps, taken away one by one, that still fail.
pub(crate) fn smallest(mut script: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut at = script.len();
    while at > 0 {
        at -= 1;
        let removed = script.remove(at);
        if !fails(&script) {
            script.insert(at, removed);
        }
    }
    script
}

fn owner(index: u8) -> Owner {
    match index {
        0 => Owner::new(0, "files"),
        1 => Owner::new(1, "api"),
        _ => Owner {
            source: SourceId {
                rank: 2,
                name: "kubernetes".into(),
            },
            cluster: Some(CLUSTERS[usize::from(index % 2)].into()),
        },
    }
}

fn objects(picks: &[Pick]) -> Vec<AnyObject> {
    let yaml: Vec<String> = picks.iter().map(Pick::yaml).collect();
    let mut objects = World::objects(&yaml.join("\n---\n"));
    for (object, pick) in objects.iter_mut().zip(picks) {
        if let Some(routes) = pick.asked() {
            testkit::edge(object, routes);
        }
    }
    objects
}

fn shard(owner: u8) -> ShardKey {
    ShardKey {
        provider: "Consul".into(),
        cluster: format!("c{owner}").into(),
    }
}

fn service(index: u8) -> ServiceKey {
    ServiceKey {
        namespace: "one".into(),
        host: Hostname::from(format!("h{index}.example.com")),
    }
}

fn endpoint(index: &u8) -> Endpoint {
    Endpoint {
        address: Address::Socket {
            hosts: Arc::from([Arc::from(format!("10.7.0.{index}"))]),
            port: 8080,
        },
        port_name: "http".into(),
        service_account: format!("spiffe://cluster.local/ns/one/sa/{}", index % 2).into(),
        ..Endpoint::default()
    }
}

fn settings_of(variant: u8) -> Settings {
    let mut all = settings(match variant {
        1 => "outboundTrafficPolicy: {mode: REGISTRY_ONLY}",
        2 => "{accessLogFile: /dev/stdout, enableAutoMtls: false}",
        3 => "{trustDomain: td, rootNamespace: two}",
        4 => "{defaultConfig: {concurrency: 3}, localityLbSetting: {enabled: false}}",
        5 => "defaultServiceExportTo: [\".\"]",
        _ => "",
    });
    all.features = edge("nginx");
    match variant {
        6 => {
            let networks = "{networks: {north: {endpoints: [{fromCidr: 10.9.0.0/24}], gateways: [{address: 1.1.1.1, port: 15443}]}}}";
            let read = read_mesh_networks(networks, &std::path::Path::new("networks.yaml").into());
            all.networks = Arc::new(read.value.unwrap());
        }
        7 => all.features = features(&["ISTIO_DUAL_STACK", "PILOTHOUSE_OWNED_HOSTS"]),
        8 => all.features = features(&["ENABLE_MCS_HOST", "ENABLE_MCS_SERVICE_DISCOVERY"]),
        9 => {
            all.features = features(&["ENABLE_PROXY_FIND_POD_BY_IP"]);
            let networks = "{networks: {south: {endpoints: [{fromRegistry: remote}, {fromRegistry: west}], \
                            gateways: [{registryServiceName: n0.one.svc.cluster.local, port: 80}]}}}";
            let read = read_mesh_networks(networks, &std::path::Path::new("networks.yaml").into());
            all.networks = Arc::new(read.value.unwrap());
        }
        10 => {
            let own = ["ENABLE_MCS_CLUSTER_LOCAL", "ENABLE_MCS_AUTO_EXPORT"];
            let mcs = ["ENABLE_MCS_HOST", "ENABLE_MCS_SERVICE_DISCOVERY"];
            all.features = features(&[own, mcs].concat());
        }
        11 => {
            all.access_reviews = AccessReviews {
                configured: true,
                remote: true,
            };
        }
        12 => all.features = Arc::new(Features::default()),
        13 => all.features = edge("nginx,higress"),
        _ => {}
    }
    all
}

/// What sections said last, and a file in place of the ConfigMap.
fn documents_of(variant: u8) -> EdgeDocuments {
    let good = |name: &str, json: &str| (name.into(), Redacted::new(json));
    let file = |text| {
        Some(EdgeFile {
            path: std::path::Path::new("options.yaml").into(),
            text,
        })
    };
    let remembered = [
        good("gzip", r#"{"memoryLevel":1}"#),
        good("downstream", r#"{"idleTimeout":5}"#),
    ];
    match variant {
        0 => EdgeDocuments::default(),
        1 => EdgeDocuments {
            file: None,
            good: remembered.into(),
        },
        2 => EdgeDocuments {
            file: file(Ok(Redacted::new("upstream: {idleTimeout: 2}"))),
            ..EdgeDocuments::default()
        },
        _ => EdgeDocuments {
            file: file(Err("gone".into())),
            good: remembered.into(),
        },
    }
}

/// Where Ingresses of these classes are served in a namespace that proxies are in.
fn edge(classes: &str) -> Arc<Features> {
    let stated = [
        ("PILOTHOUSE_INGRESS_CLASSES", classes),
        ("PILOTHOUSE_INGRESS_NAMESPACE", "one"),
        ("ENABLE_GATEWAY_API_INFERENCE_EXTENSION", "true"),
        ("PILOT_ENABLE_ALPHA_GATEWAY_API", "true"),
    ];
    let stated = stated.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(Features::from_env(stated))
}

fn features(on: &[&str]) -> Arc<Features> {
    let edge = [
        ("PILOTHOUSE_INGRESS_NAMESPACE", "one"),
        ("PILOTHOUSE_INGRESS_SELECTOR", "istio=ingressgateway"),
    ];
    let on = on.iter().map(|name| (*name, "true")).chain(edge);
    let on = on.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(Features::from_env(on))
}

impl Step {
    /// What it tells the store; nothing where a proxy comes or goes.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let put = |by: u8, picks: &[Pick]| -> Vec<Change> {
            let put = |object| Change::Put(owner(by), object);
            objects(picks).into_iter().map(put).collect()
        };
        match self {
            Step::Put(by, picks) => put(*by, picks),
            Step::Delete(by, pick) => {
                let objects = objects(std::slice::from_ref(pick));
                vec![Change::Delete(owner(*by), objects[0].key())]
            }
            Step::Shard(by, of, endpoints) => vec![Change::Endpoints {
                owner: owner(*by),
                service: service(*of),
                shard: shard(*by),
                list: endpoints.iter().map(endpoint).collect(),
            }],
            Step::NoShard(by, of) => vec![Change::DeleteEndpoints {
                owner: owner(*by),
                service: service(*of),
                shard: shard(*by),
            }],
            Step::Settings(variant) => vec![Change::Settings(Arc::new(settings_of(*variant)))],
            Step::Keys(issuer, variant) => {
                let source =
                    KeySource::Uri(format!("https://issuer{issuer}.example.com/keys").into());
                let keys = |text: &str| {
                    Some(Arc::new(FetchedKeys {
                        keys: Some(Outside::new(text.into())),
                        trouble: None,
                    }))
                };
                let fetched = match variant {
                    0 => None,
                    1 => keys(r#"{"keys":[]}"#),
                    _ => keys(r#"{"keys":[{"kty":"oct","k":"YQ"}]}"#),
                };
                vec![Change::Keys(source, fetched)]
            }
            Step::Module(of, variant) => {
                let source = ModuleSource {
                    url: format!("oci://registry.example.com/plugin:v{of}").into(),
                    sha256: "".into(),
                    pull: Pull::Once,
                    secret: Some(ObjectName::new("one", format!("n{}", of % 3))),
                };
                let fetched = (*variant > 0).then(|| {
                    let module = (*variant > 1).then(|| Module::new(vec![*variant]));
                    let trouble = (*variant < 3).then(|| "nobody answers".into());
                    Arc::new(FetchedModule { module, trouble })
                });
                vec![Change::Module(source, fetched)]
            }
            Step::Addresses(name, variant) => {
                let address = |last| IpAddr::from([5, 6, *name, last]);
                let found: Option<Vec<IpAddr>> = match variant {
                    0 => None,
                    many => Some((1..*many).map(address).collect()),
                };
                let name = format!("lb{name}.example.com").into();
                vec![Change::Addresses(name, found.map(Into::into))]
            }
            Step::Roots(variant) => {
                let texts = [
                    include_str!("../../../../model/src/x509/keys/ec.crt"),
                    include_str!("../../../../model/src/x509/keys/rsa.crt"),
                ];
                let known = texts.get(usize::from(*variant)).map(|text| {
                    Arc::new(MeshRoots {
                        roots: (*text).into(),
                        revoked: None,
                    })
                });
                vec![Change::Roots(known)]
            }
            Step::Options(variant) => {
                let object = World::objects(&options(variant % OPTIONS)).remove(0);
                vec![match *variant {
                    OPTIONS => Change::Delete(owner(0), object.key()),
                    _ => Change::Put(owner(0), object),
                }]
            }
            Step::Documents(variant) => {
                vec![Change::EdgeDocuments(Arc::new(documents_of(*variant)))]
            }
            Step::Certificate(identity, variant) => {
                let made = (*variant > 0).then(|| {
                    Arc::new(WorkloadCertificate {
                        chain: format!("chain {variant}").into(),
                        key: PrivateKey::from_pem(format!("key {variant}")),
                    })
                });
                let account = ["gateway", "other"][usize::from(*identity)];
                let identity = format!("spiffe://cluster.local/ns/one/sa/{account}");
                vec![Change::Certificate(identity.into(), made)]
            }
            Step::Access(of, answer) => {
                let namespace = ["one", "two"][usize::from(of % 2)];
                let identity = Identity::of_test_token(&format!("sa:{namespace}:gateway"));
                let key = AccessKey {
                    cluster: (*of > 1).then(|| CLUSTERS[0].into()),
                    identity: identity.unwrap(),
                };
                let answer = match answer {
                    0 => None,
                    1 => Some(Access::Allowed),
                    2 => Some(Access::Denied),
                    _ => Some(Access::Unknown("down".into())),
                };
                vec![Change::Access(key, answer.map(Arc::new))]
            }
            Step::Again(by, picks) => {
                let objects = objects(picks);
                let of = Contents::Objects(objects[0].key().kind);
                let collection = Collection {
                    owner: owner(*by),
                    of,
                };
                let mut changes = vec![Change::Restart(collection.clone())];
                changes.extend(put(*by, picks));
                changes.push(Change::Synced(collection));
                changes
            }
            Step::Gone(by) => vec![Change::Gone(owner(*by))],
            Step::Toggle(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picks = |f: &mut fmt::Formatter<'_>, list: &[Pick]| {
            list.iter().try_for_each(|pick| write!(f, " {pick}"))
        };
        match self {
            Step::Put(by, list) => {
                write!(f, "put {by}")?;
                picks(f, list)
            }
            Step::Delete(by, pick) => write!(f, "delete {by} {pick}"),
            Step::Shard(by, of, list) => {
                write!(f, "shard {by} {of}")?;
                list.iter()
                    .try_for_each(|endpoint| write!(f, " {endpoint}"))
            }
            Step::NoShard(by, of) => write!(f, "no-shard {by} {of}"),
            Step::Settings(variant) => write!(f, "settings {variant}"),
            Step::Keys(issuer, variant) => write!(f, "keys {issuer} {variant}"),
            Step::Module(of, variant) => write!(f, "module {of} {variant}"),
            Step::Addresses(name, variant) => write!(f, "addresses {name} {variant}"),
            Step::Roots(variant) => write!(f, "roots {variant}"),
            Step::Documents(variant) => write!(f, "documents {variant}"),
            Step::Options(variant) => write!(f, "options {variant}"),
            Step::Certificate(of, variant) => write!(f, "certificate {of} {variant}"),
            Step::Access(of, answer) => write!(f, "access {of} {answer}"),
            Step::Again(by, list) => {
                write!(f, "again {by}")?;
                picks(f, list)
            }
            Step::Gone(by) => write!(f, "gone {by}"),
            Step::Toggle(proxy) => write!(f, "toggle {proxy}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let what = words.next().ok_or("an empty line")?;
        let numbers: Result<Vec<u8>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|e| format!("{line}: {e}"))?;
        let picks = |list: &[u8]| -> Vec<Pick> {
            let (picks, _) = list.as_chunks::<4>();
            picks.iter().map(|pick| Pick::from(*pick)).collect()
        };
        Ok(match (what, numbers.as_slice()) {
            ("put", [by, list @ ..]) => Step::Put(*by, picks(list)),
            ("delete", [by, a, b, c, d]) => Step::Delete(*by, Pick::from([*a, *b, *c, *d])),
            ("shard", [by, of, list @ ..]) => Step::Shard(*by, *of, list.to_vec()),
            ("no-shard", [by, of]) => Step::NoShard(*by, *of),
            ("settings", [variant]) => Step::Settings(*variant),
            ("keys", [issuer, variant]) => Step::Keys(*issuer, *variant),
            ("module", [of, variant]) => Step::Module(*of, *variant),
            ("addresses", [name, variant]) => Step::Addresses(*name, *variant),
            ("roots", [variant]) => Step::Roots(*variant),
            ("documents", [variant]) => Step::Documents(*variant),
            ("options", [variant]) => Step::Options(*variant),
            ("certificate", [of, variant]) => Step::Certificate(*of, *variant),
            ("access", [of, answer]) => Step::Access(*of, *answer),
            ("again", [by, list @ ..]) => Step::Again(*by, picks(list)),
            ("gone", [by]) => Step::Gone(*by),
            ("toggle", [proxy]) => Step::Toggle(*proxy),
            _ => return Err(format!("no step: {line}")),
        })
    }
}

#[test]
fn steps_are_read_as_they_are_written() {
    for step in of_seed(7, 400) {
        assert_eq!(step.to_string().parse(), Ok(step));
    }
}
