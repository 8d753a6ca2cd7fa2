//! What is signed, as openssl, Go and rustls judge it: path, names, usage, time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ca::issuer::Parts;
use ca::{
    Authority, Certificate, Csr, Issued, Issuer, KeyAlgorithm, Lifetimes, PrivateKey, SignError,
    SigningRequest, system_clock,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::judges::{Case, go};

const WORKLOAD: &str = "spiffe://cluster.local/ns/shop/sa/web";
const HOUR: Duration = Duration::from_hours(1);

const ALGORITHMS: [KeyAlgorithm; 3] = [
    KeyAlgorithm::EcdsaP256,
    KeyAlgorithm::EcdsaP384,
    KeyAlgorithm::Rsa2048,
];

fn self_signed(algorithm: KeyAlgorithm) -> Issuer {
    let now = SystemTime::now();
    let (certificate, key) =
        Issuer::self_signed("cluster.local", algorithm, now, 10 * 24 * HOUR).unwrap();
    let parts = Parts {
        roots: vec![certificate.clone()],
        certificate,
        key,
        chain: Vec::new(),
        crl: None,
    };
    Issuer::new(parts, now).unwrap()
}

/// A CA that another one's root has signed, with one between, as operators plug in.
fn plugged_in(algorithm: KeyAlgorithm) -> Issuer {
    let ca = |name: &str, length| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(length);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.use_authority_key_identifier_extension = true;
        params
    };
    let keys: [KeyPair; 2] = std::array::from_fn(|_| KeyPair::generate().unwrap());
    let root = ca("Root", BasicConstraints::Unconstrained);
    let root_pem = root.self_signed(&keys[0]).unwrap().pem();
    let root = rcgen::Issuer::new(root, &keys[0]);
    let middle = ca("Middle", BasicConstraints::Constrained(1));
    let middle_pem = middle.signed_by(&keys[1], &root).unwrap().pem();
    let middle = rcgen::Issuer::new(middle, &keys[1]);
    let key = PrivateKey::generate(algorithm).unwrap();
    let public = Public(key.public_key().to_vec());
    let own = ca("Istio CA", BasicConstraints::Constrained(0));
    let own_pem = own.signed_by(&public, &middle).unwrap().pem();
    let read = |pem: &str| Certificate::from_pem(pem.as_bytes()).unwrap();
    let parts = Parts {
        certificate: read(&own_pem).remove(0),
        key,
        chain: read(&[own_pem, middle_pem].concat()),
        roots: read(&root_pem),
        crl: None,
    };
    Issuer::new(parts, SystemTime::now()).unwrap()
}

/// A public key as rcgen wants it: without the SubjectPublicKeyInfo around it.
struct Public(Vec<u8>);

impl rcgen::PublicKeyData for Public {
    fn der_bytes(&self) -> &[u8] {
        &self.0[self.header()..]
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        match self.0.len() {
            91 => &rcgen::PKCS_ECDSA_P256_SHA256,
            120 => &rcgen::PKCS_ECDSA_P384_SHA384,
            _ => &rcgen::PKCS_RSA_SHA256,
        }
    }
}

impl Public {
    /// How much stands before the bits of the key.
    fn header(&self) -> usize {
        match self.0.len() {
            91 => 26,
            120 => 23,
            _ => 24,
        }
    }
}

async fn sign(authority: &Authority, algorithm: KeyAlgorithm, name: &str) -> Issued {
    let key = PrivateKey::generate(algorithm).unwrap();
    // Who asks for another's name gets its own.
    let csr = Csr::make(&key, &["spiffe://cluster.local/ns/bank/sa/safe"]).unwrap();
    let request = SigningRequest {
        csr,
        sans: vec![name.into()],
        ttl: Some(HOUR),
        signer: None,
    };
    let issued = authority.signer().sign(request).await.unwrap();
    let leaf = Certificate::from_pem(issued.chain[0].as_bytes()).unwrap();
    assert_eq!(leaf[0].public_key(), key.public_key());
    assert_eq!(leaf[0].names(), [name]);
    issued
}

