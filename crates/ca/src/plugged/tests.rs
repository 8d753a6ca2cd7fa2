use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use writeback::testing::{FakePlace, Faults};

use super::*;
use crate::system_clock;

const LOOK: Duration = Duration::from_millis(5);

/// A root that has signed a CA, as texts.
struct Made {
    certificate: String,
    key: String,
    root: String,
    crls: String,
}

fn make() -> Made {
    let params = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    };
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = params("Root").self_signed(&root_key).unwrap();
    let issuer = rcgen::Issuer::new(params("Root"), &root_key);
    let certificate = params("Istio CA").signed_by(&key, &issuer).unwrap();
    let own = rcgen::Issuer::new(params("Istio CA"), &key);
    let list = || CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2044, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    Made {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        root: root.pem(),
        crls: list().signed_by(&own).unwrap().pem().unwrap()
            + &list().signed_by(&issuer).unwrap().pem().unwrap(),
    }
}

fn options() -> Options {
    Options {
        multiroot: false,
        reads_crl: true,
        leaves_generated: false,
        lifetimes: Lifetimes::default(),
        look: LOOK,
    }
}

impl Made {
    fn write(&self, dir: &Path) {
        let chain = [&*self.certificate, &*self.root].concat();
        for (name, text) in [
            ("ca-cert.pem", &self.certificate),
            ("ca-key.pem", &self.key),
            ("cert-chain.pem", &chain),
            ("root-cert.pem", &self.root),
        ] {
            fs::write(dir.join(name), text).unwrap();
        }
    }
}

async fn opened(dir: &Path, options: Options) -> Result<Option<Plugged>, PluggedError> {
    open(Source::Folder(dir.to_owned()), options, system_clock()).await
}

#[tokio::test]
async fn files_of_both_forms_are_taken() {
    let (dir, made) = (tempfile::tempdir().unwrap(), make());
    assert!(opened(dir.path(), options()).await.unwrap().is_none());
    made.write(dir.path());
    let stop = CancellationToken::new();
    let found = opened(dir.path(), options()).await.unwrap().unwrap();
    let authority = found.start(stop.clone());
    let roots = authority.roots().borrow().clone();
    assert_eq!(roots.pems, [made.root.replace("\r\n", "\n")]);
    assert_eq!(roots.signing_chain.len(), 2);
    assert!(authority.state().chain_expires.is_some());
    let tls = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("tls.crt", &made.certificate),
        ("tls.key", &made.key),
        ("ca.crt", &made.root),
    ] {
        fs::write(tls.path().join(name), text).unwrap();
    }
    let found = opened(tls.path(), options()).await.unwrap().unwrap();
    assert_eq!(found.start(stop).roots().borrow().pems, roots.pems);
}

#[tokio::test]
async fn what_cannot_sign_is_told() {
    let (dir, made, other) = (tempfile::tempdir().unwrap(), make(), make());
    made.write(dir.path());
    let fails = async |name: &str, text: &str| {
        let path = dir.path().join(name);
        let before = fs::read(&path).ok();
        fs::write(&path, text).unwrap();
        let error = opened(dir.path(), options()).await.err().unwrap();
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        error
    };
    let issuer = |error| match error {
        PluggedError::Issuer(error) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        issuer(fails("ca-key.pem", &other.key).await),
        IssuerError::OtherKey
    );
    let found = issuer(fails("root-cert.pem", &other.root).await);
    assert!(matches!(found, IssuerError::Path(_)), "{found}");
    let found = issuer(fails("ca-cert.pem", "nothing").await);
    assert_eq!(found, IssuerError::Empty("ca-cert.pem"));
    let found = issuer(fails("ca-crl.pem", &other.crls).await);
    assert!(found.to_string().contains("revocation list"), "{found}");
    fs::remove_file(dir.path().join("cert-chain.pem")).unwrap();
    let found = opened(dir.path(), options()).await.err().unwrap();
    assert_eq!(found, PluggedError::Incomplete(vec!["cert-chain.pem"]));
}

