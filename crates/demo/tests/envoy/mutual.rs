//! Mutual TLS between stock Envoys, with certificates from us: STRICT, principals, rotations, another trust domain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::mesh::Mesh;
use demo::shop::{WORKLOADS, Workload};
use demo::{admin, control};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::rig::{Rig, until};

pub(crate) const FRONT: &Workload = &WORKLOADS[0];
pub(crate) const DETAILS: &Workload = &WORKLOADS[1];
const REVIEWS: &Workload = &WORKLOADS[2];

/// Front and reviews ask details. Connections between proxies are short, so that there are handshakes all the time.
const MESH: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: details, namespace: shop}
spec:
  hosts: [details.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints:
  - {address: 127.0.20.20, labels: {app: details, security.istio.io/tlsMode: istio}, serviceAccount: details}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: details, namespace: shop}
spec:
  host: details.shop.svc.cluster.local
  trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 10}}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: details, namespace: shop}
spec:
  workloadSelector: {labels: {app: details}}
  ingress:
  - port: {number: 9080, name: http, protocol: HTTP}
    bind: 127.0.20.20
    captureMode: NONE
    defaultEndpoint: 127.0.0.1:19020
  egress: [{hosts: ['~/*']}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: front, namespace: shop}
spec:
  workloadSelector: {labels: {app: front}}
  egress:
  - {port: {number: 9080, name: http, protocol: HTTP}, bind: 127.0.21.10, captureMode: NONE, hosts: [./*]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: reviews, namespace: shop}
spec:
  workloadSelector: {labels: {app: reviews}}
  egress:
  - {port: {number: 9080, name: http, protocol: HTTP}, bind: 127.0.21.31, captureMode: NONE, hosts: [./*]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: front-alone, namespace: shop}
spec:
  selector: {matchLabels: {app: details}}
  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/front]}}]}]
";

/// Certificates are renewed every 4 to 5 seconds, and those of another CA come 2 to 4 seconds after its roots.
const FLAGS: [&str; 4] = [
    "--multiroot-mesh",
    "--default-workload-cert-ttl=15s",
    "--workload-cert-grace-ratio=0.7",
    "--roots-settle=2s",
];

/// A root certificate, with its key, and the CA below it that signs.
pub(crate) struct Ca {
    pub(crate) name: &'static str,
    pub(crate) root: String,
    pub(crate) certificate: String,
    key: String,
    root_key: String,
}

impl Ca {
    /// What signs.
    pub(crate) fn issuer(&self) -> Issuer<'static, KeyPair> {
        let key = KeyPair::from_pem(&self.key).unwrap();
        Issuer::new(params(&format!("{}'s CA", self.name)), key)
    }

    /// The lists of what was revoked: of the certificate of that number, and of no CA.
    pub(crate) fn revoked(&self, serial: u64) -> String {
        let list = |revoked: &[u64]| CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2044, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked
                .iter()
                .map(|serial| RevokedCertParams {
                    serial_number: SerialNumber::from(*serial),
                    revocation_time: date_time_ymd(2024, 1, 1),
                    reason_code: None,
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let root = KeyPair::from_pem(&self.root_key).unwrap();
        let root = Issuer::new(params(self.name), root);
        let own = list(&[serial]).signed_by(&self.issuer()).unwrap();
        let above = list(&[]).signed_by(&root).unwrap();
        own.pem().unwrap() + &above.pem().unwrap()
    }
}

/// A part of a text in PEM that no other has, however its lines are ended.
fn body(pem: &str) -> &str {
    pem.lines().nth(2).unwrap()
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::OrganizationName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

pub(crate) fn ca(name: &'static str) -> Ca {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = params(name).self_signed(&root_key).unwrap().pem();
    let issuer = Issuer::new(params(name), &root_key);
    let below = params(&format!("{name}'s CA"));
    Ca {
        name,
        root,
        certificate: below.signed_by(&key, &issuer).unwrap().pem(),
        key: key.serialize_pem(),
        root_key: root_key.serialize_pem(),
    }
}

/// Has a CA sign for the mesh, and others trusted besides.
fn plug_in(rig: &Rig, ca: &Ca, others: &[&Ca]) {
    let folder = rig.beside("cacerts");
    std::fs::create_dir_all(&folder).unwrap();
    let roots = std::iter::once(&ca.root).chain(others.iter().map(|ca| &ca.root));
    for (name, text) in [
        ("root-cert.pem", roots.map(String::as_str).collect()),
        ("cert-chain.pem", ca.certificate.clone()),
        ("ca-key.pem", ca.key.clone()),
        ("ca-cert.pem", ca.certificate.clone()),
    ] {
        let scratch = folder.join(".scratch");
        std::fs::write(&scratch, text).unwrap();
        std::fs::rename(&scratch, folder.join(name)).unwrap();
    }
}

fn path(rig: &Rig, name: &str) -> String {
    rig.beside(name).display().to_string()
}

/// A mesh of proxies with certificates, and the folder that its CA is in.
pub(crate) struct Secured {
    pub(crate) rig: Rig,
    pub(crate) mesh: Mesh,
}

impl Secured {
    pub(crate) async fn start(rig: Rig, ca: &Ca, flags: &[String]) -> Self {
        rig.write("mesh.yaml", MESH);
        plug_in(&rig, ca, &[]);
        let mut all = vec![
            format!("--root-ca-dir={}", path(&rig, "cacerts")),
            format!("--data={}", path(&rig, "data")),
            format!("--api-addr={}", rig.block.api()),
            format!("--secure-grpc-addr={}", rig.block.secure_xds()),
        ];
        all.extend(FLAGS.map(str::to_owned));
        all.extend_from_slice(flags);
        let mut secured = Self {
            mesh: rig.mesh_with(all).await,
            rig,
        };
        secured.mesh.start_application(DETAILS).await.unwrap();
        for workload in [FRONT, DETAILS, REVIEWS] {
            secured.start_sidecar(workload);
        }
        secured.mesh.wait_for_proxies().await.unwrap();
        secured
    }

    /// Starts the proxy of a workload, which proves by a token that it has its service account.
    fn start_sidecar(&mut self, workload: &Workload) {
        let (data, token) = (path(&self.rig, "data"), path(&self.rig, workload.app));
        let issue = [
            "token",
            "--data",
            &data,
            "-n",
            "shop",
            workload.app,
            "--create",
            "-o",
            &token,
        ];
        self.mesh.run(&issue).unwrap();
        let (root, sds) = (
            path(&self.rig, "cacerts/root-cert.pem"),
            path(&self.rig, "sds"),
        );
        let xds = self.rig.block.secure_xds().to_string();
        let flags = [
            "--xds",
            &xds,
            "--root-cert",
            &root,
            "--sds-dir",
            &sds,
            "--token-file",
            &token,
        ];
        self.mesh.start_sidecar(workload, &flags).unwrap();
    }

    /// Proxies come back to a server that was started again: by the root that is in the file now, with the token that is.
    async fn come_back(&mut self) {
        let (file, kept) = (self.rig.beside(FRONT.app), self.rig.beside("kept"));
        std::fs::rename(&file, &kept).unwrap();
        std::fs::write(&file, "expired").unwrap();
        self.mesh.kill_control_plane().unwrap();
        self.mesh.start_control_plane().await.unwrap();
        let others = BTreeSet::from(["details-v1.shop".to_owned(), "reviews-v1.shop".to_owned()]);
        until("those with a good token come back", async || {
            self.connected().await == others
        })
        .await;
        std::fs::rename(&kept, &file).unwrap();
        until("front comes back", async || {
            self.connected().await.len() == 3
        })
        .await;
        until("front is let in", async || {
            self.asks(FRONT).await == Some(200)
        })
        .await;
    }

    /// The proxies that are connected.
    async fn connected(&self) -> BTreeSet<String> {
        let pages = self.rig.block.pages();
        let rows = control::syncz(&mut Client::new(pages, pages.to_string())).await;
        rows.unwrap_or_default()
            .into_iter()
            .map(|row| row.proxy)
            .collect()
    }

    /// What a workload gets when it asks details through its proxy: a status, or none.
    pub(crate) async fn asks(&self, workload: &Workload) -> Option<u16> {
        let mut client = Client::new(self.rig.block.outbound(workload), "details");
        client
            .get("/details/7")
            .await
            .ok()
            .map(|reply| reply.status)
    }

    /// The chains that the server has made, by identity, and the roots of the mesh.
    async fn certificates(&self) -> (Vec<(String, String)>, String) {
        let page = get(self.rig.block.pages(), "/debug/certz").await.unwrap();
        let page = page.json().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let made = page["certificates"].as_array().unwrap().iter();
        let made = made.map(|c| (text(&c["identity"]), text(&c["chain"])));
        (made.collect(), text(&page["roots"]))
    }

    /// The certificates that the proxy of details uses.
    async fn in_use(&self) -> Vec<Value> {
        let reply = get(self.rig.block.admin(DETAILS), "/certs").await.unwrap();
        let page = reply.json().unwrap();
        let all = page["certificates"].as_array().unwrap().iter();
        let own = all.flat_map(|c| c["cert_chain"].as_array().unwrap());
        own.cloned().collect()
    }

    async fn serials_in_use(&self) -> BTreeSet<String> {
        let own = self.in_use().await.into_iter();
        own.map(|c| c["serial_number"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn names_in_use(&self) -> BTreeSet<String> {
        let own = self.in_use().await.into_iter();
        own.map(|c| {
            c["subject_alt_names"][0]["uri"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
    }
}

/// Requests from front to details that never stop, each kind of answer counted.
struct Load {
    over: Arc<AtomicBool>,
    good: Arc<AtomicU64>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(rig: &Rig) -> Self {
        let mut load = Self {
            over: Arc::default(),
            good: Arc::default(),
            clients: JoinSet::new(),
        };
        for _ in 0..8 {
            let (over, good) = (load.over.clone(), load.good.clone());
            let mut client = Client::new(rig.block.outbound(FRONT), "details");
            load.clients.spawn(async move {
                let mut bad = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    match client.get("/details/7").await {
                        Ok(reply) if reply.status == 200 => {
                            _ = good.fetch_add(1, Ordering::Relaxed)
                        }
                        Ok(reply) => bad.push(format!("{} {}", reply.status, reply.text())),
                        Err(error) => bad.push(format!("{error:#}")),
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                bad
            });
        }
        load
    }

    /// Ends it; all must have been answered.
    async fn finish(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let bad: Vec<String> = self
            .clients
            .join_all()
            .await
            .into_iter()
            .flatten()
            .collect();
        let good = self.good.load(Ordering::Relaxed);
        assert!(bad.is_empty(), "{} of {good}: {:?}", bad.len(), bad.first());
        good
    }
}

pub(crate) async fn strict_mutual_tls_outlives_rotations_of_certificates_and_of_the_root(rig: Rig) {
    let (first, second) = (ca("first"), ca("second"));
    let mut secured = Secured::start(rig, &first, &[]).await;
    let rig = &secured.rig;
    let handshakes = async || {
        let stats = admin::stats(rig.block.admin(DETAILS), "listener.*ssl.handshake").await;
        stats.unwrap().values().sum::<u64>()
    };
    let refuses = async || {
        assert_eq!(secured.asks(REVIEWS).await, Some(403), "another principal");
        let mut plain = Client::new(rig.block.proxy(DETAILS), "details");
        let taken = plain.get("/details/7").await;
        assert!(taken.is_err(), "plain text was taken: {taken:?}");
    };
    until("front is let in", async || {
        secured.asks(FRONT).await == Some(200)
    })
    .await;
    assert!(handshakes().await > 0);
    refuses().await;

    let load = Load::start(rig);
    let mut used = BTreeSet::new();
    let start = Instant::now();
    while used.len() < 4 {
        assert!(start.elapsed() < Duration::from_secs(120), "{used:?}");
        used.extend(secured.serials_in_use().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let listeners = async || {
        let stats = admin::stats(rig.block.admin(DETAILS), "lds.update_success$").await;
        stats.unwrap().values().sum::<u64>()
    };
    let (before, shaken) = (listeners().await, handshakes().await);

    // Both roots are trusted, then the second CA signs, then its root alone is trusted.
    plug_in(rig, &first, &[&second]);
    until("both roots are told", async || {
        let (_, roots) = secured.certificates().await;
        roots.contains(body(&second.root)) && roots.contains(body(&first.root))
    })
    .await;
    plug_in(rig, &second, &[&first]);
    until("every certificate is of the second CA", async || {
        let (made, _) = secured.certificates().await;
        made.len() == 3
            && made
                .iter()
                .all(|(_, chain)| chain.contains(&second.certificate))
    })
    .await;
    // Proxies have what the server has told them a moment ago.
    tokio::time::sleep(Duration::from_secs(2)).await;
    plug_in(rig, &second, &[]);
    until("the first root is gone", async || {
        let (_, roots) = secured.certificates().await;
        !roots.contains(body(&first.root))
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let good = load.finish().await;
    let after = handshakes().await;
    println!(
        "{good} requests, {after} handshakes, {} certificates seen",
        used.len()
    );
    assert!(good > 100 && after > shaken, "{good} {after}");
    assert_eq!(listeners().await, before, "no listener was sent");
    refuses().await;
    nothing_refused(&secured.mesh).await.unwrap();
    secured.come_back().await;
    secured.mesh.stop().await;
}

pub(crate) async fn a_trust_domain_is_migrated_without_a_lost_request(rig: Rig) {
    let domain = |rig: &Rig, text: &str| rig.mesh_config(text);
    let flag = domain(&rig, "trustDomain: cluster.local\n");
    let secured = Secured::start(rig, &ca("only"), &[flag]).await;
    let rig = &secured.rig;
    until("front is let in", async || {
        secured.asks(FRONT).await == Some(200)
    })
    .await;
    let load = Load::start(rig);
    // First everybody takes both names, then everybody gets the new one.
    domain(
        rig,
        "trustDomain: cluster.local\ntrustDomainAliases: [new.example]\n",
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    domain(
        rig,
        "trustDomain: new.example\ntrustDomainAliases: [cluster.local]\n",
    );
    until("the proxy of details has another name", async || {
        let (names, name) = (
            secured.names_in_use().await,
            "spiffe://new.example/ns/shop/sa/details",
        );
        names.iter().eq([name])
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.finish().await;
    // The policy still names the former domain.
    assert_eq!(secured.asks(FRONT).await, Some(200));
    assert_eq!(secured.asks(REVIEWS).await, Some(403));
    nothing_refused(&secured.mesh).await.unwrap();
    secured.mesh.stop().await;
}