fn fixed(issuer: Issuer) -> Authority {
    Authority::fixed(issuer, Lifetimes::default(), system_clock())
}

#[tokio::test]
async fn chains_are_taken_by_openssl_go_and_rustls_while_they_are_valid() {
    let mut all = Vec::new();
    for of_ca in ALGORITHMS {
        for issuer in [self_signed(of_ca), plugged_in(of_ca)] {
            let authority = fixed(issuer);
            for of_leaf in ALGORITHMS {
                for name in [WORKLOAD, "istiod.istio-system.svc"] {
                    all.push((sign(&authority, of_leaf, name).await, name));
                }
            }
        }
    }
    assert_eq!(all.len(), 36);
    let now = SystemTime::now();
    let other = self_signed(KeyAlgorithm::EcdsaP256);
    let other = other.roots()[0].pem();
    let mut cases = Vec::new();
    for (issued, name) in &all {
        let case = |at, roots| Case {
            chain: &issued.chain,
            roots,
            name,
            at,
        };
        cases.push((case(now, &issued.roots), true));
        cases.push((case(now - Duration::from_secs(60), &issued.roots), true));
        cases.push((case(now + 2 * HOUR, &issued.roots), false));
        cases.push((case(now, &other), false));
    }
    let dir = tempfile::tempdir().unwrap();
    for (case, taken) in &cases {
        assert_eq!(case.rustls(), *taken);
        let Some((verdict, shown)) = case.openssl(dir.path()) else {
            continue;
        };
        assert_eq!(verdict, *taken, "{shown}");
        for line in [
            "X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment",
            "TLS Web Server Authentication, TLS Web Client Authentication",
            "X509v3 Basic Constraints: critical\n                CA:FALSE",
            "X509v3 Subject Alternative Name: critical",
            case.name,
        ] {
            assert!(shown.contains(line), "{line:?} in {shown}");
        }
    }
    let (cases, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    if let Some(lines) = go(&cases) {
        let taken: Vec<bool> = lines.iter().map(|line| line.ends_with(" taken")).collect();
        assert_eq!(taken, expected, "{lines:#?}");
    }
}

#[tokio::test]
async fn how_long_a_certificate_is_valid_is_bounded() {
    let issuer = self_signed(KeyAlgorithm::EcdsaP256);
    let ends = issuer.not_after();
    let authority = fixed(issuer);
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let request = |ttl| SigningRequest {
        csr: Csr::make(&key, &[WORKLOAD]).unwrap(),
        sans: vec![WORKLOAD.into()],
        ttl,
        signer: None,
    };
    let signer = authority.signer();
    let left = async |ttl| {
        let issued = signer.sign(request(ttl)).await.unwrap();
        issued.not_after.duration_since(SystemTime::now()).unwrap()
    };
    let about = |found: Duration, wanted: Duration| {
        assert!(
            found <= wanted && found + Duration::from_secs(60) > wanted,
            "{found:?}"
        );
    };
    about(left(None).await, 24 * HOUR);
    about(left(Some(Duration::ZERO)).await, 24 * HOUR);
    about(left(Some(HOUR)).await, HOUR);
    let longest = signer.sign(request(Some(20 * 24 * HOUR))).await.unwrap();
    assert_eq!(longest.not_after, ends, "no leaf outlives its CA");
    let refused = signer
        .sign(request(Some(91 * 24 * HOUR)))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.label(), refused.is_of_request()),
        ("TTL_ERROR", true)
    );
}

#[tokio::test]
async fn an_expired_ca_signs_nothing() {
    let issuer = self_signed(KeyAlgorithm::EcdsaP256);
    let late = issuer.not_after();
    let authority = Authority::fixed(issuer, Lifetimes::default(), Arc::new(move || late));
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let request = SigningRequest {
        csr: Csr::make(&key, &[WORKLOAD]).unwrap(),
        sans: vec![WORKLOAD.into()],
        ttl: None,
        signer: None,
    };
    let refused = authority.signer().sign(request).await.unwrap_err();
    assert!(matches!(refused, SignError::Failed(_)), "{refused:?}");
}