#[tokio::test]
async fn a_leaf_is_no_ca() {
    let dir = tempfile::tempdir().unwrap();
    let made = make();
    made.write(dir.path());
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::default().self_signed(&key).unwrap();
    for (name, text) in [
        ("ca-cert.pem", leaf.pem()),
        ("root-cert.pem", leaf.pem()),
        ("ca-key.pem", key.serialize_pem()),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let error = opened(dir.path(), options()).await.err().unwrap();
    assert_eq!(error, PluggedError::Issuer(IssuerError::NoCa));
}

/// Waits until the state of the authority is one.
async fn until(authority: &Authority, is: impl Fn(&Authority) -> bool) {
    let start = std::time::Instant::now();
    while !is(authority) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            authority.state()
        );
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn other_roots_are_refused_unless_one_bundle_contains_the_other() {
    let (first, second) = (make(), make());
    let both = Made {
        root: [&*first.root, &*second.root].concat(),
        certificate: first.certificate.clone(),
        key: first.key.clone(),
        crls: String::new(),
    };
    let after = Made {
        root: both.root.clone(),
        certificate: second.certificate.clone(),
        key: second.key.clone(),
        crls: String::new(),
    };
    for multiroot in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        first.write(dir.path());
        let options = Options {
            multiroot,
            ..options()
        };
        let found = opened(dir.path(), options).await.unwrap().unwrap();
        let authority = found.start(CancellationToken::new());
        let refused = |a: &Authority| {
            a.state()
                .fault
                .as_ref()
                .is_some_and(|f| f.contains("roots changed"))
        };
        second.write(dir.path());
        until(&authority, refused).await;
        let roots = || authority.roots().borrow().pems.len();
        assert_eq!(roots(), 1);
        both.write(dir.path());
        if !multiroot {
            until(&authority, refused).await;
            assert_eq!(roots(), 1);
            continue;
        }
        until(&authority, |a| a.roots().borrow().pems.len() == 2).await;
        after.write(dir.path());
        second.write(dir.path());
        until(&authority, |a| {
            a.roots().borrow().pems == [second.root.replace("\r\n", "\n")]
        })
        .await;
    }
}

#[tokio::test]
async fn lists_of_revoked_certificates_are_read_with_the_next_change() {
    let (dir, made) = (tempfile::tempdir().unwrap(), make());
    made.write(dir.path());
    let found = opened(dir.path(), options()).await.unwrap().unwrap();
    let authority = found.start(CancellationToken::new());
    assert_eq!(authority.roots().borrow().crl, None);
    let generation = authority.roots().borrow().generation;
    fs::write(dir.path().join("ca-crl.pem"), &made.crls).unwrap();
    until(&authority, |a| a.roots().borrow().crl.is_some()).await;
    assert!(authority.roots().borrow().generation > generation);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_read_unless_a_control_plane_made_it() {
    let (place, made) = (FakePlace::new(), make());
    let base64 = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let mut object = serde_json::json!({"data": {
        "ca-cert.pem": base64(&made.certificate), "ca-key.pem": base64(&made.key),
        "cert-chain.pem": "", "root-cert.pem": base64(&made.root),
    }});
    let namespace: Arc<str> = "istio-system".into();
    place.put("somebody", &secret(&namespace, CACERTS), object.clone());
    let source = Source::Secret {
        place: place.client("only", 1, Faults::default()),
        namespace: namespace.clone(),
    };
    let options = Options {
        leaves_generated: true,
        ..options()
    };
    let found = open(source.clone(), options.clone(), system_clock()).await;
    assert!(found.unwrap().is_some());
    object["data"][GENERATED] = "".into();
    place.put("somebody", &secret(&namespace, CACERTS), object);
    let found = open(source.clone(), options.clone(), system_clock()).await;
    assert!(found.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_late_makes_no_ca_in_place_of_the_operators() {
    for plugged_in in [true, false] {
        let (place, made) = (FakePlace::new(), make());
        let base64 = |text: &str| {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.encode(text)
        };
        let object = serde_json::json!({"data": {
            "ca-cert.pem": base64(&made.certificate), "ca-key.pem": base64(&made.key),
            "cert-chain.pem": "", "root-cert.pem": base64(&made.root),
        }});
        let namespace: Arc<str> = "istio-system".into();
        if plugged_in {
            place.put("somebody", &secret(&namespace, CACERTS), object);
        }
        let down = Faults {
            lost: 1000,
            ..Faults::default()
        };
        let client = place.client("only", 1, down);
        let source = Source::Secret {
            place: client.clone(),
            namespace: namespace.clone(),
        };
        let storage = Storage::Secret {
            place: client.clone(),
            namespace: namespace.clone(),
            as_cacerts: false,
        };
        let authority = start_or_self_signed(
            source,
            options(),
            storage,
            self_signed::Options::default(),
            system_clock(),
            CancellationToken::new(),
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!authority.roots().borrow().are_known());
        assert!(authority.state().fault.is_some());
        client.set_faults(Faults::default());
        authority.ready().await;
        let root = authority.roots().borrow().pem();
        assert_eq!(root == made.root.replace("\r\n", "\n"), plugged_in);
        assert_eq!(authority.state().fault, None);
    }
}
