use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use writeback::ObjectRef;
use writeback::testing::{FakePlace, Faults};

use super::*;
use crate::issuer::{Issuer, Parts};
use crate::key::{KeyAlgorithm, PrivateKey};
use crate::system_clock;

const WORKLOAD: &str = "spiffe://cluster.local/ns/shop/sa/web";
const OTHER: &str = "spiffe://cluster.local/ns/bank/sa/safe";

fn ca() -> Issuer {
    let now = SystemTime::now();
    let lifetime = Duration::from_hours(24);
    let (certificate, key) =
        Issuer::self_signed("Signer", KeyAlgorithm::EcdsaP256, now, lifetime).unwrap();
    let parts = Parts {
        roots: vec![certificate.clone()],
        certificate,
        key,
        chain: Vec::new(),
        crl: None,
    };
    Issuer::new(parts, now).unwrap()
}

/// What a signer of a cluster does with what is approved.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Sign,
    SignOther,
    SignAnotherKey,
    Deny,
    Nothing,
}

struct World {
    place: FakePlace,
    ca: Arc<Issuer>,
    sends_root: bool,
}

impl World {
    fn new(sends_root: bool) -> Self {
        Self {
            place: FakePlace::new(),
            ca: Arc::new(ca()),
            sends_root,
        }
    }

    fn root(&self) -> Arc<str> {
        self.ca.bundle().clone()
    }

    /// A signer that answers what appears in the API.
    fn serve(&self, does: Does) {
        let (place, ca, sends_root) = (self.place.clone(), self.ca.clone(), self.sends_root);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                for written in place.written() {
                    let now = place.object(&written.object);
                    if now["status"]["conditions"].is_array()
                        && now["status"]["certificate"].is_null()
                    {
                        answer(&place, &written.object, &now, &ca, does, sends_root);
                    }
                }
            }
        });
    }

    fn authority(&self, options: Options, stated: &[(&str, Arc<str>)]) -> Authority {
        let stated = stated
            .iter()
            .map(|(name, pem)| ((*name).into(), pem.clone()));
        let (_, stated) = watch::channel(Arc::new(stated.collect()));
        let place = self.place.client("ours", 1, Faults::default());
        start(
            place,
            options,
            stated,
            system_clock(),
            CancellationToken::new(),
        )
        .unwrap()
    }
}

fn answer(place: &FakePlace, object: &ObjectRef, now: &Value, ca: &Issuer, does: Does, root: bool) {
    let mut status = now["status"].clone();
    let csr = STANDARD
        .decode(now["spec"]["request"].as_str().unwrap())
        .unwrap();
    let csr = Csr::parse(&csr).unwrap();
    let Names::Known(names) = csr.names() else {
        panic!("names");
    };
    let (name, key) = match does {
        Does::Nothing => return,
        Does::Deny => {
            if status["conditions"].as_array().unwrap().len() == 1 {
                let denied = json!({"type": "Denied", "message": "not today"});
                status["conditions"].as_array_mut().unwrap().push(denied);
                place.put_status("signer", object, status);
            }
            return;
        }
        Does::Sign => (names[0].as_str(), csr.public_key().to_vec()),
        Does::SignOther => (OTHER, csr.public_key().to_vec()),
        Does::SignAnotherKey => {
            let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
            (names[0].as_str(), key.public_key().to_vec())
        }
    };
    let now = SystemTime::now();
    let until = now + Duration::from_hours(1);
    let leaf = ca.leaf(&key, &[name], false, now, until).unwrap();
    let mut chain = leaf.pem();
    if root {
        chain.push_str(ca.bundle());
    }
    status["certificate"] = STANDARD.encode(chain).into();
    place.put_status("signer", object, status);
}

fn options() -> Options {
    Options {
        domain: Some("clusterissuers.cert-manager.io".into()),
        signer: Some("example.com/default".into()),
        roots: None,
        lifetimes: Lifetimes::default(),
        patience: Duration::from_secs(60),
    }
}

fn request(signer: Option<&str>, asked: &str) -> SigningRequest {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    SigningRequest {
        csr: Csr::make(&key, &[asked]).unwrap(),
        sans: vec![WORKLOAD.into()],
        ttl: Some(Duration::from_secs(60)),
        signer: signer.map(Into::into),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_made_approved_read_and_deleted() {
    for (sends_root, of_mesh, of_file) in [
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, true, true),
    ] {
        let world = World::new(sends_root);
        world.serve(Does::Sign);
        let options = Options {
            roots: of_file.then(|| world.root()),
            ..options()
        };
        let stated = [("clusterissuers.cert-manager.io/foo", world.root())];
        let authority = world.authority(options, if of_mesh { &stated } else { &[] });
        let issued = authority
            .signer()
            .sign(request(Some("foo"), WORKLOAD))
            .await
            .unwrap();
        assert_eq!(issued.roots, world.root());
        assert_eq!(issued.chain.len(), 1, "the root is not in the chain");
        let written = world.place.written();
        let made = &written[0].after["spec"];
        assert_eq!(made["signerName"], "clusterissuers.cert-manager.io/foo");
        assert_eq!(made["expirationSeconds"], 600, "the API takes no less");
        let last = written.last().unwrap();
        assert!(last.after.is_null(), "it is deleted");
        assert_eq!(last.before["status"]["conditions"][0]["type"], "Approved");
        if of_mesh || of_file {
            authority.ready().await;
            assert_eq!(authority.roots().borrow().pem(), *world.root());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_signer_must_not_sign_never_reaches_it() {
    let world = World::new(true);
    world.serve(Does::Sign);
    let authority = world.authority(options(), &[]);
    let refused = authority
        .signer()
        .sign(request(Some("foo"), OTHER))
        .await
        .unwrap_err();
    assert_eq!(refused.label(), "CSR_ERROR");
    let mut long = request(Some("foo"), WORKLOAD);
    long.ttl = Some(Duration::from_hours(24 * 91));
    assert_eq!(
        authority.signer().sign(long).await.unwrap_err().label(),
        "TTL_ERROR"
    );
    let without = Options {
        domain: None,
        signer: None,
        ..options()
    };
    let authority = world.authority(without, &[]);
    for signer in [Some("foo"), None] {
        let refused = authority
            .signer()
            .sign(request(signer, WORKLOAD))
            .await
            .unwrap_err();
        assert_eq!(refused.label(), "CERT_GEN_ERROR");
    }
    assert!(world.place.written().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_signer_gives_is_judged_and_nothing_stays_behind() {
    for (does, words) in [
        (Does::SignOther, "not of the names"),
        (Does::SignAnotherKey, "another one"),
        (Does::Deny, "not today"),
        (Does::Nothing, "within"),
    ] {
        let world = World::new(true);
        world.serve(does);
        let authority = world.authority(options(), &[]);
        let error = authority
            .signer()
            .sign(request(None, WORKLOAD))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(world.place.written().last().unwrap().after.is_null());
    }
    let world = World::new(true);
    world.serve(Does::Sign);
    let foreign = Options {
        roots: Some(ca().bundle().clone()),
        ..options()
    };
    let authority = world.authority(foreign, &[]);
    let error = authority
        .signer()
        .sign(request(None, WORKLOAD))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no root"), "{error}");
}
